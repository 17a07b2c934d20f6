//! How a request becomes an operation, the same for each: nothing is written unless every check passes.
//!
//! ```text
//! body ─► instance ─► If-Match ─► can_begin ─► support ─► skipped hooks ─► target of the row ─► VIM registered?
//!      ─► parameters of hooks ─► one transaction: occurrence in its initial state, the instance's one active operation,
//!                                the row's own changes, the first notification
//!      ^                           └─ the record was changed concurrently, for example from its VIM: again
//! ```

use super::operation::{
    Begin, Dependant, Expected, Operation, Requested, SnapshotUse, Target, malformed,
};
use super::operation_control::{self, Beginning};
use super::step::HookOf;
use crate::context::Context;
use crate::deployment::Deployment;
use crate::hooks;
use crate::overrides::SkipHooks;
use crate::patch::merge_patch;
use crate::ports::{InstanceRecord, Replacement, StoreError, without_own_params};
use crate::query::VisibilityScope;
use crate::redact::{Redactor, redact};
use crate::refusal::{self, Refusal, Why};
use crate::vims;
use serde_json::Value;
use std::sync::Arc;
use vnfm_types::InstantiationState;

/// How often a request is checked again because the instance's record was changed concurrently.
const MAX_ATTEMPTS: u32 = 3;

/// Accepts an operation: its occurrence exists in its initial state when this returns its id.
pub(crate) async fn begin(
    context: &Context,
    tenant: &str,
    instance_id: &str,
    begin: Begin<'_>,
) -> Result<String, Refusal> {
    let mut attempt = 1;
    loop {
        let (instance, beginning) = accept(context, tenant, instance_id, &begin).await?;
        match operation_control::begin(context, instance, beginning).await {
            Err(StoreError::Changed { .. }) if attempt < MAX_ATTEMPTS => attempt += 1,
            begun => return begun.map_err(operation_control::not_begun),
        }
    }
}

/// As [`begin`], but writes nothing: the operation's row, and the deployment that its steps would work on.
pub(crate) async fn try_to_begin(
    context: &Context,
    tenant: &str,
    instance_id: &str,
    begin: Begin<'_>,
) -> Result<Tried, Refusal> {
    let (instance, beginning) = accept(context, tenant, instance_id, &begin).await?;
    let target = &beginning.target;
    let skipped = beginning.skip.as_ref().map(|skip| skip.hooks.clone());
    let tried = Tried {
        operation: beginning.operation,
        op_id: beginning.id.clone(),
        instance: instance.clone(),
        target: target.deployment.clone(),
        replace: target.replace.clone(),
        modifies: target.modifies.clone(),
        snapshot: target.snapshot.clone(),
        skipped_hooks: skipped.unwrap_or_default(),
        cascade: beginning.cascade,
        retain: target.retain.clone(),
        dependants: target.dependants.clone(),
    };
    operation_control::try_to_begin(context, instance, beginning).await?;
    Ok(tried)
}

/// An operation that could begin; see [`Target`].
pub(crate) struct Tried {
    pub(crate) operation: &'static Operation,
    /// The id that it would have.
    pub(crate) op_id: String,
    pub(crate) instance: InstanceRecord,
    pub(crate) target: Option<Arc<Deployment>>,
    pub(crate) replace: Replacement,
    pub(crate) modifies: Vec<String>,
    pub(crate) snapshot: Option<SnapshotUse>,
    pub(crate) skipped_hooks: Vec<String>,
    pub(crate) cascade: bool,
    /// Ids of the storages that outlive the instance.
    pub(crate) retain: Vec<String>,
    pub(crate) dependants: Vec<Dependant>,
}

/// Makes every check, in the order at the top of the file.
async fn accept(
    context: &Context,
    tenant: &str,
    instance_id: &str,
    begin: &Begin<'_>,
) -> Result<(InstanceRecord, Beginning), Refusal> {
    let operation = begin.operation;
    let body = operation.body.read(&begin.body).map_err(|_| malformed())?;
    let instance = context.store().instance(tenant, instance_id).await?;
    check_unchanged(&instance, begin.expected)?;
    operation.can_begin(&instance)?;
    operation.check_support(context, &instance).await?;
    let skip = checked_skip(operation, begin.skip.clone())?;
    check_cascade(operation, begin.cascade)?;
    let id = uuid::Uuid::new_v4().to_string();
    let everything = VisibilityScope::default();
    let requested = Requested {
        context,
        instance: &instance,
        op_id: &id,
        scope: begin.scope.unwrap_or(&everything),
        body: &body,
        cascade: begin.cascade,
    };
    let target = (operation.target)(&requested).await?;
    let has_resources = instance.vnf.instantiation_state == InstantiationState::Instantiated;
    if operation.uses_vim && has_resources {
        vims::check_registered(context, &instance).await?;
    }
    let skipped = skip.as_ref().map(|skip| &skip.hooks[..]);
    let skipped = skipped.unwrap_or_default();
    let redacted = redacted(&requested, operation, &target, skipped).await?;
    let beginning = Beginning {
        operation,
        id,
        target,
        redacted,
        skip,
        cascade: begin.cascade,
        automatic: begin.automatic,
    };
    Ok((instance, beginning))
}

/// Refuses if the instance changed since the caller read it.
///
/// # Errors
///
/// `Stale` if the condition does not hold.
pub(crate) fn check_unchanged(
    instance: &InstanceRecord,
    expected: Option<Expected<'_>>,
) -> Result<(), Refusal> {
    if expected.is_none_or(|expected| expected(instance)) {
        return Ok(());
    }
    let id = &instance.vnf.id;
    let what = format!("VNF instance `{id}` has changed since it was read");
    Err(Refusal::new(Why::Stale, &refusal::STALE, what))
}

/// The hooks to skip: each must be one of the operation, and there must be a reason.
fn checked_skip(
    operation: &Operation,
    skip: Option<SkipHooks>,
) -> Result<Option<SkipHooks>, Refusal> {
    let known = if operation.skippable_hooks {
        operation.hooks()
    } else {
        Vec::new()
    };
    skip.map(|skip| skip.checked(&known)).transpose()
}

/// Refuses a cascade of an operation that terminates nothing.
fn check_cascade(operation: &Operation, cascade: bool) -> Result<(), Refusal> {
    if !cascade || operation.cascades() {
        return Ok(());
    }
    let what = format!("{} does not terminate other VNF instances", operation.kind);
    Err(Refusal::new(Why::Unprocessable, &refusal::NO_CASCADE, what))
}

/// The request as shown to clients. Checks its parameters, merged over those of the deployment, against the hooks.
async fn redacted(
    requested: &Requested<'_>,
    operation: &'static Operation,
    target: &Target,
    skipped: &[String],
) -> Result<Value, Refusal> {
    let redacted = || redact(&target.body, None, &mut Redactor::default());
    let deployed = requested.instance.deployment.as_deref();
    let (true, Some(wanted)) = (operation.checks_parameters, target.deployment.as_deref()) else {
        return Ok(redacted());
    };
    // Without its package the parameters cannot be checked here; the first step that needs the package reports that.
    let Ok(package) = requested.package().await else {
        return Ok(redacted());
    };
    let mut params = deployed.map(|deployed| deployed.additional_params.clone());
    let own = target.body["additionalParams"].as_object().cloned();
    let own = own.map(without_own_params);
    match (&mut params, own) {
        (Some(params), Some(own)) => merge_patch(params, Some(&own)),
        (None, own) => params = own,
        (Some(_), None) => {}
    }
    let context = requested.context;
    let check = hooks::ParameterCheck {
        package: &package,
        flavour: &wanted.flavour_id,
        interface_operation: operation.interface_operation,
        params: &params.unwrap_or_default(),
        skipped,
        deployed,
    };
    let old = deployed.filter(|old| wanted.leaves_package(&old.vnf_pkg_id));
    let Some(old) = old else {
        return hooks::check_parameters(context, &check, &target.body);
    };
    // Of each package, the hooks that the operation calls; the new one's interface declares the parameters.
    let skipping = |of: HookOf| {
        let others = operation.steps.iter().filter(|step| step.hook_of() != of);
        let others = others.map(|step| step.name.to_owned());
        skipped.iter().cloned().chain(others).collect::<Vec<_>>()
    };
    let of_old = hooks::ParameterCheck {
        flavour: &old.flavour_id,
        interface_operation: operation.interface_operation,
        skipped: &skipping(HookOf::Before),
        ..check
    };
    let checked = hooks::check_hook_parameters(context, &of_old, &target.body)?;
    let packages = &context.ports.packages;
    let package = packages
        .package(requested.tenant(), &wanted.vnf_pkg_id)
        .await;
    let of_new = hooks::ParameterCheck {
        package: &*package.map_err(Refusal::unprocessable)?,
        skipped: &skipping(HookOf::Target),
        deployed: Some(wanted),
        ..check
    };
    hooks::check_parameters(context, &of_new, &checked)
}

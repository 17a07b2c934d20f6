//! One call of a hook: its driver, its request, and the host services that it may use.

use super::dependents;
use super::op_context::Op;
use crate::hooks::{
    CheckpointSizes, HookCredentials, HookOutput, Host, Pending, Requested, UNDECLARED, can_undo,
    check_effects, check_implements, driver_of, plugin_of,
};
use crate::patch::merge_patch;
use crate::ports::{
    DriverId, Effects, HookArtifact, HookDependent, HookDriverRef, HookInstance, HookRequest,
    HookState, HookVim, Inventory, MgmtDriver, PortError, VimRecord, without_own_params,
};
use crate::redact::{Redactor, redact};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use vnfm_descriptor::Hook;
use vnfm_types::LcmOperationType;

/// Calls hook `name` of `op`.
///
/// # Errors
///
/// The hook's error, or what kept it from running.
pub(super) async fn run(
    op: &Op,
    name: &str,
    inventory: &Inventory,
) -> Result<HookOutput, PortError> {
    let Some(hook) = op.hook(name)? else {
        return Ok(HookOutput::default());
    };
    let driver = driver_for(op, hook)?;
    warn_if_replaced(op, hook, &*driver);
    let requested = Requested::default();
    let request = request(op, hook, inventory).await?;
    let effects = call(op, hook, (&*driver, &requested), request).await?;
    for vim in &effects.register_vims {
        let mut found = Redactor::default();
        found.add(&Value::Object(vim.access_info.clone()));
        op.live.add_secrets(&found);
    }
    let credentials = HookCredentials {
        credentials: requested.secrets(),
    };
    Ok(HookOutput {
        effects,
        credentials,
    })
}

/// Undoes hook `name` of `op`; does nothing if the hook has no undo.
///
/// # Errors
///
/// The hook's error; or that its MgmtDriver, which declared an undo when the hook began, is no longer available.
pub(super) async fn undo(op: &Op, name: &str, inventory: &Inventory) -> Result<(), PortError> {
    let row = op.rows.get(name);
    if !row
        .and_then(|row| row.hook.as_ref())
        .is_some_and(|hook| hook.can_undo)
    {
        return Ok(());
    }
    let Some(hook) = op.hook(name)? else {
        return Ok(());
    };
    let driver = driver_for(op, hook)?;
    if !can_undo(&*driver, name) {
        let declaration = driver.declaration();
        let what = format!(
            "`{}` {} does not declare an undo",
            declaration.name, declaration.version
        );
        return Err(PortError::new(
            &UNDECLARED,
            format!("undo hook `{name}`"),
            what,
        ));
    }
    let mut request = request(op, hook, inventory).await?;
    request.undo = true;
    let requested = Requested::default();
    let effects = call(op, hook, (&*driver, &requested), request).await?;
    if let Some(message) = effects.message {
        op.watcher().log("info", name, &message);
    }
    Ok(())
}

/// The state of hook `name` for its next call; `None` if no driver serves it.
pub(super) fn state(op: &Op, name: &str) -> Option<HookState> {
    let hook = op.hook(name).ok()??;
    let driver = driver_for(op, hook).ok()?;
    Some(HookState {
        implementation: hook.implementation.clone(),
        plugin: plugin_of(hook).map(ToOwned::to_owned),
        driver: driver.id(),
        can_undo: can_undo(&*driver, name),
    })
}

/// The driver with which `op` began, or else the one that serves its instance.
fn driver_for(op: &Op, hook: &Hook) -> Result<Arc<dyn MgmtDriver>, PortError> {
    let package = op.package_of_hook(&hook.operation)?;
    let Some(began) = first_driver(op, hook) else {
        let deployed = op.deployment_of_hook(&hook.operation);
        return driver_of(&op.context, deployed, package, hook);
    };
    let wanted = HookDriverRef::for_hook(hook, package).exact(began);
    check_implements(op.context.ports.mgmt.resolve(&wanted)?, hook)
}

/// The driver that this operation first called for hooks of the same package with the implementation of `hook`.
fn first_driver<'a>(op: &'a Op, hook: &Hook) -> Option<&'a DriverId> {
    let package = op.hook_of(&hook.operation);
    let rows = op.rows.values();
    let rows = rows.filter(|row| op.hook_of(&row.step) == package);
    let mut states = rows.filter_map(|row| row.hook.as_ref());
    let names = (hook.implementation.as_str(), plugin_of(hook));
    let state =
        states.find(|state| (state.implementation.as_str(), state.plugin.as_deref()) == names);
    state.map(|state| &state.driver)
}

/// Warns the operator if another version serves the instance than the one that instantiated it.
fn warn_if_replaced(op: &Op, hook: &Hook, driver: &dyn MgmtDriver) {
    let now = driver.id().versioned_name();
    let deployed = op.deployment_of_hook(&hook.operation);
    if let Some(own_version) = deployed.and_then(|before| before.plugins.get(&hook.implementation))
        && *own_version != now
    {
        let line = format!(
            "this instance was instantiated with `{own_version}`, which is no longer installed; continuing with `{now}`"
        );
        op.watcher().log("warn", &hook.operation, &line);
    }
}

async fn call(
    op: &Op,
    hook: &Hook,
    (driver, requested): (&dyn MgmtDriver, &Requested),
    request: HookRequest,
) -> Result<Effects, PortError> {
    let name = &hook.operation;
    if let Some(schema) = driver
        .declaration()
        .hooks
        .get(name)
        .and_then(|h| h.parameters.as_ref())
    {
        let mut found = Redactor::default();
        redact(
            &Value::Object(request.additional_params.clone()),
            Some(schema),
            &mut found,
        );
        op.live.add_secrets(&found);
    }
    let (vim, infra) = op.vim().await?;
    let pending = Pending::default();
    let host = Host {
        context: op.context.clone(),
        live: op.live.clone(),
        fence: op.fence.clone(),
        tenant: op.instance.tenant.clone(),
        instance_id: op.instance.vnf.id.clone(),
        step: name.clone(),
        is_undo: request.undo,
        package: op.package_of_hook(name)?.clone(),
        vim,
        infra,
        pending: pending.clone(),
        checkpoints: CheckpointSizes::default(),
        ownership: op.ownership.clone(),
        deadline: op.deadline,
        terminates: op.record.op.operation == LcmOperationType::Terminate,
        earlier_credentials: op.earlier_credentials()?,
        requested: requested.clone(),
        span: tracing::Span::current(),
    };
    let affected = request.dependents.clone();
    let result = driver.call(request, Arc::new(host)).await;
    // Also a hook that failed may have moved their VNFCs.
    dependents::refresh(op, &affected).await;
    let effects = result.map_err(|error| match pending.describe() {
        Some(calls) => error.with_detail(&op.live.redact(&calls)),
        None => error,
    })?;
    check_effects(effects)
}

async fn request(op: &Op, hook: &Hook, inventory: &Inventory) -> Result<HookRequest, PortError> {
    let vnf = &op.instance.vnf;
    let mut params = op.deployment()?.additional_params.clone();
    let own: Value = op.request()?;
    if let Some(own) = own.get("additionalParams").and_then(Value::as_object) {
        merge_patch(&mut params, Some(&without_own_params(own.clone())));
    }
    let mut vims = op.context.store().vims(op.tenant()).await?;
    vims.retain(|record| record.vim.registered_by.as_deref() == Some(vnf.id.as_str()));
    let mut request = HookRequest::new(op.record.op.operation.to_string(), &hook.operation, params);
    request.instance = instance(op, &hook.operation)?;
    request.inventory = inventory.clone();
    request.inputs = serde_json::to_value(&hook.inputs)
        .ok()
        .and_then(|inputs| inputs.as_object().cloned())
        .unwrap_or_default();
    request.dependents = live_dependents(op, &vims).await?;
    let vims = vims.into_iter().map(|record| record.vim);
    request.vims = vims
        .map(|vim| HookVim::new(vim.id, vim.name, vim.vim_type))
        .collect();
    request.artifacts = hook.artifact.iter().filter_map(in_package).collect();
    let deadline = op.deadline - hook_margin(op.context.limits().hook);
    request.deadline = deadline.to_string();
    request.attempt = op.rows.get(&hook.operation).map_or(1, |row| row.attempt);
    (op.operation.hook_request)(op, &mut request)?;
    Ok(request)
}

/// The instance as a hook sees it.
fn instance(op: &Op, step: &str) -> Result<HookInstance, PortError> {
    let vnf = &op.instance.vnf;
    let mut instance = HookInstance::default();
    instance.id.clone_from(&vnf.id);
    instance
        .vnf_instance_name
        .clone_from(&vnf.vnf_instance_name);
    instance.vnfd_id.clone_from(&vnf.vnfd_id);
    instance.vnf_provider.clone_from(&vnf.vnf_provider);
    instance.vnf_product_name.clone_from(&vnf.vnf_product_name);
    instance
        .vnf_software_version
        .clone_from(&vnf.vnf_software_version);
    instance.vnfd_version.clone_from(&vnf.vnfd_version);
    instance.vdus = op.flavour_of_hook(step)?.vdus.keys().cloned().collect();
    let info = vnf.instantiated_vnf_info.as_ref();
    instance.vnf_state = info.map(|info| info.vnf_state.to_string());
    instance.metadata.clone_from(&vnf.metadata);
    Ok(instance)
}

/// Margin by which a hook ends before its step, so that its error can name unanswered calls even on a busy machine.
fn hook_margin(limit: Duration) -> Duration {
    (limit / 10).min(Duration::from_secs(1))
}

/// The live VNF instances on `vims`, which the instance of `op` registered.
async fn live_dependents(op: &Op, vims: &[VimRecord]) -> Result<Vec<HookDependent>, PortError> {
    let store = op.context.store();
    let mut found = BTreeMap::new();
    for record in vims {
        for lives in store.uses(op.tenant(), &record.vim.id).await? {
            if lives.tenant != op.tenant() {
                // Other tenants' instances are not identified, only their existence is.
                found.insert("of another tenant".to_owned(), None);
            } else if lives.instance_id != op.instance.vnf.id
                && !found.contains_key(&lives.instance_id)
            {
                let name = store.instance(op.tenant(), &lives.instance_id).await?;
                found.insert(lives.instance_id, name.vnf.vnf_instance_name);
            }
        }
    }
    let found = found.into_iter();
    Ok(found
        .map(|(id, name)| HookDependent::new(id, name))
        .collect())
}

/// Describes an artifact file of the package; `None` if the artifact names an installed plugin.
fn in_package(artifact: &vnfm_descriptor::Artifact) -> Option<HookArtifact> {
    let path = artifact.file.as_ref()?;
    Some(HookArtifact::new(&artifact.name, path, &artifact.kind))
}

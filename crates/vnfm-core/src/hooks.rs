//! Hooks: from the VNFD's `Vnflcm` interface to a call of a MgmtDriver, and the host services available to it.
//!
//! A hook is an ordinary journaled step. It returns the changes it wants as [`Effects`]; the engine applies them. A hook
//! that declares `undo` is undone on rollback, by a second call with that flag.

mod bounds;
mod host;

use crate::deployment::Deployment;
use crate::engine::Engine;
use crate::lcm::{Op, Operation, crash_suspects, hook_journal};
use crate::ports::{
    Code, DriverId, Effects, ErrorKind, HookArtifact, HookDependent, HookDriverRef, HookInstance,
    HookRequest, HookState, HookVim, Inventory, MgmtDriver, PortError, VimRecord,
};
use crate::redact::{Redactor, redact};
use crate::refusal::{self, Refusal, Why};
use bounds::CheckpointSizes;
use host::{Host, Pending};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use vnfm_descriptor::{Hook, Package};
use vnfm_types::KeyValuePairs;

/// Parameters of a request, to be checked against the hooks.
pub(crate) struct ParameterCheck<'a> {
    /// The package that names the hooks.
    pub(crate) package: &'a Package,
    /// Flavour of the instance: `flavourId` of the request.
    pub(crate) flavour: &'a str,
    /// The operation that is requested.
    pub(crate) operation: &'static Operation,
    /// Parameters for the hooks, merged.
    pub(crate) params: &'a KeyValuePairs,
    /// Names of hooks that will be skipped.
    pub(crate) skipped: &'a [String],
    /// Current deployment of an INSTANTIATED instance: it keeps its plugins.
    pub(crate) deployed: Option<&'a Deployment>,
}

/// Finds the MgmtDriver of every hook that the operation may call (for a new deployment, of all hooks of the flavour),
/// validates the parameters against the schemas of the operation's hooks, and returns the request's `body` redacted.
///
/// # Errors
///
/// `Unprocessable`, naming the hook or the member.
pub(crate) fn check_parameters(
    engine: &Engine,
    check: &ParameterCheck<'_>,
    body: &Value,
) -> Result<Value, Refusal> {
    let mut redacted = redact(body, None, &mut Redactor::default());
    let flavour = check.package.vnfd().flavours.get(check.flavour);
    let Some(flavour) = flavour else {
        return Ok(redacted);
    };
    let params = Value::Object(check.params.clone());
    if let Some(schema) = flavour.additional_params_schema(check.operation.interface_operation) {
        check_schema(engine, schema, &params, "the VNFD's interface")?;
    }
    let interface_operation = check.operation.interface_operation;
    for hook in flavour.hooks() {
        let own = is_hook_of(interface_operation, &hook.operation);
        let is_new = check.deployed.is_none();
        if check.skipped.contains(&hook.operation) || !(own || is_new) {
            continue;
        }
        let driver = driver_of(engine, check.deployed, check.package, hook).map_err(no_driver)?;
        let declared = driver.declaration().hooks.get(&hook.operation);
        let Some(schema) = declared.and_then(|hook| hook.parameters.as_ref()) else {
            continue;
        };
        if own {
            let name = format!(
                "hook `{}` of `{}`",
                hook.operation,
                driver.declaration().name
            );
            check_schema(engine, schema, &params, &name)?;
            let params = redact(
                &redacted["additionalParams"],
                Some(schema),
                &mut Redactor::default(),
            );
            if !params.is_null() {
                redacted["additionalParams"] = params;
            }
        }
    }
    Ok(redacted)
}

/// True for `change_flavour_start` and `change_flavour_end` of `change_flavour`.
fn is_hook_of(interface_operation: &str, hook: &str) -> bool {
    let moment = hook.strip_prefix(interface_operation);
    matches!(moment, Some("_start" | "_end"))
}

fn no_driver(error: PortError) -> Refusal {
    let refusal = Refusal::unprocessable(error);
    Refusal {
        code: &refusal::NO_DRIVER,
        ..refusal
    }
}

/// Reports all schema violations at once.
fn check_schema(
    engine: &Engine,
    schema: &Value,
    params: &Value,
    owner: &str,
) -> Result<(), Refusal> {
    let schemas = &engine.parts.schemas;
    let violations = schemas
        .violations(schema, params, "additionalParams")
        .map_err(|error| {
            let what = format!("the schema of {owner} cannot be used: {error}");
            Refusal::new(Why::Broken, &SCHEMA, what)
        })?;
    if violations.is_empty() {
        return Ok(());
    }
    let what = format!(
        "additionalParams violate the schema of {owner}: {}",
        violations.join("; ")
    );
    Err(Refusal::new(
        Why::Unprocessable,
        &refusal::BAD_PARAMETERS,
        what,
    ))
}

/// The driver that serves `hook` in new operations. For a deployed instance: the version that instantiated it, as
/// long as it is installed.
///
/// # Errors
///
/// `Refused` if there is none, or it does not implement the hook.
pub(crate) fn driver_of(
    engine: &Engine,
    deployed: Option<&Deployment>,
    package: &Package,
    hook: &Hook,
) -> Result<Arc<dyn MgmtDriver>, PortError> {
    let (mgmt, wanted) = (&engine.parts.mgmt, HookDriverRef::for_hook(hook, package));
    let own_version = deployed.and_then(|deployment| deployment.plugins.get(&hook.implementation));
    let Some(own_version) = own_version else {
        return check_implements(mgmt.for_hook(&wanted)?, hook);
    };
    // The instance's own version first: an instance that does not use the newest one must not depend on it.
    let own = mgmt.for_deployed_hook(own_version, &wanted);
    if let Ok(own) = &own
        && versioned_name(&own.id()) == *own_version
    {
        return check_implements(own.clone(), hook);
    }
    let newest = mgmt.for_hook(&wanted).map_err(|error| match own {
        Err(own) if own.name() != error.name() => error.with_detail(&format!(
            "`{own_version}`, which instantiated it, does not serve it either: {own}"
        )),
        _ => error,
    })?;
    check_implements(newest, hook)
}

/// Metadata member in which `instantiatedVnfInfo` shows [`Deployment::plugins`].
pub(crate) const PLUGINS_MEMBER: &str = "mgmtDrivers";

pub(crate) fn versioned_name(driver: &DriverId) -> String {
    format!("{}@{}", driver.name, driver.version)
}

/// The driver with which `op` began, or else the one that serves its instance.
fn driver_for(op: &Op, hook: &Hook) -> Result<Arc<dyn MgmtDriver>, PortError> {
    let Some(began) = hook_journal::driver(op, hook) else {
        let deployed = op.record.before.as_deref();
        return driver_of(&op.engine, deployed, op.package()?, hook);
    };
    check_implements(
        op.engine
            .parts
            .mgmt
            .for_running_hook(began, &HookDriverRef::for_hook(hook, op.package()?))?,
        hook,
    )
}

/// Warns the operator if another version serves the instance than the one that instantiated it.
fn warn_if_replaced(op: &Op, hook: &Hook, driver: &dyn MgmtDriver) {
    let now = versioned_name(&driver.id());
    let deployed = op.record.before.as_ref();
    if let Some(own_version) = deployed.and_then(|before| before.plugins.get(&hook.implementation))
        && *own_version != now
    {
        let line = format!(
            "this instance was instantiated with `{own_version}`, which is no longer installed; continuing with `{now}`"
        );
        op.watcher().log("warn", &hook.operation, &line);
    }
}

/// The state of hook `name` for its next call; `None` if no driver serves it.
pub(crate) fn state(op: &Op, name: &str) -> Option<HookState> {
    let hook = op.flavour().ok()?.hook(name)?;
    let driver = driver_for(op, hook).ok()?;
    Some(HookState {
        implementation: hook.implementation.clone(),
        plugin: plugin_of(hook).map(ToOwned::to_owned),
        driver: driver.id(),
        can_undo: can_undo(&*driver, name),
    })
}

/// The plugin that the hook's artifact names.
pub(crate) fn plugin_of(hook: &Hook) -> Option<&str> {
    hook.artifact
        .as_ref()
        .and_then(|artifact| artifact.plugin())
}

fn check_implements(
    driver: Arc<dyn MgmtDriver>,
    hook: &Hook,
) -> Result<Arc<dyn MgmtDriver>, PortError> {
    if driver.declaration().hooks.contains_key(&hook.operation) {
        return Ok(driver);
    }
    let declaration = driver.declaration();
    let what = format!(
        "`{}` {} does not implement it",
        declaration.name, declaration.version
    );
    Err(PortError::new(
        &UNDECLARED,
        format!("run hook `{}`", hook.operation),
        what,
    ))
}

/// Calls hook `name` of `op`.
///
/// # Errors
///
/// The hook's error, or what kept it from running.
pub(crate) async fn run(op: &Op, name: &str, inventory: &Inventory) -> Result<Effects, PortError> {
    let Some(hook) = op.flavour()?.hook(name) else {
        return Ok(Effects::default());
    };
    let driver = driver_for(op, hook)?;
    warn_if_replaced(op, hook, &*driver);
    let effects = call(op, hook, &*driver, request(op, hook, inventory).await?).await?;
    for vim in &effects.register_vims {
        let mut found = Redactor::default();
        found.add(&Value::Object(vim.access_info.clone()));
        op.live.add_secrets(&found);
    }
    Ok(effects)
}

/// Undoes hook `name` of `op`; does nothing if the hook has no undo.
///
/// # Errors
///
/// The hook's error; or that its MgmtDriver, which declared an undo when the hook began, is no longer available.
pub(crate) async fn undo(op: &Op, name: &str, inventory: &Inventory) -> Result<(), PortError> {
    let row = op.rows.get(name);
    if !row
        .and_then(|row| row.hook.as_ref())
        .is_some_and(|hook| hook.can_undo)
    {
        return Ok(());
    }
    let Some(hook) = op.flavour()?.hook(name) else {
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
    let effects = call(op, hook, &*driver, request).await?;
    if let Some(message) = effects.message {
        op.watcher().log("info", name, &message);
    }
    Ok(())
}

pub(crate) fn can_undo(driver: &dyn MgmtDriver, name: &str) -> bool {
    driver
        .declaration()
        .hooks
        .get(name)
        .is_some_and(|hook| hook.undo)
}

async fn call(
    op: &Op,
    hook: &Hook,
    driver: &dyn MgmtDriver,
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
        engine: op.engine.clone(),
        live: op.live.clone(),
        fence: op.fence.clone(),
        tenant: op.instance.tenant.clone(),
        instance_id: op.instance.vnf.id.clone(),
        step: name.clone(),
        package: op.package()?.clone(),
        vim,
        infra,
        pending: pending.clone(),
        checkpoints: CheckpointSizes::default(),
        span: tracing::Span::current(),
    };
    let effects = driver
        .call(request, Arc::new(host))
        .await
        .map_err(|error| match pending.describe() {
            Some(calls) => error.with_detail(&op.live.redact(&calls)),
            None => error,
        })?;
    bounds::check_effects(effects)
}

async fn request(op: &Op, hook: &Hook, inventory: &Inventory) -> Result<HookRequest, PortError> {
    let vnf = &op.instance.vnf;
    let mut params = op.deployment()?.additional_params.clone();
    let own: Value = op.request()?;
    if let Some(own) = own.get("additionalParams").and_then(Value::as_object) {
        merge_params(&mut params, own);
    }
    let mut vims = op.engine.store().vims(op.tenant()).await?;
    vims.retain(|record| record.vim.registered_by.as_deref() == Some(vnf.id.as_str()));
    let mut request = HookRequest::new(op.record.op.operation.to_string(), &hook.operation, params);
    request.instance = instance(op)?;
    request.inventory = inventory.clone();
    request.inputs = serde_json::to_value(&hook.inputs)
        .ok()
        .and_then(|inputs| inputs.as_object().cloned())
        .unwrap_or_default();
    request.dependents = dependents(op, &vims).await?;
    let vims = vims.into_iter().map(|record| record.vim);
    request.vims = vims
        .map(|vim| HookVim::new(vim.id, vim.name, vim.vim_type))
        .collect();
    request.artifacts = hook.artifact.iter().filter_map(in_package).collect();
    let deadline = op.deadline - hook_margin(op.engine.limits().hook);
    request.deadline = deadline.to_string();
    request.attempt = op.rows.get(&hook.operation).map_or(1, |row| row.attempt);
    (op.operation.hook_request)(op, &mut request)?;
    Ok(request)
}

/// The instance as a hook sees it.
fn instance(op: &Op) -> Result<HookInstance, PortError> {
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
    instance.vdus = op.flavour()?.vdus.keys().cloned().collect();
    instance.metadata.clone_from(&vnf.metadata);
    Ok(instance)
}

/// Margin by which a hook ends before its step, so that its error can name unanswered calls even on a busy machine.
fn hook_margin(limit: Duration) -> Duration {
    (limit / 10).min(Duration::from_secs(1))
}

/// The live VNF instances on `vims`, which the instance of `op` registered.
async fn dependents(op: &Op, vims: &[VimRecord]) -> Result<Vec<HookDependent>, PortError> {
    let store = op.engine.store();
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

/// Merges `own` into `params`: objects member by member, other values replaced; a null deletes (RFC 7396).
pub(crate) fn merge_params(params: &mut KeyValuePairs, own: &KeyValuePairs) {
    for (name, value) in own {
        match (params.get_mut(name), value) {
            (_, Value::Null) => drop(params.remove(name)),
            (Some(Value::Object(old)), Value::Object(new)) => merge_params(old, new),
            _ => drop(params.insert(name.clone(), value.clone())),
        }
    }
}

/// Describes an artifact file of the package; `None` if the artifact names an installed plugin.
fn in_package(artifact: &vnfm_descriptor::Artifact) -> Option<HookArtifact> {
    let path = artifact.file.as_ref()?;
    Some(HookArtifact::new(&artifact.name, path, &artifact.kind))
}

const SCHEMA: Code = Code {
    name: "hook.schema",
    kind: ErrorKind::Broken,
    means: "a MgmtDriver or the VNFD declares a parameter schema that is not valid JSON Schema",
    next: "report it to the author of the plugin or the VNFD",
};
const UNDECLARED: Code = Code {
    name: "hook.undeclared",
    kind: ErrorKind::Refused,
    means: "the VNFD names a hook that its MgmtDriver does not implement",
    next: "use a version of the plugin that does, or remove the hook from the VNFD",
};
pub(crate) const CODES: &[&Code] = &[
    &SCHEMA,
    &UNDECLARED,
    &crate::ports::SERVICE,
    &host::ARTIFACT,
    &bounds::TOO_MUCH,
    &crate::ports::REPLACED,
    &crash_suspects::HOOK_DIED,
];

#[cfg(test)]
mod tests {
    use super::is_hook_of;

    #[test]
    fn a_hook_belongs_to_the_operation_in_its_name() {
        for (hook, operation) in [
            ("instantiate_end", "instantiate"),
            ("change_flavour_start", "change_flavour"),
            ("scale_to_level_end", "scale_to_level"),
            ("scale_start", "scale"),
        ] {
            assert!(is_hook_of(operation, hook), "{hook}");
            for other in ["instantiate", "change_flavour", "scale_to_level", "scale"] {
                assert_eq!(is_hook_of(other, hook), other == operation, "{hook}");
            }
        }
    }
}

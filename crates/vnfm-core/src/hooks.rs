//! Hooks: from the VNFD's `Vnflcm` interface to a MgmtDriver's call, and the host services that it may ask for.
//!
//! A hook is an ordinary journaled step. What it wants changed it returns as [`Effects`]; the engine applies them. A
//! hook that declares an opposite is undone on the way back, by a second call that says so.

mod bounds;
mod host;

use crate::deployment::Deployment;
use crate::engine::Engine;
use crate::lcm::{self, Op, hook_journal, suspicion};
use crate::ports::{
    Code, DriverId, Effects, ErrorKind, HookDependent, HookInstance, HookRequest, HookState,
    HookVim, Inventory, MgmtDriver, PortError, VimRecord, Wanted,
};
use crate::redact::{Redactor, redact};
use crate::refusal::{self, Refusal, Why};
use bounds::Remembered;
use host::{Host, Pending};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use vnfm_descriptor::{Hook, Package};
use vnfm_types::KeyValuePairs;

/// What a request asks of the hooks.
pub(crate) struct Asked<'a> {
    /// Whose hooks.
    pub(crate) package: &'a Package,
    /// Of which flavour.
    pub(crate) flavour: &'a str,
    /// Such as `instantiate`.
    pub(crate) operation: &'static str,
    /// What the hooks will be given.
    pub(crate) params: &'a KeyValuePairs,
    /// Hooks that will not be called.
    pub(crate) skipped: &'a [String],
    /// What the instance is, if it is INSTANTIATED: it keeps the plugins that serve it.
    pub(crate) deployed: Option<&'a Deployment>,
}

/// Finds the MgmtDriver of every hook that the operation may call (of an instantiation, that the flavour names), checks
/// the parameters by the schemas of the operation's hooks, and returns the request's `body` as it may be shown.
///
/// # Errors
///
/// `Unprocessable`, naming the hook or the member.
pub(crate) fn check_parameters(
    engine: &Engine,
    asked: &Asked<'_>,
    body: &Value,
) -> Result<Value, Refusal> {
    let mut shown = redact(body, None, &mut Redactor::default());
    let flavour = asked.package.vnfd().flavours.get(asked.flavour);
    let Some(flavour) = flavour else {
        return Ok(shown);
    };
    let params = Value::Object(asked.params.clone());
    if let Some(schema) = flavour.additional_params_schema(asked.operation) {
        fits(engine, schema, &params, "the VNFD's interface")?;
    }
    for hook in flavour.hooks() {
        let own = operation_of(&hook.operation) == asked.operation;
        if asked.skipped.contains(&hook.operation) || !(own || asked.operation == "instantiate") {
            continue;
        }
        let driver = driver_of(engine, asked.deployed, (asked.package, hook)).map_err(no_driver)?;
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
            fits(engine, schema, &params, &name)?;
            let redacted = redact(
                &shown["additionalParams"],
                Some(schema),
                &mut Redactor::default(),
            );
            if !redacted.is_null() {
                shown["additionalParams"] = redacted;
            }
        }
    }
    Ok(shown)
}

/// The operation that a hook belongs to: `change_flavour` for `change_flavour_start`.
fn operation_of(hook: &str) -> &str {
    hook.strip_suffix("_start")
        .or_else(|| hook.strip_suffix("_end"))
        .unwrap_or(hook)
}

fn no_driver(error: PortError) -> Refusal {
    let refusal = Refusal::unprocessable(error);
    Refusal {
        code: &refusal::NO_DRIVER,
        ..refusal
    }
}

/// All places where `params` do not fit `schema`, at once.
fn fits(engine: &Engine, schema: &Value, params: &Value, whose: &str) -> Result<(), Refusal> {
    let schemas = &engine.parts.schemas;
    let places = schemas
        .misfits(schema, params, "additionalParams")
        .map_err(|error| {
            let what = format!("the schema of {whose} cannot be used: {error}");
            Refusal::new(Why::Broken, &SCHEMA, what)
        })?;
    if places.is_empty() {
        return Ok(());
    }
    let what = format!("additionalParams do not fit {whose}: {}", places.join("; "));
    Err(Refusal::new(
        Why::Unprocessable,
        &refusal::BAD_PARAMETERS,
        what,
    ))
}

/// The driver that serves `hook` in operations that begin now: for an instance that is `deployed`, the version that
/// instantiated it, as long as it is installed.
///
/// # Errors
///
/// `Refused` where there is none, or it does not implement the hook.
pub(crate) fn driver_of(
    engine: &Engine,
    deployed: Option<&Deployment>,
    (package, hook): (&Package, &Hook),
) -> Result<Arc<dyn MgmtDriver>, PortError> {
    let (mgmt, wanted) = (&engine.parts.mgmt, Wanted::of(hook, package));
    let kept = deployed.and_then(|deployment| deployment.plugins.get(&hook.implementation));
    let Some(kept) = kept else {
        return declares(mgmt.for_hook(&wanted)?, hook);
    };
    // Its own first: that the newest cannot be loaded is nothing to an instance that does not use it.
    let own = mgmt.for_hook_kept(kept, &wanted);
    if let Ok(own) = &own
        && versioned(&own.id()) == *kept
    {
        return declares(own.clone(), hook);
    }
    let newest = mgmt.for_hook(&wanted).map_err(|error| match own {
        Err(own) if own.name() != error.name() => error.also(&format!(
            "`{kept}`, which instantiated it, does not serve it either: {own}"
        )),
        _ => error,
    })?;
    declares(newest, hook)
}

/// Where `instantiatedVnfInfo.metadata` shows [`Deployment::plugins`].
pub(crate) const DRIVERS: &str = "mgmtDrivers";

pub(crate) fn versioned(driver: &DriverId) -> String {
    format!("{}@{}", driver.name, driver.version)
}

/// The driver with which `op` began, else the one that serves operations of its instance.
fn driver_for(op: &Op, hook: &Hook) -> Result<Arc<dyn MgmtDriver>, PortError> {
    let Some(began) = hook_journal::driver(op, hook) else {
        let deployed = op.record.before.as_deref();
        return driver_of(&op.engine, deployed, (op.package()?, hook));
    };
    declares(
        op.engine
            .parts
            .mgmt
            .for_hook_again(began, &Wanted::of(hook, op.package()?))?,
        hook,
    )
}

/// Tells the operator where another version serves the instance than the one that instantiated it.
fn tell_if_replaced(op: &Op, hook: &Hook, driver: &dyn MgmtDriver) {
    let now = versioned(&driver.id());
    let deployed = op.record.before.as_ref();
    if let Some(kept) = deployed.and_then(|before| before.plugins.get(&hook.implementation))
        && *kept != now
    {
        let line = format!(
            "this instance was instantiated with `{kept}`, which is not there any more: `{now}` goes on"
        );
        op.watcher().log("warn", &hook.operation, &line);
    }
}

/// The state of the hook `name` of `op` as it is called now; `None` if no driver serves it.
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

/// The plugin that the artifact of a hook names.
pub(crate) fn plugin_of(hook: &Hook) -> Option<&str> {
    hook.artifact
        .as_ref()
        .and_then(|artifact| artifact.plugin())
}

fn declares(driver: Arc<dyn MgmtDriver>, hook: &Hook) -> Result<Arc<dyn MgmtDriver>, PortError> {
    if driver.declaration().hooks.contains_key(&hook.operation) {
        return Ok(driver);
    }
    let says = driver.declaration();
    let what = format!("`{}` {} does not implement it", says.name, says.version);
    Err(PortError::new(
        &UNDECLARED,
        format!("run hook `{}`", hook.operation),
        what,
    ))
}

/// Runs the hook `name` of `op`.
///
/// # Errors
///
/// What the hook says, or what kept it from running.
pub(crate) async fn run(op: &Op, name: &str, inventory: &Inventory) -> Result<Effects, PortError> {
    let Some(hook) = op.flavour()?.hook(name) else {
        return Ok(Effects::default());
    };
    let driver = driver_for(op, hook)?;
    tell_if_replaced(op, hook, &*driver);
    let effects = call(op, hook, &*driver, request(op, hook, inventory).await?).await?;
    for vim in &effects.register_vims {
        let mut found = Redactor::default();
        found.add(&Value::Object(vim.access_info.clone()));
        op.live.hide(&found);
    }
    Ok(effects)
}

/// Undoes what the hook `name` of `op` began; a hook that has no opposite is left as it is.
///
/// # Errors
///
/// What the hook says, or that its MgmtDriver, which declared an opposite when it began, is not there.
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
        let says = driver.declaration();
        let what = format!(
            "`{}` {} does not declare its opposite",
            says.name, says.version
        );
        return Err(PortError::new(
            &UNDECLARED,
            format!("undo hook `{name}`"),
            what,
        ));
    }
    let request = HookRequest {
        undo: true,
        ..request(op, hook, inventory).await?
    };
    let effects = call(op, hook, &*driver, request).await?;
    if let Some(said) = effects.message {
        op.watcher().log("info", name, &said);
    }
    Ok(())
}

fn can_undo(driver: &dyn MgmtDriver, name: &str) -> bool {
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
        op.live.hide(&found);
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
        remembered: Remembered::default(),
        span: tracing::Span::current(),
    };
    let effects = driver
        .call(request, Arc::new(host))
        .await
        .map_err(|error| match pending.told() {
            Some(calls) => error.also(&op.live.clean(&calls)),
            None => error,
        })?;
    bounds::allowed(effects)
}

async fn request(op: &Op, hook: &Hook, inventory: &Inventory) -> Result<HookRequest, PortError> {
    let vnf = &op.instance.vnf;
    let mut params = op.deployment()?.additional_params.clone();
    let own: Value = op.request()?;
    if let Some(own) = own.get("additionalParams").and_then(Value::as_object) {
        override_with(&mut params, own);
    }
    let mut vims = op.engine.store().vims(op.tenant()).await?;
    vims.retain(|record| record.vim.registered_by.as_deref() == Some(vnf.id.as_str()));
    let dependents = dependents(op, &vims).await?;
    Ok(HookRequest {
        schema_version: 1,
        operation: op.record.op.operation,
        hook: hook.operation.clone(),
        undo: false,
        instance: HookInstance {
            id: vnf.id.clone(),
            vnf_instance_name: vnf.vnf_instance_name.clone(),
            vnfd_id: vnf.vnfd_id.clone(),
            vnf_provider: vnf.vnf_provider.clone(),
            vnf_product_name: vnf.vnf_product_name.clone(),
            vnf_software_version: vnf.vnf_software_version.clone(),
            vnfd_version: vnf.vnfd_version.clone(),
            metadata: vnf.metadata.clone(),
        },
        inventory: inventory.clone(),
        additional_params: params,
        inputs: serde_json::to_value(&hook.inputs)
            .ok()
            .and_then(|inputs| inputs.as_object().cloned())
            .unwrap_or_default(),
        dependents,
        vims: vims
            .into_iter()
            .map(|r| HookVim {
                id: r.vim.id,
                name: r.vim.name,
                vim_type: r.vim.vim_type,
            })
            .collect(),
        heal: lcm::heal::told(op)?,
        artifacts: hook.artifact.iter().filter_map(in_package).collect(),
        deadline: op.deadline - before_its_step(op.engine.limits().hook),
        attempt: op.rows.get(&hook.operation).map_or(1, |row| row.attempt),
    })
}

/// How much sooner a hook ends than its step does, so that its error says what was not answered: also on a machine that
/// is busy.
fn before_its_step(limit: Duration) -> Duration {
    (limit / 10).min(Duration::from_secs(1))
}

/// The live VNF instances on `vims`, which `op`'s instance registered.
async fn dependents(op: &Op, vims: &[VimRecord]) -> Result<Vec<HookDependent>, PortError> {
    let store = op.engine.store();
    let mut found = BTreeMap::new();
    for record in vims {
        for lives in store.uses(op.tenant(), &record.vim.id).await? {
            if lives.tenant != op.tenant() {
                // Of another tenant's nothing is told but that they are there.
                found.insert("of another tenant".to_owned(), None);
            } else if lives.instance_id != op.instance.vnf.id
                && !found.contains_key(&lives.instance_id)
            {
                let name = store.instance(op.tenant(), &lives.instance_id).await?;
                found.insert(lives.instance_id, name.vnf.vnf_instance_name);
            }
        }
    }
    let dependent = |(id, vnf_instance_name)| HookDependent {
        id,
        vnf_instance_name,
    };
    Ok(found.into_iter().map(dependent).collect())
}

/// Puts `own` over `params`: objects member by member, all else whole; a null takes away (RFC 7396).
pub(crate) fn override_with(params: &mut KeyValuePairs, own: &KeyValuePairs) {
    for (name, value) in own {
        match (params.get_mut(name), value) {
            (_, Value::Null) => drop(params.remove(name)),
            (Some(Value::Object(old)), Value::Object(new)) => override_with(old, new),
            _ => drop(params.insert(name.clone(), value.clone())),
        }
    }
}

/// An artifact that the package brings; one that names an installed plugin brings no file.
fn in_package(artifact: &vnfm_descriptor::Artifact) -> Option<Value> {
    let path = artifact.file.as_ref()?;
    Some(json!({"name": artifact.name, "path": path, "type": artifact.kind}))
}

/// A driver's schema is no JSON Schema.
const SCHEMA: Code = Code {
    name: "hook.schema",
    kind: ErrorKind::Broken,
    means: "a MgmtDriver or the VNFD declares a parameter schema that is no JSON Schema",
    next: "report it to whoever wrote the plugin or the VNFD",
};
/// The driver does not implement the hook.
const UNDECLARED: Code = Code {
    name: "hook.undeclared",
    kind: ErrorKind::Refused,
    means: "the VNFD names a hook that its MgmtDriver does not implement",
    next: "use a version of the plugin that does, or take the hook out of the VNFD",
};
pub(crate) const CODES: &[&Code] = &[
    &SCHEMA,
    &UNDECLARED,
    &crate::ports::SERVICE,
    &host::ARTIFACT,
    &bounds::TOO_MUCH,
    &crate::ports::REPLACED,
    &suspicion::HOOK_DIED,
];

#[cfg(test)]
mod tests {
    use super::operation_of;

    #[test]
    fn a_hook_belongs_to_the_operation_of_its_whole_name() {
        for (hook, operation) in [
            ("instantiate_end", "instantiate"),
            ("change_flavour_start", "change_flavour"),
            ("scale_to_level_end", "scale_to_level"),
            ("scale_start", "scale"),
        ] {
            assert_eq!(operation_of(hook), operation);
        }
    }
}

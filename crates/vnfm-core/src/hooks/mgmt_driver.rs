//! The MgmtDriver that serves a hook of the VNFD.

use crate::context::Context;
use crate::deployment::Deployment;
use crate::ports::{Code, ErrorKind, HookDriverRef, MgmtDriver, PortError};
use std::sync::Arc;
use vnfm_descriptor::{Hook, Package};

/// The driver that serves `hook` in new operations. For a deployed instance: the version that instantiated it, as
/// long as it is installed.
///
/// # Errors
///
/// `Refused` if no driver serves the hook, or the driver does not implement it.
pub(crate) fn driver_of(
    context: &Context,
    deployed: Option<&Deployment>,
    package: &Package,
    hook: &Hook,
) -> Result<Arc<dyn MgmtDriver>, PortError> {
    let (mgmt, wanted) = (&context.ports.mgmt, HookDriverRef::for_hook(hook, package));
    let own_version = deployed.and_then(|deployment| deployment.plugins.get(&hook.implementation));
    let Some(own_version) = own_version else {
        return check_implements(mgmt.resolve(&wanted)?, hook);
    };
    // The instance's own version first: an instance that does not use the newest one must not depend on it.
    let own = mgmt.resolve(&wanted.deployed(own_version));
    if let Ok(own) = &own
        && own.id().versioned_name() == *own_version
    {
        return check_implements(own.clone(), hook);
    }
    let newest = mgmt.resolve(&wanted).map_err(|error| match own {
        Err(own) if own.name() != error.name() => error.with_detail(&format!(
            "`{own_version}`, which instantiated it, does not serve it either: {own}"
        )),
        _ => error,
    })?;
    check_implements(newest, hook)
}

/// The plugin that the hook's artifact names.
pub(crate) fn plugin_of(hook: &Hook) -> Option<&str> {
    hook.artifact
        .as_ref()
        .and_then(|artifact| artifact.plugin())
}

/// Refuses a driver that does not declare the hook.
pub(crate) fn check_implements(
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

/// Whether the driver declares an undo of hook `name`.
pub(crate) fn can_undo(driver: &dyn MgmtDriver, name: &str) -> bool {
    driver
        .declaration()
        .hooks
        .get(name)
        .is_some_and(|hook| hook.undo)
}

pub(crate) const UNDECLARED: Code = Code {
    name: "hook.undeclared",
    kind: ErrorKind::Refused,
    means: "the VNFD names a hook that its MgmtDriver does not implement",
    next: "use a version of the plugin that does, or remove the hook from the VNFD",
};

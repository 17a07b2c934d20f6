//! Hooks: from the VNFD's `Vnflcm` interface to a call of a MgmtDriver, and the host services available to it.
//!
//! A hook is an ordinary journaled step. It returns the changes it wants as [`Effects`](crate::ports::Effects); the engine applies them. A hook
//! that declares `undo` is undone on rollback, by a second call with that flag.

mod bounds;
mod credentials;
mod host;
mod mgmt_driver;
mod parameters;
mod pinning;
mod stored_files;

pub(crate) use bounds::{CheckpointSizes, check_effects};
pub(crate) use credentials::{
    CredentialSecrets, HookCredentials, HookOutput, REQUESTED, Requested, credentials_step,
};
pub(crate) use host::{Host, Pending};
pub(crate) use mgmt_driver::{UNDECLARED, can_undo, check_implements, driver_of, plugin_of};
pub(crate) use parameters::{ParameterCheck, check_hook_parameters, check_parameters, no_driver};

use crate::ports::Code;

/// Error codes of hooks, for `docs/errors.md`.
pub(crate) const CODES: &[&Code] = &[
    &parameters::SCHEMA,
    &mgmt_driver::UNDECLARED,
    &crate::ports::SERVICE,
    &host::ARTIFACT,
    &bounds::TOO_MUCH,
    &credentials::NO_CREDENTIALS,
    &crate::ports::REPLACED,
    &crate::ports::NO_FILES,
    &stored_files::TOO_LARGE,
];

//! Errors of hooks ([`DriverError`]) and of host services ([`ServiceError`]), and the meaning of their codes.

#[doc(inline)]
pub use vnfm_plugin_messages::error::{DriverError, ErrorKind, Failure, ServiceError};

/// Documentation of an error code: what it means and what to do next.
///
/// ```
/// use vnfm_plugin_sdk::{MEANINGS, Meaning};
///
/// // Drivers document their own codes in the same way.
/// const OURS: Meaning = Meaning::new("join-failed", "a node did not join", "check its log, then retry");
/// assert!(MEANINGS.iter().all(|known| known.code != OURS.code));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Meaning {
    /// The error code, such as `bad-parameters`.
    pub code: &'static str,
    /// What the code means, in a phrase.
    pub means: &'static str,
    /// What the operator can do next.
    pub next: &'static str,
}

impl Meaning {
    /// Creates an entry of a table such as [`MEANINGS`].
    pub const fn new(code: &'static str, means: &'static str, next: &'static str) -> Self {
        Self { code, means, next }
    }
}

/// The error codes of the SDK itself; `docs/plugin-errors.md` lists those of every component.
pub const MEANINGS: &[Meaning] = &[
    Meaning::new(
        "bad-config",
        "the plugin's configuration does not match the driver's type; the message names the member",
        "correct `plugins.config.<name>`, or give the member a default",
    ),
    Meaning::new(
        "bad-parameters",
        "`additionalParams` do not match the hook's type; the message names the member",
        "correct the request, or give optional members a default",
    ),
    Meaning::new(
        "bad-request",
        "the host's request does not match the SDK's type; the message names the member",
        "rebuild the plugin with an SDK of the host's major version",
    ),
    Meaning::new(
        "schema-version",
        "the SDK does not support the message version of the host",
        "rebuild the plugin with an SDK of the host's major version",
    ),
    Meaning::new(
        "unknown-hook",
        "the driver has no such hook, or no undo handler for it",
        "add it with `hooks.on(…)` or `on_undo(…)`; the message lists the driver's hooks",
    ),
    Meaning::new(
        "no-such-vdu",
        "the hook asks for the VNFCs of a VDU that the deployment flavour does not have; the message lists its VDUs",
        "use one of those in the plugin, or add the VDU to the VNFD",
    ),
    Meaning::new(
        "no-address",
        "a VNFC has no address on the connection point; the message lists its connection points",
        "use one of those, or check that the request connects the connection point to a network",
    ),
    Meaning::new(
        "timed-out",
        "the condition of `HookContext::wait_until` was not met in time; the message names it",
        "check the host, then retry; raise the timeout if it is too short",
    ),
    Meaning::new(
        "cancelled",
        "the operation is being cancelled, and the hook stopped",
        "retry or roll back",
    ),
    Meaning::new(
        "host-unavailable",
        "a host service is temporarily unavailable: no route to a host, no login yet, no database",
        "check that the target is up and that the request has the right address, then retry",
    ),
    Meaning::new(
        "host-refused",
        "a host service rejected the call: wrong password, a file that is not in the package, an unknown service",
        "fix what the message names, then retry",
    ),
    Meaning::new(
        "host-broken",
        "a host service returned a response that the SDK cannot read",
        "rebuild the plugin with an SDK of the host's major version, or report a bug",
    ),
];

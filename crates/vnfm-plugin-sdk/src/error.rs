//! Why a hook failed ([`DriverError`]), and why a service of the host did ([`ServiceError`]).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Why a hook failed: what the operator reads, and what the engine needs to know. Its members are those of
/// [`Failure`], which it points to.
///
/// Put no secret into its texts.
///
/// ```
/// use vnfm_plugin_sdk::DriverError;
///
/// let error = DriverError::new("join-failed", "the node did not join")
///     .retryable()
///     .host("worker-1")
///     .phase("join")
///     .exit_code(1);
/// let said = "join-failed on `worker-1` in phase `join`, exit code 1: the node did not join";
/// assert_eq!((error.to_string().as_str(), error.retryable), (said, true));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
#[schemars(
    title = "DriverError",
    description = "Why a hook failed. Its texts hold no secret."
)]
pub struct DriverError(Box<Failure>);

/// The members of a [`DriverError`].
///
/// ```
/// use vnfm_plugin_sdk::{DriverError, Failure};
///
/// let error = DriverError::new("install-failed", "no space left").last_lines("unpacking\n\nno space left on /var\n");
/// let failure: &Failure = &error;
/// assert_eq!(failure.last_lines, ["unpacking", "no space left on /var"]);
/// assert!(!failure.retryable, "somebody has to make room first");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "The members of a [`DriverError`].")]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Failure {
    /// Name of the error, for ever the same, such as `join-failed`.
    pub code: String,
    /// What happened, in a sentence.
    pub detail: String,
    /// True where the same hook may work later without anybody changing anything.
    #[serde(default)]
    pub retryable: bool,
    /// The host that it happened on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// What the hook was at, such as `join`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Exit code of the command that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The last lines that it said.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
}

const LAST_LINES: usize = 12;

impl DriverError {
    /// An error that will stay until somebody changes something.
    pub fn new(code: impl Into<String>, detail: impl Into<String>) -> Self {
        let failure = Failure {
            code: code.into(),
            detail: detail.into(),
            ..Failure::default()
        };
        Self(Box::new(failure))
    }

    /// Says that the same hook may work later.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.0.retryable = true;
        self
    }

    /// Names the host.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.0.host = Some(host.into());
        self
    }

    /// Names the phase.
    #[must_use]
    pub fn phase(mut self, phase: impl Into<String>) -> Self {
        self.0.phase = Some(phase.into());
        self
    }

    /// Adds an exit code.
    #[must_use]
    pub fn exit_code(mut self, code: i32) -> Self {
        self.0.exit_code = Some(code);
        self
    }

    /// Adds the last lines of `text` that are not empty.
    #[must_use]
    pub fn last_lines(mut self, text: &str) -> Self {
        let lines: Vec<_> = text
            .lines()
            .map(str::trim_end)
            .filter(|l| !l.is_empty())
            .collect();
        let from = lines.len().saturating_sub(LAST_LINES);
        self.0.last_lines = lines[from..].iter().map(|&line| line.to_owned()).collect();
        self
    }

    /// The operator wants the hook to stop.
    pub fn cancelled() -> Self {
        Self::new("cancelled", "the operation is being cancelled").retryable()
    }
}

impl std::ops::Deref for DriverError {
    type Target = Failure;

    fn deref(&self) -> &Failure {
        &self.0
    }
}

impl std::fmt::Display for DriverError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.code)?;
        if let Some(host) = &self.host {
            write!(f, " on `{host}`")?;
        }
        if let Some(phase) = &self.phase {
            write!(f, " in phase `{phase}`")?;
        }
        if let Some(code) = self.exit_code {
            write!(f, ", exit code {code}")?;
        }
        write!(f, ": {}", self.detail)
    }
}

impl std::error::Error for DriverError {}

/// What can be done about a [`ServiceError`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ErrorKind {
    /// The same call may work later.
    Unavailable,
    /// Something has to be changed first.
    Refused,
    /// A bug, here or there.
    #[default]
    #[serde(other)]
    Broken,
}

/// Why a service of the host has no answer. As a [`DriverError`] it is retryable where the same call may work later.
///
/// ```
/// use vnfm_plugin_sdk::{DriverError, ErrorKind, ServiceError};
///
/// let error = ServiceError::new("ssh.run", ErrorKind::Unavailable, "no route to host");
/// assert!(DriverError::from(error).retryable);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServiceError {
    /// What can be done about it.
    pub kind: ErrorKind,
    /// What happened, in a sentence.
    pub detail: String,
    /// The service that was called.
    #[serde(skip)]
    pub service: String,
}

impl ServiceError {
    /// An error of `service`.
    pub fn new(service: &str, kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
            service: service.to_owned(),
        }
    }
}

impl std::fmt::Display for ServiceError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}`: {}", self.service, self.detail)
    }
}

impl std::error::Error for ServiceError {}

impl From<ServiceError> for DriverError {
    fn from(error: ServiceError) -> Self {
        let code = match error.kind {
            ErrorKind::Unavailable => "host-unavailable",
            ErrorKind::Refused => "host-refused",
            ErrorKind::Broken => "host-broken",
        };
        let known = Self::new(code, error.to_string());
        if error.kind == ErrorKind::Unavailable {
            known.retryable()
        } else {
            known
        }
    }
}

/// A code of this SDK in words: what it means, and what to do next.
///
/// ```
/// use vnfm_plugin_sdk::{MEANINGS, Meaning};
///
/// // What a driver says itself is told in the same way.
/// const OURS: Meaning = Meaning::new("join-failed", "a node did not join", "look at its log, then retry");
/// assert!(MEANINGS.iter().all(|known| known.code != OURS.code));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Meaning {
    /// Such as `bad-parameters`.
    pub code: &'static str,
    /// What happened.
    pub means: &'static str,
    /// What the author does.
    pub next: &'static str,
}

impl Meaning {
    /// A row of a table.
    pub const fn new(code: &'static str, means: &'static str, next: &'static str) -> Self {
        Self { code, means, next }
    }
}

/// The codes of errors that the SDK itself makes; `docs/plugin-errors.md` has them all.
pub const MEANINGS: &[Meaning] = &[
    Meaning::new(
        "bad-config",
        "the operator's configuration is no value of the driver's type; the member is named",
        "correct `plugins.config.<name>`, or give the member a default",
    ),
    Meaning::new(
        "bad-parameters",
        "`additionalParams` are no value of the hook's type; the member is named",
        "correct the request; give members that may be absent a default",
    ),
    Meaning::new(
        "bad-request",
        "the host's request has another shape than the SDK knows; the member is named",
        "build the plugin with an SDK of the host's major version",
    ),
    Meaning::new(
        "schema-version",
        "the host's messages are of a version that the SDK does not speak",
        "build the plugin with an SDK of the host's major version",
    ),
    Meaning::new(
        "unknown-hook",
        "the driver lists no such hook, or no opposite of it",
        "add it with `hooks.on(…)` or `undone_by(…)`; the hooks that there are are named",
    ),
    Meaning::new(
        "no-address",
        "a VNFC has no address on the connection point; those that it has are named",
        "name one of them; look whether the request binds the connection point to a network",
    ),
    Meaning::new(
        "timed-out",
        "`HookContext::until` waited in vain; what for is said",
        "look at the host, then retry; wait longer where that is usual",
    ),
    Meaning::new(
        "cancelled",
        "somebody wants the operation to stop, and the hook did",
        "retry, or roll back",
    ),
    Meaning::new(
        "host-unavailable",
        "a service of the host does not answer now: no route, no login yet, a store that is away",
        "look whether it is up and reached by what the request names, then retry",
    ),
    Meaning::new(
        "host-refused",
        "a service of the host says no: a wrong password, a file that the package does not have, a service that is not \
         known",
        "correct what is named, then retry",
    ),
    Meaning::new(
        "host-broken",
        "a service of the host answers with what the SDK does not understand",
        "build the plugin with an SDK of the host's major version, or report it",
    ),
];

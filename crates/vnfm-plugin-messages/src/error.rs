//! Errors of hooks ([`DriverError`]) and of host services ([`ServiceError`]).

#[cfg(feature = "schemars")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The error of a hook: text for the operator, and whether the engine may retry. It dereferences to
/// [`Failure`], which has the members.
///
/// Its texts are shown and logged: put no secrets into them.
///
/// ```
/// use vnfm_plugin_sdk::DriverError;
///
/// let error = DriverError::new("join-failed", "the node did not join")
///     .retryable()
///     .host("worker-1")
///     .phase("join")
///     .exit_code(1);
/// let text = "join-failed on `worker-1` in phase `join`, exit code 1: the node did not join";
/// assert_eq!((error.to_string().as_str(), error.retryable), (text, true));
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[serde(transparent)]
#[cfg_attr(
    feature = "schemars",
    schemars(
        title = "DriverError",
        description = "The error of a hook. Its texts must not contain secrets."
    )
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
/// assert!(!failure.retryable, "someone must free disk space first");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(description = "The members of a [`DriverError`].")
)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Failure {
    /// Stable identifier of the error, such as `join-failed`.
    pub code: String,
    /// What happened, in a sentence.
    pub detail: String,
    /// True if a retry may succeed without any change by the operator.
    #[serde(default)]
    pub retryable: bool,
    /// Name of the host on which it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Phase of the hook in which it happened, such as `join`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// Exit code of the command that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// The last non-empty lines of that command's output, at most 12.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub last_lines: Vec<String>,
}

const MAX_LAST_LINES: usize = 12;

impl DriverError {
    /// An error that a retry does not resolve.
    pub fn new(code: impl Into<String>, detail: impl Into<String>) -> Self {
        let failure = Failure {
            code: code.into(),
            detail: detail.into(),
            ..Failure::default()
        };
        Self(Box::new(failure))
    }

    /// Marks the error as retryable: the same hook may succeed later.
    #[must_use]
    pub fn retryable(mut self) -> Self {
        self.0.retryable = true;
        self
    }

    /// Sets the name of the host.
    #[must_use]
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.0.host = Some(host.into());
        self
    }

    /// Sets the phase of the hook.
    #[must_use]
    pub fn phase(mut self, phase: impl Into<String>) -> Self {
        self.0.phase = Some(phase.into());
        self
    }

    /// Sets the exit code of the command that failed.
    #[must_use]
    pub fn exit_code(mut self, code: i32) -> Self {
        self.0.exit_code = Some(code);
        self
    }

    /// Keeps the last 12 non-empty lines of `text`, usually a command's standard error.
    #[must_use]
    pub fn last_lines(mut self, text: &str) -> Self {
        let lines: Vec<_> = text
            .lines()
            .map(str::trim_end)
            .filter(|l| !l.is_empty())
            .collect();
        let from = lines.len().saturating_sub(MAX_LAST_LINES);
        self.0.last_lines = lines[from..].iter().map(|&line| line.to_owned()).collect();
        self
    }

    /// The error of a hook that stopped because its operation is being cancelled.
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

/// How the caller can react to a [`ServiceError`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ErrorKind {
    /// Temporary: the same call may succeed later.
    Unavailable,
    /// The call cannot succeed until the request or the configuration changes.
    Refused,
    /// A bug in the plugin or in the host.
    #[default]
    #[serde(other)]
    Broken,
}

/// The error of a host service. Converted to a [`DriverError`], it is retryable if it is [`ErrorKind::Unavailable`].
///
/// ```
/// use vnfm_plugin_sdk::{DriverError, ErrorKind, ServiceError};
///
/// let error = ServiceError::new("ssh.run", ErrorKind::Unavailable, "no route to host");
/// assert!(DriverError::from(error).retryable);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServiceError {
    /// Whether repeating the call can help.
    pub kind: ErrorKind,
    /// What happened, in a sentence.
    pub detail: String,
    /// The service that was called, such as `ssh.run`; not part of the message.
    #[serde(skip)]
    pub service: String,
}

impl ServiceError {
    /// Creates an error of `service`.
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
        let converted = Self::new(code, error.to_string());
        if error.kind == ErrorKind::Unavailable {
            converted.retryable()
        } else {
            converted
        }
    }
}

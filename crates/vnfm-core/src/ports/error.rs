//! Errors of ports, split by what the caller can do about them.

use std::fmt;
use std::time::Duration;
use vnfm_types::ProblemDetails;

/// What a caller can do about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum ErrorKind {
    /// Try the same call again later.
    Unavailable,
    /// Retrying does not help until something is changed.
    Refused,
    /// A bug in the VNFM or in the neighbour.
    Broken,
}

impl From<ErrorKind> for vnfm_plugin_messages::ErrorKind {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Unavailable => Self::Unavailable,
            ErrorKind::Refused => Self::Refused,
            ErrorKind::Broken => Self::Broken,
        }
    }
}

/// A row of `docs/errors.md`: one way in which a neighbour fails, with a permanent name.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// Such as `heat.stack-failed`; never reused with another meaning.
    pub name: &'static str,
    /// Whether a retry may succeed without a change.
    pub kind: ErrorKind,
    /// What the code means, in a sentence.
    pub means: &'static str,
    /// What an operator should do, in a sentence.
    pub next: &'static str,
}

impl Code {
    /// A row of a table of codes.
    pub const fn new(
        name: &'static str,
        kind: ErrorKind,
        means: &'static str,
        next: &'static str,
    ) -> Self {
        Self {
            name,
            kind,
            means,
            next,
        }
    }
}

/// Why a port call failed: the action, the resource, and the neighbour's own message.
///
/// It never contains a secret: callers must keep credentials out of its texts.
#[derive(Debug, Clone)]
pub struct PortError(Box<Details>);

#[derive(Debug, Clone)]
struct Details {
    code: &'static Code,
    doing: String,
    detail: String,
    resource: Option<String>,
    request_id: Option<String>,
    hint: Option<String>,
    own_code: Option<String>,
    problem: Option<ProblemDetails>,
    after: Option<Duration>,
}

impl PortError {
    /// An error of `code` during the action `doing` ("create stack `x`"), with the neighbour's message.
    pub fn new(code: &'static Code, doing: impl Into<String>, detail: impl Into<String>) -> Self {
        Self(Box::new(Details {
            code,
            doing: doing.into(),
            detail: detail.into(),
            resource: None,
            request_id: None,
            hint: None,
            own_code: None,
            problem: None,
            after: None,
        }))
    }

    /// Names the resource concerned, in the neighbour's terms.
    #[must_use]
    pub fn on(mut self, resource: impl Into<String>) -> Self {
        self.0.resource = Some(resource.into());
        self
    }

    /// Appends to the detail of the error.
    #[must_use]
    pub fn with_detail(mut self, words: &str) -> Self {
        self.0.detail = format!("{}; {words}", self.0.detail);
        self
    }

    /// Adds the neighbour's request id.
    #[must_use]
    pub fn request(mut self, id: Option<String>) -> Self {
        self.0.request_id = id;
        self
    }

    /// Sets a hint that is more specific than the code's.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Replaces the code's name with the one that a hook gave its error.
    #[must_use]
    pub fn with_code_name(mut self, name: impl Into<String>) -> Self {
        self.0.own_code = Some(name.into());
        self
    }

    /// Attaches the neighbour's ProblemDetails, to be shown unchanged.
    #[must_use]
    pub fn with_problem(mut self, problem: ProblemDetails) -> Self {
        self.0.problem = Some(problem);
        self
    }

    /// Sets how long the neighbour asks not to be called (`Retry-After`).
    #[must_use]
    pub fn after(mut self, pause: Option<Duration>) -> Self {
        self.0.after = pause;
        self
    }

    /// How long the neighbour asks not to be called, if it said so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.after
    }

    /// The ProblemDetails that the neighbour returned, if any.
    pub fn problem(&self) -> Option<&ProblemDetails> {
        self.0.problem.as_ref()
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.code.kind
    }

    /// True if the same call may succeed later without any change.
    pub fn is_unavailable(&self) -> bool {
        self.0.code.kind == ErrorKind::Unavailable
    }

    /// The error's row in `docs/errors.md`.
    pub fn code(&self) -> &'static Code {
        self.0.code
    }

    /// The code's name, or the one that a hook gave.
    pub fn name(&self) -> &str {
        self.0.own_code.as_deref().unwrap_or(self.0.code.name)
    }

    /// The resource concerned, in the neighbour's terms.
    pub fn resource(&self) -> Option<&str> {
        self.0.resource.as_deref()
    }

    /// The neighbour's id of the request, for its logs.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// The action that failed ("create stack `x`").
    pub fn action(&self) -> &str {
        &self.0.doing
    }

    /// The cause, in the neighbour's words.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// What to do next: the hint, or else the code's.
    pub fn next(&self) -> &str {
        self.0.hint.as_deref().unwrap_or(self.0.code.next)
    }
}

impl fmt::Display for PortError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.0.doing, self.0.detail)
    }
}

impl std::error::Error for PortError {}

#[cfg(test)]
mod tests {
    use super::{Code, ErrorKind, PortError};

    const MISSING: Code = Code {
        name: "test.missing",
        kind: ErrorKind::Unavailable,
        means: "it is missing",
        next: "look for it",
    };

    #[test]
    fn an_error_shows_action_and_detail_and_keeps_the_other_fields_separate() {
        let error = PortError::new(&MISSING, "find `x`", "404")
            .on("x")
            .request(Some("req-1".into()));
        assert_eq!(error.to_string(), "cannot find `x`: 404");
        assert_eq!(
            (error.resource(), error.request_id()),
            (Some("x"), Some("req-1"))
        );
        assert_eq!(error.next(), "look for it");
        assert!(error.is_unavailable());
    }
}

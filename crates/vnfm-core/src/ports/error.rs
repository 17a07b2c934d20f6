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
    /// Ask somebody: trying again will not help until something is changed.
    Refused,
    /// A bug, here or there.
    Broken,
}

/// A row of `docs/errors.md`: one way in which a neighbour fails, named for ever.
#[derive(Debug, PartialEq, Eq)]
pub struct Code {
    /// Such as `heat.stack-failed`; never reused for another meaning.
    pub name: &'static str,
    /// What a caller can do about it.
    pub kind: ErrorKind,
    /// What it means, in a sentence.
    pub means: &'static str,
    /// What an operator does next, in a sentence.
    pub next: &'static str,
}

/// Why a port call failed: what we were doing, on what, and the neighbour's last words.
///
/// It never holds a secret: whoever builds one puts no credential into its texts.
#[derive(Debug, Clone)]
pub struct PortError(Box<Told>);

#[derive(Debug, Clone)]
struct Told {
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
    /// An error of `code` while `doing` something ("create stack `x`"), with the neighbour's words.
    pub fn new(code: &'static Code, doing: impl Into<String>, detail: impl Into<String>) -> Self {
        Self(Box::new(Told {
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

    /// Names the resource that it is about, in the neighbour's words.
    #[must_use]
    pub fn on(mut self, resource: impl Into<String>) -> Self {
        self.0.resource = Some(resource.into());
        self
    }

    /// Adds to the neighbour's last words.
    #[must_use]
    pub fn also(mut self, words: &str) -> Self {
        self.0.detail = format!("{}; {words}", self.0.detail);
        self
    }

    /// Adds the neighbour's request id.
    #[must_use]
    pub fn request(mut self, id: Option<String>) -> Self {
        self.0.request_id = id;
        self
    }

    /// Says what to do next, more exactly than the code does.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// Replaces the code's name by one that a hook gave to its own error.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.0.own_code = Some(name.into());
        self
    }

    /// Keeps what the neighbour itself answered, to be shown as it is.
    #[must_use]
    pub fn told(mut self, problem: ProblemDetails) -> Self {
        self.0.problem = Some(problem);
        self
    }

    /// Keeps how long the neighbour wants to be left alone (`Retry-After`).
    #[must_use]
    pub fn after(mut self, pause: Option<Duration>) -> Self {
        self.0.after = pause;
        self
    }

    /// How long the neighbour wants to be left alone, where it says so.
    pub fn retry_after(&self) -> Option<Duration> {
        self.0.after
    }

    /// What the neighbour itself answered.
    pub fn problem(&self) -> Option<&ProblemDetails> {
        self.0.problem.as_ref()
    }

    /// What the caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.code.kind
    }

    /// True where the same call may work later without anybody changing anything.
    pub fn is_unavailable(&self) -> bool {
        self.0.code.kind == ErrorKind::Unavailable
    }

    /// The row of `docs/errors.md`.
    pub fn code(&self) -> &'static Code {
        self.0.code
    }

    /// Name of the error: the code's, or the one that a hook gave.
    pub fn name(&self) -> &str {
        self.0.own_code.as_deref().unwrap_or(self.0.code.name)
    }

    /// The resource that it is about.
    pub fn resource(&self) -> Option<&str> {
        self.0.resource.as_deref()
    }

    /// The neighbour's request id.
    pub fn request_id(&self) -> Option<&str> {
        self.0.request_id.as_deref()
    }

    /// What was to be done.
    pub fn doing(&self) -> &str {
        &self.0.doing
    }

    /// The neighbour's last words.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// What to do next.
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

    const GONE: Code = Code {
        name: "test.gone",
        kind: ErrorKind::Unavailable,
        means: "it is gone",
        next: "look for it",
    };

    #[test]
    fn it_says_what_we_were_doing_and_keeps_the_rest_apart() {
        let error = PortError::new(&GONE, "find `x`", "404")
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

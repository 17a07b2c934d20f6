//! Errors by what the caller can do: try again, ask someone, or report a bug.

use std::fmt;

/// What the caller can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Try again: the registry does not respond, or is failing.
    Unavailable,
    /// Ask someone: login, address, trust or content are not accepted.
    Refused,
}

/// Why a call to a registry failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RegistryError {
    /// What the caller can do.
    pub kind: ErrorKind,
    /// What was being done, such as "push `acme/web`".
    pub action: String,
    /// Why it failed, without credentials.
    pub detail: String,
    /// What the registry wrote; at most 300 characters, empty if nothing.
    pub response: String,
    /// The HTTP status; 0 if there was no response.
    pub(crate) status: u16,
}

impl RegistryError {
    pub(crate) fn refused(action: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Refused,
            action: action.to_owned(),
            detail: detail.into(),
            response: String::new(),
            status: 0,
        }
    }

    pub(crate) fn unavailable(action: &str, detail: impl Into<String>) -> Self {
        Self {
            kind: ErrorKind::Unavailable,
            ..Self::refused(action, detail)
        }
    }
}

impl fmt::Display for RegistryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {}: {}", self.action, self.detail)?;
        if self.response.is_empty() {
            Ok(())
        } else {
            write!(f, ": {}", self.response)
        }
    }
}

impl std::error::Error for RegistryError {}

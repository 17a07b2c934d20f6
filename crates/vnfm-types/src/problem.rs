//! `ProblemDetails` (SOL013 6.3, RFC 7807) with additional members of our own.

use serde::{Deserialize, Serialize};
use std::fmt;

/// An error response, for machines and people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ProblemDetails {
    /// URI of the problem type; its fragment is our error code.
    #[serde(rename = "type", default, skip_serializing_if = "Option::is_none")]
    pub type_uri: Option<String>,
    /// Short description of the problem type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// HTTP status code, 400 to 599.
    pub status: u16,
    /// What happened, and to what.
    pub detail: String,
    /// Hint on what to do next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// URI of this occurrence of the problem.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Our error code, a row of `docs/errors.md`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The step of the operation that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
    /// The resource concerned, in the VIM's terms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Request id assigned by the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// True if the same request may succeed later without any change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// What blocks the request, by name (live VNFs on a cluster, users of a package).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked_by: Vec<String>,
}

impl ProblemDetails {
    /// A problem with only status and detail.
    pub fn new(status: u16, detail: impl Into<String>) -> Self {
        Self {
            status,
            detail: detail.into(),
            ..Self::default()
        }
    }
}

impl fmt::Display for ProblemDetails {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.detail)?;
        self.next
            .iter()
            .try_for_each(|next| write!(f, "; hint: {next}"))
    }
}

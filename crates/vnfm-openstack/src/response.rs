//! A response of a service.

use serde_json::Value;
use vnfm_types::Secret;

/// A response, read to its end.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) request_id: Option<String>,
    /// The body as JSON; null if it is not JSON.
    pub(crate) body: Value,
    /// The body as it was received.
    pub(crate) text: String,
    /// `X-Subject-Token`, which only Keystone sends.
    pub(crate) subject_token: Option<Secret>,
    /// Whether errors may quote this response to the caller.
    pub(crate) is_exposed: bool,
}

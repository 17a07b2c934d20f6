//! Our own API: what somebody did on their own authority, and what was left behind by it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// One entry of the audit: an act that overrode what the engine would have done, or gave something up. It outlives
/// what it was done to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Number, rising; given by the store.
    pub seq: u64,
    /// When.
    pub at: Timestamp,
    /// Who, as the client says.
    pub who: String,
    /// What was done, such as `vnf abandon`.
    pub what: String,
    /// Id of what it was done to.
    pub target: String,
    /// Its name, where it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Why; empty where nobody had to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The address that the request came from; only for a request that was noted as such.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The status that it was answered with; only for such a request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// What is kept of an instance that was abandoned: where its resources may still be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tombstone {
    /// The instance.
    pub vnf_instance_id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
    /// The VIMs that it was on.
    pub vims: Vec<LeftVim>,
    /// When it was abandoned.
    pub at: Timestamp,
    /// By whom.
    pub who: String,
    /// Why.
    pub reason: String,
}

/// A VIM on which something may have been left.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftVim {
    /// Its id in the registry; absent where the connection came with the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_id: Option<String>,
    /// Its name in the registry, or its key in the request.
    pub name: String,
    /// Its type.
    pub vim_type: String,
    /// Where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

//! Our own API: audit entries, and what abandoned instances may have left behind.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// An audit entry: a manual override, or an audited request. It outlives its target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AuditEntry {
    /// Sequence number, rising; assigned by the store.
    pub seq: u64,
    /// When it happened, UTC; RFC 3339 in JSON.
    pub at: Timestamp,
    /// Who did it, as the client claims.
    pub who: String,
    /// The action, such as `vnf abandon`.
    pub what: String,
    /// Id of the resource concerned.
    pub target: String,
    /// Name of that resource, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Reason given by the caller; empty if none was required.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Source address; only for an audited request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// HTTP status of the response; only for an audited request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
}

/// The record of an abandoned instance: where its resources may still be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tombstone {
    /// `id` of the abandoned instance.
    pub vnf_instance_id: String,
    /// Name of the instance, if it had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
    /// The VIMs that it lived on.
    pub vims: Vec<AbandonedVim>,
    /// When it was abandoned, UTC.
    pub at: Timestamp,
    /// Who abandoned it, as the client claims.
    pub who: String,
    /// Reason given for abandoning it.
    pub reason: String,
}

/// A VIM that may still hold resources of an abandoned instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AbandonedVim {
    /// Its id in the registry; absent for an inline connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_id: Option<String>,
    /// Its name in the registry, or its key in the request.
    pub name: String,
    /// Its `vimType` in the registered spelling.
    pub vim_type: String,
    /// Its endpoint, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

//! Differences between the database and the VIMs, for use after an older backup was restored.

use crate::{InstantiationState, Orphan};
use serde::{Deserialize, Serialize};

/// Comparison of every instance with the tagged resources on its VIMs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Result for every VNF instance.
    pub instances: Vec<ComparedInstance>,
    /// Tagged resources that no instance accounts for: created after the backup, or left behind before it.
    pub orphans: Vec<Orphan>,
    /// Operations that had not ended when the backup was taken; they resume from there.
    pub in_flight: Vec<OpInFlight>,
    /// VIMs that could not be queried.
    pub not_asked: Vec<UnreachableVim>,
}

/// Result for one VNF instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparedInstance {
    /// `id` of the VNF instance.
    pub vnf_instance_id: String,
    /// Name of the instance, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
    /// State according to the database.
    pub instantiation_state: InstantiationState,
    /// What the comparison with the VIMs found.
    pub found: ComparisonResult,
}

/// How the VIMs' view of an instance differs from the database.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ComparisonResult {
    /// The VIMs agree with the database.
    AsRecorded,
    /// Recorded as INSTANTIATED, but none of its resources exist.
    Missing,
    /// Recorded as NOT_INSTANTIATED, but resources exist; see the orphans.
    Unexpected,
    /// One of its VIMs could not be queried.
    NotAsked,
}

/// An operation that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpInFlight {
    /// `id` of the operation occurrence.
    pub vnf_lcm_op_occ_id: String,
    /// Its type, such as `INSTANTIATE`.
    pub operation: String,
    /// Its state, such as `PROCESSING`.
    pub operation_state: String,
    /// `id` of its VNF instance.
    pub vnf_instance_id: String,
}

/// A VIM that could not be queried.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreachableVim {
    /// Name of the VIM in the registry.
    pub vim: String,
    /// The error of the attempt to query it.
    pub why: String,
}

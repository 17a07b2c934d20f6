//! How what the database says differs from what the VIMs hold; of use after an older backup was restored.

use crate::{InstantiationState, Orphan};
use serde::{Deserialize, Serialize};

/// Every instance compared with its VIM, by our tags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Comparison {
    /// Every instance.
    pub instances: Vec<ComparedInstance>,
    /// What carries our tags and no instance explains: made after the backup, or left behind before it.
    pub orphans: Vec<Orphan>,
    /// Operations that were not ended at the moment that the database shows; they go on from there.
    pub in_flight: Vec<OpInFlight>,
    /// VIMs that could not be asked.
    pub not_asked: Vec<NotAsked>,
}

/// One instance, compared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ComparedInstance {
    /// The instance.
    pub vnf_instance_id: String,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
    /// What the database says.
    pub instantiation_state: InstantiationState,
    /// What the VIMs say.
    pub found: Found,
}

/// What the VIMs say of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Found {
    /// As the database says.
    AsRecorded,
    /// It is recorded as instantiated, and nothing of it is there.
    Missing,
    /// It is recorded as not instantiated, and something of it is there; see the orphans.
    Unexpected,
    /// One of its VIMs could not be asked.
    NotAsked,
}

/// An operation that is not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OpInFlight {
    /// Which.
    pub vnf_lcm_op_occ_id: String,
    /// What it does.
    pub operation: String,
    /// Where it is.
    pub operation_state: String,
    /// To which instance.
    pub vnf_instance_id: String,
}

/// A VIM that could not be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotAsked {
    /// Its name.
    pub vim: String,
    /// Why.
    pub why: String,
}

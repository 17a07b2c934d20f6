//! Retained volumes: storage of an instance that outlives it. Our own API.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A volume that a termination has left on its VIM, or is about to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RetainedVolume {
    /// Assigned by us.
    pub id: String,
    /// Whether instances can use it.
    #[serde(default)]
    pub state: VolumeState,
    /// The registered VIM that has it.
    pub vim_id: String,
    /// On `OpenStack` the id of the volume, on Kubernetes the name of the `PersistentVolume`.
    pub resource_id: String,
    /// In GiB, rounded up; absent if the VIM does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_gib: Option<u64>,
    /// The storage of the VNFD that it was made for, and whose place it takes in another instance.
    pub virtual_storage_desc_id: String,
    /// `vnfdId` of the instance that it was made for.
    pub vnfd_id: String,
    /// The instance that it was made for, which may no longer exist.
    pub vnf_instance_id: String,
    /// When its retention was requested.
    pub created_at: Timestamp,
    /// Id of the VNF instance that uses it, which is at most one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<String>,
}

/// The state of a retained volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum VolumeState {
    /// An instance uses it, or one can.
    #[default]
    Available,
    /// Its deletion has begun; no instance can use it any more.
    Deleting,
}

impl VolumeState {
    /// Its spelling in JSON.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Available => "AVAILABLE",
            Self::Deleting => "DELETING",
        }
    }
}

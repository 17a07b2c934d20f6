//! Retained volumes: storage that outlives instances. A termination leaves one, or a request creates an empty one. Our own API.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The empty volume that a tenant wants.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VolumeSpec {
    /// A registered VIM, by id or name.
    pub vim_id: String,
    /// The storage of a VNFD whose place it will take in an instance.
    pub virtual_storage_desc_id: String,
    /// In GiB, at least 1.
    pub size_gib: u64,
    /// On `OpenStack` the volume type, on Kubernetes the `StorageClass`; absent: the VIM's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<String>,
}

/// A volume on a VIM with a life of its own.
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
    /// On `OpenStack` the id of the volume, on Kubernetes the name of the `PersistentVolume`; absent until it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_id: Option<String>,
    /// In GiB, rounded up; absent if the VIM does not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size_gib: Option<u64>,
    /// The type that the request for an empty volume named.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_type: Option<String>,
    /// The storage of the VNFD that it was made for, and whose place it takes in another instance.
    pub virtual_storage_desc_id: String,
    /// `vnfdId` of the instance that it was made for; absent if it was created empty, as the next member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnfd_id: Option<String>,
    /// The instance that it was made for, which may no longer exist.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_id: Option<String>,
    /// When its retention or creation was requested.
    pub created_at: Timestamp,
    /// Id of the VNF instance that uses it, which is at most one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_by: Option<String>,
}

impl RetainedVolume {
    /// The id on the VIM; empty until it exists.
    pub fn on_vim(&self) -> &str {
        self.resource_id.as_deref().unwrap_or_default()
    }
}

/// The state of a retained volume.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum VolumeState {
    /// An empty one was requested; the VIM may or may not have it.
    Creating,
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
            Self::Creating => "CREATING",
            Self::Available => "AVAILABLE",
            Self::Deleting => "DELETING",
        }
    }
}

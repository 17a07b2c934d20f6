//! VNF snapshots (SOL003 5.5.2.20 to 5.5.2.26, 5.5.3.19): the resource that stands for one, and the requests about it.

use crate::{KeyValuePairs, Link, ResourceHandle, VnfInstance};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// `CreateVnfSnapshotInfoRequest` (5.5.2.20): creates an "Individual VNF snapshot" resource without contents.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CreateVnfSnapshotInfoRequest {
    /// The VNF snapshot package of the NFVO.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnf_snapshot_pkg_id: Option<String>,
    /// Contents that the NFVO extracted from a package.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnf_snapshot: Option<Value>,
}

/// `VnfSnapshotInfoModificationRequest` (5.5.2.24); it has the members of the creation.
pub type VnfSnapshotInfoModificationRequest = CreateVnfSnapshotInfoRequest;

/// `VnfSnapshotInfoModifications` (5.5.2.25): what a modification changed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfSnapshotInfoModifications {
    /// The new VNF snapshot package of the NFVO.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_snapshot_pkg_id: Option<String>,
}

/// `CreateVnfSnapshotRequest` (5.5.2.21): stores the state of an instance. `Debug` hides its parameters.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CreateVnfSnapshotRequest {
    /// An "Individual VNF snapshot" resource without contents.
    pub vnf_snapshot_info_id: String,
    /// Parameters for hooks, overriding those of the instantiation.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
    /// Data of the client, shown with the snapshot.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub user_defined_data: KeyValuePairs,
}

/// `RevertToVnfSnapshotRequest` (5.5.2.26): restores a stored state. `Debug` hides its parameters.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RevertToVnfSnapshotRequest {
    /// The snapshot with the state to restore.
    pub vnf_snapshot_info_id: String,
    /// Parameters for hooks, overriding those of the instantiation.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
}

impl std::fmt::Debug for CreateVnfSnapshotRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreateVnfSnapshotRequest")
            .field("vnf_snapshot_info_id", &self.vnf_snapshot_info_id)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for RevertToVnfSnapshotRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RevertToVnfSnapshotRequest")
            .field("vnf_snapshot_info_id", &self.vnf_snapshot_info_id)
            .finish_non_exhaustive()
    }
}

/// `VnfSnapshotInfo` (5.5.2.22): an "Individual VNF snapshot" resource.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfSnapshotInfo {
    /// Unique within this VNFM; a UUID.
    pub id: String,
    /// The VNF snapshot package of the NFVO, if the client named one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_snapshot_pkg_id: Option<String>,
    /// The contents; absent until `create_snapshot` begins.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_snapshot: Option<Box<VnfSnapshot>>,
    /// Related resources; filled in when served.
    #[serde(rename = "_links", default, skip_serializing_if = "Option::is_none")]
    pub links: Option<VnfSnapshotInfoLinks>,
}

/// `_links` of [`VnfSnapshotInfo`]: the resource itself, and the instance.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfSnapshotInfoLinks {
    /// URI of this resource in the API.
    #[serde(rename = "self")]
    pub this: Link,
    /// The instance whose state it has, also after the instance was deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_from: Option<Link>,
}

/// `VnfSnapshot` (5.5.2.23): the state of an instance at one time.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfSnapshot {
    /// Unique within this VNFM; a UUID.
    pub id: String,
    /// `id` of the VNF instance.
    pub vnf_instance_id: String,
    /// When the operation that stores it was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_started_at: Option<Timestamp>,
    /// When it was complete; absent: it is being created, or its creation failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_finished_at: Option<Timestamp>,
    /// `descriptor_id` of the VNFD at that time.
    pub vnfd_id: String,
    /// The instance at that time, without `_links`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance: Option<Box<VnfInstance>>,
    /// One for each VNFC with stored resources.
    pub vnfc_snapshots: Vec<VnfcSnapshotInfo>,
    /// Data of the client.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub user_defined_data: KeyValuePairs,
}

/// `VnfcSnapshotInfo` (5.5.3.19): what is stored of one VNFC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfcSnapshotInfo {
    /// Unique within the snapshot.
    pub id: String,
    /// Identifier of the VNFC.
    pub vnfc_instance_id: String,
    /// When the snapshot that it belongs to was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_started_at: Option<Timestamp>,
    /// When the snapshot that it belongs to was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub creation_finished_at: Option<Timestamp>,
    /// `id` of its `vnfcResourceInfo` in `vnfInstance` of the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnfc_resource_info_id: Option<String>,
    /// The image of its disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compute_snapshot_resource: Option<ResourceHandle>,
    /// The snapshots of its volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage_snapshot_resources: Vec<StorageSnapshot>,
}

/// `storageSnapshotResources` of [`VnfcSnapshotInfo`]: a volume and its snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StorageSnapshot {
    /// `id` of its `virtualStorageResourceInfo` in `vnfInstance` of the snapshot.
    pub storage_resource_id: String,
    /// Its snapshot on the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_snapshot_resource: Option<ResourceHandle>,
}

//! `VnfLcmOpOcc` (SOL003 5.5.2.13): one operation on one instance.

use crate::{
    CancelMode, KeyValuePairs, LcmOperationState, LcmOperationType, Link, ProblemDetails,
    ResourceHandle, VimConnectionInfo,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `changeType` of the affected resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ChangeType {
    /// Made.
    Added,
    /// Gone.
    Removed,
    /// Changed, or replaced.
    Modified,
    /// Made and removed by the same operation.
    Temporary,
    /// Of a virtual link: ports came to it.
    LinkPortAdded,
    /// Of a virtual link: ports on it went.
    LinkPortRemoved,
}

/// `VnfLcmOpOcc`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfLcmOpOcc {
    /// Identifier.
    pub id: String,
    /// State.
    pub operation_state: LcmOperationState,
    /// When it entered that state.
    #[serde(serialize_with = "crate::time::micros")]
    pub state_entered_time: Timestamp,
    /// When it was accepted.
    #[serde(serialize_with = "crate::time::micros")]
    pub start_time: Timestamp,
    /// The instance.
    pub vnf_instance_id: String,
    /// The grant; absent where a local policy granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<String>,
    /// Which operation.
    pub operation: LcmOperationType,
    /// True where we began it ourselves.
    pub is_automatic_invocation: bool,
    /// The request, without secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_params: Option<serde_json::Value>,
    /// True from the acceptance of a cancel to its effect.
    pub is_cancel_pending: bool,
    /// How it is being cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_mode: Option<CancelMode>,
    /// Why it stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ProblemDetails>,
    /// What it changed so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_changes: Option<ResourceChanges>,
    /// What a modification changed, as it is now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_info: Option<VnfInfoModifications>,
    /// What an operator should know although it went on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Related resources and the tasks that are allowed now; filled when served.
    #[serde(rename = "_links", default, skip_serializing_if = "Option::is_none")]
    pub links: Option<VnfLcmOpOccLinks>,
}

/// `_links` of [`VnfLcmOpOcc`]: a task's link is there only while the task is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfLcmOpOccLinks {
    /// This resource.
    #[serde(rename = "self")]
    pub this: Link,
    /// The instance.
    pub vnf_instance: Link,
    /// The grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Link>,
    /// The cancel task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Link>,
    /// The retry task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Link>,
    /// The rollback task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Link>,
    /// The fail task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<Link>,
}

/// `VnfInfoModifications` (5.5.2.12a): the attributes that a modification changed, with what they hold now.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfInfoModifications {
    /// The name; empty where it was taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
    /// The description; empty where it was taken away.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_description: Option<String>,
    /// Values of configurable properties that are new or other ones.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub vnf_configurable_properties: KeyValuePairs,
    /// Metadata that is new or another one.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
    /// Extensions that are new or other ones.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub extensions: KeyValuePairs,
    /// VIM connections that are new or other ones; without `accessInfo`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vim_connection_info: BTreeMap<String, Box<VimConnectionInfo>>,
}

/// `resourceChanges` of [`VnfLcmOpOcc`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceChanges {
    /// VNFCs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected_vnfcs: Vec<AffectedVnfc>,
    /// Internal virtual links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected_virtual_links: Vec<AffectedVirtualLink>,
    /// Ports on external links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected_ext_link_ports: Vec<AffectedExtLinkPort>,
    /// Volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected_virtual_storages: Vec<AffectedVirtualStorage>,
}

/// `AffectedVnfc` (5.5.3.13).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AffectedVnfc {
    /// Identifier within the instance.
    pub id: String,
    /// The VDU.
    pub vdu_id: String,
    /// What happened to it.
    pub change_type: ChangeType,
    /// Server or pod.
    pub compute_resource: ResourceHandle,
    /// CPs that came or went with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected_vnfc_cp_ids: Vec<String>,
    /// Volumes that came with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added_storage_resource_ids: Vec<String>,
    /// Volumes that went with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed_storage_resource_ids: Vec<String>,
    /// What else the driver knows.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
}

/// `AffectedVirtualLink` (5.5.3.14).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AffectedVirtualLink {
    /// Identifier within the instance: of an internal link, or of an externally managed one.
    pub id: String,
    /// The `VnfVirtualLink` node.
    pub vnf_virtual_link_desc_id: String,
    /// What happened to it.
    pub change_type: ChangeType,
    /// The network.
    pub network_resource: ResourceHandle,
    /// The ports that came or went, where it is [`ChangeType::LinkPortAdded`] or [`ChangeType::LinkPortRemoved`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnf_link_port_ids: Vec<String>,
}

/// `AffectedExtLinkPort` (5.5.3.14a).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AffectedExtLinkPort {
    /// Identifier within the instance.
    pub id: String,
    /// What happened to it.
    pub change_type: ChangeType,
    /// The external CP.
    pub ext_cp_instance_id: String,
    /// The port.
    pub resource_handle: ResourceHandle,
}

/// `AffectedVirtualStorage` (5.5.3.15).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AffectedVirtualStorage {
    /// Identifier within the instance.
    pub id: String,
    /// The storage node.
    pub virtual_storage_desc_id: String,
    /// What happened to it.
    pub change_type: ChangeType,
    /// The volume.
    pub storage_resource: ResourceHandle,
}

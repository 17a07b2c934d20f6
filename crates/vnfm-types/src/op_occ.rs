//! `VnfLcmOpOcc` (SOL003 5.5.2.13): one operation on one instance.

use crate::{
    CancelMode, ExtVirtualLinkInfo, KeyValuePairs, LcmOperationState, LcmOperationType, Link,
    ProblemDetails, ResourceHandle, VimConnectionInfo,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `changeType` of the affected resources.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ChangeType {
    /// The operation created the resource.
    Added,
    /// The operation deleted the resource.
    Removed,
    /// Changed or replaced by the operation.
    Modified,
    /// Created and deleted by the same operation.
    Temporary,
    /// Of a virtual link: ports were added to it.
    LinkPortAdded,
    /// Of a virtual link: ports were removed from it.
    LinkPortRemoved,
}

/// `VnfLcmOpOcc`: one operation on one instance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfLcmOpOcc {
    /// Unique within this VNFM; a UUID.
    pub id: String,
    /// Current state; [`LcmOperationState`] shows the transitions.
    pub operation_state: LcmOperationState,
    /// When it entered that state.
    #[serde(serialize_with = "crate::time::micros")]
    pub state_entered_time: Timestamp,
    /// When the request was accepted, UTC.
    #[serde(serialize_with = "crate::time::micros")]
    pub start_time: Timestamp,
    /// `id` of the VNF instance.
    pub vnf_instance_id: String,
    /// `id` of the grant; absent if the local policy granted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant_id: Option<String>,
    /// Which lifecycle operation it is.
    pub operation: LcmOperationType,
    /// True if the VNFM began it by itself.
    pub is_automatic_invocation: bool,
    /// The body of the request, without its secrets.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operation_params: Option<serde_json::Value>,
    /// True from the acceptance of a cancel to its effect.
    pub is_cancel_pending: bool,
    /// Present while a cancel is pending.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel_mode: Option<CancelMode>,
    /// Why it stopped; kept until it completes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<ProblemDetails>,
    /// Resources that it changed so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_changes: Option<ResourceChanges>,
    /// Attributes that a modification changed, with their new values.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_info: Option<VnfInfoModifications>,
    /// External virtual links that it changed, as they are now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed_ext_connectivity: Vec<ExtVirtualLinkInfo>,
    /// Attributes that a change of the VNF package changed, with their new values; never together with `changed_info`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub modifications_triggered_by_vnf_pkg_change: Option<ModificationsTriggeredByVnfPkgChange>,
    /// The snapshot that it stores or restores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_snapshot_info_id: Option<String>,
    /// Warnings for operators about an operation that continued nevertheless; our addition.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Related resources and the tasks that are allowed now; filled in when served.
    #[serde(rename = "_links", default, skip_serializing_if = "Option::is_none")]
    pub links: Option<VnfLcmOpOccLinks>,
}

/// `_links` of [`VnfLcmOpOcc`]: a task is linked only while it is allowed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfLcmOpOccLinks {
    /// URI of this occurrence in the API.
    #[serde(rename = "self")]
    pub this: Link,
    /// URI of the VNF instance.
    pub vnf_instance: Link,
    /// URI of the grant at the NFVO, if one was requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Link>,
    /// Present while it can be cancelled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cancel: Option<Link>,
    /// Present while it can be retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Link>,
    /// Present while it can be rolled back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rollback: Option<Link>,
    /// Present while it can be failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fail: Option<Link>,
    /// URI of the snapshot that it stores or restores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_snapshot: Option<Link>,
}

/// `VnfInfoModifications` (5.5.2.12a): the attributes that a modification changed, with their new values.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfInfoModifications {
    /// New name; empty if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
    /// New description; empty if it was removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_description: Option<String>,
    /// New or changed configurable properties.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub vnf_configurable_properties: KeyValuePairs,
    /// New or changed metadata members.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
    /// Extensions that the operation set or changed.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub extensions: KeyValuePairs,
    /// New or changed VIM connections, without `accessInfo`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vim_connection_info: BTreeMap<String, Box<VimConnectionInfo>>,
}

/// `ModificationsTriggeredByVnfPkgChange` (5.5.2.12b): the attributes that a change of the VNF package changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModificationsTriggeredByVnfPkgChange {
    /// New or changed configurable properties; null: the new VNFD does not declare it.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub vnf_configurable_properties: KeyValuePairs,
    /// New or changed metadata members.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
    /// New or changed extensions; null: the new VNFD does not declare it.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub extensions: KeyValuePairs,
    /// The VNFD of the new package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnfd_id: Option<String>,
    /// New vendor of the VNF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_provider: Option<String>,
    /// New name of the product.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_product_name: Option<String>,
    /// New version of the VNF's software.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_software_version: Option<String>,
    /// New version of the VNFD.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnfd_version: Option<String>,
}

/// `resourceChanges` of [`VnfLcmOpOcc`]: what the operation did on the VIM.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceChanges {
    /// Added, removed or replaced VNFCs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected_vnfcs: Vec<AffectedVnfc>,
    /// Internal and externally managed virtual links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected_virtual_links: Vec<AffectedVirtualLink>,
    /// Our ports on external virtual links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected_ext_link_ports: Vec<AffectedExtLinkPort>,
    /// Added, removed or replaced volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected_virtual_storages: Vec<AffectedVirtualStorage>,
}

/// `AffectedVnfc` (5.5.3.13): a VNFC that the operation changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AffectedVnfc {
    /// Identifier within the VNF instance.
    pub id: String,
    /// Name of the VDU in the VNFD.
    pub vdu_id: String,
    /// Whether the VNFC was added, removed or modified.
    pub change_type: ChangeType,
    /// Handle of the server or pod.
    pub compute_resource: ResourceHandle,
    /// CPs that were added or removed with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub affected_vnfc_cp_ids: Vec<String>,
    /// Volumes that were added with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub added_storage_resource_ids: Vec<String>,
    /// Volumes that were removed with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub removed_storage_resource_ids: Vec<String>,
    /// Additional information from the driver.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
}

/// `AffectedVirtualLink` (5.5.3.14): an internal network that the operation changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AffectedVirtualLink {
    /// Identifier within the instance: of an internal link, or of an externally managed one.
    pub id: String,
    /// Name of the `VnfVirtualLink` node.
    pub vnf_virtual_link_desc_id: String,
    /// Added or removed, as a whole or ports on it.
    pub change_type: ChangeType,
    /// Handle of the network on the VIM.
    pub network_resource: ResourceHandle,
    /// The affected ports, for [`ChangeType::LinkPortAdded`] and [`ChangeType::LinkPortRemoved`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnf_link_port_ids: Vec<String>,
}

/// `AffectedExtLinkPort` (5.5.3.14a): an external port that the operation changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AffectedExtLinkPort {
    /// Identifier within the VNF instance.
    pub id: String,
    /// Whether the port was added or removed.
    pub change_type: ChangeType,
    /// `id` of the external CP on the port.
    pub ext_cp_instance_id: String,
    /// Handle of the port on the VIM.
    pub resource_handle: ResourceHandle,
}

/// `AffectedVirtualStorage` (5.5.3.15): a volume that the operation changed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AffectedVirtualStorage {
    /// Identifier within the VNF instance.
    pub id: String,
    /// Name of the storage node in the VNFD.
    pub virtual_storage_desc_id: String,
    /// Whether the volume was added, removed or modified.
    pub change_type: ChangeType,
    /// Handle of the volume on the VIM.
    pub storage_resource: ResourceHandle,
}

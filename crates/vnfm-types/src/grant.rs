//! `GrantRequest` and `Grant` (SOL003 9.5.2): the resources that an operation needs, and what the NFVO approves.
//!
//! Only the request members that we fill in and the grant members that we use; others are ignored when read.

use crate::{
    ExtVirtualLinkData, KeyValuePairs, LcmOperationType, Link, ResourceHandle, VimConnectionInfo,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `GrantRequest` (9.5.2.2): what we send to the NFVO before an operation changes resources.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantRequest {
    /// `id` of the VNF instance.
    pub vnf_instance_id: String,
    /// `id` of the occurrence; the same in every request for it.
    pub vnf_lcm_op_occ_id: String,
    /// `vnfdId` of the VNF instance.
    pub vnfd_id: String,
    /// `vnfdId` that the VNF instance gets, if its package is to change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dst_vnfd_id: Option<String>,
    /// Current or future flavour of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavour_id: Option<String>,
    /// The operation to be granted.
    pub operation: LcmOperationType,
    /// True if the VNFM began the operation by itself.
    pub is_automatic_invocation: bool,
    /// Level of an instantiation; absent in other operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instantiation_level_id: Option<String>,
    /// Resources that the operation would create.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_resources: Vec<ResourceDefinition>,
    /// Resources that the operation would delete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_resources: Vec<ResourceDefinition>,
    /// Existing resources that the operation would modify.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub update_resources: Vec<ResourceDefinition>,
    /// Affinity and anti-affinity rules among the resources.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement_constraints: Vec<PlacementConstraint>,
    /// Filled in when the request is sent.
    #[serde(rename = "_links", default, skip_serializing_if = "Option::is_none")]
    pub links: Option<GrantRequestLinks>,
}

/// `_links` of [`GrantRequest`]: what the NFVO can read for details.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantRequestLinks {
    /// URI of the operation occurrence.
    pub vnf_lcm_op_occ: Link,
    /// URI of the VNF instance.
    pub vnf_instance: Link,
}

/// `type` of [`ResourceDefinition`], in the spelling of SOL003.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ResourceType {
    /// A server or a pod.
    Compute,
    /// An internal virtual link: a network of the VNF itself.
    Vl,
    /// A volume; ephemeral disks belong to their server.
    Storage,
    /// A port on an external link.
    Linkport,
}

/// `ResourceDefinition` (9.5.3): one resource to be created, deleted or modified.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDefinition {
    /// Identifier that is unique within the request; the grant refers to it.
    pub id: String,
    /// The kind of resource; the template below says which one.
    #[serde(rename = "type")]
    pub type_: ResourceType,
    /// The VDU that it belongs to, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vdu_id: Option<String>,
    /// The VNFD node that describes it.
    pub resource_template_id: String,
    /// The resource on the VIM, if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceHandle>,
    /// The snapshot that is created of it or restored to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_res_def: Option<SnapshotResourceDefinition>,
}

/// `SnapshotResourceDefinition` (9.5.3): the part of a snapshot that concerns a resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotResourceDefinition {
    /// `id` of the VNF snapshot.
    pub vnf_snapshot_id: String,
    /// `id` of the part of a VNFC in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnfc_snapshot_id: Option<String>,
    /// The volume, by the `id` of its `virtualStorageResourceInfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_snapshot_id: Option<String>,
    /// The snapshot on the VIM, if it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_resource: Option<ResourceHandle>,
}

/// `affinityOrAntiAffinity` of [`PlacementConstraint`]: together or apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AffinityKind {
    /// The resources share a location.
    Affinity,
    /// The resources are on different locations.
    AntiAffinity,
}

/// `PlacementConstraint` (9.5.3): resources to be placed together or apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementConstraint {
    /// Whether the resources are placed together or apart.
    pub affinity_or_anti_affinity: AffinityKind,
    /// `NFVI_POP`, `ZONE`, `ZONE_GROUP` or `NFVI_NODE`.
    pub scope: String,
    /// The resources that the constraint relates; at least two.
    pub resource: Vec<ConstraintResourceRef>,
}

/// `ConstraintResourceRef` (9.5.3): names an existing or a requested resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConstraintResourceRef {
    /// `RES_MGMT` for an existing resource; `GRANT` for one of the same request.
    pub id_type: ConstraintIdType,
    /// Identifier on the VIM, or of the [`ResourceDefinition`].
    pub resource_id: String,
    /// Key of the VIM of an existing resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
}

/// `idType` of [`ConstraintResourceRef`]: in which list `resourceId` is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ConstraintIdType {
    /// An existing resource on the VIM.
    ResMgmt,
    /// A resource of the same request.
    Grant,
}

/// `Grant` (9.5.2.3). `vimConnectionInfo` may hold secrets: seal it before storing.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// Identifier of the grant, assigned by the NFVO.
    pub id: String,
    /// `id` of the VNF instance.
    pub vnf_instance_id: String,
    /// `id` of the operation occurrence.
    pub vnf_lcm_op_occ_id: String,
    /// VIMs to use, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vim_connection_info: BTreeMap<String, Box<VimConnectionInfo>>,
    /// Zones that the resources refer to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ZoneInfo>,
    /// Groups of zones that the NFVO considers interchangeable.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zone_groups: Vec<ZoneGroupInfo>,
    /// Resources that may be created.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_resources: Vec<GrantInfo>,
    /// Resources that may be deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_resources: Vec<GrantInfo>,
    /// Resources that may be modified.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub update_resources: Vec<GrantInfo>,
    /// Flavors and images to use on the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_assets: Option<VimAssets>,
    /// External links, overriding those of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_virtual_links: Vec<ExtVirtualLinkData>,
    /// Internal links that the NFVO has created and manages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_managed_virtual_links: Vec<ExtManagedVirtualLinkData>,
    /// Parameters, overriding those of the request.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
    /// Links of the grant resource.
    #[serde(rename = "_links", default, skip_serializing_if = "Option::is_none")]
    pub links: Option<GrantLinks>,
}

/// `_links` of [`Grant`]: the NFVO's URI of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantLinks {
    /// URI of the grant at the NFVO.
    #[serde(rename = "self")]
    pub this: Link,
}

/// `GrantInfo` (9.5.3): the approval of one requested resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantInfo {
    /// The [`ResourceDefinition`] that it approves.
    pub resource_definition_id: String,
    /// Reservation to use; we support none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation_id: Option<String>,
    /// Key of the VIM in `vimConnectionInfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
    /// The resource provider; we support only the VIM itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_provider_id: Option<String>,
    /// The [`ZoneInfo`] to place it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
    /// The project on the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_group_id: Option<String>,
}

/// `ZoneInfo` (9.5.3): a resource zone that grants refer to.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneInfo {
    /// Identifier of this entry, unique within the grant.
    pub id: String,
    /// Name of the zone on the VIM.
    pub zone_id: String,
    /// Key of the VIM in `vimConnectionInfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
}

/// `ZoneGroupInfo` (9.5.3): zones of which any may be used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneGroupInfo {
    /// Ids of the [`ZoneInfo`]s that are interchangeable.
    #[serde(default)]
    pub zone_id: Vec<String>,
}

/// `vimAssets` of [`Grant`]: flavors and images that exist on the VIM.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VimAssets {
    /// Flavor on the VIM by VDU.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compute_resource_flavours: Vec<VimComputeResourceFlavour>,
    /// Image on the VIM by VDU or storage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub software_images: Vec<VimSoftwareImage>,
}

/// `VimComputeResourceFlavour` (9.5.3): the flavor to use for a VDU.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VimComputeResourceFlavour {
    /// Key of the VIM in `vimConnectionInfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
    /// Name of the VDU in the VNFD.
    pub vnfd_virtual_compute_desc_id: String,
    /// Id of the flavor on the VIM.
    pub vim_flavour_id: String,
}

/// `VimSoftwareImage` (9.5.3): the image to use for a VDU or a storage.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VimSoftwareImage {
    /// Key of the VIM in `vimConnectionInfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
    /// Name of the VDU or storage in the VNFD.
    pub vnfd_software_image_id: String,
    /// Id of the image on the VIM.
    pub vim_software_image_id: String,
}

/// `ExtManagedVirtualLinkData` (4.4.1.12): an existing network to use as an internal virtual link.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtManagedVirtualLinkData {
    /// Assigned by the NFVO or the client.
    pub id: String,
    /// Name of the `VnfVirtualLink` node; `virtualLinkDescId` in V2.6.1.
    #[serde(alias = "virtualLinkDescId")]
    pub vnf_virtual_link_desc_id: String,
    /// Key of the VIM in `vimConnectionInfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
    /// Id of the network on the VIM.
    pub resource_id: String,
}

//! `GrantRequest` and `Grant` (SOL003 9.5.2): what an operation needs, and what of it the NFVO approves.
//!
//! Of a request the members that we fill, of a grant those that we use; others are tolerated when one is read.

use crate::{
    ExtVirtualLinkData, KeyValuePairs, LcmOperationType, Link, ResourceHandle, VimConnectionInfo,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `GrantRequest` (9.5.2.2).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantRequest {
    /// The instance.
    pub vnf_instance_id: String,
    /// The operation; the same in every request for it.
    pub vnf_lcm_op_occ_id: String,
    /// The VNFD.
    pub vnfd_id: String,
    /// The flavour that the instance is of, or will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavour_id: Option<String>,
    /// Which operation.
    pub operation: LcmOperationType,
    /// True where we began it ourselves.
    pub is_automatic_invocation: bool,
    /// Of an instantiation: its level.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instantiation_level_id: Option<String>,
    /// What will be made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_resources: Vec<ResourceDefinition>,
    /// What will be taken away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_resources: Vec<ResourceDefinition>,
    /// What will be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub update_resources: Vec<ResourceDefinition>,
    /// What is to lie together, or apart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub placement_constraints: Vec<PlacementConstraint>,
    /// Links; made when it is sent.
    #[serde(rename = "_links", default, skip_serializing_if = "Option::is_none")]
    pub links: Option<GrantRequestLinks>,
}

/// `_links` of [`GrantRequest`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantRequestLinks {
    /// The operation occurrence.
    pub vnf_lcm_op_occ: Link,
    /// The instance.
    pub vnf_instance: Link,
}

/// `type` of [`ResourceDefinition`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum ResourceType {
    /// A server or a pod.
    Compute,
    /// An internal virtual link.
    Vl,
    /// A volume.
    Storage,
    /// A port on an external link.
    Linkport,
}

/// `ResourceDefinition` (9.5.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceDefinition {
    /// Identifier within the request.
    pub id: String,
    /// What it is.
    #[serde(rename = "type")]
    pub type_: ResourceType,
    /// The VDU that it belongs to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vdu_id: Option<String>,
    /// The node of the VNFD that describes it.
    pub resource_template_id: String,
    /// The resource, where it exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<ResourceHandle>,
}

/// `affinityOrAntiAffinity` of [`PlacementConstraint`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AffinityKind {
    /// Together.
    Affinity,
    /// Apart.
    AntiAffinity,
}

/// `PlacementConstraint` (9.5.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PlacementConstraint {
    /// Together or apart.
    pub affinity_or_anti_affinity: AffinityKind,
    /// `NFVI_POP`, `ZONE`, `ZONE_GROUP` or `NFVI_NODE`.
    pub scope: String,
    /// What: two at least.
    pub resource: Vec<ConstraintResourceRef>,
}

/// `ConstraintResourceRef` (9.5.3).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConstraintResourceRef {
    /// `RES_MGMT`: one that exists; `GRANT`: one of the same request.
    pub id_type: ConstraintIdType,
    /// Identifier on the VIM, or of the [`ResourceDefinition`].
    pub resource_id: String,
    /// The VIM of one that exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
}

/// `idType` of [`ConstraintResourceRef`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ConstraintIdType {
    /// It exists.
    ResMgmt,
    /// It is in the same request.
    Grant,
}

/// `Grant` (9.5.2.3). It may hold secrets in `vimConnectionInfo`: sealed when it is kept.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Grant {
    /// Identifier.
    pub id: String,
    /// The instance.
    pub vnf_instance_id: String,
    /// The operation.
    pub vnf_lcm_op_occ_id: String,
    /// VIMs that may be used, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vim_connection_info: BTreeMap<String, Box<VimConnectionInfo>>,
    /// Zones that the resources refer to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zones: Vec<ZoneInfo>,
    /// Zones that may stand for each other.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zone_groups: Vec<ZoneGroupInfo>,
    /// What may be made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add_resources: Vec<GrantInfo>,
    /// What may be taken away.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove_resources: Vec<GrantInfo>,
    /// What may be changed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub update_resources: Vec<GrantInfo>,
    /// Flavors and images on the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_assets: Option<VimAssets>,
    /// External links; over those of the request.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_virtual_links: Vec<ExtVirtualLinkData>,
    /// Internal links that others have made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_managed_virtual_links: Vec<ExtManagedVirtualLinkData>,
    /// Parameters; over those of the request.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub additional_params: KeyValuePairs,
    /// Links.
    #[serde(rename = "_links", default, skip_serializing_if = "Option::is_none")]
    pub links: Option<GrantLinks>,
}

/// `_links` of [`Grant`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantLinks {
    /// The grant.
    #[serde(rename = "self")]
    pub this: Link,
}

/// `GrantInfo` (9.5.3).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GrantInfo {
    /// The [`ResourceDefinition`] that it approves.
    pub resource_definition_id: String,
    /// A reservation to be used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservation_id: Option<String>,
    /// Key of the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
    /// Who manages it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_provider_id: Option<String>,
    /// The [`ZoneInfo`] where it is to lie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
    /// The project on the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_group_id: Option<String>,
}

/// `ZoneInfo` (9.5.3).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneInfo {
    /// Identifier within the grant.
    pub id: String,
    /// Name of the zone on the VIM.
    pub zone_id: String,
    /// Key of the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
}

/// `ZoneGroupInfo` (9.5.3).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ZoneGroupInfo {
    /// The [`ZoneInfo`]s.
    #[serde(default)]
    pub zone_id: Vec<String>,
}

/// `vimAssets` of [`Grant`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VimAssets {
    /// Flavors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub compute_resource_flavours: Vec<VimComputeResourceFlavour>,
    /// Images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub software_images: Vec<VimSoftwareImage>,
}

/// `VimComputeResourceFlavour` (9.5.3).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VimComputeResourceFlavour {
    /// Key of the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
    /// The VDU.
    pub vnfd_virtual_compute_desc_id: String,
    /// The flavor on the VIM.
    pub vim_flavour_id: String,
}

/// `VimSoftwareImage` (9.5.3).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VimSoftwareImage {
    /// Key of the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
    /// The VDU or storage.
    pub vnfd_software_image_id: String,
    /// The image on the VIM.
    pub vim_software_image_id: String,
}

/// `ExtManagedVirtualLinkData` (4.4.1.12).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtManagedVirtualLinkData {
    /// Identifier, given by the NFVO.
    pub id: String,
    /// The `VnfVirtualLink` node; `virtualLinkDescId` in V2.6.1.
    #[serde(alias = "virtualLinkDescId")]
    pub vnf_virtual_link_desc_id: String,
    /// Key of the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
    /// The network on the VIM.
    pub resource_id: String,
}

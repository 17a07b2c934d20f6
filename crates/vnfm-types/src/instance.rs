//! `VnfInstance` (SOL003 5.5.2.2) and what is inside it.

use crate::{KeyValuePairs, Link, VimConnectionInfo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `instantiationState` of a [`VnfInstance`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum InstantiationState {
    /// Only the record exists.
    #[default]
    NotInstantiated,
    /// Resources exist.
    Instantiated,
}

/// `VnfOperationalStateType` (5.5.4.3).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum VnfOperationalState {
    /// Running.
    #[default]
    Started,
    /// Stopped.
    Stopped,
}

/// `VnfInstance`: one VNF, from its identifier to its resources.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfInstance {
    /// Identifier.
    pub id: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
    /// Description for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_description: Option<String>,
    /// The VNFD that it was made from.
    pub vnfd_id: String,
    /// Provider, copied from the VNFD.
    pub vnf_provider: String,
    /// Product name, copied from the VNFD.
    pub vnf_product_name: String,
    /// Software version, copied from the VNFD.
    pub vnf_software_version: String,
    /// Version of the VNFD.
    pub vnfd_version: String,
    /// Values of configurable properties.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub vnf_configurable_properties: KeyValuePairs,
    /// VIMs by key; without `accessInfo` when served.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vim_connection_info: BTreeMap<String, Box<VimConnectionInfo>>,
    /// Whether resources exist.
    pub instantiation_state: InstantiationState,
    /// Resources; present exactly while `INSTANTIATED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instantiated_vnf_info: Option<InstantiatedVnfInfo>,
    /// Free metadata.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
    /// Values of modifiable extensions.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub extensions: KeyValuePairs,
    /// Related resources and the tasks that are possible now; filled when served.
    #[serde(rename = "_links", default, skip_serializing_if = "Option::is_none")]
    pub links: Option<VnfInstanceLinks>,
}

/// `_links` of [`VnfInstance`]: a task's link is there only while the task is possible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfInstanceLinks {
    /// This resource.
    #[serde(rename = "self")]
    pub this: Link,
    /// The instantiate task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instantiate: Option<Link>,
    /// The terminate task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub terminate: Option<Link>,
    /// The heal task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal: Option<Link>,
}

/// `instantiatedVnfInfo` of [`VnfInstance`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstantiatedVnfInfo {
    /// Deployment flavour.
    pub flavour_id: String,
    /// Running or stopped.
    pub vnf_state: VnfOperationalState,
    /// Scale level of each aspect; present where the VNF scales.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scale_status: Vec<ScaleInfo>,
    /// Highest scale level of each aspect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub max_scale_levels: Vec<ScaleInfo>,
    /// External connection points (mandatory).
    #[serde(default)]
    pub ext_cp_info: Vec<VnfExtCpInfo>,
    /// External virtual links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_virtual_link_info: Vec<ExtVirtualLinkInfo>,
    /// Internal virtual links that others manage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_managed_virtual_link_info: Vec<ExtManagedVirtualLinkInfo>,
    /// Language of the VNF.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub localization_language: Option<String>,
    /// VNFCs: one per server or pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnfc_resource_info: Vec<VnfcResourceInfo>,
    /// Internal virtual links.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnf_virtual_link_resource_info: Vec<VnfVirtualLinkResourceInfo>,
    /// Volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub virtual_storage_resource_info: Vec<VirtualStorageResourceInfo>,
    /// What the driver remembers, such as the stack's id; our addition.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
}

/// `ScaleInfo` (5.5.3.4).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleInfo {
    /// The scaling aspect.
    pub aspect_id: String,
    /// Its level, from 0.
    pub scale_level: u32,
}

/// `ResourceHandle` (4.4.1.7): a resource on a VIM.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceHandle {
    /// Key of the VIM in `vimConnectionInfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
    /// Who manages it, where it is not the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_provider_id: Option<String>,
    /// Its identifier on the VIM.
    pub resource_id: String,
    /// Its type on the VIM, such as `OS::Nova::Server` or `Pod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_level_resource_type: Option<String>,
}

/// `VnfcResourceInfo` (5.5.3.5): one VNFC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfcResourceInfo {
    /// Identifier within the instance; a healed VNFC gets a new one.
    pub id: String,
    /// The VDU that it is an instance of.
    pub vdu_id: String,
    /// Server or pod.
    pub compute_resource: ResourceHandle,
    /// Resource zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
    /// Volumes, by their `virtualStorageResourceInfo.id`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage_resource_ids: Vec<String>,
    /// Its connection points.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnfc_cp_info: Vec<VnfcCpInfo>,
    /// `name`, and what else the driver knows.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
}

/// `vnfcCpInfo` of [`VnfcResourceInfo`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfcCpInfo {
    /// Identifier within the instance.
    pub id: String,
    /// The CPD, the name of the `VduCp` node.
    pub cpd_id: String,
    /// The external CP that it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_ext_cp_id: Option<String>,
    /// Addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cp_protocol_info: Vec<CpProtocolInfo>,
    /// The link port that it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_link_port_id: Option<String>,
    /// What else the driver knows.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
}

/// `CpProtocolInfo` (5.5.3.9b).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpProtocolInfo {
    /// Always `IP_OVER_ETHERNET`.
    pub layer_protocol: String,
    /// Addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_over_ethernet: Option<IpOverEthernetAddressInfo>,
}

/// `IpOverEthernetAddressInfo` (5.5.3.10).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpOverEthernetAddressInfo {
    /// MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// VLAN or other segment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segmentation_id: Option<String>,
    /// IP addresses by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<IpAddressesInfo>,
}

/// `ipAddresses` of [`IpOverEthernetAddressInfo`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressesInfo {
    /// `IPV4` or `IPV6`.
    #[serde(rename = "type")]
    pub type_: String,
    /// The addresses.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Whether they were given out dynamically.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_dynamic: Option<bool>,
    /// Subnet on the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<String>,
}

/// `VnfExtCpInfo` (5.5.3.9): an external connection point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfExtCpInfo {
    /// Identifier within the instance.
    pub id: String,
    /// The CPD.
    pub cpd_id: String,
    /// Key of the configuration in the request.
    pub cp_config_id: String,
    /// Addresses (mandatory).
    #[serde(default)]
    pub cp_protocol_info: Vec<CpProtocolInfo>,
    /// The port of the external link that it is on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ext_link_port_id: Option<String>,
    /// What else the driver knows.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
    /// The VNFC CP that it exposes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub associated_vnfc_cp_id: Option<String>,
}

/// `ExtVirtualLinkInfo` (5.5.3.2).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtVirtualLinkInfo {
    /// Identifier, given by the request.
    pub id: String,
    /// The network.
    pub resource_handle: ResourceHandle,
    /// Ports on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_link_ports: Vec<ExtLinkPortInfo>,
    /// The CPs as configured (mandatory).
    #[serde(default)]
    pub current_vnf_ext_cp_data: Vec<VnfExtCpData>,
}

/// `ExtManagedVirtualLinkInfo` (5.5.3.3): an internal virtual link whose network others made, and keep.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtManagedVirtualLinkInfo {
    /// Identifier, given by the request or the grant.
    pub id: String,
    /// The `VnfVirtualLink` node.
    pub vnf_virtual_link_desc_id: String,
    /// The network.
    pub network_resource: ResourceHandle,
    /// Ports on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnf_link_ports: Vec<VnfLinkPortInfo>,
}

/// `ExtLinkPortInfo` (5.5.3.8).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtLinkPortInfo {
    /// Identifier.
    pub id: String,
    /// The port.
    pub resource_handle: ResourceHandle,
    /// The external CP on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cp_instance_id: Option<String>,
}

/// `VnfVirtualLinkResourceInfo` (5.5.3.6): an internal virtual link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfVirtualLinkResourceInfo {
    /// Identifier within the instance.
    pub id: String,
    /// The `VnfVirtualLink` node.
    pub vnf_virtual_link_desc_id: String,
    /// The network.
    pub network_resource: ResourceHandle,
    /// Resource zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
    /// Ports on it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnf_link_ports: Vec<VnfLinkPortInfo>,
    /// What else the driver knows.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
}

/// `VnfLinkPortInfo` (5.5.3.11).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfLinkPortInfo {
    /// Identifier within the instance.
    pub id: String,
    /// The port.
    pub resource_handle: ResourceHandle,
    /// The CP on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cp_instance_id: Option<String>,
    /// `VNFC_CP` or `EXT_CP`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cp_instance_type: Option<String>,
}

/// `VirtualStorageResourceInfo` (5.5.3.7): a volume.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualStorageResourceInfo {
    /// Identifier within the instance.
    pub id: String,
    /// The storage node.
    pub virtual_storage_desc_id: String,
    /// The volume.
    pub storage_resource: ResourceHandle,
    /// Resource zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
    /// What else the driver knows.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
}

/// `ExtVirtualLinkData` (4.4.1.11): an external link in a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtVirtualLinkData {
    /// Identifier, given by whoever asks.
    pub id: String,
    /// Key of the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
    /// Who manages it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_provider_id: Option<String>,
    /// The network on the VIM, by id or name.
    pub resource_id: String,
    /// CPs to connect (mandatory).
    #[serde(default)]
    pub ext_cps: Vec<VnfExtCpData>,
    /// Ports that exist already.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_link_ports: Vec<ExtLinkPortData>,
}

/// `ExtLinkPortData` (4.4.1.15).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtLinkPortData {
    /// Identifier.
    pub id: String,
    /// The port.
    pub resource_handle: ResourceHandle,
}

/// `VnfExtCpData` (4.4.1.10).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfExtCpData {
    /// The external CPD.
    pub cpd_id: String,
    /// Configurations by key, one per CP instance; null removes one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cp_config: BTreeMap<String, Option<VnfExtCpConfig>>,
}

/// `VnfExtCpConfig` (4.4.1.10a).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfExtCpConfig {
    /// Parent of a subport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_cp_config_id: Option<String>,
    /// The port to use; made by us where absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_port_id: Option<String>,
    /// Whether to make a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_ext_link_port: Option<bool>,
    /// Addresses to give it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cp_protocol_data: Vec<CpProtocolData>,
}

/// `CpProtocolData` (4.4.1.10b).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpProtocolData {
    /// Always `IP_OVER_ETHERNET`.
    pub layer_protocol: String,
    /// Addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_over_ethernet: Option<IpOverEthernetAddressData>,
}

/// `IpOverEthernetAddressData` (4.4.1.10c).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpOverEthernetAddressData {
    /// MAC address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// IP addresses by type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<IpAddressesData>,
}

/// `ipAddresses` of [`IpOverEthernetAddressData`]: exactly one of `fixedAddresses`, `numDynamicAddresses`, `addressRange`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressesData {
    /// `IPV4` or `IPV6`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Addresses to use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed_addresses: Vec<String>,
    /// How many to let the VIM choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_dynamic_addresses: Option<u32>,
    /// `{minAddress, maxAddress}`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_range: Option<serde_json::Value>,
    /// Subnet on the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<String>,
}

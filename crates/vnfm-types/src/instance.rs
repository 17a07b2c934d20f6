//! `VnfInstance` (SOL003 5.5.2.2) and its nested types.

use crate::{KeyValuePairs, Link, VimConnectionInfo};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// `instantiationState` of a [`VnfInstance`]: whether it has resources.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum InstantiationState {
    /// Only the record exists; no resources.
    #[default]
    NotInstantiated,
    /// Resources exist on a VIM.
    Instantiated,
}

/// `VnfOperationalStateType` (5.5.4.3): whether the VNFCs are started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum VnfOperationalState {
    /// The VNFCs run (or should).
    #[default]
    Started,
    /// The VNFCs are shut down.
    Stopped,
}

impl VnfOperationalState {
    /// As in JSON: `STARTED` or `STOPPED`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Started => "STARTED",
            Self::Stopped => "STOPPED",
        }
    }
}

impl std::fmt::Display for VnfOperationalState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

/// `VnfInstance`: one VNF, from its identifier to its resources.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfInstance {
    /// Unique within this VNFM; a UUID.
    pub id: String,
    /// Display name of the instance; need not be unique.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
    /// Free text from the client, not interpreted by the VNFM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_description: Option<String>,
    /// `descriptor_id` of the VNFD from which it was created.
    pub vnfd_id: String,
    /// Provider, copied from the VNFD.
    pub vnf_provider: String,
    /// Product name, copied from the VNFD.
    pub vnf_product_name: String,
    /// Software version, copied from the VNFD.
    pub vnf_software_version: String,
    /// `descriptor_version` of the VNFD: its own version, not that of the software.
    pub vnfd_version: String,
    /// Values of the configurable properties that the VNFD declares.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub vnf_configurable_properties: KeyValuePairs,
    /// VIMs by key; without `accessInfo` when served.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub vim_connection_info: BTreeMap<String, Box<VimConnectionInfo>>,
    /// Whether the instance has resources.
    pub instantiation_state: InstantiationState,
    /// Resources; present only while `INSTANTIATED`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instantiated_vnf_info: Option<InstantiatedVnfInfo>,
    /// Metadata of clients and hooks, in free form.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
    /// Values of the modifiable extensions that the VNFD declares.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub extensions: KeyValuePairs,
    /// Related resources and the tasks that are possible now; filled in when served.
    #[serde(rename = "_links", default, skip_serializing_if = "Option::is_none")]
    pub links: Option<VnfInstanceLinks>,
}

/// `_links` of [`VnfInstance`]: a task is linked only while it is possible.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfInstanceLinks {
    /// URI of this instance in the API.
    #[serde(rename = "self")]
    pub this: Link,
    /// Tasks that are possible now, by name, such as `heal`.
    #[serde(flatten)]
    pub tasks: BTreeMap<String, Link>,
}

/// `instantiatedVnfInfo` of [`VnfInstance`]: flavour, scale levels and resources.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstantiatedVnfInfo {
    /// Current deployment flavour of the instance.
    pub flavour_id: String,
    /// `STARTED` if the VNFCs run or should run.
    pub vnf_state: VnfOperationalState,
    /// Scale level of each aspect; present if the VNF can be scaled.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scale_status: Vec<ScaleInfo>,
    /// Highest scale level of each aspect.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub max_scale_levels: Vec<ScaleInfo>,
    /// External connection points; the standard requires the member, even if empty.
    #[serde(default)]
    pub ext_cp_info: Vec<VnfExtCpInfo>,
    /// External virtual links with our ports.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_virtual_link_info: Vec<ExtVirtualLinkInfo>,
    /// Internal virtual links that the NFVO or the tenant manages.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_managed_virtual_link_info: Vec<ExtManagedVirtualLinkInfo>,
    /// Language of the VNF, if it was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub localization_language: Option<String>,
    /// VNFCs: one per server or pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnfc_resource_info: Vec<VnfcResourceInfo>,
    /// Internal virtual links that we manage.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnf_virtual_link_resource_info: Vec<VnfVirtualLinkResourceInfo>,
    /// Volumes of the VNFCs; ephemeral disks are not listed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub virtual_storage_resource_info: Vec<VirtualStorageResourceInfo>,
    /// Information from the driver, such as the stack id; our addition.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
}

/// `ScaleInfo` (5.5.3.4): the level of one scaling aspect.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ScaleInfo {
    /// Name of the aspect in the VNFD.
    pub aspect_id: String,
    /// Scale level, from 0: the number of scaling steps above the smallest size.
    pub scale_level: u32,
}

/// `ResourceHandle` (4.4.1.7): a resource on a VIM.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceHandle {
    /// Key of the VIM in `vimConnectionInfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
    /// Who manages it, if not the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_provider_id: Option<String>,
    /// Its id on the VIM.
    pub resource_id: String,
    /// Its type on the VIM, such as `OS::Nova::Server` or `Pod`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_level_resource_type: Option<String>,
}

/// `VnfcResourceInfo` (5.5.3.5): one VNFC, with its server or pod.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfcResourceInfo {
    /// Identifier within the instance; a healed VNFC gets a new one.
    pub id: String,
    /// Name of the VDU in the VNFD.
    pub vdu_id: String,
    /// Handle of the server or pod.
    pub compute_resource: ResourceHandle,
    /// `id` of its resource zone, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
    /// Its volumes, by their `virtualStorageResourceInfo.id`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub storage_resource_ids: Vec<String>,
    /// Connection points of this VNFC.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnfc_cp_info: Vec<VnfcCpInfo>,
    /// `name`, and additional information from the driver.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
}

/// `vnfcCpInfo` of [`VnfcResourceInfo`]: one connection point of a VNFC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfcCpInfo {
    /// Identifier, unique within the VNF instance.
    pub id: String,
    /// Name of the `VduCp` node in the VNFD.
    pub cpd_id: String,
    /// The external CP that exposes it, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_ext_cp_id: Option<String>,
    /// Addresses, if the VIM reports any.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cp_protocol_info: Vec<CpProtocolInfo>,
    /// `id` of the link port it is attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_link_port_id: Option<String>,
    /// Additional information from the driver.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
}

/// `CpProtocolInfo` (5.5.3.9b): the addresses of a connection point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpProtocolInfo {
    /// Always `IP_OVER_ETHERNET`, the only protocol that SOL003 defines.
    pub layer_protocol: String,
    /// MAC and IP addresses, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_over_ethernet: Option<IpOverEthernetAddressInfo>,
}

/// `IpOverEthernetAddressInfo` (5.5.3.10): MAC and IP addresses.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpOverEthernetAddressInfo {
    /// MAC address of the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// VLAN or other segment, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub segmentation_id: Option<String>,
    /// IP addresses, grouped by type and subnet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<IpAddressesInfo>,
}

/// `ipAddresses` of [`IpOverEthernetAddressInfo`]: addresses of one type.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressesInfo {
    /// `IPV4` or `IPV6`, for all addresses of the entry.
    #[serde(rename = "type")]
    pub type_: String,
    /// IP addresses in text form, without a prefix length.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<String>,
    /// Whether the VIM chose the addresses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_dynamic: Option<bool>,
    /// Id of the subnet on the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<String>,
}

/// `VnfExtCpInfo` (5.5.3.9): an external connection point.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfExtCpInfo {
    /// Identifier, unique within the VNF instance.
    pub id: String,
    /// Name of the CPD in the VNFD.
    pub cpd_id: String,
    /// Key of its configuration in the request.
    pub cp_config_id: String,
    /// Addresses of the connection point; mandatory in SOL003.
    #[serde(default)]
    pub cp_protocol_info: Vec<CpProtocolInfo>,
    /// `id` of the external link port it is attached to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ext_link_port_id: Option<String>,
    /// Additional information from the driver.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
    /// `id` of the VNFC CP that it exposes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub associated_vnfc_cp_id: Option<String>,
}

/// `ExtVirtualLinkInfo` (5.5.3.2): an external network and our ports on it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtVirtualLinkInfo {
    /// Assigned by the client in the request.
    pub id: String,
    /// Handle of the network on the VIM.
    pub resource_handle: ResourceHandle,
    /// Ports of the VNF on this link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_link_ports: Vec<ExtLinkPortInfo>,
    /// Current configuration of the CPs (mandatory).
    #[serde(default)]
    pub current_vnf_ext_cp_data: Vec<VnfExtCpData>,
}

/// `ExtManagedVirtualLinkInfo` (5.5.3.3): an internal virtual link whose network the NFVO or the tenant manages.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtManagedVirtualLinkInfo {
    /// Assigned by the client in the request, or by the grant.
    pub id: String,
    /// Name of the `VnfVirtualLink` node.
    pub vnf_virtual_link_desc_id: String,
    /// Handle of the network on the VIM.
    pub network_resource: ResourceHandle,
    /// Ports of the VNF on this link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnf_link_ports: Vec<VnfLinkPortInfo>,
}

/// `ExtLinkPortInfo` (5.5.3.8): a port of ours on an external virtual link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtLinkPortInfo {
    /// Unique within the VNF instance.
    pub id: String,
    /// Handle of the port on the VIM.
    pub resource_handle: ResourceHandle,
    /// `id` of the external CP on the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cp_instance_id: Option<String>,
}

/// `VnfVirtualLinkResourceInfo` (5.5.3.6): an internal virtual link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfVirtualLinkResourceInfo {
    /// Identifier, unique within the VNF instance.
    pub id: String,
    /// Name of the `VnfVirtualLink` node.
    pub vnf_virtual_link_desc_id: String,
    /// Handle of the network on the VIM.
    pub network_resource: ResourceHandle,
    /// `id` of its resource zone, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
    /// Ports of the VNF on this link.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vnf_link_ports: Vec<VnfLinkPortInfo>,
    /// Additional information from the driver.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
}

/// `VnfLinkPortInfo` (5.5.3.11): a port on an internal virtual link.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfLinkPortInfo {
    /// Identifier, unique within the VNF instance.
    pub id: String,
    /// Handle of the port on the VIM.
    pub resource_handle: ResourceHandle,
    /// `id` of the CP on the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cp_instance_id: Option<String>,
    /// `VNFC_CP` or `EXT_CP`: the kind of connection point that the port serves.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cp_instance_type: Option<String>,
}

/// `VirtualStorageResourceInfo` (5.5.3.7): a volume of a VNFC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VirtualStorageResourceInfo {
    /// Identifier, unique within the VNF instance.
    pub id: String,
    /// Name of the storage node in the VNFD.
    pub virtual_storage_desc_id: String,
    /// Handle of the volume on the VIM.
    pub storage_resource: ResourceHandle,
    /// `id` of its resource zone, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone_id: Option<String>,
    /// Additional information from the driver.
    #[serde(default, skip_serializing_if = "KeyValuePairs::is_empty")]
    pub metadata: KeyValuePairs,
}

/// `ExtVirtualLinkData` (4.4.1.11): an external link in a request.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtVirtualLinkData {
    /// Identifier of the link, assigned by the client.
    pub id: String,
    /// Key of the VIM in `vimConnectionInfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
    /// Who manages it, if not the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource_provider_id: Option<String>,
    /// The network on the VIM, by id or name.
    pub resource_id: String,
    /// CPs to connect to it (mandatory).
    #[serde(default)]
    pub ext_cps: Vec<VnfExtCpData>,
    /// Existing ports to use for the CPs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ext_link_ports: Vec<ExtLinkPortData>,
}

/// `ExtLinkPortData` (4.4.1.15): an existing port to use.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExtLinkPortData {
    /// Assigned by the client in the request.
    pub id: String,
    /// Handle of the port on the VIM.
    pub resource_handle: ResourceHandle,
}

/// `VnfExtCpData` (4.4.1.10): how one external connection point of the VNFD is connected.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfExtCpData {
    /// Name of the external CPD in the VNFD.
    pub cpd_id: String,
    /// Configurations by key, one per CP instance; null removes one.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub cp_config: BTreeMap<String, Option<VnfExtCpConfig>>,
}

/// `VnfExtCpConfig` (4.4.1.10a): port or addresses of one connection point instance.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VnfExtCpConfig {
    /// Key of the parent configuration, for a subport.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_cp_config_id: Option<String>,
    /// `id` of an existing port; absent: we create one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_port_id: Option<String>,
    /// Whether to create a port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub create_ext_link_port: Option<bool>,
    /// Addresses to assign to the port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cp_protocol_data: Vec<CpProtocolData>,
}

/// `CpProtocolData` (4.4.1.10b): addresses that a connection point shall get.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CpProtocolData {
    /// Always `IP_OVER_ETHERNET`, the only protocol that SOL003 defines.
    pub layer_protocol: String,
    /// MAC and IP addresses to use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ip_over_ethernet: Option<IpOverEthernetAddressData>,
}

/// `IpOverEthernetAddressData` (4.4.1.10c): MAC and IP addresses to assign.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpOverEthernetAddressData {
    /// MAC address to use, if a fixed one is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mac_address: Option<String>,
    /// IP addresses, grouped by type and subnet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ip_addresses: Vec<IpAddressesData>,
}

/// `ipAddresses` of [`IpOverEthernetAddressData`]: exactly one of `fixedAddresses`, `numDynamicAddresses`, `addressRange`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct IpAddressesData {
    /// `IPV4` or `IPV6`, for all addresses of the entry.
    #[serde(rename = "type")]
    pub type_: String,
    /// Fixed IP addresses to use, in text form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fixed_addresses: Vec<String>,
    /// Number of addresses for the VIM to choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub num_dynamic_addresses: Option<u32>,
    /// `{minAddress, maxAddress}`: the range to choose an address from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address_range: Option<serde_json::Value>,
    /// Id of the subnet on the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subnet_id: Option<String>,
}

//! The resources of an instance: as SOL003 shows them, and as a driver records them.

use serde::{Deserialize, Serialize};
use serde_json::Value;
use vnfm_types::{
    ExtManagedVirtualLinkInfo, ExtVirtualLinkInfo, KeyValuePairs, VirtualStorageResourceInfo,
    VnfExtCpInfo, VnfVirtualLinkResourceInfo, VnfcResourceInfo,
};

/// The resources of an instance as SOL003 shows them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Inventory {
    /// One per server or pod.
    pub vnfc_resource_info: Vec<VnfcResourceInfo>,
    /// External connection points and their addresses.
    pub ext_cp_info: Vec<VnfExtCpInfo>,
    /// Networks outside the VNF, with our ports on them.
    pub ext_virtual_link_info: Vec<ExtVirtualLinkInfo>,
    /// Internal virtual links that the NFVO or the tenant manages.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ext_managed_virtual_link_info: Vec<ExtManagedVirtualLinkInfo>,
    /// Internal virtual links that we manage.
    pub vnf_virtual_link_resource_info: Vec<VnfVirtualLinkResourceInfo>,
    /// Volumes of the VNFCs; ephemeral disks are not listed.
    pub virtual_storage_resource_info: Vec<VirtualStorageResourceInfo>,
}

/// What a driver recorded of an instance: the result of `converge` and `observe`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Recorded {
    /// The driver's own data about the resources: stack id, namespace, objects. No secrets.
    pub handle: Value,
    /// The resources as SOL003 shows them.
    pub inventory: Inventory,
    /// Facts for `instantiatedVnfInfo.metadata`, such as the stack id.
    pub metadata: KeyValuePairs,
    /// What the resources were made of, for [`Deployment::resolved`](crate::Deployment::resolved); null: what `preview` found.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub resolved: Value,
}

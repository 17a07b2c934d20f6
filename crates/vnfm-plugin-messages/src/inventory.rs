//! What an instance consists of: its VNFCs, their addresses, and how to log in to them.

use crate::Object;
use crate::error::DriverError;
use crate::ssh::SshTarget;
#[cfg(feature = "schemars")]
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Resources of the instance, as SOL003 shows them in `instantiatedVnfInfo`.
///
/// ```
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
/// use vnfm_plugin_sdk::{ComputeResource, Instance, Inventory};
///
/// let server = json!({"id": "v", "vduId": "web", "computeResource": {"resourceId": "server-1"}});
/// let inventory: Inventory = from_value(json!({"vnfcResourceInfo": [server], "extCpInfo": [{"id": "cp"}]})).unwrap();
/// let resource: &ComputeResource = &inventory.vnfc_resource_info[0].compute_resource;
/// assert_eq!((resource.resource_id.as_str(), inventory.ext_cp_info.len()), ("server-1", 1));
/// let instance: Instance = from_value(json!({"id": "i", "metadata": {"site": "north"}})).unwrap();
/// assert_eq!(instance.metadata["site"], "north");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(
        description = "Resources of the instance, as SOL003 shows them in `instantiatedVnfInfo`."
    )
)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Inventory {
    /// VNFCs: one per server or pod.
    pub vnfc_resource_info: Vec<Vnfc>,
    /// External connection points, each a `VnfExtCpInfo` of SOL003.
    pub ext_cp_info: Vec<Value>,
    /// External virtual links, each an `ExtVirtualLinkInfo` of SOL003.
    pub ext_virtual_link_info: Vec<Value>,
    /// Internal virtual links, each a `VnfVirtualLinkResourceInfo` of SOL003.
    pub vnf_virtual_link_resource_info: Vec<Value>,
    /// Volumes, each a `VirtualStorageResourceInfo` of SOL003.
    pub virtual_storage_resource_info: Vec<Value>,
    /// Members sent by a newer host that this SDK does not know.
    #[serde(flatten)]
    pub more: Object,
}

/// One VNFC: a server or a pod (`VnfcResourceInfo`).
///
/// ```
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
/// use vnfm_plugin_sdk::{Vnfc, VnfcCp};
///
/// let ip = json!({"ipOverEthernet": {"ipAddresses": [{"type": "IPV4", "addresses": ["10.0.0.1", "10.0.0.2"]}]}});
/// let vnfc: Vnfc = from_value(json!({
///     "id": "vnfc-1",
///     "vduId": "web",
///     "computeResource": {"resourceId": "server-1"},
///     "vnfcCpInfo": [{"id": "cp-1", "cpdId": "CP1", "cpProtocolInfo": [ip]}],
///     "metadata": {"name": "web-1"},
/// }))
/// .unwrap();
/// assert_eq!((vnfc.name(), vnfc.server_id()), ("web-1", "server-1"));
/// assert_eq!(vnfc.address("CP1").unwrap(), "10.0.0.1");
/// assert_eq!(vnfc.ssh("CP1", "ubuntu").unwrap().label(), "web-1");
/// let cp: &VnfcCp = &vnfc.vnfc_cp_info[0];
/// assert_eq!(cp.addresses().count(), 2);
/// let error = vnfc.address("CP9").unwrap_err();
/// assert_eq!(error.code, "no-address");
/// assert!(error.detail.contains("CP1"), "the message lists the connection points");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(description = "One VNFC: a server or a pod (`VnfcResourceInfo`).")
)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Vnfc {
    /// Identifier within the instance; a recreated VNFC gets a new one.
    pub id: String,
    /// The VDU of which this is an instance.
    pub vdu_id: String,
    /// The server or pod on the VIM.
    pub compute_resource: ComputeResource,
    /// Connection points, with their addresses.
    #[serde(default)]
    pub vnfc_cp_info: Vec<VnfcCp>,
    /// `name`, and further entries from the VIM's driver.
    #[serde(default)]
    pub metadata: Object,
    /// Members sent by a newer host that this SDK does not know.
    #[serde(flatten)]
    pub more: Object,
}

/// `computeResource` of a [`Vnfc`]: its server or pod on the VIM.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ComputeResource {
    /// Key of the VIM in `vimConnectionInfo`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
    /// Identifier of the server or pod on the VIM.
    pub resource_id: String,
    /// Resource type on the VIM, such as `OS::Nova::Server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_level_resource_type: Option<String>,
}

/// A connection point of a [`Vnfc`] (`vnfcCpInfo`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct VnfcCp {
    /// Identifier, unique within the VNF instance.
    pub id: String,
    /// Name of the CP in the VNFD.
    pub cpd_id: String,
    /// Addresses of the connection point, each a `CpProtocolInfo` of SOL003.
    #[serde(default)]
    pub cp_protocol_info: Vec<Value>,
    /// Further entries from the VIM's driver.
    #[serde(default)]
    pub metadata: Object,
}

impl Vnfc {
    /// The name on the VIM, or the id if the VIM has none.
    pub fn name(&self) -> &str {
        self.metadata
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or(&self.id)
    }

    /// The identifier of the server or pod on the VIM.
    pub fn server_id(&self) -> &str {
        &self.compute_resource.resource_id
    }

    /// The first IP address of the connection point `cp`.
    ///
    /// # Errors
    ///
    /// `no-address`, listing the connection points, if there is no such connection point or it has no address.
    pub fn address(&self, cp: &str) -> Result<&str, DriverError> {
        let found = self.vnfc_cp_info.iter().filter(|info| info.cpd_id == cp);
        found.flat_map(VnfcCp::addresses).next().ok_or_else(|| {
            let known: Vec<_> = self.vnfc_cp_info.iter().map(|info| info.cpd_id.as_str()).collect();
            let detail = format!(
                "VNFC `{}` has no address on connection point `{cp}`; its connection points are {known:?}",
                self.id
            );
            DriverError::new("no-address", detail).host(self.name())
        })
    }

    /// The SSH target for this VNFC: its address on connection point `cp`, port 22.
    ///
    /// # Errors
    ///
    /// Those of [`Vnfc::address`]: `no-address` if the VNFC has none on `cp`.
    pub fn ssh(&self, cp: &str, username: &str) -> Result<SshTarget, DriverError> {
        Ok(SshTarget::new(self.server_id(), self.address(cp)?, username).named(self.name()))
    }
}

impl VnfcCp {
    /// The IP addresses of the connection point, of all address families.
    pub fn addresses(&self) -> impl Iterator<Item = &str> {
        self.cp_protocol_info
            .iter()
            .filter_map(|info| info.pointer("/ipOverEthernet/ipAddresses")?.as_array())
            .flatten()
            .filter_map(|kind| kind.get("addresses")?.as_array())
            .flatten()
            .filter_map(Value::as_str)
    }
}

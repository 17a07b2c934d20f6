//! What a hook is told.

use crate::error::DriverError;
use crate::ssh::SshTarget;
use crate::{Object, SCHEMA_VERSION};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What a hook is told. `P` is the hook's own type for `additionalParams`.
///
/// A newer host may tell more than this SDK knows; that is kept in [`more`](Self::more), and lost by no hook that hands
/// the request on.
///
/// ```
/// use serde::Deserialize;
/// use vnfm_plugin_sdk::serde_json::{Value, from_value, json};
/// use vnfm_plugin_sdk::{DriverError, HookRequest};
///
/// #[derive(Deserialize)]
/// struct Page {
///     text: String,
/// }
///
/// # fn main() -> Result<(), DriverError> {
/// let told = vnfm_plugin_sdk::testkit::request("instantiate_end")
///     .vnfc("web", "web-1", &[("CP1", "10.0.0.1")])
///     .artifact("page", "Files/page.html", "tosca.artifacts.File")
///     .params(json!({"text": "hello"}));
/// let mut told = told.json().clone();
/// told["newInTenYears"] = json!(true);
/// let request: HookRequest<Value> = from_value(told).unwrap();
///
/// let request: HookRequest<Page> = request.typed()?;
/// assert_eq!(request.additional_params.text, "hello");
/// assert_eq!(request.vnfcs().len(), 1);
/// assert_eq!(request.artifact("page").unwrap().path, "Files/page.html");
/// assert_eq!(request.more["newInTenYears"], true);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "What a hook is told. `P` is the hook's own type for `additionalParams`.")]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HookRequest<P = Value> {
    /// 1.
    pub schema_version: u32,
    /// Such as `INSTANTIATE`.
    pub operation: String,
    /// Such as `instantiate_end`.
    pub hook: String,
    /// True on the way back: what the hook did is to be made not so. Only hooks that declare it are asked to.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// The VNF instance.
    pub instance: Instance,
    /// Its resources.
    #[serde(default)]
    pub inventory: Inventory,
    /// `additionalParams` of the operation's request, secrets in clear.
    pub additional_params: P,
    /// What the VNFD gives to the operation.
    #[serde(default)]
    pub inputs: Object,
    /// VIMs that this instance registered earlier.
    #[serde(default)]
    pub vims: Vec<RegisteredVim>,
    /// Live VNF instances on those VIMs: what is taken from them is taken from these.
    #[serde(default)]
    pub dependents: Vec<Dependent>,
    /// What a heal is about; absent in every other operation.
    #[serde(default)]
    pub heal: Option<Heal>,
    /// Artifacts of the package.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// RFC 3339: when the hook is dropped.
    pub deadline: String,
    /// How often this hook was begun, from 1.
    pub attempt: u32,
    /// What the host tells besides: members that this SDK does not know yet.
    #[serde(flatten)]
    pub more: Object,
}

impl<P> std::fmt::Debug for HookRequest<P> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "HookRequest({} of `{}`, attempt {})",
            self.hook, self.instance.id, self.attempt
        )
    }
}

impl HookRequest<Value> {
    /// The request with its parameters as the hook wants them. Absent parameters count as none.
    ///
    /// # Errors
    ///
    /// `schema-version` where the host speaks a version that this SDK does not, `bad-parameters` where they
    /// do not fit; the text names the field.
    pub fn typed<P: DeserializeOwned>(self) -> Result<HookRequest<P>, DriverError> {
        if self.schema_version != SCHEMA_VERSION {
            let said = format!(
                "the request is of schemaVersion {}, this plugin speaks {SCHEMA_VERSION}",
                self.schema_version
            );
            return Err(DriverError::new("schema-version", said));
        }
        let params = match self.additional_params {
            Value::Null => Value::Object(Object::new()),
            params => params,
        };
        let additional_params = serde_json::from_value(params).map_err(|error| {
            DriverError::new(
                "bad-parameters",
                format!("`additionalParams` do not fit: {error}"),
            )
        })?;
        Ok(HookRequest {
            schema_version: self.schema_version,
            operation: self.operation,
            hook: self.hook,
            undo: self.undo,
            instance: self.instance,
            inventory: self.inventory,
            additional_params,
            inputs: self.inputs,
            vims: self.vims,
            dependents: self.dependents,
            heal: self.heal,
            artifacts: self.artifacts,
            deadline: self.deadline,
            attempt: self.attempt,
            more: self.more,
        })
    }
}

impl<P> HookRequest<P> {
    /// Every VNFC.
    pub fn vnfcs(&self) -> &[Vnfc] {
        &self.inventory.vnfc_resource_info
    }

    /// The VNFCs of one VDU, in the order of the inventory.
    ///
    /// ```
    /// use vnfm_plugin_sdk::HookRequest;
    ///
    /// /// Addresses of a VDU's servers on a connection point, in the order of the inventory.
    /// fn addresses<P>(request: &HookRequest<P>) -> Vec<String> {
    ///     let workers = request.vnfcs_of("worker").into_iter();
    ///     workers.filter_map(|vnfc| Some(vnfc.address("CP1").ok()?.to_owned())).collect()
    /// }
    ///
    /// # let json = vnfm_plugin_sdk::testkit::request("heal_end").vnfc("worker", "w", &[("CP1", "10.0.0.1")]);
    /// # let request: HookRequest = vnfm_plugin_sdk::serde_json::from_value(json.json().clone()).unwrap();
    /// assert_eq!(addresses(&request), ["10.0.0.1"]);
    /// ```
    pub fn vnfcs_of(&self, vdu: &str) -> Vec<&Vnfc> {
        self.vnfcs()
            .iter()
            .filter(|vnfc| vnfc.vdu_id == vdu)
            .collect()
    }

    /// The artifact of that name or path.
    pub fn artifact(&self, name: &str) -> Option<&Artifact> {
        self.artifacts
            .iter()
            .find(|artifact| artifact.name == name || artifact.path == name)
    }
}

/// The VNF instance, as a hook sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Instance {
    /// `VnfInstance.id`.
    pub id: String,
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
    /// The VNFD.
    pub vnfd_id: String,
    /// Provider.
    pub vnf_provider: String,
    /// Product name.
    pub vnf_product_name: String,
    /// Software version.
    pub vnf_software_version: String,
    /// Version of the VNFD.
    pub vnfd_version: String,
    /// Metadata.
    pub metadata: Object,
    /// What the host tells besides: members that this SDK does not know yet.
    #[serde(flatten)]
    pub more: Object,
}

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
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(
    description = "Resources of the instance, as SOL003 shows them in `instantiatedVnfInfo`."
)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Inventory {
    /// VNFCs: one per server or pod.
    pub vnfc_resource_info: Vec<Vnfc>,
    /// External connection points.
    pub ext_cp_info: Vec<Value>,
    /// External virtual links.
    pub ext_virtual_link_info: Vec<Value>,
    /// Internal virtual links.
    pub vnf_virtual_link_resource_info: Vec<Value>,
    /// Volumes.
    pub virtual_storage_resource_info: Vec<Value>,
    /// What the host tells besides: members that this SDK does not know yet.
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
/// assert!(error.detail.contains("CP1"), "it says which there are");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "One VNFC: a server or a pod (`VnfcResourceInfo`).")]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Vnfc {
    /// Identifier within the instance; a healed VNFC gets a new one.
    pub id: String,
    /// The VDU that it is an instance of.
    pub vdu_id: String,
    /// Server or pod.
    pub compute_resource: ComputeResource,
    /// Connection points.
    #[serde(default)]
    pub vnfc_cp_info: Vec<VnfcCp>,
    /// `name`, and what else the VIM's driver knows.
    #[serde(default)]
    pub metadata: Object,
    /// What the host tells besides: members that this SDK does not know yet.
    #[serde(flatten)]
    pub more: Object,
}

/// `computeResource` of a [`Vnfc`].
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ComputeResource {
    /// Key of the VIM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_connection_id: Option<String>,
    /// Its identifier on the VIM.
    pub resource_id: String,
    /// Its type on the VIM, such as `OS::Nova::Server`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vim_level_resource_type: Option<String>,
}

/// A connection point of a [`Vnfc`] (`vnfcCpInfo`).
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct VnfcCp {
    /// Identifier within the instance.
    pub id: String,
    /// Name of the CP in the VNFD.
    pub cpd_id: String,
    /// Addresses, as `CpProtocolInfo`.
    #[serde(default)]
    pub cp_protocol_info: Vec<Value>,
    /// What else the VIM's driver knows.
    #[serde(default)]
    pub metadata: Object,
}

impl Vnfc {
    /// Its name on the VIM, else its id.
    pub fn name(&self) -> &str {
        self.metadata
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or(&self.id)
    }

    /// The VIM's id of the server or pod.
    pub fn server_id(&self) -> &str {
        &self.compute_resource.resource_id
    }

    /// The first IP address of the connection point `cp`.
    ///
    /// # Errors
    ///
    /// `no-address` where there is no such connection point or it has none; the text says what is there.
    pub fn address(&self, cp: &str) -> Result<&str, DriverError> {
        let found = self.vnfc_cp_info.iter().filter(|info| info.cpd_id == cp);
        found.flat_map(VnfcCp::addresses).next().ok_or_else(|| {
            let known: Vec<_> = self.vnfc_cp_info.iter().map(|info| info.cpd_id.as_str()).collect();
            let said = format!(
                "VNFC `{}` has no address on connection point `{cp}`; its connection points are {known:?}",
                self.id
            );
            DriverError::new("no-address", said).host(self.name())
        })
    }

    /// Where to log in by SSH: the server's address on `cp`.
    ///
    /// # Errors
    ///
    /// As [`Vnfc::address`].
    pub fn ssh(&self, cp: &str, username: &str) -> Result<SshTarget, DriverError> {
        Ok(SshTarget::new(self.server_id(), self.address(cp)?, username).named(self.name()))
    }
}

impl VnfcCp {
    /// Its IP addresses.
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

/// A VIM that the instance registered.
///
/// ```
/// use vnfm_plugin_sdk::serde_json::from_value;
/// use vnfm_plugin_sdk::{Dependent, Heal, HookRequest, RegisteredVim};
///
/// // A heal of `w1`, while somebody else runs on the cluster that this instance has registered.
/// let told = vnfm_plugin_sdk::testkit::request("heal_start")
///     .vnfc("worker", "w1", &[("CP1", "10.0.0.1")])
///     .vnfc("worker", "w2", &[("CP1", "10.0.0.2")])
///     .vim("7d5f", "cluster", "ETSINFV.KUBERNETES.V_1")
///     .dependent("0c9a", "shop")
///     .heal(&["w1"]);
/// let request: HookRequest = from_value(told.json().clone()).unwrap();
/// let cluster: &RegisteredVim = &request.vims[0];
/// let user: &Dependent = &request.dependents[0];
/// let heal: &Heal = request.heal.as_ref().unwrap();
/// assert_eq!((cluster.name.as_str(), user.id.as_str()), ("cluster", "0c9a"));
/// assert_eq!(heal.vnfcs[0].name(), "w1");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "A VIM that the instance registered.")]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RegisteredVim {
    /// Its id in the registry.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its type.
    pub vim_type: String,
}

/// A live VNF instance on a VIM that the instance registered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Dependent {
    /// `VnfInstance.id`.
    pub id: String,
    /// Name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
}

/// What a heal is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Heal {
    /// The VNFCs that are healed, as they were before; in `heal_end` the inventory holds their successors.
    pub vnfcs: Vec<Vnfc>,
    /// Why, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// As the request names it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heal_script: Option<String>,
    /// Volumes too.
    pub all: bool,
}

/// A file of the package that the VNFD names as an artifact.
///
/// ```
/// use vnfm_plugin_sdk::Artifact;
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
///
/// let told = json!({"name": "page", "path": "Files/page.html", "type": "tosca.artifacts.File"});
/// let artifact: Artifact = from_value(told).unwrap();
/// assert_eq!(artifact.type_, "tosca.artifacts.File");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(description = "A file of the package that the VNFD names as an artifact.")]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Artifact {
    /// Its name in the VNFD.
    pub name: String,
    /// Its path in the package.
    pub path: String,
    /// Its TOSCA type.
    #[serde(rename = "type")]
    pub type_: String,
}

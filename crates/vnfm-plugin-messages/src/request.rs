//! The request of a hook: its instance and parameters, and what only some operations add.

use crate::changes::{
    Connectivity, FlavourChange, Heal, Instantiation, Operate, PackageChange, Scale, Snapshot,
};
use crate::error::DriverError;
use crate::inventory::{Inventory, Vnfc};
use crate::{Object, SCHEMA_VERSION};
#[cfg(feature = "schemars")]
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The request of a hook. `P` is the hook's own type for `additionalParams`; the engine has its own types for the
/// inventory `I` and its VNFCs `V`.
///
/// Members that this SDK does not know, as a newer host may send them, are kept in [`more`](Self::more) and
/// serialized again with the request.
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
/// let test_request = vnfm_plugin_sdk::testkit::request("instantiate_end")
///     .vnfc("web", "web-1", &[("CP1", "10.0.0.1")])
///     .artifact("page", "Files/page.html", "tosca.artifacts.File")
///     .params(json!({"text": "hello"}));
/// let mut json = test_request.json().clone();
/// json["newInTenYears"] = true.into();
/// let request: HookRequest<Value> = from_value(json).unwrap();
///
/// let request: HookRequest<Page> = request.typed()?;
/// assert_eq!(request.additional_params.text, "hello");
/// assert_eq!(request.vnfcs().len(), 1);
/// assert_eq!(request.artifact("page").unwrap().path, "Files/page.html");
/// assert_eq!(request.more["newInTenYears"], true);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(
        description = "The request of a hook. `P` is the hook's own type for `additionalParams`."
    )
)]
#[cfg_attr(
    feature = "schemars",
    schemars(
        bound = "P: JsonSchema, I: JsonSchema + Default + Serialize, V: JsonSchema + Default + Serialize"
    )
)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct HookRequest<P = Value, I = Inventory, V = Vnfc> {
    /// Version of the message format: 1.
    pub schema_version: u32,
    /// Lifecycle operation, such as `INSTANTIATE`.
    pub operation: String,
    /// Name of the hook, such as `instantiate_end`.
    pub hook: String,
    /// True during a rollback: undo what the hook did. Only set for hooks that declare an undo handler.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// The VNF instance that the operation changes.
    pub instance: Instance,
    /// Resources of the instance at the time of the hook.
    #[serde(default)]
    pub inventory: I,
    /// `additionalParams` of the operation's request; secrets are in plain text.
    pub additional_params: P,
    /// Inputs that the VNFD defines for the operation.
    #[serde(default)]
    pub inputs: Object,
    /// VIMs that this instance registered earlier.
    #[serde(default)]
    pub vims: Vec<RegisteredVim>,
    /// Existing VNF instances on those VIMs; they are affected by changes to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<Dependent>,
    /// What an instantiation creates; absent in every other operation, and from an older host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instantiation: Option<Instantiation>,
    /// Parameters of a heal; absent in every other operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal: Option<Heal<V>>,
    /// The change of size of a scaling; absent in every other operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale: Option<Scale<V>>,
    /// What is started or stopped; absent in every other operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub operate: Option<Operate<V>>,
    /// The flavours before and after; absent in every operation except a change of flavour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_flavour: Option<FlavourChange<V>>,
    /// The external links before and after; absent in every operation except a change of external connectivity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_external_connectivity: Option<Connectivity>,
    /// The packages before and after; absent in every operation except a change of the VNF package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change_current_package: Option<PackageChange<V>>,
    /// The snapshot that is created or restored; absent in every other operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
    /// Artifacts of the package that the VNFD names.
    #[serde(default)]
    pub artifacts: Vec<Artifact>,
    /// Protocol that an administrator allowed for the package's Python scripts; absent: this request on standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script_protocol: Option<ScriptProtocol>,
    /// RFC 3339 time at which the hook is stopped.
    pub deadline: String,
    /// Number of this attempt of the hook, from 1.
    pub attempt: u32,
    /// Members sent by a newer host that this SDK does not know.
    #[serde(flatten)]
    pub more: Object,
}

impl<P, I, V> std::fmt::Debug for HookRequest<P, I, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "HookRequest({} of `{}`, attempt {})",
            self.hook, self.instance.id, self.attempt
        )
    }
}

impl<P, I: Default, V> HookRequest<P, I, V> {
    /// A first attempt on an instance without resources, and without a deadline yet.
    pub fn new(
        operation: impl Into<String>,
        hook: impl Into<String>,
        additional_params: P,
    ) -> Self {
        Self {
            schema_version: SCHEMA_VERSION,
            operation: operation.into(),
            hook: hook.into(),
            undo: false,
            instance: Instance::default(),
            inventory: I::default(),
            additional_params,
            inputs: Object::new(),
            vims: Vec::new(),
            dependents: Vec::new(),
            instantiation: None,
            heal: None,
            scale: None,
            operate: None,
            change_flavour: None,
            change_external_connectivity: None,
            change_current_package: None,
            snapshot: None,
            artifacts: Vec::new(),
            script_protocol: None,
            deadline: String::new(),
            attempt: 1,
            more: Object::new(),
        }
    }
}

impl HookRequest<Value> {
    /// Deserializes `additionalParams` into `P`; absent ones count as `{}`.
    ///
    /// # Errors
    ///
    /// `schema-version` if this SDK does not support the host's message version; `bad-parameters`, naming the
    /// member, if `additionalParams` do not match `P`.
    pub fn typed<P: DeserializeOwned>(self) -> Result<HookRequest<P>, DriverError> {
        if self.schema_version != SCHEMA_VERSION {
            let detail = format!(
                "the request has schemaVersion {}, this plugin supports {SCHEMA_VERSION}",
                self.schema_version
            );
            return Err(DriverError::new("schema-version", detail));
        }
        let params = match self.additional_params {
            Value::Null => Value::Object(Object::new()),
            params => params,
        };
        let additional_params = serde_json::from_value(params).map_err(|error| {
            DriverError::new(
                "bad-parameters",
                format!("invalid `additionalParams`: {error}"),
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
            instantiation: self.instantiation,
            heal: self.heal,
            scale: self.scale,
            operate: self.operate,
            change_flavour: self.change_flavour,
            change_external_connectivity: self.change_external_connectivity,
            change_current_package: self.change_current_package,
            snapshot: self.snapshot,
            artifacts: self.artifacts,
            script_protocol: self.script_protocol,
            deadline: self.deadline,
            attempt: self.attempt,
            more: self.more,
        })
    }
}

impl<P> HookRequest<P> {
    /// All VNFCs of the instance.
    pub fn vnfcs(&self) -> &[Vnfc] {
        &self.inventory.vnfc_resource_info
    }

    /// The VNFCs of one VDU, in the order of the inventory; none if the VDU is scaled to zero.
    ///
    /// ```
    /// use vnfm_plugin_sdk::{DriverError, HookRequest};
    ///
    /// /// Addresses of the workers on connection point `CP1`.
    /// fn addresses<P>(request: &HookRequest<P>) -> Result<Vec<&str>, DriverError> {
    ///     request.vnfcs_of("worker")?.into_iter().map(|vnfc| vnfc.address("CP1")).collect()
    /// }
    ///
    /// # let json = vnfm_plugin_sdk::testkit::request("heal_end").vnfc("worker", "w", &[("CP1", "10.0.0.1")]);
    /// # let request: HookRequest = vnfm_plugin_sdk::serde_json::from_value(json.json().clone()).unwrap();
    /// assert_eq!(addresses(&request).unwrap(), ["10.0.0.1"]);
    /// ```
    ///
    /// # Errors
    ///
    /// `no-such-vdu`, listing the VDUs, if the deployment flavour has no such VDU. From a host that does not send the
    /// VDUs of the flavour, an unknown VDU has no VNFCs.
    pub fn vnfcs_of(&self, vdu: &str) -> Result<Vec<&Vnfc>, DriverError> {
        let found: Vec<_> = self
            .vnfcs()
            .iter()
            .filter(|vnfc| vnfc.vdu_id == vdu)
            .collect();
        if found.is_empty() {
            self.instance.check_vdu(vdu)?;
        }
        Ok(found)
    }

    /// The artifact with this name or path.
    pub fn artifact(&self, name: &str) -> Option<&Artifact> {
        self.artifacts
            .iter()
            .find(|artifact| artifact.name == name || artifact.path == name)
    }
}

/// The VNF instance that the operation is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Instance {
    /// `id` of the `VnfInstance`, a UUID.
    pub id: String,
    /// `vnfInstanceName`: a display name, not unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
    /// `vnfdId`: the VNFD that the instance was created from.
    pub vnfd_id: String,
    /// `vnfProvider`: who provides the VNF, from the VNFD.
    pub vnf_provider: String,
    /// `vnfProductName`: the product, from the VNFD.
    pub vnf_product_name: String,
    /// `vnfSoftwareVersion`: version of the VNF's software, from the VNFD.
    pub vnf_software_version: String,
    /// `vnfdVersion`: version of the VNFD itself.
    pub vnfd_version: String,
    /// IDs of all VDUs of the deployment flavour, including those without a VNFC; empty from an older host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vdus: Vec<String>,
    /// `STARTED`, or `STOPPED` if none of its VNFCs should run, as before the operation; absent while it has no resources,
    /// and from an older host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnf_state: Option<String>,
    /// Metadata of the instance; the effects of a hook can extend it.
    pub metadata: Object,
    /// Members sent by a newer host that this SDK does not know.
    #[serde(flatten)]
    pub more: Object,
}

impl Instance {
    /// Checks that the deployment flavour has this VDU; passes if the host is too old to send the VDUs.
    ///
    /// ```
    /// use vnfm_plugin_sdk::HookRequest;
    /// use vnfm_plugin_sdk::serde_json::from_value;
    /// use vnfm_plugin_sdk::testkit::request;
    ///
    /// let built = request("instantiate_end").vdus(&["web", "db"]);
    /// let request: HookRequest = from_value(built.json().clone()).unwrap();
    /// assert!(request.instance.check_vdu("db").is_ok());
    /// assert_eq!(request.instance.check_vdu("dbb").unwrap_err().code, "no-such-vdu");
    /// ```
    ///
    /// # Errors
    ///
    /// `no-such-vdu`, listing the VDUs that exist.
    pub fn check_vdu(&self, vdu: &str) -> Result<(), DriverError> {
        if self.vdus.is_empty() || self.vdus.iter().any(|known| known == vdu) {
            return Ok(());
        }
        let detail = format!("there is no VDU `{vdu}`; the VDUs are {:?}", self.vdus);
        Err(DriverError::new("no-such-vdu", detail))
    }
}

/// A VIM that the instance registered.
///
/// ```
/// use vnfm_plugin_sdk::serde_json::from_value;
/// use vnfm_plugin_sdk::{Dependent, Heal, HookRequest, RegisteredVim};
///
/// // A heal of `w1`, while another instance runs on the cluster that this one registered.
/// let test_request = vnfm_plugin_sdk::testkit::request("heal_start")
///     .vnfc("worker", "w1", &[("CP1", "10.0.0.1")])
///     .vnfc("worker", "w2", &[("CP1", "10.0.0.2")])
///     .vim("7d5f", "cluster", "ETSINFV.KUBERNETES.V_1")
///     .dependent("0c9a", "shop")
///     .heal(&["w1"]);
/// let request: HookRequest = from_value(test_request.json().clone()).unwrap();
/// let cluster: &RegisteredVim = &request.vims[0];
/// let user: &Dependent = &request.dependents[0];
/// let heal: &Heal = request.heal.as_ref().unwrap();
/// assert_eq!((cluster.name.as_str(), user.id.as_str()), ("cluster", "0c9a"));
/// assert_eq!(heal.vnfcs[0].name(), "w1");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(description = "A VIM that the instance registered.")
)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RegisteredVim {
    /// Id of the VIM in the VNFM.
    pub id: String,
    /// Name under which the instance registered the VIM.
    pub name: String,
    /// VIM type, such as `ETSINFV.KUBERNETES.V_1`.
    pub vim_type: String,
}

impl RegisteredVim {
    /// The VIM that the VNFM knows by `id`.
    pub fn new(
        id: impl Into<String>,
        name: impl Into<String>,
        vim_type: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            name: name.into(),
            vim_type: vim_type.into(),
        }
    }
}

/// An existing VNF instance that runs on a VIM registered by this instance.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Dependent {
    /// `id` of the `VnfInstance`, a UUID.
    pub id: String,
    /// `vnfInstanceName`: a display name, not unique.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
}

impl Dependent {
    /// The instance with this id and display name.
    pub fn new(id: impl Into<String>, vnf_instance_name: Option<String>) -> Self {
        Self {
            id: id.into(),
            vnf_instance_name,
        }
    }
}

/// A file of the package that the VNFD names as an artifact.
///
/// ```
/// use vnfm_plugin_sdk::Artifact;
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
///
/// let json = json!({"name": "page", "path": "Files/page.html", "type": "tosca.artifacts.File"});
/// let artifact: Artifact = from_value(json).unwrap();
/// assert_eq!(artifact.type_, "tosca.artifacts.File");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(description = "A file of the package that the VNFD names as an artifact.")
)]
#[serde(rename_all = "camelCase", default)]
#[non_exhaustive]
pub struct Artifact {
    /// Name of the artifact in the VNFD.
    pub name: String,
    /// Path of the file in the package.
    pub path: String,
    /// TOSCA type, such as `tosca.artifacts.File`.
    #[serde(rename = "type")]
    pub type_: String,
}

impl Artifact {
    /// The artifact `name` of the VNFD, of this TOSCA type.
    pub fn new(name: impl Into<String>, path: impl Into<String>, type_: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            path: path.into(),
            type_: type_.into(),
        }
    }
}

/// How the Python scripts of a package exchange data with the VNFM, if not by [`HookRequest`] and effects as JSON.
///
/// ```
/// use vnfm_plugin_sdk::ScriptProtocol;
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
///
/// assert_eq!(from_value::<ScriptProtocol>(json!("tacker")).unwrap(), ScriptProtocol::Tacker);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schemars", derive(JsonSchema))]
#[cfg_attr(
    feature = "schemars",
    schemars(description = "How the Python scripts of a package exchange data with the VNFM.")
)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ScriptProtocol {
    /// That of OpenStack Tacker's API version 2: pickled dictionaries on standard input and output.
    Tacker,
}

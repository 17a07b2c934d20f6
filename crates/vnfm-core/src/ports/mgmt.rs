//! The VNF vendor's hooks. The messages are the JSON that crosses the plugin boundary, `schemaVersion` 1.

use super::{Code, ErrorKind, Inventory, PortError};
use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use vnfm_descriptor::{Hook, Package};
use vnfm_types::{KeyValuePairs, LcmOperationType, VnfcResourceInfo};

/// What a plugin says of itself, before anything of it runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Declaration {
    /// Name, unique with the version.
    pub name: String,
    /// Version, `MAJOR.MINOR.PATCH`.
    pub version: String,
    /// The hooks that it implements, by name; no other is ever called.
    pub hooks: BTreeMap<String, HookDeclaration>,
    /// JSON Schema of its configuration.
    pub config_schema: Option<Value>,
}

/// What a plugin says of one hook.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HookDeclaration {
    /// JSON Schema of `additionalParams`; members that are secrets are `writeOnly`.
    pub parameters: Option<Value>,
    /// True where it has an opposite: on the way back it is called again, with [`HookRequest::undo`] set.
    pub undo: bool,
}

/// What a hook is told.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookRequest {
    /// 1.
    pub schema_version: u32,
    /// Which operation.
    pub operation: LcmOperationType,
    /// Such as `instantiate_end`.
    pub hook: String,
    /// True on the way back: what the hook did is to be made not so. Never set for a hook that does not declare it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// The instance.
    pub instance: HookInstance,
    /// Its resources.
    pub inventory: Inventory,
    /// Of the request, secrets in clear.
    pub additional_params: KeyValuePairs,
    /// Inputs that the VNFD gives to the operation.
    pub inputs: KeyValuePairs,
    /// VIMs that this instance registered.
    pub vims: Vec<HookVim>,
    /// Live VNF instances on those VIMs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<HookDependent>,
    /// What a heal is about; absent in every other operation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal: Option<HookHeal>,
    /// Artifacts of the VNF node.
    pub artifacts: Vec<Value>,
    /// When the hook is dropped.
    pub deadline: Timestamp,
    /// How often it was begun, from 1.
    pub attempt: u32,
}

impl std::fmt::Debug for HookRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HookRequest({} of {})", self.hook, self.instance.id)
    }
}

/// The instance, as a hook sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookInstance {
    /// `VnfInstance.id`.
    pub id: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
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
    pub metadata: KeyValuePairs,
}

/// A VIM that the instance registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookVim {
    /// Its id in the registry.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Its type.
    pub vim_type: String,
}

/// A live VNF instance on a VIM that the instance registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookDependent {
    /// `VnfInstance.id`.
    pub id: String,
    /// Name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
}

/// What a heal is about.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookHeal {
    /// The VNFCs that are healed, as they were before; in `heal_end` the inventory holds their successors.
    pub vnfcs: Vec<VnfcResourceInfo>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// As the request names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal_script: Option<String>,
    /// Volumes too.
    pub all: bool,
}

/// What a hook asks the engine to do; applied, journaled and undone by the engine.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Effects {
    /// 1.
    pub schema_version: u32,
    /// VIMs to register.
    pub register_vims: Vec<NewVim>,
    /// VIMs of this instance to unregister, by name.
    pub unregister_vims: Vec<String>,
    /// Merged into the instance's metadata.
    pub metadata: KeyValuePairs,
    /// A sentence for the operator.
    pub message: Option<String>,
}

impl std::fmt::Debug for Effects {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let names: Vec<_> = self
            .register_vims
            .iter()
            .map(|vim| vim.name.as_str())
            .collect();
        write!(
            f,
            "Effects(register {names:?}, unregister {:?})",
            self.unregister_vims
        )
    }
}

/// A VIM that a hook asks to register; its `accessInfo` holds secrets.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NewVim {
    /// Name, unique per tenant.
    pub name: String,
    /// Kind of VIM.
    pub vim_type: String,
    /// Where and how to reach it.
    pub interface_info: KeyValuePairs,
    /// Who we are there.
    pub access_info: KeyValuePairs,
    /// What else the driver should know.
    pub extra: KeyValuePairs,
}

/// The engine's side of one running hook: services by name, with the JSON that crosses the plugin boundary.
#[async_trait]
pub trait HookHost: Send + Sync {
    /// Serves one call, such as `ssh.run`.
    ///
    /// # Errors
    ///
    /// As the service says; an unknown service and a request of the wrong shape are `Refused`.
    async fn call(&self, service: &str, request: Value) -> Result<Value, PortError>;
    /// A line for the operation's log: level `error`, `warn`, `info` or `debug`.
    fn log(&self, level: &str, text: &str);
}

/// Which driver it is: what an operation that began with it asks for again.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DriverId {
    /// Name.
    pub name: String,
    /// Version.
    pub version: String,
    /// SHA-256 of its library, where it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl std::fmt::Display for DriverId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "`{}@{}`", self.name, self.version)?;
        match &self.sha256 {
            Some(sha256) => write!(f, " with SHA-256 {sha256}"),
            None => Ok(()),
        }
    }
}

/// One loaded MgmtDriver.
#[async_trait]
pub trait MgmtDriver: Send + Sync {
    /// What it says of itself.
    fn declaration(&self) -> &Declaration;
    /// Which one it is.
    fn id(&self) -> DriverId {
        let says = self.declaration();
        DriverId {
            name: says.name.clone(),
            version: says.version.clone(),
            sha256: None,
        }
    }
    /// Runs one hook; dropped at its deadline or by a forceful cancel.
    ///
    /// # Errors
    ///
    /// What the hook says, or what kept it from running: a panic, an answer of the wrong shape.
    async fn call(
        &self,
        request: HookRequest,
        host: Arc<dyn HookHost>,
    ) -> Result<Effects, PortError>;
}

/// How a VNFD names the driver of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted<'a> {
    /// The spelling of the hook's `implementation`.
    pub implementation: &'a str,
    /// The plugin that its artifact names.
    pub plugin: Option<&'a str>,
    /// The script that its artifact is.
    pub script: Option<WantedScript<'a>>,
}

/// A hook's script, a file of its package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WantedScript<'a> {
    /// Its path in the package.
    pub path: &'a str,
    /// SHA-256 of the package's archive: what may be allowed is the package, for a script may use all of its files.
    pub package: &'a str,
}

impl<'a> Wanted<'a> {
    /// What `hook` of `package` asks for.
    pub fn of(hook: &'a Hook, package: &'a Package) -> Self {
        let artifact = hook.artifact.as_ref();
        let script = artifact.and_then(|artifact| artifact.script());
        Self {
            implementation: &hook.implementation,
            plugin: artifact.and_then(|artifact| artifact.plugin()),
            script: script.map(|path| WantedScript {
                path,
                package: package.sha256(),
            }),
        }
    }
}

/// The drivers of hooks that are there.
pub trait MgmtDrivers: Send + Sync {
    /// The driver for a VNFD's hook: `plugin` where the artifact names one, else by the spelling in
    /// `implementation`.
    ///
    /// # Errors
    ///
    /// `Refused` where there is none, naming what was looked for and what is there.
    fn find(
        &self,
        implementation: &str,
        plugin: Option<&str>,
    ) -> Result<Arc<dyn MgmtDriver>, PortError>;
    /// The driver `began`, with which an operation began that asked for `implementation` and `plugin`: another
    /// one may serve new operations by now.
    ///
    /// # Errors
    ///
    /// `Refused` where it is no longer there, naming it and what is.
    fn again(
        &self,
        began: &DriverId,
        implementation: &str,
        plugin: Option<&str>,
    ) -> Result<Arc<dyn MgmtDriver>, PortError> {
        let driver = self.find(implementation, plugin)?;
        if driver.id() == *began {
            Ok(driver)
        } else {
            Err(replaced(began, Ok(driver.id())))
        }
    }
    /// The driver for a hook that may be a script of its package; where scripts are not served, as [`MgmtDrivers::find`].
    ///
    /// # Errors
    ///
    /// As [`MgmtDrivers::find`]; `Refused` for a script of a package whose scripts nobody allowed.
    fn for_hook(&self, wanted: &Wanted<'_>) -> Result<Arc<dyn MgmtDriver>, PortError> {
        self.find(wanted.implementation, wanted.plugin)
    }
    /// The driver for a hook of an instance that `kept` (`name@version`) instantiated, while that is there: another version
    /// may serve new instances, or be unusable.
    ///
    /// # Errors
    ///
    /// As [`MgmtDrivers::for_hook`], of that version. What is found may be another one where versions cannot be told apart.
    fn for_hook_kept(
        &self,
        kept: &str,
        wanted: &Wanted<'_>,
    ) -> Result<Arc<dyn MgmtDriver>, PortError> {
        self.find(wanted.implementation, Some(kept))
    }
    /// As [`MgmtDrivers::again`], for such a hook.
    ///
    /// # Errors
    ///
    /// As [`MgmtDrivers::again`] and [`MgmtDrivers::for_hook`].
    fn for_hook_again(
        &self,
        began: &DriverId,
        wanted: &Wanted<'_>,
    ) -> Result<Arc<dyn MgmtDriver>, PortError> {
        self.again(began, wanted.implementation, wanted.plugin)
    }
    /// All of them.
    fn list(&self) -> Vec<Declaration>;
}

/// An operation began with `began`, which is not there any more; `now` is what serves new ones.
pub fn replaced(began: &DriverId, now: Result<DriverId, PortError>) -> PortError {
    let now = match now {
        Ok(now) => format!("there is {now} now"),
        Err(error) => format!("and there is no other: {error}"),
    };
    let what = format!("it began with {began}; {now}");
    PortError::new(&REPLACED, "go on with the plugin of this operation", what)
}

/// The driver that an operation began with is gone.
pub const REPLACED: Code = Code {
    name: "plugin.replaced",
    kind: ErrorKind::Refused,
    means: "the operation began with a library that is no longer there",
    next: "put the file with that SHA-256 back and allow it, then retry; or roll back or fail the operation",
};

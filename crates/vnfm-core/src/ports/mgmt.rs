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

/// A plugin's description of itself, read before any of its code runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Declaration {
    /// Unique together with the version.
    pub name: String,
    /// Version, `MAJOR.MINOR.PATCH`.
    pub version: String,
    /// The hooks that it implements, by name; no other is ever called.
    pub hooks: BTreeMap<String, HookDeclaration>,
    /// JSON Schema of its configuration.
    pub config_schema: Option<Value>,
}

/// A plugin's description of one hook.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HookDeclaration {
    /// JSON Schema of `additionalParams`; secret members are `writeOnly`.
    pub parameters: Option<Value>,
    /// True if the hook can be undone: on rollback it is called again, with [`HookRequest::undo`] set.
    pub undo: bool,
}

/// The request that a hook gets.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookRequest {
    /// Always 1.
    pub schema_version: u32,
    /// The operation that calls the hook.
    pub operation: LcmOperationType,
    /// Name of the hook, such as `instantiate_end`.
    pub hook: String,
    /// True on rollback: the hook must revert what it did. Never set for a hook that does not declare `undo`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub undo: bool,
    /// The VNF instance concerned.
    pub instance: HookInstance,
    /// Current resources of the instance.
    pub inventory: Inventory,
    /// Parameters of the request, with secrets in clear text.
    pub additional_params: KeyValuePairs,
    /// Inputs that the VNFD defines for the operation.
    pub inputs: KeyValuePairs,
    /// VIMs that this instance registered.
    pub vims: Vec<HookVim>,
    /// Live VNF instances on those VIMs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<HookDependent>,
    /// The heal request; absent in other operations.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal: Option<HookHeal>,
    /// Artifacts of the VNF node.
    pub artifacts: Vec<Value>,
    /// When the hook is dropped.
    pub deadline: Timestamp,
    /// Attempts so far, from 1.
    pub attempt: u32,
}

impl std::fmt::Debug for HookRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HookRequest({} of {})", self.hook, self.instance.id)
    }
}

/// The instance as a hook sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookInstance {
    /// `VnfInstance.id`.
    pub id: String,
    /// Name for people, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
    /// `vnfdId` of the VNF instance.
    pub vnfd_id: String,
    /// `vnfProvider`, the vendor of the VNF.
    pub vnf_provider: String,
    /// `vnfProductName` of the VNFD.
    pub vnf_product_name: String,
    /// `vnfSoftwareVersion` of the VNFD.
    pub vnf_software_version: String,
    /// `vnfdVersion` of the VNFD.
    pub vnfd_version: String,
    /// IDs of all VDUs of the deployment flavour, including those without a VNFC.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vdus: Vec<String>,
    /// `metadata` of the instance.
    pub metadata: KeyValuePairs,
}

/// A VIM that the instance registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookVim {
    /// Its id in the registry.
    pub id: String,
    /// Name, unique within the tenant.
    pub name: String,
    /// Such as `openstack` or `kubernetes`.
    pub vim_type: String,
}

/// A live VNF instance on a VIM that the instance registered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookDependent {
    /// `VnfInstance.id`.
    pub id: String,
    /// Name for people, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vnf_instance_name: Option<String>,
}

/// A heal request as a hook sees it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HookHeal {
    /// The VNFCs to heal, as they were before; in `heal_end` the inventory holds their successors.
    pub vnfcs: Vec<VnfcResourceInfo>,
    /// Reason given by the caller, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cause: Option<String>,
    /// Script named in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heal_script: Option<String>,
    /// Whether volumes are replaced too.
    pub all: bool,
}

/// What a hook asks the engine to do; applied, journaled and undone by the engine.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Effects {
    /// Always 1.
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
    /// Name, unique within the tenant.
    pub name: String,
    /// Such as `kubernetes`.
    pub vim_type: String,
    /// Endpoint and how to trust it.
    pub interface_info: KeyValuePairs,
    /// Login, with secrets.
    pub access_info: KeyValuePairs,
    /// Further options for the driver.
    pub extra: KeyValuePairs,
}

/// The engine's side of a running hook: services by name, with the JSON that crosses the plugin boundary.
#[async_trait]
pub trait HookHost: Send + Sync {
    /// Serves one call, such as `ssh.run`.
    ///
    /// # Errors
    ///
    /// The error of the service; an unknown service or a malformed request is `Refused`.
    async fn call(&self, service: &str, request: Value) -> Result<Value, PortError>;
    /// A line for the operation's log: level `error`, `warn`, `info` or `debug`.
    fn log(&self, level: &str, text: &str);
}

/// Identifies a driver, so that an operation continues with the one it began with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DriverId {
    /// Name of the declaration.
    pub name: String,
    /// Version of the declaration.
    pub version: String,
    /// SHA-256 of its library, if it is one.
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

/// A loaded MgmtDriver.
#[async_trait]
pub trait MgmtDriver: Send + Sync {
    /// Name, version and hooks of the plugin.
    fn declaration(&self) -> &Declaration;
    /// Identifies the driver; by default name and version.
    fn id(&self) -> DriverId {
        let declaration = self.declaration();
        DriverId {
            name: declaration.name.clone(),
            version: declaration.version.clone(),
            sha256: None,
        }
    }
    /// Runs one hook; dropped at its deadline or by a forceful cancel.
    ///
    /// # Errors
    ///
    /// The hook's error, or what kept it from running: a panic, a malformed reply.
    async fn call(
        &self,
        request: HookRequest,
        host: Arc<dyn HookHost>,
    ) -> Result<Effects, PortError>;
}

/// How a VNFD refers to the driver of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookDriverRef<'a> {
    /// `implementation` of the hook.
    pub implementation: &'a str,
    /// The plugin that its artifact names.
    pub plugin: Option<&'a str>,
    /// The script that its artifact is.
    pub script: Option<HookScriptRef<'a>>,
}

/// A hook script in the VNF package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HookScriptRef<'a> {
    /// Its path in the package.
    pub path: &'a str,
    /// SHA-256 of the package archive. Permission is per package, because a script may use all of its files.
    pub package: &'a str,
}

impl<'a> HookDriverRef<'a> {
    /// The reference of `hook` in `package`.
    pub fn for_hook(hook: &'a Hook, package: &'a Package) -> Self {
        let artifact = hook.artifact.as_ref();
        let script = artifact.and_then(|artifact| artifact.script());
        Self {
            implementation: &hook.implementation,
            plugin: artifact.and_then(|artifact| artifact.plugin()),
            script: script.map(|path| HookScriptRef {
                path,
                package: package.sha256(),
            }),
        }
    }
}

/// The available hook drivers.
pub trait MgmtDrivers: Send + Sync {
    /// The driver for a hook: `plugin` if the artifact names one, otherwise by `implementation`.
    ///
    /// # Errors
    ///
    /// `Refused` if there is none, naming what was looked for and what is available.
    fn find(
        &self,
        implementation: &str,
        plugin: Option<&str>,
    ) -> Result<Arc<dyn MgmtDriver>, PortError>;
    /// The driver `began`, with which an operation began for `implementation` and `plugin`: another version may serve new
    /// operations by now.
    ///
    /// # Errors
    ///
    /// `Refused` if it is no longer available, naming it and the alternatives.
    fn find_exact(
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
    /// The driver for a hook that may be a script; falls back to [`MgmtDrivers::find`] if scripts are not supported.
    ///
    /// # Errors
    ///
    /// As [`MgmtDrivers::find`]; `Refused` for a script of a package whose scripts are not allowed.
    fn for_hook(&self, wanted: &HookDriverRef<'_>) -> Result<Arc<dyn MgmtDriver>, PortError> {
        self.find(wanted.implementation, wanted.plugin)
    }
    /// The driver `name_and_version` (`name@version`), which instantiated an instance, as long as it is available: another
    /// version may serve new instances, or be unusable.
    ///
    /// # Errors
    ///
    /// As [`MgmtDrivers::for_hook`]. May return another version if it cannot distinguish versions.
    fn for_deployed_hook(
        &self,
        name_and_version: &str,
        wanted: &HookDriverRef<'_>,
    ) -> Result<Arc<dyn MgmtDriver>, PortError> {
        self.find(wanted.implementation, Some(name_and_version))
    }
    /// As [`MgmtDrivers::find_exact`], for a hook that may be a script.
    ///
    /// # Errors
    ///
    /// As [`MgmtDrivers::find_exact`] and [`MgmtDrivers::for_hook`].
    fn for_running_hook(
        &self,
        began: &DriverId,
        wanted: &HookDriverRef<'_>,
    ) -> Result<Arc<dyn MgmtDriver>, PortError> {
        self.find_exact(began, wanted.implementation, wanted.plugin)
    }
    /// Declarations of all available drivers.
    fn list(&self) -> Vec<Declaration>;
}

/// The error for an operation that began with `began`, which is no longer available; `now` serves new operations.
pub fn replaced(began: &DriverId, now: Result<DriverId, PortError>) -> PortError {
    let now = match now {
        Ok(now) => format!("now available: {now}"),
        Err(error) => format!("no alternative: {error}"),
    };
    let what = format!("it began with {began}; {now}");
    PortError::new(
        &REPLACED,
        "continue with the plugin of this operation",
        what,
    )
}

/// The driver that an operation began with is missing.
pub const REPLACED: Code = Code {
    name: "plugin.replaced",
    kind: ErrorKind::Refused,
    means: "the operation began with a plugin library that is no longer installed",
    next: "restore the file with that SHA-256 and allow it, then retry; or roll back or fail the operation",
};

//! The VNF vendor's hooks. The messages are those of [`vnfm_plugin_messages`], which cross the plugin boundary as JSON.

use super::{Code, ErrorKind, Inventory, PortError};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use vnfm_descriptor::{Hook, Package};
use vnfm_types::{KeyValuePairs, VnfcResourceInfo};

pub use vnfm_plugin_messages::{
    Artifact as HookArtifact, Connectivity as HookConnectivity, Declaration,
    Dependent as HookDependent, Effects, HookDeclaration, Instance as HookInstance, NewVim,
    RegisteredVim as HookVim, ScriptProtocol,
};

/// The request that a hook gets, with the engine's types of the inventory.
pub type HookRequest =
    vnfm_plugin_messages::HookRequest<KeyValuePairs, Inventory, VnfcResourceInfo>;

/// An instantiation as a hook sees it.
pub type HookInstantiation = vnfm_plugin_messages::Instantiation;

/// A heal request as a hook sees it.
pub type HookHeal = vnfm_plugin_messages::Heal<VnfcResourceInfo>;

/// A change of size as a hook sees it.
pub type HookScale = vnfm_plugin_messages::Scale<VnfcResourceInfo>;

/// A change of flavour as a hook sees it.
pub type HookFlavourChange = vnfm_plugin_messages::FlavourChange<VnfcResourceInfo>;

/// A change of the VNF package as a hook sees it.
pub type HookPackageChange = vnfm_plugin_messages::PackageChange<VnfcResourceInfo>;

/// A start or stop as a hook sees it.
pub type HookOperate = vnfm_plugin_messages::Operate<VnfcResourceInfo>;

/// A snapshot as a hook sees it.
pub type HookSnapshot = vnfm_plugin_messages::Snapshot;

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
    /// Name that the driver declares.
    pub name: String,
    /// Version that the driver declares.
    pub version: String,
    /// SHA-256 of its library, if it is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl DriverId {
    /// `name@version`, as deployments and clients know it.
    pub fn versioned_name(&self) -> String {
        format!("{}@{}", self.name, self.version)
    }
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

/// A MgmtDriver that can be called for its hooks.
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
    /// Name of the hook's `implementation` in the VNFD.
    pub implementation: &'a str,
    /// The plugin that its artifact names.
    pub plugin: Option<&'a str>,
    /// The script that its artifact is.
    pub script: Option<HookScriptRef<'a>>,
    /// Which of several versions.
    pub version: DriverVersion<'a>,
}

/// Which version of a driver serves a hook; others may be installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverVersion<'a> {
    /// The one for new operations.
    Newest,
    /// `name@version`, which instantiated an instance, as long as it is available. Drivers that cannot tell versions
    /// apart may return another one.
    Deployed(&'a str),
    /// Exactly this driver, with which an operation began.
    Exact(&'a DriverId),
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
            version: DriverVersion::Newest,
        }
    }

    /// The version `name@version`, which instantiated an instance.
    #[must_use]
    pub fn deployed(self, name_and_version: &'a str) -> Self {
        let version = DriverVersion::Deployed(name_and_version);
        Self { version, ..self }
    }

    /// The driver `began`, with which an operation began.
    #[must_use]
    pub fn exact(self, began: &'a DriverId) -> Self {
        let version = DriverVersion::Exact(began);
        Self { version, ..self }
    }

    /// Returns `found`, unless an operation began with another driver.
    ///
    /// # Errors
    ///
    /// `plugin.replaced` in that case; the error in `found`.
    pub fn checked(
        &self,
        found: Result<Arc<dyn MgmtDriver>, PortError>,
    ) -> Result<Arc<dyn MgmtDriver>, PortError> {
        let DriverVersion::Exact(began) = self.version else {
            return found;
        };
        match found {
            Ok(driver) if driver.id() == *began => Ok(driver),
            found => Err(replaced(began, found.map(|driver| driver.id()))),
        }
    }
}

impl<'a> From<&'a str> for HookDriverRef<'a> {
    /// The newest driver for an implementation without an artifact.
    fn from(implementation: &'a str) -> Self {
        Self {
            implementation,
            plugin: None,
            script: None,
            version: DriverVersion::Newest,
        }
    }
}

/// Finds the driver of a hook among those available.
pub trait MgmtDrivers: Send + Sync {
    /// The driver for a hook: the plugin that its artifact names, or else the one for its script or its implementation.
    ///
    /// # Errors
    ///
    /// `Refused` if there is none, naming what was looked for and what is available; also for a script of a package whose
    /// scripts are not allowed, and if the driver that an operation began with is no longer available.
    fn resolve(&self, wanted: &HookDriverRef<'_>) -> Result<Arc<dyn MgmtDriver>, PortError>;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Released plugins parse this text.
    #[test]
    fn the_json_of_a_request_stays_that_of_the_released_versions() {
        let mut request = HookRequest::new("HEAL", "heal_end", KeyValuePairs::new());
        request.instance.id = "i".into();
        request.deadline = jiff::Timestamp::UNIX_EPOCH.to_string();
        let empty = r#"{"schemaVersion":1,"operation":"HEAL","hook":"heal_end","instance":{"id":"i","vnfdId":"","vnfProvider":"","vnfProductName":"","vnfSoftwareVersion":"","vnfdVersion":"","metadata":{}},"inventory":{"vnfcResourceInfo":[],"extCpInfo":[],"extVirtualLinkInfo":[],"vnfVirtualLinkResourceInfo":[],"virtualStorageResourceInfo":[]},"additionalParams":{},"inputs":{},"vims":[],"artifacts":[],"deadline":"1970-01-01T00:00:00Z","attempt":1}"#;
        assert_eq!(serde_json::to_string(&request).unwrap(), empty);
        request.undo = true;
        request.vims = vec![HookVim::new("v", "cluster", "kubernetes")];
        request.dependents = vec![HookDependent::new("o", Some("shop".into()))];
        request.artifacts = vec![HookArtifact::new("page", "Files/page", "File")];
        let mut heal = HookHeal::default();
        heal.cause = Some("it hangs".into());
        request.heal = Some(heal);
        let text = serde_json::to_string(&request).unwrap();
        for part in [
            r#""hook":"heal_end","undo":true,"instance""#,
            r#""vims":[{"id":"v","name":"cluster","vimType":"kubernetes"}],"dependents":[{"id":"o","vnfInstanceName":"shop"}],"heal":{"vnfcs":[],"cause":"it hangs","all":false},"artifacts":[{"name":"page","path":"Files/page","type":"File"}]"#,
        ] {
            assert!(text.contains(part), "{text}");
        }
    }
}

//! The JSON messages between vnfm and a plugin (`MgmtDriver`), as the engine, the plugin host and the SDK all
//! use them: camelCase, [`SCHEMA_VERSION`] 1.
//!
//! ```text
//! engine ── HookRequest ──────────────────────────────> plugin
//!        <─ a call of a service, by name ── services ──
//!        ── its response, or a ServiceError ──────────>
//!        <───────────────── Effects, or a DriverError ──
//! ```
//! Before that, the plugin describes itself by a [`Declaration`]. How the bytes cross the border is
//! `vnfm-plugin-abi`'s business. Authors of plugins use `vnfm-plugin-sdk`, which exports these types; the feature
//! `schemars` gives them JSON Schemas.

pub mod changes;
pub mod credential;
pub mod declaration;
pub mod effects;
pub mod error;
pub mod http;
pub mod inventory;
pub mod request;
pub mod secret;
pub mod ssh;

pub use changes::{
    Connectivity, FlavourChange, Heal, Instantiation, Operate, PackageChange, Scale, Snapshot,
};
pub use credential::{AccessRule, Credential, CredentialRequest};
pub use declaration::{Declaration, HookDeclaration};
pub use effects::{Effects, NewVim};
pub use error::{DriverError, ErrorKind, Failure, ServiceError};
pub use http::{HttpRequest, HttpResponse};
pub use inventory::{ComputeResource, Inventory, Vnfc, VnfcCp};
pub use request::{Artifact, Dependent, HookRequest, Instance, RegisteredVim, ScriptProtocol};
pub use secret::Secret;
pub use ssh::{Command, FileTransfer, FileUpload, Output, SshTarget, StoredFile};

/// A JSON object, such as `metadata` or `additionalParams`.
///
/// ```
/// let mut metadata = vnfm_plugin_sdk::Object::new();
/// metadata.insert("nodes".into(), 3.into());
/// ```
pub type Object = serde_json::Map<String, serde_json::Value>;

/// `schemaVersion` of these messages; a plugin refuses any other.
///
/// ```
/// assert_eq!(vnfm_plugin_sdk::Effects::none().schema_version, vnfm_plugin_sdk::SCHEMA_VERSION);
/// ```
pub const SCHEMA_VERSION: u32 = 1;

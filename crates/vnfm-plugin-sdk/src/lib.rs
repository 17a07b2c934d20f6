//! SDK for VNFM plugins (MgmtDrivers): the driver trait, hook messages, host services, an export macro and a test kit.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use std::sync::Arc;
//! use vnfm_plugin_sdk::prelude::*;
//!
//! pub struct Motd;
//!
//! #[derive(Deserialize, JsonSchema)]
//! pub struct Login {
//!     username: String,
//!     password: Secret,
//! }
//!
//! impl MgmtDriver for Motd {
//!     type Config = NoConfig;
//!
//!     fn new(_config: NoConfig) -> Result<Self, DriverError> {
//!         Ok(Self)
//!     }
//!
//!     fn hooks(hooks: Hooks<Self>) -> Hooks<Self> {
//!         hooks.on("instantiate_end", Self::instantiate_end)
//!     }
//! }
//!
//! impl Motd {
//!     async fn instantiate_end(
//!         self: Arc<Self>,
//!         cx: HookContext,
//!         request: HookRequest<Login>,
//!     ) -> Result<Effects, DriverError> {
//!         for vnfc in request.vnfcs() {
//!             let login = &request.additional_params;
//!             let target = vnfc.ssh("CP1", &login.username)?.password(login.password.clone());
//!             cx.ssh(target).check("greet", Command::new("echo hello > /etc/motd").sudo()).await?;
//!         }
//!         Ok(Effects::none().message("greeting installed"))
//!     }
//! }
//!
//! export_mgmt_driver!(Motd);
//! ```
//!
//! | to | use |
//! |---|---|
//! | read the request of a hook | [`HookRequest`], [`Vnfc`] |
//! | call the services of the VNFM | [`HookContext`], [`Ssh`] |
//! | return a result | [`Effects`], [`DriverError`] |
//! | avoid repeating work after a crash | [`HookContext::step`] |
//! | undo a hook when its operation is rolled back | [`Hooks::on_undo`] |
//! | wait for a condition | [`HookContext::wait_until`] |
//! | work on many hosts concurrently | [`join_all_limited`] |
//! | test without a VNFM | [`testkit`] |
//!
//! A plugin needs no async runtime: the host polls its futures. Blocking code occupies a thread of the host, so
//! wait only through [`HookContext`].

pub mod context;
pub mod driver;
pub mod error;
mod ffi;
pub mod http;
pub mod messages;
pub mod secret;
pub mod ssh;
pub mod testkit;

pub use context::{HookContext, JoinAll, Level, join_all_limited};
pub use driver::{Export, Hooks, MgmtDriver, NoConfig, NoParams};
pub use error::{DriverError, ErrorKind, Failure, MEANINGS, Meaning, ServiceError};
pub use ffi::{plugin, static_driver};
pub use http::{HttpRequest, HttpResponse};
pub use messages::effects::{Effects, NewVim};
pub use messages::request::{
    Artifact, ComputeResource, Dependent, Heal, HookRequest, Instance, Inventory, RegisteredVim,
    Vnfc, VnfcCp,
};
pub use secret::Secret;
pub use ssh::{Command, Output, Ssh, SshTarget, Upload};
pub use {schemars, serde, serde_json, vnfm_plugin_abi as abi};

/// A JSON object, such as `metadata` or `additionalParams`.
///
/// ```
/// let mut metadata = vnfm_plugin_sdk::Object::new();
/// metadata.insert("nodes".into(), 3.into());
/// ```
pub type Object = serde_json::Map<String, serde_json::Value>;

/// `schemaVersion` of the messages that this SDK reads and writes.
///
/// ```
/// assert_eq!(vnfm_plugin_sdk::Effects::none().schema_version, vnfm_plugin_sdk::SCHEMA_VERSION);
/// ```
pub const SCHEMA_VERSION: u32 = 1;

/// The items that most drivers need.
pub mod prelude {
    pub use crate::{
        Artifact, Command, Dependent, DriverError, Effects, Heal, HookContext, HookRequest, Hooks,
        HttpRequest, Level, MgmtDriver, NewVim, NoConfig, NoParams, Output, Secret, ServiceError,
        Ssh, SshTarget, Upload, Vnfc, export_mgmt_driver, join_all_limited,
    };
}

/// Exports a [`MgmtDriver`] as the plugin of its crate, named and versioned as in its `Cargo.toml`.
///
/// Set `crate-type = ["cdylib", "rlib"]`: the `cdylib` is the plugin, the `rlib` is for tests and for embedders,
/// who link the driver with [`static_driver`].
#[macro_export]
macro_rules! export_mgmt_driver {
    ($driver:ty) => {
        impl $crate::Export for $driver {
            const NAME: &'static str = env!("CARGO_PKG_NAME");
            const VERSION: &'static str = env!("CARGO_PKG_VERSION");
        }

        #[allow(unsafe_code)]
        const _: () = {
            #[unsafe(export_name = concat!("VNFM_MGMT_DRIVER_", env!("CARGO_PKG_NAME")))]
            static PLUGIN: $crate::abi::Plugin = $crate::plugin::<$driver>();
        };
    };
}

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
//! | know which VNFCs a scaling adds or removes | [`Scale`], in [`HookRequest::scale`] |
//! | call the services of the VNFM | [`HookContext`], [`Ssh`] |
//! | return a result | [`Effects`], [`DriverError`] |
//! | avoid repeating work after a crash | [`HookContext::step`] |
//! | undo a hook when its operation is rolled back | [`Hooks::on_undo`] |
//! | begin what cannot be undone | [`HookContext::rule_out_rollback`] |
//! | wait for a condition | [`HookContext::wait_until`] |
//! | get a login to the VIM for programs inside the VNF | [`HookContext::credential`] |
//! | know what the template of the package outputs | [`HookContext::outputs`] |
//! | work on many hosts concurrently | [`join_all_limited`] |
//! | test without a VNFM | [`testkit`] |
//!
//! A plugin needs no async runtime: the host polls its futures. Blocking code occupies a thread of the host,
//! so wait only through [`HookContext`].

pub mod context;
pub mod driver;
pub mod error;
mod ffi;
mod join;
mod rollback;
pub mod ssh;
pub mod testkit;

pub use context::{HookContext, Level};
pub use driver::{Export, Hooks, MgmtDriver, NoConfig, NoParams};
pub use error::{MEANINGS, Meaning};
pub use ffi::{plugin, static_driver};
pub use join::{JoinAll, join_all_limited};
pub use ssh::{Ssh, Upload};
pub use vnfm_plugin_messages::{self as messages, http, secret};
#[doc(inline)]
pub use vnfm_plugin_messages::{
    AccessRule, Artifact, Command, ComputeResource, Connectivity, Credential, CredentialRequest,
    Dependent, DriverError, Effects, ErrorKind, Failure, FlavourChange, Heal, HookRequest,
    HttpRequest, HttpResponse, Instance, Instantiation, Inventory, NewVim, Object, Operate, Output,
    PackageChange, RegisteredVim, SCHEMA_VERSION, Scale, ScriptProtocol, Secret, ServiceError,
    Snapshot, SshTarget, Vnfc, VnfcCp,
};
pub use {schemars, serde, serde_json, vnfm_plugin_abi as abi};

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

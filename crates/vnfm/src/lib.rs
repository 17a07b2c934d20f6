//! The vnfm engine for embedders: choose the adapters by feature, bring your own for the rest.
//!
//! | feature | brings |
//! |---|---|
//! | – | the engine, its ports, descriptors and the SOL003 data model; no runtime, no I/O |
//! | `sqlite` | `store`: the `Store` port in SQLite, packages in a folder |
//! | `openstack`, `kubernetes` | an `InfraDriver` each |
//! | `plugins` | `MgmtDriver`s as dynamic libraries, or linked in |
//! | `hosts` | `Hosts`: SSH and HTTP for hooks; `SystemClock` |
//! | `sim` | the simulated world, for tests |
//!
//! `examples/embed.rs` deploys a Kubernetes cluster in 60 lines. The embedder owns the runtime: an accepted
//! operation is driven where its future is awaited, and goes on after a crash with [`Engine::resume_all`].
//!
//! ```
//! use vnfm::{Drivers, Limits};
//!
//! // Without features there is no driver; an own one is an `InfraDriver` and goes in by `with`.
//! let drivers = Drivers::default();
//! assert!(Limits::default().hook > Limits::default().step);
//! # let _ = drivers;
//! ```

#[cfg(feature = "hosts")]
mod clock;
#[cfg(feature = "hosts")]
mod hosts;

#[cfg(feature = "hosts")]
pub use clock::SystemClock;
#[cfg(feature = "hosts")]
pub use hosts::{CODES as HOSTS_CODES, Hosts};
pub use vnfm_core::*;
pub use vnfm_descriptor as descriptor;
#[cfg(feature = "kubernetes")]
pub use vnfm_kubernetes as kubernetes;
#[cfg(feature = "openstack")]
pub use vnfm_openstack as openstack;
#[cfg(feature = "plugins")]
pub use vnfm_plugin_host as plugins;
#[cfg(feature = "sim")]
pub use vnfm_sim as sim;
#[cfg(feature = "hosts")]
pub use vnfm_ssh::{HostKeys, RememberedHostKeys};
#[cfg(feature = "sqlite")]
pub use vnfm_store as store;
pub use vnfm_types as types;

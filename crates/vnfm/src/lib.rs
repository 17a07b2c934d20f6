//! The vnfm engine for embedders: choose the adapters by feature, bring your own for the rest.
//!
//! An orchestrator that embeds this crate is a VNF Manager in its own process: it hands in VNF packages (SOL004), asks
//! for instances of them (SOL003 operations as Rust calls), and gets what happened as a stream of events. What the
//! engine needs from outside are *ports*, one small trait each; what is here fills them.
//!
//! # In one page
//!
//! ```
//! # #[cfg(all(feature = "memory", feature = "clock"))]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use vnfm::memory::{MemoryPackages, MemoryStore, MemoryVim};
//! use vnfm::{Drivers, Engine, EngineParts, SystemClock, VimChange};
//!
//! // A store, packages and a clock; drivers by vimType. Without more, a local policy grants and there are no hooks.
//! let clock = Arc::new(SystemClock);
//! let store = Arc::new(MemoryStore::new(clock.clone()));
//! let packages = Arc::new(MemoryPackages::default());
//! let engine = Engine::new(EngineParts {
//!     drivers: Drivers::default().with(MemoryVim::default()),
//!     ..EngineParts::new(store.clone(), packages.clone(), clock)
//! });
//!
//! // A package, a VIM, an instance.
//! let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../vnfd-samples/vnf-ha-pair");
//! let package = vnfm::descriptor::Package::open(sample.as_ref(), &Default::default())?;
//! let vnfd_id = package.vnfd().descriptor_id.clone();
//! packages.onboard(&*store, ("default", "pair"), Arc::new(package)).await?;
//! let to = serde_json::from_value(serde_json::json!({"vimType": vnfm::memory::MEMORY_VIM}))?;
//! let vim = engine.register_vim("default", VimChange::to(to)).await?.id;
//! let create = serde_json::from_value(serde_json::json!({"vnfdId": vnfd_id}))?;
//! let instance = engine.create("default", create).await?.vnf.id;
//!
//! // Accepted, then driven where its future is awaited.
//! let request = serde_json::json!({"flavourId": "simple", "vimConnectionInfo": {"vim": {"vimId": vim}}});
//! let op = engine.instantiate("default", &instance, serde_json::from_value(request)?).await?;
//! engine.drive(&op).await?;
//! assert_eq!(engine.progress("default", &op).await?.operation_state.as_str(), "COMPLETED");
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "memory", feature = "clock")))]
//! # fn main() {}
//! ```
//!
//! # Features
//!
//! | feature | brings | needs |
//! |---|---|---|
//! | – | the engine, its [`ports`], [`descriptor`]s and the SOL003 data model ([`types`]) | no runtime, no I/O |
//! | `schema` | `misfits`, for `EngineParts::schemas`: checks parameters by JSON Schema; without it a VNFD or hook that declares one is refused | |
//! | `memory` | `memory`: store, packages and a VIM in memory | |
//! | `sqlite` | `store`: the store in SQLite, packages in a folder | tokio |
//! | `openstack`, `kubernetes` | an `InfraDriver` each | tokio, rustls |
//! | `plugins` | `plugins`: `MgmtDriver`s as dynamic libraries, in this process or one of their own | tokio |
//! | `clock` | `SystemClock` | tokio |
//! | `hosts` | `Hosts`: SSH and HTTP for hooks; `SystemClock` | tokio, rustls |
//! | `conformance` | `conformance`: the contracts of the ports, to try own stores, drivers and NFVOs with | tokio |
//! | `sim` | `sim`: the simulated world, for tests | tokio |
//!
//! SQLite is linked by `sqlite` alone. A program that has an SQLite of its own (another `libsqlite3-sys`; cargo links one)
//! leaves that feature out and brings its own store: `memory`, or one over its own connection, tried with `conformance`.
//!
//! # What holds
//!
//! * **The runtime is yours.** Nothing here starts a task or a thread for the engine. An accepted operation is driven
//!   where [`Engine::drive`] is awaited; a future that is dropped means what a crash means, and [`Engine::resume_all`] goes
//!   on from the journal.
//! * **So is the process.** No global state, subscriber, panic hook, signal handler or TLS default is set; environment and
//!   working directory are not read. Two engines in one process do not meet. With `openstack`, `kubernetes` or `hosts`
//!   install a rustls provider (`aws_lc_rs`) first.
//! * **Addresses are checked.** Drivers and [`Hosts`] are handed the `outbound::Destinations` that they may call: by
//!   default neither this machine nor link-local and metadata addresses; `Destinations::anywhere()` where whoever names
//!   VIMs and packages is trusted. No answer of a neighbour is read beyond a limit.
//! * **Types cross threads**: what is public is `Send + Sync + 'static`. Errors say what a caller can do
//!   ([`ErrorKind`](ports::ErrorKind)) and carry no foreign type.
//! * **Look before you leap**: [`Engine::plan`] tells which steps an operation would take, and refuses what the operation
//!   would refuse. [`Engine::events`] tells what happened, from a number on.
//!
//! The folder `examples` has a page each for an own driver, own NFVO, own hooks, own store, events, a plan, and an engine
//! that is dropped on its way; `examples/embed.rs` makes a Kubernetes cluster.

#[cfg(feature = "clock")]
mod clock;
#[cfg(feature = "hosts")]
mod hosts;

#[cfg(feature = "clock")]
pub use clock::SystemClock;
#[cfg(feature = "hosts")]
pub use hosts::{CODES as HOSTS_CODES, Hosts};
#[cfg(feature = "conformance")]
pub use vnfm_conformance as conformance;
pub use vnfm_core::*;
pub use vnfm_descriptor as descriptor;
#[cfg(feature = "kubernetes")]
pub use vnfm_kubernetes as kubernetes;
#[cfg(feature = "memory")]
pub use vnfm_memory as memory;
#[cfg(feature = "openstack")]
pub use vnfm_openstack as openstack;
/// Where drivers and hooks may call: handed to each of them.
#[cfg(any(feature = "openstack", feature = "kubernetes", feature = "hosts"))]
pub use vnfm_outbound as outbound;
#[cfg(feature = "plugins")]
pub use vnfm_plugin_host as plugins;
#[cfg(feature = "schema")]
pub use vnfm_schema::misfits;
#[cfg(feature = "sim")]
pub use vnfm_sim as sim;
#[cfg(feature = "hosts")]
pub use vnfm_ssh::{HostKeys, RememberedHostKeys};
#[cfg(feature = "sqlite")]
pub use vnfm_store as store;
pub use vnfm_types as types;

//! The vnfm engine for embedders: choose adapters by feature, and bring your own for the rest.
//!
//! An orchestrator that embeds this crate is a VNF Manager in its own process: it provides VNF packages (SOL004), requests
//! instances of them (SOL003 operations as Rust calls), and receives what happens as a stream of events. The engine's
//! interfaces to the outside are *ports*, one small trait each; the features provide adapters for them.
//!
//! # In one page
//!
//! ```
//! # #[cfg(all(feature = "memory", feature = "clock"))]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use std::sync::Arc;
//! use vnfm::memory::{MemoryPackages, MemoryStore, MemoryVim};
//! use vnfm::types::{CreateVnfRequest, InstantiateVnfRequest, VimConnectionInfo};
//! use vnfm::{Drivers, Engine, EngineParts, SystemClock, VimChange};
//!
//! // A store, packages and a clock; drivers by vimType. By default a local policy grants, and there are no hooks.
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
//! let tenant = engine.tenant("default");
//! let to = VimConnectionInfo::new(vnfm::memory::MEMORY_VIM);
//! let vim = tenant.register_vim(VimChange::to(to)).await?.id;
//! let instance = tenant.create(CreateVnfRequest::new(vnfd_id)).await?.vnf.id;
//!
//! // An accepted operation is driven where its future is awaited. It may fail: `completed` tells.
//! let request = InstantiateVnfRequest::new("simple").on_vim(vim);
//! let op = tenant.instantiate(&instance, request).await?;
//! engine.drive(&op).await?.completed()?;
//! # Ok(())
//! # }
//! # #[cfg(not(all(feature = "memory", feature = "clock")))]
//! # fn main() {}
//! ```
//!
//! # Features
//!
//! | feature | provides | requires |
//! |---|---|---|
//! | – | the engine, its [`ports`], [`descriptor`]s and the SOL003 data model ([`types`]) | no runtime, no I/O |
//! | `schema` | `schema_violations`, for `EngineParts::schemas`: validates parameters by JSON Schema; without it, a VNFD or hook that declares one is refused | |
//! | `memory` | `memory`: store, packages and a VIM in memory | |
//! | `sqlite` | `store`: the store in SQLite, packages in a folder | tokio |
//! | `openstack`, `kubernetes`, `bare-hosts` | an `InfraDriver` each | tokio, rustls |
//! | `plugins` | `plugins`: `MgmtDriver`s as dynamic libraries, in this process or separate ones | tokio |
//! | `clock` | `SystemClock` | tokio |
//! | `hosts` | `Hosts`: SSH and HTTP for hooks; `SystemClock` | tokio, rustls |
//! | `conformance` | `conformance`: the contracts of the ports, for testing your own stores, drivers and NFVOs | tokio |
//! | `sim` | `sim`: the simulated world, for tests | tokio |
//!
//! Only the `sqlite` feature links SQLite. A program with its own SQLite (another `libsqlite3-sys`; cargo links only one)
//! omits that feature and brings another store: `memory`, or one over its own connection, tested with `conformance`.
//!
//! # Guarantees
//!
//! * **The runtime is yours.** The engine starts no task or thread. An accepted operation is driven where
//!   [`Engine::drive`] is awaited; dropping that future is equivalent to a crash, and
//!   [`Engine::resume_all`] continues from the journal.
//! * **So is the process.** The engine sets no global state, subscriber, panic hook, signal handler or TLS default, and does
//!   not read environment or working directory. Two engines in one process share nothing. With `openstack`, `kubernetes`
//!   or `hosts`, install a rustls provider (`aws_lc_rs`) first.
//! * **Addresses are checked.** Drivers and [`Hosts`] get the `outbound::Destinations` that they may call: by default neither
//!   this machine nor link-local and metadata addresses; use `Destinations::anywhere()` if you trust everyone who can name
//!   VIMs and packages. Responses of neighbours are read only up to a limit.
//! * **Types can cross threads**: public types are `Send + Sync + 'static`. Errors say what a caller can do
//!   ([`ErrorKind`](ports::ErrorKind)) and contain no foreign types.
//! * **Dry runs**: [`Engine::plan`] lists the steps of an operation, and refuses what the operation would refuse.
//!   [`Engine::events`] streams what happened from a given number on.
//!
//! The folder `examples` has a page each on a custom driver, NFVO, hooks and store, on events, on a plan, and on an engine
//! that is dropped in the middle; `examples/embed.rs` creates a Kubernetes cluster.

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
#[cfg(feature = "bare-hosts")]
pub use vnfm_hosts as bare_hosts;
#[cfg(feature = "kubernetes")]
pub use vnfm_kubernetes as kubernetes;
#[cfg(feature = "memory")]
pub use vnfm_memory as memory;
#[cfg(feature = "openstack")]
pub use vnfm_openstack as openstack;
/// The addresses that drivers and hooks may call.
#[cfg(any(
    feature = "openstack",
    feature = "kubernetes",
    feature = "bare-hosts",
    feature = "hosts"
))]
pub use vnfm_outbound as outbound;
#[cfg(feature = "plugins")]
pub use vnfm_plugin_host as plugins;
#[cfg(feature = "schema")]
pub use vnfm_schema::schema_violations;
#[cfg(feature = "sim")]
pub use vnfm_sim as sim;
#[cfg(feature = "hosts")]
pub use vnfm_ssh::{HostKeys, RememberedHostKeys};
#[cfg(feature = "sqlite")]
pub use vnfm_store as store;
pub use vnfm_types as types;

//! Loads MgmtDriver plugins and runs their hooks: the adapter behind core's port [`vnfm_core::ports::MgmtDrivers`].
//!
//! ```text
//! plugins.lock ──> PluginHost::find("kubernetes-cluster")        newest pinned version, or name@version
//!                     │  writable only by us or root?            folder.rs
//!                     │  SHA-256 as pinned?                      folder.rs
//!                     │  symbol, magic, major, size, flags       elf.rs, library.rs
//!                     │  declaration, configuration              library.rs, driver.rs
//!                     v
//!                  PluginDriver::call(request, host)        or ProcessDriver::call
//!                     │  polls the hook on its own thread        thread_runner.rs  process_runner/, child_process/
//!                     │  passes service calls to core            services.rs
//!                     v
//!                  Effects, or one error of one hook             driver.rs, errors.rs
//! ```
//!
//! A plugin is trusted code that may still have bugs: a wrong file or version, a panic, a malformed reply, a missed
//! deadline or a `poll` that never returns fails one hook and nothing else. An abort or a segfault ends the process
//! it happens in: by default each hook has its own, with limits ([`ProcessConfig`]); plugins that are trusted like the
//! engine can run inside the engine's process ([`Runner::InProcess`]). A library is never unloaded: a new version is
//! loaded alongside the old one.
//!
//! Hooks must be called on a tokio runtime with time and I/O enabled, which the embedder provides.

mod allocator;
mod child_process;
mod config;
mod driver;
mod elf;
mod errors;
mod folder;
mod isolation;
mod library;
mod lock;
mod process_runner;
mod registry;
mod script_driver;
mod services;
mod thread_runner;

pub use allocator::return_freed_memory;
pub use child_process::plugin_runner;
pub use config::{
    AllowedScripts, Config, PluginConfig, ProcessConfig, ProcessLimits, Runner, Scripts, Users,
};
pub use driver::PluginDriver;
pub use errors::codes;
pub use isolation::{Files, Isolation, Network, Processes};
pub use library::{Inspection, file_sha256, inspect};
pub use lock::{LOCK_FILE, Lock, PackagePin, Pin};
pub use registry::{PluginHost, PluginStatus};
pub use vnfm_plugin_abi::Plugin;

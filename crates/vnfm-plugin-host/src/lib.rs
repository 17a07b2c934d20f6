//! Loads MgmtDriver plugins and runs their hooks: the adapter behind core's port [`vnfm_core::ports::MgmtDrivers`].
//!
//! ```text
//! plugins.lock ──> PluginHost::find("kubernetes-cluster")        newest pinned version, or name@version
//!                     │  folder and file writable by us alone?   folder.rs
//!                     │  SHA-256 as pinned?                      folder.rs
//!                     │  symbol, magic, major, size, flags       elf.rs, library.rs
//!                     │  declaration, configuration              library.rs, driver.rs
//!                     v
//!                  PluginDriver::call(request, host)        or ProcessDriver::call
//!                     │  a thread of its own polls the hook      runner.rs       process/, child/
//!                     │  its services go back to core            services.rs
//!                     v
//!                  Effects, or one error of one hook             driver.rs, errors.rs
//! ```
//!
//! A plugin is trusted code that may still be wrong: a wrong file, version, panic, answer, a missed deadline or
//! a `poll` that never returns ends one hook and nothing else. What aborts or segfaults ends the process that it
//! is in: by default a process of its own for each hook, shut in by limits ([`ProcessConfig`]); for plugins that
//! are trusted as the engine is, the engine's ([`Runner::InProcess`]). A library is never unloaded: a new version
//! lies beside the old one.
//!
//! Needs a tokio runtime with time and I/O enabled where hooks are called; the embedder owns it.

mod allocator;
mod child;
mod config;
mod driver;
mod elf;
mod errors;
mod folder;
mod isolation;
mod library;
mod lock;
mod process;
mod registry;
mod runner;
mod services;

pub use allocator::return_freed_memory;
pub use child::plugin_runner;
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

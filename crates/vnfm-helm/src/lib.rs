//! Runs helm, version 3 or 4, as a child process that can be trusted with a login and with a vendor's chart.
//!
//! ```text
//! Helm ── program   which file may run: its SHA-256 is compared before each start, its version asked once
//!         process   one run: cleared environment, limits, output of bounded size, ends with us
//!         folder    its private folder; those that killed processes left are deleted
//!         memory    chart, values and kubeconfig as sealed files in memory: never in arguments, never on disk
//!         renderer  passes the rendered objects through our code before helm applies them
//!         commands  template, crds, install, upgrade, test, uninstall
//! ```
//! Not here: which release to install when, what its objects may be, and waiting until they are ready.

mod commands;
mod errors;
mod folder;
mod memory;
mod process;
mod program;
mod renderer;

pub use commands::{Apply, Cluster, Release};
pub use errors::HelmError;
pub use program::{Helm, Limits, Version};
pub use renderer::Render;

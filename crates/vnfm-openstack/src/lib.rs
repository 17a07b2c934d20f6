//! `InfraDriver` for OpenStack: Keystone, Heat, Nova, Neutron, Glance; and Barbican, a store for the keys that seal
//! secrets.
//!
//! ```text
//! driver ─┬─ plan ──────────── the request, checked against the VNFD
//!         ├─ prepare ───────── what only the cloud knows: flavor, image, network, quota
//!         ├─ grant_constraints ─ what the NFVO's grant prescribes
//!         ├─ hot, base_hot ──── the template: generated from the VNFD, or the package's own
//!         ├─ policy ────────── the template, checked against the VIM's policy
//!         ├─ stacks ────────── a stack's life: create, wait, delete
//!         ├─ heal ──────────── replaces servers of a stack
//!         ├─ inventory ─────── a stack's resources in SOL003's terms
//!         └─ waiting ───────── through lost responses and changed passwords
//! barbican ─ SecretSealer: stores keys
//! heat, nova, neutron, glance (image_body: streams) ─ session (token, catalog) ─ call (one HTTP call) ─ errors
//! ```
//! We use no OpenStack crate: none supports Heat, and we need few calls. `access.rs` lists the connection's members.

mod access;
mod barbican;
mod base_hot;
mod call;
mod driver;
mod errors;
mod glance;
mod grant_constraints;
mod heal;
mod heat;
mod hot;
mod image_body;
mod inventory;
mod neutron;
mod nova;
mod plan;
mod policy;
mod prepare;
mod session;
mod stacks;
#[cfg(test)]
mod testing;
mod waiting;

pub use barbican::{Barbican, BarbicanLogin};
pub use driver::OpenStack;
pub use errors::CODES;

//! `InfraDriver` for OpenStack: Keystone, Heat, Nova, Neutron, Glance; and Barbican, where the keys that seal secrets are
//! to be kept.
//!
//! ```text
//! driver ─┬─ plan ──────── what the request asks for, read against the VNFD
//!         ├─ prepare ───── what only the cloud knows: flavor, image, network, quota
//!         ├─ hot, base_hot ─ the template: made from the VNFD, or the package's own
//!         ├─ stacks ────── a stack's life: made, waited for, deleted
//!         ├─ repair ────── the servers of a stack that are replaced
//!         ├─ inventory ─── what the stack holds, as SOL003 shows it
//!         └─ patience ──── waiting, through lost answers and changed passwords
//! barbican ─ SecretSealer: keeps keys
//! heat, nova, neutron, glance (image_body: streamed) ─ session (token, catalog) ─ call (one HTTP call) ─ errors
//! ```
//! There is no OpenStack crate here: none knows Heat, and the calls that we need are few. The connection's
//! members are listed in `access.rs`.

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

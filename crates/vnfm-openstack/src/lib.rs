//! `InfraDriver` for OpenStack: Keystone, Heat, Nova, Neutron, Glance; and Barbican, a store for
//! the keys that seal secrets.
//!
//! ```text
//! driver ─┬─ blueprint ─────── the instance: VNFD and deployment, read once per call
//!         ├─ check ─────────── the request, checked against the VNFD
//!         ├─ prepare ───────── what only the cloud knows: flavor, image, network, quota; the result is `resolved`
//!         ├─ grant_constraints ─ what the NFVO's grant prescribes; zone_check: zones that cannot be followed
//!         ├─ instance_template ─ generated from the VNFD (generated_template), or the package's own (base_hot:
//!         │                    nfv_layout, vnfc_resources, user_data, heat_files)
//!         ├─ policy ────────── the template, checked against the VIM's policy
//!         ├─ stacks ────────── creates and deletes a stack, and waits for it
//!         ├─ update ────────── changes a stack: other servers, other size, other template; detached_ports: what servers lost
//!         ├─ zone_reselection ─ other zones for servers that no host had room for
//!         ├─ inventory ─────── a stack's resources in SOL003's terms
//!         ├─ snapshots ─────── images of servers, cinder: snapshots of volumes; restore: the return to them
//!         ├─ application_credentials ─ logins for programs inside instances; leftovers: what these programs created
//!         ├─ links ─────────── networks that outlive stacks
//!         └─ retries ───────── through lost responses and changed passwords
//! barbican ─ SecretSealer: stores keys
//! heat, nova, neutron, glance (image_body: streams) ─ keystone_login (token, catalog) ─ http_call ─ errors
//! ```
//! We use no OpenStack crate: none supports Heat, and we need few calls. `access.rs` lists the connection's members.

mod access;
mod application_credentials;
mod barbican;
mod base_hot;
mod base_hot_sizes;
mod blueprint;
mod check;
mod cinder;
mod detached_ports;
mod driver;
mod driver_snapshots;
mod empty_volumes;
mod errors;
mod generated_template;
mod get_param;
mod glance;
mod grant_constraints;
mod group_members;
mod heat;
mod heat_files;
mod heat_preview;
mod hot_text;
mod http_call;
mod image_body;
mod instance_template;
mod inventory;
mod keystone_login;
mod leftovers;
mod links;
mod managed_links;
mod neutron;
mod nfv_layout;
mod nova;
mod package_images;
mod package_templates;
mod plan;
mod policy;
mod power;
mod prepare;
mod recorded_stack;
mod resolved;
mod response;
mod restore;
mod retained_volumes;
mod retries;
mod rolling_update;
mod snapshots;
mod stacks;
#[cfg(test)]
mod testing;
mod unplaced_zones;
mod update;
mod user_data;
mod vnfc_names;
mod vnfc_resources;
mod volumes;
mod zone_check;
mod zone_reselection;

pub use barbican::{Barbican, BarbicanLogin};
pub use driver::OpenStack;
pub use errors::CODES;
pub use unplaced_zones::UnplacedZones;

//! Shared by the tests across crates: the checkout and its sources, testbeds, and optional neighbours.
//!
//! ```text
//! it/         one program: layering, documents, scenarios in the simulated world
//! live/       one program: the real neighbours; each test prints why it is skipped
//! long/       one program: what takes too long there for every run
//! spans/      a separate crate: collects the spans that a server sends
//! hostile/    the hostile machine: attacks on the built programs
//! faults/     the fault machine: a fault at every call
//! stack/      starts the real neighbours; `cargo xtask stack` calls it
//! ```

pub mod bare_machines;
pub mod bundles;
pub mod cloud;
pub mod cloud_contract;
pub mod cluster_access;
pub mod contracts;
pub mod crash_points;
pub mod demo;
pub mod faulty_store;
pub mod forwarder;
pub mod helm_cluster;
pub mod host;
pub mod imports;
pub mod intercepted_store;
pub mod live;
pub mod machine;
pub mod node_software;
pub mod package_image;
pub mod planted;
pub mod process_watch;
pub mod programs;
pub mod real;
pub mod rng;
pub mod scaling;
pub mod secret_search;
pub mod service_client;
pub mod simulator;
pub mod site_registry;
pub mod sol_schema;
pub mod sources;
pub mod tacker_hooks;
pub mod testbed;
pub mod upgrades;

//! What takes too long on the real systems for every run: `cargo xtask test --tier long`, after a change of an operation or a
//! driver.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod broken_clusters;
mod bundles;
mod charts;
mod cloud_integration;
mod cloud_load_balancer;
mod cluster_actions;
mod cluster_api;
mod cluster_crashes;
mod cluster_upgrades;
mod contracts;
mod control_planes;
mod crashes;
mod external_etcd;
mod hosts;
mod node_groups;
mod node_software;
mod scaling;
mod scenario;
mod scenario_crashes;
mod scheduled_backups;
mod scripts;
mod secrets;
mod single_node;
mod site_registry;
mod story;
mod upgrades;

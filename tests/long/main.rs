//! What takes too long on the real systems for every run: `cargo xtask test --tier long`, after a change of an operation or a
//! driver.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod charts;
mod cluster_actions;
mod cluster_crashes;
mod contracts;
mod control_planes;
mod crashes;
mod node_software;
mod story;

//! The real neighbours: started by `cargo xtask stack up`, found by environment variables.
//!
//! `cargo xtask test --tier real` does both. Without a neighbour its tests say why they do not run.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod contracts;
mod crashes;
mod heal;
mod hosts;
mod identity;
mod judges;
mod keys;
mod neighbours;
mod scenario;
mod scripts;
mod secrets;
mod subscribers;

//! Tests on the real systems, which `cargo xtask stack up` starts and environment variables name.
//!
//! `cargo xtask test --tier real` does both. If a system is missing, its tests are skipped with the reason.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod addons;
mod bare_hosts;
mod charts;
mod contracts;
mod follow;
mod heal;
mod helm_faults;
mod identity;
mod judges;
mod keys;
mod neighbours;
mod samples;
mod scale;
mod scaling;
mod scenario;
mod scripts;
mod subscribers;
mod upgrades;

//! The simulated world through real clients (reqwest, kube), over the real protocols.

#![expect(clippy::unwrap_used, reason = "a failed assumption fails the test")]
#![expect(clippy::panic, reason = "a failed assumption fails the test")]

mod cloud;
mod cluster;
mod cluster_api;
mod faults;
mod logins;
mod nodes;
mod program;
mod support;

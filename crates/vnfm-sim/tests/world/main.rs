//! The simulated world seen by strangers: reqwest and kube as clients, over the real protocols.

#![expect(
    clippy::unwrap_used,
    reason = "tests fail where something is not as they say"
)]
#![expect(
    clippy::panic,
    reason = "tests fail where something is not as they say"
)]

mod cloud;
mod cluster;
mod cluster_api;
mod faults;
mod logins;
mod nodes;
mod program;
mod support;

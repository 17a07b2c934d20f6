//! The simulated world: OpenStack, Kubernetes clusters, SSH hosts, an NFVO and an image registry over their real protocols.
//!
//! ```text
//!            drivers, engine, `vnfmctl`                         checkers, demo, tests
//!                 │ HTTP, HTTPS, SSH                                 │ HTTP, JSON
//!   ┌─────────────▼──────────────────────────────┐        ┌──────────▼─────────┐
//!   │ keystone  heat  nova  neutron  glance      │        │ control            │
//!   │ hosts (sshd)  clusters (kube-apiserver)    │        │ ledger, faults,    │
//!   │ nfvo (grants, notifications, tokens)       │        │                    │
//!   │ registry (container images)                │        │                    │
//!   └─────────────┬──────────────────────────────┘        │ actions            │
//!                 └── every call: injected by `faults`, logged by `books`
//! ```
//! A [`World`] runs inside a test, or as a process of its own (`vnfm-sim`) that survives restarts of the
//! tested process. Each world claims its own loopback /24, so that many run side by side and every
//! simulated server has its own address without privileges. A request that the world does not model
//! gets a 501 and is recorded as a violation: a run with violations has failed.

mod control;
pub mod faults;
pub mod hostile;
pub mod hostile_server;
pub mod hosts;
mod http;
pub mod kubernetes;
pub mod ledger;
pub mod nfvo;
pub mod openstack;
pub mod registry;
mod time;
mod world;

pub use world::{Endpoints, Options, World};

//! The simulated world: OpenStack, Kubernetes clusters, SSH hosts and an NFVO over their real protocols.
//!
//! ```text
//!            drivers, engine, `vnfmctl`                         checkers, demo, tests
//!                 │ HTTP, HTTPS, SSH                                 │ HTTP, JSON
//!   ┌─────────────▼──────────────────────────────┐        ┌──────────▼─────────┐
//!   │ keystone  heat  nova  neutron  glance      │        │ control            │
//!   │ hosts (sshd)  clusters (kube-apiserver)    │        │ books, faults,     │
//!   │ nfvo (grants, notifications, tokens)       │        │                    │
//!   └─────────────┬──────────────────────────────┘        │ actions            │
//!                 └── every call: `faults` ask, `books` note ──┘
//! ```
//! A [`World`] is a process of its own (`vnfm-sim`) that outlives what it is tested with, or lives
//! inside a test. Each world takes a loopback /24 of its own, so that many run side by side and a
//! simulated server has an address of its own without any privilege. What the world does not model
//! it refuses with 501 and writes down as a violation: a run with violations has failed.

pub mod books;
mod control;
pub mod faults;
pub mod hostile;
pub mod hosts;
mod http;
pub mod kubernetes;
pub mod liar;
pub mod nfvo;
pub mod openstack;
mod time;
mod world;

pub use world::{Endpoints, Options, World};

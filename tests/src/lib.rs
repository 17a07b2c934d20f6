//! What the tests across crates share: the checkout, its sources, and the neighbours that may be there.
//!
//! ```text
//! it/         one program: layers, papers, scenarios in the simulated world
//! live/       one program: the real neighbours; each test says why when it cannot run
//! spans/      a crate of its own: takes the spans that a server sends
//! scenarios/  scripts and the output that they must give
//! stack/      starts the real neighbours; `cargo xtask stack` calls it
//! ```

pub mod cloud;
pub mod cluster_access;
pub mod contracts;
pub mod crash_points;
pub mod demo;
pub mod faulty_store;
pub mod intercepted_store;
pub mod live;
pub mod machine;
pub mod planted;
pub mod process_watch;
pub mod programs;
pub mod rng;
pub mod secret_search;
pub mod simulator;
pub mod sol_schema;
pub mod sources;
pub mod testbed;

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
pub mod contracts;
pub mod deaths;
pub mod dice;
pub mod faulty;
pub mod inside;
pub mod live;
pub mod machine;
pub mod planted;
pub mod programs;
pub mod search;
pub mod simulated;
pub mod sources;
pub mod stage;
pub mod standard;
pub mod story;
pub mod watch;

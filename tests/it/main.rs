//! One program for the tests across crates; each topic is a module.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod configuration;
mod contracts;
mod docs;
mod embed;
mod embeddability;
mod engine;
mod errors;
mod faults;
mod hostile;
mod layering;
mod lint;
mod packages;
mod policies;
mod scenarios;
mod shape;
mod style;

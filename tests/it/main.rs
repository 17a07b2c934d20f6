//! One program for the tests across crates; each topic is a module.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]

mod circles;
mod configuration;
mod contracts;
mod docs;
mod embed;
mod embeddability;
mod engine;
mod errors;
mod faults;
mod hostile;
mod kinds;
mod layering;
mod lint;
mod man;
mod packages;
mod policies;
mod scenarios;
mod shape;
mod style;
mod vocabulary;

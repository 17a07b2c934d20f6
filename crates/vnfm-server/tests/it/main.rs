//! The facade over the real engine and database, spoken to over HTTP; VIM and hooks are in memory.
//!
//! Every answer is checked against the official schemas, and for secrets that must not be in it.

mod bench;
mod gate;
mod openapi;
mod oracle;
mod packages;
mod process;
mod refusals;
mod tasks;
mod world;

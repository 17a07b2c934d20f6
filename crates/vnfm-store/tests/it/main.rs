//! Tests of the store: every rule of the port on every kind of database, then what only a file can show (crashes,
//! kills, two processes, secrets at rest), then the packages' files.

mod conformance;
mod crash;
mod packages;
mod records;
mod sealed;

//! `vnfmctl` as a program, against a server that answers from a table: what it prints, sends, and ends with.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod codes;
mod golden;
mod lint;
mod new_plugin;
mod plugin_run;
mod plugins;
mod profiles;
mod stub;
mod terminal;
mod vendor;

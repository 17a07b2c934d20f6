//! `vnfmctl` as a program, against a server with canned responses: its output, requests and exit codes.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bundles;
mod codes;
mod golden;
mod inventories;
mod lint;
mod new_plugin;
mod package_commands;
mod plugin_run;
mod plugins;
mod profiles;
mod requests;
mod stub;
mod terminal;
mod vendor;

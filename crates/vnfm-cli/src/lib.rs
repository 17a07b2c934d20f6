//! `vnfmctl`: a thin client of vnfm-server.
//!
//! | file | content |
//! |---|---|
//! | [`args`] | the command line |
//! | [`client`] | HTTP calls, and errors with hints and exit codes |
//! | `commands/<noun>.rs` | the commands, one file per noun |
//! | `bundle` | the format of bundles: index, signature, files |
//! | [`watch`] | live progress of an operation |
//! | [`vimfile`] | clouds.yaml, kubeconfig and Tacker VIM files, converted to a VIM connection |
//! | [`site`] | the machines of an edge site, from files of Akraino ICN and Metal3 |
//! | [`output`] | tables, JSON, YAML |
//! | [`input`] | files and standard input, bounded |
//! | [`excerpt`], [`sarif`] | lint findings, for people and for code scanners |

#![deny(clippy::print_stdout, clippy::print_stderr)]

/// First argument that makes this program run as the process of one plugin hook.
pub const RUNNER_MODE: &str = "plugin-runner";

pub mod args;
mod bundle;
pub mod client;
pub mod commands;
pub mod excerpt;
pub mod failure;
pub mod input;
pub mod output;
pub mod profile;
pub mod sarif;
pub mod site;
pub mod vimfile;
pub mod watch;

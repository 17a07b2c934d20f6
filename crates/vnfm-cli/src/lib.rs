//! `vnfmctl`: a thin client of vnfm-server; every command prints what it did.
//!
//! | file | what |
//! |---|---|
//! | [`args`] | the command line |
//! | [`client`] | one HTTP call, and errors as people and scripts need them |
//! | `commands/<noun>.rs` | what each command does, one file per noun |
//! | [`watch`] | live progress of an operation |
//! | [`vimfile`] | clouds.yaml, kubeconfig and VIM files of Tacker, read into a connection |
//! | [`output`] | tables, JSON, YAML |
//! | [`excerpt`], [`sarif`] | what lint found, as people and as code scanners read it |

#![deny(clippy::print_stdout, clippy::print_stderr)]

/// The first word of the command line that makes this program the process of one hook of a plugin.
pub const RUNNER_MODE: &str = "plugin-runner";

pub mod args;
pub mod client;
pub mod commands;
pub mod excerpt;
pub mod output;
pub mod profile;
pub mod sarif;
pub mod vimfile;
pub mod watch;

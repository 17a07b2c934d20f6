//! Plugins on the command line: at a server, and in the hands of who writes one.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// MgmtDriver plugins.
#[derive(Debug, Subcommand)]
pub enum Plugin {
    /// The plugins that the server may load, and why one cannot be used
    List,
    /// Allow a library in the server's plugin folder: copy it there and pin its SHA-256
    Allow {
        /// The library, `lib….so`
        #[arg(required_unless_present = "package", conflicts_with = "package")]
        file: Option<PathBuf>,
        /// What this package brings for its hooks, libraries and scripts: an onboarded package by its id, vnfdId or
        /// product, or a folder or .csar here
        #[arg(long, value_name = "ID|PATH")]
        package: Option<String>,
        /// The server's plugin folder; where absent, `plugins` in the data folder that it uses by default
        #[arg(long, env = "VNFM_PLUGINS", value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// What a library says of itself
    Inspect {
        /// The library, `lib….so`
        file: PathBuf,
    },
    /// Run one hook of a library without a VNFM, and say what it asks of its hosts
    Run(Box<Run>),
    /// Make a crate with a plugin of one hook, a test and what `plugin run` needs
    New(NewPlugin),
}

/// One hook to run.
#[derive(Debug, Args)]
pub struct Run {
    /// The library, `lib….so`
    pub file: PathBuf,
    /// The hook, such as `instantiate_end`
    pub hook: String,
    /// Hosts that the hook finds, real or simulated, as YAML
    #[arg(long, value_name = "FILE")]
    pub hosts: PathBuf,
    /// What the hook is told, as JSON or YAML; `additionalParams` usually suffices
    #[arg(long, value_name = "FILE")]
    pub request: Option<PathBuf>,
    /// The plugin's configuration, as JSON or YAML
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder or .csar whose files the hook may ask for
    #[arg(long, value_name = "PATH")]
    pub package: Option<PathBuf>,
    /// Keep checkpoints and host keys here, and go on from those that are there
    #[arg(long, value_name = "DIR")]
    pub checkpoints: Option<PathBuf>,
    /// Let the N-th call of the hook, from 1, fail without doing anything
    #[arg(long, value_name = "N")]
    pub fail_at: Option<usize>,
    /// Let the N-th call of the hook do what it should, and lose its answer
    #[arg(long, value_name = "N", conflicts_with = "fail_at")]
    pub fail_after: Option<usize>,
    /// Run the opposite of the hook, as a rollback does
    #[arg(long)]
    pub undo: bool,
    /// Seconds until the hook is dropped
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub deadline: u32,
    /// Run it in this process, for a debugger; what crashes there ends everything
    #[arg(long)]
    pub in_process: bool,
}

/// A plugin to be made.
#[derive(Debug, Args)]
pub struct NewPlugin {
    /// What the plugin and its crate are called; lower case letters, digits and `-`
    pub name: String,
    /// The SDK: `crates/vnfm-plugin-sdk` of a checkout of vnfm, since it is in no registry
    #[arg(long, value_name = "PATH")]
    pub sdk: PathBuf,
    /// The folder to make; where absent, one of the plugin's name here
    #[arg(long)]
    pub dir: Option<PathBuf>,
}

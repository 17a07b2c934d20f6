//! `vnfmctl plugin …`: for operators of a server, and for plugin authors.

use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Commands for the plugins of a server, and for plugin authors.
#[derive(Debug, Subcommand)]
pub enum Plugin {
    /// List the plugins that the server may load, and why one is unusable
    List,
    /// Allow a plugin: copy its library to the server's plugin folder and pin its SHA-256
    Allow {
        /// Library of the plugin, such as `libweb_page.so`
        #[arg(required_unless_present = "package", conflicts_with = "package")]
        file: Option<PathBuf>,
        /// Allow the libraries and scripts that this package has for its hooks: an onboarded package by its ID, vnfdId or
        /// product name, or a local folder or .csar
        #[arg(long, value_name = "ID|PATH")]
        package: Option<String>,
        /// Protocol of the package's Python scripts, if it is not the VNFM's own
        #[arg(long, requires = "package", conflicts_with = "file")]
        protocol: Option<Protocol>,
        /// The server's plugin folder [default: `plugins` in the default data folder]
        #[arg(long, env = "VNFM_PLUGINS", value_name = "DIR")]
        dir: Option<PathBuf>,
    },
    /// Show a library's name, version, hooks and parameter schemas
    Inspect {
        /// Library of the plugin, such as `libweb_page.so`
        file: PathBuf,
    },
    /// Run one hook of a library without a VNFM, and trace its calls
    Run(Box<Run>),
    /// Scaffold a plugin: a crate with one hook and its tests, inputs for `plugin run`, and a package whose VNFD names it
    New(NewPlugin),
}

/// A protocol of Python scripts that were written for another VNFM.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum Protocol {
    /// OpenStack Tacker, API version 2: pickled dictionaries on standard input and output
    Tacker,
}

/// A hook to run, and its environment.
#[derive(Debug, Args)]
pub struct Run {
    /// Library of the plugin, such as `libweb_page.so`
    #[arg(value_name = "LIBRARY")]
    pub file: PathBuf,
    /// Hook to run, such as `instantiate_end`
    pub hook: String,
    /// Inventory of hosts for the hook, real or simulated, as YAML
    #[arg(long, value_name = "FILE")]
    pub hosts: PathBuf,
    /// The hook's request as JSON or YAML; `additionalParams` usually suffices
    #[arg(long, value_name = "FILE")]
    pub request: Option<PathBuf>,
    /// The plugin's configuration, as JSON or YAML
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder or .csar whose files the hook may read
    #[arg(long, value_name = "PATH")]
    pub package: Option<PathBuf>,
    /// Save checkpoints and host keys in this folder, and resume from them
    #[arg(long, value_name = "DIR")]
    pub checkpoints: Option<PathBuf>,
    /// Make the hook's N-th call (from 1) fail without any effect
    #[arg(long, value_name = "N")]
    pub fail_at: Option<usize>,
    /// Let the hook's N-th call (from 1) take effect, but return an error
    #[arg(long, value_name = "N", conflicts_with = "fail_at")]
    pub fail_after: Option<usize>,
    /// Run the hook's undo, as a rollback does
    #[arg(long)]
    pub undo: bool,
    /// Timeout of the hook, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    pub deadline: u32,
    /// Print the hook's request, and each call and its answer as it happens, as JSON without secrets
    #[arg(long, short)]
    pub verbose: bool,
    /// Run in this process, for a debugger; a crash of the hook then ends vnfmctl
    #[arg(long)]
    pub in_process: bool,
}

/// A plugin to scaffold, and where.
#[derive(Debug, Args)]
pub struct NewPlugin {
    /// Name of the plugin and its crate: lowercase letters, digits and `-`
    pub name: String,
    /// Path of the SDK: `crates/vnfm-plugin-sdk` in a checkout of vnfm (it is not on a registry)
    #[arg(long, value_name = "PATH")]
    pub sdk: PathBuf,
    /// Hook that the plugin has, and that its VNFD names
    #[arg(long, value_name = "HOOK", default_value = "instantiate_end")]
    pub hook: String,
    /// Folder to create [default: the plugin's name]
    #[arg(long)]
    pub dir: Option<PathBuf>,
}

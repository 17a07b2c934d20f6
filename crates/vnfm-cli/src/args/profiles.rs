//! `vnfmctl profile …`

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Servers by name.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Keep a server with its login, or change one; the first one is the current one
    Set(NewProfile),
    /// All profiles, without secrets
    List,
    /// Use this one from now on
    Use {
        /// Name
        name: String,
    },
    /// Forget one
    Delete {
        /// Name
        name: String,
    },
}

/// A server, and who we are there.
#[derive(Debug, Args)]
pub struct NewProfile {
    /// Name
    pub name: String,
    /// Where it is
    // Another one than the global flag, which says where to go now.
    #[arg(id = "kept-server", long = "url", value_name = "URL")]
    pub server: String,
    /// Its certificate authority, PEM
    #[arg(id = "kept-ca", long = "authority", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Log in as this user; the password is read from standard input
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Log in by a bearer token, which is read from standard input
    #[arg(id = "by-token", long = "by-token", conflicts_with = "user")]
    pub token: bool,
}

//! `vnfmctl profile …`

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Profile commands.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Create or update a profile; the first profile becomes the current one
    Set(NewProfile),
    /// List all profiles, without secrets
    List,
    /// Make a profile the current one
    Use {
        /// Name
        name: String,
    },
    /// Delete a profile
    Delete {
        /// Name
        name: String,
    },
}

/// A server and the login for it.
#[derive(Debug, Args)]
pub struct NewProfile {
    /// Name
    pub name: String,
    /// URL of the server
    // Not the global `--server`, which selects the server of this call.
    #[arg(id = "profile-server", long = "url", value_name = "URL")]
    pub server: String,
    /// CA certificate of the server, PEM
    #[arg(id = "profile-ca", long = "authority", value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Log in as this user; the password is read from standard input
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Log in with a bearer token, which is read from standard input
    #[arg(id = "by-token", long = "by-token", conflicts_with = "user")]
    pub token: bool,
}

//! `vnfmctl profile …`: servers and logins that are saved on this machine.

use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Commands for saved servers and logins.
#[derive(Debug, Subcommand)]
pub enum ProfileCommand {
    /// Create or update a profile; the first profile becomes the current one
    Set(NewProfile),
    /// List all profiles, without secrets
    List,
    /// Make a profile the current one
    Use {
        /// Name, as `profile list` shows it
        name: String,
    },
    /// Delete a profile and its login from this machine
    Delete {
        /// Name, as `profile list` shows it
        name: String,
    },
}

/// A server and the login for it.
#[derive(Debug, Args)]
pub struct NewProfile {
    /// Name of the profile, new or existing
    pub name: String,
    /// URL of the server, such as `https://vnfm.example:9890`
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

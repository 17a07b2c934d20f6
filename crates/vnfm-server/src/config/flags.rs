//! The command line of vnfm-server; doc comments are the help text.

use clap::{Parser, Subcommand};
use std::net::SocketAddr;
use std::path::PathBuf;

/// SOL003 VNF Manager: one binary, one folder of data.
#[derive(Debug, Clone, Parser)]
#[command(name = "vnfm-server", version, about, after_help = AFTER_HELP)]
pub struct Flags {
    /// Address and port to listen on; port 0 picks a free one
    #[arg(long, env = "VNFM_LISTEN", value_name = "ADDRESS:PORT")]
    pub listen: Option<SocketAddr>,
    /// Data folder: database, packages, plugins and the key file
    #[arg(long, global = true, env = "VNFM_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Configuration file in YAML; flags take precedence
    #[arg(long, global = true, env = "VNFM_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Folder of MgmtDriver plugins [default: `plugins` in the data folder]
    #[arg(long, env = "VNFM_PLUGINS", value_name = "DIR")]
    pub plugins: Option<PathBuf>,
    /// Base URL of this server for clients, used in links
    #[arg(long, env = "VNFM_PUBLIC_URL", value_name = "URL")]
    pub public_url: Option<String>,
    /// File with the bearer token that every request must carry
    #[arg(long, env = "VNFM_TOKEN_FILE", value_name = "FILE")]
    pub token_file: Option<PathBuf>,
    /// File with the certificate chain, PEM
    #[arg(long, env = "VNFM_TLS_CERT", value_name = "FILE")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate, PEM
    #[arg(long, env = "VNFM_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Write log lines as JSON
    #[arg(long, env = "VNFM_LOG_JSON")]
    pub log_json: bool,
    /// A command to run instead of the server
    #[command(subcommand)]
    pub command: Option<Command>,
}

/// A command to run instead of the server.
#[derive(Debug, Clone, Subcommand)]
pub enum Command {
    /// Read a password from standard input and print its hash, for `access.users` in the configuration
    HashPassword,
    /// Report every mistake in a configuration, and whether the files that it names can be read; changes nothing
    CheckConfig {
        /// The file to check [default: the file given with --config]
        file: Option<PathBuf>,
    },
    /// Restore a backup into the data folder; the matching key file must already be there
    Restore {
        /// The file that `vnfmctl backup` wrote
        file: PathBuf,
    },
    /// Start without data that was lost, if the server refuses to start because a write-ahead log or the database is missing
    AcceptLoss,
    /// Write the manual pages, for packages
    #[command(hide = true)]
    Man {
        /// Existing folder to write to
        dir: PathBuf,
    },
}

const AFTER_HELP: &str = "\
On loopback the server needs no credential. On any other address it requires TLS (--tls-cert, --tls-key) and a \
bearer token (--token-file) or another login method (`access` in the configuration); without them it does not start.

VNFM_LOG is the log filter, such as `info` or `vnfm_core=debug`; logs go to standard error. SIGHUP reloads the \
configuration: the log filter and `limits` change at once; the log names the settings that need a restart.";

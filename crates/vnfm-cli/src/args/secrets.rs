//! `vnfmctl secrets …` and `vnfmctl hostkey …`

use clap::{Subcommand, ValueEnum};

/// Commands for the keys that encrypt the server's secrets.
#[derive(Debug, Subcommand)]
pub enum Secrets {
    /// Show the keys, where they are stored and how many values each encrypts
    Show,
    /// Generate a new key in the current key store and re-encrypt all secrets
    Rotate,
    /// Move the key to another key store and re-encrypt all secrets; resumes if interrupted
    Migrate {
        /// Key store that the key is moved to
        #[arg(long, value_enum)]
        to: KeyStore,
    },
}

/// Commands for the pinned SSH keys of the hosts that hooks log in to.
#[derive(Debug, Subcommand)]
pub enum HostKey {
    /// List all pinned keys, with their fingerprints
    List,
    /// Forget a pinned key and trust the next one that the host shows, after it was rebuilt
    Forget {
        /// ID of the key in `vnfmctl hostkey list`
        id: String,
    },
}

/// Where the key that encrypts secrets is stored.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum KeyStore {
    /// `secrets.key` in the server's data folder
    File,
    /// Barbican, as configured on the server
    Barbican,
}

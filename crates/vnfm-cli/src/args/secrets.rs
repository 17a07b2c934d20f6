//! `vnfmctl secrets …` and `vnfmctl hostkey …`

use clap::{Subcommand, ValueEnum};

/// Sealed secrets.
#[derive(Debug, Subcommand)]
pub enum Secrets {
    /// Where the keys lie, and how much each of them sealed
    Show,
    /// Make a new key where the key lies by now, and seal everything anew with it
    Rotate,
    /// Bring the key to another place and seal everything anew; one that was cut short goes on
    Migrate {
        /// Where to
        #[arg(long, value_enum)]
        to: KeyPlace,
    },
}

/// Keys of the hosts that hooks log in to.
#[derive(Debug, Subcommand)]
pub enum HostKey {
    /// All that are pinned, with their fingerprints
    List,
    /// Trust the next key that a host shows: it was rebuilt on purpose
    Forget {
        /// As `vnfmctl hostkey list` has it
        id: String,
    },
}

/// Where the key lies that seals secrets.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum KeyPlace {
    /// `secrets.key` in the server's data folder
    File,
    /// The Barbican of the server's configuration
    Barbican,
}

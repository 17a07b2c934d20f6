//! `vnfmctl secrets …`

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

/// Where the key lies that seals secrets.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub enum KeyPlace {
    /// `secrets.key` in the server's data folder
    File,
    /// The Barbican of the server's configuration
    Barbican,
}

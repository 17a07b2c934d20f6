//! `vnfmctl volume …`

use super::ListOptions;
use clap::Subcommand;

/// Commands for retained volumes.
#[derive(Debug, Subcommand)]
pub enum Volume {
    /// List all retained volumes of your tenant
    List(ListOptions),
    /// Show one retained volume with the VNF that uses it
    Show {
        /// ID
        volume: String,
    },
    /// Delete a retained volume that no VNF uses, with its data
    Delete {
        /// ID
        volume: String,
    },
}

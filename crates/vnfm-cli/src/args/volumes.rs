//! `vnfmctl volume …`

use super::ListOptions;
use clap::{Args, Subcommand};

/// Commands for retained volumes.
#[derive(Debug, Subcommand)]
pub enum Volume {
    /// Create an empty volume that exists before and after the VNFs that use it
    Create(VolumeCreation),
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

/// An empty volume to be created.
#[derive(Debug, Args)]
pub struct VolumeCreation {
    /// VIM that gets the volume, by ID or name
    #[arg(long, value_name = "VIM")]
    pub vim: String,
    /// Storage of the VNFD whose place the volume takes in a VNF (`virtualStorageDescId`)
    #[arg(long, value_name = "DESC")]
    pub storage: String,
    /// Size, in GiB
    #[arg(long, value_name = "GIB")]
    pub size: u64,
    /// Volume type of Cinder, or storage class of the cluster; without it the default of the VIM
    #[arg(long = "type", value_name = "TYPE")]
    pub volume_type: Option<String>,
}

//! `vnfmctl link …`

use super::ListOptions;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Commands for shared virtual links.
#[derive(Debug, Subcommand)]
pub enum Link {
    /// Create a network on a VIM that outlives the VNFs on it; the same command again continues an interrupted creation
    Create(LinkCreation),
    /// List all shared virtual links of your tenant
    List(ListOptions),
    /// Show one shared virtual link with the VNFs that use it
    Show {
        /// ID or name
        link: String,
    },
    /// Delete a shared virtual link that no VNF uses, and its network on the VIM
    Delete {
        /// ID or name
        link: String,
    },
}

/// A shared virtual link to be created.
#[derive(Debug, Args)]
pub struct LinkCreation {
    /// Name of the link, and of its network on the VIM
    pub name: String,
    /// VIM that gets the network, by ID or name
    #[arg(long, value_name = "VIM")]
    pub vim: String,
    /// Subnet of a network on OpenStack; repeat for several
    #[arg(long, value_name = "CIDR[,GATEWAY]")]
    pub subnet: Vec<String>,
    /// No DHCP on the subnets
    #[arg(long, requires = "subnet")]
    pub no_dhcp: bool,
    /// Namespace of a network on Kubernetes
    #[arg(long)]
    pub namespace: Option<String>,
    /// CNI network configuration of a network on Kubernetes, as JSON or YAML; `-`: standard input
    #[arg(long, value_name = "FILE", requires = "namespace")]
    pub cni_config: Option<PathBuf>,
}

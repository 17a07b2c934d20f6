//! Packages on the command line: at a server, and on this machine.

use super::Listing;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Packages to look at.
#[derive(Debug, Args)]
pub struct Lint {
    /// Folders, .csar or .zip files, or YAML files alone
    #[arg(required_unless_present = "explain", value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// What a code means, with an example that is wrong and the same mended; `all` for every code
    #[arg(long, value_name = "CODE", conflicts_with = "paths")]
    pub explain: Option<String>,
}

/// What can be made.
#[derive(Debug, Subcommand)]
pub enum New {
    /// A VNF package that can be onboarded as it is
    Vnfd {
        /// What the VNF is called; lower case letters, digits and `-`
        name: String,
        /// Of virtual machines, or of containers
        #[arg(long, value_enum, default_value_t = Kind::Vm)]
        kind: Kind,
        /// The folder to make; where absent, one of the VNF's name here
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

/// What a VNF is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Virtual machines, by OpenStack
    Vm,
    /// Containers, by Kubernetes
    Cnf,
}

/// VNF packages.
#[derive(Debug, Subcommand)]
pub enum Package {
    /// Upload a folder or a .csar and wait until it was checked
    Onboard {
        /// Folder or archive
        path: PathBuf,
    },
    /// All packages
    List(Listing),
    /// One package: of the server, or a folder or archive here with all that is in it
    Show {
        /// Id, vnfdId or product name, or the path of a folder or archive
        package: String,
    },
    /// Draw a package's topology, as Mermaid
    Graph {
        /// Folder or archive
        path: PathBuf,
    },
    /// Delete a package that no instance was made from
    Delete {
        /// Id, vnfdId or product name
        package: String,
    },
}

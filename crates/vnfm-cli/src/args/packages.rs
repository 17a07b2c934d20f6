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
    /// Upload a folder or a .csar, or have the server fetch one, and wait until it was checked
    Onboard(Onboard),
    /// All packages
    List(Listing),
    /// One package with what is in it: of the server, or a folder or archive here
    Show {
        /// Id, vnfdId or product name, or the path of a folder or archive
        package: String,
    },
    /// Draw a package's topology, as Mermaid
    Graph {
        /// Folder or archive
        path: PathBuf,
    },
    /// Write what SOL004 wants of a folder and is not there: TOSCA.meta, and the manifest with the hash of each file
    Init {
        /// Folder with a descriptor
        folder: PathBuf,
        /// The descriptor, where it is not the only one: a path in the folder
        #[arg(long)]
        entry: Option<String>,
    },
    /// Pack a folder: the manifest gets the hash of each file; the same files give the same bytes
    Build {
        /// Folder
        folder: PathBuf,
        /// The archive to write; the folder's name with `.csar` where absent
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Sign a folder or archive, as SOL004 has it
    Sign(Sign),
    /// Verify the signatures of a package, without a server
    Verify {
        /// Folder or archive
        package: PathBuf,
        /// PEM file of the certificates that are trusted; where absent, only what was signed is compared
        #[arg(long)]
        trust: Option<PathBuf>,
        /// PEM file of revocation lists
        #[arg(long, requires = "trust")]
        crl: Option<PathBuf>,
    },
    /// Let instances be made from a package again
    Enable {
        /// Id, vnfdId or product name
        package: String,
    },
    /// Let nothing more be made from a package; what lives lives on
    Disable {
        /// Id, vnfdId or product name
        package: String,
    },
    /// Fetch a package from the server, or a part of it; after a cut the rest of it
    Download(Download),
    /// Delete a package that no instance was made from
    Delete {
        /// Id, vnfdId or product name
        package: String,
    },
}

/// What to onboard.
#[derive(Debug, Args)]
pub struct Onboard {
    /// Folder or archive
    #[arg(required_unless_present = "from_uri")]
    pub path: Option<PathBuf>,
    /// Have the server fetch the archive from here: below one of the addresses of its `packages.external`
    #[arg(long, value_name = "URI", conflicts_with = "path")]
    pub from_uri: Option<String>,
    /// Who the server is there
    #[arg(
        long,
        value_name = "NAME",
        requires = "from_uri",
        requires = "password_file"
    )]
    pub user: Option<String>,
    /// File with that one's password
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
}

/// What to fetch.
#[derive(Debug, Args)]
pub struct Download {
    /// Id, vnfdId or product name
    pub package: String,
    /// What of it
    #[arg(long, value_enum, default_value_t = Part::Content)]
    pub part: Part,
    /// One artifact instead, by its path in the package
    #[arg(long, value_name = "PATH", conflicts_with = "part")]
    pub artifact: Option<String>,
    /// With the signatures and certificates of what is fetched, in an archive
    #[arg(long)]
    pub signatures: bool,
    /// The file to write; what is fetched has a name of its own where absent
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// What there is of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The archive as it was onboarded
    Content,
    /// The descriptor, all its files in an archive
    Vnfd,
    /// The manifest
    Manifest,
    /// All that is neither descriptor nor manifest, software image or signature, in an archive
    Artifacts,
}

/// How to sign a package.
#[derive(Debug, Args)]
pub struct Sign {
    /// Folder or archive
    pub package: PathBuf,
    /// Private key, PEM or DER, not encrypted
    #[arg(long)]
    pub key: PathBuf,
    /// Certificate of the key, PEM; those of authorities between may follow it
    #[arg(long)]
    pub cert: PathBuf,
    /// 1: the manifest is signed; 2: the whole archive is, in an outer one
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub option: u8,
    /// Sign by RSA-PSS; the key is RSA
    #[arg(long)]
    pub pss: bool,
    /// Put the certificates into a file beside the signature
    #[arg(long)]
    pub cert_beside: bool,
    /// The archive to write; the package's name with `-signed.csar`, or `-signed.zip` for option 2, where absent
    #[arg(long)]
    pub out: Option<PathBuf>,
}

//! `vnfmctl package …`, `lint` and `new`: packages on a server and on this machine.

use super::ListOptions;
use clap::{Args, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Packages to check, or a code to explain.
#[derive(Debug, Args)]
pub struct Lint {
    /// Folders, .csar or .zip files, or single YAML files
    #[arg(required_unless_present = "explain", value_name = "PATH")]
    pub paths: Vec<PathBuf>,
    /// Explain a code, with a wrong example and its fix; `all` for every code
    #[arg(long, value_name = "CODE", conflicts_with = "paths")]
    pub explain: Option<String>,
}

/// What `vnfmctl new` can scaffold.
#[derive(Debug, Subcommand)]
pub enum New {
    /// Create a VNF package that lints clean and can be onboarded as it is
    Vnfd {
        /// Name of the VNF: lowercase letters, digits and `-`
        name: String,
        /// What the VNF consists of: virtual machines or containers
        #[arg(long, value_enum, default_value_t = Kind::Vm)]
        kind: Kind,
        /// Have a plugin run this hook, such as `instantiate_end=web-page`; repeatable
        #[arg(long = "hook", value_name = "HOOK=PLUGIN")]
        hooks: Vec<String>,
        /// Folder to create [default: the VNF's name]
        #[arg(long)]
        dir: Option<PathBuf>,
    },
}

/// What a VNF is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// Virtual machines, deployed on OpenStack
    Vm,
    /// Containers, deployed on Kubernetes from manifests
    Cnf,
}

/// Commands for packages, on a server or local.
#[derive(Debug, Subcommand)]
pub enum Package {
    /// Upload a folder or .csar, or have the server fetch one, and wait until it is onboarded
    Onboard(Onboard),
    /// List all packages of your tenant
    List(ListOptions),
    /// Show a package and its contents: one on the server, or a local folder or archive
    Show {
        /// ID, vnfdId or product name, or the path of a folder or archive
        package: String,
    },
    /// Draw the topology of a local package as a Mermaid diagram
    Graph {
        /// Folder or archive of the package
        path: PathBuf,
    },
    /// Write a first version of Files/openstack/parameters.yaml: what fills the parameters of the package's Heat templates
    Mapping {
        /// ID, vnfdId or product name, or the path of a folder or archive
        package: String,
        /// File to write, which must not exist [default: standard output]
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Print the Kubernetes objects that an instantiation would create, without contacting a cluster
    Render(Render),
    /// Add what SOL004 requires to a folder: TOSCA.meta, and the manifest with the hash of each file
    Init {
        /// Package folder that contains a descriptor
        folder: PathBuf,
        /// Descriptor, if there are several: a path in the folder
        #[arg(long)]
        entry: Option<String>,
    },
    /// Pack a folder into a .csar, with fresh hashes in the manifest; reproducible byte for byte
    Build {
        /// Package folder that contains a descriptor
        folder: PathBuf,
        /// Archive to write [default: the folder's name with `.csar`]
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Sign a folder or archive as SOL004 specifies
    Sign(Sign),
    /// Verify the signatures of a local package (works offline)
    Verify {
        /// Folder or archive of the package
        package: PathBuf,
        /// PEM file of trusted certificates; without it, only the signatures are checked, not who signed
        #[arg(long)]
        trust: Option<PathBuf>,
        /// PEM file of certificate revocation lists
        #[arg(long, requires = "trust")]
        crl: Option<PathBuf>,
    },
    /// List which VIMs fit a package, and why others do not; exit code 1 if none fits
    Match {
        /// ID, vnfdId or product name
        package: String,
        /// ID or name of a VIM
        #[arg(long, required_unless_present = "all", conflicts_with = "all")]
        vim: Option<String>,
        /// Compare all VIMs that your tenant may use
        #[arg(long)]
        all: bool,
    },
    /// Enable a disabled package: instances can be created from it again
    Enable {
        /// ID, vnfdId or product name
        package: String,
    },
    /// Disable a package: no new instances; existing ones are unaffected
    Disable {
        /// ID, vnfdId or product name
        package: String,
    },
    /// Download a package or part of it; interrupted downloads resume
    Download(Download),
    /// Delete a package that no instance uses
    Delete {
        /// ID, vnfdId or product name
        package: String,
    },
}

/// The package to onboard, and where it comes from.
#[derive(Debug, Args)]
pub struct Onboard {
    /// Folder or archive of the package
    #[arg(required_unless_present = "from_uri")]
    pub path: Option<PathBuf>,
    /// Have the server fetch the archive from this URI, which its `packages.external` must allow
    #[arg(long, value_name = "URI", conflicts_with = "path")]
    pub from_uri: Option<String>,
    /// User that the server logs in as there
    #[arg(
        long,
        value_name = "NAME",
        requires = "from_uri",
        requires = "password_file"
    )]
    pub user: Option<String>,
    /// File with that user's password
    #[arg(long, value_name = "FILE", requires = "user")]
    pub password_file: Option<PathBuf>,
}

/// A package, and the instantiation whose objects are printed.
#[derive(Debug, Args)]
pub struct Render {
    /// ID, vnfdId or product name, or the path of a folder or archive
    pub package: String,
    /// Request body: an `InstantiateVnfRequest` as JSON or YAML
    #[arg(long, value_name = "FILE")]
    pub request: Option<PathBuf>,
    /// Deployment flavour [default: that of the request, or the only one]
    #[arg(long, value_name = "FLAVOUR")]
    pub flavour: Option<String>,
    /// Instantiation level [default: that of the request, or of the flavour]
    #[arg(long, value_name = "LEVEL")]
    pub level: Option<String>,
    /// Set a member of additionalParams; dots address nested members, JSON values are parsed
    #[arg(long = "param", value_name = "KEY=VALUE")]
    pub params: Vec<String>,
}

/// The package, and which part of it to download.
#[derive(Debug, Args)]
pub struct Download {
    /// ID, vnfdId or product name
    pub package: String,
    /// Part of the package to download
    #[arg(long, value_enum, default_value_t = Part::Content)]
    pub part: Part,
    /// Download one artifact instead, by its path in the package
    #[arg(long, value_name = "PATH", conflicts_with = "part")]
    pub artifact: Option<String>,
    /// Include signatures and certificates, in an archive
    #[arg(long)]
    pub signatures: bool,
    /// File to write [default: named after the package or artifact]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// The downloadable parts of a package.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// The archive as it was onboarded
    Content,
    /// The descriptor's files, in an archive
    Vnfd,
    /// The manifest that lists the files and their hashes
    Manifest,
    /// Everything except descriptor, manifest, software images and signatures, in an archive
    Artifacts,
}

/// How to sign a package.
#[derive(Debug, Args)]
pub struct Sign {
    /// Folder or archive of the package
    pub package: PathBuf,
    /// Private key, PEM or DER, not encrypted
    #[arg(long)]
    pub key: PathBuf,
    /// Certificate of the key, PEM; intermediate CA certificates may follow it
    #[arg(long)]
    pub cert: PathBuf,
    /// 1: sign the manifest; 2: sign the archive and wrap it in an outer one
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub option: u8,
    /// Sign with RSA-PSS (RSA keys only)
    #[arg(long)]
    pub pss: bool,
    /// Put the certificates into a separate file instead of into the signature
    #[arg(long, alias = "cert-beside")]
    pub separate_cert: bool,
    /// Archive to write [default: the package's name with `-signed.csar`, or `-signed.zip` for option 2]
    #[arg(long)]
    pub out: Option<PathBuf>,
}

//! `vnfmctl bundle …`: everything that a site without internet access installs, as one signed file.

use crate::bundle::Kind;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// Commands for bundles.
#[derive(Debug, Subcommand)]
pub enum Bundle {
    /// Create one signed file with packages, plugins, binaries and container images (works offline)
    Create(CreateBundle),
    /// List what a bundle contains, without verifying it (works offline)
    Show {
        /// Bundle to list
        file: PathBuf,
    },
    /// Verify the signature of a bundle and the hash of every file in it (works offline)
    Verify {
        /// Bundle to verify
        file: PathBuf,
        /// PEM file of trusted certificates; without it, only signature and hashes are checked, not who signed
        #[arg(long, value_name = "FILE")]
        trust: Option<PathBuf>,
        /// PEM file of certificate revocation lists
        #[arg(long, value_name = "FILE", requires = "trust")]
        crl: Option<PathBuf>,
    },
    /// Verify a bundle, then install what is not present yet; run it again to resume
    Install(InstallBundle),
}

/// What the bundle contains, and who signs it.
#[derive(Debug, Args)]
pub struct CreateBundle {
    /// Bundle to write; it must not exist
    pub file: PathBuf,
    /// VNF package, a folder or archive; repeatable
    #[arg(long = "package", value_name = "PATH")]
    pub packages: Vec<PathBuf>,
    /// Library of a MgmtDriver plugin; repeatable. It is loaded to read its name and version
    #[arg(long = "plugin", value_name = "FILE")]
    pub plugins: Vec<PathBuf>,
    /// Executable file, such as vnfm-server, vnfmctl or helm; repeatable
    #[arg(long = "binary", value_name = "FILE")]
    pub binaries: Vec<PathBuf>,
    /// Container image, a folder in OCI image layout; repeatable
    #[arg(long = "image", value_name = "FOLDER")]
    pub images: Vec<PathBuf>,
    /// Private key, PEM or DER, not encrypted
    #[arg(long, value_name = "FILE")]
    pub key: PathBuf,
    /// Certificate of the key, PEM; intermediate CA certificates may follow it
    #[arg(long, value_name = "FILE")]
    pub cert: PathBuf,
    /// Sign with RSA-PSS (RSA keys only)
    #[arg(long)]
    pub pss: bool,
}

/// Where the contents of a bundle are installed.
#[derive(Debug, Args)]
pub struct InstallBundle {
    /// Bundle to install
    pub file: PathBuf,
    /// PEM file of trusted certificates: those of the signers of bundles, or of their authority
    #[arg(long, value_name = "FILE")]
    pub trust: PathBuf,
    /// PEM file of certificate revocation lists
    #[arg(long, value_name = "FILE")]
    pub crl: Option<PathBuf>,
    /// Install this kind only; repeatable. Without packages, no server is needed
    #[arg(long, value_enum, value_name = "KIND")]
    pub only: Vec<Kind>,
    /// The server's plugin folder [default: `plugins` in the default data folder]
    #[arg(long, env = "VNFM_PLUGINS", value_name = "FOLDER")]
    pub plugins: Option<PathBuf>,
    /// Folder for executable files, such as /usr/local/bin
    #[arg(long, value_name = "FOLDER")]
    pub binaries: Option<PathBuf>,
    /// Folder for container images, each as a folder in OCI image layout
    #[arg(long, value_name = "FOLDER")]
    pub images: Option<PathBuf>,
    /// Replace binaries, images and plugins of which the folders have other versions
    #[arg(long)]
    pub replace: bool,
    /// Verify the bundle and list what would be installed
    #[arg(long)]
    pub dry_run: bool,
}

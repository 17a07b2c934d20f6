//! `vnfmctl vim inventory`

use clap::Args;
use std::path::PathBuf;

/// Files of a site, and what they do not say about its machines.
#[derive(Debug, Args)]
pub struct Inventory {
    /// ICN's `nodes.json`, values or Flux releases of its chart `machine`, `BareMetalHost`s of Metal3 with their Secrets, or a
    /// `Provisioning` resource
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// File to write, which must not exist; it contains the passwords, and only you can read it
    #[arg(long, value_name = "FILE")]
    pub out: PathBuf,
    /// Command that wipes a host before it is returned; `true` if nothing is to be removed
    #[arg(long, value_name = "COMMAND")]
    pub wipe_command: String,
    /// User of the hosts' operating systems [default: the one in the files]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// Private key of that user, in the format of OpenSSH [default: the passwords in the files]
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// Network on which the hosts are reached
    #[arg(long, value_name = "NAME", default_value = "baremetal")]
    pub network: String,
    /// Address of a machine, where the files have none on that network; repeatable
    #[arg(long = "address", value_name = "MACHINE=ADDRESS", value_parser = pair)]
    pub addresses: Vec<(String, String)>,
}

/// Two texts around the first `=`, neither of which is empty.
fn pair(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=');
    let parts = parts.filter(|(name, value)| !name.is_empty() && !value.is_empty());
    parts
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .ok_or_else(|| "a name, `=` and an address".to_owned())
}

//! The first message to a process: the library to open, and how to isolate it.

use crate::child_process::user::UserChoice;
use crate::config::ProcessLimits;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The first message to a process.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Load {
    /// The library's path, for messages.
    #[serde(rename = "shown")]
    pub(crate) library_path: String,
    pub(crate) symbol: String,
    pub(crate) symbol_size: u64,
    pub(crate) glibc: Option<String>,
    /// The user IDs to choose from; `None`: keep the server's user.
    pub(crate) user: Option<UserChoice>,
    /// True if it keeps the engine's network.
    pub(crate) network: bool,
    /// Its private folder, which is deleted when it ends.
    pub(crate) folder: PathBuf,
    /// What it may read in addition to the system's programs and libraries.
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) limits: ProcessLimits,
    /// True if it loads no library and only reports its isolation.
    pub(crate) probe: bool,
}

//! The services that hooks may call on their host; the composition root provides SSH and HTTP clients.

use super::{HostPin, PortError, Watcher};
use async_trait::async_trait;
use std::fmt;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;
pub use vnfm_plugin_messages::{
    Command as SshCommand, FileTransfer, FileUpload as HookFile, HttpRequest, HttpResponse,
    Output as CommandOutput, SshTarget,
};

/// An SSH host and what its host key is pinned to: trusted on first use, then pinned ([`HostPin`]).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedTarget {
    /// The host and its login, without its jump host.
    pub host: SshTarget,
    /// Set by the engine, never by a plugin.
    pub pin: HostPin,
    /// Host to connect through, if the address is not reachable.
    pub jump: Option<Box<PinnedTarget>>,
}

impl From<SshTarget> for PinnedTarget {
    /// Without a pin: for host keys that are known by the server's id alone.
    fn from(mut host: SshTarget) -> Self {
        let jump = host.jump.take();
        Self {
            host,
            pin: HostPin::default(),
            jump: jump.map(|jump| Box::new(Self::from(*jump))),
        }
    }
}

/// A file to write to a host, atomically.
#[derive(Debug, Clone)]
pub struct RemoteFile {
    /// Absolute path of the file on the host.
    pub path: String,
    /// Permissions in octal, such as `0600`.
    pub mode: String,
    /// Whether root writes it, through `sudo -n`.
    pub sudo: bool,
    /// Content of the file; replaces an existing one.
    pub content: Content,
}

/// Writes a content, from its beginning.
pub type Source = Arc<dyn Fn(&mut dyn Write) -> io::Result<u64> + Send + Sync>;

/// Content of a file for a host.
#[derive(Clone)]
pub enum Content {
    /// In memory.
    Bytes(Vec<u8>),
    /// A file of any size, such as an image of the package: read while it is sent, in bounded memory.
    Streamed {
        /// Its size: a source of another size is an error.
        bytes: u64,
        /// Where it comes from.
        source: Source,
    },
}

impl Content {
    /// Its size in bytes.
    pub fn size(&self) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::Streamed { bytes, .. } => *bytes,
        }
    }

    /// The content in memory.
    ///
    /// # Errors
    ///
    /// If its source cannot be read.
    pub fn into_bytes(self) -> io::Result<Vec<u8>> {
        match self {
            Self::Bytes(bytes) => Ok(bytes),
            Self::Streamed { source, .. } => {
                let mut bytes = Vec::new();
                source(&mut bytes)?;
                Ok(bytes)
            }
        }
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self::Bytes(bytes)
    }
}

impl fmt::Debug for Content {
    /// It may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.size())
    }
}

/// A copy of a file between a host and the local disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCopy {
    /// Absolute path of the file on the host.
    pub remote: String,
    /// Path on the disk of this process.
    pub local: PathBuf,
    /// Size of the file: a source of another size is an error.
    pub bytes: u64,
    /// Whether root reads or writes it on the host, through `sudo -n`.
    pub sudo: bool,
}

/// SSH and HTTP for hooks.
#[async_trait]
pub trait HostServices: Send + Sync {
    /// Runs a command on a host.
    ///
    /// # Errors
    ///
    /// If the host is unreachable, refuses the login, presents another host key, or the command exceeds its timeout.
    async fn ssh_run(
        &self,
        target: &PinnedTarget,
        command: &SshCommand,
    ) -> Result<CommandOutput, PortError>;

    /// Writes a file atomically: it is complete or unchanged.
    ///
    /// # Errors
    ///
    /// As [`HostServices::ssh_run`]; also if the host refuses to write.
    async fn ssh_put(&self, target: &PinnedTarget, file: &RemoteFile) -> Result<(), PortError>;

    /// Copies a file from a host to the local disk, in bounded memory. The local file exists already.
    ///
    /// # Errors
    ///
    /// As [`HostServices::ssh_run`]; also if the file has another size than [`FileCopy::bytes`], or a disk cannot be read or
    /// written.
    async fn ssh_fetch(&self, target: &PinnedTarget, copy: &FileCopy) -> Result<(), PortError>;

    /// Copies a local file to a host, in bounded memory and atomically, with mode 0600.
    ///
    /// # Errors
    ///
    /// As [`HostServices::ssh_fetch`].
    async fn ssh_send(&self, target: &PinnedTarget, copy: &FileCopy) -> Result<(), PortError>;

    /// Waits until a login succeeds, and reports to `watcher` the address, the last error and the seconds elapsed.
    ///
    /// # Errors
    ///
    /// If none succeeds within `deadline_seconds`, or the host key changed.
    async fn ssh_wait(
        &self,
        target: &PinnedTarget,
        deadline_seconds: u32,
        watcher: &dyn Watcher,
    ) -> Result<(), PortError>;

    /// Sends an HTTP request to an allowed destination.
    ///
    /// # Errors
    ///
    /// If there is no response; any status is a response.
    async fn http(&self, request: &HttpRequest) -> Result<HttpResponse, PortError>;
}

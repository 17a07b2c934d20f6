//! What a hook may ask of its host, filled at the composition root with an SSH and an HTTP client.

use super::{HostPin, PortError};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vnfm_types::Secret;

/// A host to log in to. Its host key is trusted at first use, then fixed ([`HostPin`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SshTarget {
    /// The VIM's id of the server behind the address.
    pub server_id: String,
    /// IP address or name.
    pub address: String,
    /// TCP port.
    #[serde(default = "ssh_port")]
    pub port: u16,
    /// Who to log in as.
    pub username: String,
    /// Their password.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Their private key, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_key: Option<Secret>,
    /// The host to go through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jump: Option<Box<SshTarget>>,
    /// What its host key is pinned to; the engine says that, never a plugin.
    #[serde(skip)]
    pub pin: HostPin,
}

fn ssh_port() -> u16 {
    22
}

/// A command for a host. Secrets go through `stdin` or a file, never into `command`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SshCommand {
    /// One command line for the login shell.
    pub command: String,
    /// What it reads.
    #[serde(default)]
    pub stdin: Secret,
    /// Whether it runs as root by `sudo -n`.
    #[serde(default)]
    pub sudo: bool,
    /// Seconds until it is given up.
    pub deadline_seconds: u32,
}

/// What a command did. An exit code other than 0 is no error of the call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandOutput {
    /// Its exit code; 128 + n where signal n ended it.
    pub exit_code: i32,
    /// Standard output, bounded.
    pub stdout: String,
    /// Standard error, bounded.
    pub stderr: String,
    /// True where output was cut in the middle.
    #[serde(default)]
    pub truncated: bool,
}

/// A file for a host, put there whole or not at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// Absolute path.
    pub path: String,
    /// Permissions in octal, such as `0600`.
    pub mode: String,
    /// Whether root writes it, by `sudo -n`.
    pub sudo: bool,
    /// Its content.
    pub content: Vec<u8>,
}

/// An HTTP request of a hook.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRequest {
    /// Such as `GET`.
    pub method: String,
    /// Absolute URL.
    pub url: String,
    /// Header fields.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// Body.
    #[serde(default)]
    pub body: Option<String>,
    /// Certificate authority to trust, PEM; the system's where absent.
    #[serde(default)]
    pub ca_pem: Option<String>,
    /// Seconds until it is given up.
    #[serde(default)]
    pub deadline_seconds: Option<u32>,
}

/// The answer to a [`HttpRequest`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpResponse {
    /// Status code.
    pub status: u16,
    /// Header fields, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Body as text.
    pub body: String,
}

/// SSH and HTTP for hooks.
#[async_trait]
pub trait HostServices: Send + Sync {
    /// Runs a command.
    ///
    /// # Errors
    ///
    /// Where the host cannot be reached, refuses the login, shows another host key, or does not end in time.
    async fn ssh_run(
        &self,
        target: &SshTarget,
        command: &SshCommand,
    ) -> Result<CommandOutput, PortError>;

    /// Puts a file in place atomically.
    ///
    /// # Errors
    ///
    /// As [`HostServices::ssh_run`], and where the host refuses to write.
    async fn ssh_put(&self, target: &SshTarget, file: &RemoteFile) -> Result<(), PortError>;

    /// Completes once a login works.
    ///
    /// # Errors
    ///
    /// Where it still does not after `deadline_seconds`, or the host key is another one.
    async fn ssh_wait(&self, target: &SshTarget, deadline_seconds: u32) -> Result<(), PortError>;

    /// Sends an HTTP request.
    ///
    /// # Errors
    ///
    /// Where no answer comes; any status is an answer.
    async fn http(&self, request: &HttpRequest) -> Result<HttpResponse, PortError>;
}

//! The services that hooks may call on their host; the composition root provides SSH and HTTP clients.

use super::{HostPin, PortError, Watcher};
use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vnfm_types::Secret;

/// An SSH host. Its host key is trusted on first use, then pinned ([`HostPin`]).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SshTarget {
    /// The VIM's id of the server behind the address.
    pub server_id: String,
    /// IP address or DNS name.
    pub address: String,
    /// TCP port of the SSH server; 22 if absent.
    #[serde(default = "ssh_port")]
    pub port: u16,
    /// Name of the user to log in as.
    pub username: String,
    /// Password of that user; absent if a key is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Private key of that user, PEM; absent if a password is used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_key: Option<Secret>,
    /// Host to connect through, if the address is not reachable.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jump: Option<Box<SshTarget>>,
    /// What its host key is pinned to; set by the engine, never by a plugin.
    #[serde(skip)]
    pub pin: HostPin,
}

fn ssh_port() -> u16 {
    22
}

/// A command to run on a host. Pass secrets through `stdin` or a file, never in `command`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SshCommand {
    /// One command line for the login shell.
    pub command: String,
    /// Text for standard input; empty by default.
    #[serde(default)]
    pub stdin: Secret,
    /// Whether it runs as root through `sudo -n`.
    #[serde(default)]
    pub sudo: bool,
    /// Seconds until the command is stopped.
    pub deadline_seconds: u32,
}

/// The result of a command. A nonzero exit code is not an error of the call.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CommandOutput {
    /// Exit code; 128 + n if signal n killed the command.
    pub exit_code: i32,
    /// Standard output, truncated in the middle if too long.
    pub stdout: String,
    /// Standard error, truncated in the middle if too long.
    pub stderr: String,
    /// True if output was truncated.
    #[serde(default)]
    pub truncated: bool,
}

/// A file to write to a host, atomically.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteFile {
    /// Absolute path of the file on the host.
    pub path: String,
    /// Permissions in octal, such as `0600`.
    pub mode: String,
    /// Whether root writes it, through `sudo -n`.
    pub sudo: bool,
    /// Content of the file; replaces an existing one.
    pub content: Vec<u8>,
}

/// An HTTP request from a hook.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpRequest {
    /// Request method, such as `GET`.
    pub method: String,
    /// Absolute URL, `http` or `https`.
    pub url: String,
    /// Header fields by name; values may be secrets.
    #[serde(default)]
    pub headers: BTreeMap<String, Secret>,
    /// Request body as text; absent: none is sent.
    #[serde(default)]
    pub body: Option<String>,
    /// CA certificates to trust, PEM; default: those of the system.
    #[serde(default)]
    pub ca_pem: Option<String>,
    /// Seconds until the request fails; a default applies if absent.
    #[serde(default)]
    pub deadline_seconds: Option<u32>,
}

/// The response to an [`HttpRequest`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HttpResponse {
    /// HTTP status code of any class.
    pub status: u16,
    /// Header fields, names in lower case.
    pub headers: BTreeMap<String, String>,
    /// Body as text, limited in size.
    pub body: String,
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
        target: &SshTarget,
        command: &SshCommand,
    ) -> Result<CommandOutput, PortError>;

    /// Writes a file atomically: it is complete or unchanged.
    ///
    /// # Errors
    ///
    /// As [`HostServices::ssh_run`]; also if the host refuses to write.
    async fn ssh_put(&self, target: &SshTarget, file: &RemoteFile) -> Result<(), PortError>;

    /// Waits until a login succeeds, and reports to `watcher` the address, the last error and the seconds elapsed.
    ///
    /// # Errors
    ///
    /// If none succeeds within `deadline_seconds`, or the host key changed.
    async fn ssh_wait(
        &self,
        target: &SshTarget,
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

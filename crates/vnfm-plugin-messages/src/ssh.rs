//! SSH through the host: where to log in, a command and its result, a file to write.

use crate::error::DriverError;
use crate::secret::Secret;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// A host to log in to. On first login, its host key is pinned to `server_id`.
///
/// ```
/// use vnfm_plugin_sdk::SshTarget;
///
/// let bastion = SshTarget::new("server-0", "198.51.100.1", "jump").private_key("-----BEGIN…");
/// let target = SshTarget::new("server-1", "10.0.0.1", "ubuntu").password("never printed").jump(bastion);
/// assert!(!format!("{target:?}").contains("never printed"));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SshTarget {
    /// Identifier, on the VIM, of the server behind the address.
    pub server_id: String,
    /// IP address or host name of the SSH server, as seen from the VNFM.
    pub address: String,
    /// TCP port of the SSH server.
    #[serde(default = "ssh_port")]
    pub port: u16,
    /// User to log in as.
    pub username: String,
    /// Password of the user; at least one of password and key is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub password: Option<Secret>,
    /// Private key of the user, PEM.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub private_key: Option<Secret>,
    /// Jump host to connect through.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub jump: Option<Box<SshTarget>>,
    /// Name to show in errors; absent: the address.
    #[serde(skip)]
    pub name: Option<String>,
}

fn ssh_port() -> u16 {
    22
}

impl SshTarget {
    /// A host that is reached directly, on port 22. Set a password or a private key before use.
    pub fn new(
        server_id: impl Into<String>,
        address: impl Into<String>,
        username: impl Into<String>,
    ) -> Self {
        Self {
            server_id: server_id.into(),
            address: address.into(),
            port: ssh_port(),
            username: username.into(),
            password: None,
            private_key: None,
            jump: None,
            name: None,
        }
    }

    /// Sets the password to log in with.
    #[must_use]
    pub fn password(mut self, password: impl Into<Secret>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Sets the private key to log in with.
    #[must_use]
    pub fn private_key(mut self, pem: impl Into<Secret>) -> Self {
        self.private_key = Some(pem.into());
        self
    }

    /// Sets the TCP port; the default is 22.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Connects through a jump host, whose host key is checked as well.
    #[must_use]
    pub fn jump(mut self, jump: SshTarget) -> Self {
        self.jump = Some(Box::new(jump));
        self
    }

    /// Sets the name that errors show.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// The name that errors show, or the address if none was set.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.address)
    }
}

/// A command to run on a host.
///
/// ```
/// use std::time::Duration;
/// use vnfm_plugin_sdk::Command;
///
/// let join = Command::new("cluster-join --token-stdin").stdin("token").sudo().timeout(Duration::from_secs(600));
/// assert_eq!((join.sudo, join.deadline_seconds), (true, 600));
/// ```
///
/// Pass secrets through `stdin` or a file, never on the command line: command lines are logged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[must_use]
#[non_exhaustive]
pub struct Command {
    /// One command line for the login shell.
    #[serde(rename = "command")]
    pub line: String,
    /// Text for standard input.
    #[serde(default, skip_serializing_if = "Secret::is_empty")]
    pub stdin: Secret,
    /// Whether it runs as root, with `sudo -n`.
    #[serde(default)]
    pub sudo: bool,
    /// Seconds until the command is stopped.
    pub deadline_seconds: u32,
}

impl Command {
    /// A command line for the login shell, with a timeout of five minutes.
    pub fn new(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            stdin: Secret::default(),
            sudo: false,
            deadline_seconds: 300,
        }
    }

    /// Sets the standard input; use it for secrets.
    pub fn stdin(mut self, input: impl Into<Secret>) -> Self {
        self.stdin = input.into();
        self
    }

    /// Runs the command as root, with `sudo -n`.
    pub fn sudo(mut self) -> Self {
        self.sudo = true;
        self
    }

    /// Sets how long the command may run, in full seconds; the default is 5 minutes.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.deadline_seconds = full_seconds(timeout);
        self
    }
}

impl From<&str> for Command {
    fn from(line: &str) -> Self {
        Self::new(line)
    }
}

impl From<String> for Command {
    fn from(line: String) -> Self {
        Self::new(line)
    }
}

/// A duration as deadlines are sent: in seconds, rounded up.
///
/// ```
/// use std::time::Duration;
/// use vnfm_plugin_sdk::messages::ssh::full_seconds;
///
/// assert_eq!(full_seconds(Duration::from_millis(1_001)), 2);
/// ```
pub fn full_seconds(duration: Duration) -> u32 {
    let seconds = duration.as_secs() + u64::from(duration.subsec_nanos() > 0);
    u32::try_from(seconds).unwrap_or(u32::MAX)
}

/// A file to write on a host. Exactly one of [`FileUpload::content_base64`] and [`FileUpload::artifact`] is set.
///
/// ```
/// use vnfm_plugin_sdk::messages::FileUpload;
///
/// let mut file = FileUpload::new("/etc/motd");
/// file.artifact = Some("Files/motd".into());
/// assert_eq!(format!("{file:?}"), "FileUpload(/etc/motd, 0600)");
/// ```
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FileUpload {
    /// Absolute path on the host.
    pub path: String,
    /// Permissions in octal.
    #[serde(default = "private")]
    pub mode: String,
    /// Whether root writes it, with `sudo -n`.
    #[serde(default)]
    pub sudo: bool,
    /// Content in base64.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_base64: Option<String>,
    /// Path of the package file to copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub artifact: Option<String>,
}

impl FileUpload {
    /// A file of mode 0600 without content.
    pub fn new(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            mode: private(),
            sudo: false,
            content_base64: None,
            artifact: None,
        }
    }
}

fn private() -> String {
    "0600".to_owned()
}

impl std::fmt::Debug for FileUpload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FileUpload({}, {})", self.path, self.mode)
    }
}

/// A file that is copied between a host and the files that the VNFM stores with the instance. Its content does not pass through
/// the plugin.
///
/// ```
/// use vnfm_plugin_sdk::messages::FileTransfer;
///
/// let transfer = FileTransfer::new("backup.enc", "/var/backups/backup.enc").expecting(7, "0a1b…");
/// assert_eq!((transfer.name.as_str(), transfer.bytes), ("backup.enc", 7));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct FileTransfer {
    /// Name of the stored file: letters, digits, `-`, `_` and `.`.
    pub name: String,
    /// Absolute path on the host.
    pub path: String,
    /// Whether root reads or writes it on the host, with `sudo -n`.
    #[serde(default)]
    pub sudo: bool,
    /// Size in bytes that the file on the host must have; not used when a stored file is sent.
    #[serde(default)]
    pub bytes: u64,
    /// SHA-256 in hexadecimal that the content must have; absent: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl FileTransfer {
    /// A transfer as the user of the login.
    pub fn new(name: impl Into<String>, path: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            path: path.into(),
            sudo: false,
            bytes: 0,
            sha256: None,
        }
    }

    /// Reads or writes the file as root.
    #[must_use]
    pub fn sudo(mut self) -> Self {
        self.sudo = true;
        self
    }

    /// Sets the size and the SHA-256 that the content must have.
    #[must_use]
    pub fn expecting(mut self, bytes: u64, sha256: impl Into<String>) -> Self {
        self.bytes = bytes;
        self.sha256 = Some(sha256.into());
        self
    }
}

/// A file that the VNFM stores with the instance.
///
/// ```
/// use vnfm_plugin_sdk::messages::StoredFile;
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
///
/// let file: StoredFile = from_value(json!({"name": "backup.enc", "bytes": 7, "sha256": "0a1b"})).unwrap();
/// assert_eq!(file.bytes, 7);
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct StoredFile {
    /// Name of the file, unique in the instance.
    pub name: String,
    /// Size, in bytes.
    pub bytes: u64,
    /// SHA-256 of the content, in hexadecimal.
    pub sha256: String,
}

/// The result of a command.
///
/// ```
/// use vnfm_plugin_sdk::Output;
/// use vnfm_plugin_sdk::serde_json::{from_value, json};
///
/// let output: Output = from_value(json!({"exitCode": 2, "stderr": "no space left\n"})).unwrap();
/// assert!(!output.ok());
/// let error = output.failure("web-1", "install");
/// assert_eq!((error.code.as_str(), error.exit_code), ("install-failed", Some(2)));
/// assert_eq!(error.last_lines, ["no space left"]);
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Output {
    /// Exit code; 128 + n if signal n ended the command.
    pub exit_code: i32,
    /// Standard output; the middle is cut if it is too long.
    #[serde(default)]
    pub stdout: String,
    /// Standard error; the middle is cut if it is too long.
    #[serde(default)]
    pub stderr: String,
    /// True if output was cut.
    #[serde(default)]
    pub truncated: bool,
}

impl Output {
    /// An exit code with complete output.
    pub fn new(exit_code: i32, stdout: impl Into<String>, stderr: impl Into<String>) -> Self {
        Self {
            exit_code,
            stdout: stdout.into(),
            stderr: stderr.into(),
            truncated: false,
        }
    }

    /// True if the exit code is 0.
    pub fn ok(&self) -> bool {
        self.exit_code == 0
    }

    /// The error `<phase>-failed`, for a command that should have exited with 0.
    pub fn failure(&self, host: &str, phase: &str) -> DriverError {
        let output = if self.stderr.trim().is_empty() {
            &self.stdout
        } else {
            &self.stderr
        };
        DriverError::new(
            format!("{phase}-failed"),
            format!(
                "a command of phase `{phase}` failed with exit code {}",
                self.exit_code
            ),
        )
        .host(host)
        .phase(phase)
        .exit_code(self.exit_code)
        .last_lines(output)
    }
}

//! SSH through the host: where to log in, and the result of a command.

use crate::error::DriverError;
use crate::secret::Secret;
use serde::{Deserialize, Serialize};

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
            port: 22,
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

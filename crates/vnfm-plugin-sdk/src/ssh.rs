//! SSH through the host: run a command, put a file, wait for a login. The host holds the connections, pins
//! host keys and keeps credentials out of every log.

use crate::context::HookContext;
use crate::error::{DriverError, ServiceError};
use crate::secret::Secret;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::time::Duration;

/// A host to log in to. Its host key is pinned to `server_id`.
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
    /// The VIM's id of the server behind the address.
    pub server_id: String,
    /// IP address or name.
    pub address: String,
    /// TCP port.
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
    /// Name in errors; the address where there is none.
    #[serde(skip)]
    pub name: Option<String>,
}

impl SshTarget {
    /// A host that is reached directly, on port 22.
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

    /// Logs in by password.
    #[must_use]
    pub fn password(mut self, password: impl Into<Secret>) -> Self {
        self.password = Some(password.into());
        self
    }

    /// Logs in by private key.
    #[must_use]
    pub fn private_key(mut self, pem: impl Into<Secret>) -> Self {
        self.private_key = Some(pem.into());
        self
    }

    /// Another port than 22.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = port;
        self
    }

    /// Goes through another host.
    #[must_use]
    pub fn jump(mut self, jump: SshTarget) -> Self {
        self.jump = Some(Box::new(jump));
        self
    }

    /// What errors call it.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// What errors call it: its name, else its address.
    pub fn label(&self) -> &str {
        self.name.as_deref().unwrap_or(&self.address)
    }
}

/// A command for a host.
///
/// ```
/// use std::time::Duration;
/// use vnfm_plugin_sdk::Command;
///
/// let join = Command::new("cluster-join --token-stdin").stdin("token").sudo().deadline(Duration::from_secs(600));
/// # let _ = join;
/// ```
///
/// Secrets go through `stdin` or a file, never into the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Command {
    line: String,
    stdin: Secret,
    sudo: bool,
    deadline: Duration,
}

impl Command {
    /// One command line for the login shell; given up after five minutes unless said otherwise.
    pub fn new(line: impl Into<String>) -> Self {
        Self {
            line: line.into(),
            stdin: Secret::default(),
            sudo: false,
            deadline: Duration::from_secs(300),
        }
    }

    /// What it reads; the place for secrets.
    pub fn stdin(mut self, input: impl Into<Secret>) -> Self {
        self.stdin = input.into();
        self
    }

    /// Runs it as root.
    pub fn sudo(mut self) -> Self {
        self.sudo = true;
        self
    }

    /// Gives it up after `limit`.
    pub fn deadline(mut self, limit: Duration) -> Self {
        self.deadline = limit;
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

/// What a command did.
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
    /// Its exit code; 128 + n where signal n ended it.
    pub exit_code: i32,
    /// Standard output, bounded.
    #[serde(default)]
    pub stdout: String,
    /// Standard error, bounded.
    #[serde(default)]
    pub stderr: String,
    /// True where output was cut in the middle.
    #[serde(default)]
    pub truncated: bool,
}

impl Output {
    /// True where it ended with 0.
    pub fn ok(&self) -> bool {
        self.exit_code == 0
    }

    /// The error of a command that should have ended with 0.
    pub fn failure(&self, host: &str, phase: &str) -> DriverError {
        let said = if self.stderr.trim().is_empty() {
            &self.stdout
        } else {
            &self.stderr
        };
        DriverError::new(
            format!("{phase}-failed"),
            format!(
                "a command of phase `{phase}` ended with exit code {}",
                self.exit_code
            ),
        )
        .host(host)
        .phase(phase)
        .exit_code(self.exit_code)
        .last_lines(said)
    }
}

/// A file for a host, put there whole or not at all.
///
/// ```
/// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
/// use vnfm_plugin_sdk::{SshTarget, Upload};
///
/// let host = TestHost::new().file("Files/app.conf", "port = 80");
/// let ssh = host.context().ssh(SshTarget::new("server-1", "10.0.0.1", "ubuntu"));
/// block_on(ssh.put(Upload::new("/etc/motd", "hello").mode("0644").sudo())).unwrap();
/// block_on(ssh.put(Upload::artifact("/etc/app.conf", "Files/app.conf"))).unwrap();
/// assert_eq!(host.uploads()[1].text(), "port = 80");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Upload {
    path: String,
    mode: String,
    sudo: bool,
    content: Content,
}

#[derive(Clone, PartialEq, Eq)]
enum Content {
    Bytes(Vec<u8>),
    Artifact(String),
}

impl std::fmt::Debug for Content {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Artifact(path) => write!(f, "artifact `{path}`"),
        }
    }
}

impl Upload {
    /// A file of these bytes, readable by its owner alone.
    pub fn new(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.into(),
            mode: "0600".into(),
            sudo: false,
            content: Content::Bytes(content.into()),
        }
    }

    /// A file of the package; its bytes do not pass through the plugin.
    pub fn artifact(path: impl Into<String>, artifact: impl Into<String>) -> Self {
        Self {
            content: Content::Artifact(artifact.into()),
            ..Self::new(path, [])
        }
    }

    /// Its permissions, in octal.
    pub fn mode(mut self, mode: impl Into<String>) -> Self {
        self.mode = mode.into();
        self
    }

    /// Written by root.
    pub fn sudo(mut self) -> Self {
        self.sudo = true;
        self
    }
}

/// One host, through the services of the VNFM. Connections are made and shared by the VNFM.
///
/// ```
/// use std::time::Duration;
/// use vnfm_plugin_sdk::SshTarget;
/// use vnfm_plugin_sdk::testkit::{Reply, TestHost, block_on};
///
/// let host = TestHost::new().ssh("10.0.0.1", "install", Reply::exit(100, "no such package\n"));
/// let target = SshTarget::new("server-1", "10.0.0.1", "ubuntu").named("web-1");
/// let ssh = host.context().ssh(target);
/// block_on(ssh.wait(Duration::from_secs(300))).unwrap();
/// // An exit code is an answer to `run` and an error of `check`.
/// assert_eq!(block_on(ssh.run("install it")).unwrap().exit_code, 100);
/// let error = block_on(ssh.check("install", "install it")).unwrap_err();
/// assert_eq!((error.code.as_str(), error.host.as_deref()), ("install-failed", Some("web-1")));
/// assert_eq!(error.last_lines, ["no such package"]);
/// ```
#[derive(Debug, Clone)]
pub struct Ssh {
    cx: HookContext,
    target: SshTarget,
}

impl Ssh {
    pub(crate) fn new(cx: HookContext, target: SshTarget) -> Self {
        Self { cx, target }
    }

    /// Where it logs in.
    pub fn target(&self) -> &SshTarget {
        &self.target
    }

    /// Runs a command; an exit code other than 0 is no error.
    ///
    /// # Errors
    ///
    /// Where the host cannot be reached, refuses the login or the command does not end in time.
    pub async fn run(&self, command: impl Into<Command>) -> Result<Output, ServiceError> {
        let command = command.into();
        let mut request = json!({
            "host": self.target,
            "command": command.line,
            "sudo": command.sudo,
            "deadlineSeconds": whole_seconds(command.deadline),
        });
        if !command.stdin.is_empty() {
            request["stdin"] = Value::from(command.stdin.reveal());
        }
        self.cx.call("ssh.run", request).await
    }

    /// Runs a command of `phase` that must end with 0.
    ///
    /// # Errors
    ///
    /// As [`Ssh::run`]; and `<phase>-failed`, with host, exit code and the last lines, where it does not.
    pub async fn check(
        &self,
        phase: &str,
        command: impl Into<Command>,
    ) -> Result<Output, DriverError> {
        let output = self
            .run(command)
            .await
            .map_err(|error| self.blame(phase, error))?;
        if output.ok() {
            Ok(output)
        } else {
            Err(output.failure(self.target.label(), phase))
        }
    }

    /// Puts a file in place.
    ///
    /// # Errors
    ///
    /// As [`Ssh::run`], and where the host refuses to write.
    pub async fn put(&self, file: Upload) -> Result<(), DriverError> {
        let mut request = json!({
            "host": self.target,
            "path": file.path,
            "mode": file.mode,
            "sudo": file.sudo,
        });
        match file.content {
            Content::Bytes(bytes) => {
                request["contentBase64"] = BASE64_STANDARD.encode(bytes).into();
            }
            Content::Artifact(path) => request["artifact"] = path.into(),
        }
        let put = self.cx.call::<Value>("ssh.put", request).await;
        put.map(|_| ()).map_err(|error| self.blame("upload", error))
    }

    /// Completes once a login works.
    ///
    /// # Errors
    ///
    /// Where it still does not after `limit`.
    pub async fn wait(&self, limit: Duration) -> Result<(), DriverError> {
        let request = json!({ "host": self.target, "deadlineSeconds": whole_seconds(limit) });
        let waited = self.cx.call::<Value>("ssh.wait", request).await;
        waited
            .map(|_| ())
            .map_err(|error| self.blame("login", error))
    }

    fn blame(&self, phase: &str, error: ServiceError) -> DriverError {
        DriverError::from(error)
            .host(self.target.label())
            .phase(phase)
    }
}

fn whole_seconds(limit: Duration) -> u64 {
    limit.as_secs() + u64::from(limit.subsec_nanos() > 0)
}

//! SSH through the host: run a command, upload a file, wait for a login. The host keeps the connections, pins
//! host keys and keeps credentials out of every log.

use crate::context::{HookContext, as_json};
use crate::error::{DriverError, ServiceError};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::time::Duration;
#[doc(inline)]
pub use vnfm_plugin_messages::ssh::{
    Command, FileTransfer, FileUpload, Output, SshTarget, StoredFile, full_seconds,
};

/// A file to upload to a host. The upload is atomic: the file is replaced completely or not at all.
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
pub struct Upload(FileUpload);

impl Upload {
    /// A file with this content, of mode 0600.
    pub fn new(path: impl Into<String>, content: impl Into<Vec<u8>>) -> Self {
        let mut file = FileUpload::new(path);
        file.content_base64 = Some(BASE64_STANDARD.encode(content.into()));
        Self(file)
    }

    /// A copy of a file of the VNF package; its content does not pass through the plugin.
    pub fn artifact(path: impl Into<String>, artifact: impl Into<String>) -> Self {
        let mut file = FileUpload::new(path);
        file.artifact = Some(artifact.into());
        Self(file)
    }

    /// Sets the file mode, in octal, such as `0644`.
    pub fn mode(mut self, mode: impl Into<String>) -> Self {
        self.0.mode = mode.into();
        self
    }

    /// Writes the file as root.
    pub fn sudo(mut self) -> Self {
        self.0.sudo = true;
        self
    }
}

/// One host, reached through the VNFM, which opens the connections and shares them.
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
/// // `run` returns a non-zero exit code; for `check` it is an error.
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

    /// The host, with its credentials.
    pub fn target(&self) -> &SshTarget {
        &self.target
    }

    /// Runs a command. A non-zero exit code is not an error.
    ///
    /// # Errors
    ///
    /// If the host is unreachable, rejects the login, or the command times out.
    pub async fn run(&self, command: impl Into<Command>) -> Result<Output, ServiceError> {
        self.call("ssh.run", &command.into()).await
    }

    /// Runs a command that must exit with 0. `phase` names the step in errors.
    ///
    /// # Errors
    ///
    /// As [`Ssh::run`]; and `<phase>-failed`, with host, exit code and last lines of output, for a non-zero exit code.
    pub async fn check(
        &self,
        phase: &str,
        command: impl Into<Command>,
    ) -> Result<Output, DriverError> {
        let output = self
            .run(command)
            .await
            .map_err(|error| self.driver_error(phase, error))?;
        if output.ok() {
            Ok(output)
        } else {
            Err(output.failure(self.target.label(), phase))
        }
    }

    /// Uploads a file; replaces an existing one.
    ///
    /// # Errors
    ///
    /// As [`Ssh::run`], or if the host cannot write the file.
    pub async fn put(&self, file: Upload) -> Result<(), DriverError> {
        let result = self.call::<Value>("ssh.put", &file.0).await;
        result
            .map(|_| ())
            .map_err(|error| self.driver_error("upload", error))
    }

    /// Copies a file from the host, and stores it with the instance: it outlives the host. A file of another size or SHA-256 is
    /// not stored.
    ///
    /// ```
    /// use vnfm_plugin_sdk::messages::FileTransfer;
    /// use vnfm_plugin_sdk::SshTarget;
    /// use vnfm_plugin_sdk::testkit::{TestHost, block_on};
    ///
    /// let cx = TestHost::new().context();
    /// let ssh = cx.ssh(SshTarget::new("server-1", "10.0.0.1", "ubuntu"));
    /// let backup = FileTransfer::new("backup.enc", "/var/backups/backup.enc");
    /// block_on(ssh.fetch(&backup.clone().expecting(7, "0a1b"))).unwrap();
    /// assert_eq!(block_on(cx.stored_files()).unwrap()[0].bytes, 7);
    /// block_on(ssh.send(&backup)).unwrap();
    /// block_on(cx.remove_file("backup.enc")).unwrap();
    /// assert!(block_on(ssh.send(&backup)).is_err());
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Ssh::run`]; if the content is another, or the VNFM's disk has no room for it.
    pub async fn fetch(&self, file: &FileTransfer) -> Result<StoredFile, ServiceError> {
        self.call("file.fetch", file).await
    }

    /// Copies a file that is stored with the instance to the host, with mode 0600; replaces an existing one.
    ///
    /// # Errors
    ///
    /// As [`Ssh::run`]; if there is no such file, or the host cannot write it.
    pub async fn send(&self, file: &FileTransfer) -> Result<StoredFile, ServiceError> {
        self.call("file.send", file).await
    }

    /// Waits until a login succeeds.
    ///
    /// # Errors
    ///
    /// If no login succeeded within `timeout`.
    pub async fn wait(&self, timeout: Duration) -> Result<(), DriverError> {
        let limit = json!({ "deadlineSeconds": full_seconds(timeout) });
        let result = self.call::<Value>("ssh.wait", &limit).await;
        result
            .map(|_| ())
            .map_err(|error| self.driver_error("login", error))
    }

    /// Calls a service with the members of `what`, on this host.
    async fn call<T: DeserializeOwned>(
        &self,
        service: &str,
        what: &impl Serialize,
    ) -> Result<T, ServiceError> {
        let mut request = as_json(service, what)?;
        request["host"] = as_json(service, &self.target)?;
        self.cx.call(service, request).await
    }

    fn driver_error(&self, phase: &str, error: ServiceError) -> DriverError {
        DriverError::from(error)
            .host(self.target.label())
            .phase(phase)
    }
}

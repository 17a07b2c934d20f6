//! SSH for hooks: runs commands, writes files and waits for hosts; pins host keys.
//!
//! ```text
//! Ssh::run ─┐                 ┌─ jump host (another pooled connection)
//! Ssh::put ─┼─ pool ─ connect ┼─ host key: pinned to the server's id, learned at the first login
//! Ssh::wait ┘                 └─ login: key, password, keyboard-interactive
//! ```
//!
//! | file | content |
//! |---|---|
//! | `connect.rs` | one connection: TCP or through a jump host, host key, login |
//! | `pool.rs` | connections that are reused between calls |
//! | `run.rs` | one command: separate, bounded outputs, exit code, deadline, cancellation by drop |
//! | `put.rs` | one file, written atomically |
//! | `copy.rs` | one file between a host and the local disk, in bounded memory |
//! | `wait.rs` | what a wait for a login reports |
//!
//! Types of the SSH library are private; errors are those of the core. Authorization and HTTP are not here.

mod connect;
mod copy;
mod errors;
mod host_keys;
mod output;
mod pool;
mod put;
mod run;
mod wait;

pub use errors::CODES;
pub use host_keys::{HostKeys, RememberedHostKeys};

use pool::Pool;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use vnfm_core::ports::{
    CommandOutput, Content, FileCopy, PinnedTarget, PortError, RemoteFile, SshCommand, Watcher,
};
use vnfm_outbound::Destinations;
use wait::Reports;

/// An SSH client for many hosts; clones share their connections. Needs a tokio runtime.
#[derive(Clone)]
pub struct Ssh {
    pool: Arc<Pool>,
}

impl std::fmt::Debug for Ssh {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Ssh({} connections)", self.pool.len())
    }
}

/// The command that [`Ssh::wait`] runs.
const PROBE_COMMAND: &str = "true";
/// Timeout of one attempt of [`Ssh::wait`].
const PROBE_TIMEOUT: Duration = Duration::from_secs(10);
/// The interval between attempts of [`Ssh::wait`].
const PROBE_INTERVAL: Duration = Duration::from_millis(250);
/// How long a refused login is attributed to a booting host that has not created its users yet.
const LOGIN_SETUP_PERIOD: Duration = Duration::from_secs(30);
/// Timeout for copying one file.
const COPY_TIMEOUT: Duration = Duration::from_hours(1);
/// Timeout for writing one file.
const PUT_TIMEOUT: Duration = Duration::from_mins(10);

impl Ssh {
    /// Creates a client that verifies hosts by `host_keys` and connects only to what `to` allows. `to` does not restrict
    /// hosts behind a jump host.
    pub fn new(host_keys: Arc<dyn HostKeys>, to: Destinations) -> Self {
        Self {
            pool: Arc::new(Pool::new(host_keys, to)),
        }
    }

    /// Runs `command` on `target`. A non-zero exit code is not an error. Dropping the future ends the command.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the host does not respond, the connection is lost or the deadline passes; `Refused` if the login
    /// or the host key is.
    pub async fn run(
        &self,
        target: &PinnedTarget,
        command: &SshCommand,
    ) -> Result<CommandOutput, PortError> {
        let line = run::command_line(&target.host, &command.line, command.sudo);
        let job = run::Job {
            action: format!(
                "run `{}` on `{}`",
                run::summary(&command.line),
                target.host.address
            ),
            line,
            stdin: run::Input::Bytes(command.stdin.reveal().as_bytes().to_vec()),
            stdout: None,
        };
        let limit = Duration::from_secs(u64::from(command.deadline_seconds));
        run::run_within(&self.pool, target, job, limit).await
    }

    /// Writes `file` on `target` atomically: it has the old content or the new one, never a part.
    ///
    /// # Errors
    ///
    /// As [`Ssh::run`], and `Refused` if the host cannot write the file.
    pub async fn put(&self, target: &PinnedTarget, file: &RemoteFile) -> Result<(), PortError> {
        let limit = match file.content {
            Content::Bytes(_) => PUT_TIMEOUT,
            Content::Streamed { .. } => COPY_TIMEOUT,
        };
        put::put(&self.pool, target, file, limit).await
    }

    /// Copies a file of `target` to the local disk, in bounded memory. The local file exists already.
    ///
    /// # Errors
    ///
    /// As [`Ssh::run`], and `Unavailable` if the file has another size or cannot be read or written.
    pub async fn fetch(&self, target: &PinnedTarget, copy: &FileCopy) -> Result<(), PortError> {
        copy::fetch(&self.pool, target, copy, COPY_TIMEOUT).await
    }

    /// Copies a local file to `target`, in bounded memory: there it has the old content or the new one, never a part.
    ///
    /// # Errors
    ///
    /// Those of [`Ssh::fetch`].
    pub async fn send(&self, target: &PinnedTarget, copy: &FileCopy) -> Result<(), PortError> {
        copy::send(&self.pool, target, copy, COPY_TIMEOUT).await
    }

    /// Waits until a command can be run on `target`, and tells `watcher` why it cannot yet.
    ///
    /// # Errors
    ///
    /// The last error after `deadline_seconds`; a changed host key at once; a refused login after half a minute, which a
    /// booting host may need to create its users.
    pub async fn wait(
        &self,
        target: &PinnedTarget,
        deadline_seconds: u32,
        watcher: &dyn Watcher,
    ) -> Result<(), PortError> {
        let deadline = Instant::now() + Duration::from_secs(u64::from(deadline_seconds));
        let mut reports = Reports::begin(&target.host, deadline_seconds, watcher);
        let mut refused_since = None;
        let mut pace = interval(PROBE_INTERVAL);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pace.tick().await;
            let job = run::Job {
                action: format!("log in to `{}`", target.host.address),
                line: PROBE_COMMAND.into(),
                stdin: run::Input::Bytes(Vec::new()),
                stdout: None,
            };
            let limit = PROBE_TIMEOUT.min(
                deadline
                    .saturating_duration_since(Instant::now())
                    .max(PROBE_INTERVAL),
            );
            let Err(error) = run::run_within(&self.pool, target, job, limit).await else {
                return Ok(());
            };
            tracing::debug!(host = %target.host.address, %error, "host not ready yet");
            reports.failed(&error);
            self.pool.remove(target);
            let since = *refused_since.get_or_insert(Instant::now());
            if error.is_unavailable() {
                refused_since = None;
            } else if error.code().name != errors::LOGIN_REFUSED.name
                || since.elapsed() > LOGIN_SETUP_PERIOD
            {
                return Err(error);
            }
            if Instant::now() >= deadline {
                return Err(error);
            }
        }
    }

    /// Checks within `limit` that `target` has its pinned host key and accepts the login.
    ///
    /// # Errors
    ///
    /// Those of [`Ssh::run`], as far as connecting and logging in can fail.
    pub async fn check(&self, target: &PinnedTarget, limit: Duration) -> Result<(), PortError> {
        match timeout(limit, self.pool.connection(target)).await {
            Ok(connected) => connected.map(drop),
            Err(_) => Err(errors::deadline_error(
                &format!("log in to `{}`", target.host.address),
                limit,
            )),
        }
    }
}

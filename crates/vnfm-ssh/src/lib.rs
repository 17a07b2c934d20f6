//! SSH for hooks: connect, run, put, wait; host keys pinned.
//!
//! ```text
//! Ssh::run ─┐                 ┌─ jump host (another pooled connection)
//! Ssh::put ─┼─ pool ─ connect ┼─ host key: pinned to the server's id, learnt at the first login
//! Ssh::wait ┘                 └─ login: key, password, keyboard-interactive
//! ```
//!
//! | file | what |
//! |---|---|
//! | `connect.rs` | one connection: TCP or through a jump host, host key, login |
//! | `pool.rs` | connections that live on between calls |
//! | `run.rs` | one command: output apart and bounded, exit code, deadline, cancel by drop |
//! | `put.rs` | one file, there whole or not at all |
//!
//! Types of the SSH library stay inside; errors are the core's. Who may log in where, and HTTP, are not here.

mod connect;
mod errors;
mod host_keys;
mod output;
mod pool;
mod put;
mod run;

pub use errors::CODES;
pub use host_keys::{HostKeys, RememberedHostKeys};

use pool::Pool;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout};
use vnfm_core::ports::{CommandOutput, PortError, RemoteFile, SshCommand, SshTarget};
use vnfm_outbound::Destinations;

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

/// The command that [`Ssh::wait`] tries.
const NOTHING: &str = "true";
/// How long one try of [`Ssh::wait`] may take.
const TRY: Duration = Duration::from_secs(10);
/// The pause between two tries of [`Ssh::wait`].
const PAUSE: Duration = Duration::from_millis(250);
/// How long a refused login is taken for a host that is still setting up its users.
const SETTING_UP: Duration = Duration::from_secs(30);
/// How long a file may take.
const PUT: Duration = Duration::from_mins(10);

impl Ssh {
    /// A client that asks `host_keys` whom to trust, and connects to what `to` allows. What lies behind a jump host is the
    /// jump host's to reach.
    pub fn new(host_keys: Arc<dyn HostKeys>, to: Destinations) -> Self {
        Self {
            pool: Arc::new(Pool::new(host_keys, to)),
        }
    }

    /// Runs `command` on `target`. An exit code other than 0 is no error. Dropping the future ends the command.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the host does not answer, the connection is lost or the deadline passes;
    /// `Refused` where the login or the host key is.
    pub async fn run(
        &self,
        target: &SshTarget,
        command: &SshCommand,
    ) -> Result<CommandOutput, PortError> {
        let line = run::command_line(target, &command.command, command.sudo);
        let job = run::Job {
            doing: format!(
                "run `{}` on `{}`",
                run::brief(&command.command),
                target.address
            ),
            line,
            stdin: command.stdin.reveal().as_bytes().to_vec(),
        };
        let limit = Duration::from_secs(u64::from(command.deadline_seconds));
        run::within(&self.pool, target, job, limit).await
    }

    /// Puts `file` on `target`: the old content or the new one is there, never a part.
    ///
    /// # Errors
    ///
    /// As [`Ssh::run`], and `Refused` where the host cannot write it.
    pub async fn put(&self, target: &SshTarget, file: &RemoteFile) -> Result<(), PortError> {
        put::put(&self.pool, target, file, PUT).await
    }

    /// Completes once a command runs on `target`.
    ///
    /// # Errors
    ///
    /// The last error where none did within `deadline_seconds`; another host key at once; a refused login
    /// after half a minute, which a booting host may need to set up its users.
    pub async fn wait(&self, target: &SshTarget, deadline_seconds: u32) -> Result<(), PortError> {
        let deadline = Instant::now() + Duration::from_secs(u64::from(deadline_seconds));
        let mut refused_since = None;
        let mut pace = interval(PAUSE);
        pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            pace.tick().await;
            let job = run::Job {
                doing: format!("log in to `{}`", target.address),
                line: NOTHING.into(),
                stdin: Vec::new(),
            };
            let limit = TRY.min(
                deadline
                    .saturating_duration_since(Instant::now())
                    .max(PAUSE),
            );
            let Err(error) = run::within(&self.pool, target, job, limit).await else {
                return Ok(());
            };
            tracing::debug!(host = %target.address, %error, "not yet");
            self.pool.forget(target);
            let since = *refused_since.get_or_insert(Instant::now());
            if error.is_unavailable() {
                refused_since = None;
            } else if error.code().name != errors::LOGIN_REFUSED.name
                || since.elapsed() > SETTING_UP
            {
                return Err(error);
            }
            if Instant::now() >= deadline {
                return Err(error);
            }
        }
    }

    /// Checks that `target` shows its pinned host key and lets us in, within `limit`.
    ///
    /// # Errors
    ///
    /// As [`Ssh::run`].
    pub async fn check(&self, target: &SshTarget, limit: Duration) -> Result<(), PortError> {
        match timeout(limit, self.pool.connection(target)).await {
            Ok(connected) => connected.map(drop),
            Err(_) => Err(errors::too_slow(
                &format!("log in to `{}`", target.address),
                limit,
            )),
        }
    }
}

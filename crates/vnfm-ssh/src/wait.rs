//! What [`Ssh::wait`](crate::Ssh::wait) reports while a host does not accept a login: address, port, last error, time.

use std::time::Duration;
use tokio::time::Instant;
use vnfm_core::ports::{PortError, SshTarget, Watcher};

/// The interval between two reports of the same error.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);

/// The reports of one wait.
pub(crate) struct Reports<'a> {
    watcher: &'a dyn Watcher,
    /// What is waited for: `SSH login at USER@ADDRESS:PORT`.
    login: String,
    limit_seconds: u32,
    begun: Instant,
    /// The last reported error, and when it was.
    last: Option<(String, Instant)>,
}

impl<'a> Reports<'a> {
    pub(crate) fn begin(target: &SshTarget, limit_seconds: u32, watcher: &'a dyn Watcher) -> Self {
        let login = format!(
            "SSH login at {}@{}:{}",
            target.username, target.address, target.port
        );
        watcher.waiting(&login);
        Self {
            watcher,
            login,
            limit_seconds,
            begun: Instant::now(),
            last: None,
        }
    }

    /// Reports an error that is new, or as old as the interval.
    pub(crate) fn failed(&mut self, error: &PortError) {
        let (why, now) = (error.detail(), Instant::now());
        let is_known = self
            .last
            .as_ref()
            .is_some_and(|(known, at)| known == why && now.duration_since(*at) < REPORT_INTERVAL);
        if is_known {
            return;
        }
        let seconds = now.duration_since(self.begun).as_secs();
        let (login, limit) = (&self.login, self.limit_seconds);
        self.watcher
            .waiting(&format!("{login}: {why} ({seconds} s of {limit} s)"));
        self.last = Some((why.to_owned(), now));
    }
}

//! The integrity check: at open, SQLite reads every page (`PRAGMA quick_check`) on a separate connection and thread.
//!
//! ```text
//! open ─ check starts ─┬─ ends within a minute ─ intact: continue │ damaged: the open fails
//!                      └─ takes longer: the open continues ─ damaged: changes are rejected from then on
//! ```

use crate::fault::Done;
use rusqlite::{Connection, ErrorCode, InterruptHandle, OpenFlags};
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::timeout;
use vnfm_core::ports::StoreError;

/// Interval of the log lines while an open waits for the check.
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// Intervals after which the open continues without the result.
const MAX_REPORTS: u32 = 6;
/// Findings to report of a damaged database, at most.
const MAX_FINDINGS: usize = 5;

/// The state of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
enum CheckState {
    Running,
    Intact,
    /// The check was interrupted before its end.
    Stopped,
    Damaged(String),
    Failed(String),
}

/// A running check, or its result.
pub(crate) struct Integrity {
    state: watch::Receiver<CheckState>,
    interrupt: InterruptHandle,
    thread: Option<JoinHandle<()>>,
}

impl Integrity {
    /// Starts the check of the database at `path`.
    pub(crate) fn begin(path: &Path) -> Done<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        let interrupt = db.get_interrupt_handle();
        let (sender, state) = watch::channel(CheckState::Running);
        let thread = std::thread::Builder::new()
            .name("vnfm-store-check".into())
            .spawn(move || drop(sender.send(check(&db))))
            .map_err(|reason| {
                StoreError::Unavailable(format!("cannot start its check: {reason}"))
            })?;
        Ok(Self {
            state,
            interrupt,
            thread: Some(thread),
        })
    }

    /// Waits for the result, at most a minute.
    pub(crate) async fn wait(&self, path: &Path) -> Result<(), StoreError> {
        self.wait_within(path, REPORT_INTERVAL, MAX_REPORTS).await
    }

    async fn wait_within(&self, path: &Path, step: Duration, steps: u32) -> Result<(), StoreError> {
        let mut state = self.state.clone();
        for passed in 1..=steps {
            let ended = state.wait_for(|state| *state != CheckState::Running);
            if let Ok(ended) = timeout(step, ended).await {
                drop(ended);
                return self.result().map_err(|reason| refused(path, &reason));
            }
            let (seconds, bytes) = (
                (step * passed).as_secs(),
                path.metadata().map_or(0, |m| m.len()),
            );
            tracing::info!(
                seconds,
                bytes,
                "still checking the integrity of the database"
            );
        }
        tracing::warn!(
            "the integrity check continues in the background; `/readyz` reports its result"
        );
        Ok(())
    }

    /// The damage found so far.
    pub(crate) fn result(&self) -> Result<(), String> {
        match &*self.state.borrow() {
            CheckState::Running if self.state.has_changed().is_err() => {
                Err("its check ended unexpectedly".into())
            }
            CheckState::Running | CheckState::Intact | CheckState::Stopped => Ok(()),
            CheckState::Damaged(reason) | CheckState::Failed(reason) => Err(reason.clone()),
        }
    }

    /// Interrupts a running check: its snapshot would block the checkpoint of the write-ahead log.
    pub(crate) fn stop(&self) {
        self.interrupt.interrupt();
    }
}

impl Drop for Integrity {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the check of the database panicked");
        }
    }
}

fn check(db: &Connection) -> CheckState {
    let findings = || -> rusqlite::Result<Vec<String>> {
        let mut check = db.prepare(&format!("PRAGMA quick_check({MAX_FINDINGS})"))?;
        check.query_map([], |row| row.get(0))?.collect()
    };
    match findings() {
        Ok(found) if found == ["ok"] => CheckState::Intact,
        Ok(found) => CheckState::Damaged(found.join("; ").replace('\n', " ")),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => CheckState::Stopped,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                CheckState::Damaged(error.to_string())
            }
            _ => CheckState::Failed(format!("it cannot be read: {error}")),
        },
    }
}

fn refused(path: &Path, reason: &str) -> StoreError {
    let path = path.display();
    StoreError::Broken(format!(
        "cannot open the database `{path}`: it is damaged: {reason}; hint: check the disk, then restore a backup \
         (`vnfm-server restore FILE`; the damaged database is kept next to it); without a backup, `sqlite3 {path} .recover` \
         on a copy of the folder saves what can be read"
    ))
}

#[cfg(test)]
mod tests {
    use super::{CheckState, Integrity};
    use rusqlite::Connection;
    use std::path::Path;
    use std::time::Duration;
    use tokio::sync::watch;

    #[tokio::test]
    async fn a_slow_check_lets_the_open_continue_and_reports_later() {
        let (sender, state) = watch::channel(CheckState::Running);
        let interrupt = Connection::open_in_memory().unwrap().get_interrupt_handle();
        let check = Integrity {
            state,
            interrupt,
            thread: None,
        };
        let path = Path::new("vnfm.db");
        assert_eq!(check.wait_within(path, Duration::ZERO, 2).await, Ok(()));
        assert_eq!(check.result(), Ok(()));
        sender.send(CheckState::Damaged("page 7".into())).unwrap();
        assert_eq!(check.result(), Err("page 7".to_owned()));
        let refused = check
            .wait_within(path, Duration::ZERO, 1)
            .await
            .unwrap_err();
        assert!(
            refused.to_string().contains("vnfm-server restore"),
            "{refused}"
        );
    }
}

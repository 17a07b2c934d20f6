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

/// How long an open waits for it before it says that it still waits.
const STEP: Duration = Duration::from_secs(10);
/// How often it says so, before it goes on without the result.
const STEPS: u32 = 6;
/// What is told of a damaged database at most.
const FINDINGS: usize = 5;

/// What is known.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Running,
    Whole,
    /// Nobody waited for it to end.
    Stopped,
    Damaged(String),
    Failed(String),
}

/// A check that runs, or its result.
pub(crate) struct Integrity {
    seen: watch::Receiver<Seen>,
    interrupt: InterruptHandle,
    thread: Option<JoinHandle<()>>,
}

impl Integrity {
    /// Begins to check the database at `path`.
    pub(crate) fn begin(path: &Path) -> Done<Self> {
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let db = Connection::open_with_flags(path, flags)?;
        let interrupt = db.get_interrupt_handle();
        let (tell, seen) = watch::channel(Seen::Running);
        let thread = std::thread::Builder::new()
            .name("vnfm-store-check".into())
            .spawn(move || drop(tell.send(check(&db))))
            .map_err(|why| StoreError::Unavailable(format!("cannot start its check: {why}")))?;
        Ok(Self {
            seen,
            interrupt,
            thread: Some(thread),
        })
    }

    /// Waits for the result, but not for ever.
    pub(crate) async fn settle(&self, path: &Path) -> Result<(), StoreError> {
        self.settle_within(path, STEP, STEPS).await
    }

    async fn settle_within(
        &self,
        path: &Path,
        step: Duration,
        steps: u32,
    ) -> Result<(), StoreError> {
        let mut seen = self.seen.clone();
        for passed in 1..=steps {
            let ended = seen.wait_for(|seen| *seen != Seen::Running);
            if let Ok(ended) = timeout(step, ended).await {
                drop(ended);
                return self.result().map_err(|why| refused(path, &why));
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

    /// What is wrong, as far as that is known by now.
    pub(crate) fn result(&self) -> Result<(), String> {
        match &*self.seen.borrow() {
            Seen::Running if self.seen.has_changed().is_err() => Err("its check broke off".into()),
            Seen::Running | Seen::Whole | Seen::Stopped => Ok(()),
            Seen::Damaged(why) | Seen::Failed(why) => Err(why.clone()),
        }
    }

    /// Ends the check if it runs: its snapshot keeps the write-ahead log from being folded.
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

fn check(db: &Connection) -> Seen {
    let findings = || -> rusqlite::Result<Vec<String>> {
        let mut check = db.prepare(&format!("PRAGMA quick_check({FINDINGS})"))?;
        check.query_map([], |row| row.get(0))?.collect()
    };
    match findings() {
        Ok(found) if found == ["ok"] => Seen::Whole,
        Ok(found) => Seen::Damaged(found.join("; ").replace('\n', " ")),
        Err(error) => match error.sqlite_error_code() {
            Some(ErrorCode::OperationInterrupted) => Seen::Stopped,
            Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
                Seen::Damaged(error.to_string())
            }
            _ => Seen::Failed(format!("it cannot be read: {error}")),
        },
    }
}

fn refused(path: &Path, why: &str) -> StoreError {
    let path = path.display();
    StoreError::Broken(format!(
        "cannot open the database `{path}`: it is damaged: {why}; hint: look at the disk, then restore a backup \
         (`vnfm-server restore FILE`; the damaged database is kept beside it); without a backup, `sqlite3 {path} .recover` \
         on a copy of the folder saves what can be read"
    ))
}

#[cfg(test)]
mod tests {
    use super::{Integrity, Seen};
    use rusqlite::Connection;
    use std::path::Path;
    use std::time::Duration;
    use tokio::sync::watch;

    #[tokio::test]
    async fn a_check_that_takes_long_lets_the_open_go_on_and_tells_later() {
        let (tell, seen) = watch::channel(Seen::Running);
        let interrupt = Connection::open_in_memory().unwrap().get_interrupt_handle();
        let check = Integrity {
            seen,
            interrupt,
            thread: None,
        };
        let nowhere = Path::new("vnfm.db");
        assert_eq!(
            check.settle_within(nowhere, Duration::ZERO, 2).await,
            Ok(())
        );
        assert_eq!(check.result(), Ok(()));
        tell.send(Seen::Damaged("page 7".into())).unwrap();
        assert_eq!(check.result(), Err("page 7".to_owned()));
        let refused = check
            .settle_within(nowhere, Duration::ZERO, 1)
            .await
            .unwrap_err();
        assert!(
            refused.to_string().contains("vnfm-server restore"),
            "{refused}"
        );
    }
}

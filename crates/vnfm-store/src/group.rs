//! Group commit: all writes that wait at a moment share one transaction, and so one fsync.
//!
//! ```text
//! write ─┐ queue     ┌─ BEGIN ─ write ─ claim ─ … ─ COMMIT (fsync) ─ each caller gets its own result
//! claim ─┼──────► writer ── each under a SAVEPOINT if there are several: one refused by its condition is rolled back alone
//! log   ─┘           └─ the database itself failed: roll back, then retry each write alone
//! ```
//! The writer is a separate thread, so a dropped caller interrupts nothing: its write is done completely, or not at all if
//! it was still queued. SQLite runs in this thread: a round trip to the thread of an asynchronous driver costs more than
//! most statements. Writes are done in the order of the calls. While there are several callers, the writer waits a moment
//! for those of the last transaction; a single caller never waits for others.

use crate::fault::{Done, Fault};
use crate::keys::SecretKeys;
use crate::location::Location;
use crate::vim_cache::VimCache;
use crate::wal::Acknowledged;
use crate::write::{Statement, Writing};
use crate::{lease, write};
use rusqlite::Connection;
use sqlx::sqlite::SqliteConnection;
use std::ops::{Deref, DerefMut};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, MutexGuard, oneshot, watch};
use vnfm_core::ports::{Change, ChangeCounters, Claim, Fence, StoreError};
use vnfm_types::{CancelMode, LogLine};

/// The state of the writer, apart from the thread's own connection.
pub(crate) struct Writer {
    /// Declared before the connections, so that it notes their commits before the last of them closes.
    pub(crate) acknowledged: Option<std::sync::Mutex<Acknowledged>>,
    /// For maintenance. The writer thread holds this lock while it writes, so there is one writer at a time.
    pub(crate) connection: Mutex<SqliteConnection>,
    pub(crate) keys: RwLock<Arc<SecretKeys>>,
    pub(crate) location: Location,
    pub(crate) vims: VimCache,
    /// Wakes those who wait for changes of the outbox or of subscriptions.
    pub(crate) change_counters: watch::Sender<ChangeCounters>,
}

/// A caller's request.
pub(crate) enum Work {
    Write {
        fence: Option<Fence>,
        changes: Vec<Change>,
    },
    Claim {
        owner: String,
        lease: Duration,
        op_id: Option<String>,
    },
    Renew {
        fence: Fence,
        lease: Duration,
    },
    Release {
        fence: Fence,
    },
    Log {
        op_id: String,
        lines: Vec<LogLine>,
    },
    #[cfg(test)]
    Pragma(&'static str),
}

impl Work {
    fn changes(&self) -> &[Change] {
        match self {
            Self::Write { changes, .. } => changes,
            _ => &[],
        }
    }
}

/// The result for a caller.
pub(crate) enum Answer {
    Written,
    Claimed(Option<Claim>),
    Renewed(Option<CancelMode>),
    #[cfg(test)]
    Value(Option<i64>),
}

struct Job {
    work: Work,
    reply: oneshot::Sender<Result<Answer, StoreError>>,
}

/// The queue and the writer thread, which ends when this value is dropped, after its current transaction.
pub(crate) struct Group {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// Writes that share a transaction, at most.
const MAX_BATCH: usize = 128;
/// How long to wait for further writes; about the time of an fsync on a good disk.
const GATHER_TIMEOUT: Duration = Duration::from_micros(500);

impl Group {
    /// Starts the thread that writes.
    pub(crate) fn start(writer: Arc<Writer>) -> Done<Self> {
        let (jobs, queue) = channel();
        let db = writer.location.open()?;
        let thread = std::thread::Builder::new()
            .name("vnfm-store-writer".into())
            .spawn(move || run(&writer, db, &queue))
            .map_err(|why| StoreError::Unavailable(format!("cannot start its writer: {why}")))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Queues `work` and waits for its result; when this returns, the work is durable or was refused.
    pub(crate) async fn execute(&self, work: Work) -> Result<Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let sent = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(Job { work, reply }).is_ok());
        match answer.await {
            Ok(answer) if sent => answer,
            _ => Err(StoreError::Unavailable(
                "its writer has stopped; hint: restart this process".into(),
            )),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the writer of the database panicked");
        }
    }
}

/// Exclusive use of the maintenance connection; notes what was committed when dropped.
pub(crate) struct WriterGuard<'w> {
    connection: MutexGuard<'w, SqliteConnection>,
    writer: &'w Writer,
}

impl Deref for WriterGuard<'_> {
    type Target = SqliteConnection;
    fn deref(&self) -> &SqliteConnection {
        &self.connection
    }
}

impl DerefMut for WriterGuard<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }
}

impl Drop for WriterGuard<'_> {
    fn drop(&mut self) {
        self.writer.note();
    }
}

impl Writer {
    /// The maintenance connection; waiters get it in order.
    pub(crate) async fn lock(&self) -> WriterGuard<'_> {
        WriterGuard {
            connection: self.connection.lock().await,
            writer: self,
        }
    }

    /// Notes what is committed; the caller excludes other writers.
    pub(crate) fn note(&self) {
        if let Some(acknowledged) = &self.acknowledged {
            acknowledged
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .note();
        }
    }

    /// Like [`Self::note`], with an fsync.
    pub(crate) fn note_durably(&self) {
        if let Some(acknowledged) = &self.acknowledged {
            acknowledged
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .note_durably();
        }
    }

    /// The current keys. To unseal rows, call it after reading them: during a process's life keys are only added.
    pub(crate) fn keys(&self) -> Arc<SecretKeys> {
        self.keys
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Announces possible changes. A refused write is announced too; observers then find nothing new.
    fn announce<'a>(&self, changes: impl Iterator<Item = &'a Change>) {
        let (mut outbox, mut subscriptions) = (false, false);
        for change in changes {
            outbox |= matches!(change, Change::Outbox(_));
            subscriptions |= matches!(
                change,
                Change::AddSubscription(_) | Change::RemoveSubscription { .. }
            );
        }
        if outbox || subscriptions {
            self.change_counters.send_modify(|change_counters| {
                change_counters.outbox += u64::from(outbox);
                change_counters.subscriptions += u64::from(subscriptions);
            });
        }
    }

    /// After an error of the database itself, the next write gets a new connection.
    fn repair(&self, db: &mut Connection, fault: &Fault) {
        if fault.is_database_error()
            && self.location.is_file()
            && let Ok(new) = self.location.open()
        {
            *db = new;
        }
    }
}

fn run(writer: &Writer, mut db: Connection, queue: &Receiver<Job>) {
    let (mut jobs, mut recent_writers) = (Vec::new(), 1);
    while let Ok(job) = queue.recv() {
        jobs.push(job);
        gather(queue, &mut jobs, recent_writers);
        recent_writers = count_writers(&jobs).max(recent_writers / 2);
        jobs.retain(|job| !job.reply.is_closed());
        let answers = {
            let _guard = writer.connection.blocking_lock();
            let answers = perform_all(writer, &mut db, &jobs);
            writer.note();
            answers
        };
        writer
            .vims
            .invalidate(jobs.iter().flat_map(|job| job.work.changes()));
        writer.announce(jobs.iter().flat_map(|job| job.work.changes()));
        for (job, answer) in jobs.drain(..).zip(answers) {
            // The caller may have been dropped.
            let _ = job.reply.send(answer);
        }
    }
}

/// Takes all queued jobs; while there are fewer than `recent_writers`, also waits a moment for more.
fn gather(queue: &Receiver<Job>, jobs: &mut Vec<Job>, recent_writers: usize) {
    jobs.extend(queue.try_iter().take(MAX_BATCH - jobs.len()));
    let until = Instant::now() + GATHER_TIMEOUT;
    while jobs.len() < recent_writers
        && let Ok(job) = queue.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        jobs.push(job);
    }
}

/// Number of callers that write, at least 1; an operation's log lines come with its other writes.
fn count_writers(jobs: &[Job]) -> usize {
    jobs.iter()
        .filter(|job| !matches!(job.work, Work::Log { .. }))
        .count()
        .max(1)
}

/// Performs all jobs in one transaction, or each in its own if that fails.
fn perform_all(
    writer: &Writer,
    db: &mut Connection,
    jobs: &[Job],
) -> Vec<Result<Answer, StoreError>> {
    let keys = writer.keys();
    if jobs.len() > 1 {
        match in_one_transaction(Writing { db, keys: &keys }, jobs) {
            Ok(answers) => return answers,
            Err(fault) => writer.repair(db, &fault),
        }
    }
    let mut answers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let answer = in_own_transaction(Writing { db, keys: &keys }, &job.work);
        if let Err((fault, _)) = &answer {
            writer.repair(db, fault);
        }
        answers.push(answer.map_err(|(fault, action)| fault.with_action(action)));
    }
    answers
}

/// Performs all jobs in one transaction, each under a savepoint; fails as a whole if the database itself fails.
fn in_one_transaction(writing: Writing<'_>, jobs: &[Job]) -> Done<Vec<Result<Answer, StoreError>>> {
    let run = |sql| Statement::on(writing.db, sql).run();
    let each = || {
        let mut answers = Vec::with_capacity(jobs.len());
        for job in jobs {
            run("SAVEPOINT job")?;
            match perform(&writing, &job.work) {
                Ok(answer) => answers.push(Ok(answer)),
                Err((fault, _)) if fault.is_database_error() => return Err(fault),
                Err((fault, action)) => {
                    run("ROLLBACK TO job")?;
                    answers.push(Err(fault.with_action(action)));
                }
            }
            run("RELEASE job")?;
        }
        Ok(answers)
    };
    run("BEGIN IMMEDIATE")?;
    finish(writing.db, each())
}

fn in_own_transaction(writing: Writing<'_>, work: &Work) -> Performed {
    if matches!(
        work,
        Work::Claim { .. } | Work::Renew { .. } | Work::Release { .. }
    ) {
        return perform(&writing, work); // one statement is a transaction
    }
    let begun = Statement::on(writing.db, "BEGIN IMMEDIATE").run();
    begun.map_err(|e| (e, "begin a transaction"))?;
    let (outcome, action) = match perform(&writing, work) {
        Ok(answer) => (Ok(answer), "commit a transaction"),
        Err((fault, action)) => (Err(fault), action),
    };
    finish(writing.db, outcome).map_err(|fault| (fault, action))
}

/// Commits, or rolls back after a failure.
fn finish<T>(db: &Connection, outcome: Done<T>) -> Done<T> {
    let outcome = outcome.and_then(|done| Statement::on(db, "COMMIT").run().map(|()| done));
    // SQLite ends some transactions by itself, such as on a full disk.
    if outcome.is_err() && !db.is_autocommit() {
        let _ = Statement::on(db, "ROLLBACK").run();
    }
    outcome
}

/// The result of a job, or the fault and the action that failed.
type Performed = Result<Answer, (Fault, &'static str)>;

fn perform(writing: &Writing<'_>, work: &Work) -> Performed {
    match work {
        Work::Write { fence, changes } => {
            if let Some(fence) = fence {
                lease::check(writing, fence).map_err(|e| (e, "check the lease"))?;
            }
            for change in changes {
                write::apply(writing, change).map_err(|e| (e, write::describe(change)))?;
            }
            Ok(Answer::Written)
        }
        Work::Claim {
            owner,
            lease,
            op_id,
        } => {
            let claimed = lease::claim(writing.db, owner, *lease, op_id.as_deref());
            claimed
                .map(Answer::Claimed)
                .map_err(|e| (e, "claim an operation"))
        }
        Work::Renew { fence, lease } => {
            let renewed = lease::renew(writing.db, fence, *lease);
            renewed
                .map(Answer::Renewed)
                .map_err(|e| (e, "renew a lease"))
        }
        Work::Release { fence } => {
            let released = lease::release(writing.db, fence);
            released
                .map(|()| Answer::Written)
                .map_err(|e| (e, "release a lease"))
        }
        Work::Log { op_id, lines } => {
            let written = write::append_log(writing, op_id, lines);
            written
                .map(|()| Answer::Written)
                .map_err(|e| (e, "append to an operation's log"))
        }
        #[cfg(test)]
        Work::Pragma(sql) => {
            let value = Statement::on(writing.db, sql).value();
            value
                .map(Answer::Value)
                .map_err(|e| (e, "query the database"))
        }
    }
}

//! Group commit: all writes that wait at a moment share one transaction, and so one fsync.
//!
//! ```text
//! write ─┐ queue     ┌─ BEGIN ─ write ─ claim ─ … ─ COMMIT (fsync) ─ each caller hears of its own
//! claim ─┼──────► writer ── each under a SAVEPOINT, where there are several: one refused by its condition is undone alone
//! log   ─┘           └─ the database itself failed: nothing of it is there; each goes again, alone
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

/// The state of the writer, besides the thread's own connection.
pub(crate) struct Writer {
    /// Before the connections: what they committed is noted before the last of them closes.
    pub(crate) acknowledged: Option<std::sync::Mutex<Acknowledged>>,
    /// For maintenance. The writer thread holds this lock while it writes, so there is one writer at a time.
    pub(crate) connection: Mutex<SqliteConnection>,
    pub(crate) keys: RwLock<Arc<SecretKeys>>,
    pub(crate) location: Location,
    pub(crate) vims: VimCache,
    /// Who waits for what is new in the outbox, or among subscriptions.
    pub(crate) news: watch::Sender<ChangeCounters>,
}

/// One caller's request.
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
    Said(Option<i64>),
}

struct Job {
    work: Work,
    reply: oneshot::Sender<Result<Answer, StoreError>>,
}

/// The queue, and the thread behind it; it ends with this value, after the transaction that it is in.
pub(crate) struct Group {
    jobs: Option<Sender<Job>>,
    thread: Option<JoinHandle<()>>,
}

/// The most writes that share a transaction.
const MOST: usize = 128;
/// The longest wait for further writes; one fsync of a good disk takes about as long.
const LINGER: Duration = Duration::from_micros(500);

impl Group {
    /// Starts the thread that writes.
    pub(crate) fn start(writer: Arc<Writer>) -> Done<Self> {
        let (jobs, queue) = channel();
        let db = writer.location.open()?;
        let thread = std::thread::Builder::new()
            .name("vnfm-store-writer".into())
            .spawn(move || serve(&writer, db, &queue))
            .map_err(|why| StoreError::Unavailable(format!("cannot start its writer: {why}")))?;
        Ok(Self {
            jobs: Some(jobs),
            thread: Some(thread),
        })
    }

    /// Has `work` done; once this returns it is durable, or was refused.
    pub(crate) async fn has(&self, work: Work) -> Result<Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let sent = self
            .jobs
            .as_ref()
            .is_some_and(|jobs| jobs.send(Job { work, reply }).is_ok());
        match answer.await {
            Ok(answer) if sent => answer,
            _ => Err(StoreError::Unavailable(
                "its writer has stopped; hint: start this process again".into(),
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

/// The turn of one who writes with the other connection; what was committed is noted when it ends.
pub(crate) struct Turn<'w> {
    connection: MutexGuard<'w, SqliteConnection>,
    writer: &'w Writer,
}

impl Deref for Turn<'_> {
    type Target = SqliteConnection;
    fn deref(&self) -> &SqliteConnection {
        &self.connection
    }
}

impl DerefMut for Turn<'_> {
    fn deref_mut(&mut self) -> &mut SqliteConnection {
        &mut self.connection
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.writer.note();
    }
}

impl Writer {
    /// The other connection, once those who wait for it now had it.
    pub(crate) async fn turn(&self) -> Turn<'_> {
        Turn {
            connection: self.connection.lock().await,
            writer: self,
        }
    }

    /// Notes what is committed, while nobody writes.
    pub(crate) fn note(&self) {
        if let Some(acknowledged) = &self.acknowledged {
            acknowledged
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .note();
        }
    }

    /// The same, durably.
    pub(crate) fn note_for_good(&self) {
        if let Some(acknowledged) = &self.acknowledged {
            acknowledged
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .note_for_good();
        }
    }

    /// The keys as they are now. To unseal, ask after the rows were read: keys only come, while the process lives.
    pub(crate) fn keys(&self) -> Arc<SecretKeys> {
        self.keys
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Says what may be new. What was refused is no news, which whoever looks will find.
    fn tell<'a>(&self, changes: impl Iterator<Item = &'a Change>) {
        let (mut outbox, mut subscriptions) = (false, false);
        for change in changes {
            outbox |= matches!(change, Change::Outbox(_));
            subscriptions |= matches!(
                change,
                Change::AddSubscription(_) | Change::RemoveSubscription { .. }
            );
        }
        if outbox || subscriptions {
            self.news.send_modify(|news| {
                news.outbox += u64::from(outbox);
                news.subscriptions += u64::from(subscriptions);
            });
        }
    }

    /// After an error of the database itself, the next write gets a new connection.
    fn repair(&self, db: &mut Connection, fault: &Fault) {
        if fault.is_of_the_database()
            && self.location.is_file()
            && let Ok(new) = self.location.open()
        {
            *db = new;
        }
    }
}

fn serve(writer: &Writer, mut db: Connection, queue: &Receiver<Job>) {
    let (mut jobs, mut lately) = (Vec::new(), 1);
    while let Ok(job) = queue.recv() {
        jobs.push(job);
        gather(queue, &mut jobs, lately);
        lately = writers(&jobs).max(lately / 2);
        jobs.retain(|job| !job.reply.is_closed());
        let answers = {
            let _alone = writer.connection.blocking_lock();
            let answers = all(writer, &mut db, &jobs);
            writer.note();
            answers
        };
        writer
            .vims
            .heed(jobs.iter().flat_map(|job| job.work.changes()));
        writer.tell(jobs.iter().flat_map(|job| job.work.changes()));
        for (job, answer) in jobs.drain(..).zip(answers) {
            // Whoever asked may be gone.
            let _ = job.reply.send(answer);
        }
    }
}

/// Takes all that wait; while there are fewer than `lately`, for a moment also what comes.
fn gather(queue: &Receiver<Job>, jobs: &mut Vec<Job>, lately: usize) {
    jobs.extend(queue.try_iter().take(MOST - jobs.len()));
    let until = Instant::now() + LINGER;
    while jobs.len() < lately
        && let Ok(job) = queue.recv_timeout(until.saturating_duration_since(Instant::now()))
    {
        jobs.push(job);
    }
}

/// How many callers wrote: an operation's log comes with what else it writes.
fn writers(jobs: &[Job]) -> usize {
    jobs.iter()
        .filter(|job| !matches!(job.work, Work::Log { .. }))
        .count()
        .max(1)
}

/// Every job: together, or each alone where that fails.
fn all(writer: &Writer, db: &mut Connection, jobs: &[Job]) -> Vec<Result<Answer, StoreError>> {
    let keys = writer.keys();
    if jobs.len() > 1 {
        match together(Writing { db, keys: &keys }, jobs) {
            Ok(answers) => return answers,
            Err(fault) => writer.repair(db, &fault),
        }
    }
    let mut answers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let answer = alone(Writing { db, keys: &keys }, &job.work);
        if let Err((fault, _)) = &answer {
            writer.repair(db, fault);
        }
        answers.push(answer.map_err(|(fault, doing)| fault.with_action(doing)));
    }
    answers
}

/// One transaction for all, from which each can be undone; fails as a whole where the database itself fails.
fn together(writing: Writing<'_>, jobs: &[Job]) -> Done<Vec<Result<Answer, StoreError>>> {
    let run = |sql| Statement::on(writing.db, sql).run();
    let each = || {
        let mut answers = Vec::with_capacity(jobs.len());
        for job in jobs {
            run("SAVEPOINT job")?;
            match perform(&writing, &job.work) {
                Ok(answer) => answers.push(Ok(answer)),
                Err((fault, _)) if fault.is_of_the_database() => return Err(fault),
                Err((fault, doing)) => {
                    run("ROLLBACK TO job")?;
                    answers.push(Err(fault.with_action(doing)));
                }
            }
            run("RELEASE job")?;
        }
        Ok(answers)
    };
    run("BEGIN IMMEDIATE")?;
    ended(writing.db, each())
}

/// One transaction for one.
fn alone(writing: Writing<'_>, work: &Work) -> Doing {
    if matches!(
        work,
        Work::Claim { .. } | Work::Renew { .. } | Work::Release { .. }
    ) {
        return perform(&writing, work); // one statement is a transaction
    }
    let begun = Statement::on(writing.db, "BEGIN IMMEDIATE").run();
    begun.map_err(|e| (e, "begin a transaction"))?;
    let (outcome, doing) = match perform(&writing, work) {
        Ok(answer) => (Ok(answer), "commit a transaction"),
        Err((fault, doing)) => (Err(fault), doing),
    };
    ended(writing.db, outcome).map_err(|fault| (fault, doing))
}

/// Commits what was done, or undoes it where it failed.
fn ended<T>(db: &Connection, outcome: Done<T>) -> Done<T> {
    let outcome = outcome.and_then(|done| Statement::on(db, "COMMIT").run().map(|()| done));
    // A transaction that SQLite ended by itself, as it does when the disk is full, is no more.
    if outcome.is_err() && !db.is_autocommit() {
        let _ = Statement::on(db, "ROLLBACK").run();
    }
    outcome
}

/// What became of a work, or what failed and at what.
type Doing = Result<Answer, (Fault, &'static str)>;

fn perform(writing: &Writing<'_>, work: &Work) -> Doing {
    match work {
        Work::Write { fence, changes } => {
            if let Some(fence) = fence {
                lease::check(writing, fence).map_err(|e| (e, "look at the lease"))?;
            }
            for change in changes {
                write::apply(writing, change).map_err(|e| (e, write::doing(change)))?;
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
            let said = Statement::on(writing.db, sql).value();
            said.map(Answer::Said).map_err(|e| (e, "ask the database"))
        }
    }
}

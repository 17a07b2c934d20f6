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

use crate::executor::{control, finish, first, run_all};
use crate::fault::{Done, Fault};
use crate::location::{Access, Location};
use crate::secret_keys::SecretKeys;
use crate::vim_record_cache::VimCache;
use crate::wal::Acknowledged;
use crate::{op_lease, write};
use rusqlite::Connection;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::sync::{oneshot, watch};
use vnfm_core::ports::{Change, ChangeCounters, Claim, Fence, StoreError};
use vnfm_types::{CancelMode, LogLine};

/// What the writing thread shares with its callers.
pub(crate) struct Shared {
    pub(crate) keys: RwLock<Arc<SecretKeys>>,
    pub(crate) location: Location,
    pub(crate) vims: VimCache,
    /// Wakes those who wait for changes of the outbox or of subscriptions.
    pub(crate) change_counters: watch::Sender<ChangeCounters>,
    /// Held during a transaction; see [`Readers`](crate::readers::Readers).
    pub(crate) exclusive: Arc<Mutex<()>>,
}

/// The state of the writing thread. Fields are dropped in order: the last acknowledgement is noted before the connection
/// closes, which may checkpoint the log and remove it.
pub(crate) struct Writer {
    acknowledged: Option<Acknowledged>,
    pub(crate) db: Connection,
    pub(crate) shared: Arc<Shared>,
}

/// The first connection to a database. Fields are dropped in order: if the open fails, what was written is
/// noted before the connection closes.
pub(crate) struct Opened {
    pub(crate) acknowledged: Option<Acknowledged>,
    pub(crate) db: Connection,
}

/// A caller's request, which may share a transaction with others.
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
}

struct Job {
    work: Work,
    reply: oneshot::Sender<Result<Answer, StoreError>>,
}

/// Work that shares no transaction with others: maintenance.
type Task = Box<dyn FnOnce(&mut Writer) + Send>;

enum Message {
    Job(Job),
    Task(Task),
}

/// The queue and the writer thread, which ends when this value is dropped, after its current transaction.
pub(crate) struct Group {
    queue: Option<Sender<Message>>,
    thread: Option<JoinHandle<Done<()>>>,
}

/// Writes that share a transaction, at most.
const MAX_BATCH: usize = 128;
/// How long to wait for further writes; about the time of an fsync on a good disk.
const GATHER_TIMEOUT: Duration = Duration::from_micros(500);

impl Group {
    /// Starts the thread that writes.
    pub(crate) fn start(shared: Arc<Shared>, opened: Opened) -> Done<Self> {
        let (sender, queue) = channel();
        let mut writer = Writer {
            acknowledged: opened.acknowledged,
            db: opened.db,
            shared,
        };
        writer.note();
        let thread = std::thread::Builder::new()
            .name("vnfm-store-writer".into())
            .spawn(move || run(writer, &queue))
            .map_err(|reason| {
                StoreError::Unavailable(format!("cannot start its writer: {reason}"))
            })?;
        Ok(Self {
            queue: Some(sender),
            thread: Some(thread),
        })
    }

    /// Queues `work` and waits for its result; when this returns, the work is durable or was refused.
    pub(crate) async fn execute(&self, work: Work) -> Result<Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.send(Message::Job(Job { work, reply }))?;
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }

    /// Queues a task, which runs alone and begins its own transactions, and waits for its result. `action` is what failed,
    /// for errors. A dropped caller's task is done completely, or not at all if it was still queued.
    pub(crate) async fn task<T: Send + 'static>(
        &self,
        action: &'static str,
        task: impl FnOnce(&mut Writer) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let task: Task = Box::new(move |writer| {
            if reply.is_closed() {
                return;
            }
            let outcome = writer.exclusively(task);
            if let Err(fault) = &outcome {
                writer.repair(fault);
            }
            // The caller may have been dropped.
            let _ = reply.send(outcome.map_err(|fault| fault.with_action(action)));
        });
        self.send(Message::Task(task))?;
        answer.await.unwrap_or_else(|_| Err(stopped()))
    }

    fn send(&self, message: Message) -> Result<(), StoreError> {
        let queue = self.queue.as_ref().ok_or_else(stopped)?;
        queue.send(message).map_err(|_| stopped())
    }

    /// Ends the thread and closes its connection.
    pub(crate) fn stop(&mut self) -> Done<()> {
        self.queue = None;
        match self.thread.take().map(JoinHandle::join) {
            None => Ok(()),
            Some(Ok(closed)) => closed,
            Some(Err(_)) => {
                let reason = "the writer of the database panicked";
                Err(StoreError::Broken(reason.to_owned()).into())
            }
        }
    }
}

fn stopped() -> StoreError {
    StoreError::Unavailable("its writer has stopped; hint: restart this process".into())
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Err(fault) = self.stop() {
            let error = fault.with_action("close the database");
            tracing::error!(%error, "the writer of the database ended with an error");
        }
    }
}

impl Shared {
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
}

impl Writer {
    /// Replaces the keys; nothing is sealed with the previous ones from now on.
    pub(crate) fn set_keys(&self, keys: SecretKeys) {
        *self
            .shared
            .keys
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Notes what is committed, without an fsync.
    fn note(&mut self) {
        if let Some(acknowledged) = &mut self.acknowledged {
            acknowledged.note();
        }
    }

    /// Notes what is committed, with an fsync.
    pub(crate) fn note_durably(&mut self) {
        if let Some(acknowledged) = &mut self.acknowledged {
            acknowledged.note_durably();
        }
    }

    /// Runs `work` while no reader of a database in memory reads, and notes what it committed.
    fn exclusively<T>(&mut self, work: impl FnOnce(&mut Self) -> T) -> T {
        let exclusive = self.shared.exclusive.clone();
        let _turn = exclusive.lock().unwrap_or_else(PoisonError::into_inner);
        let done = work(self);
        self.note();
        done
    }

    /// After an error of the database itself, the next write gets a new connection.
    fn repair(&mut self, fault: &Fault) {
        if fault.is_database_error()
            && self.shared.location.is_file()
            && let Ok(new) = self.shared.location.open(Access::Write)
        {
            self.db = new;
        }
    }
}

fn run(mut writer: Writer, queue: &Receiver<Message>) -> Done<()> {
    let (mut jobs, mut recent_writers, mut next) = (Vec::new(), 1, None);
    while let Some(message) = next.take().or_else(|| queue.recv().ok()) {
        match message {
            Message::Task(task) => task(&mut writer),
            Message::Job(job) => {
                jobs.push(job);
                next = gather(queue, &mut jobs, recent_writers).map(Message::Task);
                recent_writers = count_writers(&jobs).max(recent_writers / 2);
                answer_all(&mut writer, &mut jobs);
            }
        }
    }
    writer.note_durably();
    let Writer { db, .. } = writer;
    db.close().map_err(|(_, error)| error.into())
}

/// Performs the jobs and returns their results to their callers.
fn answer_all(writer: &mut Writer, jobs: &mut Vec<Job>) {
    jobs.retain(|job| !job.reply.is_closed());
    let answers = writer.exclusively(|writer| perform_all(writer, jobs));
    let changes = || jobs.iter().flat_map(|job| job.work.changes());
    writer.shared.announce(changes());
    for (job, answer) in jobs.drain(..).zip(answers) {
        // The caller may have been dropped.
        let _ = job.reply.send(answer);
    }
}

/// Takes all queued jobs; while there are fewer than `recent_writers`, also waits a moment for more. Ends at
/// a task, which it returns.
fn gather(queue: &Receiver<Message>, jobs: &mut Vec<Job>, recent_writers: usize) -> Option<Task> {
    let until = Instant::now() + GATHER_TIMEOUT;
    while jobs.len() < MAX_BATCH {
        let received = if jobs.len() < recent_writers {
            let wait = until.saturating_duration_since(Instant::now());
            queue.recv_timeout(wait).ok()
        } else {
            queue.try_recv().ok()
        };
        match received {
            Some(Message::Job(job)) => jobs.push(job),
            Some(Message::Task(task)) => return Some(task),
            None => break,
        }
    }
    None
}

/// Number of callers that write, at least 1; an operation's log lines come with its other writes.
fn count_writers(jobs: &[Job]) -> usize {
    jobs.iter()
        .filter(|job| !matches!(job.work, Work::Log { .. }))
        .count()
        .max(1)
}

/// Performs all jobs in one transaction, or each in its own if that fails.
fn perform_all(writer: &mut Writer, jobs: &[Job]) -> Vec<Result<Answer, StoreError>> {
    let keys = writer.shared.keys();
    if jobs.len() > 1 {
        match in_one_transaction(&writer.db, &keys, jobs) {
            Ok(answers) => return answers,
            Err(fault) => writer.repair(&fault),
        }
    }
    let mut answers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let answer = in_own_transaction(&writer.db, &keys, &job.work);
        if let Err((fault, _)) = &answer {
            writer.repair(fault);
        }
        answers.push(answer.map_err(|(fault, action)| fault.with_action(action)));
    }
    answers
}

/// Performs all jobs in one transaction, each under a savepoint; fails as a whole if the database itself fails.
fn in_one_transaction(
    db: &Connection,
    keys: &SecretKeys,
    jobs: &[Job],
) -> Done<Vec<Result<Answer, StoreError>>> {
    let each = || {
        let mut answers = Vec::with_capacity(jobs.len());
        for job in jobs {
            control(db, "SAVEPOINT job")?;
            match perform(db, keys, &job.work) {
                Ok(answer) => answers.push(Ok(answer)),
                Err((fault, _)) if fault.is_database_error() => return Err(fault),
                Err((fault, action)) => {
                    control(db, "ROLLBACK TO job")?;
                    answers.push(Err(fault.with_action(action)));
                }
            }
            control(db, "RELEASE job")?;
        }
        Ok(answers)
    };
    control(db, "BEGIN IMMEDIATE")?;
    finish(db, each())
}

fn in_own_transaction(db: &Connection, keys: &SecretKeys, work: &Work) -> Performed {
    if matches!(
        work,
        Work::Claim { .. } | Work::Renew { .. } | Work::Release { .. }
    ) {
        return perform(db, keys, work); // one statement is a transaction
    }
    control(db, "BEGIN IMMEDIATE").map_err(|e| (e, "begin a transaction"))?;
    let (outcome, action) = match perform(db, keys, work) {
        Ok(answer) => (Ok(answer), "commit a transaction"),
        Err((fault, action)) => (Err(fault), action),
    };
    finish(db, outcome).map_err(|fault| (fault, action))
}

/// The result of a job, or the fault and the action that failed.
type Performed = Result<Answer, (Fault, &'static str)>;

/// Performs a job in the current transaction. Secrets are sealed here, so that none is sealed with a key that
/// a rotation has already replaced.
fn perform(db: &Connection, keys: &SecretKeys, work: &Work) -> Performed {
    match work {
        Work::Write { fence, changes } => {
            if let Some(fence) = fence {
                let held = run_all(db, &[op_lease::held(fence)]);
                held.map_err(|e| (e, "check the lease"))?;
            }
            for change in changes {
                let written =
                    write::statements(change, keys).and_then(|statements| run_all(db, &statements));
                written.map_err(|e| (e, write::describe(change)))?;
            }
            Ok(Answer::Written)
        }
        Work::Claim {
            owner,
            lease,
            op_id,
        } => {
            let claimed = first(db, &op_lease::claim(owner, *lease, op_id.as_deref()));
            claimed
                .map(|row| Answer::Claimed(row.map(op_lease::claimed)))
                .map_err(|e| (e, "claim an operation"))
        }
        Work::Renew { fence, lease } => {
            let renewed = first(db, &op_lease::renew(fence, *lease));
            renewed
                .and_then(|row| op_lease::renewed(fence, row))
                .map(Answer::Renewed)
                .map_err(|e| (e, "renew a lease"))
        }
        Work::Release { fence } => run_all(db, &[op_lease::release(fence)])
            .map(|()| Answer::Written)
            .map_err(|e| (e, "release a lease")),
        Work::Log { op_id, lines } => run_all(db, &write::append_log(op_id, lines))
            .map(|()| Answer::Written)
            .map_err(|e| (e, "append to an operation's log")),
    }
}

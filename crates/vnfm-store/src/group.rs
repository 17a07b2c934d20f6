//! Group commit: all writes that wait at a moment share one transaction, and so one fsync.
//!
//! ```text
//! write ─┐ queue     ┌─ BEGIN ─ write ─ claim ─ … ─ COMMIT (fsync) ─ each caller hears of its own
//! claim ─┼──────► writer ── one refused by its condition: all again, each under a SAVEPOINT, so only that one is undone
//! log   ─┘           └─ the database itself failed: nothing of it is there; each goes again, alone
//! ```
//! All statements of one write go to the database in one piece, which takes for granted that their conditions hold
//! ([`crate::write::Batch`]); why one does not is found out statement by statement.
//!
//! The writer is a thread of its own, so a caller that is dropped interrupts nobody: its write is there as a whole,
//! or not at all where it was dropped before its turn. Order is that of the calls. While several callers are about,
//! the writer waits a moment for those that wrote with the last transaction; a single caller never waits for others.

use crate::fault::{Done, Fault};
use crate::keys::SecretKeys;
use crate::known::KnownVims;
use crate::wal::Acknowledged;
use crate::write::{Batch, Writing};
use crate::{lease, sqlite, write};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, query};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::sync::{Mutex, oneshot, watch};
use vnfm_core::ports::{Change, Claim, Fence, News, StoreError};
use vnfm_types::{CancelMode, LogLine};

/// The connection that writes, what seals, and where the file is.
pub(crate) struct Writer {
    pub(crate) connection: Mutex<SqliteConnection>,
    pub(crate) keys: RwLock<Arc<SecretKeys>>,
    pub(crate) path: Option<PathBuf>,
    pub(crate) vims: KnownVims,
    /// Who waits for what is new in the outbox, or among subscriptions.
    pub(crate) news: watch::Sender<News>,
}

/// What one caller wants written.
pub(crate) enum Work {
    Write { fence: Option<Fence>, changes: Vec<Change> },
    Claim { owner: String, lease: Duration, op_id: Option<String> },
    Renew { fence: Fence, lease: Duration },
    Release { fence: Fence },
    Log { op_id: String, lines: Vec<LogLine> },
}

impl Work {
    fn changes(&self) -> &[Change] {
        match self {
            Self::Write { changes, .. } => changes,
            _ => &[],
        }
    }
}

/// What a caller hears.
pub(crate) enum Answer {
    Written,
    Claimed(Option<Claim>),
    Renewed(Option<CancelMode>),
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
    pub(crate) fn start(writer: Arc<Writer>, acknowledged: Option<Acknowledged>) -> Done<Self> {
        let (jobs, queue) = channel();
        let failed = |why: std::io::Error| {
            StoreError::Unavailable(format!("cannot start its writer: {why}"))
        };
        let runtime = tokio::runtime::Builder::new_current_thread().build().map_err(failed)?;
        let thread = std::thread::Builder::new()
            .name("vnfm-store-writer".into())
            .spawn(move || serve(&writer, &queue, &runtime, acknowledged))
            .map_err(failed)?;
        Ok(Self { jobs: Some(jobs), thread: Some(thread) })
    }

    /// Has `work` done; once this returns it is durable, or was refused.
    pub(crate) async fn has(&self, work: Work) -> Result<Answer, StoreError> {
        let (reply, answer) = oneshot::channel();
        let sent = self.jobs.as_ref().is_some_and(|jobs| jobs.send(Job { work, reply }).is_ok());
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

impl Writer {
    /// The keys as they are now. To unseal, ask after the rows were read: keys only come, while the process lives.
    pub(crate) fn keys(&self) -> Arc<SecretKeys> {
        self.keys.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Says what may be new. What was refused is no news, which whoever looks will find.
    fn tell<'a>(&self, changes: impl Iterator<Item = &'a Change>) {
        let (mut outbox, mut subscriptions) = (false, false);
        for change in changes {
            outbox |= matches!(change, Change::Outbox(_));
            subscriptions |=
                matches!(change, Change::AddSubscription(_) | Change::RemoveSubscription { .. });
        }
        if outbox || subscriptions {
            self.news.send_modify(|news| {
                news.outbox += u64::from(outbox);
                news.subscriptions += u64::from(subscriptions);
            });
        }
    }

    /// After an error of the database itself, which may have ended the transaction behind the driver's back, the
    /// next write gets a new connection.
    pub(crate) async fn mend(&self, connection: &mut SqliteConnection, fault: &Fault) {
        if fault.is_of_the_database()
            && let Some(path) = &self.path
            && let Ok(new) = SqliteConnection::connect_with(&sqlite::options().filename(path)).await
        {
            *connection = new;
        }
    }
}

fn serve(
    writer: &Writer,
    queue: &Receiver<Job>,
    runtime: &Runtime,
    mut acknowledged: Option<Acknowledged>,
) {
    let (mut jobs, mut lately) = (Vec::new(), 1);
    while let Ok(job) = queue.recv() {
        jobs.push(job);
        gather(queue, &mut jobs, lately);
        lately = writers(&jobs).max(lately / 2);
        jobs.retain(|job| !job.reply.is_closed());
        let answers = runtime.block_on(async {
            let mut connection = writer.connection.lock().await;
            all(writer, &mut connection, &jobs).await
        });
        if let Some(acknowledged) = &mut acknowledged {
            acknowledged.note();
        }
        writer.vims.heed(jobs.iter().flat_map(|job| job.work.changes()));
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
    jobs.iter().filter(|job| !matches!(job.work, Work::Log { .. })).count().max(1)
}

/// Every job: together, or each alone where that fails.
async fn all(
    writer: &Writer,
    connection: &mut SqliteConnection,
    jobs: &[Job],
) -> Vec<Result<Answer, StoreError>> {
    let keys = writer.keys();
    if jobs.len() > 1 {
        let grouped = match in_one_go(connection, &keys, jobs.iter().map(|job| &job.work)).await {
            Ok(Some(answers)) => Ok(answers.into_iter().map(Ok).collect()),
            Ok(None) => each_undoable(connection, &keys, jobs).await,
            Err(fault) => Err(fault),
        };
        match grouped {
            Ok(answers) => return answers,
            Err(fault) => writer.mend(connection, &fault).await,
        }
    }
    let mut answers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let answer = alone(connection, &keys, &job.work).await;
        if let Err((fault, _)) = &answer {
            writer.mend(connection, fault).await;
        }
        answers.push(answer.map_err(|(fault, doing)| fault.told(doing)));
    }
    answers
}

/// One transaction for all, with a batch of statements for each. `None` where a condition does not hold, or where one
/// has to look before it writes: nothing is there of it then.
async fn in_one_go(
    connection: &mut SqliteConnection,
    keys: &SecretKeys,
    works: impl Iterator<Item = &Work>,
) -> Done<Option<Vec<Answer>>> {
    let mut parts = Vec::new();
    for work in works {
        let batch = if parts.is_empty() { Batch::beginning() } else { Batch::default() };
        let mut writing = Writing::into(batch, connection, keys);
        match written(&mut writing, work).await {
            Ok(()) => parts.push((writing.gathered(), work)),
            Err(_) => return Ok(None),
        }
    }
    let outcome = match run(connection, keys, parts).await {
        Ok(Some(answers)) => match query("COMMIT").execute(&mut *connection).await {
            Ok(_) => return Ok(Some(answers)),
            Err(error) => Err(error.into()),
        },
        outcome => outcome,
    };
    // A constraint is a condition, too. What is of the database itself shows again where it is done one by one.
    let undone = query("ROLLBACK").execute(connection).await;
    match (outcome, undone) {
        (_, Ok(_)) => Ok(None),
        (Err(fault), Err(_)) => Err(fault),
        (Ok(_), Err(error)) => Err(error.into()),
    }
}

/// The batches, and after each what is asked for by a statement of its own.
async fn run(
    connection: &mut SqliteConnection,
    keys: &SecretKeys,
    parts: Vec<(Batch, &Work)>,
) -> Done<Option<Vec<Answer>>> {
    let mut answers = Vec::with_capacity(parts.len());
    for (batch, work) in parts {
        if !batch.is_empty() && !batch.holds(connection).await? {
            return Ok(None);
        }
        answers.push(match work {
            Work::Write { .. } | Work::Log { .. } => Answer::Written,
            _ => perform(connection, keys, work).await.map_err(|(fault, _)| fault)?,
        });
    }
    Ok(Some(answers))
}

/// Puts the statements of a work where `writing` puts them; of those that are one statement with an answer, nothing.
async fn written(writing: &mut Writing<'_>, work: &Work) -> Done<()> {
    match work {
        Work::Write { fence, changes } => {
            if let Some(fence) = fence {
                lease::check(writing, fence).await?;
            }
            for change in changes {
                write::apply(writing, change).await?;
            }
            Ok(())
        }
        Work::Log { op_id, lines } => write::append_log(writing, op_id, lines).await,
        Work::Claim { .. } | Work::Renew { .. } | Work::Release { .. } => Ok(()),
    }
}

/// One transaction for all, from which each can be undone; fails as a whole where the database itself fails.
async fn each_undoable(
    connection: &mut SqliteConnection,
    keys: &SecretKeys,
    jobs: &[Job],
) -> Done<Vec<Result<Answer, StoreError>>> {
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let mut answers = Vec::with_capacity(jobs.len());
    for job in jobs {
        let mut point = tx.begin().await?;
        match perform(&mut point, keys, &job.work).await {
            Ok(answer) => {
                point.commit().await?;
                answers.push(Ok(answer));
            }
            Err((fault, _)) if fault.is_of_the_database() => return Err(fault),
            Err((fault, doing)) => {
                point.rollback().await?;
                answers.push(Err(fault.told(doing)));
            }
        }
    }
    tx.commit().await?;
    Ok(answers)
}

/// One transaction for one.
async fn alone(connection: &mut SqliteConnection, keys: &SecretKeys, work: &Work) -> Doing {
    if matches!(work, Work::Claim { .. } | Work::Renew { .. } | Work::Release { .. }) {
        return perform(connection, keys, work).await; // one statement is a transaction
    }
    let at_once = in_one_go(connection, keys, std::iter::once(work)).await;
    if let Some(answer) =
        at_once.map_err(|e| (e, "commit a transaction"))?.and_then(|mut a| a.pop())
    {
        return Ok(answer);
    }
    let begun = connection.begin_with("BEGIN IMMEDIATE").await;
    let mut tx = begun.map_err(|e| (e.into(), "begin a transaction"))?;
    let answer = perform(&mut tx, keys, work).await?;
    tx.commit().await.map_err(|e| (e.into(), "commit a transaction"))?;
    Ok(answer)
}

/// What became of a work, or what failed and at what.
type Doing = Result<Answer, (Fault, &'static str)>;

async fn perform(connection: &mut SqliteConnection, keys: &SecretKeys, work: &Work) -> Doing {
    match work {
        Work::Write { fence, changes } => {
            let mut writing = Writing::now_and_here(connection, keys);
            if let Some(fence) = fence {
                lease::check(&mut writing, fence).await.map_err(|e| (e, "look at the lease"))?;
            }
            for change in changes {
                write::apply(&mut writing, change).await.map_err(|e| (e, write::doing(change)))?;
            }
            Ok(Answer::Written)
        }
        Work::Claim { owner, lease, op_id } => {
            let claimed = lease::claim(connection, owner, *lease, op_id.as_deref()).await;
            claimed.map(Answer::Claimed).map_err(|e| (e, "claim an operation"))
        }
        Work::Renew { fence, lease } => {
            let renewed = lease::renew(connection, fence, *lease).await;
            renewed.map(Answer::Renewed).map_err(|e| (e, "renew a lease"))
        }
        Work::Release { fence } => {
            let released = lease::release(connection, fence).await;
            released.map(|()| Answer::Written).map_err(|e| (e, "release a lease"))
        }
        Work::Log { op_id, lines } => {
            let mut writing = Writing::now_and_here(connection, keys);
            let written = write::append_log(&mut writing, op_id, lines).await;
            written.map(|()| Answer::Written).map_err(|e| (e, "append to an operation's log"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Work, written};
    use crate::keys::SecretKeys;
    use crate::write::{Batch, Writing};
    use serde_json::{Value, json};
    use sqlx::Connection as _;
    use sqlx::sqlite::SqliteConnection;
    use vnfm_core::ports::{
        Change, Fence, InstanceRecord, JournalRow, OpRecord, OutboxRow, SecretJson, StepStatus, Use,
    };
    use vnfm_types::{LcmOperationState, LogLine};

    const AT: jiff::Timestamp = jiff::Timestamp::UNIX_EPOCH;

    fn op() -> Box<OpRecord> {
        let op = json!({
            "id": "o", "operationState": "STARTING", "stateEnteredTime": AT, "startTime": AT, "vnfInstanceId": "i",
            "operation": "INSTANTIATE", "isAutomaticInvocation": false, "isCancelPending": false,
        });
        Box::new(OpRecord {
            tenant: "t".into(),
            op: serde_json::from_value(op).unwrap(),
            request: SecretJson(json!({"secret": 1})),
            point_of_no_return: None,
            epoch: 0,
        })
    }

    /// What an operation writes at its beginning, at its steps and at its end.
    fn changes() -> Vec<Change> {
        let (tenant, id) = ("t".to_owned(), "i".to_owned());
        let lives_on = Use {
            tenant: tenant.clone(),
            instance_id: id.clone(),
            vim_id: None,
            identity: None,
            namespace: None,
        };
        let step = JournalRow {
            op_id: "o".into(),
            step: "allocate".into(),
            status: StepStatus::Started,
            attempt: 1,
            output: SecretJson::default(),
            started_at: AT,
            ended_at: None,
        };
        let told = OutboxRow {
            seq: 0,
            tenant: tenant.clone(),
            instance_id: id.clone(),
            kind: "k".into(),
            body: Value::Null,
            about: vnfm_core::ports::About::default(),
            at: AT,
        };
        vec![
            Change::AddOp(op()),
            Change::PutInstance(Box::<InstanceRecord>::default()),
            Change::AddUse(lives_on),
            Change::Retire { tenant, instance_id: id.clone(), op_id: "o".into() },
            Change::Journal(Box::new(step)),
            Change::PutOp { record: op(), from: LcmOperationState::Starting },
            Change::RemoveUses { instance_id: id },
            Change::Unretire { op_id: "o".into() },
            Change::Outbox(Box::new(told)),
        ]
    }

    #[tokio::test]
    async fn what_an_operation_writes_goes_to_the_database_in_one_piece() {
        let mut connection = SqliteConnection::connect("sqlite::memory:").await.unwrap();
        let keys = SecretKeys::ephemeral();
        let line = |text: &str| LogLine {
            seq: 0,
            at: AT,
            level: "info".into(),
            source: "s".into(),
            text: text.into(),
        };
        let lines = ["a", "b", "c"].map(line).to_vec();
        let fence = Some(Fence { op_id: "o".into(), epoch: 1 });
        for work in
            [Work::Write { fence, changes: changes() }, Work::Log { op_id: "o".into(), lines }]
        {
            // The database has not even tables: nothing of it is asked for.
            let mut writing = Writing::into(Batch::default(), &mut connection, &keys);
            written(&mut writing, &work).await.unwrap();
            assert!(!writing.gathered().is_empty());
        }
        let many = (0..99).map(|n| line(&n.to_string())).collect();
        let mut writing = Writing::into(Batch::default(), &mut connection, &keys);
        let work = Work::Log { op_id: "o".into(), lines: many };
        assert!(written(&mut writing, &work).await.is_err(), "it is long");
    }
}

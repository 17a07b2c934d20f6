//! Retention of ended operations, notifications and audit entries, and their removal.
//!
//! | kind | removed when older than | never removed |
//! |---|---|---|
//! | operation occurrences, with journal and log | `op_occs` | operations that have not ended; an instance's last one |
//! | journals and checkpoints of ended operations | `journal` | those of operations that have not ended |
//! | logs of ended operations | `logs` | those of operations that have not ended |
//! | notifications | `outbox` | |
//! | audit entries | `audit` | |
//!
//! Age counts from the start of an operation, or from when a notification or entry was written. Rows are removed in small
//! transactions, so that other writes get their turn. The file does not shrink: freed pages are reused, and a backup is
//! compact.

use crate::dialect;
use crate::fault::Done;
use crate::sqlite::SqliteStore;
use crate::write::count;
use jiff::Timestamp;
use sqlx::sqlite::SqliteConnection;
use sqlx::{AssertSqlSafe, Connection as _, query, query_scalar};
use std::time::Duration;
use vnfm_core::ports::StoreError;

const DAY: Duration = Duration::from_hours(24);
/// Operations or notifications per transaction.
const BATCH: i64 = 500;

/// The retention time of each kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Ended operation occurrences. Default one year.
    pub op_occs: Duration,
    /// Journals and checkpoints of ended operations. Default 90 days.
    pub journal: Duration,
    /// Logs of ended operations. Default 30 days.
    pub logs: Duration,
    /// Notifications. Default 30 days.
    pub outbox: Duration,
    /// Audit entries. Default one year.
    pub audit: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let (year, month) = (365 * DAY, 30 * DAY);
        Self {
            op_occs: year,
            journal: 90 * DAY,
            logs: month,
            outbox: month,
            audit: year,
        }
    }
}

/// The number of rows removed, or to be removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Operation occurrences.
    pub op_occs: u64,
    /// Rows of journals and checkpoints.
    pub journal: u64,
    /// Lines of logs.
    pub log_lines: u64,
    /// Notifications.
    pub notifications: u64,
    /// Audit entries.
    pub audit: u64,
}

/// One kind: how to count it, and how to remove what belongs to the operations after `$2` up to `$3`; `$1` is the time
/// before which rows are removed.
struct Kind {
    count: &'static str,
    remove: &'static str,
}

/// Operations that have ended, are old, and are not the last of an existing instance.
macro_rules! old_ops {
    () => {
        "ended = 1 AND started_at < $1 AND (
            NOT EXISTS (SELECT 1 FROM instances AS i WHERE i.id = ops.instance_id)
            OR EXISTS (SELECT 1 FROM ops AS later
                       WHERE later.tenant = ops.tenant AND later.instance_id = ops.instance_id
                         AND (later.started_at > ops.started_at
                              OR (later.started_at = ops.started_at AND later.id > ops.id))))"
    };
}

/// A kind of rows that belong to operations.
macro_rules! of_ended_ops {
    ($table:literal) => {
        Kind {
            count: concat!(
                "SELECT COUNT(*) FROM ",
                $table,
                " WHERE op_id IN (SELECT id FROM ops WHERE ended = 1 AND started_at < $1)"
            ),
            remove: concat!(
                "DELETE FROM ",
                $table,
                " WHERE op_id IN (
                    SELECT id FROM ops WHERE id > $2 AND id <= $3 AND ended = 1 AND started_at < $1)"
            ),
        }
    };
}

const JOURNAL: Kind = of_ended_ops!("journal");
const CHECKPOINTS: Kind = of_ended_ops!("checkpoints");
const LOG: Kind = of_ended_ops!("log");
const OPS: Kind = Kind {
    count: concat!("SELECT COUNT(*) FROM ops WHERE ", old_ops!()),
    remove: concat!(
        "DELETE FROM ops WHERE id > $2 AND id <= $3 AND ",
        old_ops!()
    ),
};

/// The times before which rows are removed.
struct Before {
    op_occs: String,
    journal: String,
    logs: String,
    outbox: String,
    audit: String,
}

impl SqliteStore {
    /// Removes what is older at `now` than `retention` keeps; with `dry_run` only counts it.
    ///
    /// # Errors
    ///
    /// If the database fails; rows removed until then stay removed.
    pub async fn prune(
        &self,
        retention: &Retention,
        now: Timestamp,
        dry_run: bool,
    ) -> Result<Pruned, StoreError> {
        let before = Before {
            op_occs: before(now, retention.op_occs),
            journal: before(now, retention.journal.min(retention.op_occs)),
            logs: before(now, retention.logs.min(retention.op_occs)),
            outbox: before(now, retention.outbox),
            audit: before(now, retention.audit),
        };
        if dry_run {
            let counted = counted(&mut *self.reader().await, &before).await;
            return counted.map_err(|e| e.with_action("count rows past their retention time"));
        }
        let mut pruned = Pruned::default();
        let mut after = Some(String::new());
        while let Some(from) = after {
            let mut connection = self.writer().await;
            let outcome = remove_ops(&mut connection, &before, &from, &mut pruned).await;
            after = self.ended(&mut connection, outcome, ACTION).await?;
        }
        loop {
            let mut connection = self.writer().await;
            let outcome = remove_notifications(&mut connection, &before.outbox).await;
            match self.ended(&mut connection, outcome, ACTION).await? {
                0 => break,
                some => pruned.notifications += some,
            }
        }
        loop {
            let mut connection = self.writer().await;
            let outcome = remove_audit(&mut connection, &before.audit).await;
            match self.ended(&mut connection, outcome, ACTION).await? {
                0 => break,
                some => pruned.audit += some,
            }
        }
        let mut connection = self.writer().await;
        let outcome = measure_audit(&mut connection).await;
        self.ended(&mut connection, outcome, ACTION).await?;
        Ok(pruned)
    }
}

const ACTION: &str = "remove rows past their retention time";

async fn counted(connection: &mut SqliteConnection, before: &Before) -> Done<Pruned> {
    let mut found = [0; 6];
    let outbox = "SELECT COUNT(*) FROM outbox WHERE at < $1";
    let audit = format!("SELECT COUNT(*) FROM audit WHERE {} < $1", entry_at());
    let kinds = [
        (LOG.count, &before.logs),
        (CHECKPOINTS.count, &before.journal),
        (JOURNAL.count, &before.journal),
        (OPS.count, &before.op_occs),
        (outbox, &before.outbox),
        (&audit, &before.audit),
    ];
    for (place, (sql, before)) in found.iter_mut().zip(kinds) {
        let rows: i64 = query_scalar(AssertSqlSafe(sql))
            .bind(before)
            .fetch_one(&mut *connection)
            .await?;
        *place = count(rows);
    }
    let [
        log_lines,
        checkpoints,
        journal,
        op_occs,
        notifications,
        audit,
    ] = found;
    Ok(Pruned {
        op_occs,
        journal: checkpoints + journal,
        log_lines,
        notifications,
        audit,
    })
}

/// Removes rows of the next operations after `from`, in order of id. Returns the id to continue from, if any.
async fn remove_ops(
    connection: &mut SqliteConnection,
    before: &Before,
    from: &str,
    pruned: &mut Pruned,
) -> Done<Option<String>> {
    const NEXT: &str = "
        SELECT MAX(id) FROM (SELECT id FROM ops WHERE id > $1 ORDER BY id LIMIT $2) AS batch";
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    let until: Option<String> = query_scalar(NEXT)
        .bind(from)
        .bind(BATCH)
        .fetch_one(&mut *tx)
        .await?;
    let Some(until) = until else { return Ok(None) };
    let range = |before| [before, from, until.as_str()];
    pruned.log_lines += remove(&mut tx, &LOG, range(&before.logs)).await?;
    pruned.journal += remove(&mut tx, &CHECKPOINTS, range(&before.journal)).await?;
    pruned.journal += remove(&mut tx, &JOURNAL, range(&before.journal)).await?;
    pruned.op_occs += remove(&mut tx, &OPS, range(&before.op_occs)).await?;
    tx.commit().await?;
    Ok(Some(until))
}

async fn remove(connection: &mut SqliteConnection, kind: &Kind, at: [&str; 3]) -> Done<u64> {
    let removed = query(kind.remove)
        .bind(at[0])
        .bind(at[1])
        .bind(at[2])
        .execute(connection);
    Ok(removed.await?.rows_affected())
}

/// Removes the oldest notifications; the counter keeps the highest number ever assigned.
async fn remove_notifications(connection: &mut SqliteConnection, before: &str) -> Done<u64> {
    const REMEMBER: &str = "
        UPDATE counters SET value = (SELECT MAX(seq) FROM outbox)
        WHERE name = 'outbox' AND value < (SELECT MAX(seq) FROM outbox)";
    const REMOVE: &str = "
        DELETE FROM outbox WHERE at < $1 AND seq < (SELECT MIN(seq) FROM outbox) + $2";
    let mut tx = connection.begin_with("BEGIN IMMEDIATE").await?;
    query(REMEMBER).execute(&mut *tx).await?;
    let pruned = query(REMOVE)
        .bind(before)
        .bind(BATCH)
        .execute(&mut *tx)
        .await?
        .rows_affected();
    if pruned > 0 {
        tx.commit().await?;
    }
    Ok(pruned)
}

/// Removes the oldest entries; their numbering continues in `counters`.
async fn remove_audit(connection: &mut SqliteConnection, before: &str) -> Done<u64> {
    let sql = format!(
        "DELETE FROM audit WHERE seq < (SELECT MIN(seq) FROM audit) + $2 AND {} < $1",
        entry_at()
    );
    let removed = query(AssertSqlSafe(sql))
        .bind(before)
        .bind(BATCH)
        .execute(connection);
    Ok(removed.await?.rows_affected())
}

/// Recounts the size of each tenant's audit.
async fn measure_audit(connection: &mut SqliteConnection) -> Done<()> {
    const MEASURE: &str = "
        UPDATE audit_sizes SET bytes =
            COALESCE((SELECT SUM(LENGTH(entry)) FROM audit WHERE audit.tenant = audit_sizes.tenant), 0)";
    query(MEASURE).execute(connection).await?;
    Ok(())
}

/// The SQL for an audit entry's time.
fn entry_at() -> String {
    dialect::extract("entry", &dialect::member(dialect::ROOT, "at"))
}

/// The time before which rows are removed; the minimum time, and so none, if it cannot be represented.
fn before(now: Timestamp, retained: Duration) -> String {
    now.checked_sub(retained)
        .map_or_else(|_| String::new(), |at| at.to_string())
}

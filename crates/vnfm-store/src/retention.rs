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
//! Age counts from the start of an operation, or from when a notification or entry was written. Rows are removed
//! in small transactions, so that other writes get their turn. The file does not shrink: freed pages are reused,
//! and a backup is compact.

use crate::database::Database;
use crate::dialect;
use crate::executor::{execute, one, transaction};
use crate::fault::Done;
use crate::statement::Query;
use jiff::Timestamp;
use rusqlite::Connection;
use std::time::Duration;
use vnfm_core::ports::{Pruned, Retention, StoreError};

/// Operations or notifications per transaction.
const BATCH: i64 = 500;

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
#[derive(Clone)]
struct Before {
    op_occs: String,
    journal: String,
    logs: String,
    outbox: String,
    audit: String,
}

/// Removes what is older at `now` than `retention` keeps; with `dry_run` only counts it.
///
/// # Errors
///
/// If the database fails; rows removed until then stay removed.
pub(crate) async fn prune(
    database: &Database,
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
        let action = "count rows past their retention time";
        return database.read(action, move |db| counted(db, &before)).await;
    }
    let mut pruned = remove_ops(database, &before).await?;
    pruned.notifications = remove_all(database, &before.outbox, remove_notifications).await?;
    pruned.audit = remove_all(database, &before.audit, remove_audit).await?;
    database
        .task(ACTION, |writer| measure_audit(&writer.db))
        .await?;
    Ok(pruned)
}

const ACTION: &str = "remove rows past their retention time";

/// Repeats `batch`, which removes rows of before a time, until nothing is left. Returns the number of removed rows.
async fn remove_all(
    database: &Database,
    before: &str,
    batch: fn(&Connection, &str) -> Done<u64>,
) -> Result<u64, StoreError> {
    let mut removed = 0;
    loop {
        let before = before.to_owned();
        let task = database.task(ACTION, move |writer| batch(&writer.db, &before));
        match task.await? {
            0 => return Ok(removed),
            some => removed += some,
        }
    }
}

fn counted(db: &Connection, before: &Before) -> Done<Pruned> {
    let rows = |sql: &'static str, before: &str| count(db, &Query::new(sql).bind(before));
    let outbox = "SELECT COUNT(*) FROM outbox WHERE at < $1";
    let audit = format!("SELECT COUNT(*) FROM audit WHERE {} < $1", entry_at());
    Ok(Pruned {
        op_occs: rows(OPS.count, &before.op_occs)?,
        journal: rows(CHECKPOINTS.count, &before.journal)? + rows(JOURNAL.count, &before.journal)?,
        log_lines: rows(LOG.count, &before.logs)?,
        notifications: rows(outbox, &before.outbox)?,
        audit: count(db, &Query::new(audit).bind(&before.audit))?,
    })
}

fn count(db: &Connection, query: &Query) -> Done<u64> {
    let rows: i64 = one(db, query)?;
    Ok(u64::try_from(rows).unwrap_or_default())
}

/// Removes what belongs to old operations, one batch of operations after the other, in order of id.
async fn remove_ops(database: &Database, before: &Before) -> Result<Pruned, StoreError> {
    let mut pruned = Pruned::default();
    let mut from = String::new();
    loop {
        let before = before.clone();
        let batch = database.task(ACTION, move |writer| {
            remove_ops_after(&writer.db, &before, &from)
        });
        let Some((until, removed)) = batch.await? else {
            return Ok(pruned);
        };
        from = until;
        pruned.log_lines += removed.log_lines;
        pruned.journal += removed.journal;
        pruned.op_occs += removed.op_occs;
    }
}

/// Removes rows of the next operations after `from`. Returns the last of them; `None` if there are no more.
fn remove_ops_after(
    db: &Connection,
    before: &Before,
    from: &str,
) -> Done<Option<(String, Pruned)>> {
    const NEXT: &str = "
        SELECT MAX(id) FROM (SELECT id FROM ops WHERE id > $1 ORDER BY id LIMIT $2) AS batch";
    transaction(db, |db| {
        let until: Option<String> = one(db, &Query::new(NEXT).bind(from).bind(BATCH))?;
        let Some(until) = until else { return Ok(None) };
        let remove = |kind: &Kind, before: &str| {
            let remove = Query::new(kind.remove).bind(before).bind(from);
            execute(db, &remove.bind(&until))
        };
        let removed = Pruned {
            log_lines: remove(&LOG, &before.logs)?,
            journal: remove(&CHECKPOINTS, &before.journal)? + remove(&JOURNAL, &before.journal)?,
            op_occs: remove(&OPS, &before.op_occs)?,
            ..Pruned::default()
        };
        Ok(Some((until, removed)))
    })
}

/// Removes the oldest notifications; the counter keeps the highest number ever assigned.
fn remove_notifications(db: &Connection, before: &str) -> Done<u64> {
    const REMEMBER: &str = "
        UPDATE counters SET value = (SELECT MAX(seq) FROM outbox)
        WHERE name = 'outbox' AND value < (SELECT MAX(seq) FROM outbox)";
    const REMOVE: &str = "
        DELETE FROM outbox WHERE at < $1 AND seq < (SELECT MIN(seq) FROM outbox) + $2";
    transaction(db, |db| {
        execute(db, &Query::new(REMEMBER))?;
        execute(db, &Query::new(REMOVE).bind(before).bind(BATCH))
    })
}

/// Removes the oldest entries; their numbering continues in `counters`.
fn remove_audit(db: &Connection, before: &str) -> Done<u64> {
    let sql = format!(
        "DELETE FROM audit WHERE seq < (SELECT MIN(seq) FROM audit) + $2 AND {} < $1",
        entry_at()
    );
    execute(db, &Query::new(sql).bind(before).bind(BATCH))
}

/// Recounts the size of each tenant's audit.
fn measure_audit(db: &Connection) -> Done<()> {
    const MEASURE: &str = "
        UPDATE audit_sizes SET bytes =
            COALESCE((SELECT SUM(LENGTH(entry)) FROM audit WHERE audit.tenant = audit_sizes.tenant), 0)";
    execute(db, &Query::new(MEASURE)).map(drop)
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

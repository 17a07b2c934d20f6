//! Numbered rows: operation logs, the outbox of notifications, the audit log.

use super::list::limit;
use crate::fault::Done;
use crate::statement::{Query, Row};
use vnfm_core::ports::OutboxRow;
use vnfm_types::{AuditEntry, LogLine};

/// Lines of an operation's log after number `after`, in order.
pub(crate) fn log(op_id: &str, after: u64) -> Query {
    const LINES: &str = "
        SELECT seq, at, level, source, text FROM log WHERE op_id = $1 AND seq > $2 ORDER BY seq";
    Query::new(LINES).bind(op_id).bind(after)
}

/// Converts a row of [`log`] to a line.
pub(crate) fn log_line(mut row: Row) -> Done<LogLine> {
    Ok(LogLine {
        seq: row.count()?,
        at: row.time()?,
        level: row.take()?,
        source: row.take()?,
        text: row.take()?,
    })
}

/// Notifications after number `after`, in order.
pub(crate) fn outbox(after: u64, max: usize) -> Query {
    const ROWS: &str = "
        SELECT seq, tenant, instance_id, kind, body, at, about FROM outbox WHERE seq > $1 ORDER BY seq LIMIT $2";
    Query::new(ROWS).bind(after).bind(at_most(max))
}

/// Notifications of a tenant after its number `after`, in order, with the tenant's numbering.
pub(crate) fn events(tenant: &str, after: u64, max: usize) -> Query {
    const ROWS: &str = "
        SELECT number AS seq, tenant, instance_id, kind, body, at, about FROM outbox
        WHERE tenant = $1 AND number > $2 ORDER BY number LIMIT $3";
    Query::new(ROWS).bind(tenant).bind(after).bind(at_most(max))
}

fn at_most(max: usize) -> i64 {
    i64::try_from(max).unwrap_or(i64::MAX)
}

/// A row of [`outbox`] or [`events`].
pub(crate) fn outbox_row(mut row: Row) -> Done<OutboxRow> {
    let (seq, tenant) = (row.count()?, row.take()?);
    let (instance_id, kind) = (row.take()?, row.take()?);
    let (body, at) = (row.json()?, row.time()?);
    Ok(OutboxRow {
        seq,
        tenant,
        instance_id,
        kind,
        body,
        at,
        about: row.json()?,
    })
}

/// Entries of the audit after number `after`, in order.
pub(crate) fn audit(tenant: &str, after: u64, max: usize) -> Query {
    const ROWS: &str =
        "SELECT seq, entry FROM audit WHERE tenant = $1 AND seq > $2 ORDER BY seq LIMIT $3";
    Query::new(ROWS).bind(tenant).bind(after).bind(limit(max))
}

/// Converts a row of [`audit`] to an entry.
pub(crate) fn audit_entry(mut row: Row) -> Done<AuditEntry> {
    let seq = row.count()?;
    let entry: AuditEntry = row.json()?;
    Ok(AuditEntry { seq, ..entry })
}

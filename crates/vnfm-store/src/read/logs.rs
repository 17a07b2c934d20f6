//! Numbered rows: operation logs, the outbox of notifications, the audit log.

use super::{limit, time};
use crate::fault::Done;
use crate::write::{count, number};
use sqlx::sqlite::{SqliteConnection, SqliteRow};
use sqlx::{Row as _, query};
use vnfm_core::ports::OutboxRow;
use vnfm_types::{AuditEntry, LogLine};

/// Lines of an operation's log after number `after`, in order.
pub(crate) async fn log(
    connection: &mut SqliteConnection,
    op_id: &str,
    after: u64,
) -> Done<Vec<LogLine>> {
    const LINES: &str = "
        SELECT seq, at, level, source, text FROM log WHERE op_id = $1 AND seq > $2 ORDER BY seq";
    let rows = query(LINES)
        .bind(op_id)
        .bind(number(after))
        .fetch_all(connection)
        .await?;
    rows.iter()
        .map(|row| {
            Ok(LogLine {
                seq: count(row.try_get("seq")?),
                at: time(row.try_get("at")?)?,
                level: row.try_get("level")?,
                source: row.try_get("source")?,
                text: row.try_get("text")?,
            })
        })
        .collect()
}

/// Notifications after number `after`, in order.
pub(crate) async fn outbox(
    connection: &mut SqliteConnection,
    after: u64,
    max: usize,
) -> Done<Vec<OutboxRow>> {
    const ROWS: &str = "
        SELECT seq, tenant, instance_id, kind, body, at, about FROM outbox WHERE seq > $1 ORDER BY seq LIMIT $2";
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let rows = query(ROWS)
        .bind(number(after))
        .bind(max)
        .fetch_all(connection)
        .await?;
    rows.iter().map(outbox_row).collect()
}

/// Notifications of a tenant after its number `after`, in order, with the tenant's numbering.
pub(crate) async fn events(
    connection: &mut SqliteConnection,
    tenant: &str,
    after: u64,
    max: usize,
) -> Done<Vec<OutboxRow>> {
    const ROWS: &str = "
        SELECT number AS seq, tenant, instance_id, kind, body, at, about FROM outbox
        WHERE tenant = $1 AND number > $2 ORDER BY number LIMIT $3";
    let max = i64::try_from(max).unwrap_or(i64::MAX);
    let rows = query(ROWS).bind(tenant).bind(number(after)).bind(max);
    rows.fetch_all(connection)
        .await?
        .iter()
        .map(outbox_row)
        .collect()
}

fn outbox_row(row: &SqliteRow) -> Done<OutboxRow> {
    Ok(OutboxRow {
        seq: count(row.try_get("seq")?),
        tenant: row.try_get("tenant")?,
        instance_id: row.try_get("instance_id")?,
        kind: row.try_get("kind")?,
        body: serde_json::from_str(row.try_get("body")?)?,
        about: serde_json::from_str(row.try_get("about")?)?,
        at: time(row.try_get("at")?)?,
    })
}

/// Entries of the audit after number `after`, in order.
pub(crate) async fn audit(
    connection: &mut SqliteConnection,
    tenant: &str,
    after: u64,
    max: usize,
) -> Done<Vec<AuditEntry>> {
    const ROWS: &str =
        "SELECT seq, entry FROM audit WHERE tenant = $1 AND seq > $2 ORDER BY seq LIMIT $3";
    let rows = query(ROWS)
        .bind(tenant)
        .bind(number(after))
        .bind(limit(max));
    let rows = rows.fetch_all(connection).await?;
    rows.iter()
        .map(|row| {
            let entry: AuditEntry = serde_json::from_str(row.try_get("entry")?)?;
            Ok(AuditEntry {
                seq: count(row.try_get("seq")?),
                ..entry
            })
        })
        .collect()
}

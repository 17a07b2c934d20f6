//! VNF snapshots. Which operation uses one is computed here: one that has ended does not count.

use super::list::list;
use crate::fault::Done;
use crate::filter::SNAPSHOTS;
use crate::secret_keys::SecretKeys;
use crate::statement::{Query as Sql, Row};
use crate::visibility::List;
use jiff::Timestamp;
use std::sync::Arc;
use vnfm_core::ports::SnapshotRecord;
use vnfm_core::query::Query;

/// One snapshot of the tenant, by id.
pub(crate) fn snapshot(tenant: &str, id: &str) -> Sql {
    const ONE: &str = "
        SELECT tenant, version, info, deployment, handle,
            (SELECT ops.id FROM ops WHERE ops.id = used_by AND ended = 0), deleting, sight, changed_ms
        FROM snapshots WHERE tenant = $1 AND id = $2";
    Sql::new(ONE).bind(tenant).bind(id)
}

/// Snapshots in order of id, without their sealed columns.
pub(crate) fn snapshots(tenant: &str, query: &Query) -> Done<Sql> {
    list((&SNAPSHOTS, List::Snapshots), tenant, query, |condition| {
        format!(
            "SELECT tenant, version, info, NULL AS deployment, handle,
                (SELECT ops.id FROM ops WHERE ops.id = used_by AND ended = 0), deleting, sight, changed_ms
            FROM snapshots WHERE tenant = $1 AND id > $2{condition} ORDER BY id LIMIT $3"
        )
    })
}

/// A row of [`snapshot`] or [`snapshots`].
pub(crate) fn snapshot_record(mut row: Row, keys: &SecretKeys) -> Done<SnapshotRecord> {
    Ok(SnapshotRecord {
        tenant: row.take()?,
        version: row.count()?,
        info: row.json()?,
        deployment: keys
            .unseal_some(row.take::<Option<String>>()?.as_deref())?
            .map(Arc::new),
        handle: row.json()?,
        used_by: row.take()?,
        deleting: row.take()?,
        scope: row.some_json()?.unwrap_or_default(),
        changed_at: row
            .take::<Option<i64>>()?
            .and_then(|at| Timestamp::from_millisecond(at).ok()),
    })
}

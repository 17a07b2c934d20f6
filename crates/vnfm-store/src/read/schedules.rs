//! Schedules of instances.

use crate::fault::Done;
use crate::secret_keys::SecretKeys;
use crate::statement::{Query as Sql, Row};
use jiff::Timestamp;
use vnfm_core::ports::ScheduleRecord;

/// The schedule of an instance of the tenant.
pub(crate) fn schedule(tenant: &str, instance_id: &str) -> Sql {
    const ONE: &str = "
        SELECT instance_id, tenant, version, running, info, request FROM schedules
        WHERE instance_id = $1 AND tenant = $2";
    Sql::new(ONE).bind(instance_id).bind(tenant)
}

/// The schedules that are due, or whose last operation is not known to have ended.
pub(crate) fn due_schedules(now: Timestamp, limit: usize) -> Sql {
    const DUE: &str = "
        SELECT instance_id, tenant, version, running, info, request FROM schedules
        WHERE next_ms <= $1 OR running = 1 ORDER BY next_ms LIMIT $2";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    Sql::new(DUE).bind(now.as_millisecond()).bind(limit)
}

/// A row of [`schedule`] or [`due_schedules`].
pub(crate) fn schedule_record(mut row: Row, keys: &SecretKeys) -> Done<ScheduleRecord> {
    Ok(ScheduleRecord {
        instance_id: row.take()?,
        tenant: row.take()?,
        version: row.count()?,
        running: row.take()?,
        schedule: row.json()?,
        request: keys.unseal(row.take::<Option<String>>()?.as_deref())?,
    })
}

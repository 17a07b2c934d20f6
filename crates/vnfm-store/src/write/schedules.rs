//! Schedules of instances. Of several processes that take a turn one succeeds: each writes with the version that it has read.

use crate::fault::Done;
use crate::refusals::{absent, if_found};
use crate::secret_keys::SecretKeys;
use crate::statement::{Query, Refusal, Statement};
use vnfm_core::ports::{ScheduleRecord, StoreError};

const KIND: &str = "schedule of VNF instance";

/// Sets the schedule of an existing instance.
pub(super) fn set(record: &ScheduleRecord, keys: &SecretKeys) -> Done<Vec<Statement>> {
    const SET: &str = "
        INSERT INTO schedules (instance_id, tenant, version, next_ms, running, info, request)
        SELECT id, tenant, 0, $3, $4, $5, $6 FROM instances WHERE id = $1 AND tenant = $2
        ON CONFLICT (instance_id) DO UPDATE SET version = schedules.version + 1, next_ms = excluded.next_ms,
            running = excluded.running, info = excluded.info, request = excluded.request";
    let set = with_columns(Statement::new(SET), record, keys)?;
    Ok(vec![set.or(absent("VNF instance", &record.instance_id))])
}

/// Replaces a schedule whose version is still the one that was read.
pub(super) fn put(record: &ScheduleRecord, keys: &SecretKeys) -> Done<Vec<Statement>> {
    const PUT: &str = "
        UPDATE schedules SET version = version + 1, next_ms = $3, running = $4, info = $5, request = $6
        WHERE instance_id = $1 AND tenant = $2 AND version = $7";
    let (tenant, id) = (&record.tenant, &record.instance_id);
    let known = Query::new("SELECT 1 FROM schedules WHERE instance_id = $1 AND tenant = $2")
        .bind(id)
        .bind(tenant);
    let changed = StoreError::Changed {
        what: KIND,
        id: id.clone(),
    };
    let put = with_columns(Statement::new(PUT), record, keys)?.bind(record.version);
    let refusal = Refusal::from(absent(KIND, id)).unless(if_found(known, changed));
    Ok(vec![put.or(refusal)])
}

/// Binds the columns as `$1` to `$6`.
fn with_columns(
    statement: Statement,
    record: &ScheduleRecord,
    keys: &SecretKeys,
) -> Done<Statement> {
    Ok(statement
        .bind(&record.instance_id)
        .bind(&record.tenant)
        .bind(record.schedule.next_at.as_millisecond())
        .bind(record.running)
        .bind(serde_json::to_string(&record.schedule)?)
        .bind(keys.seal(&record.request)?))
}

/// Removes the schedule of an instance.
pub(super) fn remove(tenant: &str, instance_id: &str) -> Vec<Statement> {
    const REMOVE: &str = "DELETE FROM schedules WHERE instance_id = $1 AND tenant = $2";
    let remove = Statement::new(REMOVE).bind(instance_id).bind(tenant);
    vec![remove.or(absent(KIND, instance_id))]
}

//! Operation occurrences, their journals and checkpoints.

use super::instances::{busy, current_state};
use super::vims::lived;
use super::{Writing, absent};
use crate::fault::Done;
use vnfm_core::ports::{JournalRow, OpRecord, SecretJson, StepStatus, StoreError};
use vnfm_types::{CancelMode, LcmOperationState};

const KIND: &str = "operation";

/// Adds an operation, which becomes its instance's active one.
pub(super) fn add(writing: &Writing<'_>, record: &OpRecord) -> Done<()> {
    const TAKE: &str = "
        UPDATE instances SET active_op = $3, changed_ms = (SELECT now_ms FROM clock)
        WHERE tenant = $1 AND id = $2 AND active_op IS NULL";
    const ADD: &str = "
        INSERT INTO ops (id, tenant, instance_id, operation, state, driven, ended, op, request, point_of_no_return,
            epoch, lease_until, started_at, before, target, control)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, 0, $11, $12, $13, $14)
        ON CONFLICT (id) DO NOTHING";
    let op = &record.op;
    let take = writing
        .statement(TAKE)
        .bind(&record.tenant)
        .bind(&op.vnf_instance_id)
        .bind(&op.id);
    if !take.changed()? {
        let (_, other) = current_state(writing, &record.tenant, &op.vnf_instance_id)?;
        return Err(busy(&op.vnf_instance_id, other.unwrap_or_default()).into());
    }
    let state = op.operation_state;
    let keys = writing.keys;
    let added = writing
        .statement(ADD)
        .bind(&op.id)
        .bind(&record.tenant)
        .bind(&op.vnf_instance_id)
        .bind(op.operation.as_str())
        .bind(state.as_str())
        .bind(i64::from(state.is_driven()))
        .bind(i64::from(state.is_final()))
        .bind(serde_json::to_string(op)?)
        .bind(keys.seal(&record.request)?)
        .bind(&record.point_of_no_return)
        .bind(op.start_time.to_string())
        .bind(keys.seal_some(record.before.as_deref())?)
        .bind(keys.seal_some(record.target.as_deref())?)
        .bind(serde_json::to_string(&record.control)?)
        .changed()?;
    if !added {
        return Err(StoreError::Exists {
            what: KIND,
            id: op.id.clone(),
        }
        .into());
    }
    Ok(())
}

/// Updates an operation if its state is still `from`. In a state that is not driven, its lease and cancel request end; in
/// a final state, its instance becomes free and it records the VIMs that the instance uses.
pub(super) fn put(writing: &Writing<'_>, record: &OpRecord, from: LcmOperationState) -> Done<()> {
    const PUT: &str = "
        UPDATE ops SET state = $4, driven = $5, ended = $6, op = $7, request = $8, point_of_no_return = $9, target = $10,
            owner = CASE WHEN $5 = 1 THEN owner END,
            lease_until = CASE WHEN $5 = 1 THEN lease_until ELSE 0 END,
            cancel = CASE WHEN $5 = 1 THEN cancel END
        WHERE id = $1 AND tenant = $2 AND state = $3";
    const FREE: &str = "
        UPDATE instances SET active_op = NULL, changed_ms = (SELECT now_ms FROM clock)
        WHERE id = $1 AND active_op = $2";
    let op = &record.op;
    let state = op.operation_state;
    let keys = writing.keys;
    let written = writing
        .statement(PUT)
        .bind(&op.id)
        .bind(&record.tenant)
        .bind(from.as_str())
        .bind(state.as_str())
        .bind(i64::from(state.is_driven()))
        .bind(i64::from(state.is_final()))
        .bind(serde_json::to_string(op)?)
        .bind(keys.seal(&record.request)?)
        .bind(&record.point_of_no_return)
        .bind(keys.seal_some(record.target.as_deref())?)
        .changed()?;
    if !written {
        return Err(unmet_condition(writing, &op.id, Some(&record.tenant))?.into());
    }
    if state.is_final() {
        lived(writing, &op.vnf_instance_id)?;
        writing
            .statement(FREE)
            .bind(&op.vnf_instance_id)
            .bind(&op.id)
            .run()?;
    }
    Ok(())
}

/// Requests a cancellation; a graceful one does not replace a forceful one.
pub(super) fn cancel(writing: &Writing<'_>, op_id: &str, mode: CancelMode) -> Done<()> {
    const CANCEL: &str = "
        UPDATE ops SET cancel = CASE WHEN cancel = 'FORCEFUL' THEN cancel ELSE $2 END
        WHERE id = $1 AND driven = 1";
    let mode = match mode {
        CancelMode::Graceful => "GRACEFUL",
        CancelMode::Forceful => "FORCEFUL",
    };
    if !writing.statement(CANCEL).bind(op_id).bind(mode).changed()? {
        return Err(unmet_condition(writing, op_id, None)?.into());
    }
    Ok(())
}

/// Writes a step's row; a row keeps its position in the order of first writes.
pub(super) fn journal(writing: &Writing<'_>, row: &JournalRow) -> Done<()> {
    const JOURNAL: &str = "
        INSERT INTO journal (op_id, step, seq, status, attempt, output, started_at, ended_at, lives, killed, hook)
        SELECT id, $2, COALESCE((SELECT MAX(seq) FROM journal WHERE op_id = $1), 0) + 1, $3, $4, $5, $6, $7, $8, $9, $10
        FROM ops WHERE id = $1
        ON CONFLICT (op_id, step) DO UPDATE SET status = excluded.status, attempt = excluded.attempt,
            output = excluded.output, started_at = excluded.started_at, ended_at = excluded.ended_at,
            lives = excluded.lives, killed = excluded.killed, hook = excluded.hook";
    let keys = writing.keys;
    let written = writing
        .statement(JOURNAL)
        .bind(&row.op_id)
        .bind(&row.step)
        .bind(status_text(row.status))
        .bind(i64::from(row.attempt))
        .bind(keys.seal(&row.output)?)
        .bind(row.started_at.to_string())
        .bind(row.ended_at.map(|at| at.to_string()))
        .bind(serde_json::to_string(&row.lives)?)
        .bind(i64::from(row.lives.killed))
        .bind(row.hook.as_ref().map(serde_json::to_string).transpose()?)
        .changed()?;
    if !written {
        return Err(absent(KIND, &row.op_id).into());
    }
    Ok(())
}

/// Records that a process released an operation, or all of them, in an orderly shutdown; removes records older than 30
/// days.
pub(super) fn left_in_order(writing: &Writing<'_>, process: &str, op_id: &str) -> Done<()> {
    const LEFT: &str = "
        INSERT INTO left_in_order (process, op_id, at_ms) SELECT $1, $2, now_ms FROM clock WHERE 1 = 1
        ON CONFLICT (process, op_id) DO UPDATE SET at_ms = excluded.at_ms";
    const FORGET: &str =
        "DELETE FROM left_in_order WHERE at_ms < (SELECT now_ms FROM clock) - 2592000000";
    writing.statement(LEFT).bind(process).bind(op_id).run()?;
    writing.statement(FORGET).run()
}

/// Writes a hook's checkpoint for an operation, step and key.
pub(super) fn checkpoint(
    writing: &Writing<'_>,
    [op_id, step, key]: [&str; 3],
    value: &SecretJson,
) -> Done<()> {
    const CHECKPOINT: &str = "
        INSERT INTO checkpoints (op_id, step, key, value) SELECT id, $2, $3, $4 FROM ops WHERE id = $1
        ON CONFLICT (op_id, step, key) DO UPDATE SET value = excluded.value";
    let keys = writing.keys;
    let written = writing
        .statement(CHECKPOINT)
        .bind(op_id)
        .bind(step)
        .bind(key)
        .bind(keys.seal(value)?)
        .changed()?;
    if !written {
        return Err(absent(KIND, op_id).into());
    }
    Ok(())
}

/// Removes the checkpoints of a step's hook.
pub(super) fn forget_checkpoints(writing: &Writing<'_>, op_id: &str, step: &str) -> Done<()> {
    const FORGET: &str = "DELETE FROM checkpoints WHERE op_id = $1 AND step = $2";
    writing.statement(FORGET).bind(op_id).bind(step).run()
}

/// The reason why an operation was not written: it does not exist or is in another state.
fn unmet_condition(writing: &Writing<'_>, id: &str, tenant: Option<&str>) -> Done<StoreError> {
    const STATE: &str = "SELECT state FROM ops WHERE id = $1 AND tenant = COALESCE($2, tenant)";
    Ok(
        match writing.statement(STATE).bind(id).bind(tenant).value()? {
            Some(found) => StoreError::WrongState {
                what: KIND,
                id: id.to_owned(),
                found,
            },
            None => absent(KIND, id),
        },
    )
}

/// A step's status as it is stored.
pub(crate) fn status_text(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Started => "started",
        StepStatus::Done => "done",
        StepStatus::Skipped => "skipped",
        StepStatus::Undoing => "undoing",
        StepStatus::Undone => "undone",
    }
}

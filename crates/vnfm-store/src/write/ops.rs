//! Operation occurrences, their journals and checkpoints.

use super::instances::{busy, standing};
use super::{Writing, absent};
use crate::fault::Done;
use sqlx::query_scalar;
use vnfm_core::ports::{JournalRow, OpRecord, SecretJson, StepStatus, StoreError};
use vnfm_types::{CancelMode, LcmOperationState};

const WHAT: &str = "operation";

/// A new one, that becomes the active one of its instance.
pub(super) async fn add(writing: &mut Writing<'_>, record: &OpRecord) -> Done<()> {
    const TAKE: &str = "
        UPDATE instances SET active_op = $3, changed_ms = (SELECT now_ms FROM clock)
        WHERE tenant = $1 AND id = $2 AND active_op IS NULL";
    const ADD: &str = "
        INSERT INTO ops (id, tenant, instance_id, operation, state, driven, ended, op, request, point_of_no_return,
            epoch, lease_until, started_at)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, 0, $11)
        ON CONFLICT (id) DO NOTHING";
    let op = &record.op;
    let take = writing.statement(TAKE).bind(&record.tenant).bind(&op.vnf_instance_id).bind(&op.id);
    if !take.changed().await? {
        let (_, other) = standing(writing, &record.tenant, &op.vnf_instance_id).await?;
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
        .changed()
        .await?;
    if !added {
        return Err(StoreError::Exists { what: WHAT, id: op.id.clone() }.into());
    }
    Ok(())
}

/// One as it is now, from the state that it was in. Where it is driven no more, its lease and a wish to cancel it
/// end; where it is final, its instance is free, and it keeps where that lives now.
pub(super) async fn put(
    writing: &mut Writing<'_>,
    record: &OpRecord,
    from: LcmOperationState,
) -> Done<()> {
    const PUT: &str = "
        UPDATE ops SET state = $4, driven = $5, ended = $6, op = $7, request = $8, point_of_no_return = $9,
            owner = CASE WHEN $5 = 1 THEN owner END,
            lease_until = CASE WHEN $5 = 1 THEN lease_until ELSE 0 END,
            cancel = CASE WHEN $5 = 1 THEN cancel END
        WHERE id = $1 AND tenant = $2 AND state = $3";
    const FREE: &str = "
        UPDATE instances SET active_op = NULL, changed_ms = (SELECT now_ms FROM clock)
        WHERE id = $1 AND active_op = $2";
    const LIVED: &str = "
        INSERT INTO lived (op_id, vim_id, namespace)
        SELECT $2, vim_id, COALESCE(namespace, '') FROM uses WHERE instance_id = $1
        ON CONFLICT DO NOTHING";
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
        .changed()
        .await?;
    if !written {
        return Err(not_as_needed(writing, &op.id, Some(&record.tenant)).await?.into());
    }
    if state.is_final() {
        for sql in [FREE, LIVED] {
            writing.statement(sql).bind(&op.vnf_instance_id).bind(&op.id).run().await?;
        }
    }
    Ok(())
}

/// A wish to cancel; a forceful one is not taken back by a graceful one.
pub(super) async fn cancel(writing: &mut Writing<'_>, op_id: &str, mode: CancelMode) -> Done<()> {
    const CANCEL: &str = "
        UPDATE ops SET cancel = CASE WHEN cancel = 'FORCEFUL' THEN cancel ELSE $2 END
        WHERE id = $1 AND driven = 1";
    let mode = match mode {
        CancelMode::Graceful => "GRACEFUL",
        CancelMode::Forceful => "FORCEFUL",
    };
    if !writing.statement(CANCEL).bind(op_id).bind(mode).changed().await? {
        return Err(not_as_needed(writing, op_id, None).await?.into());
    }
    Ok(())
}

/// What is known of a step; a row keeps the place in which it was first written.
pub(super) async fn journal(writing: &mut Writing<'_>, row: &JournalRow) -> Done<()> {
    const JOURNAL: &str = "
        INSERT INTO journal (op_id, step, seq, status, attempt, output, started_at, ended_at)
        SELECT id, $2, COALESCE((SELECT MAX(seq) FROM journal WHERE op_id = $1), 0) + 1, $3, $4, $5, $6, $7
        FROM ops WHERE id = $1
        ON CONFLICT (op_id, step) DO UPDATE SET status = excluded.status, attempt = excluded.attempt,
            output = excluded.output, started_at = excluded.started_at, ended_at = excluded.ended_at";
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
        .changed()
        .await?;
    if !written {
        return Err(absent(WHAT, &row.op_id).into());
    }
    Ok(())
}

/// What a hook remembers, at operation, step and key.
pub(super) async fn checkpoint(
    writing: &mut Writing<'_>,
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
        .changed()
        .await?;
    if !written {
        return Err(absent(WHAT, op_id).into());
    }
    Ok(())
}

/// What the hook of a step remembers is forgotten.
pub(super) async fn forget_checkpoints(
    writing: &mut Writing<'_>,
    op_id: &str,
    step: &str,
) -> Done<()> {
    const FORGET: &str = "DELETE FROM checkpoints WHERE op_id = $1 AND step = $2";
    writing.statement(FORGET).bind(op_id).bind(step).run().await
}

/// Why an operation was not written: it is not there, or not in the state that was needed.
async fn not_as_needed(
    writing: &mut Writing<'_>,
    id: &str,
    tenant: Option<&str>,
) -> Done<StoreError> {
    let found: Option<String> =
        query_scalar("SELECT state FROM ops WHERE id = $1 AND tenant = COALESCE($2, tenant)")
            .bind(id)
            .bind(tenant)
            .fetch_optional(writing.now()?)
            .await?;
    Ok(match found {
        Some(found) => StoreError::WrongState { what: WHAT, id: id.to_owned(), found },
        None => absent(WHAT, id),
    })
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

//! Operation occurrences, their journals and checkpoints.

use super::instances::not_free;
use super::packages;
use super::vims::lived;
use crate::fault::Done;
use crate::refusals::{absent, exists, first};
use crate::secret_keys::SecretKeys;
use crate::statement::{Query, Refusal, Statement};
use vnfm_core::ports::{JournalRow, OpRecord, SecretJson, StepStatus, StoreError};
use vnfm_types::{CancelMode, LcmOperationState};

const KIND: &str = "operation";

/// Adds an operation, which becomes its instance's active one; if it changes the package, the new one must exist.
pub(super) fn add(record: &OpRecord, keys: &SecretKeys) -> Done<Vec<Statement>> {
    const TAKE: &str = "
        UPDATE instances SET active_op = $3, changed_ms = (SELECT now_ms FROM clock)
        WHERE tenant = $1 AND id = $2 AND active_op IS NULL";
    const ADD: &str = "
        INSERT INTO ops (id, tenant, instance_id, operation, state, driven, ended, op, request, point_of_no_return,
            epoch, lease_until, started_at, before, target, control, next_pkg_id)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, 0, $11, $12, $13, $14, $15)
        ON CONFLICT (id) DO NOTHING";
    let op = &record.op;
    let take = Statement::new(TAKE)
        .bind(&record.tenant)
        .bind(&op.vnf_instance_id)
        .bind(&op.id)
        .or(not_free(&record.tenant, &op.vnf_instance_id));
    let state = op.operation_state;
    let add = Statement::new(ADD)
        .bind(&op.id)
        .bind(&record.tenant)
        .bind(&op.vnf_instance_id)
        .bind(op.operation.as_str())
        .bind(state.as_str())
        .bind(state.is_driven())
        .bind(state.is_final())
        .bind(serde_json::to_string(op)?)
        .bind(keys.seal(&record.request)?)
        .bind(&record.point_of_no_return)
        .bind(op.start_time.to_string())
        .bind(keys.seal_some(record.before.as_deref())?)
        .bind(keys.seal_some(record.target.as_deref())?)
        .bind(serde_json::to_string(&record.control)?)
        .bind(record.next_package())
        .or(exists(KIND, &op.id));
    let next = record.next_package();
    let next = next.map(|package| packages::still_there(&record.tenant, package));
    Ok(next.into_iter().chain([take, add]).collect())
}

/// Updates an operation if its state is still `from`; a stored point of no return stays. In a state that is not driven, its
/// lease and cancel request end; in a final state, its instance becomes free, the VIMs that the instance uses are recorded,
/// and the operation's deployments, which nothing needs any more, are deleted.
pub(super) fn put(
    record: &OpRecord,
    from: LcmOperationState,
    keys: &SecretKeys,
) -> Done<Vec<Statement>> {
    const PUT: &str = "
        UPDATE ops SET state = $4, driven = $5, ended = $6, op = $7, request = $8,
            point_of_no_return = COALESCE(point_of_no_return, $9),
            before = CASE WHEN $6 = 0 THEN before END,
            target = CASE WHEN $6 = 0 THEN $10 END,
            owner = CASE WHEN $5 = 1 THEN owner END,
            lease_until = CASE WHEN $5 = 1 THEN lease_until ELSE 0 END,
            cancel = CASE WHEN $5 = 1 THEN cancel END
        WHERE id = $1 AND tenant = $2 AND state = $3";
    const FREE: &str = "
        UPDATE instances SET active_op = NULL, changed_ms = (SELECT now_ms FROM clock)
        WHERE id = $1 AND active_op = $2";
    let op = &record.op;
    let state = op.operation_state;
    let put = Statement::new(PUT)
        .bind(&op.id)
        .bind(&record.tenant)
        .bind(from.as_str())
        .bind(state.as_str())
        .bind(state.is_driven())
        .bind(state.is_final())
        .bind(serde_json::to_string(op)?)
        .bind(keys.seal(&record.request)?)
        .bind(&record.point_of_no_return)
        .bind(keys.seal_some(record.target.as_deref())?)
        .or(unmet_condition(&op.id, Some(&record.tenant)));
    let mut statements = vec![put];
    if state.is_final() {
        let free = Statement::new(FREE).bind(&op.vnf_instance_id).bind(&op.id);
        statements.extend([lived(&op.vnf_instance_id), free]);
    }
    Ok(statements)
}

/// Records the step after which there is no rollback; the first one stays.
pub(super) fn rule_out_rollback(op_id: &str, step: &str) -> Vec<Statement> {
    const RULE_OUT: &str = "
        UPDATE ops SET point_of_no_return = COALESCE(point_of_no_return, $2)
        WHERE id = $1 AND state = 'PROCESSING'";
    let rule_out = Statement::new(RULE_OUT).bind(op_id).bind(step);
    vec![rule_out.or(unmet_condition(op_id, None))]
}

/// Requests a cancellation; a graceful one does not replace a forceful one.
pub(super) fn cancel(op_id: &str, mode: CancelMode) -> Vec<Statement> {
    const CANCEL: &str = "
        UPDATE ops SET cancel = CASE WHEN cancel = 'FORCEFUL' THEN cancel ELSE $2 END
        WHERE id = $1 AND driven = 1";
    let mode = match mode {
        CancelMode::Graceful => "GRACEFUL",
        CancelMode::Forceful => "FORCEFUL",
    };
    let cancel = Statement::new(CANCEL).bind(op_id).bind(mode);
    vec![cancel.or(unmet_condition(op_id, None))]
}

/// Writes a step's row; a row keeps its position in the order of first writes.
pub(super) fn journal(row: &JournalRow, keys: &SecretKeys) -> Done<Vec<Statement>> {
    const JOURNAL: &str = "
        INSERT INTO journal (op_id, step, seq, status, attempt, output, started_at, ended_at, lives, killed, hook,
            retry)
        SELECT id, $2, COALESCE((SELECT MAX(seq) FROM journal WHERE op_id = $1), 0) + 1, $3, $4, $5, $6, $7, $8, $9, $10,
            $11
        FROM ops WHERE id = $1
        ON CONFLICT (op_id, step) DO UPDATE SET status = excluded.status, attempt = excluded.attempt,
            output = excluded.output, started_at = excluded.started_at, ended_at = excluded.ended_at,
            lives = excluded.lives, killed = excluded.killed, hook = excluded.hook, retry = excluded.retry";
    let journal = Statement::new(JOURNAL)
        .bind(&row.op_id)
        .bind(&row.step)
        .bind(status_text(row.status))
        .bind(i64::from(row.attempt))
        .bind(keys.seal(&row.output)?)
        .bind(row.started_at.to_string())
        .bind(row.ended_at.map(|at| at.to_string()))
        .bind(serde_json::to_string(&row.lives)?)
        .bind(row.lives.killed)
        .bind(row.hook.as_ref().map(serde_json::to_string).transpose()?)
        .bind(row.retry.as_ref().map(serde_json::to_string).transpose()?);
    Ok(vec![journal.or(absent(KIND, &row.op_id))])
}

/// Records that a process released an operation, or all of them, in an orderly shutdown; removes
/// records older than 30 days.
pub(super) fn left_in_order(process: &str, op_id: &str) -> Vec<Statement> {
    const LEFT: &str = "
        INSERT INTO left_in_order (process, op_id, at_ms) SELECT $1, $2, now_ms FROM clock WHERE 1 = 1
        ON CONFLICT (process, op_id) DO UPDATE SET at_ms = excluded.at_ms";
    const FORGET: &str =
        "DELETE FROM left_in_order WHERE at_ms < (SELECT now_ms FROM clock) - 2592000000";
    vec![
        Statement::new(LEFT).bind(process).bind(op_id),
        Statement::new(FORGET),
    ]
}

/// Writes a hook's checkpoint for an operation, step and key.
pub(super) fn checkpoint(
    [op_id, step, key]: [&str; 3],
    value: &SecretJson,
    keys: &SecretKeys,
) -> Done<Vec<Statement>> {
    const CHECKPOINT: &str = "
        INSERT INTO checkpoints (op_id, step, key, value) SELECT id, $2, $3, $4 FROM ops WHERE id = $1
        ON CONFLICT (op_id, step, key) DO UPDATE SET value = excluded.value";
    let checkpoint = Statement::new(CHECKPOINT)
        .bind(op_id)
        .bind(step)
        .bind(key)
        .bind(keys.seal(value)?);
    Ok(vec![checkpoint.or(absent(KIND, op_id))])
}

/// Removes the checkpoints of a step's hook.
pub(super) fn forget_checkpoints(op_id: &str, step: &str) -> Vec<Statement> {
    const FORGET: &str = "DELETE FROM checkpoints WHERE op_id = $1 AND step = $2";
    vec![Statement::new(FORGET).bind(op_id).bind(step)]
}

/// The reason why an operation was not written: it does not exist or is in another state.
fn unmet_condition(id: &str, tenant: Option<&str>) -> Refusal {
    const STATE: &str = "SELECT state FROM ops WHERE id = $1 AND tenant = COALESCE($2, tenant)";
    let op_id = id.to_owned();
    let in_state = Query::new(STATE).bind(id).bind(tenant).then(move |rows| {
        let (found,) = first(rows)?;
        Ok(StoreError::WrongState {
            what: KIND,
            id: op_id.clone(),
            found,
        })
    });
    Refusal::from(absent(KIND, id)).unless(in_state)
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

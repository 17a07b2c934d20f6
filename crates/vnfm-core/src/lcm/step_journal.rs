//! Writes the journal of an operation: *started* before the side effect of a step, its end afterwards.

use super::hook_journal;
use super::op_context::Op;
use super::step::{Direction, Step};
use crate::ports::{Change, JournalRow, ProcessHistory, SecretJson, StepStatus, StoreError};
use crate::running_ops::Stored;
use serde_json::Value;
use std::sync::Arc;

/// Journals the start of a step or of its undo. Starting an irreversible step rules out a rollback.
pub(super) async fn begin(
    op: &mut Op,
    step: &Step,
    direction: Direction,
    lives: &ProcessHistory,
) -> Result<(), StoreError> {
    op.deadline = op.clock().now() + step.time_limit(&op.context.limits());
    let status = match direction {
        Direction::Forward => StepStatus::Started,
        Direction::Backward => StepStatus::Undoing,
    };
    let before = op.rows.get(step.name);
    let row = Arc::new(JournalRow {
        op_id: op.fence.op_id.clone(),
        step: step.name.to_owned(),
        status,
        attempt: before.map_or(0, |row| row.attempt) + 1,
        output: before.map(|row| row.output.clone()).unwrap_or_default(),
        started_at: op.clock().now(),
        ended_at: None,
        lives: lives.clone(),
        hook: hook_journal::begun(op, step),
        retry: before.and_then(|row| row.retry.clone()),
    });
    let attempt = row.attempt;
    let mut changes = vec![Change::Journal(row.clone())];
    if step.is_irreversible() && op.record.point_of_no_return.is_none() {
        Arc::make_mut(&mut op.record).point_of_no_return = Some(step.name.to_owned());
        let from = op.record.op.operation_state;
        changes.push(Change::PutOp {
            record: op.record.clone(),
            from,
        });
    }
    op.rows.insert(step.name.to_owned(), row);
    store(op, changes).await?;
    op.live.set_stored(stored(op));
    op.live.start_step(step.name, attempt, op.deadline);
    Ok(())
}

/// Takes over that a hook has ruled out a rollback, which the store has already.
pub(super) fn note_ruled_out(op: &mut Op) {
    if op.record.point_of_no_return.is_none()
        && let Some(hook) = op.live.ruled_out_by()
    {
        Arc::make_mut(&mut op.record).point_of_no_return = Some(hook);
        op.live.set_stored(stored(op));
    }
}

/// The state in the database once everything is written.
pub(super) fn stored(op: &Op) -> Stored {
    Stored {
        record: op.record.clone(),
        journal: op.rows.values().cloned().collect(),
    }
}

/// Records the end of a step or of its undo; the next write stores it.
pub(super) fn end(op: &mut Op, step: &Step, status: StepStatus, output: Value) {
    let now = op.clock().now();
    let row = Arc::new(JournalRow {
        op_id: op.fence.op_id.clone(),
        step: step.name.to_owned(),
        status,
        attempt: op.rows.get(step.name).map_or(0, |row| row.attempt),
        output: SecretJson::from(output),
        started_at: op.rows.get(step.name).map_or(now, |row| row.started_at),
        ended_at: Some(now),
        lives: ProcessHistory::default(),
        hook: hook_journal::ended(op, step, status),
        retry: None,
    });
    op.watcher()
        .log("info", step.name, &format!("{status:?}").to_lowercase());
    report_step(op, &row);
    op.unwritten.push(Change::Journal(row.clone()));
    if status == StepStatus::Undone {
        // A retry after a rollback that stopped starts the step from scratch.
        let (op_id, step) = (op.fence.op_id.clone(), step.name.to_owned());
        op.unwritten.push(Change::RemoveCheckpoints { op_id, step });
    }
    op.rows.insert(step.name.to_owned(), row);
}

/// Reports to the observer how long a step ran.
pub(super) fn report_step(op: &Op, row: &JournalRow) {
    let took = row
        .ended_at
        .unwrap_or_else(|| op.clock().now())
        .duration_since(row.started_at);
    let (kind, took) = (op.record.op.operation, took.try_into().unwrap_or_default());
    op.context
        .observer
        .step_ended(kind, &row.step, row.status, took);
}

/// Writes the end of the previous step and these changes in one transaction.
pub(super) async fn store(op: &mut Op, changes: Vec<Change>) -> Result<(), StoreError> {
    let mut all = std::mem::take(&mut op.unwritten);
    all.extend(changes);
    if all.is_empty() {
        return Ok(());
    }
    op.context.store().write(Some(&op.fence), all).await
}

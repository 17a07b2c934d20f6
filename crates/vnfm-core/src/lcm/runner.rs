//! Drives the steps of one operation and keeps its journal.
//!
//! ```text
//!  drive ─ lease held ─┬─ forward:  each step not done:          Started ─ run ─ Done      then COMPLETED
//!                      ├─ backward: each step begun, last first: Undoing ─ undo ─ Undone  then ROLLED_BACK
//!                      └─ concurrently: renews the lease, stores the log, receives cancel requests
//! ```
//!
//! `Started` is written before a side effect and `Done(output)` after it, in one transaction with the next step's
//! `Started` or the operation's next state. So a crash resumes at the step that was running; steps are idempotent,
//! whether or not an interrupted attempt had begun. Every write carries the lease's epoch: a process that lost its
//! lease stops at its next write.

use super::attempt::attempt;
use super::crash_suspects;
use super::hook_journal;
use super::op::Op;
use super::problem::problem;
use super::step::{Direction, Step};
use super::transition::{enter, enter_with};
use super::vim_slot;
use crate::engine::Engine;
use crate::ports::{
    Change, Claim, Code, ErrorKind, Fence, JournalRow, PortError, ProcessHistory, SecretJson,
    StepStatus, StoreError,
};
use crate::running_ops::Stored;
use futures_util::future::{self, Either, FutureExt as _};
use serde_json::Value;
use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument as _;
use vnfm_types::LcmOperationState::{
    Completed, FailedTemp, Processing, RolledBack, RollingBack, Starting,
};
use vnfm_types::{CancelMode, VimConnectionInfo};

/// Time limit for observing what a failed step left behind.
const OBSERVE_TIMEOUT: Duration = Duration::from_mins(1);

/// Drives a claimed operation until it ends or stops, or the lease is lost.
///
/// # Errors
///
/// If the database does not respond; the operation stays as it is.
pub(crate) async fn drive(engine: &Engine, claim: Claim) -> Result<(), StoreError> {
    let fence = claim.fence.clone();
    let mut op = Op::load(engine, &claim.tenant, claim.fence).await?;
    let live = op.live.clone();
    let lease = hold_lease(engine, &fence, live.clone());
    let outcome = {
        let span = operation_span(&op);
        let working = work(&mut op).instrument(span);
        futures_util::pin_mut!(working, lease);
        match future::select(working, lease).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right((lost, _)) => Err(lost),
        }
    };
    live.store_log(engine.store(), &fence.op_id).await;
    engine.live.remove(&fence.op_id);
    engine.exclusion.arrived(&fence.op_id);
    match outcome {
        Err(StoreError::LeaseLost { op_id }) => {
            tracing::info!(op_id, "another process drives this operation now");
            engine.orderly_exits(Some(op_id)).await;
            Ok(())
        }
        outcome => {
            engine.store().release(&fence).await?;
            outcome
        }
    }
}

/// The fields of every log line of the operation, and its tracing span.
fn operation_span(op: &Op) -> tracing::Span {
    let (record, instance) = (&op.record.op, &op.instance.vnf.id);
    tracing::info_span!("operation", operation = %record.operation, op_id = record.id, instance_id = instance)
}

/// Renews the lease and stores the log, until the lease is lost.
async fn hold_lease(
    engine: &Engine,
    fence: &Fence,
    live: Arc<crate::running_ops::RunningOp>,
) -> StoreError {
    let (store, clock, lease) = (engine.store(), &engine.parts.clock, engine.limits().lease);
    let mut held_until = clock.now() + lease;
    loop {
        clock.sleep(lease / 5).await;
        match store.renew(fence, lease).await {
            Ok(cancel) => {
                held_until = clock.now() + lease;
                if let Some(mode) = cancel {
                    live.cancel(mode);
                }
            }
            Err(StoreError::LeaseLost { op_id }) => return StoreError::LeaseLost { op_id },
            Err(error) if clock.now() >= held_until => return error,
            Err(error) => tracing::warn!(op_id = fence.op_id, %error, "the lease was not renewed"),
        }
        live.store_log(store, &fence.op_id).await;
    }
}

async fn work(op: &mut Op) -> Result<(), StoreError> {
    if op.record.op.is_cancel_pending
        && let Some(mode) = op.record.op.cancel_mode
    {
        op.live.cancel(mode);
    }
    let _slot = vim_slot::acquire(op).await;
    match op.record.op.operation_state {
        Starting | Processing => forward(op, op.operation.steps).await,
        RollingBack => backward(op, op.operation.steps).await,
        _ => Ok(()),
    }
}

/// Runs every step that is not yet done according to the journal.
async fn forward(op: &mut Op, steps: &'static [Step]) -> Result<(), StoreError> {
    for step in steps {
        let known = op.rows.get(step.name).map(|row| row.status);
        if matches!(known, Some(StepStatus::Done | StepStatus::Skipped)) {
            continue;
        }
        if step.is_grant() && needs_no_grant(op) {
            continue;
        }
        if op.live.is_shutting_down() || op.engine.live.is_paused() {
            return store(op, Vec::new()).await;
        }
        if op.live.cancel_mode().is_some() {
            return stop(op, step, cancelled(op)).await;
        }
        if step.state == Processing && op.record.op.operation_state == Starting {
            enter(op, Processing, None).await?;
        }
        if step.is_hook() && is_skipped(op, step) {
            end(op, step, StepStatus::Skipped, Value::Null);
            continue;
        }
        let Some(outcome) = attempt(op, step, Direction::Forward).await? else {
            return not_started(op, step).await;
        };
        match outcome {
            Ok(output) => {
                end(op, step, StepStatus::Done, output);
                if step.is_grant() {
                    op.apply_grant();
                }
            }
            Err(_) if op.live.is_shutting_down() => return release_step(op, step).await,
            Err(error) => {
                observe_failed(op, step).await?;
                return stop(op, step, error).await;
            }
        }
    }
    enter(op, Completed, None).await
}

/// True if there is no NFVO, or if the operation left STARTING while there was none.
fn needs_no_grant(op: &Op) -> bool {
    op.engine.parts.nfvo.is_none() || op.record.op.operation_state != Starting
}

/// True if the VNFD does not name the hook, or the caller asked to skip it.
fn is_skipped(op: &Op, step: &Step) -> bool {
    if op.skips(step.name) {
        op.watcher()
            .log("warn", step.name, "skipped, as requested by the caller");
        return true;
    }
    op.flavour()
        .is_ok_and(|flavour| flavour.hook(step.name).is_none())
}

/// Undoes every step that has begun according to the journal, last first.
async fn backward(op: &mut Op, steps: &'static [Step]) -> Result<(), StoreError> {
    for step in steps.iter().rev() {
        if !(step.has_undo() && op.has_begun(step.name)) {
            continue;
        }
        if op.live.is_shutting_down() || op.engine.live.is_paused() {
            return store(op, Vec::new()).await;
        }
        if op.live.cancel_mode().is_some() {
            return stop(op, step, cancelled(op)).await;
        }
        let Some(outcome) = attempt(op, step, Direction::Backward).await? else {
            return not_started(op, step).await;
        };
        match outcome {
            Ok(_) => end(op, step, StepStatus::Undone, Value::Null),
            Err(_) if op.live.is_shutting_down() => return release_step(op, step).await,
            Err(error) => return stop(op, step, error).await,
        }
    }
    enter(op, RolledBack, None).await
}

/// A step was not started, because of a cancel request or the shutdown of this process.
async fn not_started(op: &mut Op, step: &Step) -> Result<(), StoreError> {
    if op.live.is_shutting_down() || op.engine.live.is_paused() {
        return store(op, Vec::new()).await;
    }
    stop(op, step, cancelled(op)).await
}

/// This process shuts down: the step is dropped, and the next process starts it again. That does not count as a death.
async fn release_step(op: &Op, step: &Step) -> Result<(), StoreError> {
    let Some(row) = crash_suspects::close_row(op, step) else {
        return Ok(());
    };
    op.engine
        .store()
        .write(Some(&op.fence), vec![Change::Journal(Arc::new(row))])
        .await
}

/// Records what exists of a step that failed, so that the occurrence shows it. If the VIM does not respond, the
/// record stays as it was.
async fn observe_failed(op: &mut Op, step: &Step) -> Result<(), StoreError> {
    let (Some(observe), Some(row)) = (step.observe(), op.rows.get(step.name)) else {
        return Ok(());
    };
    let mut row = JournalRow::clone(row);
    op.deadline = op.clock().now() + OBSERVE_TIMEOUT;
    let observing = AssertUnwindSafe(observe(op)).catch_unwind();
    match future::select(observing, op.clock().sleep(OBSERVE_TIMEOUT)).await {
        Either::Left((Ok(Ok(output)), _)) => row.output = SecretJson::from(output),
        Either::Left((Ok(Err(error)), _)) => {
            let text = format!("the remaining resources could not be listed: {error}");
            op.watcher().log("warn", step.name, &text);
            return Ok(());
        }
        _ => return Ok(()),
    }
    let row = Arc::new(row);
    let changes = vec![Change::Journal(row.clone())];
    op.engine.store().write(Some(&op.fence), changes).await?;
    op.rows.insert(step.name.to_owned(), row);
    Ok(())
}

pub(super) fn cancelled(op: &Op) -> PortError {
    let how = match op.live.cancel_mode() {
        Some(CancelMode::Graceful) => "cancelled gracefully",
        _ => "cancelled forcefully",
    };
    PortError::new(
        &CANCELLED,
        format!("continue {}", op.record.op.operation),
        how,
    )
}

/// Journals the start of a step or of its undo. Starting an irreversible step rules out a rollback.
pub(super) async fn begin(
    op: &mut Op,
    step: &Step,
    direction: Direction,
    lives: &ProcessHistory,
) -> Result<(), StoreError> {
    op.deadline = op.clock().now() + step.time_limit(&op.engine.limits());
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

/// The state in the database once everything is written.
pub(super) fn stored(op: &Op) -> Stored {
    Stored {
        record: op.record.clone(),
        journal: op.rows.values().cloned().collect(),
    }
}

/// Records the end of a step or of its undo; the next write stores it.
fn end(op: &mut Op, step: &Step, status: StepStatus, output: Value) {
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

fn report_step(op: &Op, row: &JournalRow) {
    let took = row
        .ended_at
        .unwrap_or_else(|| op.clock().now())
        .duration_since(row.started_at);
    let (kind, took) = (op.record.op.operation, took.try_into().unwrap_or_default());
    op.engine
        .observer
        .step_ended(kind, (&row.step, row.status), took);
}

/// Writes the end of the previous step and these changes in one transaction.
pub(super) async fn store(op: &mut Op, changes: Vec<Change>) -> Result<(), StoreError> {
    let mut all = std::mem::take(&mut op.unwritten);
    all.extend(changes);
    if all.is_empty() {
        return Ok(());
    }
    op.engine.store().write(Some(&op.fence), all).await
}

/// The operation stops at `step`: it is rolled back if nothing was changed yet, otherwise the operator decides.
async fn stop(op: &mut Op, step: &Step, error: PortError) -> Result<(), StoreError> {
    let problem = problem(op, step.name, &error);
    if let Some(row) = op.rows.get(step.name) {
        report_step(op, row);
    }
    op.watcher().log("error", step.name, &problem.detail);
    let next = if op.record.op.operation_state == Starting {
        RolledBack
    } else {
        FailedTemp
    };
    let also = crash_suspects::close_row(op, step).map(|row| Change::Journal(Arc::new(row)));
    enter_with(op, next, Some(problem), also).await
}

/// Connections as shown to clients: id and type of the registry, without secrets.
pub(crate) fn without_access_info(
    connections: &BTreeMap<String, Box<VimConnectionInfo>>,
) -> BTreeMap<String, Box<VimConnectionInfo>> {
    let redacted = connections.iter().map(|(key, connection)| {
        let mut redacted = connection.clone();
        redacted.access_info.clear();
        (key.clone(), redacted)
    });
    redacted.collect()
}

/// A caller has cancelled the operation.
pub const CANCELLED: Code = Code {
    name: "op.cancelled",
    kind: ErrorKind::Refused,
    means: "the operation was cancelled",
    next: "retry, roll back or fail it",
};
/// The deadline of a step passed.
pub const TOO_LATE: Code = Code {
    name: "op.deadline",
    kind: ErrorKind::Unavailable,
    means: "a step did not finish within its time limit",
    next: "fix what it was waiting for and retry; `vnfmctl op log ID` shows what it did",
};
/// A bug in a step.
pub const PANICKED: Code = Code {
    name: "op.panicked",
    kind: ErrorKind::Broken,
    means: "a step of the engine panicked: a bug",
    next: "report it with the server's log; retry or roll back meanwhile",
};

//! Drives the steps of one operation and keeps its journal.
//!
//! ```text
//!  drive ─ lease held ─┬─ forward:  each step not done:          Started ─ run ─ Done      then COMPLETED
//!                      ├─ backward: each step begun, last first: Undoing ─ undo ─ Undone  then ROLLED_BACK
//!                      ├─ a step failed: again after a pause, backward, or stop (`failure_policy`)
//!                      └─ concurrently: renews the lease, stores the log, receives cancel requests
//! ```
//!
//! `Started` is written before a side effect and `Done(output)` after it, in one transaction with the next step's
//! `Started` or the operation's next state. So a crash resumes at the step that was running; steps are idempotent,
//! whether or not an interrupted attempt had begun. Every write carries the lease's epoch: a process that lost its
//! lease stops at its next write.

pub use super::problem::CANCELLED;
pub use super::step_attempt::{PANICKED, TOO_LATE};

use super::crash_suspects;
use super::driven::Driven;
use super::failure_policy::{self, Next};
use super::load::{apply_grant, load};
use super::op_context::Op;
use super::operation::Operation;
use super::problem::{cancelled, problem};
use super::step::{Direction, Ends, Step};
use super::step_attempt::attempt;
use super::step_journal::{end, report_step, store};
use super::transition::{enter, enter_with, roll_back};
use super::vim_slot;
use crate::context::Context;
use crate::ports::{
    Change, Claim, Fence, JournalRow, PortError, SecretJson, StepStatus, StoreError,
};
use futures_util::future::{self, Either, FutureExt as _};
use serde_json::Value;
use std::ops::ControlFlow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument as _;
use vnfm_types::LcmOperationState::{
    Completed, FailedTemp, Processing, RolledBack, RollingBack, Starting,
};
use vnfm_types::ProblemDetails;

/// Time limit for observing what a failed step left behind.
const OBSERVE_TIMEOUT: Duration = Duration::from_mins(1);

/// Drives a claimed operation until it ends or stops, or the lease is lost.
///
/// # Errors
///
/// If the database does not respond; the operation stays as it is.
pub(crate) async fn drive(
    context: &Context,
    operations: &[&'static Operation],
    claim: Claim,
) -> Result<Driven, StoreError> {
    let fence = claim.fence.clone();
    let mut op = load(context, operations, &claim.tenant, claim.fence).await?;
    let live = op.live.clone();
    let lease = hold_lease(context, &fence, live.clone());
    let outcome = {
        let span = operation_span(&op);
        let working = work(&mut op).instrument(span);
        futures_util::pin_mut!(working, lease);
        match future::select(working, lease).await {
            Either::Left((outcome, _)) => outcome,
            Either::Right((lost, _)) => Err(lost),
        }
    };
    live.store_log(context.store(), &fence.op_id).await;
    context.live.remove(&fence.op_id, &live);
    context.exclusion.arrived(&fence.op_id);
    match outcome {
        Err(StoreError::LeaseLost { op_id }) => {
            tracing::info!(op_id, "another process drives this operation now");
            context.orderly_exits(Some(op_id)).await;
            Ok(Driven::elsewhere(fence.op_id))
        }
        outcome => {
            context.store().release(&fence).await?;
            outcome.map(|()| Driven::left(&op))
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
    context: &Context,
    fence: &Fence,
    live: Arc<crate::running_ops::RunningOp>,
) -> StoreError {
    let (store, clock, lease) = (
        context.store(),
        &context.ports.clock,
        context.limits().lease,
    );
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
    loop {
        failure_policy::wait(op).await;
        let _slot = vim_slot::acquire(op).await;
        let flow = match op.record.op.operation_state {
            Starting | Processing => forward(op, op.operation.steps).await?,
            RollingBack => backward(op, op.operation.steps).await?,
            _ => LEAVE,
        };
        if flow.is_break() {
            return Ok(());
        }
    }
}

/// Whether the operation is driven on, from what the journal says.
type Flow = ControlFlow<()>;
const LEAVE: Flow = Flow::Break(());

/// Runs every step that is not yet done according to the journal.
async fn forward(op: &mut Op, steps: &'static [Step]) -> Result<Flow, StoreError> {
    for step in steps {
        let known = op.rows.get(step.name).map(|row| row.status);
        if matches!(known, Some(StepStatus::Done | StepStatus::Skipped)) {
            continue;
        }
        if step.is_grant() && needs_no_grant(op) {
            continue;
        }
        if op.live.is_shutting_down() || op.context.live.is_paused() {
            return leave(op).await;
        }
        if op.live.cancel_mode().is_some() {
            if op.has_begun(step.name) {
                observe_failed(op, step).await?;
            }
            return stop(op, step, cancelled(op)).await;
        }
        if step.state == Processing && op.record.op.operation_state == Starting {
            enter(op, Processing, None).await?;
        }
        if (step.is_hook() && is_skipped(op, step)) || is_needless(op, step) {
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
                    apply_grant(op);
                }
            }
            Err(_) if op.live.is_shutting_down() => return release_step(op, step).await,
            Err(error) => return failed(op, step, Direction::Forward, error).await,
        }
    }
    enter(op, Completed, None).await?;
    Ok(LEAVE)
}

/// True if there is no NFVO, or if the operation left STARTING while there was none.
fn needs_no_grant(op: &Op) -> bool {
    op.context.ports.nfvo.is_none() || op.record.op.operation_state != Starting
}

/// True if the VNFD does not name the hook, or the caller asked to skip it.
fn is_skipped(op: &Op, step: &Step) -> bool {
    if op.skips(step.name) {
        op.watcher()
            .log("warn", step.name, "skipped, as requested by the caller");
        return true;
    }
    op.hook(step.name).is_ok_and(|hook| hook.is_none())
}

/// True if the operation does not need the step.
fn is_needless(op: &Op, step: &Step) -> bool {
    let (before, target) = (&op.record.before, &op.record.target);
    let package = op.package().ok().map(|package| &**package);
    let ends = Ends::between(before.as_deref(), target.as_deref(), package);
    let control = &op.record.control;
    let ends = ends.map(|ends| Ends {
        cascade: control.cascade,
        retains: !control.retain.is_empty(),
        ..ends
    });
    !step.is_needed(ends.as_ref())
}

/// Undoes every step that has begun according to the journal, last first.
async fn backward(op: &mut Op, steps: &'static [Step]) -> Result<Flow, StoreError> {
    for step in steps.iter().rev() {
        if !(step.has_undo() && op.has_begun(step.name)) {
            continue;
        }
        if op.live.is_shutting_down() || op.context.live.is_paused() {
            return leave(op).await;
        }
        if op.live.cancel_mode().is_some() {
            return stop(op, step, cancelled(op)).await;
        }
        let Some(outcome) = attempt(op, step, Direction::Backward).await? else {
            return not_started(op, step).await;
        };
        match outcome {
            Ok(output) => end(op, step, StepStatus::Undone, output),
            Err(_) if op.live.is_shutting_down() => return release_step(op, step).await,
            Err(error) => return failed(op, step, Direction::Backward, error).await,
        }
    }
    enter(op, RolledBack, None).await?;
    Ok(LEAVE)
}

/// A step was not started, because of a cancel request or the shutdown of this process.
async fn not_started(op: &mut Op, step: &Step) -> Result<Flow, StoreError> {
    if op.live.is_shutting_down() || op.context.live.is_paused() {
        return leave(op).await;
    }
    stop(op, step, cancelled(op)).await
}

/// Leaves the operation as the journal has it; the next process continues.
async fn leave(op: &mut Op) -> Result<Flow, StoreError> {
    store(op, Vec::new()).await?;
    Ok(LEAVE)
}

/// A step or its undo failed: it is started again, the operation is rolled back, or it stops.
async fn failed(
    op: &mut Op,
    step: &Step,
    direction: Direction,
    error: PortError,
) -> Result<Flow, StoreError> {
    let next = failure_policy::next(op, step, &error).await?;
    if let Next::Retry(retry) = next {
        failure_policy::journal(op, step, retry).await?;
        return Ok(Flow::Continue(()));
    }
    if direction == Direction::Forward {
        observe_failed(op, step).await?;
    }
    if !matches!(next, Next::RollBack) {
        return stop(op, step, error).await;
    }
    let (problem, also) = stopping(op, step, &error);
    roll_back(op, problem, also).await?;
    Ok(Flow::Continue(()))
}

/// This process shuts down: the step is dropped, and the next process starts it again. That does not count as a death.
async fn release_step(op: &Op, step: &Step) -> Result<Flow, StoreError> {
    let Some(row) = crash_suspects::close_row(op, step) else {
        return Ok(LEAVE);
    };
    let changes = vec![Change::Journal(Arc::new(row))];
    op.context.store().write(Some(&op.fence), changes).await?;
    Ok(LEAVE)
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
    op.context.store().write(Some(&op.fence), changes).await?;
    op.rows.insert(step.name.to_owned(), row);
    Ok(())
}

/// The operation stops at `step`: it is rolled back if nothing was changed yet, otherwise the operator decides.
async fn stop(op: &mut Op, step: &Step, error: PortError) -> Result<Flow, StoreError> {
    let (problem, also) = stopping(op, step, &error);
    let next = if op.record.op.operation_state == Starting {
        RolledBack
    } else {
        FailedTemp
    };
    enter_with(op, next, Some(problem), also).await?;
    Ok(LEAVE)
}

/// Reports why no further attempt at `step` is made: the error of the operation, and the row that ends the step.
fn stopping(op: &mut Op, step: &Step, error: &PortError) -> (ProblemDetails, Option<Change>) {
    let problem = problem(op, step.name, error);
    if let Some(row) = op.rows.get(step.name) {
        report_step(op, row);
    }
    op.watcher().log("error", step.name, &problem.detail);
    let row = failure_policy::given_up(op, step).map(Arc::new);
    if let Some(row) = &row {
        op.rows.insert(step.name.to_owned(), row.clone());
    }
    (problem, row.map(Change::Journal))
}

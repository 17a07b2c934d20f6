//! One attempt at a step: it starts when it may, and its work is bounded by the step's deadline.

use super::crash_suspects::{self, Beginning};
use super::descriptor_shortage;
use super::op_context::Op;
use super::problem::cancelled;
use super::step::{Direction, Step};
use super::step_journal::{begin, note_ruled_out};
use crate::ports::{Code, ErrorKind, PortError, StoreError};
use futures_util::future::{self, Either, FutureExt as _};
use serde_json::Value;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use tracing::Instrument as _;
use tracing::field::Empty;

/// Starts a step as soon as it may, and runs its work; repeats if the step made room for another one. `None`:
/// the step was not started.
pub(super) async fn attempt(
    op: &mut Op,
    step: &Step,
    direction: Direction,
) -> Result<Option<Result<Value, PortError>>, StoreError> {
    let context = op.context.clone();
    loop {
        let Some(mut beginning) = crash_suspects::enter(&context, op, step).await? else {
            return Ok(None);
        };
        begin(op, step, direction, &beginning.lives).await?;
        let outcome = match beginning.refusal.take() {
            Some(refusal) => Some(Err(refusal)),
            None => perform_exclusively(op, step, direction, &mut beginning).await,
        };
        // However the step has ended: what follows a failure depends on it.
        note_ruled_out(op);
        if let Some(row) = beginning.outlived.take() {
            op.rows.insert(step.name.to_owned(), row);
        }
        if outcome.is_some() {
            return Ok(outcome);
        }
        op.watcher().log(
            "info",
            step.name,
            "makes room for another step; it will be started again",
        );
    }
}

/// Runs the work of a step. If the step runs exclusively, also watches for the end of that period.
/// `None`: it must make room.
async fn perform_exclusively(
    op: &Op,
    step: &Step,
    direction: Direction,
    beginning: &mut Beginning<'_>,
) -> Option<Result<Value, PortError>> {
    let Some(time) = beginning.alone else {
        return Some(perform(op, step, direction).await);
    };
    let working = pin!(perform(op, step, direction));
    let surviving = pin!(beginning.survive(op, step, time));
    match future::select(working, surviving).await {
        Either::Left((outcome, _)) => Some(outcome),
        Either::Right((true, _)) => None,
        Either::Right((false, working)) => Some(working.await),
    }
}

/// Runs the work of a step until its deadline. A forceful cancel or the shutdown of this process drops it;
/// a panic becomes an error.
async fn perform(op: &Op, step: &Step, direction: Direction) -> Result<Value, PortError> {
    let left = op.deadline.duration_since(op.clock().now()).unsigned_abs();
    let span = tracing::info_span!("step", step = step.name, otel.status_code = Empty);
    let working = descriptor_shortage::run(op, step, direction).instrument(span.clone());
    let working = AssertUnwindSafe(Box::pin(working)).catch_unwind();
    let ended = future::select(op.clock().sleep(left), Box::pin(op.live.aborted()));
    let outcome = match future::select(working, ended).await {
        Either::Left((Ok(outcome), _)) => outcome,
        Either::Left((Err(_), _)) => Err(PortError::new(
            &PANICKED,
            format!("run step `{}`", step.name),
            "it panicked",
        )),
        Either::Right((Either::Left(_), _)) => Err(timed_out(op, step)),
        Either::Right((Either::Right(_), _)) => Err(cancelled(op)),
    };
    if outcome.is_err() {
        span.record("otel.status_code", "ERROR");
    }
    outcome
}

fn timed_out(op: &Op, step: &Step) -> PortError {
    let waiting = op.live.state().waiting.map(|waiting| waiting.for_what);
    let what = waiting.unwrap_or_else(|| "it did not finish".to_owned());
    PortError::new(
        &TOO_LATE,
        format!("finish step `{}` in time", step.name),
        what,
    )
}

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

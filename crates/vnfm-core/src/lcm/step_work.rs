//! Runs or undoes the work of a step: asks the NFVO, calls a hook, or calls the function in the operation's table.

use super::grant;
use super::hook_call;
use super::hook_credentials;
use super::op_context::Op;
use super::step::{Direction, Step, StepKind, Undo, journaled, silent, versioned};
use crate::ports::PortError;
use futures_util::future::{BoxFuture, ready};
use serde_json::Value;

/// Runs or undoes the step; the output with its version.
pub(super) fn perform<'a>(
    op: &'a Op,
    step: &Step,
    direction: Direction,
) -> BoxFuture<'a, Result<Value, PortError>> {
    let name = step.name;
    match (step.kind, direction) {
        (StepKind::Grant, Direction::Forward) => journaled(grant::ask(op)),
        (StepKind::Hook(inventory, _), Direction::Forward) => Box::pin(async move {
            let output = hook_call::run(op, name, &inventory(op)?).await?;
            versioned(name, 1, &output)
        }),
        (StepKind::Hook(inventory, _), Direction::Backward) => silent(async move {
            hook_call::undo(op, name, &inventory(op)?).await?;
            hook_credentials::revoke(op, name).await
        }),
        (StepKind::Work { run, .. }, Direction::Forward) => run(op),
        (StepKind::Work { undo, .. }, Direction::Backward) => match undo {
            Undo::By(undo) => undo(op),
            Undo::NotNeeded | Undo::Impossible => Box::pin(ready(Ok(Value::Null))),
        },
        (StepKind::Grant, Direction::Backward) => Box::pin(ready(Ok(Value::Null))),
    }
}

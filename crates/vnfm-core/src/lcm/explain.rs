//! What an operation is doing, why it waits, and what each possible action would do: for operators.

use super::operation::{self, Operation};
use super::step::Step;
use crate::context::Context;
use crate::ports::{JournalRow, OpRecord, StepStatus, StoreError};
use crate::running_ops::Stored;
use std::sync::Arc;
use vnfm_types::LcmOperationState::{self, FailedTemp, RollingBack, Starting};
use vnfm_types::{PossibleAction, Progress, RetryProgress, StepProgress};

/// The progress of one operation. While this process drives it, the last stored state comes from
/// memory; otherwise from the database.
pub(crate) async fn progress(
    context: &Context,
    operations: &[&'static Operation],
    tenant: &str,
    op_id: &str,
) -> Result<Progress, StoreError> {
    let live = context
        .live
        .get(op_id)
        .map(|live| live.state())
        .unwrap_or_default();
    let known = live
        .stored
        .clone()
        .filter(|it| it.record.op.operation_state.is_driven() && it.record.tenant == tenant);
    let (stored, undone) = match known {
        Some(stored) => (stored, String::new()), // a running operation offers no rollback
        None => read(context, operations, tenant, op_id).await?,
    };
    let Stored { record, journal } = &*stored;
    let open =
        |row: &&Arc<JournalRow>| matches!(row.status, StepStatus::Started | StepStatus::Undoing);
    let running = journal.iter().find(open);
    Ok(Progress {
        vnf_lcm_op_occ_id: op_id.to_owned(),
        operation_state: record.op.operation_state,
        step: live
            .step
            .map(ToOwned::to_owned)
            .or_else(|| running.map(|row| row.step.clone())),
        attempt: if live.step.is_some() {
            live.attempt
        } else {
            running.map_or(0, |row| row.attempt)
        },
        percent: live.percent,
        message: live.message,
        waiting: live.waiting,
        retry: running.and_then(|row| retry(row)),
        error: record.op.error.clone(),
        ways_on: next_actions(
            record,
            &undone,
            live.cancel.is_some(),
            live.ruled_out_by.as_deref(),
        ),
        steps: operation::find(operations, record.op.operation)
            .map(|operation| steps(context, operation, journal))
            .unwrap_or_default(),
    })
}

/// The failures of a step that is repeated.
fn retry(row: &JournalRow) -> Option<RetryProgress> {
    let retry = row.retry.as_ref()?;
    Some(RetryProgress {
        failures: retry.failures,
        next_at: row.ended_at.map(|_| retry.next_at),
        last_error: retry.last_error.clone(),
    })
}

/// The stored operation, and what a rollback would undo.
async fn read(
    context: &Context,
    operations: &[&'static Operation],
    tenant: &str,
    op_id: &str,
) -> Result<(Arc<Stored>, String), StoreError> {
    let record = context.store().op(tenant, op_id).await?;
    let journal = context.store().journal(op_id).await?;
    let undone = match operation::find(operations, record.op.operation) {
        // Only FAILED_TEMP offers a rollback.
        Some(operation) if record.op.operation_state == FailedTemp => {
            undoable_steps(operation, &journal)
        }
        Some(_) => String::new(),
        None => "nothing".to_owned(),
    };
    let journal = journal.into_iter().map(Arc::new).collect();
    Ok((
        Arc::new(Stored {
            record: Arc::new(record),
            journal,
        }),
        undone,
    ))
}

fn steps(
    context: &Context,
    operation: &Operation,
    journal: &[Arc<JournalRow>],
) -> Vec<StepProgress> {
    let step_progress = |step: &Step| {
        let row = journal.iter().find(|row| row.step == step.name);
        StepProgress {
            name: step.name.to_owned(),
            status: row
                .map_or("planned", |row| status_name(row.status))
                .to_owned(),
            started_at: row.map(|row| row.started_at),
            ended_at: row.and_then(|row| row.ended_at),
        }
    };
    // Without an NFVO the grant step is omitted.
    let is_shown = |step: &&Step| {
        let has_begun = || journal.iter().any(|row| row.step == step.name);
        !step.is_grant() || context.ports.nfvo.is_some() || has_begun()
    };
    operation
        .steps
        .iter()
        .filter(is_shown)
        .map(step_progress)
        .collect()
}

fn status_name(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Started => "started",
        StepStatus::Done => "done",
        StepStatus::Skipped => "skipped",
        StepStatus::Undoing => "undoing",
        StepStatus::Undone => "undone",
    }
}

/// What each possible action would do; `ruled_out_by` is the hook that has just ruled out a rollback.
fn next_actions(
    record: &OpRecord,
    undone: &str,
    cancelled: bool,
    ruled_out_by: Option<&str>,
) -> Vec<PossibleAction> {
    let state = record.op.operation_state;
    let stopped = state == FailedTemp;
    let error = record.op.error.as_ref();
    let at = error
        .and_then(|error| error.step.clone())
        .unwrap_or_default();
    let not_stopped = format!("needs FAILED_TEMP; the operation is {state}");
    let when_stopped = |what: String| if stopped { what } else { not_stopped.clone() };
    let rollback = match record.point_of_no_return.as_deref().or(ruled_out_by) {
        Some(step) => PossibleAction {
            task: "rollback".into(),
            allowed: false,
            what: format!("not possible: step `{step}` has begun and cannot be undone"),
        },
        None => PossibleAction {
            task: "rollback".into(),
            allowed: stopped,
            what: when_stopped(format!("undoes {undone}")),
        },
    };
    vec![
        PossibleAction {
            task: "cancel".into(),
            allowed: state.is_driven(),
            what: cancel(state, record.op.is_cancel_pending || cancelled),
        },
        PossibleAction {
            task: "retry".into(),
            allowed: stopped,
            what: when_stopped(format!(
                "continues at step `{at}`; completed steps are kept"
            )),
        },
        rollback,
        PossibleAction {
            task: "fail".into(),
            allowed: stopped,
            what: when_stopped(
                "ends the operation as FAILED; its resources stay until a terminate".into(),
            ),
        },
    ]
}

/// The steps that a rollback would undo, last first.
fn undoable_steps(operation: &Operation, journal: &[JournalRow]) -> String {
    let was_begun = |name: &str| {
        journal.iter().any(|row| {
            row.step == name && !matches!(row.status, StepStatus::Undone | StepStatus::Skipped)
        })
    };
    let can_undo = |step: &&Step| {
        let mut rows = journal.iter().filter(|row| row.step == step.name);
        !step.is_hook() || rows.any(|row| row.hook.as_ref().is_some_and(|hook| hook.can_undo))
    };
    let begun = operation
        .steps
        .iter()
        .rev()
        .filter(|step| step.has_undo() && was_begun(step.name));
    let names: Vec<_> = begun.filter(can_undo).map(|step| step.name).collect();
    if names.is_empty() {
        "nothing: no step has changed anything".into()
    } else {
        names.join(", ")
    }
}

fn cancel(state: LcmOperationState, requested: bool) -> String {
    match state {
        Starting => {
            "stops it before anything is changed, once a pending grant request is decided, or at once if FORCEFUL: \
             ROLLED_BACK"
                .into()
        }
        state if state.is_driven() && requested => "already requested".into(),
        RollingBack => "stops the rollback: FAILED_TEMP".into(),
        state if state.is_driven() => {
            "stops it after the running step, or at once if FORCEFUL: FAILED_TEMP".into()
        }
        state => format!("needs a running operation; it is {state}"),
    }
}

//! What an operation does, why it waits, and what each way on would do: for the operator who looks at it.

use super::{Operation, operation};
use crate::engine::Engine;
use crate::hooks;
use crate::ports::{JournalRow, OpRecord, StepStatus, StoreError};
use vnfm_types::LcmOperationState::{FailedTemp, RollingBack, Starting};
use vnfm_types::{Progress, StepProgress, WayOn};

/// The whole picture of one operation.
pub(crate) async fn progress(
    engine: &Engine,
    tenant: &str,
    op_id: &str,
) -> Result<Progress, StoreError> {
    let record = engine.store().op(tenant, op_id).await?;
    let journal = engine.store().journal(op_id).await?;
    let live = engine.live.of(op_id).map(|live| live.state()).unwrap_or_default();
    let running =
        journal.iter().find(|row| matches!(row.status, StepStatus::Started | StepStatus::Undoing));
    Ok(Progress {
        vnf_lcm_op_occ_id: op_id.to_owned(),
        operation_state: record.op.operation_state,
        step: live.step.map(ToOwned::to_owned).or_else(|| running.map(|row| row.step.clone())),
        attempt: if live.step.is_some() { live.attempt } else { running.map_or(0, |r| r.attempt) },
        percent: live.percent,
        message: live.message,
        waiting: live.waiting,
        error: record.op.error.clone(),
        ways_on: ways_on(&record, &begun(engine, &record, &journal).await?),
        steps: operation(record.op.operation).map(|o| steps(o, &journal)).unwrap_or_default(),
    })
}

fn steps(operation: &Operation, journal: &[JournalRow]) -> Vec<StepProgress> {
    let of = |name: &str| journal.iter().find(|row| row.step == name);
    let seen = |step: &super::Step| {
        let row = of(step.name);
        StepProgress {
            name: step.name.to_owned(),
            status: row.map_or("planned", |row| word(row.status)).to_owned(),
            started_at: row.map(|row| row.started_at),
            ended_at: row.and_then(|row| row.ended_at),
        }
    };
    operation.steps.iter().map(seen).collect()
}

fn word(status: StepStatus) -> &'static str {
    match status {
        StepStatus::Started => "started",
        StepStatus::Done => "done",
        StepStatus::Skipped => "skipped",
        StepStatus::Undoing => "undoing",
        StepStatus::Undone => "undone",
    }
}

fn ways_on(record: &OpRecord, undone: &str) -> Vec<WayOn> {
    let state = record.op.operation_state;
    let stopped = state == FailedTemp;
    let at = record.op.error.as_ref().and_then(|error| error.step.clone()).unwrap_or_default();
    let not_stopped = format!("needs FAILED_TEMP; the operation is {state}");
    let when_stopped = |what: String| if stopped { what } else { not_stopped.clone() };
    let rollback = match &record.point_of_no_return {
        Some(step) => WayOn {
            task: "rollback".into(),
            allowed: false,
            what: format!("no way back: step `{step}` has begun and cannot be undone"),
        },
        None => WayOn {
            task: "rollback".into(),
            allowed: stopped,
            what: when_stopped(format!("undoes {undone}")),
        },
    };
    vec![
        WayOn { task: "cancel".into(), allowed: state.is_driven(), what: cancel(record) },
        WayOn {
            task: "retry".into(),
            allowed: stopped,
            what: when_stopped(format!("goes on at step `{at}`; what is done stays as it is")),
        },
        rollback,
        WayOn {
            task: "fail".into(),
            allowed: stopped,
            what: when_stopped(
                "ends the operation as FAILED; what exists stays for a terminate".into(),
            ),
        },
    ]
}

/// What a rollback would undo, last first.
async fn begun(
    engine: &Engine,
    record: &OpRecord,
    journal: &[JournalRow],
) -> Result<String, StoreError> {
    let Some(operation) = operation(record.op.operation) else { return Ok("nothing".into()) };
    let was_begun = |name: &str| {
        journal.iter().any(|row| {
            row.step == name && !matches!(row.status, StepStatus::Undone | StepStatus::Skipped)
        })
    };
    let mut names = Vec::new();
    for step in operation.steps.iter().rev().filter(|s| s.undo.is_some() && was_begun(s.name)) {
        if !step.hook || hooks::can_be_undone(engine.store(), &record.op.id, step.name).await? {
            names.push(step.name);
        }
    }
    Ok(if names.is_empty() {
        "nothing: no step has changed anything".into()
    } else {
        names.join(", ")
    })
}

fn cancel(record: &OpRecord) -> String {
    match record.op.operation_state {
        Starting => "stops it before anything is changed: ROLLED_BACK".into(),
        state if state.is_driven() && record.op.is_cancel_pending => "is asked for already".into(),
        RollingBack => "stops the rollback: FAILED_TEMP".into(),
        state if state.is_driven() => {
            "stops it after the running step, or at once if FORCEFUL: FAILED_TEMP".into()
        }
        state => format!("needs a running operation; it is {state}"),
    }
}

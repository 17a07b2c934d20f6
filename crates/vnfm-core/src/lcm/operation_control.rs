//! How an operation begins, and how it is controlled from there: retry, rollback, fail (SOL003 5.4.14 to 5.4.16), cancel
//! (5.4.17). Each is one transaction conditional on the state, so only one of two concurrent requests succeeds.

use super::Op;
use super::notification::{Status, notification};
use super::transition::transition;
use crate::deployment::Deployment;
use crate::engine::Engine;
use crate::overrides::{Override, SkipHooks};
use crate::ports::{Change, Fence, InstanceRecord, OpControl, OpRecord, SecretJson, StoreError};
use crate::refusal::{self, Refusal, Why};
use serde_json::Value;
use std::sync::Arc;
use vnfm_types::LcmOperationState::{self, Failed, FailedTemp, Processing, RollingBack};
use vnfm_types::{CancelMode, LcmOperationType, VnfLcmOpOcc};

/// A new operation, before it is written.
pub(crate) struct Beginning {
    pub(crate) kind: LcmOperationType,
    /// The request with its secrets.
    pub(crate) request: Value,
    /// The request as shown to clients, redacted.
    pub(crate) redacted: Value,
    /// Other changes in the same transaction.
    pub(crate) changes: Vec<Change>,
    /// The instance's deployment once the operation is COMPLETED.
    pub(crate) target: Option<Arc<Deployment>>,
    pub(crate) skip: Option<SkipHooks>,
}

/// Writes the occurrence in its initial state, the instance's one active operation, and the first notification.
pub(crate) async fn begin(
    engine: &Engine,
    instance: InstanceRecord,
    beginning: Beginning,
) -> Result<String, Refusal> {
    let now = engine.parts.clock.now();
    let mut beginning = beginning;
    let skip = beginning.skip.take().filter(|skip| !skip.hooks.is_empty());
    let record = new_record(engine, &instance, &mut beginning, skip.as_ref());
    let id = record.op.id.clone();
    let first = notification(&record, &instance, (Status::Start, now));
    if let Some(SkipHooks { hooks, act }) = skip {
        let kind = beginning.kind.as_str().to_lowercase();
        let what = format!("vnf {kind} --skip-hook {}", hooks.join(" --skip-hook "));
        let on = (
            instance.vnf.id.as_str(),
            instance.vnf.vnf_instance_name.clone(),
        );
        beginning
            .changes
            .push(act.audit(engine, &instance.tenant, what, on));
    }
    // The instance is written unchanged, so that a concurrent change of its state is detected.
    let mut changes = vec![
        Change::AddOp(Box::new(record)),
        Change::PutInstance(Box::new(instance)),
    ];
    changes.extend(
        beginning
            .changes
            .into_iter()
            .map(|change| with_op_id(change, &id)),
    );
    changes.push(Change::Outbox(Box::new(first)));
    if engine.is_trial {
        return check_writable(engine, changes, &id).await.map(|()| id);
    }
    engine.store().write(None, changes).await?;
    engine
        .observer
        .entered(beginning.kind, beginning.kind.initial_state());
    Ok(id)
}

/// The record of a new operation in its initial state.
fn new_record(
    engine: &Engine,
    instance: &InstanceRecord,
    beginning: &mut Beginning,
    skip: Option<&SkipHooks>,
) -> OpRecord {
    let now = engine.parts.clock.now();
    let skipped = skip.map(|skip| skip.hooks.clone()).unwrap_or_default();
    let warning = |hook: &String| format!("hook `{hook}` was skipped");
    let op = VnfLcmOpOcc {
        id: uuid::Uuid::new_v4().to_string(),
        operation_state: beginning.kind.initial_state(),
        state_entered_time: now,
        start_time: now,
        vnf_instance_id: instance.vnf.id.clone(),
        grant_id: None,
        operation: beginning.kind,
        is_automatic_invocation: false,
        operation_params: Some(std::mem::take(&mut beginning.redacted)),
        is_cancel_pending: false,
        cancel_mode: None,
        error: None,
        resource_changes: None,
        changed_info: None,
        warnings: skipped.iter().map(warning).collect(),
        links: None,
    };
    OpRecord {
        tenant: instance.tenant.clone(),
        op,
        request: SecretJson::from(std::mem::take(&mut beginning.request)),
        before: instance.deployment.clone(),
        target: beginning.target.take(),
        control: OpControl {
            skip_hooks: skipped,
            api_version: engine.api_version,
        },
        point_of_no_return: None,
        epoch: 0,
    }
}

/// Checks whether `changes` could be written: a last change that always fails undoes all of them.
async fn check_writable(
    engine: &Engine,
    mut changes: Vec<Change>,
    id: &str,
) -> Result<(), Refusal> {
    let trial_id = format!("{id} (trial)");
    changes.push(Change::Cancel {
        op_id: trial_id.clone(),
        mode: CancelMode::Graceful,
    });
    match engine.store().write(None, changes).await {
        Err(StoreError::NotFound { id, .. }) if id == trial_id => Ok(()),
        Err(error) => Err(error.into()),
        Ok(()) => Err(StoreError::Broken("a trial was written".to_owned()).into()),
    }
}

/// Adds the operation's id to a change that belongs to it.
fn with_op_id(change: Change, id: &str) -> Change {
    match change {
        Change::MarkVimsLeaving {
            tenant,
            instance_id,
            ..
        } => Change::MarkVimsLeaving {
            tenant,
            instance_id,
            op_id: id.to_owned(),
        },
        other => other,
    }
}

impl Engine {
    /// Retries a FAILED_TEMP operation, continuing at the step that failed.
    ///
    /// # Errors
    ///
    /// `Conflict` if it is not FAILED_TEMP.
    pub async fn retry(&self, tenant: &str, op_id: &str) -> Result<(), Refusal> {
        self.leave_failed_temp(tenant, op_id, Processing, None)
            .await
    }

    /// Rolls a FAILED_TEMP operation back: undoes every step that has begun, last first.
    ///
    /// # Errors
    ///
    /// `Conflict` if it is not FAILED_TEMP, or if a step that cannot be undone has begun.
    pub async fn rollback(&self, tenant: &str, op_id: &str) -> Result<(), Refusal> {
        let record = self.store().op(tenant, op_id).await?;
        if let (FailedTemp, Some(step)) = (record.op.operation_state, &record.point_of_no_return) {
            let what =
                format!("operation `{op_id}` has begun step `{step}`, which cannot be undone");
            return Err(Refusal::new(Why::Conflict, &refusal::IRREVERSIBLE, what));
        }
        self.leave_failed_temp(tenant, op_id, RollingBack, None)
            .await
    }

    /// Fails a FAILED_TEMP operation for good; its resources stay, and a later terminate cleans up.
    ///
    /// # Errors
    ///
    /// `Conflict` if it is not FAILED_TEMP.
    pub async fn fail(&self, tenant: &str, op_id: &str) -> Result<(), Refusal> {
        self.leave_failed_temp(tenant, op_id, Failed, None).await
    }

    /// As [`Engine::fail`], with an audit entry that says who and why.
    ///
    /// # Errors
    ///
    /// As [`Engine::fail`].
    pub async fn fail_by(&self, tenant: &str, op_id: &str, act: Override) -> Result<(), Refusal> {
        let audit = act.audit(self, tenant, "op fail", (op_id, None));
        self.leave_failed_temp(tenant, op_id, Failed, Some(audit))
            .await
    }

    /// Cancels an operation: the process that drives it stops after the running step, or at once if `Forceful`.
    ///
    /// # Errors
    /// `Conflict` if it is not STARTING, PROCESSING or ROLLING_BACK.
    /// `Conflict` if it is not STARTING, PROCESSING or ROLLING_BACK.
    pub async fn cancel(&self, tenant: &str, op_id: &str, mode: CancelMode) -> Result<(), Refusal> {
        self.cancel_and(tenant, op_id, mode, None).await
    }

    /// As [`Engine::cancel`], with an audit entry that says who and why.
    ///
    /// # Errors
    ///
    /// As [`Engine::cancel`].
    pub async fn cancel_by(
        &self,
        tenant: &str,
        op_id: &str,
        mode: CancelMode,
        act: Override,
    ) -> Result<(), Refusal> {
        let what = match mode {
            CancelMode::Forceful => "op cancel --forceful",
            CancelMode::Graceful => "op cancel",
        };
        let audit = act.audit(self, tenant, what, (op_id, None));
        self.cancel_and(tenant, op_id, mode, Some(audit)).await
    }

    async fn cancel_and(
        &self,
        tenant: &str,
        op_id: &str,
        mode: CancelMode,
        audit: Option<Change>,
    ) -> Result<(), Refusal> {
        let state = self.store().op(tenant, op_id).await?.op.operation_state;
        if !state.is_driven() {
            return Err(wrong_state(
                op_id,
                state,
                "STARTING, PROCESSING or ROLLING_BACK",
            ));
        }
        let change = Change::Cancel {
            op_id: op_id.to_owned(),
            mode,
        };
        self.store()
            .write(None, [Some(change), audit].into_iter().flatten().collect())
            .await?;
        if let Some(live) = self.live.get(op_id) {
            live.cancel(mode);
        }
        Ok(())
    }

    async fn leave_failed_temp(
        &self,
        tenant: &str,
        op_id: &str,
        next: LcmOperationState,
        audit: Option<Change>,
    ) -> Result<(), Refusal> {
        let record = self.store().op(tenant, op_id).await?;
        let state = record.op.operation_state;
        if state != FailedTemp {
            return Err(wrong_state(op_id, state, "FAILED_TEMP"));
        }
        let fence = Fence {
            op_id: op_id.to_owned(),
            epoch: record.epoch,
        };
        let op = Op::load(self, tenant, fence).await?;
        self.live.remove(op_id);
        let (_, mut changes) = transition(&op, next, None)?;
        changes.extend(audit);
        match self.store().write(None, changes).await {
            Err(StoreError::WrongState { found, .. }) => {
                let what = format!("operation `{op_id}` is already {found}");
                Err(Refusal::new(Why::Conflict, &refusal::WRONG_STATE, what))
            }
            outcome => {
                outcome?;
                self.observer.entered(record.op.operation, next);
                Ok(())
            }
        }
    }
}

fn wrong_state(op_id: &str, state: LcmOperationState, needed: &str) -> Refusal {
    let what = format!("operation `{op_id}` is {state}; this requires {needed}");
    Refusal::new(Why::Conflict, &refusal::WRONG_STATE, what)
}

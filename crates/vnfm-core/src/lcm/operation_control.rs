//! How an operation begins, and how it is controlled from there: retry, rollback, fail (SOL003 5.4.14 to 5.4.16), cancel
//! (5.4.17). Each is one transaction conditional on the state, so only one of two concurrent requests succeeds.

use super::Op;
use super::operation::{Operation, Target};
use super::transition::{self, transition};
use crate::engine::Engine;
use crate::overrides::{Override, SkipHooks};
use crate::ports::{Change, Fence, InstanceRecord, OpControl, OpRecord, SecretJson, StoreError};
use crate::refusal::{self, Refusal, Why};
use serde_json::Value;
use vnfm_types::LcmOperationState::{self, Failed, FailedTemp, Processing, RollingBack};
use vnfm_types::{CancelMode, VnfLcmOpOcc};

/// A new operation, before it is written.
pub(super) struct Beginning {
    pub(super) operation: &'static Operation,
    pub(super) id: String,
    pub(super) target: Target,
    /// The request as shown to clients.
    pub(super) redacted: Value,
    pub(super) skip: Option<SkipHooks>,
}

/// Writes the occurrence in its initial state, the instance's one active operation, and the first notification.
pub(super) async fn begin(
    engine: &Engine,
    instance: InstanceRecord,
    beginning: Beginning,
) -> Result<String, Refusal> {
    let (kind, id) = (beginning.operation.kind, beginning.id.clone());
    let changes = first_changes(engine, instance, beginning);
    let written = engine.store().write(None, changes).await;
    written.map_err(not_begun)?;
    engine.observer.entered(kind, kind.initial_state());
    Ok(id)
}

/// The refusal of an operation that cannot begin: lists the live VNFs on a cluster that it would take away.
fn not_begun(error: StoreError) -> Refusal {
    let refusal = Refusal::from(error);
    if refusal.code != &refusal::IN_USE {
        return refusal;
    }
    let list = refusal.blocked_by.join(", ");
    let count = refusal.blocked_by.len();
    let detail = format!("{count} live VNF instance(s) run on the cluster of this one: {list}");
    Refusal { detail, ..refusal }
}

/// The transaction that begins the operation.
fn first_changes(
    engine: &Engine,
    instance: InstanceRecord,
    mut beginning: Beginning,
) -> Vec<Change> {
    let mut also = std::mem::take(&mut beginning.target.changes);
    beginning.skip = beginning.skip.filter(|skip| !skip.hooks.is_empty());
    if let Some(SkipHooks { hooks, act }) = &beginning.skip {
        let command = beginning
            .operation
            .task
            .unwrap_or("modify")
            .replace('_', "-");
        let what = format!("vnf {command} --skip-hook {}", hooks.join(" --skip-hook "));
        let on = (
            instance.vnf.id.as_str(),
            instance.vnf.vnf_instance_name.clone(),
        );
        also.push(act.audit(engine, &instance.tenant, what, on));
    }
    let record = new_record(engine, &instance, beginning);
    transition::begin(record, instance, also)
}

/// The record of a new operation in its initial state.
fn new_record(engine: &Engine, instance: &InstanceRecord, beginning: Beginning) -> OpRecord {
    let (now, kind) = (engine.parts.clock.now(), beginning.operation.kind);
    let skipped = beginning.skip.map(|skip| skip.hooks).unwrap_or_default();
    let warning = |hook: &String| format!("hook `{hook}` was skipped");
    let op = VnfLcmOpOcc {
        id: beginning.id,
        operation_state: kind.initial_state(),
        state_entered_time: now,
        start_time: now,
        vnf_instance_id: instance.vnf.id.clone(),
        grant_id: None,
        operation: kind,
        is_automatic_invocation: false,
        operation_params: Some(beginning.redacted),
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
        request: SecretJson::from(beginning.target.body),
        before: instance.deployment.clone(),
        target: beginning.target.deployment,
        control: OpControl {
            skip_hooks: skipped,
            api_version: engine.api_version,
        },
        point_of_no_return: None,
        epoch: 0,
    }
}

/// Checks whether the operation could begin: a last change that always fails undoes all of them.
pub(super) async fn try_to_begin(
    engine: &Engine,
    instance: InstanceRecord,
    beginning: Beginning,
) -> Result<(), Refusal> {
    let trial_id = format!("{} (trial)", beginning.id);
    let mut changes = first_changes(engine, instance, beginning);
    changes.push(Change::Cancel {
        op_id: trial_id.clone(),
        mode: CancelMode::Graceful,
    });
    match engine.store().write(None, changes).await {
        Err(StoreError::NotFound { id, .. }) if id == trial_id => Ok(()),
        Err(error) => Err(not_begun(error)),
        Ok(()) => Err(StoreError::Broken("a trial was written".to_owned()).into()),
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
    /// Those of [`Engine::fail`]: the operation is not in FAILED_TEMP.
    pub async fn fail_by(&self, tenant: &str, op_id: &str, act: Override) -> Result<(), Refusal> {
        let audit = act.audit(self, tenant, "op fail", (op_id, None));
        self.leave_failed_temp(tenant, op_id, Failed, Some(audit))
            .await
    }

    /// Cancels an operation: the process that drives it stops after the running step, or at once if `Forceful`.
    ///
    /// # Errors
    /// `Conflict` if it is not STARTING, PROCESSING or ROLLING_BACK.
    pub async fn cancel(&self, tenant: &str, op_id: &str, mode: CancelMode) -> Result<(), Refusal> {
        self.cancel_and(tenant, op_id, mode, None).await
    }

    /// As [`Engine::cancel`], with an audit entry that says who and why.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::cancel`]: its state does not allow it.
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

//! How an operation begins, and how it is controlled from there: retry, rollback, fail (SOL003 5.4.14 to 5.4.16), cancel
//! (5.4.17). Each is one transaction conditional on the state, so only one of two concurrent requests succeeds.

use super::load::load;
use super::operation::{Operation, Target};
use super::transition::{self, transition};
use crate::context::Context;
use crate::overrides::{Overridden, Override, SkipHooks};
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
    pub(super) cascade: bool,
    pub(super) automatic: bool,
}

/// Writes the occurrence in its initial state, the instance's one active operation, and the first notification.
///
/// # Errors
///
/// `Changed` if the record is no longer `instance`; see [`not_begun`] for the others.
pub(super) async fn begin(
    context: &Context,
    instance: InstanceRecord,
    beginning: Beginning,
) -> Result<String, StoreError> {
    let (kind, id) = (beginning.operation.kind, beginning.id.clone());
    let changes = first_changes(context, instance, beginning);
    context.store().write(None, changes).await?;
    context.observer.entered(kind, kind.initial_state());
    Ok(id)
}

/// The refusal of an operation that cannot begin: lists the live VNFs on a cluster that it would take away.
pub(super) fn not_begun(error: StoreError) -> Refusal {
    let refusal = Refusal::from(error);
    if refusal.code != &refusal::IN_USE {
        return refusal;
    }
    let list = refusal.blocked_by.join(", ");
    let count = refusal.blocked_by.len();
    let detail = format!("{count} live VNF instance(s) run on the cluster of this one: {list}");
    let hint = "terminate and delete those first; or terminate them together with this one: `vnfmctl vnf terminate VNF \
                --cascade`, `X-Vnfm-Cascade: true`";
    Refusal { detail, ..refusal }.hint(hint)
}

/// The transaction that begins the operation.
fn first_changes(
    context: &Context,
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
        let overridden = Overridden {
            tenant: &instance.tenant,
            what: &what,
            target: &instance.vnf.id,
            name: instance.vnf.vnf_instance_name.clone(),
        };
        also.push(act.audit(overridden, context.now()));
    }
    let record = new_record(context, &instance, beginning);
    transition::begin(record, instance, also)
}

/// The record of a new operation in its initial state.
fn new_record(context: &Context, instance: &InstanceRecord, beginning: Beginning) -> OpRecord {
    let (now, kind) = (context.now(), beginning.operation.kind);
    let skipped = beginning.skip.map(|skip| skip.hooks).unwrap_or_default();
    let snapshot = beginning.target.snapshot.as_ref();
    let snapshot = snapshot.map(|snapshot| snapshot.id().to_owned());
    let warning = |hook: &String| format!("hook `{hook}` was skipped");
    let op = VnfLcmOpOcc {
        id: beginning.id,
        operation_state: kind.initial_state(),
        state_entered_time: now,
        start_time: now,
        vnf_instance_id: instance.vnf.id.clone(),
        grant_id: None,
        operation: kind,
        is_automatic_invocation: beginning.automatic,
        operation_params: Some(beginning.redacted),
        is_cancel_pending: false,
        cancel_mode: None,
        error: None,
        resource_changes: None,
        changed_info: None,
        changed_ext_connectivity: Vec::new(),
        modifications_triggered_by_vnf_pkg_change: None,
        vnf_snapshot_info_id: snapshot,
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
            cascade: beginning.cascade,
            retain: beginning.target.retain,
            api_version: context.api_version,
        },
        point_of_no_return: None,
        epoch: 0,
    }
}

/// Checks whether the operation could begin: a last change that always fails undoes all of them.
pub(super) async fn try_to_begin(
    context: &Context,
    instance: InstanceRecord,
    beginning: Beginning,
) -> Result<(), Refusal> {
    let trial_id = format!("{} (trial)", beginning.id);
    let mut changes = first_changes(context, instance, beginning);
    changes.push(Change::Cancel {
        op_id: trial_id.clone(),
        mode: CancelMode::Graceful,
    });
    match context.store().write(None, changes).await {
        Err(StoreError::NotFound { id, .. }) if id == trial_id => Ok(()),
        Err(error) => Err(not_begun(error)),
        Ok(()) => Err(StoreError::Broken("a trial was written".to_owned()).into()),
    }
}

/// An operation that a caller controls.
pub(crate) struct Control<'a> {
    pub(crate) context: &'a Context,
    /// The operations that the engine knows.
    pub(crate) operations: &'a [&'static Operation],
    pub(crate) tenant: &'a str,
    pub(crate) op_id: &'a str,
}

impl Control<'_> {
    /// Continues at the step that failed.
    pub(crate) async fn retry(&self) -> Result<(), Refusal> {
        self.leave_failed_temp(Processing, None).await
    }

    /// Undoes every step that has begun, last first.
    pub(crate) async fn rollback(&self) -> Result<(), Refusal> {
        let op_id = self.op_id;
        let record = self.context.store().op(self.tenant, op_id).await?;
        if let (FailedTemp, Some(step)) = (record.op.operation_state, &record.point_of_no_return) {
            let what =
                format!("operation `{op_id}` has begun step `{step}`, which cannot be undone");
            return Err(Refusal::new(Why::Conflict, &refusal::IRREVERSIBLE, what));
        }
        self.leave_failed_temp(RollingBack, None).await
    }

    /// Ends the operation as FAILED; its resources stay.
    pub(crate) async fn fail(&self, act: Option<&Override>) -> Result<(), Refusal> {
        let audit = act.map(|act| self.audit(act, "op fail"));
        self.leave_failed_temp(Failed, audit).await
    }

    /// Stops the operation after the running step, or at once.
    pub(crate) async fn cancel(
        &self,
        mode: CancelMode,
        act: Option<&Override>,
    ) -> Result<(), Refusal> {
        let (store, op_id) = (self.context.store(), self.op_id);
        let state = store.op(self.tenant, op_id).await?.op.operation_state;
        if !state.is_driven() {
            let needed = "STARTING, PROCESSING or ROLLING_BACK";
            return Err(wrong_state(op_id, state, needed));
        }
        let change = Change::Cancel {
            op_id: op_id.to_owned(),
            mode,
        };
        let what = match mode {
            CancelMode::Forceful => "op cancel --forceful",
            CancelMode::Graceful => "op cancel",
        };
        let audit = act.map(|act| self.audit(act, what));
        let changes = [Some(change), audit].into_iter().flatten().collect();
        store.write(None, changes).await?;
        if let Some(live) = self.context.live.get(op_id) {
            live.cancel(mode);
        }
        Ok(())
    }

    fn audit(&self, act: &Override, what: &str) -> Change {
        let overridden = Overridden {
            tenant: self.tenant,
            what,
            target: self.op_id,
            name: None,
        };
        act.audit(overridden, self.context.now())
    }

    async fn leave_failed_temp(
        &self,
        next: LcmOperationState,
        audit: Option<Change>,
    ) -> Result<(), Refusal> {
        let (context, tenant, op_id) = (self.context, self.tenant, self.op_id);
        let record = context.store().op(tenant, op_id).await?;
        let state = record.op.operation_state;
        if state != FailedTemp {
            return Err(wrong_state(op_id, state, "FAILED_TEMP"));
        }
        let fence = Fence {
            op_id: op_id.to_owned(),
            epoch: record.epoch,
        };
        let op = load(context, self.operations, tenant, fence).await?;
        context.live.remove(op_id, &op.live);
        let (_, mut changes) = transition(&op, next, None)?;
        changes.extend(audit);
        match context.store().write(None, changes).await {
            Err(StoreError::WrongState { found, .. }) => {
                let what = format!("operation `{op_id}` is already {found}");
                Err(Refusal::new(Why::Conflict, &refusal::WRONG_STATE, what))
            }
            outcome => {
                outcome?;
                context.observer.entered(record.op.operation, next);
                Ok(())
            }
        }
    }
}

fn wrong_state(op_id: &str, state: LcmOperationState, needed: &str) -> Refusal {
    let what = format!("operation `{op_id}` is {state}; this requires {needed}");
    Refusal::new(Why::Conflict, &refusal::WRONG_STATE, what)
}

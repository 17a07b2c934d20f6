//! The one writer of operation states: how an occurrence begins, and each later change of its state, with what
//! belongs into the same transaction.

use super::notification::{Status, notification};
use super::op_context::Op;
use super::operation::Completion;
use super::step_journal::{store, stored};
use crate::ports::{Change, InstanceRecord, OpRecord, StoreError};
use futures_util::future;
use jiff::Timestamp;
use std::sync::Arc;
use vnfm_types::LcmOperationState::{Completed, FailedTemp, RollingBack};
use vnfm_types::{CancelMode, LcmOperationState, ProblemDetails};

/// A change of an operation's state.
#[derive(Default)]
pub(crate) struct Transition {
    /// Why it stopped; `None`: the previous error stays.
    pub(crate) error: Option<ProblemDetails>,
    /// The cancel request that is still pending in the new state.
    pub(crate) cancel: Option<CancelMode>,
    /// What else the new state writes.
    pub(crate) completion: Completion,
}

impl Transition {
    /// The record in state `next`, and the changes that write it: compare-and-set of the state,
    /// the completion and the notification.
    ///
    /// # Errors
    ///
    /// [`StoreError::WrongState`] if the table of states has no such transition.
    pub(crate) fn apply(
        self,
        next: LcmOperationState,
        before: &OpRecord,
        instance: &InstanceRecord,
        now: Timestamp,
    ) -> Result<(Arc<OpRecord>, Vec<Change>), StoreError> {
        let from = before.op.operation_state;
        if !from.can_become(next) {
            return Err(StoreError::WrongState {
                what: "operation",
                id: before.op.id.clone(),
                found: from.as_str().to_owned(),
            });
        }
        let Self {
            error,
            cancel,
            completion,
        } = self;
        let mut record = before.clone();
        let op = &mut record.op;
        op.operation_state = next;
        op.state_entered_time = now;
        op.cancel_mode = cancel.filter(|_| next.is_driven());
        op.is_cancel_pending = op.cancel_mode.is_some();
        // Once an operation has stopped, its error stays during retry and rollback, and is reported again with
        // ROLLED_BACK (SOL003 5.5.2.13, 5.5.2.17); only success clears it.
        op.error = error.or(op.error.take()).filter(|_| next != Completed);
        op.resource_changes = completion.resource_changes.or(op.resource_changes.take());
        op.changed_info = completion.changed_info.or(op.changed_info.take());
        let modifications = op.modifications_triggered_by_vnf_pkg_change.take();
        op.modifications_triggered_by_vnf_pkg_change = completion.modifications.or(modifications);
        if !completion.changed_ext_connectivity.is_empty() {
            op.changed_ext_connectivity = completion.changed_ext_connectivity;
        }
        let record = Arc::new(record);
        let instance_after = completion.instance.map(Box::new);
        let mut changes: Vec<_> = instance_after
            .map(Change::PutInstance)
            .into_iter()
            .collect();
        changes.extend(completion.changes);
        changes.push(Change::PutOp {
            record: record.clone(),
            from,
        });
        let event = notification(&record, instance, Status::Result, now);
        changes.push(Change::Outbox(Box::new(event)));
        Ok((record, changes))
    }
}

/// The changes that begin an operation in its initial state. The instance is written unchanged, so that a concurrent
/// change of its state is detected.
pub(super) fn begin(record: OpRecord, instance: InstanceRecord, also: Vec<Change>) -> Vec<Change> {
    let event = notification(&record, &instance, Status::Start, record.op.start_time);
    let mut changes = vec![
        Change::AddOp(Box::new(record)),
        Change::PutInstance(Box::new(instance)),
    ];
    changes.extend(also);
    changes.push(Change::Outbox(Box::new(event)));
    changes
}

/// The changes that bring a loaded operation into state `next`, with what its row writes for that state.
pub(super) fn transition(
    op: &Op,
    next: LcmOperationState,
    error: Option<ProblemDetails>,
) -> Result<(Arc<OpRecord>, Vec<Change>), StoreError> {
    let completion = if next.is_final() || next == FailedTemp {
        (op.operation.finish)(op, next).map_err(|error| StoreError::Broken(error.to_string()))?
    } else {
        Completion::default()
    };
    let transition = Transition {
        error,
        cancel: op.live.cancel_mode(),
        completion,
    };
    transition.apply(next, &op.record, &op.instance, op.clock().now())
}

/// Brings a driven operation into state `next`, in one transaction with the end of its last step.
pub(super) async fn enter(
    op: &mut Op,
    next: LcmOperationState,
    error: Option<ProblemDetails>,
) -> Result<(), StoreError> {
    enter_with(op, next, error, None).await
}

/// As [`enter`], with another change in the same transaction.
pub(super) async fn enter_with(
    op: &mut Op,
    next: LcmOperationState,
    error: Option<ProblemDetails>,
    also: Option<Change>,
) -> Result<(), StoreError> {
    let (record, mut changes) = transition(op, next, error)?;
    changes.splice(0..0, also);
    written(op, record, changes).await
}

/// Brings a driven operation through FAILED_TEMP into ROLLING_BACK, in one transaction: both states are reported, and no
/// process can die in between.
pub(super) async fn roll_back(
    op: &mut Op,
    error: ProblemDetails,
    also: Option<Change>,
) -> Result<(), StoreError> {
    let from = op.record.op.operation_state;
    let (stopped, mut changes) = transition(op, FailedTemp, Some(error))?;
    // Written as one change of the operation, because its lease would end in FAILED_TEMP.
    changes.retain(|change| !matches!(change, Change::PutOp { .. }));
    changes.splice(0..0, also);
    let now = op.clock().now();
    let next = Transition::default().apply(RollingBack, &stopped, &op.instance, now)?;
    let (record, going_back) = next;
    changes.extend(going_back.into_iter().map(|change| match change {
        Change::PutOp { record, .. } => Change::PutOp { record, from },
        other => other,
    }));
    op.context.observer.entered(record.op.operation, FailedTemp);
    super::state_log::log_state(&stopped.op);
    written(op, record, changes).await?;
    // As the completion of FAILED_TEMP wrote it.
    let store = op.context.store();
    op.instance = store.instance(op.tenant(), &op.instance.vnf.id).await?;
    Ok(())
}

/// Writes the new state of a driven operation.
async fn written(
    op: &mut Op,
    record: Arc<OpRecord>,
    changes: Vec<Change>,
) -> Result<(), StoreError> {
    // Log lines are queued at the same moment, and so share the transaction.
    let (context, live, id) = (op.context.clone(), op.live.clone(), op.fence.op_id.clone());
    let logged = live.store_log(context.store(), &id);
    let (entered, ()) = future::join(store(op, changes), logged).await;
    entered?;
    let (kind, state) = (record.op.operation, record.op.operation_state);
    op.context.observer.entered(kind, state);
    super::state_log::log_state(&record.op);
    op.record = record;
    op.live.set_stored(stored(op));
    Ok(())
}

//! State changes of a driven operation: the new state, its completion and its notification, in one transaction.

use super::Completion;
use super::notification::{Status, notification};
use super::op::Op;
use super::runner::{store, stored};
use crate::ports::{Change, OpRecord, StoreError};
use futures_util::future;
use std::sync::Arc;
use vnfm_types::LcmOperationState::{Completed, FailedTemp};
use vnfm_types::{LcmOperationState, ProblemDetails};

/// The only place that changes the state of a driven operation: compare-and-set, the operation's completion and the
/// notification, in one transaction.
pub(crate) async fn enter(
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
    // Log lines are queued at the same moment, and so share the transaction.
    let (engine, live, id) = (op.engine.clone(), op.live.clone(), op.fence.op_id.clone());
    let logged = live.store_log(engine.store(), &id);
    let (entered, ()) = future::join(store(op, changes), logged).await;
    entered?;
    op.engine.observer.entered(record.op.operation, next);
    super::state_log::log_state(&record.op);
    op.record = record;
    op.live.set_stored(stored(op));
    Ok(())
}

/// The changes that bring `op` into state `next`.
pub(crate) fn transition(
    op: &Op,
    next: LcmOperationState,
    error: Option<ProblemDetails>,
) -> Result<(Arc<OpRecord>, Vec<Change>), StoreError> {
    let from = op.record.op.operation_state;
    let id = &op.record.op.id;
    if !from.can_become(next) {
        let found = from.as_str().to_owned();
        return Err(StoreError::WrongState {
            what: "operation",
            id: id.clone(),
            found,
        });
    }
    let mut record = OpRecord::clone(&op.record);
    record.op.operation_state = next;
    record.op.state_entered_time = op.clock().now();
    record.op.cancel_mode = op.live.cancel_mode().filter(|_| next.is_driven());
    record.op.is_cancel_pending = record.op.cancel_mode.is_some();
    // Once an operation has stopped, its error stays during retry and rollback, and is reported again with ROLLED_BACK
    // (SOL003 5.5.2.13, 5.5.2.17); only success clears it.
    record.op.error = error.or(record.op.error).filter(|_| next != Completed);
    let mut changes = Vec::new();
    if next.is_final() || next == FailedTemp {
        let completion = finish(op, next)?;
        record.op.resource_changes = completion.resource_changes.or(record.op.resource_changes);
        record.op.changed_info = completion.changed_info.or(record.op.changed_info);
        changes.extend(
            completion
                .instance
                .map(|i| Change::PutInstance(Box::new(i))),
        );
        changes.extend(completion.changes);
    }
    let record = Arc::new(record);
    changes.push(Change::PutOp {
        record: record.clone(),
        from,
    });
    let event = (Status::Result, op.clock().now());
    changes.push(Change::Outbox(Box::new(notification(
        &record,
        &op.instance,
        event,
    ))));
    Ok((record, changes))
}

fn finish(op: &Op, next: LcmOperationState) -> Result<Completion, StoreError> {
    match super::operation(op.record.op.operation) {
        Some(operation) => {
            (operation.finish)(op, next).map_err(|e| StoreError::Broken(e.to_string()))
        }
        None => Ok(Completion::default()),
    }
}

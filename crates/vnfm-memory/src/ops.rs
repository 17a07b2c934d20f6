//! Operation occurrences, with journals, checkpoints and leases.

use crate::instances::{self, busy};
use crate::packages_and_outbox;
use crate::state::{OpRow, State, Three, absent};
use crate::vims;
use jiff::{SignedDuration, Timestamp};
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{
    Claim, Fence, JournalRow, OpRecord, OpenStep, SecretJson, StepStatus, StoreError,
};
use vnfm_types::{CancelMode, LcmOperationState};

const WHAT: &str = "operation";

pub(crate) fn find(state: &State, tenant: &str, id: &str) -> Result<Arc<OpRow>, StoreError> {
    let row = state
        .ops
        .share(&id.to_owned())
        .filter(|row| row.record.tenant == tenant);
    row.ok_or_else(|| absent(WHAT, id))
}

/// The record with epoch and state of cancellation.
pub(crate) fn record_of(row: &OpRow) -> OpRecord {
    let mut record = OpRecord {
        epoch: row.epoch,
        ..OpRecord::clone(&row.record)
    };
    record.op.cancel_mode = row.cancel;
    record.op.is_cancel_pending = row.cancel.is_some();
    record
}

/// Adds an operation as the active one of its instance.
pub(crate) fn add(state: &mut State, record: OpRecord, now: Timestamp) -> Result<(), StoreError> {
    let (id, instance_id) = (record.op.id.clone(), record.op.vnf_instance_id.clone());
    if let Some(next) = record.next_package() {
        packages_and_outbox::package(state, &record.tenant, next)?;
    }
    let instance = instances::find(state, &record.tenant, &instance_id)?;
    if let Some(other) = &instance.active_op {
        return Err(busy(&instance_id, other));
    }
    if state.ops.get(&id).is_some() {
        return Err(StoreError::Exists { what: WHAT, id });
    }
    state.instances.change(&instance_id, |instance| {
        instance.active_op = Some(id.clone());
        instance.changed_at = Some(now);
    });
    if record.op.operation_state.is_driven() {
        state.driven.put((record.op.start_time, id.clone()), ());
    }
    let row = OpRow {
        record: Arc::new(record),
        epoch: 0,
        cancel: None,
        owner: None,
        lease_until: Timestamp::MIN,
        lived: Vec::new(),
    };
    state.ops.put(id, row);
    Ok(())
}

/// Replaces an operation; its state must be the expected one. A stored point of no return stays. Once it is not driven any
/// more, its lease and cancel request end; when it is final, its instance is free, and the operation keeps where that lives
/// but no deployments.
pub(crate) fn put(
    state: &mut State,
    mut record: Arc<OpRecord>,
    from: LcmOperationState,
    now: Timestamp,
) -> Result<(), StoreError> {
    let id = record.op.id.clone();
    let known = state
        .ops
        .get(&id)
        .filter(|row| row.record.tenant == record.tenant);
    let known = known.ok_or_else(|| absent(WHAT, &id))?;
    if known.record.op.operation_state != from {
        return Err(in_state(known, &id));
    }
    let stays = known.record.point_of_no_return.as_ref();
    if stays.is_some() && stays != record.point_of_no_return.as_ref() {
        Arc::make_mut(&mut record).point_of_no_return = stays.cloned();
    }
    let (start, next) = (known.record.op.start_time, record.op.operation_state);
    let instance_id = record.op.vnf_instance_id.clone();
    let homes = if next.is_final() {
        let ended = Arc::make_mut(&mut record);
        (ended.before, ended.target) = (None, None);
        vims::homes(state, &instance_id)
    } else {
        Vec::new()
    };
    state.ops.change(&id, |row| {
        row.record = record;
        row.lived.extend(homes);
        if !next.is_driven() {
            (row.cancel, row.owner, row.lease_until) = (None, None, Timestamp::MIN);
        }
    });
    if next.is_driven() {
        state.driven.put((start, id.clone()), ());
    } else {
        state.driven.remove(&(start, id.clone()));
    }
    let is_its = |active: &Option<String>| active.as_ref() == Some(&id);
    if next.is_final()
        && state
            .instances
            .get(&instance_id)
            .is_some_and(|i| is_its(&i.active_op))
    {
        state.instances.change(&instance_id, |instance| {
            instance.active_op = None;
            instance.changed_at = Some(now);
        });
    }
    Ok(())
}

/// Records the step after which there is no rollback; the first one stays.
pub(crate) fn rule_out_rollback(
    state: &mut State,
    id: &str,
    step: String,
) -> Result<(), StoreError> {
    let known = state
        .ops
        .get(&id.to_owned())
        .ok_or_else(|| absent(WHAT, id))?;
    if known.record.op.operation_state != LcmOperationState::Processing {
        return Err(in_state(known, id));
    }
    state.ops.change(&id.to_owned(), |row| {
        let record = Arc::make_mut(&mut row.record);
        record.point_of_no_return.get_or_insert(step);
    });
    Ok(())
}

/// Requests a cancel; a graceful request does not downgrade a forceful one.
pub(crate) fn cancel(state: &mut State, id: &str, mode: CancelMode) -> Result<(), StoreError> {
    let known = state
        .ops
        .get(&id.to_owned())
        .ok_or_else(|| absent(WHAT, id))?;
    if !known.record.op.operation_state.is_driven() {
        return Err(in_state(known, id));
    }
    state.ops.change(&id.to_owned(), |row| {
        if row.cancel != Some(CancelMode::Forceful) {
            row.cancel = Some(mode);
        }
    });
    Ok(())
}

fn in_state(known: &OpRow, id: &str) -> StoreError {
    let found = known.record.op.operation_state.as_str().to_owned();
    StoreError::WrongState {
        what: WHAT,
        id: id.to_owned(),
        found,
    }
}

/// Revokes the lease of an operation that has not ended; if the lease is valid, only with `force`.
pub(crate) fn revoke_lease(
    state: &mut State,
    (instance_id, op_id): (&str, &str),
    force: bool,
    now: Timestamp,
) -> Result<(), StoreError> {
    let row = state
        .ops
        .get(&op_id.to_owned())
        .ok_or_else(|| absent(WHAT, op_id))?;
    let op = &row.record.op;
    if op.operation_state.is_final() {
        return Err(StoreError::Changed {
            what: WHAT,
            id: op_id.to_owned(),
        });
    }
    let is_free = !op.operation_state.is_driven() || row.lease_until <= now;
    if op.vnf_instance_id != instance_id || !(force || is_free) {
        return Err(busy(instance_id, op_id));
    }
    state.ops.change(&op_id.to_owned(), |row| {
        row.epoch += 1;
        (row.owner, row.lease_until) = (None, Timestamp::MIN);
    });
    Ok(())
}

/// Inserts or replaces the row of a step; the order of first writes is retained.
pub(crate) fn journal(state: &mut State, row: Arc<JournalRow>) -> Result<(), StoreError> {
    if state.ops.get(&row.op_id).is_none() {
        return Err(absent(WHAT, &row.op_id));
    }
    let op_id = row.op_id.clone();
    let mut rows = state.journal.get(&op_id).cloned().unwrap_or_default();
    match rows.iter_mut().find(|known| known.step == row.step) {
        Some(known) => *known = row,
        None => rows.push(row),
    }
    state.journal.put(op_id, rows);
    Ok(())
}

/// Open steps of operations that have to be driven, and steps that killed a process.
pub(crate) fn open_steps(state: &State) -> Vec<OpenStep> {
    let mut open = Vec::new();
    for (op_id, rows) in state.journal.iter() {
        let Some(op) = state.ops.get(op_id) else {
            continue;
        };
        let is_driven = op.record.op.operation_state.is_driven();
        let is_open = |row: &&Arc<JournalRow>| {
            let is_begun = matches!(row.status, StepStatus::Started | StepStatus::Undoing);
            row.lives.killed || (is_driven && is_begun && row.ended_at.is_none())
        };
        open.extend(rows.iter().filter(is_open).map(|row| OpenStep {
            tenant: op.record.tenant.clone(),
            op_id: op_id.clone(),
            ended_at: row.ended_at,
            lives: row.lives.clone(),
        }));
    }
    open
}

/// Stores a checkpoint by operation, step and key.
pub(crate) fn checkpoint(
    state: &mut State,
    key: Three,
    value: SecretJson,
) -> Result<(), StoreError> {
    if state.ops.get(&key.0).is_none() {
        return Err(absent(WHAT, &key.0));
    }
    state.checkpoints.put(key, value);
    Ok(())
}

/// Checks that the lease of a fence is still held.
pub(crate) fn is_held(state: &State, fence: &Fence) -> Result<(), StoreError> {
    let row = state.ops.get(&fence.op_id);
    if row.is_some_and(|row| row.epoch == fence.epoch) {
        Ok(())
    } else {
        Err(lost(fence))
    }
}

fn lost(fence: &Fence) -> StoreError {
    StoreError::LeaseLost {
        op_id: fence.op_id.clone(),
    }
}

/// Claims `op_id`, or the oldest operation, if it has to be driven and has no valid lease.
pub(crate) fn claim(
    state: &mut State,
    owner: &str,
    (lease, now): (Duration, Timestamp),
    op_id: Option<&str>,
) -> Option<Claim> {
    let is_free = |id: &str| {
        state
            .ops
            .get(&id.to_owned())
            .is_some_and(|row| row.record.op.operation_state.is_driven() && row.lease_until <= now)
    };
    let id = match op_id {
        Some(id) => is_free(id).then(|| id.to_owned())?,
        None => state
            .driven
            .iter()
            .map(|((_, id), ())| id)
            .find(|id| is_free(id))?
            .clone(),
    };
    state.ops.change(&id, |row| {
        row.epoch += 1;
        (row.owner, row.lease_until) = (Some(owner.to_owned()), until(now, lease));
    });
    state.ops.commit();
    let row = state.ops.get(&id)?;
    let tenant = row.record.tenant.clone();
    Some(Claim {
        tenant,
        fence: Fence {
            epoch: row.epoch,
            op_id: id,
        },
    })
}

/// Renews the lease, and returns the requested cancel mode.
pub(crate) fn renew(
    state: &mut State,
    fence: &Fence,
    lease: Duration,
    now: Timestamp,
) -> Result<Option<CancelMode>, StoreError> {
    is_held(state, fence)?;
    let row = state.ops.get(&fence.op_id).ok_or_else(|| lost(fence))?;
    if !row.record.op.operation_state.is_driven() {
        return Err(lost(fence));
    }
    let cancel = row.cancel;
    state
        .ops
        .change(&fence.op_id, |row| row.lease_until = until(now, lease));
    state.ops.commit();
    Ok(cancel)
}

/// Releases the lease if it is still held.
pub(crate) fn release(state: &mut State, fence: &Fence) {
    if is_held(state, fence).is_ok() {
        state.ops.change(&fence.op_id, |row| {
            (row.owner, row.lease_until) = (None, Timestamp::MIN);
        });
        state.ops.commit();
    }
}

fn until(now: Timestamp, lease: Duration) -> Timestamp {
    let lease = SignedDuration::try_from(lease).unwrap_or(SignedDuration::MAX);
    now.saturating_add(lease).unwrap_or(Timestamp::MAX)
}

//! VNF instances: add, change and remove them.

use crate::state::{InstanceRow, State, absent, in_use};
use crate::vims;
use jiff::Timestamp;
use std::sync::Arc;
use vnfm_core::ports::{InstanceRecord, StoreError};
use vnfm_types::{InstantiationState, OnFailure};

const WHAT: &str = "VNF instance";

pub(crate) fn find<'s>(
    state: &'s State,
    tenant: &str,
    id: &str,
) -> Result<&'s InstanceRow, StoreError> {
    let found = state
        .instances
        .get(&id.to_owned())
        .filter(|row| row.record.tenant == tenant);
    found.ok_or_else(|| absent(WHAT, id))
}

/// The record with version, active operation and times.
pub(crate) fn record_of(row: &InstanceRow) -> InstanceRecord {
    InstanceRecord {
        active_op: row.active_op.clone(),
        changed_at: row.changed_at,
        ..InstanceRecord::clone(&row.record)
    }
}

/// Adds an instance of an existing package.
pub(crate) fn add(
    state: &mut State,
    record: InstanceRecord,
    now: Timestamp,
) -> Result<(), StoreError> {
    let id = record.vnf.id.clone();
    if state.instances.get(&id).is_some() {
        return Err(StoreError::Exists { what: WHAT, id });
    }
    let package = state.packages.get(&record.vnf_pkg_id);
    if package.is_none_or(|package| package.tenant != record.tenant) {
        return Err(absent("VNF package", &record.vnf_pkg_id));
    }
    let row = InstanceRow {
        record: Arc::new(record),
        active_op: None,
        changed_at: Some(now),
    };
    state.instances.put(id, row);
    Ok(())
}

/// Replaces an instance; its version must be the one that was read.
pub(crate) fn put(
    state: &mut State,
    record: InstanceRecord,
    now: Timestamp,
) -> Result<(), StoreError> {
    let id = record.vnf.id.clone();
    let InstanceRow {
        record: known,
        active_op,
        ..
    } = find(state, &record.tenant, &id)?;
    if known.version != record.version {
        return Err(StoreError::Changed { what: WHAT, id });
    }
    let written = Arc::new(InstanceRecord {
        version: record.version + 1,
        created_at: known.created_at,
        on_failure: known.on_failure,
        ..record
    });
    let active_op = active_op.clone();
    state.instances.put(
        id,
        InstanceRow {
            record: written,
            active_op,
            changed_at: Some(now),
        },
    );
    Ok(())
}

/// Sets what happens when a step of the instance's operations fails.
pub(crate) fn set_on_failure(
    state: &mut State,
    (tenant, id): (&str, &str),
    on_failure: Option<OnFailure>,
) -> Result<(), StoreError> {
    let row = find(state, tenant, id)?;
    let record = InstanceRecord::clone(&row.record);
    let row = InstanceRow {
        record: Arc::new(InstanceRecord {
            on_failure,
            ..record
        }),
        active_op: row.active_op.clone(),
        changed_at: row.changed_at,
    };
    state.instances.put(id.to_owned(), row);
    Ok(())
}

/// Removes an instance without resources and operation, with all its data.
pub(crate) fn remove(state: &mut State, tenant: &str, id: &str) -> Result<(), StoreError> {
    let known = find(state, tenant, id)?;
    if let Some(op_id) = &known.active_op {
        return Err(busy(id, op_id));
    }
    if known.record.vnf.instantiation_state == InstantiationState::Instantiated {
        let found = "INSTANTIATED".to_owned();
        return Err(StoreError::WrongState {
            what: WHAT,
            id: id.to_owned(),
            found,
        });
    }
    forget(state, id);
    Ok(())
}

/// Removes an instance in any state, once its operation has ended; with `force` even if others live on
/// a VIM that it registered.
pub(crate) fn abandon(
    state: &mut State,
    tenant: &str,
    id: &str,
    force: bool,
) -> Result<(), StoreError> {
    let users = vims::users_of_instance(state, tenant, id);
    if !users.is_empty() && !force {
        return Err(in_use(WHAT, (tenant, id), &users));
    }
    if let Some(op_id) = &find(state, tenant, id)?.active_op {
        return Err(busy(id, op_id));
    }
    let its = state
        .ops
        .iter()
        .filter(|(_, row)| row.record.op.vnf_instance_id == id);
    let its: Vec<_> = its.map(|(op_id, _)| op_id.clone()).collect();
    state
        .retiring
        .remove_if(|(op_id, ..), _| its.contains(op_id));
    forget(state, id);
    Ok(())
}

/// Removes an instance with all its data.
fn forget(state: &mut State, id: &str) {
    state.instances.remove(&id.to_owned());
    state.schedules.remove(&id.to_owned());
    state.host_keys.remove_if(|_, (instance, _)| instance == id);
    vims::remove_uses(state, id);
}

pub(crate) fn busy(id: &str, op_id: &str) -> StoreError {
    StoreError::Busy {
        instance_id: id.to_owned(),
        op_id: op_id.to_owned(),
    }
}

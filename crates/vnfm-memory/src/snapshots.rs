//! VNF snapshots. The operation that uses one counts until it has ended.

use crate::state::{State, absent};
use jiff::Timestamp;
use std::collections::BTreeMap;
use vnfm_core::ports::{SnapshotContents, SnapshotRecord, StoreError};

const WHAT: &str = "VNF snapshot";

pub(crate) fn add(
    state: &mut State,
    record: SnapshotRecord,
    now: Timestamp,
) -> Result<(), StoreError> {
    let key = (record.tenant.clone(), record.info.id.clone());
    if state.snapshots.get(&key).is_some() {
        return Err(StoreError::Exists {
            what: WHAT,
            id: key.1,
        });
    }
    let changed_at = Some(now);
    state.snapshots.put(
        key,
        SnapshotRecord {
            changed_at,
            ..record
        },
    );
    Ok(())
}

pub(crate) fn put(
    state: &mut State,
    record: SnapshotRecord,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (tenant, id) = (record.tenant.clone(), record.info.id.clone());
    let by = record.used_by.as_deref();
    let known = writable(state, (&tenant, &id), record.version, by)?;
    let record = SnapshotRecord {
        version: record.version + 1,
        scope: known.scope,
        changed_at: Some(now),
        ..record
    };
    state.snapshots.put((tenant, id), record);
    Ok(())
}

pub(crate) fn fill(
    state: &mut State,
    contents: SnapshotContents,
    now: Timestamp,
) -> Result<(), StoreError> {
    let key = (contents.tenant, contents.id);
    let Some(known) = state.snapshots.get(&key) else {
        return Err(absent(WHAT, &key.1));
    };
    if known.used_by.as_ref() != Some(&contents.op_id) {
        return Err(not_written(state, known, Some(&contents.op_id)));
    }
    state.snapshots.change(&key, |record| {
        record.version += 1;
        record.info.vnf_snapshot = contents.snapshot;
        record.deployment = contents.deployment;
        record.handle = contents.handle;
        record.changed_at = Some(now);
    });
    Ok(())
}

pub(crate) fn remove(
    state: &mut State,
    (tenant, id): (&str, &str),
    version: u64,
) -> Result<(), StoreError> {
    writable(state, (tenant, id), version, None)?;
    state.snapshots.remove(&(tenant.to_owned(), id.to_owned()));
    Ok(())
}

/// The snapshot with this version, which no other operation than `by` uses.
fn writable(
    state: &State,
    (tenant, id): (&str, &str),
    version: u64,
    by: Option<&str>,
) -> Result<SnapshotRecord, StoreError> {
    let known = state.snapshots.get(&(tenant.to_owned(), id.to_owned()));
    let known = known.ok_or_else(|| absent(WHAT, id))?;
    let is_free = user(state, known).is_none_or(|user| Some(user) == by);
    if is_free && known.version == version {
        return Ok(known.clone());
    }
    Err(not_written(state, known, by))
}

fn not_written(state: &State, known: &SnapshotRecord, by: Option<&str>) -> StoreError {
    let (what, id) = (WHAT, known.info.id.clone());
    match user(state, known).filter(|user| Some(*user) != by) {
        Some(user) => StoreError::WrongState {
            what,
            id,
            found: format!("used by operation `{user}`, which has not ended"),
        },
        None => StoreError::Changed { what, id },
    }
}

/// The operation that uses a snapshot and has not ended.
fn user<'s>(state: &State, record: &'s SnapshotRecord) -> Option<&'s str> {
    let user = record.used_by.as_ref()?;
    let op = state.ops.get(user)?;
    let has_ended = op.record.op.operation_state.is_final();
    Some(user.as_str()).filter(|_| !has_ended)
}

/// A snapshot as it is read.
pub(crate) fn shown(state: &State, record: &SnapshotRecord) -> SnapshotRecord {
    SnapshotRecord {
        used_by: user(state, record).map(ToOwned::to_owned),
        ..record.clone()
    }
}

pub(crate) fn find(state: &State, tenant: &str, id: &str) -> Result<SnapshotRecord, StoreError> {
    let found = state.snapshots.get(&(tenant.to_owned(), id.to_owned()));
    let found = found.map(|record| shown(state, record));
    found.ok_or_else(|| absent(WHAT, id))
}

/// Tenant and name of the snapshots on VIMs that `is_on` accepts by tenant and id, for errors.
pub(crate) fn on_vims(
    state: &State,
    is_on: impl Fn(&str, &str) -> bool,
) -> BTreeMap<String, (String, Option<String>)> {
    let all = state.snapshots.iter();
    let on = all.filter(|((tenant, _), record)| {
        let vim_id = record.vim_id();
        vim_id.is_some_and(|vim_id| is_on(tenant, &vim_id))
    });
    on.map(|((tenant, id), _)| {
        let name = Some(WHAT.to_owned());
        (id.clone(), (tenant.clone(), name))
    })
    .collect()
}

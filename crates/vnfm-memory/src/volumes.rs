//! Retained volumes, and which instance uses each.

use crate::state::{State, absent, in_use};
use std::collections::BTreeMap;
use vnfm_core::ports::{StoreError, VolumeRecord};
use vnfm_types::VolumeState;

const WHAT: &str = "retained volume";

fn key(tenant: &str, id: &str) -> (String, String) {
    (tenant.to_owned(), id.to_owned())
}

pub(crate) fn find(state: &State, tenant: &str, id: &str) -> Result<VolumeRecord, StoreError> {
    let found = state.volumes.get(&key(tenant, id));
    found.cloned().ok_or_else(|| absent(WHAT, id))
}

pub(crate) fn add(state: &mut State, record: VolumeRecord) {
    let key = key(&record.tenant, &record.volume.id);
    if state.volumes.get(&key).is_none() {
        state.volumes.put(key, record);
    }
}

/// Replaces a volume that is being created.
pub(crate) fn finish(state: &mut State, record: VolumeRecord) -> Result<(), StoreError> {
    let stored = find(state, &record.tenant, &record.volume.id)?;
    check_state(&stored, VolumeState::Creating)?;
    let key = key(&record.tenant, &record.volume.id);
    state.volumes.put(key, record);
    Ok(())
}

fn check_state(record: &VolumeRecord, required: VolumeState) -> Result<(), StoreError> {
    if record.volume.state == required {
        return Ok(());
    }
    Err(StoreError::WrongState {
        what: WHAT,
        id: record.volume.id.clone(),
        found: record.volume.state.as_str().to_owned(),
    })
}

/// Refuses if another instance than this uses the volume.
fn check_user(state: &State, record: &VolumeRecord, instance: &str) -> Result<(), StoreError> {
    let (tenant, id) = (&record.tenant, &record.volume.id);
    let Some(user) = record
        .volume
        .used_by
        .as_ref()
        .filter(|user| *user != instance)
    else {
        return Ok(());
    };
    let row = state.instances.get(user);
    let name = row.and_then(|row| row.record.vnf.vnf_instance_name.clone());
    let users = BTreeMap::from([(user.clone(), (tenant.clone(), name))]);
    Err(in_use(WHAT, (tenant, id), &users))
}

pub(crate) fn set_state(
    state: &mut State,
    (tenant, id): (&str, &str),
    to: VolumeState,
) -> Result<(), StoreError> {
    let mut record = find(state, tenant, id)?;
    check_user(state, &record, "")?;
    record.volume.state = to;
    state.volumes.put(key(tenant, id), record);
    Ok(())
}

pub(crate) fn remove(
    state: &mut State,
    (tenant, id): (&str, &str),
    used_by: Option<&str>,
) -> Result<(), StoreError> {
    if let Ok(record) = find(state, tenant, id) {
        check_user(state, &record, used_by.unwrap_or_default())?;
        state.volumes.remove(&key(tenant, id));
    }
    Ok(())
}

/// An instance uses these volumes and no others.
pub(crate) fn set_uses(
    state: &mut State,
    tenant: &str,
    instance: &str,
    volumes: &[String],
) -> Result<(), StoreError> {
    remove_uses(state, instance);
    for id in volumes {
        let mut record = find(state, tenant, id)?;
        check_state(&record, VolumeState::Available)?;
        check_user(state, &record, instance)?;
        record.volume.used_by = Some(instance.to_owned());
        state.volumes.put(key(tenant, id), record);
    }
    Ok(())
}

pub(crate) fn remove_uses(state: &mut State, instance: &str) {
    let used = state.volumes.iter();
    let used = used.filter(|(_, record)| record.volume.used_by.as_deref() == Some(instance));
    let used: Vec<_> = used.map(|(key, _)| key.clone()).collect();
    for key in used {
        state
            .volumes
            .change(&key, |record| record.volume.used_by = None);
    }
}

/// Tenant and kind of the volumes on VIMs that `is_on` accepts by tenant and id, for errors.
pub(crate) fn on_vims(
    state: &State,
    is_on: impl Fn(&str, &str) -> bool,
) -> BTreeMap<String, (String, Option<String>)> {
    let on = state
        .volumes
        .iter()
        .filter(|((tenant, _), record)| is_on(tenant, &record.volume.vim_id));
    on.map(|((tenant, id), _)| (id.clone(), (tenant.clone(), Some(WHAT.to_owned()))))
        .collect()
}

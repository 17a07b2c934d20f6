//! Retained volumes, and which instance uses each. [`set_state`] and [`set_uses`] exclude each other: each has the condition that
//! the other has not happened. So exactly one is accepted of two uses, and of a use and a deletion.

use super::vims::in_use;
use crate::fault::Done;
use crate::refusals::{absent, first};
use crate::statement::{Query, Reason, Refusal, Statement};
use vnfm_core::ports::{StoreError, VolumeRecord};
use vnfm_types::{RetainedVolume, VolumeState};

const KIND: &str = "retained volume";

/// Adds a volume unless it exists.
pub(super) fn add(record: &VolumeRecord) -> Done<Vec<Statement>> {
    const ADD: &str = "
        INSERT INTO volumes (tenant, id, vim_id, state, used_by, info) VALUES ($1, $2, $3, $4, $5, $6)
        ON CONFLICT DO NOTHING";
    let volume = &record.volume;
    let add = Statement::new(ADD)
        .bind(&record.tenant)
        .bind(&volume.id)
        .bind(&volume.vim_id)
        .bind(volume.state.as_str())
        .bind(&volume.used_by)
        .bind(document(volume)?);
    Ok(vec![add])
}

/// Replaces a volume that is being created.
pub(super) fn finish(record: &VolumeRecord) -> Done<Vec<Statement>> {
    const FINISH: &str = "
        UPDATE volumes SET state = $3, info = $4 WHERE tenant = $1 AND id = $2 AND state = 'CREATING'";
    let (tenant, volume) = (&record.tenant, &record.volume);
    let finish = Statement::new(FINISH)
        .bind(tenant)
        .bind(&volume.id)
        .bind(volume.state.as_str())
        .bind(document(volume)?);
    let refusal = Refusal::from(absent(KIND, &volume.id));
    let refusal = refusal.unless(in_other_state(tenant, &volume.id, VolumeState::Creating));
    Ok(vec![finish.or(refusal)])
}

/// The volume as JSON, without its user, who is a column.
fn document(volume: &RetainedVolume) -> Done<String> {
    let info = RetainedVolume {
        used_by: None,
        ..volume.clone()
    };
    Ok(serde_json::to_string(&info)?)
}

/// Sets the state of a volume that no instance uses.
pub(super) fn set_state(tenant: &str, id: &str, state: VolumeState) -> Vec<Statement> {
    const SET: &str = "
        UPDATE volumes SET state = $3 WHERE tenant = $1 AND id = $2 AND used_by IS NULL";
    let set = Statement::new(SET).bind(tenant).bind(id);
    let refusal = Refusal::from(absent(KIND, id)).unless(user(tenant, id, ""));
    vec![set.bind(state.as_str()).or(refusal)]
}

/// Removes a volume that no other instance than this uses; succeeds if it does not exist.
pub(super) fn remove(tenant: &str, id: &str, used_by: Option<&str>) -> Vec<Statement> {
    const REMOVE: &str = "
        DELETE FROM volumes WHERE tenant = $1 AND id = $2 AND (used_by IS NULL OR used_by = $3)";
    let whose = used_by.unwrap_or_default();
    let remove = Statement::new(REMOVE).bind(tenant).bind(id).bind(whose);
    vec![remove.or(Refusal::from(user(tenant, id, whose)))]
}

/// The refusal because another instance than this uses a volume.
fn user(tenant: &str, id: &str, instance: &str) -> Reason {
    const USER: &str = "
        SELECT v.used_by, v.tenant, i.name FROM volumes v LEFT JOIN instances i ON i.id = v.used_by
        WHERE v.tenant = $1 AND v.id = $2 AND v.used_by IS NOT NULL AND v.used_by <> $3";
    let user = Query::new(USER).bind(tenant).bind(id).bind(instance);
    user.then(in_use(KIND, id, tenant))
}

/// An instance uses these volumes and no others; refused unless each is available, and no other instance uses it.
pub(super) fn set_uses(tenant: &str, instance: &str, volumes: &[String]) -> Vec<Statement> {
    const USE: &str = "
        UPDATE volumes SET used_by = $1
        WHERE tenant = $2 AND id = $3 AND state = 'AVAILABLE' AND (used_by IS NULL OR used_by = $1)";
    let add = |id: &String| {
        let add = Statement::new(USE).bind(instance).bind(tenant).bind(id);
        let refusal = Refusal::from(absent(KIND, id))
            .unless(user(tenant, id, instance))
            .unless(in_other_state(tenant, id, VolumeState::Available));
        add.or(refusal)
    };
    let none = remove_uses(instance);
    [none].into_iter().chain(volumes.iter().map(add)).collect()
}

/// Ends all uses of an instance.
pub(super) fn remove_uses(instance: &str) -> Statement {
    Statement::new("UPDATE volumes SET used_by = NULL WHERE used_by = $1").bind(instance)
}

/// The refusal because a volume is not in the state that a change requires.
fn in_other_state(tenant: &str, id: &str, required: VolumeState) -> Reason {
    const STATE: &str = "SELECT state FROM volumes WHERE tenant = $1 AND id = $2 AND state <> $3";
    let owned = id.to_owned();
    let state = Query::new(STATE).bind(tenant).bind(id);
    let state = state.bind(required.as_str());
    state.then(move |rows| {
        let (found,): (String,) = first(rows)?;
        Ok(StoreError::WrongState {
            what: KIND,
            id: owned.clone(),
            found,
        })
    })
}

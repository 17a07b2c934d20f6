//! VNF instances.

use super::{Writing, absent, number};
use crate::fault::Done;
use vnfm_core::ports::{InstanceRecord, StoreError};
use vnfm_types::InstantiationState;

const KIND: &str = "VNF instance";

/// Adds an instance of an existing package; of this and a concurrent removal of the package, one fails.
pub(super) fn add(writing: &Writing<'_>, record: &InstanceRecord) -> Done<()> {
    const ADD: &str = "
        INSERT INTO instances (id, tenant, version, vnf_pkg_id, name, vnfd_id, state, vnf, deployment, handle, created_at,
            changed_ms)
        SELECT $1, $2, $3, id, $5, $6, $7, $8, $9, $10, $11, (SELECT now_ms FROM clock) FROM packages WHERE id = $4 AND tenant = $2
        ON CONFLICT DO NOTHING";
    let keys = writing.keys;
    let added = writing
        .statement(ADD)
        .bind(&record.vnf.id)
        .bind(&record.tenant)
        .bind(number(record.version))
        .bind(&record.vnf_pkg_id)
        .bind(&record.vnf.vnf_instance_name)
        .bind(&record.vnf.vnfd_id)
        .bind(state_text(record))
        .bind(serde_json::to_string(&record.vnf)?)
        .bind(keys.seal_some(record.deployment.as_deref())?)
        .bind(serde_json::to_string(&record.handle)?)
        .bind(record.created_at.map(|at| at.to_string()))
        .changed()?;
    if added {
        return Ok(());
    }
    let known = writing
        .statement("SELECT id FROM instances WHERE id = $1")
        .bind(&record.vnf.id);
    Err(match known.value()? {
        Some(id) => StoreError::Exists { what: KIND, id },
        None => absent("VNF package", &record.vnf_pkg_id),
    }
    .into())
}

/// Updates an instance if its version is still the one that was read.
pub(super) fn put(writing: &Writing<'_>, record: &InstanceRecord) -> Done<()> {
    const PUT: &str = "
        UPDATE instances SET version = version + 1, name = $4, vnfd_id = $5, state = $6, vnf = $7, deployment = $8,
            needs_levels = 0, handle = $9, changed_ms = (SELECT now_ms FROM clock)
        WHERE tenant = $1 AND id = $2 AND version = $3";
    let keys = writing.keys;
    let written = writing
        .statement(PUT)
        .bind(&record.tenant)
        .bind(&record.vnf.id)
        .bind(number(record.version))
        .bind(&record.vnf.vnf_instance_name)
        .bind(&record.vnf.vnfd_id)
        .bind(state_text(record))
        .bind(serde_json::to_string(&record.vnf)?)
        .bind(keys.seal_some(record.deployment.as_deref())?)
        .bind(serde_json::to_string(&record.handle)?)
        .changed()?;
    if written {
        return Ok(());
    }
    current_state(writing, &record.tenant, &record.vnf.id)?;
    Err(StoreError::Changed {
        what: KIND,
        id: record.vnf.id.clone(),
    }
    .into())
}

/// Removes an instance without resources and without an active operation, with its dependent rows.
pub(super) fn remove(writing: &Writing<'_>, tenant: &str, id: &str) -> Done<()> {
    const REMOVE: &str = "
        DELETE FROM instances
        WHERE tenant = $1 AND id = $2 AND state = 'NOT_INSTANTIATED' AND active_op IS NULL";
    if !writing.statement(REMOVE).bind(tenant).bind(id).changed()? {
        let (state, active_op) = current_state(writing, tenant, id)?;
        return Err(match active_op {
            Some(op_id) => busy(id, op_id),
            None => StoreError::WrongState {
                what: KIND,
                id: id.to_owned(),
                found: state,
            },
        }
        .into());
    }
    forget(writing, id)
}

/// Removes the dependent rows of an instance.
pub(super) fn forget(writing: &Writing<'_>, id: &str) -> Done<()> {
    for sql in [
        "DELETE FROM pinned_hosts WHERE instance_id = $1",
        "DELETE FROM uses WHERE instance_id = $1",
    ] {
        writing.statement(sql).bind(id).run()?;
    }
    Ok(())
}

/// An instance's state and active operation; an error if it does not exist.
pub(super) fn current_state(
    writing: &Writing<'_>,
    tenant: &str,
    id: &str,
) -> Done<(String, Option<String>)> {
    const STANDING: &str = "SELECT state, active_op FROM instances WHERE tenant = $1 AND id = $2";
    let known = writing.statement(STANDING).bind(tenant).bind(id).rows()?;
    known
        .into_iter()
        .next()
        .ok_or_else(|| absent(KIND, id).into())
}

pub(super) fn busy(id: &str, op_id: String) -> StoreError {
    StoreError::Busy {
        instance_id: id.to_owned(),
        op_id,
    }
}

fn state_text(record: &InstanceRecord) -> &'static str {
    match record.vnf.instantiation_state {
        InstantiationState::NotInstantiated => "NOT_INSTANTIATED",
        InstantiationState::Instantiated => "INSTANTIATED",
    }
}

//! The statements that change VNF instances.

use crate::fault::Done;
use crate::refusals::{absent, exists, first, if_found};
use crate::secret_keys::SecretKeys;
use crate::statement::{Query, Reason, Refusal, Statement};
use vnfm_core::ports::{InstanceRecord, StoreError};
use vnfm_types::{InstantiationState, OnFailure};

const KIND: &str = "VNF instance";

/// Adds an instance of an existing package; of this and a concurrent removal of the package, one fails.
pub(super) fn add(record: &InstanceRecord, keys: &SecretKeys) -> Done<Vec<Statement>> {
    const ADD: &str = "
        INSERT INTO instances (id, tenant, version, vnf_pkg_id, name, vnfd_id, state, vnf, deployment, handle, created_at,
            changed_ms)
        SELECT $1, $2, $3, id, $5, $6, $7, $8, $9, $10, $11, (SELECT now_ms FROM clock) FROM packages WHERE id = $4 AND tenant = $2
        ON CONFLICT DO NOTHING";
    let id = &record.vnf.id;
    let known = Query::new("SELECT 1 FROM instances WHERE id = $1").bind(id);
    let refusal = Refusal::from(absent("VNF package", &record.vnf_pkg_id));
    let add = Statement::new(ADD)
        .bind(id)
        .bind(&record.tenant)
        .bind(record.version)
        .bind(&record.vnf_pkg_id)
        .bind(&record.vnf.vnf_instance_name)
        .bind(&record.vnf.vnfd_id)
        .bind(state_text(record))
        .bind(serde_json::to_string(&record.vnf)?)
        .bind(keys.seal_some(record.deployment.as_deref())?)
        .bind(serde_json::to_string(&record.handle)?)
        .bind(record.created_at.map(|at| at.to_string()));
    Ok(vec![
        add.or(refusal.unless(if_found(known, exists(KIND, id)))),
    ])
}

/// Updates an instance if its version is still the one that was read.
pub(super) fn put(record: &InstanceRecord, keys: &SecretKeys) -> Done<Vec<Statement>> {
    const PUT: &str = "
        UPDATE instances SET version = version + 1, name = $4, vnfd_id = $5, state = $6, vnf = $7, deployment = $8,
            needs_levels = 0, handle = $9, vnf_pkg_id = $10, changed_ms = (SELECT now_ms FROM clock)
        WHERE tenant = $1 AND id = $2 AND version = $3";
    let changed = StoreError::Changed {
        what: KIND,
        id: record.vnf.id.clone(),
    };
    let known = current_state(&record.tenant, &record.vnf.id, move |_, _| changed.clone());
    let put = Statement::new(PUT)
        .bind(&record.tenant)
        .bind(&record.vnf.id)
        .bind(record.version)
        .bind(&record.vnf.vnf_instance_name)
        .bind(&record.vnf.vnfd_id)
        .bind(state_text(record))
        .bind(serde_json::to_string(&record.vnf)?)
        .bind(keys.seal_some(record.deployment.as_deref())?)
        .bind(serde_json::to_string(&record.handle)?)
        .bind(&record.vnf_pkg_id);
    Ok(vec![put.or(not_found(&record.vnf.id).unless(known))])
}

/// Sets what happens when a step of the instance's operations fails.
pub(super) fn set_on_failure(
    (tenant, id): (&str, &str),
    on_failure: Option<&OnFailure>,
) -> Done<Vec<Statement>> {
    const SET: &str = "UPDATE instances SET on_failure = $3 WHERE tenant = $1 AND id = $2";
    let set = Statement::new(SET)
        .bind(tenant)
        .bind(id)
        .bind(on_failure.map(serde_json::to_string).transpose()?);
    Ok(vec![set.or(not_found(id))])
}

/// Removes an instance without resources and without an active operation, with its dependent rows.
pub(super) fn remove(tenant: &str, id: &str) -> Vec<Statement> {
    const REMOVE: &str = "
        DELETE FROM instances
        WHERE tenant = $1 AND id = $2 AND state = 'NOT_INSTANTIATED' AND active_op IS NULL";
    let instance_id = id.to_owned();
    let in_state = current_state(tenant, id, move |found, active_op| match active_op {
        Some(op_id) => busy(&instance_id, op_id),
        None => StoreError::WrongState {
            what: KIND,
            id: instance_id.clone(),
            found,
        },
    });
    let remove = Statement::new(REMOVE)
        .bind(tenant)
        .bind(id)
        .or(not_found(id).unless(in_state));
    std::iter::once(remove).chain(forget(id)).collect()
}

/// Removes the dependent rows of an instance.
pub(super) fn forget(id: &str) -> [Statement; 5] {
    [
        "DELETE FROM pinned_hosts WHERE instance_id = $1",
        "DELETE FROM uses WHERE instance_id = $1",
        "DELETE FROM link_uses WHERE instance_id = $1",
        "DELETE FROM schedules WHERE instance_id = $1",
        "UPDATE volumes SET used_by = NULL WHERE used_by = $1",
    ]
    .map(|sql| Statement::new(sql).bind(id))
}

/// The refusal that follows from an existing instance's state and active operation.
pub(super) fn current_state(
    tenant: &str,
    id: &str,
    explain: impl Fn(String, Option<String>) -> StoreError + Send + 'static,
) -> Reason {
    Query::new("SELECT state, active_op FROM instances WHERE tenant = $1 AND id = $2")
        .bind(tenant)
        .bind(id)
        .then(move |rows| first(rows).map(|(state, active_op)| explain(state, active_op)))
}

/// The refusal because of an instance's active operation, or because the instance does not exist.
pub(super) fn not_free(tenant: &str, id: &str) -> Refusal {
    let instance_id = id.to_owned();
    not_found(id).unless(current_state(tenant, id, move |_, active_op| {
        busy(&instance_id, active_op.unwrap_or_default())
    }))
}

fn not_found(id: &str) -> Refusal {
    absent(KIND, id).into()
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

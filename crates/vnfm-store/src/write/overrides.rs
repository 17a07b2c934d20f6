//! Administrative overrides: the audit, revoking a lease, abandoning an instance.

use super::instances::{busy, forget as forget_dependents, not_free};
use super::vims;
use crate::fault::Done;
use crate::refusals::{absent, first};
use crate::statement::{Query, Refusal, Statement};
use vnfm_core::ports::StoreError;
use vnfm_types::{AuditEntry, Tombstone};

/// Adds an audit entry with the next number.
pub(super) fn audit(tenant: &str, entry: &AuditEntry) -> Done<Vec<Statement>> {
    const NEXT: &str = "UPDATE counters SET value = value + 1 WHERE name = 'audit'";
    const ADD: &str = "
        INSERT INTO audit (seq, tenant, target, entry) SELECT value, $1, $2, $3 FROM counters WHERE name = 'audit'";
    const SIZE: &str = "
        INSERT INTO audit_sizes (tenant, bytes) VALUES ($1, LENGTH($2))
        ON CONFLICT (tenant) DO UPDATE SET bytes = audit_sizes.bytes + excluded.bytes";
    let text = serde_json::to_string(entry)?;
    let size = Statement::new(SIZE).bind(tenant).bind(&text);
    let add = Statement::new(ADD)
        .bind(tenant)
        .bind(&entry.target)
        .bind(text);
    Ok(vec![Statement::new(NEXT), size, add])
}

/// Takes an operation from the process that drives it, whose writes are refused from now on. While the lease
/// is valid this needs `force`.
pub(super) fn revoke_lease((instance_id, op_id): (&str, &str), force: bool) -> Vec<Statement> {
    const FENCE: &str = "
        UPDATE ops SET epoch = epoch + 1, owner = NULL, lease_until = 0
        WHERE id = $1 AND instance_id = $2 AND ended = 0
            AND ($3 = 1 OR driven = 0 OR lease_until <= (SELECT now_ms FROM clock))";
    let (instance, op) = (instance_id.to_owned(), op_id.to_owned());
    let ended = Query::new("SELECT ended FROM ops WHERE id = $1")
        .bind(op_id)
        .then(move |rows| {
            let (ended,): (bool,) = first(rows)?;
            Ok(if ended {
                StoreError::Changed {
                    what: "operation",
                    id: op.clone(),
                }
            } else {
                busy(&instance, op.clone())
            })
        });
    let fence = Statement::new(FENCE)
        .bind(op_id)
        .bind(instance_id)
        .bind(force);
    vec![fence.or(Refusal::from(absent("operation", op_id)).unless(ended))]
}

/// Removes an instance in any state, with its dependent rows, once its operation has ended. Refused while others use a
/// VIM that it registered, unless `force` is set.
pub(super) fn abandon(tenant: &str, id: &str, force: bool) -> Vec<Statement> {
    const REMOVE: &str =
        "DELETE FROM instances WHERE tenant = $1 AND id = $2 AND active_op IS NULL";
    const UNRETIRE: &str =
        "DELETE FROM retiring WHERE op_id IN (SELECT id FROM ops WHERE instance_id = $1)";
    let unused = (!force).then(|| vims::unused_by_others((tenant, id), &[]));
    let remove = Statement::new(REMOVE)
        .bind(tenant)
        .bind(id)
        .or(not_free(tenant, id));
    let unmark = Statement::new(UNRETIRE).bind(id);
    unused
        .into_iter()
        .chain([remove, unmark])
        .chain(forget_dependents(id))
        .collect()
}

/// Stores the tombstone of an abandoned instance.
pub(super) fn add_tombstone(tenant: &str, tombstone: &Tombstone) -> Done<Vec<Statement>> {
    const BURY: &str =
        "INSERT INTO tombstones (tenant, instance_id, tombstone) VALUES ($1, $2, $3)";
    let add = Statement::new(BURY)
        .bind(tenant)
        .bind(&tombstone.vnf_instance_id)
        .bind(serde_json::to_string(tombstone)?);
    Ok(vec![add])
}

/// Removes a tombstone: the instance has no resources left.
pub(super) fn forget(tenant: &str, id: &str) -> Vec<Statement> {
    const FORGET: &str = "DELETE FROM tombstones WHERE tenant = $1 AND instance_id = $2";
    let forget = Statement::new(FORGET).bind(tenant).bind(id);
    vec![forget.or(absent("abandoned VNF instance", id))]
}

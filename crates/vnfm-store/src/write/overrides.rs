//! Administrative overrides: the audit, revoking a lease, abandoning an instance.

use super::{Writing, absent, instances, vims};
use crate::fault::Done;
use vnfm_core::ports::StoreError;
use vnfm_types::{AuditEntry, Tombstone};

/// Adds an audit entry with the next number.
pub(super) fn audit(writing: &Writing<'_>, tenant: &str, entry: &AuditEntry) -> Done<()> {
    const NEXT: &str = "UPDATE counters SET value = value + 1 WHERE name = 'audit' RETURNING value";
    const ADD: &str = "INSERT INTO audit (seq, tenant, target, entry) VALUES ($1, $2, $3, $4)";
    const SIZE: &str = "
        INSERT INTO audit_sizes (tenant, bytes) VALUES ($1, LENGTH($2))
        ON CONFLICT (tenant) DO UPDATE SET bytes = audit_sizes.bytes + excluded.bytes";
    let seq: i64 = writing.statement(NEXT).one()?;
    let text = serde_json::to_string(entry)?;
    writing.statement(SIZE).bind(tenant).bind(&text).run()?;
    writing
        .statement(ADD)
        .bind(seq)
        .bind(tenant)
        .bind(&entry.target)
        .bind(text)
        .run()
}

/// Takes an operation from the process that drives it, whose writes are refused from now on. While the lease is valid this
/// needs `force`.
pub(super) fn revoke_lease(
    writing: &Writing<'_>,
    (instance_id, op_id): (&str, &str),
    force: bool,
) -> Done<()> {
    const FENCE: &str = "
        UPDATE ops SET epoch = epoch + 1, owner = NULL, lease_until = 0
        WHERE id = $1 AND instance_id = $2 AND ended = 0
            AND ($3 = 1 OR driven = 0 OR lease_until <= (SELECT now_ms FROM clock))";
    if writing
        .statement(FENCE)
        .bind(op_id)
        .bind(instance_id)
        .bind(force)
        .changed()?
    {
        return Ok(());
    }
    let ended: Option<i64> = writing
        .statement("SELECT ended FROM ops WHERE id = $1")
        .bind(op_id)
        .value()?;
    Err(match ended {
        Some(0) => instances::busy(instance_id, op_id.to_owned()),
        Some(_) => StoreError::Changed {
            what: "operation",
            id: op_id.to_owned(),
        },
        None => absent("operation", op_id),
    }
    .into())
}

/// Removes an instance in any state, with its dependent rows, once its operation has ended. Refused while others use a
/// VIM that it registered, unless `force` is set.
pub(super) fn abandon(writing: &Writing<'_>, (tenant, id): (&str, &str), force: bool) -> Done<()> {
    const REMOVE: &str =
        "DELETE FROM instances WHERE tenant = $1 AND id = $2 AND active_op IS NULL";
    const UNRETIRE: &str =
        "DELETE FROM retiring WHERE op_id IN (SELECT id FROM ops WHERE instance_id = $1)";
    let users = vims::users_of_instance(writing, tenant, id)?;
    if !users.is_empty() && !force {
        return Err(vims::in_use("VNF instance", id, tenant, users).into());
    }
    if !writing.statement(REMOVE).bind(tenant).bind(id).changed()? {
        let (_, active_op) = instances::current_state(writing, tenant, id)?;
        return Err(instances::busy(id, active_op.unwrap_or_default()).into());
    }
    writing.statement(UNRETIRE).bind(id).run()?;
    instances::forget(writing, id)
}

/// Stores the tombstone of an abandoned instance.
pub(super) fn add_tombstone(
    writing: &Writing<'_>,
    tenant: &str,
    tombstone: &Tombstone,
) -> Done<()> {
    const BURY: &str =
        "INSERT INTO tombstones (tenant, instance_id, tombstone) VALUES ($1, $2, $3)";
    let add_tombstone = writing
        .statement(BURY)
        .bind(tenant)
        .bind(&tombstone.vnf_instance_id);
    add_tombstone.bind(serde_json::to_string(tombstone)?).run()
}

/// Removes a tombstone: the instance has no resources left.
pub(super) fn forget(writing: &Writing<'_>, tenant: &str, id: &str) -> Done<()> {
    const FORGET: &str = "DELETE FROM tombstones WHERE tenant = $1 AND instance_id = $2";
    if writing.statement(FORGET).bind(tenant).bind(id).changed()? {
        return Ok(());
    }
    Err(absent("abandoned VNF instance", id).into())
}

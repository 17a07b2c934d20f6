//! What somebody does on their own authority: the audit, fencing a process off, giving an instance up.

use super::{Writing, absent, instances, vims};
use crate::fault::Done;
use sqlx::{query, query_scalar};
use vnfm_core::ports::StoreError;
use vnfm_types::{AuditEntry, Tombstone};

/// An entry of the audit, with the next number.
pub(super) async fn audit(writing: &mut Writing<'_>, tenant: &str, entry: &AuditEntry) -> Done<()> {
    let seq: i64 =
        query_scalar("UPDATE counters SET value = value + 1 WHERE name = 'audit' RETURNING value")
            .fetch_one(writing.now()?)
            .await?;
    query("INSERT INTO audit (seq, tenant, target, entry) VALUES ($1, $2, $3, $4)")
        .bind(seq)
        .bind(tenant)
        .bind(&entry.target)
        .bind(serde_json::to_string(entry)?)
        .execute(writing.now()?)
        .await?;
    Ok(())
}

/// Takes an operation from whoever drives it: every write of theirs is refused from now on. Where somebody holds its
/// lease, only with `force`.
pub(super) async fn fence_off(
    writing: &mut Writing<'_>,
    (instance_id, op_id): (&str, &str),
    force: bool,
) -> Done<()> {
    const FENCE: &str = "
        UPDATE ops SET epoch = epoch + 1, owner = NULL, lease_until = 0
        WHERE id = $1 AND instance_id = $2 AND ended = 0
            AND ($3 = 1 OR driven = 0 OR lease_until <= (SELECT now_ms FROM clock))";
    let fenced = query(FENCE)
        .bind(op_id)
        .bind(instance_id)
        .bind(i64::from(force))
        .execute(writing.now()?)
        .await?;
    if fenced.rows_affected() == 1 {
        return Ok(());
    }
    let ended: Option<i64> = query_scalar("SELECT ended FROM ops WHERE id = $1")
        .bind(op_id)
        .fetch_optional(writing.now()?)
        .await?;
    Err(match ended {
        Some(0) => instances::busy(instance_id, op_id.to_owned()),
        Some(_) => StoreError::Changed { what: "operation", id: op_id.to_owned() },
        None => absent("operation", op_id),
    }
    .into())
}

/// Removes an instance in whatever state, with what is kept for it, once its operation has ended. Refused while others
/// live on what it registered, unless with `force`.
pub(super) async fn abandon(
    writing: &mut Writing<'_>,
    (tenant, id): (&str, &str),
    force: bool,
) -> Done<()> {
    const REMOVE: &str =
        "DELETE FROM instances WHERE tenant = $1 AND id = $2 AND active_op IS NULL";
    const UNRETIRE: &str =
        "DELETE FROM retiring WHERE op_id IN (SELECT id FROM ops WHERE instance_id = $1)";
    let users = vims::users_of_instance(writing, tenant, id).await?;
    if !users.is_empty() && !force {
        return Err(vims::in_use("VNF instance", id, tenant, users).into());
    }
    let removed = query(REMOVE).bind(tenant).bind(id).execute(writing.now()?).await?;
    if removed.rows_affected() == 0 {
        let (_, active_op) = instances::standing(writing, tenant, id).await?;
        return Err(instances::busy(id, active_op.unwrap_or_default()).into());
    }
    query(UNRETIRE).bind(id).execute(writing.now()?).await?;
    instances::forget(writing, id).await
}

/// What is kept of an instance that was abandoned.
pub(super) async fn bury(
    writing: &mut Writing<'_>,
    tenant: &str,
    tombstone: &Tombstone,
) -> Done<()> {
    query("INSERT INTO tombstones (tenant, instance_id, tombstone) VALUES ($1, $2, $3)")
        .bind(tenant)
        .bind(&tombstone.vnf_instance_id)
        .bind(serde_json::to_string(tombstone)?)
        .execute(writing.now()?)
        .await?;
    Ok(())
}

/// That nothing of it is left.
pub(super) async fn forget(writing: &mut Writing<'_>, tenant: &str, id: &str) -> Done<()> {
    let gone = query("DELETE FROM tombstones WHERE tenant = $1 AND instance_id = $2")
        .bind(tenant)
        .bind(id)
        .execute(writing.now()?)
        .await?;
    if gone.rows_affected() == 0 {
        return Err(absent("abandoned VNF instance", id).into());
    }
    Ok(())
}

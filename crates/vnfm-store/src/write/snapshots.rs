//! VNF snapshots. An operation that works with one is recorded in it, and counts until the operation has ended: so nothing
//! has to release it, also if the operation is abandoned.

use crate::dialect;
use crate::fault::Done;
use crate::refusals::{absent, exists, first, if_found};
use crate::secret_keys::SecretKeys;
use crate::statement::{Query, Reason, Refusal, Statement};
use crate::visibility;
use vnfm_core::ports::{SnapshotContents, SnapshotRecord, StoreError};

const KIND: &str = "VNF snapshot";

/// Adds a snapshot; `exists` if its id is taken.
pub(super) fn add(record: &SnapshotRecord, keys: &SecretKeys) -> Done<Vec<Statement>> {
    const ADD: &str = "
        INSERT INTO snapshots (tenant, id, version, info, deployment, handle, vim_id, used_by, deleting, sight, changed_ms)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, (SELECT now_ms FROM clock))
        ON CONFLICT DO NOTHING";
    let add = with_columns(Statement::new(ADD), record, keys)?
        .bind(visibility::stored(&record.scope)?)
        .or(exists(KIND, &record.info.id));
    Ok(vec![add])
}

/// Updates a snapshot if its version is still the one that was read, and no other operation uses it.
pub(super) fn put(record: &SnapshotRecord, keys: &SecretKeys) -> Done<Vec<Statement>> {
    const PUT: &str = "
        UPDATE snapshots SET version = version + 1, info = $4, deployment = $5, handle = $6, vim_id = $7, used_by = $8,
            deleting = $9, changed_ms = (SELECT now_ms FROM clock)
        WHERE tenant = $1 AND id = $2 AND version = $3 AND NOT EXISTS (
            SELECT 1 FROM ops WHERE ops.id = snapshots.used_by AND ended = 0 AND ops.id <> COALESCE($8, '')
        )";
    let put = with_columns(Statement::new(PUT), record, keys)?;
    let by = record.used_by.as_deref().unwrap_or_default();
    Ok(vec![put.or(refusal((&record.tenant, &record.info.id), by))])
}

/// Binds the columns as `$1` to `$9`.
fn with_columns(
    statement: Statement,
    record: &SnapshotRecord,
    keys: &SecretKeys,
) -> Done<Statement> {
    Ok(statement
        .bind(&record.tenant)
        .bind(&record.info.id)
        .bind(record.version)
        .bind(serde_json::to_string(&record.info)?)
        .bind(keys.seal_some(record.deployment.as_deref())?)
        .bind(serde_json::to_string(&record.handle)?)
        .bind(record.vim_id().unwrap_or_default())
        .bind(&record.used_by)
        .bind(record.deleting))
}

/// Writes what the operation stored that uses the snapshot.
pub(super) fn fill(contents: &SnapshotContents, keys: &SecretKeys) -> Done<Vec<Statement>> {
    let info = match &contents.snapshot {
        Some(_) => dialect::with_member("info", "vnfSnapshot", "$4"),
        None => dialect::without_member("info", "vnfSnapshot"),
    };
    let sql = format!(
        "UPDATE snapshots SET version = version + 1, info = {info}, deployment = $5, handle = $6, vim_id = $7,
            changed_ms = (SELECT now_ms FROM clock)
        WHERE tenant = $1 AND id = $2 AND used_by = $3"
    );
    let snapshot = contents.snapshot.as_ref();
    let fill = Statement::new(sql)
        .bind(&contents.tenant)
        .bind(&contents.id)
        .bind(&contents.op_id)
        .bind(snapshot.map(serde_json::to_string).transpose()?)
        .bind(keys.seal_some(contents.deployment.as_deref())?)
        .bind(serde_json::to_string(&contents.handle)?)
        .bind(contents.vim_id().unwrap_or_default());
    let key = (contents.tenant.as_str(), contents.id.as_str());
    Ok(vec![fill.or(refusal(key, &contents.op_id))])
}

/// Removes a snapshot that no operation uses, if its version is still the one that was read.
pub(super) fn remove(tenant: &str, id: &str, version: u64) -> Vec<Statement> {
    const REMOVE: &str = "
        DELETE FROM snapshots WHERE tenant = $1 AND id = $2 AND version = $3 AND NOT EXISTS (
            SELECT 1 FROM ops WHERE ops.id = snapshots.used_by AND ended = 0
        )";
    let remove = Statement::new(REMOVE).bind(tenant).bind(id).bind(version);
    vec![remove.or(refusal((tenant, id), ""))]
}

/// Why a snapshot is not written: another operation than `by` uses it, or it has changed, or it does not exist.
fn refusal((tenant, id): (&str, &str), by: &str) -> Refusal {
    let changed = StoreError::Changed {
        what: KIND,
        id: id.to_owned(),
    };
    let known = Query::new("SELECT 1 FROM snapshots WHERE tenant = $1 AND id = $2")
        .bind(tenant)
        .bind(id);
    Refusal::from(absent(KIND, id))
        .unless(used((tenant, id), by))
        .unless(if_found(known, changed))
}

fn used((tenant, id): (&str, &str), by: &str) -> Reason {
    const USER: &str = "
        SELECT ops.id FROM snapshots JOIN ops ON ops.id = snapshots.used_by AND ended = 0
        WHERE snapshots.tenant = $1 AND snapshots.id = $2 AND ops.id <> $3";
    let owned = id.to_owned();
    let user = Query::new(USER).bind(tenant).bind(id).bind(by);
    user.then(move |rows| {
        let (op_id,): (String,) = first(rows)?;
        Ok(StoreError::WrongState {
            what: KIND,
            id: owned.clone(),
            found: format!("used by operation `{op_id}`, which has not ended"),
        })
    })
}

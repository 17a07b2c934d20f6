//! The VIM registry, and which instance uses which VIM.
//!
//! `identity`, where known, tells that several registrations are the same cluster. [`add_use`] and [`mark_leaving`] exclude each
//! other; as write transactions are serial, exactly one is accepted of an instantiation on a cluster and the termination
//! of the VNF that provides the cluster.

use super::{Writing, absent, number, pins};
use crate::fault::Done;
use crate::kept_addresses;
use vnfm_core::ports::{StoreError, VimRecord, VimUse};

const KIND: &str = "VIM";

/// Adds a VIM.
pub(super) fn add(writing: &Writing<'_>, record: &VimRecord) -> Done<()> {
    const ADD: &str = "
        INSERT INTO vims (tenant, id, version, name, registered_by, identity, vim, access_info, shared)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT DO NOTHING";
    let keys = writing.keys;
    let added = writing
        .statement(ADD)
        .bind(&record.tenant)
        .bind(&record.vim.id)
        .bind(number(record.version))
        .bind(&record.vim.name)
        .bind(&record.vim.registered_by)
        .bind(&record.vim.identity)
        .bind(serde_json::to_string(&record.vim)?)
        .bind(keys.seal(&record.access_info)?)
        .bind(i64::from(record.vim.shared))
        .changed()?;
    if added {
        return Ok(());
    }
    let same_id = is_known(writing, &record.tenant, &record.vim.id)?;
    let taken = if same_id {
        &record.vim.id
    } else {
        &record.vim.name
    };
    Err(StoreError::Exists {
        what: KIND,
        id: taken.clone(),
    }
    .into())
}

/// Updates a VIM if its version is still the one that was read.
pub(super) fn put(writing: &Writing<'_>, record: &VimRecord) -> Done<()> {
    const PUT: &str = "
        UPDATE vims SET version = version + 1, name = $4, registered_by = $5, identity = $6, vim = $7,
            access_info = $8, shared = $9
        WHERE tenant = $1 AND id = $2 AND version = $3
            AND ($9 = 1 OR shared = 0 OR NOT EXISTS (SELECT 1 FROM uses WHERE vim_id = $2 AND tenant <> $1))";
    let keys = writing.keys;
    let written = writing
        .statement(PUT)
        .bind(&record.tenant)
        .bind(&record.vim.id)
        .bind(number(record.version))
        .bind(&record.vim.name)
        .bind(&record.vim.registered_by)
        .bind(&record.vim.identity)
        .bind(serde_json::to_string(&record.vim)?)
        .bind(keys.seal(&record.access_info)?)
        .bind(i64::from(record.vim.shared))
        .changed();
    match written {
        Err(fault) if fault.is_duplicate() => Err(StoreError::Exists {
            what: KIND,
            id: record.vim.name.clone(),
        }
        .into()),
        Err(fault) => Err(fault),
        Ok(true) => kept_addresses::changed(writing, record),
        Ok(false) => Err(not_put(writing, record)?.into()),
    }
}

/// The reason why a VIM was not written: other tenants would lose it, it was changed meanwhile, or it does not exist.
fn not_put(writing: &Writing<'_>, record: &VimRecord) -> Done<StoreError> {
    let (tenant, id) = (&record.tenant, &record.vim.id);
    let users = if record.vim.shared {
        Vec::new()
    } else {
        others_on(writing, record)?
    };
    Ok(if !users.is_empty() {
        in_use(KIND, id, tenant, users)
    } else if is_known(writing, tenant, id)? {
        StoreError::Changed {
            what: KIND,
            id: id.clone(),
        }
    } else {
        absent(KIND, id)
    })
}

/// The instances of other tenants that use a shared VIM.
fn others_on(writing: &Writing<'_>, record: &VimRecord) -> Done<Vec<User>> {
    const OTHERS: &str = "
        SELECT DISTINCT u.instance_id, u.tenant, i.name
        FROM uses u
        JOIN vims v ON v.tenant = $1 AND v.id = u.vim_id AND v.shared = 1 AND v.version = $3
        LEFT JOIN instances i ON i.id = u.instance_id
        WHERE u.vim_id = $2 AND u.tenant <> $1
        ORDER BY u.instance_id";
    let others = writing
        .statement(OTHERS)
        .bind(&record.tenant)
        .bind(&record.vim.id);
    others.bind(number(record.version)).rows()
}

/// Removes an unused VIM, or, with `force`, any.
pub(super) fn remove(writing: &Writing<'_>, tenant: &str, id: &str, force: bool) -> Done<()> {
    const REMOVE: &str = "
        DELETE FROM vims WHERE tenant = $1 AND id = $2
            AND ($3 = 1 OR NOT EXISTS (
                SELECT 1 FROM uses WHERE vim_id = $2 AND (tenant = $1 OR vims.shared = 1)
            ))";
    const USERS: &str = "
        SELECT DISTINCT u.instance_id, u.tenant, i.name
        FROM uses u
        JOIN vims v ON v.tenant = $1 AND v.id = u.vim_id AND (u.tenant = $1 OR v.shared = 1)
        LEFT JOIN instances i ON i.id = u.instance_id
        WHERE u.vim_id = $2
        ORDER BY u.instance_id";
    pins::forget_vim(writing, tenant, id)?; // a refusal below rolls this back
    let remove = writing
        .statement(REMOVE)
        .bind(tenant)
        .bind(id)
        .bind(i64::from(force));
    if remove.changed()? || !is_known(writing, tenant, id)? {
        return kept_addresses::removed(writing, tenant, id);
    }
    let users: Vec<User> = writing.statement(USERS).bind(tenant).bind(id).rows()?;
    Err(in_use(KIND, id, tenant, users).into())
}

/// Records that an instance uses a VIM; refused while the cluster behind it is leaving. If the change names no cluster,
/// the registry's `identity` is used.
pub(super) fn add_use(writing: &Writing<'_>, lives_on: &VimUse) -> Done<()> {
    const ADD: &str = "
        INSERT INTO uses (instance_id, tenant, vim_id, identity, namespace)
        SELECT $1, $2, $3, behind.identity, $5
        FROM (SELECT COALESCE($4, (
            SELECT identity FROM vims WHERE (tenant = $2 OR shared = 1) AND id = $3
            ORDER BY CASE WHEN tenant = $2 THEN 0 ELSE 1 END, tenant LIMIT 1
        ), '') AS identity) AS behind
        WHERE ($3 = '' OR EXISTS (SELECT 1 FROM vims WHERE (tenant = $2 OR shared = 1) AND id = $3))
            AND NOT EXISTS (
                SELECT 1 FROM retiring AS r
                WHERE (r.vim_id = $3 AND (r.tenant = $2 OR EXISTS (
                    SELECT 1 FROM vims v WHERE v.tenant = r.tenant AND v.id = r.vim_id AND v.shared = 1
                ))) OR (r.identity = behind.identity AND r.identity <> '')
            )
        ON CONFLICT (instance_id, vim_id, identity)
            DO UPDATE SET tenant = excluded.tenant, namespace = excluded.namespace";
    const FORGET_UNKNOWN: &str = "
        DELETE FROM uses WHERE instance_id = $1 AND vim_id = $3 AND identity = ''
            AND COALESCE($4, (
                SELECT identity FROM vims WHERE (tenant = $2 OR shared = 1) AND id = $3
                ORDER BY CASE WHEN tenant = $2 THEN 0 ELSE 1 END, tenant LIMIT 1
            ), '') <> ''";
    let vim_id = lives_on.vim_id.as_deref().unwrap_or_default();
    let with = |sql| {
        let statement = writing.statement(sql).bind(&lives_on.instance_id);
        statement
            .bind(&lives_on.tenant)
            .bind(vim_id)
            .bind(&lives_on.identity)
    };
    if !with(ADD).bind(&lives_on.namespace).changed()? {
        return Err(not_added(writing, lives_on, vim_id)?.into());
    }
    with(FORGET_UNKNOWN).run()
}

/// The reason why an instance cannot use a VIM: it does not exist or is leaving.
fn not_added(writing: &Writing<'_>, lives_on: &VimUse, vim_id: &str) -> Done<StoreError> {
    const RETIRING: &str = "
        SELECT op_id FROM retiring
        WHERE vim_id = $2 OR (identity = $3 AND identity <> '')
        ORDER BY CASE WHEN tenant = $1 THEN 0 ELSE 1 END, op_id LIMIT 1";
    if !vim_id.is_empty() && !is_visible(writing, &lives_on.tenant, vim_id)? {
        return Ok(absent(KIND, vim_id));
    }
    let identity = match &lives_on.identity {
        Some(identity) => identity.clone(),
        None => identity_of(writing, lives_on)?,
    };
    let op_id = writing
        .statement(RETIRING)
        .bind(&lives_on.tenant)
        .bind(vim_id)
        .bind(&identity);
    let op_id = op_id.one()?;
    let vim = if vim_id.is_empty() {
        identity
    } else {
        vim_id.to_owned()
    };
    Ok(StoreError::VimLeaving { vim, op_id })
}

/// Removes an instance's uses of VIMs; its active operation records them first.
pub(super) fn remove_uses(writing: &Writing<'_>, instance_id: &str) -> Done<()> {
    lived(writing, instance_id)?;
    writing
        .statement("DELETE FROM uses WHERE instance_id = $1")
        .bind(instance_id)
        .run()
}

/// Records the VIMs that an instance uses in its active operation.
pub(super) fn lived(writing: &Writing<'_>, instance_id: &str) -> Done<()> {
    const LIVED: &str = "
        INSERT INTO lived (op_id, vim_id, namespace)
        SELECT i.active_op, u.vim_id, COALESCE(u.namespace, '')
        FROM instances i JOIN uses u ON u.instance_id = i.id
        WHERE i.id = $1 AND i.active_op IS NOT NULL
        ON CONFLICT DO NOTHING";
    writing.statement(LIVED).bind(instance_id).run()
}

/// Marks the VIMs that an instance registered as leaving; refused if another instance, of any tenant, uses one of them or
/// the cluster behind it.
pub(super) fn mark_leaving(
    writing: &Writing<'_>,
    tenant: &str,
    instance_id: &str,
    op_id: &str,
) -> Done<()> {
    const RETIRE: &str = "
        INSERT INTO retiring (op_id, tenant, vim_id, identity)
        SELECT $3, tenant, id, COALESCE(identity, '') FROM vims WHERE tenant = $1 AND registered_by = $2
        ON CONFLICT (op_id, tenant, vim_id) DO UPDATE SET identity = excluded.identity";
    let users = users_of_instance(writing, tenant, instance_id)?;
    if !users.is_empty() {
        return Err(in_use("VNF instance", instance_id, tenant, users).into());
    }
    writing
        .statement(RETIRE)
        .bind(tenant)
        .bind(instance_id)
        .bind(op_id)
        .run()
}

/// The other instances, of any tenant, that use a VIM which an instance registered, or the cluster behind it.
pub(super) fn users_of_instance(
    writing: &Writing<'_>,
    tenant: &str,
    instance_id: &str,
) -> Done<Vec<User>> {
    const USERS: &str = "
        SELECT DISTINCT u.instance_id, u.tenant, i.name
        FROM uses u
        LEFT JOIN vims lived_on ON lived_on.tenant = u.tenant AND lived_on.id = u.vim_id
        JOIN vims v ON ((v.tenant = u.tenant OR v.shared = 1) AND v.id = u.vim_id)
            OR (u.identity <> '' AND v.identity = u.identity)
            OR v.identity = lived_on.identity
        LEFT JOIN instances i ON i.id = u.instance_id
        WHERE v.tenant = $1 AND v.registered_by = $2 AND u.instance_id <> $2
        ORDER BY u.instance_id";
    writing
        .statement(USERS)
        .bind(tenant)
        .bind(instance_id)
        .rows()
}

/// Unmarks the VIMs that an operation marked as leaving.
pub(super) fn unmark_leaving(writing: &Writing<'_>, op_id: &str) -> Done<()> {
    writing
        .statement("DELETE FROM retiring WHERE op_id = $1")
        .bind(op_id)
        .run()
}

/// Id, tenant and name of an instance that uses something.
pub(super) type User = (String, String, Option<String>);

/// The error for something in use, with the users as `name (id)`; users of other tenants are not named.
pub(super) fn in_use(what: &'static str, id: &str, tenant: &str, users: Vec<User>) -> StoreError {
    let by = users
        .into_iter()
        .map(|(id, whose, name)| match name {
            _ if whose != tenant => "an instance of another tenant".to_owned(),
            Some(name) => format!("{name} ({id})"),
            None => id,
        })
        .collect();
    StoreError::InUse {
        what,
        id: id.to_owned(),
        by,
    }
}

fn identity_of(writing: &Writing<'_>, lives_on: &VimUse) -> Done<String> {
    const IDENTITY: &str = "
        SELECT identity FROM vims WHERE (tenant = $1 OR shared = 1) AND id = $2
        ORDER BY CASE WHEN tenant = $1 THEN 0 ELSE 1 END, tenant LIMIT 1";
    let known = writing
        .statement(IDENTITY)
        .bind(&lives_on.tenant)
        .bind(&lives_on.vim_id);
    Ok(known
        .value::<Option<String>>()?
        .flatten()
        .unwrap_or_default())
}

/// True if a tenant may use the VIM: it is its own or shared.
fn is_visible(writing: &Writing<'_>, tenant: &str, id: &str) -> Done<bool> {
    const VISIBLE: &str =
        "SELECT 1 FROM vims WHERE (tenant = $1 OR shared = 1) AND id = $2 LIMIT 1";
    writing.statement(VISIBLE).bind(tenant).bind(id).found()
}

fn is_known(writing: &Writing<'_>, tenant: &str, id: &str) -> Done<bool> {
    const KNOWN: &str = "SELECT 1 FROM vims WHERE tenant = $1 AND id = $2";
    writing.statement(KNOWN).bind(tenant).bind(id).found()
}

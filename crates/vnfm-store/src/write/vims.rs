//! The VIM registry, and which instance uses which VIM.
//!
//! `identity`, where known, tells that several registrations are the same cluster. [`add_use`] and [`mark_leaving`] exclude each
//! other: each has the condition that the other has not happened, and write transactions are serialisable. So exactly one
//! is accepted of an instantiation on a cluster and the termination of the VNF that provides the cluster.

use super::{links, pins, volumes};
use crate::fault::Done;
use crate::kept_addresses;
use crate::refusals::{absent, exists, first, if_found};
use crate::secret_keys::SecretKeys;
use crate::statement::{FromRow, Query, Reason, Refusal, Row, Statement};
use vnfm_core::ports::{StoreError, VimRecord, VimUse};

const KIND: &str = "VIM";

/// Adds a VIM; refused if its id or name exists.
pub(super) fn add(record: &VimRecord, keys: &SecretKeys) -> Done<Vec<Statement>> {
    const ADD: &str = "
        INSERT INTO vims (tenant, id, version, name, registered_by, identity, vim, access_info, shared)
        VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
        ON CONFLICT DO NOTHING";
    let (tenant, id) = (&record.tenant, &record.vim.id);
    let same_id = if_found(known(tenant, id), exists(KIND, id));
    let add = with_columns(Statement::new(ADD), record, keys)?;
    let refusal = Refusal::from(exists(KIND, &record.vim.name));
    Ok(vec![add.or(refusal.unless(same_id))])
}

/// Updates a VIM if its version is still the one that was read, and no other tenant would lose it.
pub(super) fn put(record: &VimRecord, keys: &SecretKeys) -> Done<Vec<Statement>> {
    const PUT: &str = "
        UPDATE vims SET version = version + 1, name = $4, registered_by = $5, identity = $6, vim = $7,
            access_info = $8, shared = $9
        WHERE tenant = $1 AND id = $2 AND version = $3
            AND ($9 = 1 OR shared = 0 OR NOT EXISTS (SELECT 1 FROM uses WHERE vim_id = $2 AND tenant <> $1))";
    let (tenant, id) = (&record.tenant, &record.vim.id);
    let mut refusal = Refusal::from(absent(KIND, id));
    if !record.vim.shared {
        refusal = refusal.unless(used_by_other_tenants(record));
    }
    let changed = StoreError::Changed {
        what: KIND,
        id: id.clone(),
    };
    let put = with_columns(Statement::new(PUT), record, keys)?
        .or(refusal.unless(if_found(known(tenant, id), changed)))
        .unless_duplicate(exists(KIND, &record.vim.name));
    Ok(vec![put, kept_addresses::changed(record)])
}

/// Binds the columns as `$1` to `$9`.
fn with_columns(statement: Statement, record: &VimRecord, keys: &SecretKeys) -> Done<Statement> {
    Ok(statement
        .bind(&record.tenant)
        .bind(&record.vim.id)
        .bind(record.version)
        .bind(&record.vim.name)
        .bind(&record.vim.registered_by)
        .bind(&record.vim.identity)
        .bind(serde_json::to_string(&record.vim)?)
        .bind(keys.seal(&record.access_info)?)
        .bind(record.vim.shared))
}

/// The refusal because instances of other tenants use a shared VIM.
fn used_by_other_tenants(record: &VimRecord) -> Reason {
    const OTHERS: &str = "
        SELECT DISTINCT u.instance_id, u.tenant, i.name
        FROM uses u
        JOIN vims v ON v.tenant = $1 AND v.id = u.vim_id AND v.shared = 1 AND v.version = $3
        LEFT JOIN instances i ON i.id = u.instance_id
        WHERE u.vim_id = $2 AND u.tenant <> $1
        ORDER BY u.instance_id";
    let (tenant, id) = (&record.tenant, &record.vim.id);
    Query::new(OTHERS)
        .bind(tenant)
        .bind(id)
        .bind(record.version)
        .then(in_use(KIND, id, tenant))
}

/// Removes an unused VIM, or, with `force`, any. Succeeds if it does not exist.
pub(super) fn remove(tenant: &str, id: &str, force: bool) -> Vec<Statement> {
    const REMOVE: &str = "
        DELETE FROM vims WHERE tenant = $1 AND id = $2
            AND ($3 = 1 OR NOT EXISTS (
                SELECT 1 FROM uses WHERE vim_id = $2 AND (tenant = $1 OR vims.shared = 1)
                UNION ALL SELECT 1 FROM snapshots WHERE vim_id = $2 AND (tenant = $1 OR vims.shared = 1)
                UNION ALL SELECT 1 FROM links WHERE vim_id = $2 AND (tenant = $1 OR vims.shared = 1)
                UNION ALL SELECT 1 FROM volumes WHERE vim_id = $2 AND (tenant = $1 OR vims.shared = 1)
            ))";
    const USERS: &str = "
        SELECT DISTINCT u.instance_id, u.tenant, i.name
        FROM uses u
        JOIN vims v ON v.tenant = $1 AND v.id = u.vim_id AND (u.tenant = $1 OR v.shared = 1)
        LEFT JOIN instances i ON i.id = u.instance_id
        WHERE u.vim_id = $2
        UNION
        SELECT s.id, s.tenant, 'VNF snapshot'
        FROM snapshots s JOIN vims v ON v.tenant = $1 AND v.id = s.vim_id AND (s.tenant = $1 OR v.shared = 1)
        WHERE s.vim_id = $2
        UNION
        SELECT l.id, l.tenant, 'shared virtual link'
        FROM links l JOIN vims v ON v.tenant = $1 AND v.id = l.vim_id AND (l.tenant = $1 OR v.shared = 1)
        WHERE l.vim_id = $2
        UNION
        SELECT r.id, r.tenant, 'retained volume'
        FROM volumes r JOIN vims v ON v.tenant = $1 AND v.id = r.vim_id AND (r.tenant = $1 OR v.shared = 1)
        WHERE r.vim_id = $2
        ORDER BY 1";
    let users = Query::new(USERS).bind(tenant).bind(id);
    let remove = Statement::new(REMOVE).bind(tenant).bind(id).bind(force);
    vec![
        pins::forget_vim(tenant, id), // a refusal below rolls this back
        remove.or(users.then(in_use(KIND, id, tenant))),
        kept_addresses::removed(tenant, id),
    ]
}

/// Records that an instance uses a VIM; refused while the cluster behind it is leaving. If the change names no cluster,
/// the registry's `identity` is used.
pub(super) fn add_use(lives_on: &VimUse) -> Vec<Statement> {
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
        Statement::new(sql)
            .bind(&lives_on.instance_id)
            .bind(&lives_on.tenant)
            .bind(vim_id)
            .bind(&lives_on.identity)
    };
    let add = with(ADD).bind(&lives_on.namespace);
    vec![add.or(not_added(lives_on, vim_id)), with(FORGET_UNKNOWN)]
}

/// The reason why an instance cannot use a VIM: it does not exist or is leaving.
fn not_added(lives_on: &VimUse, vim_id: &str) -> Refusal {
    const MISSING: &str = "
        SELECT 1 WHERE $2 <> '' AND NOT EXISTS (SELECT 1 FROM vims WHERE (tenant = $1 OR shared = 1) AND id = $2)";
    const LEAVING: &str = "
        SELECT r.op_id, behind.identity
        FROM retiring AS r, (SELECT COALESCE($3, (
            SELECT identity FROM vims WHERE (tenant = $1 OR shared = 1) AND id = $2
            ORDER BY CASE WHEN tenant = $1 THEN 0 ELSE 1 END, tenant LIMIT 1
        ), '') AS identity) AS behind
        WHERE r.vim_id = $2 OR (r.identity = behind.identity AND r.identity <> '')
        ORDER BY CASE WHEN r.tenant = $1 THEN 0 ELSE 1 END, r.op_id LIMIT 1";
    let ask = |sql: &'static str| Query::new(sql).bind(&lives_on.tenant).bind(vim_id);
    let named = vim_id.to_owned();
    let leaving = ask(LEAVING).bind(&lives_on.identity).then(move |rows| {
        let (op_id, identity): (String, String) = first(rows)?;
        let vim = Some(named.clone()).filter(|vim| !vim.is_empty());
        Ok(StoreError::VimLeaving {
            vim: vim.unwrap_or(identity),
            op_id,
        })
    });
    let changed = StoreError::Changed {
        what: KIND,
        id: vim_id.to_owned(),
    };
    Refusal::from(changed)
        .unless(if_found(ask(MISSING), absent(KIND, vim_id)))
        .unless(leaving)
}

/// Removes an instance's uses of VIMs; its active operation records them first.
pub(super) fn remove_uses(instance_id: &str) -> Vec<Statement> {
    let remove = Statement::new("DELETE FROM uses WHERE instance_id = $1").bind(instance_id);
    vec![
        lived(instance_id),
        remove,
        links::remove_uses(instance_id),
        volumes::remove_uses(instance_id),
    ]
}

/// Records the VIMs that an instance uses in its active operation.
pub(super) fn lived(instance_id: &str) -> Statement {
    const LIVED: &str = "
        INSERT INTO lived (op_id, vim_id, namespace)
        SELECT i.active_op, u.vim_id, COALESCE(u.namespace, '')
        FROM instances i JOIN uses u ON u.instance_id = i.id
        WHERE i.id = $1 AND i.active_op IS NOT NULL
        ON CONFLICT DO NOTHING";
    Statement::new(LIVED).bind(instance_id)
}

/// Marks the VIMs that an instance registered as leaving; refused if another instance, of any tenant, uses one of them
/// or the cluster behind it, unless it is among `besides`.
pub(super) fn mark_leaving(
    (tenant, instance_id): (&str, &str),
    op_id: &str,
    besides: &[String],
) -> Vec<Statement> {
    const RETIRE: &str = "
        INSERT INTO retiring (op_id, tenant, vim_id, identity)
        SELECT $3, tenant, id, COALESCE(identity, '') FROM vims WHERE tenant = $1 AND registered_by = $2
        ON CONFLICT (op_id, tenant, vim_id) DO UPDATE SET identity = excluded.identity";
    let mark = Statement::new(RETIRE)
        .bind(tenant)
        .bind(instance_id)
        .bind(op_id);
    vec![unused_by_others((tenant, instance_id), besides), mark]
}

/// Refuses if other instances than `besides`, of any tenant, use a VIM which an instance registered, or the cluster behind
/// it.
pub(super) fn unused_by_others(
    (tenant, instance_id): (&str, &str),
    besides: &[String],
) -> Statement {
    const USERS: &str = "
        SELECT DISTINCT u.instance_id, u.tenant, i.name
        FROM uses u
        LEFT JOIN vims lived_on ON lived_on.tenant = u.tenant AND lived_on.id = u.vim_id
        JOIN vims v ON ((v.tenant = u.tenant OR v.shared = 1) AND v.id = u.vim_id)
            OR (u.identity <> '' AND v.identity = u.identity)
            OR v.identity = lived_on.identity
        LEFT JOIN instances i ON i.id = u.instance_id
        WHERE v.tenant = $1 AND v.registered_by = $2 AND u.instance_id <> $2
            AND $3 NOT LIKE '%,' || u.instance_id || ',%'
        UNION
        SELECT s.id, s.tenant, 'VNF snapshot'
        FROM snapshots s JOIN vims v ON v.id = s.vim_id AND (v.tenant = s.tenant OR v.shared = 1)
        WHERE v.tenant = $1 AND v.registered_by = $2
        UNION
        SELECT l.id, l.tenant, 'shared virtual link'
        FROM links l JOIN vims v ON v.id = l.vim_id AND (v.tenant = l.tenant OR v.shared = 1)
        WHERE v.tenant = $1 AND v.registered_by = $2
        UNION
        SELECT r.id, r.tenant, 'retained volume'
        FROM volumes r JOIN vims v ON v.id = r.vim_id AND (v.tenant = r.tenant OR v.shared = 1)
        WHERE v.tenant = $1 AND v.registered_by = $2
        ORDER BY 1";
    Statement::new(USERS)
        .bind(tenant)
        .bind(instance_id)
        .bind(format!(",{},", besides.join(",")))
        .none_or(in_use("VNF instance", instance_id, tenant))
}

/// Unmarks the VIMs that an operation marked as leaving.
pub(super) fn unmark_leaving(op_id: &str) -> Vec<Statement> {
    vec![Statement::new("DELETE FROM retiring WHERE op_id = $1").bind(op_id)]
}

/// Makes the error for something in use out of its users' rows: id, tenant and name. They are shown as `name (id)`; users
/// of other tenants are not named.
pub(super) fn in_use(
    what: &'static str,
    id: &str,
    tenant: &str,
) -> impl Fn(Vec<Row>) -> Done<StoreError> + Send + 'static {
    let (id, tenant) = (id.to_owned(), tenant.to_owned());
    move |rows| {
        let user = |row| {
            let (id, whose, name): (String, String, Option<String>) = FromRow::from_row(row)?;
            Ok(match name {
                _ if whose != tenant => "an instance of another tenant".to_owned(),
                Some(name) => format!("{name} ({id})"),
                None => id,
            })
        };
        Ok(StoreError::InUse {
            what,
            id: id.clone(),
            by: rows.into_iter().map(user).collect::<Done<_>>()?,
        })
    }
}

fn known(tenant: &str, id: &str) -> Query {
    Query::new("SELECT 1 FROM vims WHERE tenant = $1 AND id = $2")
        .bind(tenant)
        .bind(id)
}

//! Shared virtual links, and which instances use them. [`put`] in the state `DELETING` and [`set_uses`] exclude each other: each
//! has the condition that the other has not happened. So exactly one is accepted of a use and a deletion.

use super::vims::in_use;
use crate::fault::Done;
use crate::refusals::{absent, exists, first, if_found};
use crate::statement::{Query, Reason, Refusal, Statement};
use vnfm_core::ports::{LinkRecord, StoreError};

const KIND: &str = "shared virtual link";

/// Adds a link; `exists` if its id or its name is taken.
pub(super) fn add(record: &LinkRecord) -> Done<Vec<Statement>> {
    const ADD: &str = "
        INSERT INTO links (tenant, id, version, name, vim_id, state, info) VALUES ($1, $2, $3, $4, $5, $6, $7)
        ON CONFLICT DO NOTHING";
    let add = with_columns(Statement::new(ADD), record)?;
    Ok(vec![add.or(exists(KIND, &record.link.spec.name))])
}

/// Updates a link if its version is still the one that was read; the deletion of one that is used does not begin.
pub(super) fn put(record: &LinkRecord) -> Done<Vec<Statement>> {
    const PUT: &str = "
        UPDATE links SET version = version + 1, name = $4, vim_id = $5, state = $6, info = $7
        WHERE tenant = $1 AND id = $2 AND version = $3 AND ($6 <> 'DELETING' OR NOT EXISTS (
            SELECT 1 FROM link_uses WHERE tenant = $1 AND link_id = $2
        ))";
    let (tenant, id) = (&record.tenant, &record.link.id);
    let changed = StoreError::Changed {
        what: KIND,
        id: id.clone(),
    };
    let known = Query::new("SELECT 1 FROM links WHERE tenant = $1 AND id = $2")
        .bind(tenant)
        .bind(id);
    let refusal = Refusal::from(absent(KIND, id))
        .unless(users(tenant, id))
        .unless(if_found(known, changed));
    Ok(vec![with_columns(Statement::new(PUT), record)?.or(refusal)])
}

/// Binds the columns as `$1` to `$7`. Who uses the link is not part of its document.
fn with_columns(statement: Statement, record: &LinkRecord) -> Done<Statement> {
    let mut link = record.link.clone();
    link.used_by.clear();
    Ok(statement
        .bind(&record.tenant)
        .bind(&link.id)
        .bind(record.version)
        .bind(&link.spec.name)
        .bind(&link.spec.vim_id)
        .bind(link.state.as_str())
        .bind(serde_json::to_string(&link)?))
}

/// Removes a link that no instance uses; succeeds if it does not exist.
pub(super) fn remove(tenant: &str, id: &str) -> Vec<Statement> {
    const REMOVE: &str = "
        DELETE FROM links WHERE tenant = $1 AND id = $2
            AND NOT EXISTS (SELECT 1 FROM link_uses WHERE tenant = $1 AND link_id = $2)";
    let remove = Statement::new(REMOVE).bind(tenant).bind(id);
    vec![remove.or(Refusal::from(users(tenant, id)))]
}

/// The refusal because instances use a link.
fn users(tenant: &str, id: &str) -> Reason {
    const USERS: &str = "
        SELECT u.instance_id, u.tenant, i.name FROM link_uses u LEFT JOIN instances i ON i.id = u.instance_id
        WHERE u.tenant = $1 AND u.link_id = $2 ORDER BY u.instance_id";
    let users = Query::new(USERS).bind(tenant).bind(id);
    users.then(in_use(KIND, id, tenant))
}

/// An instance uses these links and no others; refused unless each of them is available.
pub(super) fn set_uses(tenant: &str, instance: &str, links: &[String]) -> Vec<Statement> {
    const USE: &str = "
        INSERT INTO link_uses (instance_id, link_id, tenant)
        SELECT $1, id, tenant FROM links WHERE tenant = $2 AND id = $3 AND state = 'AVAILABLE'
        ON CONFLICT DO NOTHING";
    let add = |id: &String| {
        let add = Statement::new(USE).bind(instance).bind(tenant).bind(id);
        add.or(Refusal::from(absent(KIND, id)).unless(unavailable(tenant, id)))
    };
    let none = remove_uses(instance);
    [none].into_iter().chain(links.iter().map(add)).collect()
}

/// Removes all uses of an instance.
pub(super) fn remove_uses(instance: &str) -> Statement {
    Statement::new("DELETE FROM link_uses WHERE instance_id = $1").bind(instance)
}

/// The refusal because a link is in another state.
fn unavailable(tenant: &str, id: &str) -> Reason {
    let owned = id.to_owned();
    let state = Query::new("SELECT state FROM links WHERE tenant = $1 AND id = $2")
        .bind(tenant)
        .bind(id);
    state.then(move |rows| {
        let (found,): (String,) = first(rows)?;
        Ok(StoreError::WrongState {
            what: KIND,
            id: owned.clone(),
            found,
        })
    })
}

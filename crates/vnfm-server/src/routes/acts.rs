//! What somebody does on their own authority: abandon, and the audit of all such acts. Our own API.

use crate::access::{Principal, Tenant};
use crate::acts::Acting;
use crate::problem::{Answer, Problem};
use crate::query;
use crate::state::App;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use std::collections::BTreeMap;
use vnfm_types::AuditEntry;

/// How many entries of the audit one answer has at most.
const ENTRIES: usize = 500;

pub(super) async fn abandon(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    acting: Acting,
    Path(id): Path<String>,
    Query(asked): Query<BTreeMap<String, String>>,
) -> Answer<StatusCode> {
    let force = query::force(&asked)?;
    app.engine.abandon(&tenant, &id, force, acting.act).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn forget(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    acting: Acting,
    Path(id): Path<String>,
) -> Answer<StatusCode> {
    app.engine
        .remove_tombstone(&tenant, &id, acting.act)
        .await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn audit(
    State(app): State<App>,
    who: Principal,
    Query(asked): Query<BTreeMap<String, String>>,
) -> Answer<axum::Json<Vec<AuditEntry>>> {
    if !who.only.is_unlimited() {
        let what = "your role is narrowed, and the audit tells of all that the tenant has";
        return Err(Problem::new(StatusCode::FORBIDDEN, "access.narrowed", what));
    }
    query::known(&asked, &["after"])?;
    let after = asked
        .get("after")
        .map_or(Ok(0), |after| after.parse())
        .map_err(|_| {
            Problem::bad_request("query parameter `after` has to be the number of an entry")
        })?;
    Ok(axum::Json(
        app.engine.audit(&who.tenant, after, ENTRIES).await?,
    ))
}

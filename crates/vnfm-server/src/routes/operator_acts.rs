//! Acts of operators: abandoning an instance, removing a tombstone, and the audit log. Our own API.

use crate::access::{Principal, Tenant};
use crate::overrides::OperatorHeaders;
use crate::problem::{HandlerResult, Problem};
use crate::query;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use std::collections::BTreeMap;
use vnfm_core::Engine;
use vnfm_types::AuditEntry;

/// Maximum number of audit entries in a response.
const ENTRIES: usize = 500;

pub(super) async fn abandon(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    headers: OperatorHeaders,
    Path(id): Path<String>,
    Query(query): Query<BTreeMap<String, String>>,
) -> HandlerResult<StatusCode> {
    let force = query::force(&query)?;
    engine.abandon(&tenant, &id, force, headers.act).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn forget(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    headers: OperatorHeaders,
    Path(id): Path<String>,
) -> HandlerResult<StatusCode> {
    engine.remove_tombstone(&tenant, &id, headers.act).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn audit(
    State(engine): State<Engine>,
    principal: Principal,
    Query(query): Query<BTreeMap<String, String>>,
) -> HandlerResult<axum::Json<Vec<AuditEntry>>> {
    if !principal.scope.is_unlimited() {
        let detail = "your role is limited to certain VIMs, namespaces or vendors, but the audit log covers the whole tenant";
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "access.narrowed",
            detail,
        ));
    }
    query::known(&query, &["after"])?;
    let after = query
        .get("after")
        .map_or(Ok(0), |after| after.parse())
        .map_err(|_| {
            Problem::bad_request("query parameter `after` must be the number of an entry")
        })?;
    Ok(axum::Json(
        engine.audit(&principal.tenant, after, ENTRIES).await?,
    ))
}

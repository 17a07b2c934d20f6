//! Shared virtual links. Our own API.

use crate::access::{Principal, Tenant};
use crate::body::Json;
use crate::problem::HandlerResult;
use crate::view::Root;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use vnfm_core::Engine;
use vnfm_core::ports::StoreError;
use vnfm_types::LinkSpec;

/// 201 for a new link; 200 for the same request again.
pub(super) async fn create(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    root: Root,
    Json(spec): Json<LinkSpec>,
) -> HandlerResult {
    let (record, is_new) = engine.create_link(&tenant, spec).await?;
    let location = [(header::LOCATION, root.shared_link(&record.link.id))];
    let status = if is_new {
        StatusCode::CREATED
    } else {
        StatusCode::OK
    };
    Ok((status, location, axum::Json(record.link)).into_response())
}

/// 404 for callers with a limited scope: a link is the tenant's, on whatever VIM.
pub(super) async fn show(
    State(engine): State<Engine>,
    principal: Principal,
    Path(id): Path<String>,
) -> HandlerResult {
    if !principal.scope.is_unlimited() {
        let what = "shared virtual link";
        return Err(StoreError::NotFound { what, id }.into());
    }
    let record = engine.store().link(&principal.tenant, &id).await?;
    Ok(axum::Json(record.link).into_response())
}

pub(super) async fn delete(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<StatusCode> {
    engine.delete_link(&tenant, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

//! Retained volumes. Our own API.

use crate::access::{Principal, Tenant};
use crate::problem::HandlerResult;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use vnfm_core::Engine;
use vnfm_core::ports::StoreError;

/// 404 for callers with a limited scope: a volume is the tenant's, on whatever VIM.
pub(super) async fn show(
    State(engine): State<Engine>,
    principal: Principal,
    Path(id): Path<String>,
) -> HandlerResult {
    if !principal.scope.is_unlimited() {
        let what = "retained volume";
        return Err(StoreError::NotFound { what, id }.into());
    }
    let record = engine.store().volume(&principal.tenant, &id).await?;
    Ok(axum::Json(record.volume).into_response())
}

pub(super) async fn delete(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<StatusCode> {
    engine.delete_volume(&tenant, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

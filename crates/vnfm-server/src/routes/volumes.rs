//! Retained volumes. Our own API.

use crate::access::{Principal, Tenant};
use crate::body::Json;
use crate::problem::HandlerResult;
use crate::view::Root;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use vnfm_core::Engine;
use vnfm_core::ports::StoreError;
use vnfm_types::VolumeSpec;

/// 201 once instances can use the volume.
pub(super) async fn create(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    root: Root,
    Json(spec): Json<VolumeSpec>,
) -> HandlerResult {
    let volume = engine.create_volume(&tenant, spec).await?.volume;
    let location = [(header::LOCATION, root.volume(&volume.id))];
    Ok((StatusCode::CREATED, location, axum::Json(volume)).into_response())
}

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

//! What happens when a step of an instance's operations fails. Our own API.

use crate::access::Tenant;
use crate::body::Json;
use crate::problem::HandlerResult;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Deserialize;
use vnfm_core::Engine;
use vnfm_types::{InstancePolicy, OnFailure};

/// The policy of an instance; an absent member of `onFailure` has its default.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PolicyRequest {
    on_failure: OnFailure,
}

pub(super) async fn show(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<axum::Json<InstancePolicy>> {
    Ok(axum::Json(engine.policy(&tenant, &id).await?))
}

pub(super) async fn set(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    Json(request): Json<PolicyRequest>,
) -> HandlerResult<axum::Json<InstancePolicy>> {
    let on_failure = Some(request.on_failure);
    let policy = engine.set_on_failure(&tenant, &id, on_failure).await?;
    Ok(axum::Json(policy))
}

pub(super) async fn unset(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<StatusCode> {
    engine.set_on_failure(&tenant, &id, None).await?;
    Ok(StatusCode::NO_CONTENT)
}

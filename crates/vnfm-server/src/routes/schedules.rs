//! The operation of an instance that begins at an interval. Our own API.

use crate::access::Tenant;
use crate::body::Json;
use crate::problem::HandlerResult;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use serde::Deserialize;
use serde_json::Value;
use vnfm_core::Engine;
use vnfm_types::Schedule;

/// A schedule: the interval, and the `OperateVnfRequest` that begins.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct ScheduleRequest {
    every_seconds: u32,
    request: Value,
}

pub(super) async fn show(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<axum::Json<Schedule>> {
    Ok(axum::Json(engine.schedule(&tenant, &id).await?))
}

pub(super) async fn set(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
    Json(ScheduleRequest {
        every_seconds,
        request,
    }): Json<ScheduleRequest>,
) -> HandlerResult<axum::Json<Schedule>> {
    let schedule = engine
        .set_schedule(&tenant, &id, (every_seconds, request))
        .await?;
    Ok(axum::Json(schedule))
}

pub(super) async fn unset(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<StatusCode> {
    engine.remove_schedule(&tenant, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

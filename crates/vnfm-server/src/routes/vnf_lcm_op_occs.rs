//! Operation occurrences (SOL003 5.4.12, 5.4.13) and the error handling tasks on them (5.4.14 to 5.4.17).

use crate::access::Tenant;
use crate::body::Json;
use crate::conditions;
use crate::overrides::OperatorHeaders;
use crate::problem::HandlerResult;
use crate::state::App;
use crate::view::{self, Root};
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use vnfm_core::Engine;
use vnfm_types::{CancelMode, CancelRequest};

pub(super) async fn show(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    root: Root,
    Path(id): Path<String>,
) -> HandlerResult {
    let record = engine.store().op(&tenant, &id).await?;
    let changed = record.op.state_entered_time;
    Ok(conditions::json_with_tag(
        &view::op(record, &root),
        Some(changed),
    ))
}

pub(super) async fn retry(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<StatusCode> {
    app.engine.retry(&tenant, &id).await?;
    app.wake.drive(&id);
    Ok(StatusCode::ACCEPTED)
}

pub(super) async fn rollback(
    State(app): State<App>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<StatusCode> {
    app.engine.rollback(&tenant, &id).await?;
    app.wake.drive(&id);
    Ok(StatusCode::ACCEPTED)
}

pub(super) async fn fail(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    root: Root,
    headers: OperatorHeaders,
    Path(id): Path<String>,
) -> HandlerResult {
    engine.fail_by(&tenant, &id, headers.act).await?;
    let record = engine.store().op(&tenant, &id).await?;
    Ok(axum::Json(view::op(record, &root)).into_response())
}

pub(super) async fn cancel(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    headers: OperatorHeaders,
    Path(id): Path<String>,
    Json(request): Json<CancelRequest>,
) -> HandlerResult<StatusCode> {
    let mode = request.cancel_mode;
    if mode == CancelMode::Forceful || !headers.act.reason.is_empty() {
        engine.cancel_by(&tenant, &id, mode, headers.act).await?;
    } else {
        engine.cancel(&tenant, &id, mode).await?;
    }
    Ok(StatusCode::ACCEPTED)
}

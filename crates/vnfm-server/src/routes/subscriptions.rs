//! Subscriptions to lifecycle changes (SOL003 5.4.18, 5.4.19).

use crate::access::{Principal, Tenant};
use crate::body::Json;
use crate::problem::HandlerResult;
use crate::state::App;
use crate::view::{self, Root};
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use vnfm_core::Engine;
use vnfm_core::SubscribeOutcome;
use vnfm_types::LccnSubscriptionRequest;

/// 201, or 303 to an existing subscription with the same content.
pub(super) async fn create(
    State(app): State<App>,
    Principal {
        tenant,
        scope: only,
        ..
    }: Principal,
    root: Root,
    Json(request): Json<LccnSubscriptionRequest>,
) -> HandlerResult {
    let subscriber_root = root.for_subscriber();
    match app
        .engine
        .subscribe(
            &tenant,
            request,
            (&subscriber_root, &only),
            &*app.subscribers,
        )
        .await?
    {
        SubscribeOutcome::New(record) => {
            let location = root.subscription(&record.subscription.id);
            let body = axum::Json(view::subscription(*record, &root));
            Ok((StatusCode::CREATED, [(header::LOCATION, location)], body).into_response())
        }
        SubscribeOutcome::Known(id) => {
            let location = root.subscription(&id);
            Ok((StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response())
        }
    }
}

pub(super) async fn show(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    root: Root,
    Path(id): Path<String>,
) -> HandlerResult {
    let record = engine.store().subscription(&tenant, &id).await?;
    Ok(axum::Json(view::subscription(record, &root)).into_response())
}

pub(super) async fn delete(
    State(engine): State<Engine>,
    Tenant(tenant): Tenant,
    Path(id): Path<String>,
) -> HandlerResult<StatusCode> {
    engine.unsubscribe(&tenant, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

//! Liveness (`/healthz`), readiness (`/readyz`) and metrics (`/metrics`) for service managers, monitoring and load
//! balancers. The probes need no credentials; a response only names the failing component, the log has the details.

use crate::certificates;
use crate::metrics::Snapshot;
use crate::problem::{HandlerResult, Problem};
use crate::state::App;
use axum::Json;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};

/// 200, or 503 after a part of the server failed; the process is then about to end.
pub(super) async fn health(State(app): State<App>) -> (StatusCode, &'static str) {
    match app.instrumentation.supervisor.failure() {
        None => (StatusCode::OK, "ok\n"),
        Some(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "a part of the server failed\n",
        ),
    }
}

/// 200, or 503 with the components that are not ready.
pub(super) async fn ready(State(app): State<App>) -> Response {
    let parts = app.readiness.parts().await;
    let is_ready = parts.iter().all(|(_, state)| state.is_ok());
    let status = if is_ready {
        StatusCode::OK
    } else {
        StatusCode::SERVICE_UNAVAILABLE
    };
    let describe = |state: &Result<(), String>| if state.is_ok() { "ready" } else { "not ready" };
    let parts: Map<_, _> = parts
        .iter()
        .map(|(name, state)| ((*name).to_owned(), Value::from(describe(state))))
        .collect();
    (status, Json(json!({"ready": is_ready, "parts": parts}))).into_response()
}

/// The metrics in Prometheus' text format; 503 if the database does not respond.
pub(super) async fn metrics(State(app): State<App>) -> HandlerResult {
    let statistics = match &app.maintenance {
        Some(maintenance) => Some(maintenance.statistics().await?),
        None => None,
    };
    let snapshot = Snapshot {
        at: app.engine.now(),
        driven: app.engine.driven(),
        statistics,
        certificates: certificates::expiries(&app.instrumentation.certificates).await,
    };
    let text = app.instrumentation.metrics.text(&snapshot);
    let text = text.map_err(|error| Problem::bug(&error))?;
    Ok(([(header::CONTENT_TYPE, prometheus::TEXT_FORMAT)], text).into_response())
}

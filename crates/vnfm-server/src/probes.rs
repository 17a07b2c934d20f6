//! Liveness (`/healthz`) and readiness (`/readyz`) for service managers, monitoring and load balancers. Neither needs
//! credentials; the response only names the failing component, the log has the details.

use crate::state::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long a readiness result is cached, so that frequent requests do not cause more disk writes.
const CACHE_TIME: Duration = Duration::from_secs(2);

/// A component of the server, and its error.
pub type Part = (&'static str, Result<(), String>);

/// The last readiness result and its time, so that probes are cheap.
#[derive(Default)]
pub struct LastReadiness(Mutex<Option<(Instant, Vec<Part>)>>);

/// `GET /healthz`: 200, or 503 after a part of the server failed; the process is then about to end.
pub async fn health(State(app): State<App>) -> (StatusCode, &'static str) {
    match app.instrumentation.supervisor.failure() {
        None => (StatusCode::OK, "ok\n"),
        Some(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "a part of the server failed\n",
        ),
    }
}

/// `GET /readyz`: 200, or 503 with the components that are not ready.
pub async fn ready(State(app): State<App>) -> Response {
    let mut last = app.instrumentation.last_readiness.0.lock().await;
    let parts = match &*last {
        Some((at, parts)) if at.elapsed() < CACHE_TIME => parts.clone(),
        _ => {
            let parts = check(&app).await;
            *last = Some((Instant::now(), parts.clone()));
            parts
        }
    };
    drop(last);
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

async fn check(app: &App) -> Vec<Part> {
    let mut parts = Vec::new();
    if let Some(maintenance) = &app.maintenance {
        parts.extend(maintenance.health().await);
    }
    if let Some(plugins) = app.plugins.clone() {
        let checking = tokio::task::spawn_blocking(move || plugins.status());
        let outcome = match checking.await {
            Err(error) => Err(error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(all)) => {
                let errors: Vec<_> = all
                    .into_iter()
                    .filter_map(|status| {
                        Some(format!("{}: {}", status.pin.name, status.outcome.err()?))
                    })
                    .collect();
                if errors.is_empty() {
                    Ok(())
                } else {
                    Err(errors.join("; "))
                }
            }
        };
        parts.push(("plugins", outcome));
    }
    for (part, state) in &parts {
        if let Err(error) = state {
            tracing::warn!(part, error, "not ready");
        }
    }
    parts
}

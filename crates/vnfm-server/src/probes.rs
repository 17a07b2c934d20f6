//! Whether the server lives (`/healthz`), and whether it can do its work (`/readyz`): for those who start it, watch it,
//! and send it requests. Neither needs a credential; what is wrong is named by its part alone, and the log has more.

use crate::state::App;
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Map, Value, json};
use std::time::{Duration, Instant};
use tokio::sync::Mutex;

/// How long an answer counts: whoever asks more often does not have the disk written more often.
const COUNTS: Duration = Duration::from_secs(2);

/// One part of the server, and what is wrong with it.
pub type Part = (&'static str, Result<(), String>);

/// What was seen last.
#[derive(Default)]
pub struct LastLook(Mutex<Option<(Instant, Vec<Part>)>>);

/// `GET /healthz`: 200, or 503 once a part of the server failed; the process is about to end then.
pub async fn health(State(app): State<App>) -> (StatusCode, &'static str) {
    match app.operating.parts.failure() {
        None => (StatusCode::OK, "ok\n"),
        Some(_) => (
            StatusCode::SERVICE_UNAVAILABLE,
            "a part of the server failed\n",
        ),
    }
}

/// `GET /readyz`: 200, or 503 with the parts that are not ready.
pub async fn ready(State(app): State<App>) -> Response {
    let mut last = app.operating.last_look.0.lock().await;
    let parts = match &*last {
        Some((at, parts)) if at.elapsed() < COUNTS => parts.clone(),
        _ => {
            let parts = look(&app).await;
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
    let told = |state: &Result<(), String>| if state.is_ok() { "ready" } else { "not ready" };
    let parts: Map<_, _> = parts
        .iter()
        .map(|(name, state)| ((*name).to_owned(), Value::from(told(state))))
        .collect();
    (status, Json(json!({"ready": is_ready, "parts": parts}))).into_response()
}

async fn look(app: &App) -> Vec<Part> {
    let mut parts = Vec::new();
    if let Some(upkeep) = &app.upkeep {
        parts.extend(upkeep.parts().await);
    }
    if let Some(plugins) = app.plugins.clone() {
        let looking = tokio::task::spawn_blocking(move || plugins.status());
        let told = match looking.await {
            Err(error) => Err(error.to_string()),
            Ok(Err(error)) => Err(error.to_string()),
            Ok(Ok(all)) => {
                let wrong: Vec<_> = all
                    .into_iter()
                    .filter_map(|status| {
                        Some(format!("{}: {}", status.pin.name, status.outcome.err()?))
                    })
                    .collect();
                if wrong.is_empty() {
                    Ok(())
                } else {
                    Err(wrong.join("; "))
                }
            }
        };
        parts.push(("plugins", told));
    }
    for (part, state) in &parts {
        if let Err(error) = state {
            tracing::warn!(part, error, "not ready");
        }
    }
    parts
}

//! Orphans: what carries our mark on a VIM and no instance explains.

use crate::access::Tenant;
use crate::problem::Answer;
use crate::state::App;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

pub(super) async fn list(State(app): State<App>, Tenant(tenant): Tenant) -> Answer<Json<Value>> {
    let (orphans, silent) = app.engine.orphans(&tenant).await?;
    let silent: Vec<_> =
        silent.into_iter().map(|(vim, why)| json!({"vim": vim, "why": why})).collect();
    Ok(Json(json!({"orphans": orphans, "notAsked": silent})))
}

//! Orphans: what carries our mark on a VIM and no instance explains.

use crate::access::Principal;
use crate::problem::Answer;
use crate::state::App;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

pub(super) async fn list(State(app): State<App>, who: Principal) -> Answer<Json<Value>> {
    if !who.only.is_unlimited() {
        // Nobody knows whose they were: there is nothing that somebody who is narrowed could see.
        return Ok(Json(json!({"orphans": [], "notAsked": []})));
    }
    let (orphans, silent) = app.engine.orphans(&who.tenant).await?;
    let silent: Vec<_> = silent
        .into_iter()
        .map(|(vim, why)| json!({"vim": vim, "why": why}))
        .collect();
    Ok(Json(json!({"orphans": orphans, "notAsked": silent})))
}

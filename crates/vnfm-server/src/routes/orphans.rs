//! Orphans: resources on a VIM with our mark that belong to no known instance.

use crate::access::Principal;
use crate::problem::HandlerResult;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};
use vnfm_core::Engine;

pub(super) async fn list(
    State(engine): State<Engine>,
    principal: Principal,
) -> HandlerResult<Json<Value>> {
    if !principal.scope.is_unlimited() {
        // Their former scope is unknown, so callers with a limited scope see none.
        return Ok(Json(json!({"orphans": [], "notAsked": []})));
    }
    let (orphans, unreachable) = engine.orphans(&principal.tenant).await?;
    let unreachable: Vec<_> = unreachable
        .into_iter()
        .map(|(vim, reason)| json!({"vim": vim, "why": reason}))
        .collect();
    Ok(Json(json!({"orphans": orphans, "notAsked": unreachable})))
}

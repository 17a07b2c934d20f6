//! Rotation of the key that seals secrets.

use crate::problem::Answer;
use crate::state::App;
use axum::Json;
use axum::extract::State;
use serde_json::{Value, json};

pub(super) async fn rotate(State(app): State<App>) -> Answer<Json<Value>> {
    let sealed = app.rotation.rotate().await?;
    Ok(Json(json!({"sealedAnew": sealed})))
}

//! The keys that seal secrets: where they lie, a new one, one in another place.

use crate::body::Json as Asked;
use crate::problem::Answer;
use crate::state::App;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use vnfm_store::KeyLocation;

pub(super) async fn show(State(app): State<App>) -> Answer<Json<Value>> {
    Ok(Json(app.rotation.shown().await?))
}

pub(super) async fn rotate(State(app): State<App>) -> Answer<Json<Value>> {
    let sealed = app.rotation.rotate().await?;
    Ok(Json(json!({"sealedAnew": sealed})))
}

/// What `migrate` is asked for.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Migration {
    to: Place,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Place {
    File,
    Barbican,
}

pub(super) async fn migrate(
    State(app): State<App>,
    Asked(Migration { to }): Asked<Migration>,
) -> Answer<Json<Value>> {
    let to = match to {
        Place::File => KeyLocation::File,
        Place::Barbican => KeyLocation::Sealer,
    };
    let sealed = app.rotation.migrate(to).await?;
    let mut shown = app.rotation.shown().await?;
    shown["sealedAnew"] = sealed.into();
    Ok(Json(shown))
}

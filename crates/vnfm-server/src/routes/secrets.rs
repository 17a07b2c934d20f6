//! The encryption keys: listing, rotation, and migration to another location.

use crate::body::Json as Body;
use crate::problem::HandlerResult;
use crate::state::App;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use vnfm_core::ports::KeyLocation;

pub(super) async fn show(State(app): State<App>) -> HandlerResult<Json<Value>> {
    Ok(Json(app.rotation.describe().await?))
}

pub(super) async fn rotate(State(app): State<App>) -> HandlerResult<Json<Value>> {
    let sealed = app.rotation.rotate().await?;
    Ok(Json(json!({"sealedAnew": sealed})))
}

/// The request body of `migrate`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Migration {
    to: Location,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Location {
    File,
    Barbican,
}

pub(super) async fn migrate(
    State(app): State<App>,
    Body(Migration { to }): Body<Migration>,
) -> HandlerResult<Json<Value>> {
    let to = match to {
        Location::File => KeyLocation::File,
        Location::Barbican => KeyLocation::Sealer,
    };
    let sealed = app.rotation.migrate(to).await?;
    let mut response = app.rotation.describe().await?;
    response["sealedAnew"] = sealed.into();
    Ok(Json(response))
}

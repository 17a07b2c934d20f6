//! The encryption keys: listing, rotation, and migration to another location.

use crate::body::Json as Body;
use crate::problem::HandlerResult;
use crate::secrets::Rotate;
use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::KeyLocation;

pub(super) async fn show(State(rotation): State<Arc<dyn Rotate>>) -> HandlerResult<Json<Value>> {
    Ok(Json(rotation.describe().await?))
}

pub(super) async fn rotate(State(rotation): State<Arc<dyn Rotate>>) -> HandlerResult<Json<Value>> {
    let sealed = rotation.rotate().await?;
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
    State(rotation): State<Arc<dyn Rotate>>,
    Body(Migration { to }): Body<Migration>,
) -> HandlerResult<Json<Value>> {
    let to = match to {
        Location::File => KeyLocation::File,
        Location::Barbican => KeyLocation::Sealer,
    };
    let sealed = rotation.migrate(to).await?;
    let mut response = rotation.describe().await?;
    response["sealedAnew"] = sealed.into();
    Ok(Json(response))
}

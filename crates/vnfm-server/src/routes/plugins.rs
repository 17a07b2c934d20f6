//! The MgmtDrivers that are loaded, with the hooks that they declare.

use crate::state::App;
use axum::Json;
use axum::extract::State;
use vnfm_core::ports::Declaration;

pub(super) async fn list(State(app): State<App>) -> Json<Vec<Declaration>> {
    Json(app.engine.mgmt_drivers().list())
}

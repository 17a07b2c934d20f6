//! Where the NFVO tells of its packages (SOL003 10.4.9), where one is a source of them. It logs in with what our
//! subscription told it; whoever does not is told nothing.

use crate::body::Json;
use crate::problem::{Answer, Problem};
use crate::state::App;
use crate::supply::{Notification, Supply};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use std::sync::Arc;

/// The test of the callback.
pub(super) async fn test(State(app): State<App>, headers: HeaderMap) -> Answer<StatusCode> {
    known(&app, &headers)?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn take(
    State(app): State<App>,
    headers: HeaderMap,
    notification: Result<Json<Notification>, Problem>,
) -> Answer<StatusCode> {
    let supply = known(&app, &headers)?;
    let Json(notification) = notification?;
    if app
        .upkeep
        .as_ref()
        .is_some_and(|upkeep| upkeep.recovery().is_some())
    {
        let what = "the database was restored, and nothing is changed before that is confirmed";
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "server.recovery",
            what,
        ));
    }
    supply.told(&app, notification);
    Ok(StatusCode::NO_CONTENT)
}

fn known(app: &App, headers: &HeaderMap) -> Answer<Arc<Supply>> {
    // Where no NFVO is a source of packages, nobody has such a login: the answer is the same.
    if let Some(supply) = app.supply.clone().filter(|supply| supply.knows(headers)) {
        return Ok(supply);
    }
    let what = "only the NFVO tells of its packages, with the login that our subscription gave it";
    Err(Problem::new(
        StatusCode::UNAUTHORIZED,
        "request.unauthorized",
        what,
    ))
}

//! The endpoint for the NFVO's notifications about packages (SOL003 10.4.9), if it is a source of packages. The NFVO
//! uses the credentials from our subscription; all other callers get 401.

use crate::body::Json;
use crate::nfvo_packages::{NfvoPackageSource, Notification};
use crate::problem::{HandlerResult, Problem};
use crate::state::App;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use std::sync::Arc;

/// The NFVO's test of the callback.
pub(super) async fn test(State(app): State<App>, headers: HeaderMap) -> HandlerResult<StatusCode> {
    authenticate(&app, &headers)?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) async fn take(
    State(app): State<App>,
    headers: HeaderMap,
    notification: Result<Json<Notification>, Problem>,
) -> HandlerResult<StatusCode> {
    let supply = authenticate(&app, &headers)?;
    let Json(notification) = notification?;
    if app
        .maintenance
        .as_ref()
        .is_some_and(|maintenance| maintenance.recovery().is_some())
    {
        let detail =
            "the database was restored; changes are refused until the recovery is confirmed";
        return Err(Problem::new(
            StatusCode::SERVICE_UNAVAILABLE,
            "server.recovery",
            detail,
        ));
    }
    supply.handle(notification);
    Ok(StatusCode::NO_CONTENT)
}

fn authenticate(app: &App, headers: &HeaderMap) -> HandlerResult<Arc<NfvoPackageSource>> {
    // Without an NFVO as a source of packages, no credentials are valid: the response is the same.
    if let Some(supply) = app
        .nfvo_packages
        .clone()
        .filter(|supply| supply.has_valid_credentials(headers))
    {
        return Ok(supply);
    }
    let detail =
        "only the NFVO may send these notifications, with the credentials from our subscription";
    Err(Problem::new(
        StatusCode::UNAUTHORIZED,
        "request.unauthorized",
        detail,
    ))
}

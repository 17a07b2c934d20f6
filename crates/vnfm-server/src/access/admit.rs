//! The middleware that every request passes before its handler.

use super::login_error::LoginError;
use super::{Access, Principal, audit_log, narrowed_roles, roles, too_many};
use crate::api_version;
use crate::client_address::Source;
use crate::forwarded::Proxies;
use crate::log_text::{MAX_LOGGED_CHARS, cut};
use crate::problem::Problem;
use crate::route_match::Matched;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use vnfm_core::Engine;

/// What [`admit`] needs of the server's state.
pub(crate) trait Admission: Clone + Send + Sync + 'static {
    /// The logins, roles and quotas to check against.
    fn access(&self) -> &Access;
    /// The engine, whose store decides what a caller sees.
    fn engine(&self) -> &Engine;
    /// The proxies that report the addresses of clients.
    fn proxies(&self) -> &Proxies;
}

/// Authenticates and authorizes a request, and records changes in the audit log.
pub(crate) async fn admit<S: Admission>(
    State(app): State<S>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let context = audit_log::AuditContext::from_request(app.proxies(), &parts);
    let source = Source::from_address(context.address());
    let principal = match app.access().authenticate(&parts, source).await {
        Ok(principal) => principal,
        Err(error) => {
            let error = app.access().count_refusal(error, source);
            if !matches!(error, LoginError::TooManyAttempts(_)) {
                let (path, reason) = (cut(&path, MAX_LOGGED_CHARS), format!("{error:?}"));
                let reason = cut(&reason, MAX_LOGGED_CHARS);
                tracing::info!(
                    refused = reason,
                    path,
                    from = context.from(),
                    "login refused"
                );
            }
            return api_version::with_version(&path, app.access().login_response(error));
        }
    };
    if let Some(Err(seconds)) = app.access().rate.as_ref().map(|rate| rate.take(&principal)) {
        return api_version::with_version(&path, too_many("requests for one login", seconds));
    }
    parts.extensions.insert(principal.clone());
    let is_change = app.access().is_audited && context.is_change();
    let handling = handle(
        app,
        principal,
        context,
        Request::from_parts(parts, body),
        next,
    );
    if !is_change {
        return handling.await;
    }
    // In a separate task: a client that disconnects must not prevent the audit entry.
    let handled = tokio::spawn(handling).await;
    handled.unwrap_or_else(|_| api_version::panicked(Box::new(())))
}

/// Authorizes and handles the request of an authenticated caller.
async fn handle<S: Admission>(
    app: S,
    principal: Principal,
    context: audit_log::AuditContext,
    request: Request,
    next: Next,
) -> Response {
    let path = request.uri().path().to_owned();
    let response = match authorize(&app, &principal, (&context, request)).await {
        Ok(request) => {
            let response = next.run(request).await;
            narrowed_roles::hide_names(app.engine(), &principal, response).await
        }
        Err(problem) => api_version::with_version(&path, problem.into_response()),
    };
    if app.access().is_audited && context.is_change() {
        let entry = context.entry(app.engine().now(), &principal, &response);
        let (store, quotas) = (app.engine().store(), &app.access().quotas);
        audit_log::record(store, quotas, &principal.tenant, (entry, response.status())).await;
    }
    response
}

/// Returns the request if its principal may make it and the tenant's quota has room. The store checks the quota again
/// in the transaction that uses it, so nothing is reserved while a body arrives.
async fn authorize<S: Admission>(
    app: &S,
    principal: &Principal,
    (context, request): (&audit_log::AuditContext, Request),
) -> Result<Request, Problem> {
    let matched = Matched::from_extensions(request.extensions()).cloned();
    let needs = roles::needed(matched.as_ref());
    if !needs.met_by(principal) {
        let (method, path) = (request.method(), request.uri().path());
        let detail = format!(
            "`{}` has the role `{}` in the tenant `{}`; {method} {path} needs {needs}",
            principal.name, principal.role, principal.tenant
        );
        return Err(Problem::new(
            StatusCode::FORBIDDEN,
            "access.forbidden",
            detail,
        ));
    }
    let request = narrowed_roles::check(app.engine(), principal, request).await?;
    let (quotas, tenant) = (&app.access().quotas, &principal.tenant);
    let store = app.engine().store();
    let route = matched.as_ref().and_then(Matched::route);
    if let Some(resource) = route.and_then(|route| route.adds) {
        quotas.remaining(store, tenant, resource).await?;
    }
    // The operator must be able to free space.
    if app.access().is_audited && context.is_change() && !principal.is_operator() {
        quotas.has_room_for_audit(store, tenant).await?;
    }
    Ok(request)
}

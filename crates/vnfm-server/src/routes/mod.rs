//! The routes: one file per resource, and [`table`] with all of them. This file makes the router of the
//! table and adds the middleware.

pub(crate) mod api_versions;
mod events;
mod hostkeys;
mod links;
mod list;
mod maintenance;
mod matches;
mod nfvo_notifications;
mod operator_acts;
mod orphans;
mod own_op_occs;
mod plans;
mod plugins;
mod policies;
mod probes;
mod schedules;
mod secrets;
mod stored_files;
mod subscriptions;
pub(crate) mod table;
mod vims;
mod vnf_instances;
mod vnf_lcm_op_occs;
mod vnf_packages;
mod vnf_snapshots;
mod volumes;

use self::table::Row;
use crate::route_match::{self, Paths, Route};
use crate::state::App;
use crate::{access, api_version, challenge, conditions, metrics, request_tracing};
use axum::Router;
use axum::middleware::{from_fn, from_fn_with_state};
use std::sync::Arc;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};

/// Our `OpenAPI` document, written by hand and checked against the table of routes.
pub const OPENAPI: &str = include_str!("../../../../schemas/openapi/vnfm.yaml");

/// VNF LCM version 1 (SOL003 V2.6.1): generated from [`OPENAPI`] by a test.
pub const OPENAPI_V1: &str = include_str!("../../../../schemas/openapi/vnfm-v1.yaml");

/// The complete API; an embedder nests it into its own application.
pub fn router(app: App) -> Router {
    let rows = table::all(app.engine.operations());
    let paths = Arc::new(Paths::new(rows.iter().map(|row| &row.route)));
    serve(&rows, |route| route.role.is_some())
        .fallback(api_version::unknown)
        .method_not_allowed_fallback(api_version::not_allowed)
        .layer(from_fn(conditions::unchanged))
        .layer(from_fn(api_version::problems))
        .layer(from_fn(api_version::accept))
        .layer(from_fn(api_version::version))
        .layer(from_fn_with_state(
            app.maintenance.clone(),
            crate::maintenance::guard,
        ))
        .layer(from_fn_with_state(app.clone(), access::admit::<App>))
        .layer(from_fn(challenge::add_challenge))
        .merge(
            serve(&rows, |route| route.role.is_none())
                .method_not_allowed_fallback(api_version::not_allowed),
        )
        .layer(from_fn_with_state(paths, route_match::identify))
        .layer(from_fn_with_state(
            app.instrumentation.metrics.clone(),
            metrics::count,
        ))
        .layer(CatchPanicLayer::custom(api_version::panicked))
        .layer(from_fn(crate::body_discard::discard))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(from_fn(request_tracing::follow))
        .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
        .with_state(app)
}

/// Paths of the probes that [`monitoring`] serves.
const PROBES: &[&str] = &["/healthz", "/readyz"];
const METRICS: &str = "/metrics";

/// Only health and metrics, for a separate address; metrics need a login if `guarded`.
pub(crate) fn monitoring(app: App, guarded: bool) -> Router {
    let rows = table::all(app.engine.operations());
    let paths = Arc::new(Paths::new(rows.iter().map(|row| &row.route)));
    let mut metrics = serve(&rows, |route| route.path == METRICS);
    if guarded {
        metrics = metrics.layer(from_fn_with_state(app.clone(), access::admit::<App>));
    }
    serve(&rows, |route| PROBES.contains(&&*route.path))
        .method_not_allowed_fallback(api_version::not_allowed)
        .merge(metrics)
        .layer(from_fn_with_state(paths, route_match::identify))
        .fallback(api_version::unknown)
        .with_state(app)
}

/// The rows of the table that `is_served` selects.
fn serve(rows: &[Row], is_served: impl Fn(&Route) -> bool) -> Router<App> {
    let rows = rows.iter().filter(|row| is_served(&row.route));
    let served = rows.flat_map(|row| {
        let paths = row.route.served_paths().into_iter();
        paths.map(|path| (path, (row.handler)()))
    });
    served.fold(Router::new(), |router, (path, handler)| {
        router.route(&path, handler)
    })
}

fn yaml(document: &'static str) -> impl axum::response::IntoResponse {
    ([("content-type", "application/yaml")], document)
}

//! The routes: one file per resource. This file assigns paths and adds the middleware.

pub mod api_versions;
mod events;
mod hostkeys;
mod list;
mod maintenance;
mod nfvo_notifications;
mod operator_acts;
mod orphans;
mod own_op_occs;
mod plugins;
mod secrets;
mod subscriptions;
mod vims;
mod vnf_instances;
mod vnf_lcm_op_occs;
mod vnf_packages;

use crate::state::App;
use crate::{access, challenge, conditions, gate, metrics, page, probes, request_tracing};
use axum::middleware::{from_fn, from_fn_with_state};
use axum::routing::{get, post};
use axum::{Extension, Router};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::{MakeRequestUuid, PropagateRequestIdLayer, SetRequestIdLayer};
use vnf_packages::Part;
use vnfm_types::v1::ApiVersion;

/// Our `OpenAPI` document, written by hand and checked against [`PATHS`].
pub const OPENAPI: &str = include_str!("../../../../schemas/openapi/vnfm.yaml");

/// VNF LCM version 1 (SOL003 V2.6.1): generated from [`OPENAPI`] by a test.
pub const OPENAPI_V1: &str = include_str!("../../../../schemas/openapi/vnfm-v1.yaml");

/// Every path with its methods, as the `OpenAPI` document must list them. Paths below `/vnflcm/v2` also exist below
/// `/vnflcm/v1`.
pub const PATHS: &[(&str, &[&str])] = &[
    ("/vnflcm/api_versions", &["get"]),
    ("/vnflcm/v2/api_versions", &["get"]),
    ("/vnflcm/v2/vnf_instances", &["get", "post"]),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}",
        &["get", "patch", "delete"],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/instantiate",
        &["post"],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/terminate",
        &["post"],
    ),
    ("/vnflcm/v2/vnf_instances/{vnfInstanceId}/heal", &["post"]),
    ("/vnflcm/v2/vnf_instances/{vnfInstanceId}/scale", &["post"]),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/scale_to_level",
        &["post"],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/change_flavour",
        &["post"],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/operate",
        &["post"],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/change_ext_conn",
        &["post"],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/change_vnfpkg",
        &["post"],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/create_snapshot",
        &["post"],
    ),
    (
        "/vnflcm/v2/vnf_instances/{vnfInstanceId}/revert_to_snapshot",
        &["post"],
    ),
    ("/vnflcm/v2/vnf_lcm_op_occs", &["get"]),
    ("/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}", &["get"]),
    (
        "/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}/retry",
        &["post"],
    ),
    (
        "/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}/rollback",
        &["post"],
    ),
    ("/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}/fail", &["post"]),
    (
        "/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}/cancel",
        &["post"],
    ),
    ("/vnflcm/v2/subscriptions", &["get", "post"]),
    (
        "/vnflcm/v2/subscriptions/{subscriptionId}",
        &["get", "delete"],
    ),
    ("/vnfpkgm/api_versions", &["get"]),
    ("/vnfpkgm/v2/api_versions", &["get"]),
    ("/vnfpkgm/v2/vnf_packages", &["get", "post"]),
    (
        "/vnfpkgm/v2/vnf_packages/{vnfPkgId}",
        &["get", "patch", "delete"],
    ),
    (
        "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/package_content",
        &["get", "put"],
    ),
    (
        "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/package_content/upload_from_uri",
        &["post"],
    ),
    ("/vnfpkgm/v2/vnf_packages/{vnfPkgId}/vnfd", &["get"]),
    ("/vnfpkgm/v2/vnf_packages/{vnfPkgId}/manifest", &["get"]),
    ("/vnfpkgm/v2/vnf_packages/{vnfPkgId}/artifacts", &["get"]),
    (
        "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/artifacts/{artifactPath}",
        &["get"],
    ),
    ("/vnfm/v1/vims", &["get", "post"]),
    ("/vnfm/v1/vims/{vimId}", &["get", "patch", "delete"]),
    ("/vnfm/v1/vims/{vimId}/check", &["post"]),
    ("/vnfm/v1/hostkeys", &["get"]),
    ("/vnfm/v1/hostkeys/{hostKeyId}", &["delete"]),
    ("/vnfm/v1/op_occs/{vnfLcmOpOccId}/progress", &["get"]),
    ("/vnfm/v1/op_occs/{vnfLcmOpOccId}/events", &["get"]),
    ("/vnfm/v1/op_occs/{vnfLcmOpOccId}/log", &["get"]),
    ("/vnfm/v1/vnf_instances/{vnfInstanceId}/abandon", &["post"]),
    ("/vnfm/v1/audit", &["get"]),
    ("/vnfm/v1/events", &["get"]),
    ("/vnfm/v1/orphans", &["get"]),
    ("/vnfm/v1/orphans/{vnfInstanceId}", &["delete"]),
    ("/vnfm/v1/plugins", &["get"]),
    ("/vnfm/v1/secrets", &["get"]),
    ("/vnfm/v1/secrets/rotate", &["post"]),
    ("/vnfm/v1/secrets/migrate", &["post"]),
    ("/vnfm/v1/backup", &["post"]),
    ("/vnfm/v1/prune", &["post"]),
    ("/vnfm/v1/recovery", &["get"]),
    ("/vnfm/v1/recovery/confirm", &["post"]),
    ("/vnfm/v1/health", &["get"]),
    ("/vnfm/v1/nfvo_notifications", &["get", "post"]),
    ("/healthz", &["get"]),
    ("/readyz", &["get"]),
    ("/metrics", &["get"]),
    ("/openapi.yaml", &["get"]),
    ("/openapi-v1.yaml", &["get"]),
    ("/", &["get"]),
];

/// The complete API for `app`; an embedder nests it into its own application.
pub fn router(app: App) -> Router {
    Router::new()
        .merge(lcm())
        .merge(packages())
        .merge(own())
        .fallback(gate::unknown)
        .method_not_allowed_fallback(gate::not_allowed)
        .layer(from_fn(conditions::unchanged))
        .layer(from_fn(gate::problems))
        .layer(from_fn(gate::accept))
        .layer(from_fn(gate::version))
        .layer(from_fn_with_state(app.clone(), crate::maintenance::guard))
        .layer(from_fn_with_state(app.clone(), access::admit))
        .layer(from_fn(challenge::add_challenge))
        .merge(probes_only())
        .merge(nfvo_routes())
        .layer(from_fn_with_state(app.clone(), metrics::count))
        .layer(CatchPanicLayer::custom(gate::panicked))
        .layer(from_fn(crate::body_discard::discard))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(from_fn(request_tracing::follow))
        .layer(SetRequestIdLayer::x_request_id(MakeRequestUuid))
        .with_state(app)
}

/// Only health and metrics, for a separate address; metrics need a login if `guarded`.
pub fn monitoring(app: App, guarded: bool) -> Router {
    let mut metrics = Router::new().route("/metrics", get(metrics::show));
    if guarded {
        metrics = metrics.layer(from_fn_with_state(app.clone(), access::admit));
    }
    probes_only()
        .merge(metrics)
        .fallback(gate::unknown)
        .with_state(app)
}

/// Routes that need no login.
fn probes_only() -> Router<App> {
    Router::new()
        .route("/healthz", get(probes::health))
        .route("/readyz", get(probes::ready))
        .method_not_allowed_fallback(gate::not_allowed)
}

/// Routes that only the NFVO uses, with its own credentials.
fn nfvo_routes() -> Router<App> {
    let methods = get(nfvo_notifications::test).post(nfvo_notifications::take);
    Router::new()
        .route("/vnfm/v1/nfvo_notifications", methods)
        .method_not_allowed_fallback(gate::not_allowed)
}

fn lcm() -> Router<App> {
    Router::new()
        .route("/vnflcm/api_versions", get(api_versions::lcm))
        .route("/vnflcm/v1/api_versions", get(api_versions::lcm_v1))
        .route("/vnflcm/v2/api_versions", get(api_versions::lcm_v2))
        .merge(lcm_of(ApiVersion::V1))
        .merge(lcm_of(ApiVersion::V2))
}

/// VNF LCM in one version: the same resources and handlers; [`crate::body`] reads and [`crate::view`] writes the form
/// of that version.
fn lcm_of(api_version: ApiVersion) -> Router<App> {
    let at = |path: &str| format!("{}{path}", api_version.prefix());
    let tasks = vnf_instances::NOT_SUPPORTED
        .iter()
        .map(|task| at(&format!("/vnf_instances/{{id}}/{task}")));
    tasks
        .fold(Router::new(), |router, task| {
            router.route(&task, post(vnf_instances::not_supported))
        })
        .route(
            &at("/vnf_instances"),
            get(list::list::<list::Instances>).post(vnf_instances::create),
        )
        .route(
            &at("/vnf_instances/{id}"),
            get(vnf_instances::show)
                .patch(vnf_instances::modify)
                .delete(vnf_instances::delete),
        )
        .route(
            &at("/vnf_instances/{id}/instantiate"),
            post(vnf_instances::instantiate),
        )
        .route(
            &at("/vnf_instances/{id}/terminate"),
            post(vnf_instances::terminate),
        )
        .route(&at("/vnf_instances/{id}/heal"), post(vnf_instances::heal))
        .route(&at("/vnf_lcm_op_occs"), get(list::list::<list::Ops>))
        .route(&at("/vnf_lcm_op_occs/{id}"), get(vnf_lcm_op_occs::show))
        .route(
            &at("/vnf_lcm_op_occs/{id}/retry"),
            post(vnf_lcm_op_occs::retry),
        )
        .route(
            &at("/vnf_lcm_op_occs/{id}/rollback"),
            post(vnf_lcm_op_occs::rollback),
        )
        .route(
            &at("/vnf_lcm_op_occs/{id}/fail"),
            post(vnf_lcm_op_occs::fail),
        )
        .route(
            &at("/vnf_lcm_op_occs/{id}/cancel"),
            post(vnf_lcm_op_occs::cancel),
        )
        .route(
            &at("/subscriptions"),
            get(list::list::<list::Subscriptions>).post(subscriptions::create),
        )
        .route(
            &at("/subscriptions/{id}"),
            get(subscriptions::show).delete(subscriptions::delete),
        )
}

fn packages() -> Router<App> {
    let part = |part| get(vnf_packages::part).layer(Extension(part));
    Router::new()
        .route("/vnfpkgm/api_versions", get(api_versions::packages))
        .route("/vnfpkgm/v2/api_versions", get(api_versions::packages_v2))
        .route(
            "/vnfpkgm/v2/vnf_packages",
            get(list::list::<list::Packages>).post(vnf_packages::create),
        )
        .route(
            "/vnfpkgm/v2/vnf_packages/{id}",
            get(vnf_packages::show)
                .patch(vnf_packages::modify)
                .delete(vnf_packages::delete),
        )
        .route(
            "/vnfpkgm/v2/vnf_packages/{id}/package_content",
            get(vnf_packages::content).put(vnf_packages::upload),
        )
        .route(
            "/vnfpkgm/v2/vnf_packages/{id}/package_content/upload_from_uri",
            post(vnf_packages::upload_from_uri),
        )
        .route("/vnfpkgm/v2/vnf_packages/{id}/vnfd", part(Part::Vnfd))
        .route(
            "/vnfpkgm/v2/vnf_packages/{id}/manifest",
            part(Part::Manifest),
        )
        .route(
            "/vnfpkgm/v2/vnf_packages/{id}/artifacts",
            get(vnf_packages::artifacts),
        )
        .route(
            "/vnfpkgm/v2/vnf_packages/{id}/artifacts/{*path}",
            get(vnf_packages::artifact),
        )
}

fn own() -> Router<App> {
    Router::new()
        .route("/vnfm/v1/vims", get(vims::list).post(vims::register))
        .route(
            "/vnfm/v1/vims/{id}",
            get(vims::show).patch(vims::update).delete(vims::delete),
        )
        .route("/vnfm/v1/vims/{id}/check", post(vims::check))
        .route("/vnfm/v1/hostkeys", get(hostkeys::list))
        .route(
            "/vnfm/v1/hostkeys/{id}",
            axum::routing::delete(hostkeys::forget),
        )
        .route("/vnfm/v1/op_occs/{id}/progress", get(own_op_occs::progress))
        .route("/vnfm/v1/op_occs/{id}/events", get(own_op_occs::events))
        .route("/vnfm/v1/op_occs/{id}/log", get(own_op_occs::log))
        .route(
            "/vnfm/v1/vnf_instances/{id}/abandon",
            post(operator_acts::abandon),
        )
        .route("/vnfm/v1/audit", get(operator_acts::audit))
        .route("/vnfm/v1/events", get(events::list))
        .route("/vnfm/v1/orphans", get(orphans::list))
        .route(
            "/vnfm/v1/orphans/{id}",
            axum::routing::delete(operator_acts::forget),
        )
        .route("/vnfm/v1/plugins", get(plugins::list))
        .route("/vnfm/v1/secrets", get(secrets::show))
        .route("/vnfm/v1/secrets/rotate", post(secrets::rotate))
        .route("/vnfm/v1/secrets/migrate", post(secrets::migrate))
        .route("/vnfm/v1/backup", post(maintenance::backup))
        .route("/vnfm/v1/prune", post(maintenance::prune))
        .route("/vnfm/v1/recovery", get(maintenance::recovery))
        .route("/vnfm/v1/recovery/confirm", post(maintenance::confirm))
        .route("/vnfm/v1/health", get(maintenance::health))
        .route("/metrics", get(metrics::show))
        .route("/openapi.yaml", get(async || yaml(OPENAPI)))
        .route("/openapi-v1.yaml", get(async || yaml(OPENAPI_V1)))
        .route("/", get(page::show))
}

fn yaml(document: &'static str) -> impl axum::response::IntoResponse {
    ([("content-type", "application/yaml")], document)
}

//! The one table of routes: the router, the roles, quotas and scopes of requests, the checks during maintenance and
//! the paths of the `OpenAPI` document come from it. A new route is a row and its handler; a new operation is a row in
//! the engine and none here.

use super::{OPENAPI, OPENAPI_V1, yaml};
use super::{
    api_versions, events, hostkeys, links, list, maintenance, matches, nfvo_notifications,
    operator_acts, orphans, own_op_occs, plans, plugins, policies, probes, schedules, secrets,
    stored_files, subscriptions, vims, vnf_instances, vnf_lcm_op_occs, vnf_packages, vnf_snapshots,
    volumes,
};
use crate::access::Role;
use crate::access::roles::RequiredRole;
use crate::page;
use crate::route_match::{Effect, Media, Route, Subject};
use crate::state::App;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use std::borrow::Cow;
use vnfm_core::lcm::Operation;
use vnfm_core::ports::QuotaResource;

/// A route and its handler.
#[derive(Clone)]
pub(super) struct Row {
    pub(super) route: Route,
    /// The handler, for the route's method only.
    pub(super) handler: fn() -> MethodRouter<App>,
}

const READ: Option<RequiredRole> = Some(RequiredRole::Role(Role::Read));
const OPERATE: Option<RequiredRole> = Some(RequiredRole::Role(Role::Operate));
const ADMIN: Option<RequiredRole> = Some(RequiredRole::Role(Role::Admin));
/// For routes that concern all tenants.
const OPERATOR: Option<RequiredRole> = Some(RequiredRole::Operator);
/// Needs no login of ours.
const OPEN: Option<RequiredRole> = None;

/// Rows in columns. A row without one of them does not compile.
macro_rules! routes {
    ($($method:ident $path:literal $role:ident $subject:ident $adds:ident $effect:ident $handler:expr $(, $media:ident)?;)*) => {
        &[$(Row {
            route: Route {
                method: Method::$method,
                path: Cow::Borrowed($path),
                role: $role,
                subject: Subject::$subject,
                adds: routes!(@adds $adds),
                effect: Effect::$effect,
                media: routes!(@media $($media)?),
                begins: None,
            },
            handler: || on(MethodFilter::$method, $handler),
        }),*]
    };
    (@adds Nothing) => { None };
    (@adds $resource:ident) => { Some(QuotaResource::$resource) };
    (@media) => { Media::Json };
    (@media $media:ident) => { Media::$media };
}

/// Every route except those that begin an operation; see [`all`].
//
// Columns: method, path, role, subject (for callers with a scope), quota that it adds to, effect, handler.
#[rustfmt::skip]
const ROUTES: &[Row] = routes! {
    GET    "/vnflcm/api_versions"                                   READ     Shared       Nothing       Reads api_versions::show;
    GET    "/vnflcm/v2/api_versions"                                READ     Shared       Nothing       Reads api_versions::show;
    GET    "/vnflcm/v2/vnf_instances"                               READ     Shared       Nothing       Reads list::list::<list::Instances>;
    POST   "/vnflcm/v2/vnf_instances"                               OPERATE  New          Instances     Adds  vnf_instances::create;
    GET    "/vnflcm/v2/vnf_instances/{vnfInstanceId}"               READ     Instance     Nothing       Reads vnf_instances::show;
    DELETE "/vnflcm/v2/vnf_instances/{vnfInstanceId}"               OPERATE  Instance     Nothing       Frees vnf_instances::delete;
    GET    "/vnflcm/v2/vnf_lcm_op_occs"                             READ     Shared       Nothing       Reads list::list::<list::Ops>;
    GET    "/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}"             READ     Operation    Nothing       Reads vnf_lcm_op_occs::show;
    POST   "/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}/retry"       OPERATE  Operation    Nothing       Frees vnf_lcm_op_occs::retry;
    POST   "/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}/rollback"    OPERATE  Operation    Nothing       Frees vnf_lcm_op_occs::rollback;
    POST   "/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}/fail"        OPERATE  Operation    Nothing       Frees vnf_lcm_op_occs::fail;
    POST   "/vnflcm/v2/vnf_lcm_op_occs/{vnfLcmOpOccId}/cancel"      OPERATE  Operation    Nothing       Frees vnf_lcm_op_occs::cancel;
    GET    "/vnflcm/v2/vnf_snapshots"                               READ     Shared       Nothing       Reads list::list::<list::Snapshots>;
    POST   "/vnflcm/v2/vnf_snapshots"                               OPERATE  New          Snapshots     Adds  vnf_snapshots::create;
    GET    "/vnflcm/v2/vnf_snapshots/{vnfSnapshotInfoId}"           READ     Snapshot     Nothing       Reads vnf_snapshots::show;
    PATCH  "/vnflcm/v2/vnf_snapshots/{vnfSnapshotInfoId}"           OPERATE  Snapshot     Nothing       Frees vnf_snapshots::modify;
    DELETE "/vnflcm/v2/vnf_snapshots/{vnfSnapshotInfoId}"           OPERATE  Snapshot     Nothing       Frees vnf_snapshots::delete;
    GET    "/vnflcm/v2/vnf_snapshots/{vnfSnapshotInfoId}/vnf_state_snapshot" READ Snapshot Nothing      Reads vnf_snapshots::state_snapshot, Other;
    GET    "/vnflcm/v2/subscriptions"                               READ     Shared       Nothing       Reads list::list::<list::Subscriptions>;
    POST   "/vnflcm/v2/subscriptions"                               OPERATE  New          Subscriptions Adds  subscriptions::create;
    GET    "/vnflcm/v2/subscriptions/{subscriptionId}"              READ     Subscription Nothing       Reads subscriptions::show;
    DELETE "/vnflcm/v2/subscriptions/{subscriptionId}"              OPERATE  Subscription Nothing       Frees subscriptions::delete;

    GET    "/vnfpkgm/api_versions"                                  READ     Shared       Nothing       Reads api_versions::show;
    GET    "/vnfpkgm/v2/api_versions"                               READ     Shared       Nothing       Reads api_versions::show;
    GET    "/vnfpkgm/v2/vnf_packages"                               READ     Shared       Nothing       Reads list::list::<list::Packages>;
    POST   "/vnfpkgm/v2/vnf_packages"                               OPERATE  Shared       Packages      Adds  vnf_packages::create;
    GET    "/vnfpkgm/v2/vnf_packages/{vnfPkgId}"                    READ     Package      Nothing       Reads vnf_packages::show;
    PATCH  "/vnfpkgm/v2/vnf_packages/{vnfPkgId}"                    OPERATE  Package      Nothing       Frees vnf_packages::modify;
    DELETE "/vnfpkgm/v2/vnf_packages/{vnfPkgId}"                    OPERATE  Package      Nothing       Frees vnf_packages::delete;
    GET    "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/package_content"    READ     Package      Nothing       Reads vnf_packages::content, Other;
    PUT    "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/package_content"    OPERATE  Package      PackageBytes  Adds  vnf_packages::upload, Other;
    POST   "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/package_content/upload_from_uri" OPERATE Package PackageBytes Adds vnf_packages::upload_from_uri;
    GET    "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/vnfd"               READ     Package      Nothing       Reads vnf_packages::vnfd, Other;
    GET    "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/manifest"           READ     Package      Nothing       Reads vnf_packages::manifest, Other;
    GET    "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/artifacts"          READ     Package      Nothing       Reads vnf_packages::artifacts, Other;
    GET    "/vnfpkgm/v2/vnf_packages/{vnfPkgId}/artifacts/{artifactPath}" READ Package    Nothing       Reads vnf_packages::artifact, Other;

    GET    "/vnfm/v1/vims"                                          READ     Shared       Nothing       Reads vims::list;
    POST   "/vnfm/v1/vims"                                          ADMIN    Shared       Vims          Adds  vims::register;
    GET    "/vnfm/v1/vims/{vimId}"                                  READ     Vim          Nothing       Reads vims::show;
    PATCH  "/vnfm/v1/vims/{vimId}"                                  ADMIN    Vim          Nothing       Adds  vims::update;
    DELETE "/vnfm/v1/vims/{vimId}"                                  ADMIN    Vim          Nothing       Frees vims::delete;
    POST   "/vnfm/v1/vims/{vimId}/check"                            OPERATE  Vim          Nothing       Frees vims::check;
    POST   "/vnfm/v1/vims/{vimId}/kubeconfig"                       ADMIN    Vim          Nothing       Adds  vims::kubeconfig;
    GET    "/vnfm/v1/vims/{vimId}/capabilities"                     OPERATE  Vim          Nothing       Reads vims::capabilities;
    GET    "/vnfm/v1/vnf_packages/{vnfPkgId}/match"                 OPERATE  Package      Nothing       Reads matches::show;
    GET    "/vnfm/v1/hostkeys"                                      READ     Shared       Nothing       Reads hostkeys::list;
    DELETE "/vnfm/v1/hostkeys/{hostKeyId}"                          ADMIN    Shared       Nothing       Frees hostkeys::forget;
    GET    "/vnfm/v1/links"                                         READ     Shared       Nothing       Reads list::list::<list::Links>;
    POST   "/vnfm/v1/links"                                         OPERATE  Shared       Links         Adds  links::create;
    GET    "/vnfm/v1/links/{linkId}"                                READ     Shared       Nothing       Reads links::show;
    DELETE "/vnfm/v1/links/{linkId}"                                OPERATE  Shared       Nothing       Frees links::delete;
    GET    "/vnfm/v1/volumes"                                       READ     Shared       Nothing       Reads list::list::<list::Volumes>;
    POST   "/vnfm/v1/volumes"                                       OPERATE  Shared       Volumes       Adds  volumes::create;
    GET    "/vnfm/v1/volumes/{volumeId}"                            READ     Shared       Nothing       Reads volumes::show;
    DELETE "/vnfm/v1/volumes/{volumeId}"                            OPERATE  Shared       Nothing       Frees volumes::delete;
    GET    "/vnfm/v1/op_occs/{vnfLcmOpOccId}/progress"              READ     Operation    Nothing       Reads own_op_occs::progress;
    GET    "/vnfm/v1/op_occs/{vnfLcmOpOccId}/events"                READ     Operation    Nothing       Reads own_op_occs::events, Other;
    GET    "/vnfm/v1/op_occs/{vnfLcmOpOccId}/log"                   READ     Operation    Nothing       Reads own_op_occs::log;
    POST   "/vnfm/v1/vnf_instances/{vnfInstanceId}/abandon"         ADMIN    Instance     Nothing       Frees operator_acts::abandon;
    POST   "/vnfm/v1/vnf_instances/{vnfInstanceId}/plan"            OPERATE  Instance     Nothing       Plans plans::plan;
    GET    "/vnfm/v1/vnf_instances/{vnfInstanceId}/policy"          READ     Instance     Nothing       Reads policies::show;
    PUT    "/vnfm/v1/vnf_instances/{vnfInstanceId}/policy"          OPERATE  Instance     Nothing       Adds  policies::set;
    DELETE "/vnfm/v1/vnf_instances/{vnfInstanceId}/policy"          OPERATE  Instance     Nothing       Frees policies::unset;
    GET    "/vnfm/v1/vnf_instances/{vnfInstanceId}/schedule"        READ     Instance     Nothing       Reads schedules::show;
    PUT    "/vnfm/v1/vnf_instances/{vnfInstanceId}/schedule"        OPERATE  Instance     Nothing       Adds  schedules::set;
    DELETE "/vnfm/v1/vnf_instances/{vnfInstanceId}/schedule"        OPERATE  Instance     Nothing       Frees schedules::unset;
    GET    "/vnfm/v1/vnf_instances/{vnfInstanceId}/files"           READ     Instance     Nothing       Reads stored_files::list;
    GET    "/vnfm/v1/vnf_instances/{vnfInstanceId}/files/{fileName}" OPERATE Instance     Nothing       Reads stored_files::content, Other;
    PUT    "/vnfm/v1/vnf_instances/{vnfInstanceId}/files/{fileName}" OPERATE Instance     StoredFileBytes Adds stored_files::upload;
    DELETE "/vnfm/v1/vnf_instances/{vnfInstanceId}/files/{fileName}" OPERATE Instance     Nothing       Frees stored_files::delete;
    GET    "/vnfm/v1/audit"                                         ADMIN    Shared       Nothing       Reads operator_acts::audit;
    GET    "/vnfm/v1/events"                                        READ     Shared       Nothing       Reads events::list, Other;
    GET    "/vnfm/v1/orphans"                                       READ     Shared       Nothing       Reads orphans::list;
    DELETE "/vnfm/v1/orphans/{vnfInstanceId}"                       ADMIN    Instance     Nothing       Frees operator_acts::forget;
    GET    "/vnfm/v1/plugins"                                       READ     Shared       Nothing       Reads plugins::list;
    GET    "/vnfm/v1/secrets"                                       OPERATOR Shared       Nothing       Reads secrets::show;
    POST   "/vnfm/v1/secrets/rotate"                                OPERATOR Shared       Nothing       Adds  secrets::rotate;
    POST   "/vnfm/v1/secrets/migrate"                               OPERATOR Shared       Nothing       Adds  secrets::migrate;
    POST   "/vnfm/v1/backup"                                        OPERATOR Shared       Nothing       Adds  maintenance::backup;
    POST   "/vnfm/v1/prune"                                         OPERATOR Shared       Nothing       Frees maintenance::prune;
    GET    "/vnfm/v1/recovery"                                      OPERATOR Shared       Nothing       Reads maintenance::recovery;
    POST   "/vnfm/v1/recovery/confirm"                              OPERATOR Shared       Nothing       EndsRecovery maintenance::confirm;
    GET    "/vnfm/v1/health"                                        READ     Shared       Nothing       Reads maintenance::health;
    // The NFVO uses the credentials from our subscription, and no others: the handlers check them.
    GET    "/vnfm/v1/nfvo_notifications"                            OPEN     Shared       Nothing       Reads nfvo_notifications::test;
    POST   "/vnfm/v1/nfvo_notifications"                            OPEN     Shared       Nothing       Adds  nfvo_notifications::take;
    GET    "/healthz"                                               OPEN     Shared       Nothing       Reads probes::health, Other;
    GET    "/readyz"                                                OPEN     Shared       Nothing       Reads probes::ready, Other;
    // Metrics cover all tenants and contain VIM ids.
    GET    "/metrics"                                               OPERATOR Shared       Nothing       Reads probes::metrics, Other;
    GET    "/openapi.yaml"                                          READ     Shared       Nothing       Reads async || yaml(OPENAPI), Other;
    GET    "/openapi-v1.yaml"                                       READ     Shared       Nothing       Reads async || yaml(OPENAPI_V1), Other;
    GET    "/"                                                      READ     Shared       Nothing       Reads page::show, Other;
};

/// Tasks of SOL003 that respond with 404 until the engine has an operation for them.
const TASKS: &[&str] = &[
    "scale",
    "scale_to_level",
    "change_flavour",
    "operate",
    "change_ext_conn",
    "change_vnfpkg",
    "create_snapshot",
    "revert_to_snapshot",
];

const INSTANCE: &str = "/vnflcm/v2/vnf_instances/{vnfInstanceId}";

/// Every route of an engine with these operations.
pub(super) fn all(operations: &[&'static Operation]) -> Vec<Row> {
    let known = |task: &str| {
        operations
            .iter()
            .any(|operation| operation.task == Some(task))
    };
    let begins = operations.iter().map(|operation| begins(operation));
    let missing = TASKS.iter().filter(|task| !known(task)).map(|task| Row {
        route: task_route(Method::POST, Cow::Owned(format!("{INSTANCE}/{task}"))),
        handler: || on(MethodFilter::POST, vnf_instances::not_supported),
    });
    ROUTES
        .iter()
        .cloned()
        .chain(begins)
        .chain(missing)
        .collect()
}

/// Every route of a server with these operations, as documented and checked.
pub fn documented(operations: &[&'static Operation]) -> Vec<Route> {
    all(operations).into_iter().map(|row| row.route).collect()
}

/// The route that begins an operation.
fn begins(operation: &'static Operation) -> Row {
    let (route, handler): (_, fn() -> MethodRouter<App>) = match operation.task {
        Some(task) => (
            task_route(Method::POST, Cow::Owned(format!("{INSTANCE}/{task}"))),
            || on(MethodFilter::POST, vnf_instances::begin),
        ),
        None => (task_route(Method::PATCH, Cow::Borrowed(INSTANCE)), || {
            on(MethodFilter::PATCH, vnf_instances::begin)
        }),
    };
    let effect = if operation.frees_space {
        Effect::Frees
    } else {
        Effect::Adds
    };
    let route = Route {
        effect,
        begins: Some(operation),
        ..route
    };
    Row { route, handler }
}

/// What all operations on an instance have in common.
fn task_route(method: Method, path: Cow<'static, str>) -> Route {
    Route {
        method,
        path,
        role: OPERATE,
        subject: Subject::Instance,
        adds: Some(QuotaResource::Operations),
        effect: Effect::Adds,
        media: Media::Json,
        begins: None,
    }
}

#[cfg(test)]
mod tests {
    use super::{ADMIN, OPEN, OPERATE, OPERATOR, READ, documented};
    use crate::route_match::{Effect, Media, Route, Subject};
    use axum::http::Method;
    use std::collections::BTreeSet;
    use vnfm_core::lcm::OPERATIONS;

    /// Routes that check the caller's credentials themselves, or need none.
    const WITHOUT_LOGIN: &[&str] = &["/healthz", "/readyz", "/vnfm/v1/nfvo_notifications"];
    /// Routes that write, but nothing that a quota counts.
    const WITHOUT_QUOTA: &[&str] = &[
        "/vnfm/v1/vims/{vimId}",
        "/vnfm/v1/vims/{vimId}/kubeconfig",
        "/vnfm/v1/vnf_instances/{vnfInstanceId}/policy",
        "/vnfm/v1/vnf_instances/{vnfInstanceId}/schedule",
        "/vnfm/v1/secrets/rotate",
        "/vnfm/v1/secrets/migrate",
        "/vnfm/v1/backup",
        "/vnfm/v1/nfvo_notifications",
    ];

    /// The subjects that a route at this path may have.
    fn subjects_of(path: &str) -> Vec<Subject> {
        let parameters = [
            ("{vnfInstanceId}", Subject::Instance),
            ("{vnfLcmOpOccId}", Subject::Operation),
            ("{subscriptionId}", Subject::Subscription),
            ("{vnfSnapshotInfoId}", Subject::Snapshot),
            ("{vnfPkgId}", Subject::Package),
            ("{vimId}", Subject::Vim),
        ];
        let named = parameters.iter().find(|(name, _)| path.contains(name));
        named.map_or_else(
            || vec![Subject::Shared, Subject::New],
            |(_, subject)| vec![*subject],
        )
    }

    fn check(route: &Route) {
        let Route { method, path, .. } = route;
        let what = format!("{method} {path}");
        let reads = *method == Method::GET;
        assert_eq!(route.effect == Effect::Reads, reads, "effect of {what}");
        let is_open = WITHOUT_LOGIN.contains(&&**path);
        assert_eq!(route.role == OPEN, is_open, "role of {what}");
        let changing = [OPERATE, ADMIN, OPERATOR];
        assert!(
            reads || is_open || changing.contains(&route.role),
            "role of {what}"
        );
        assert!(
            subjects_of(path).contains(&route.subject),
            "scope of {what}"
        );
        let adds = route.effect == Effect::Adds && !WITHOUT_QUOTA.contains(&&**path);
        let uses_quota = adds || route.begins.is_some();
        assert_eq!(route.adds.is_some(), uses_quota, "quota of {what}");
        let is_new = route.subject == Subject::New;
        assert!(!is_new || *method == Method::POST, "scope of {what}");
    }

    #[test]
    fn every_route_decides_role_scope_quota_and_effect() {
        let routes = documented(OPERATIONS);
        routes.iter().for_each(check);
        let names: BTreeSet<_> = routes
            .iter()
            .map(|route| (route.path.clone(), route.method.to_string()))
            .collect();
        assert_eq!(names.len(), routes.len(), "a route is twice in the table");
        assert!(routes.iter().any(|route| route.role == READ));
    }

    #[test]
    fn every_operation_has_a_route() {
        let routes = documented(OPERATIONS);
        for operation in OPERATIONS {
            let begins =
                |route: &&Route| route.begins.is_some_and(|one| one.kind == operation.kind);
            let route = routes.iter().find(begins).unwrap();
            assert_eq!(route.role, OPERATE, "{}", operation.kind);
            assert_eq!(route.media, Media::Json);
            let frees = route.effect == Effect::Frees;
            assert_eq!(frees, operation.frees_space, "effect of {}", operation.kind);
            match operation.task {
                Some(task) => assert_eq!((&route.method, route.task()), (&Method::POST, task)),
                None => assert_eq!(route.method, Method::PATCH),
            }
        }
    }
}

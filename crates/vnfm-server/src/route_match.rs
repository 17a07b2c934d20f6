//! What a route needs and affects, and which route a request matched. [`identify`] runs before every check; access,
//! quotas, scopes and maintenance read the route from the request and never look at its path.
//!
//! | a request | [`Matched`] | role that it needs |
//! |---|---|---|
//! | of a route | with its [`Route`] | that of the route |
//! | at a path of a route, with another method | without a route | the operator |
//! | at another path | none | `read`, for the 404 |

use crate::access::roles::RequiredRole;
use crate::problem::{HandlerResult, Problem};
use axum::extract::{FromRequestParts, MatchedPath, NestedPath, RawPathParams, Request, State};
use axum::http::request::Parts;
use axum::http::{Extensions, Method};
use axum::middleware::Next;
use axum::response::Response;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use vnfm_core::lcm::{Operation, Requires};
use vnfm_core::ports::QuotaResource;
use vnfm_types::v1::ApiVersion;

/// A method at a path.
#[derive(Clone)]
pub struct Route {
    /// A GET route also serves HEAD.
    pub method: Method,
    /// Path as in the `OpenAPI` document, with parameters in braces. Routes below
    /// `/vnflcm/v2` also exist below `/vnflcm/v1`.
    pub path: Cow<'static, str>,
    /// The role that the caller needs; `None`: the route needs no login of ours.
    pub role: Option<RequiredRole>,
    /// What it concerns, for callers limited to certain VIMs, namespaces or vendors.
    pub subject: Subject,
    /// The resource that it adds; 403 if the tenant's quota is used up.
    pub adds: Option<QuotaResource>,
    /// What it does to the server's data.
    pub effect: Effect,
    /// Media types of its responses.
    pub media: Media,
    /// The operation that it begins.
    pub begins: Option<&'static Operation>,
}

/// What a request concerns. For callers with a scope, the object must be visible, or the response is 404.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subject {
    /// The tenant or the server: read within the scope, changed only without one.
    Shared,
    /// A new object, which its handler creates within the scope.
    New,
    /// The instance `{id}`; the body must name nothing outside the scope.
    Instance,
    /// The operation occurrence `{id}`; the body must name nothing outside the scope.
    Operation,
    /// The subscription whose id is `{id}`.
    Subscription,
    /// The VNF snapshot `{id}`.
    Snapshot,
    /// The package `{id}`: changed only without a scope.
    Package,
    /// The VIM `{id}`, by id or name: changed only without a scope.
    Vim,
}

/// What a request does to the server's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The request only reads; nothing changes.
    Reads,
    /// Starts or adds something: refused in recovery, and while the disk is low.
    Adds,
    /// Tells what an operation would do, and changes nothing: a read, except that its body contains the operation's request.
    Plans,
    /// Ends something or frees space: refused in recovery only.
    Frees,
    /// The request ends the recovery that the server is in.
    EndsRecovery,
}

/// Media types of the responses of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Media {
    /// JSON; 406 if the client does not accept it.
    Json,
    /// Others: the handler checks `Accept`.
    Other,
}

impl Route {
    /// Whether its request decides where the VNF goes: the instance has no resources yet. The body is checked by what it
    /// would create.
    pub(crate) fn instantiates(&self) -> bool {
        self.begins
            .is_some_and(|operation| operation.requires == Requires::NotInstantiated)
    }

    /// The last segment of its path: the task.
    pub(crate) fn task(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// The paths that the router serves, in its syntax. Metrics use them as labels, so
    /// parameters keep their short names.
    pub(crate) fn served_paths(&self) -> Vec<String> {
        let segments = self.path.split('/').map(|segment| match segment {
            "{artifactPath}" => "{*path}",
            parameter if parameter.starts_with('{') => "{id}",
            literal => literal,
        });
        let path = segments.collect::<Vec<_>>().join("/");
        let (v1, v2) = (ApiVersion::V1.prefix(), ApiVersion::V2.prefix());
        let rest = path.strip_prefix(v2).filter(|rest| rest.starts_with('/'));
        let in_v1 = rest.map(|rest| format!("{v1}{rest}"));
        in_v1.into_iter().chain([path]).collect()
    }
}

/// The routes of each path that the router serves.
pub(crate) struct Paths(HashMap<String, Arc<[Route]>>);

impl Paths {
    /// The paths of these routes.
    pub(crate) fn new<'a>(routes: impl Iterator<Item = &'a Route>) -> Self {
        let mut paths: HashMap<String, Vec<Route>> = HashMap::new();
        for route in routes {
            for path in route.served_paths() {
                paths.entry(path).or_default().push(route.clone());
            }
        }
        Self(
            paths
                .into_iter()
                .map(|(path, routes)| (path, routes.into()))
                .collect(),
        )
    }
}

/// The routes at the path of a request; an extension of requests that the router has a path for.
#[derive(Clone)]
pub(crate) struct Matched {
    routes: Arc<[Route]>,
    method: Method,
    id: String,
}

impl Matched {
    /// As [`identify`] found it; `None` if no path matches.
    pub(crate) fn from_extensions(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// The route of the request; `None` if the path has none with its method.
    pub(crate) fn route(&self) -> Option<&Route> {
        // The GET handler serves HEAD.
        let method = if self.method == Method::HEAD {
            &Method::GET
        } else {
            &self.method
        };
        self.routes.iter().find(|route| route.method == *method)
    }

    /// The operation that the route begins.
    ///
    /// # Errors
    ///
    /// 500 if it begins none: a bug in the table.
    pub(crate) fn operation(&self) -> HandlerResult<&'static Operation> {
        let begins = self.route().and_then(|route| route.begins);
        begins.ok_or_else(|| Problem::bug(&"the route begins no operation"))
    }

    /// The decoded value of `{id}` in the path; empty without one.
    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Whether every response of the path is JSON.
    pub(crate) fn is_json(&self) -> bool {
        self.routes.iter().all(|route| route.media == Media::Json)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Matched {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Problem> {
        let matched = Self::from_extensions(&parts.extensions).cloned();
        matched.ok_or_else(|| Problem::bug(&"a route is not behind `route_match::identify`"))
    }
}

/// Finds the routes of a request by the path that the router matched. A path that is not in the table has no routes,
/// and so is closed to all but the operator.
pub(crate) async fn identify(
    State(paths): State<Arc<Paths>>,
    request: Request,
    next: Next,
) -> Response {
    let (mut parts, body) = request.into_parts();
    if let Some(matched) = parts.extensions.get::<MatchedPath>().cloned() {
        // An embedding application may serve the router below a path of its own.
        let outer = parts.extensions.get::<NestedPath>();
        let path = outer.and_then(|outer| matched.as_str().strip_prefix(outer.as_str()));
        let path = path.unwrap_or(matched.as_str()).to_owned();
        let params = RawPathParams::from_request_parts(&mut parts, &())
            .await
            .ok();
        let id = params
            .iter()
            .flatten()
            .filter(|(name, _)| *name == "id")
            .last();
        let matched = Matched {
            routes: paths.0.get(&path).cloned().unwrap_or_default(),
            method: parts.method.clone(),
            id: id.map(|(_, id)| id.to_owned()).unwrap_or_default(),
        };
        parts.extensions.insert(matched);
    }
    next.run(Request::from_parts(parts, body)).await
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Effect, Matched, Paths, Route, Subject, identify};
    use crate::access::roles::{self, RequiredRole};
    use crate::routes::table;
    use axum::body::Body;
    use axum::extract::Request;
    use axum::http::Method;
    use axum::middleware::from_fn_with_state;
    use axum::routing::any;
    use axum::{Extension, Router};
    use std::sync::{Arc, Mutex};
    use tower_service::Service as _;
    use vnfm_core::lcm::OPERATIONS;

    type Found = Arc<Mutex<Option<Matched>>>;

    /// A router with the paths of the table that stores what it finds.
    fn router(found: &Found) -> Router {
        let paths = Paths::new(table::documented(OPERATIONS).iter());
        let mut router = Router::new();
        for path in paths.0.keys() {
            let found = found.clone();
            let remember = async move |matched: Extension<Matched>| {
                *found.lock().unwrap() = Some(matched.0);
            };
            router = router.route(path, any(remember));
        }
        router.layer(from_fn_with_state(Arc::new(paths), identify))
    }

    /// What `router` stores for a request.
    async fn send(
        mut router: Router,
        found: Found,
        method: &Method,
        path: &str,
    ) -> Option<Matched> {
        let request = Request::builder().method(method).uri(path);
        let request = request.body(Body::empty()).unwrap();
        router.call(request).await.unwrap();
        found.lock().unwrap().take()
    }

    /// What a router with the paths of the table finds for a request.
    pub(crate) async fn matched(method: &Method, path: &str) -> Option<Matched> {
        let found = Found::default();
        send(router(&found), found, method, path).await
    }

    #[tokio::test]
    async fn a_nested_router_finds_its_routes() {
        for outer in ["/nfv", "/{customer}/nfv"] {
            let found = Found::default();
            let inner = Router::new().nest("/api", router(&found));
            let path = "/nfv/api/vnflcm/v1/vnf_instances/a/heal";
            let path = outer.replace("/nfv", path).replace("{customer}", "acme");
            let router = Router::new().nest(outer, inner);
            let matched = send(router, found, &Method::POST, &path).await.unwrap();
            assert_eq!(matched.route().unwrap().task(), "heal", "{path}");
            assert_eq!(matched.id(), "a", "{path}");
        }
    }

    /// The route of a request.
    pub(crate) async fn route(method: Method, path: &str) -> Route {
        let matched = matched(&method, path).await;
        let route = matched.as_ref().and_then(Matched::route);
        route
            .unwrap_or_else(|| panic!("no route for {method} {path}"))
            .clone()
    }

    #[tokio::test]
    async fn a_route_missing_from_the_table_needs_the_operator() {
        const READ: RequiredRole = RequiredRole::Role(crate::access::Role::Read);
        const OPERATE: RequiredRole = RequiredRole::Role(crate::access::Role::Operate);
        const ADMIN: RequiredRole = RequiredRole::Role(crate::access::Role::Admin);
        const OPERATOR: RequiredRole = RequiredRole::Operator;
        let instances = "/vnflcm/v2/vnf_instances";
        let package = "/vnfpkgm/v2/vnf_packages/p";
        for (method, path, needs) in [
            (Method::GET, format!("{instances}/i"), READ),
            (Method::HEAD, format!("{instances}/i"), READ),
            (Method::GET, "/vnflcm/v1/vnf_instances/i".to_owned(), READ),
            (
                Method::POST,
                "/vnflcm/v1/vnf_instances/i/heal".to_owned(),
                OPERATE,
            ),
            (Method::PATCH, format!("{instances}/i"), OPERATE),
            (Method::DELETE, "/vnfm/v1/vims/i".to_owned(), ADMIN),
            (Method::POST, "/vnfm/v1/backup".to_owned(), OPERATOR),
            (Method::GET, format!("{package}/artifacts"), READ),
            (Method::GET, format!("{package}/artifacts/a"), READ),
            (
                Method::GET,
                format!("{package}/artifacts/Files/deep/a.yaml"),
                READ,
            ),
            (Method::PUT, format!("{package}/artifacts"), OPERATOR),
            (Method::PUT, format!("{package}/artifacts/a"), OPERATOR),
            (
                Method::PUT,
                format!("{package}/artifacts/Files/deep/a.yaml"),
                OPERATOR,
            ),
            (Method::PUT, "/vnfm/v1/vims".to_owned(), OPERATOR),
            (Method::OPTIONS, "/vnfm/v1/vims".to_owned(), OPERATOR),
            // No path of ours: a 404.
            (
                Method::POST,
                "/vnflcm/v10/vnf_instances/i/heal".to_owned(),
                READ,
            ),
            (Method::GET, "/vnfm/v1/new".to_owned(), READ),
            (Method::GET, "/vnfm/v1/vims/".to_owned(), READ),
        ] {
            let matched = matched(&method, &path).await;
            assert_eq!(roles::needed(matched.as_ref()), needs, "{method} {path}");
        }
        let unlisted = Matched {
            routes: Arc::default(),
            method: Method::GET,
            id: String::new(),
        };
        assert_eq!(
            roles::needed(Some(&unlisted)),
            OPERATOR,
            "routed, but in no row"
        );
    }

    #[tokio::test]
    async fn an_escaped_path_has_the_same_subject() {
        for (path, subject, id) in [
            ("/vnflcm/v2/vnf_instances/a-b", Subject::Instance, "a-b"),
            (
                "/vnflcm/v1/vnf_instances/%61-b/heal",
                Subject::Instance,
                "a-b",
            ),
            ("/vnfm/v1/vims/my%20cloud", Subject::Vim, "my cloud"),
            ("/vnfm/v1/op_occs/o/log", Subject::Operation, "o"),
            ("/vnfm/v1/audit", Subject::Shared, ""),
        ] {
            let method = if path.ends_with("heal") {
                Method::POST
            } else {
                Method::GET
            };
            let matched = matched(&method, path).await.unwrap();
            assert_eq!(matched.route().unwrap().subject, subject, "{path}");
            assert_eq!(matched.id(), id, "{path}");
        }
    }

    #[tokio::test]
    async fn requests_that_end_something_or_free_space_need_no_disk_space() {
        let vnf = "/vnflcm/v2/vnf_instances";
        let package = "/vnfpkgm/v2/vnf_packages/p";
        for (method, path, effect) in [
            (Method::POST, vnf.to_owned(), Effect::Adds),
            (Method::POST, format!("{vnf}/i/instantiate"), Effect::Adds),
            (Method::POST, format!("{vnf}/i/heal"), Effect::Adds),
            (
                Method::PUT,
                format!("{package}/package_content"),
                Effect::Adds,
            ),
            // It is written to that disk.
            (Method::POST, "/vnfm/v1/backup".to_owned(), Effect::Adds),
            (Method::DELETE, format!("{vnf}/i"), Effect::Frees),
            (Method::POST, format!("{vnf}/i/terminate"), Effect::Frees),
            (
                Method::POST,
                "/vnflcm/v2/vnf_lcm_op_occs/o/rollback".to_owned(),
                Effect::Frees,
            ),
            (Method::POST, "/vnfm/v1/prune".to_owned(), Effect::Frees),
            // Disabling precedes deletion.
            (Method::PATCH, package.to_owned(), Effect::Frees),
            (Method::PATCH, format!("{vnf}/i"), Effect::Adds),
        ] {
            let found = route(method.clone(), &path).await.effect;
            assert_eq!(found, effect, "{method} {path}");
        }
    }
}

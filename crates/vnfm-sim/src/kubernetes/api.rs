//! The API server's routes: paths, verbs and RBAC. `verbs.rs` serves them.
//!
//! Errors are `Status` bodies with the real server's messages; defaults and validation on create are in `admit.rs`.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::Cluster;
use super::auth::AccessRequest;
use super::discovery;
use super::objects::Key;
use super::target::Target;
use super::watch::watch;
use super::writes::{error, not_found, status, unknown_path};
use crate::http::{Reply, Request, Route, Service};

/// The HTTP service of a cluster.
pub(crate) struct Api(pub(crate) Arc<Cluster>);

pub(super) type Answer = Result<Reply, Reply>;

impl Service for Api {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn failure(&self, code: u16) -> Reply {
        let (reason, message) = match code {
            401 => ("Unauthorized", "Unauthorized"),
            403 => ("Forbidden", "forbidden by an injected fault"),
            429 => (
                "TooManyRequests",
                "the server has received too many requests and has asked us to try again later",
            ),
            503 => (
                "ServiceUnavailable",
                "the server is currently unable to handle the request",
            ),
            _ => (
                "InternalError",
                "an error on the server has prevented the request from succeeding",
            ),
        };
        Reply::json(code, &status(code, reason, message, Value::Null))
    }

    fn route<'a>(&'a self, request: &'a Request) -> Option<Route<'a>> {
        let path = request.segments();
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        let at = format!("{} {}", self.0.name(), segments.join("/"));
        if !self.0.is_available() {
            let refused = || Err(self.failure(503));
            return Some(Route::new("kubernetes.unavailable", at, refused));
        }
        if let Some(reply) = discovery::discover(&self.0.store(), &segments, request) {
            return Some(Route::new("kubernetes.discovery", at, || {
                self.authenticate(request, None).map(|()| reply)
            }));
        }
        let Some(target) = Target::parse(&segments) else {
            return Some(Route::new("kubernetes.unknown", at, || Err(unknown_path())));
        };
        let verb = verb(request, &target);
        let mut subject = format!(
            "{} {}/{}/{}",
            self.0.name(),
            target.plural,
            target.namespace,
            target.name
        );
        if target.name.is_empty() {
            subject.push_str(
                request.json()["metadata"]["name"]
                    .as_str()
                    .unwrap_or_default(),
            );
        }
        Some(Route::new(
            format!("kubernetes.{verb}"),
            subject,
            move || self.serve(request, &target, verb),
        ))
    }
}

/// The RBAC verb of a request, or `apply` and `evict`, which have names of their own in the call log.
fn verb(request: &Request, target: &Target) -> &'static str {
    match (&request.method, target.name.is_empty()) {
        (&Method::GET, true) if matches!(request.param("watch"), Some("true" | "1")) => "watch",
        (&Method::GET, true) => "list",
        (&Method::GET, false) => "get",
        (&Method::PUT, _) => "update",
        (&Method::PATCH, _) if request.header("content-type").contains("apply-patch") => "apply",
        (&Method::PATCH, _) => "patch",
        (&Method::DELETE, true) => "deletecollection",
        (&Method::DELETE, false) => "delete",
        (&Method::POST, false) if target.part == "eviction" => "evict",
        _ => "create",
    }
}

impl Api {
    fn authenticate(
        &self,
        request: &Request,
        deed: Option<&AccessRequest<'_>>,
    ) -> Result<(), Reply> {
        let store = self.0.store();
        let caller = self
            .0
            .tokens()
            .caller(&store, request.header("authorization"));
        let caller = caller.and_then(|caller| caller.acting_as(request.header("impersonate-user")));
        let caller = caller.map_err(|()| error(401, "Unauthorized", "Unauthorized"))?;
        let Some(deed) = deed.filter(|deed| !caller.is_allowed(&store, deed)) else {
            return Ok(());
        };
        let name = if deed.name.is_empty() {
            String::new()
        } else {
            format!(" \"{}\"", deed.name)
        };
        let scope = if deed.namespace.is_empty() {
            "at the cluster scope".to_owned()
        } else {
            format!("in the namespace \"{}\"", deed.namespace)
        };
        let qualified = if deed.group.is_empty() {
            deed.plural.to_owned()
        } else {
            format!("{}.{}", deed.plural, deed.group)
        };
        let message = format!(
            "{qualified}{name} is forbidden: User \"{}\" cannot {} resource \"{}\" in API group \"{}\" {scope}",
            caller.name, deed.verb, deed.plural, deed.group
        );
        Err(Reply::json(
            403,
            &status(
                403,
                "Forbidden",
                &message,
                json!({ "name": deed.name, "group": deed.group, "kind": deed.plural }),
            ),
        )
        .with_remark(message))
    }

    /// Checks that RBAC allows `verb`; `apply` counts as `patch`, `evict` as `create` of the eviction.
    fn authorize(&self, request: &Request, target: &Target, verb: &str) -> Result<(), Reply> {
        let plural = if target.part.is_empty() {
            target.plural.clone()
        } else {
            format!("{}/{}", target.plural, target.part)
        };
        let namespace = if target.plural == "namespaces" {
            &target.name
        } else {
            &target.namespace
        };
        let deed = AccessRequest {
            verb: match verb {
                "apply" => "patch",
                "evict" => "create",
                verb => verb,
            },
            group: &target.group,
            plural: &plural,
            namespace,
            name: &target.name,
        };
        self.authenticate(request, Some(&deed))
    }

    fn serve(&self, request: &Request, target: &Target, verb: &'static str) -> Answer {
        self.authorize(request, target, verb)?;
        let kind = self
            .0
            .store()
            .kind(&target.group, &target.version, &target.plural)
            .ok_or_else(unknown_path)?;
        let key = Key::new(&kind.qualified(), &target.namespace, &target.name);
        match (verb, target.part.as_str()) {
            ("list", _) => Ok(self.list(request, &kind, &target.namespace)),
            ("watch", _) => Ok(watch(
                &self.0,
                &self.0.store(),
                (&kind, &target.namespace),
                request,
            )),
            ("create", "") => self.create(request, &kind, &target.namespace),
            ("create", "token") => self.token(request, &key),
            ("get", "" | "status") => self
                .0
                .store()
                .get(&key)
                .map(|body| Reply::json(200, body))
                .ok_or_else(|| not_found(&kind, &target.name)),
            ("get", "log") => self.log(&kind, &key),
            ("get" | "update" | "patch", "scale") => self.scale(request, &kind, &key),
            ("update", "" | "status") => self.update(request, &kind, &key),
            ("patch", "" | "status") => self.patch(request, &kind, &key, target.part == "status"),
            ("apply", "" | "status") => self.apply(request, &kind, &key),
            ("delete", "") => self.delete(request, &kind, &key),
            ("evict", _) => self.evict(request, &kind, &key),
            ("deletecollection", "") => self.delete_all(request, &kind, &target.namespace),
            _ => {
                let message = format!(
                    "kubernetes: `{} {}` is not modelled",
                    request.method, request.path
                );
                self.0.books.record_violation(message.clone());
                Err(error(501, "NotImplemented", &message))
            }
        }
    }
}

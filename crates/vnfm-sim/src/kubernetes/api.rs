//! The API server's paths and verbs: create, read, change, delete, list, and their errors.
//!
//! Errors are the real server's `Status` bodies with its words; what it defaults and refuses on
//! create is done in `admit`.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::Cluster;
use super::apply::{merge, merge_patch};
use super::auth::Deed;
use super::discovery;
use super::disruption;
use super::objects::{Key, Kind, Store};
use super::watch::{Selector, watch};
use super::writes::{
    apply, conflict, create, error, json_patch, manager, missing, no_page, parse, remove, status,
    write,
};
use crate::http::{Neighbour, Reply, Request, Route};

/// An API server; routes hold the cluster itself.
pub(crate) struct Api(pub(crate) Arc<Cluster>);

type Answer = Result<Reply, Reply>;

/// A path of the API taken apart.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target {
    group: String,
    version: String,
    plural: String,
    namespace: String,
    name: String,
    part: String,
}

impl Target {
    fn of(path: &[&str]) -> Option<Self> {
        let (group, version, rest) = match path {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, plural, more @ ..]
                if !matches!(*plural, "status" | "finalize") =>
            {
                (*namespace, [&[*plural], more].concat())
            }
            other => ("", other.to_vec()),
        };
        let mut rest = rest.into_iter();
        let (plural, name, part) = (
            rest.next()?,
            rest.next().unwrap_or_default(),
            rest.next().unwrap_or_default(),
        );
        let own = str::to_owned;
        Some(Self {
            group: own(group),
            version: own(version),
            plural: own(plural),
            namespace: own(namespace),
            name: own(name),
            part: own(part),
        })
    }
}

impl Neighbour for Api {
    fn name(&self) -> &'static str {
        "kubernetes"
    }

    fn failure(&self, code: u16) -> Reply {
        let (reason, message) = match code {
            401 => ("Unauthorized", "Unauthorized"),
            403 => (
                "Forbidden",
                "forbidden by the script of the simulated world",
            ),
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
        if let Some(reply) = discovery::discover(&self.0.store(), &segments, request) {
            return Some(Route::new("kubernetes.discovery", at, || {
                self.who(request, None).map(|()| reply)
            }));
        }
        let Some(target) = Target::of(&segments) else {
            return Some(Route::new("kubernetes.unknown", at, || Err(no_page())));
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

/// What a request wants, in RBAC's words; `apply` and `evict` are of their own kind for the books.
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
    fn who(&self, request: &Request, deed: Option<&Deed<'_>>) -> Result<(), Reply> {
        let store = self.0.store();
        let who = self.0.tokens().who(&store, request.header("authorization"));
        let who = who.and_then(|who| who.acting_as(request.header("impersonate-user")));
        let who = who.map_err(|()| error(401, "Unauthorized", "Unauthorized"))?;
        let Some(deed) = deed.filter(|deed| !who.may(&store, deed)) else {
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
            who.name, deed.verb, deed.plural, deed.group
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
        .remark(message))
    }

    fn serve(&self, request: &Request, target: &Target, verb: &'static str) -> Answer {
        let plural = if target.part.is_empty() {
            target.plural.clone()
        } else {
            format!("{}/{}", target.plural, target.part)
        };
        let asked = match verb {
            "apply" => "patch",
            "evict" => "create",
            verb => verb,
        };
        let name_space = if target.plural == "namespaces" {
            target.name.clone()
        } else {
            target.namespace.clone()
        };
        let deed = Deed {
            verb: asked,
            group: &target.group,
            plural: &plural,
            namespace: &name_space,
            name: &target.name,
        };
        self.who(request, Some(&deed))?;
        let kind = self
            .0
            .store()
            .kind(&target.group, &target.version, &target.plural)
            .ok_or_else(no_page)?;
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
                .ok_or_else(|| missing(&kind, &target.name)),
            ("get", "log") => self.log(&kind, &key),
            ("get" | "update" | "patch", "scale") => self.scale(request, &kind, &key),
            ("update", "" | "status") => self.update(request, &kind, &key),
            ("patch", "" | "status") => self.patch(request, &kind, &key, target.part == "status"),
            ("apply", "" | "status") => self.apply(request, &kind, &key),
            ("delete", "") => self.delete(request, &kind, &key),
            ("evict", _) => self.evict(request, &kind, &key),
            ("deletecollection", "") => Ok(self.delete_all(request, &kind, &target.namespace)),
            _ => {
                let what = format!(
                    "kubernetes: `{} {}` is not modelled",
                    request.method, request.path
                );
                self.0.books.violation(what.clone());
                Err(error(501, "NotImplemented", &what))
            }
        }
    }

    fn list(&self, request: &Request, kind: &Kind, namespace: &str) -> Reply {
        let store = self.0.store();
        let selector = Selector::of(request);
        let limit = request
            .param("limit")
            .and_then(|l| l.parse().ok())
            .filter(|l| *l > 0)
            .unwrap_or(usize::MAX);
        let skip: usize = request
            .param("continue")
            .and_then(|c| c.parse().ok())
            .unwrap_or(0);
        let fitting: Vec<&Arc<Value>> = store
            .list(&kind.qualified(), namespace)
            .map(|(_, body)| body)
            .filter(|body| selector.fits(body))
            .collect();
        let bare = |body: &&Arc<Value>| {
            let mut body = (***body).clone();
            // As the real server does for its own kinds: the list says what its items are.
            body.as_object_mut()
                .map(|map| (map.remove("apiVersion"), map.remove("kind")));
            body
        };
        let items: Vec<Value> = fitting.iter().skip(skip).take(limit).map(bare).collect();
        let mut meta = json!({ "resourceVersion": store.version.to_string() });
        let left = fitting
            .len()
            .saturating_sub(skip.saturating_add(items.len()));
        if left > 0 {
            meta["continue"] = json!((skip + items.len()).to_string());
            meta["remainingItemCount"] = json!(left);
        }
        Reply::json(
            200,
            &json!({ "kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(), "metadata": meta, "items": items }),
        )
    }

    fn create(&self, request: &Request, kind: &Arc<Kind>, namespace: &str) -> Answer {
        let body = parse(request)?;
        let manager = manager(request);
        let mut store = self.0.store();
        let stored = create(&mut store, kind, (namespace, &manager), body)?;
        Ok(Reply::json(201, &stored))
    }

    fn update(&self, request: &Request, kind: &Kind, key: &Key) -> Answer {
        let body = parse(request)?;
        let mut store = self.0.store();
        let old = store
            .stored(key)
            .cloned()
            .ok_or_else(|| missing(kind, &key.name))?;
        let asked = body["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default();
        if !asked.is_empty() && old.body["metadata"]["resourceVersion"] != asked {
            return Err(conflict(
                kind,
                &key.name,
                "the object has been modified; please apply your changes to the latest version and try again",
            ));
        }
        let owners = old.owners.wrote(&manager(request), &old.body, &body);
        Ok(Reply::json(200, &write(&mut store, key, body, owners)))
    }

    fn patch(&self, request: &Request, kind: &Kind, key: &Key, _status: bool) -> Answer {
        let change = parse(request)?;
        let mut store = self.0.store();
        let old = store
            .stored(key)
            .cloned()
            .ok_or_else(|| missing(kind, &key.name))?;
        let mut body = (*old.body).clone();
        match request.header("content-type") {
            kind if kind.starts_with("application/merge-patch+json") => {
                merge_patch(&mut body, &change);
            }
            kind if kind.starts_with("application/strategic-merge-patch+json") => {
                merge(&mut body, &change, "", true);
            }
            kind if kind.starts_with("application/json-patch+json") => {
                json_patch(&mut body, &change).map_err(|why| error(422, "Invalid", &why))?;
            }
            other => {
                return Err(error(
                    415,
                    "UnsupportedMediaType",
                    &format!(
                        "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml; it was {other}"
                    ),
                ));
            }
        }
        let asked = change["metadata"]["resourceVersion"].as_str();
        if asked.is_some_and(|asked| old.body["metadata"]["resourceVersion"] != asked) {
            return Err(conflict(
                kind,
                &key.name,
                "the object has been modified; please apply your changes to the latest version and try again",
            ));
        }
        let owners = old.owners.wrote(&manager(request), &old.body, &body);
        Ok(Reply::json(200, &write(&mut store, key, body, owners)))
    }

    fn apply(&self, request: &Request, kind: &Arc<Kind>, key: &Key) -> Answer {
        let applied: Value = serde_yaml::from_slice(&request.body)
            .map_err(|why| error(400, "BadRequest", &format!("error decoding YAML: {why}")))?;
        let manager = request.param("fieldManager").unwrap_or_default();
        if manager.is_empty() {
            return Err(error(
                422,
                "Invalid",
                "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch",
            ));
        }
        if !applied["metadata"]["name"].is_null()
            && applied["metadata"]["name"] != key.name.as_str()
        {
            return Err(error(
                400,
                "BadRequest",
                &format!(
                    "the name of the object ({}) does not match the name on the URL ({})",
                    applied["metadata"]["name"].as_str().unwrap_or_default(),
                    key.name
                ),
            ));
        }
        let force = request.param("force") == Some("true");
        let (created, body) = apply(
            &mut self.0.store(),
            kind,
            (&key.namespace, &key.name),
            (manager, force, &applied),
        )?;
        Ok(Reply::json(if created { 201 } else { 200 }, &body))
    }

    fn delete(&self, request: &Request, kind: &Kind, key: &Key) -> Answer {
        let options = serde_json::from_slice::<Value>(&request.body).unwrap_or_default();
        let mut store = self.0.store();
        let body = store
            .get(key)
            .cloned()
            .ok_or_else(|| missing(kind, &key.name))?;
        let uid = options["preconditions"]["uid"].as_str();
        if uid.is_some_and(|uid| body["metadata"]["uid"] != uid) {
            return Err(conflict(
                kind,
                &key.name,
                "Precondition failed: UID in precondition does not match",
            ));
        }
        let after = remove(&mut store, key, request, &options);
        match after.filter(|_| store.get(key).is_some()) {
            Some(waiting) => Ok(Reply::json(200, &waiting)),
            None => Ok(Reply::json(
                200,
                &json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
                "details": { "name": key.name, "group": kind.group, "kind": kind.plural, "uid": body["metadata"]["uid"] } }),
            )),
        }
    }

    fn evict(&self, request: &Request, kind: &Kind, key: &Key) -> Answer {
        let eviction = parse(request)?;
        disruption::evict(&mut self.0.store(), kind, key, &eviction)?;
        let body =
            json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" });
        Ok(Reply::json(201, &body))
    }

    fn delete_all(&self, request: &Request, kind: &Kind, namespace: &str) -> Reply {
        let options = serde_json::from_slice::<Value>(&request.body).unwrap_or_default();
        let selector = Selector::of(request);
        let mut store = self.0.store();
        let doomed: Vec<Key> = store
            .list(&kind.qualified(), namespace)
            .filter(|(_, body)| selector.fits(body))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &doomed {
            remove(&mut store, key, request, &options);
        }
        Reply::json(
            200,
            &json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": { "group": kind.group, "kind": kind.plural } }),
        )
    }

    fn token(&self, request: &Request, key: &Key) -> Answer {
        let body = parse(request)?;
        let seconds = body["spec"]["expirationSeconds"].as_i64().unwrap_or(3600);
        if seconds < 600 {
            let message = format!(
                "TokenRequest.authentication.k8s.io \"\" is invalid: spec.expirationSeconds: Invalid value: {seconds}: may not specify a duration less than 10 minutes"
            );
            return Err(error(422, "Invalid", &message));
        }
        let store = self.0.store();
        let issued = self
            .0
            .tokens()
            .issue(&store, &key.namespace, &key.name, seconds);
        let (token, expires) = issued.ok_or_else(|| {
            error(
                404,
                "NotFound",
                &format!("serviceaccounts \"{}\" not found", key.name),
            )
        })?;
        let expires = jiff::Timestamp::from_second(expires.as_second())
            .unwrap_or(expires)
            .to_string();
        Ok(Reply::json(
            201,
            &json!({ "kind": "TokenRequest", "apiVersion": "authentication.k8s.io/v1", "metadata": { "name": key.name, "namespace": key.namespace },
            "spec": body["spec"], "status": { "token": token, "expirationTimestamp": expires } }),
        ))
    }

    fn log(&self, kind: &Kind, key: &Key) -> Answer {
        let store = self.0.store();
        let pod = store.get(key).ok_or_else(|| missing(kind, &key.name))?;
        let text = format!(
            "{} started\n",
            pod["spec"]["containers"][0]["name"]
                .as_str()
                .unwrap_or_default()
        );
        Ok(Reply {
            body: text.into(),
            ..Reply::empty(200)
        }
        .with("content-type", "text/plain"))
    }

    fn scale(&self, request: &Request, kind: &Kind, key: &Key) -> Answer {
        let mut store = self.0.store();
        store.get(key).ok_or_else(|| missing(kind, &key.name))?;
        if request.method != Method::GET {
            let replicas = parse(request)?["spec"]["replicas"].clone();
            store.update(key, |body| body["spec"]["replicas"] = replicas);
        }
        let body = store.get(key).cloned().unwrap_or_default();
        let meta = &body["metadata"];
        Ok(Reply::json(
            200,
            &json!({ "kind": "Scale", "apiVersion": "autoscaling/v1",
            "metadata": { "name": key.name, "namespace": key.namespace, "uid": meta["uid"], "resourceVersion": meta["resourceVersion"], "creationTimestamp": meta["creationTimestamp"] },
            "spec": { "replicas": body["spec"]["replicas"] }, "status": { "replicas": body["status"]["replicas"].as_i64().unwrap_or(0) } }),
        ))
    }
}

/// The kind, namespace and name at an API path.
pub(crate) fn locate(store: &Store, path: &str) -> Option<(String, String, String)> {
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let target = Target::of(&segments)?;
    let kind = store.kind(&target.group, &target.version, &target.plural)?;
    Some((kind.qualified(), target.namespace, target.name))
}

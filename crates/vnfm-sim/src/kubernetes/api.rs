//! The API server's paths and verbs: create, read, change, delete, list, and their errors.
//!
//! Errors are the real server's `Status` bodies with its words; what it defaults and refuses on
//! create is done in [`admit`].

use std::sync::{Arc, MutexGuard};

use http::Method;
use serde_json::{Map, Value, json};

use super::Cluster;
use super::apply::{Conflict, Owners, merge, merge_patch};
use super::auth::Deed;
use super::objects::{Key, Kind, Store, has_finalizers};
use super::watch::{Selector, watch};
use super::{admit, discovery};
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
        let (plural, name, part) =
            (rest.next()?, rest.next().unwrap_or_default(), rest.next().unwrap_or_default());
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
            403 => ("Forbidden", "forbidden by the script of the simulated world"),
            429 => (
                "TooManyRequests",
                "the server has received too many requests and has asked us to try again later",
            ),
            503 => ("ServiceUnavailable", "the server is currently unable to handle the request"),
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
        let mut subject =
            format!("{} {}/{}/{}", self.0.name(), target.plural, target.namespace, target.name);
        if target.name.is_empty() {
            subject.push_str(request.json()["metadata"]["name"].as_str().unwrap_or_default());
        }
        Some(Route::new(format!("kubernetes.{verb}"), subject, move || {
            self.serve(request, &target, verb)
        }))
    }
}

/// What a request wants, in RBAC's words; `apply` is a patch of its own kind for the books.
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
        _ => "create",
    }
}

impl Api {
    fn who(&self, request: &Request, deed: Option<&Deed<'_>>) -> Result<(), Reply> {
        let store = self.0.store();
        let who = self.0.tokens().who(&store, request.header("authorization"));
        let who = who.map_err(|()| error(401, "Unauthorized", "Unauthorized"))?;
        let Some(deed) = deed.filter(|deed| !who.may(&store, deed)) else { return Ok(()) };
        let name = if deed.name.is_empty() { String::new() } else { format!(" \"{}\"", deed.name) };
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
        let asked = if verb == "apply" { "patch" } else { verb };
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
            ("watch", _) => {
                Ok(watch(&self.0, &self.0.store(), (&kind, &target.namespace), request))
            }
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
            ("delete", "") | ("create", "eviction") => self.delete(request, &kind, &key),
            ("deletecollection", "") => Ok(self.delete_all(request, &kind, &target.namespace)),
            _ => {
                let what =
                    format!("kubernetes: `{} {}` is not modelled", request.method, request.path);
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
        let skip: usize = request.param("continue").and_then(|c| c.parse().ok()).unwrap_or(0);
        let fitting: Vec<&Arc<Value>> = store
            .list(&kind.qualified(), namespace)
            .map(|(_, body)| body)
            .filter(|body| selector.fits(body))
            .collect();
        let bare = |body: &&Arc<Value>| {
            let mut body = (***body).clone();
            // As the real server does for its own kinds: the list says what its items are.
            body.as_object_mut().map(|map| (map.remove("apiVersion"), map.remove("kind")));
            body
        };
        let items: Vec<Value> = fitting.iter().skip(skip).take(limit).map(bare).collect();
        let mut meta = json!({ "resourceVersion": store.version.to_string() });
        let left = fitting.len().saturating_sub(skip.saturating_add(items.len()));
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
        let old = store.stored(key).cloned().ok_or_else(|| missing(kind, &key.name))?;
        let asked = body["metadata"]["resourceVersion"].as_str().unwrap_or_default();
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
        let old = store.stored(key).cloned().ok_or_else(|| missing(kind, &key.name))?;
        let mut body = (*old.body).clone();
        match request.header("content-type") {
            kind if kind.starts_with("application/merge-patch+json") => {
                merge_patch(&mut body, &change)
            }
            kind if kind.starts_with("application/strategic-merge-patch+json") => {
                merge(&mut body, &change, "", true)
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
        let body = store.get(key).cloned().ok_or_else(|| missing(kind, &key.name))?;
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
        let issued = self.0.tokens().issue(&store, &key.namespace, &key.name, seconds);
        let (token, expires) = issued.ok_or_else(|| {
            error(404, "NotFound", &format!("serviceaccounts \"{}\" not found", key.name))
        })?;
        let expires =
            jiff::Timestamp::from_second(expires.as_second()).unwrap_or(expires).to_string();
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
            pod["spec"]["containers"][0]["name"].as_str().unwrap_or_default()
        );
        Ok(Reply { body: text.into(), ..Reply::empty(200) }.with("content-type", "text/plain"))
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

// --- what the routes and the simulated kubectl share ---

/// The kind, namespace and name at an API path.
pub(crate) fn locate(store: &Store, path: &str) -> Option<(String, String, String)> {
    let segments: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let target = Target::of(&segments)?;
    let kind = store.kind(&target.group, &target.version, &target.plural)?;
    Some((kind.qualified(), target.namespace, target.name))
}

/// Creates an object.
pub(crate) fn create(
    store: &mut MutexGuard<'_, Store>,
    kind: &Arc<Kind>,
    (namespace, manager): (&str, &str),
    mut body: Value,
) -> Result<Arc<Value>, Reply> {
    let name = match body["metadata"]["name"].as_str() {
        Some(name) => name.to_owned(),
        None => match body["metadata"]["generateName"].as_str() {
            Some(prefix) => format!("{prefix}{}", &uuid::Uuid::new_v4().simple().to_string()[..5]),
            None => {
                return Err(admit::invalid(
                    kind,
                    "",
                    "metadata.name",
                    "Required value: name or generateName is required",
                ));
            }
        },
    };
    let stated = body["metadata"]["namespace"].as_str().unwrap_or(namespace).to_owned();
    if kind.namespaced && stated != namespace {
        let message = format!(
            "the namespace of the provided object does not match the namespace sent on the request: {stated} != {namespace}"
        );
        return Err(error(400, "BadRequest", &message));
    }
    let key = Key::new(&kind.qualified(), if kind.namespaced { namespace } else { "" }, &name);
    if store.get(&key).is_some() {
        let message = format!("{} \"{name}\" already exists", kind.qualified());
        return Err(Reply::json(
            409,
            &status(
                409,
                "AlreadyExists",
                &message,
                json!({ "name": name, "group": kind.group, "kind": kind.plural }),
            ),
        )
        .remark(message));
    }
    admit::admit(store, kind, &key, &mut body)?;
    let owners = Owners::default().wrote(manager, &Value::Null, &body);
    let stored = store.put(&key, body, owners);
    if kind.plural == "customresourcedefinitions" {
        store.learn_kind(&stored);
    }
    Ok(stored)
}

/// Applies an object; whether it is new, and what it is now.
pub(crate) fn apply(
    store: &mut MutexGuard<'_, Store>,
    kind: &Arc<Kind>,
    (namespace, name): (&str, &str),
    (manager, force, applied): (&str, bool, &Value),
) -> Result<(bool, Arc<Value>), Reply> {
    let key = Key::new(&kind.qualified(), namespace, name);
    let old = store.stored(&key).cloned();
    let mut start = json!({ "apiVersion": kind.api_version(), "kind": kind.kind, "metadata": { "name": name } });
    let (live, owners) = match &old {
        Some(old) => ((*old.body).clone(), old.owners.clone()),
        None => (std::mem::take(&mut start), Owners::default()),
    };
    let (mut body, owners) = owners
        .apply(manager, &live, applied, force)
        .map_err(|conflicts| apply_conflict(kind, &conflicts))?;
    if old.is_none() {
        admit::admit(store, kind, &key, &mut body)?;
    } else {
        admit::default(store, kind, &mut body);
        admit::check(kind, name, &body)?;
        if old.as_ref().is_some_and(|old| *old.body == body && old.owners == owners) {
            return Ok((false, old.map(|old| old.body).unwrap_or_default()));
        }
    }
    let stored = write(store, &key, body, owners);
    if kind.plural == "customresourcedefinitions" {
        store.learn_kind(&stored);
    }
    Ok((old.is_none(), stored))
}

/// Writes an object; one that was only waiting for its finalizers goes when they are gone.
fn write(store: &mut Store, key: &Key, mut body: Value, owners: Owners) -> Arc<Value> {
    let old = store.get(key).cloned();
    let stamp =
        old.as_ref().map(|old| old["metadata"]["deletionTimestamp"].clone()).unwrap_or_default();
    if !stamp.is_null() {
        body["metadata"]["deletionTimestamp"] = stamp.clone();
    }
    let spec_changed = old.as_ref().is_none_or(|old| old["spec"] != body["spec"]);
    let generation =
        old.as_ref().and_then(|old| old["metadata"]["generation"].as_i64()).unwrap_or(0);
    if !body["spec"].is_null() {
        body["metadata"]["generation"] =
            json!(if spec_changed { generation + 1 } else { generation });
    }
    if !stamp.is_null()
        && !has_finalizers(&body)
        && !matches!(key.kind.as_str(), "pods" | "namespaces")
    {
        store.put(key, body, owners);
        return store.remove(key).unwrap_or_default();
    }
    store.put(key, body, owners)
}

fn remove(store: &mut Store, key: &Key, request: &Request, options: &Value) -> Option<Arc<Value>> {
    let text = |name: &str| {
        options[name]
            .as_str()
            .map(str::to_owned)
            .or_else(|| request.param(name).map(str::to_owned))
            .unwrap_or_default()
    };
    let policy = text("propagationPolicy");
    let grace = options["gracePeriodSeconds"]
        .as_i64()
        .or_else(|| request.param("gracePeriodSeconds").and_then(|g| g.parse().ok()));
    if policy == "Orphan" {
        let uid = store.get(key).map(|body| body["metadata"]["uid"].clone()).unwrap_or_default();
        let children: Vec<Key> = (store.all())
            .filter(|(_, body)| {
                body["metadata"]["ownerReferences"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .any(|owner| owner["uid"] == uid)
            })
            .map(|(key, _)| key.clone())
            .collect();
        for child in children {
            store.update(&child, |body| {
                if let Some(owners) = body["metadata"]["ownerReferences"].as_array_mut() {
                    owners.retain(|owner| owner["uid"] != uid);
                }
            });
        }
    }
    store.delete(key, policy == "Foreground", grace == Some(0))
}

fn parse(request: &Request) -> Result<Value, Reply> {
    let wrong = |why: String| {
        error(
            400,
            "BadRequest",
            &format!("the object provided is unrecognized (must be of type Object): {why}"),
        )
    };
    if request.header("content-type").contains("yaml") {
        return serde_yaml::from_slice(&request.body).map_err(|why| wrong(why.to_string()));
    }
    serde_json::from_slice(&request.body).map_err(|why| wrong(why.to_string()))
}

fn manager(request: &Request) -> String {
    let agent = || request.header("user-agent").split('/').next().unwrap_or_default().to_owned();
    request.param("fieldManager").map_or_else(agent, str::to_owned)
}

/// `add`, `replace`, `remove` and `test` of RFC 6902.
fn json_patch(body: &mut Value, operations: &Value) -> Result<(), String> {
    for operation in operations.as_array().into_iter().flatten() {
        let path = operation["path"].as_str().unwrap_or_default();
        let (parent, last) =
            path.rsplit_once('/').ok_or_else(|| format!("the path `{path}` is not a pointer"))?;
        let last = last.replace("~1", "/").replace("~0", "~");
        let missing = || format!("the path `{path}` leads nowhere");
        let value = operation["value"].clone();
        if operation["op"] == "test" {
            if body.pointer(path) != Some(&value) {
                return Err(format!("testing value {path} failed"));
            }
            continue;
        }
        let at = body.pointer_mut(parent).ok_or_else(missing)?;
        match (operation["op"].as_str(), at) {
            (Some("add" | "replace"), Value::Object(map)) => _ = map.insert(last, value),
            (Some("remove"), Value::Object(map)) => _ = map.remove(&last).ok_or_else(missing)?,
            (Some("add"), Value::Array(list)) if last == "-" => list.push(value),
            (Some("add"), Value::Array(list)) => {
                list.insert(index(&last, list.len() + 1).ok_or_else(missing)?, value)
            }
            (Some("replace"), Value::Array(list)) => {
                let n = index(&last, list.len()).ok_or_else(missing)?;
                list[n] = value;
            }
            (Some("remove"), Value::Array(list)) => {
                _ = list.remove(index(&last, list.len()).ok_or_else(missing)?)
            }
            (operation, _) => {
                return Err(format!(
                    "the operation `{}` cannot be done at `{path}`",
                    operation.unwrap_or_default()
                ));
            }
        }
    }
    Ok(())
}

fn index(text: &str, length: usize) -> Option<usize> {
    text.parse().ok().filter(|n| *n < length)
}

/// A `Status` that says what went wrong.
pub(crate) fn status(code: u16, reason: &str, message: &str, details: Value) -> Value {
    let mut body = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code });
    if let (Some(map), false) = (body.as_object_mut(), details.is_null()) {
        map.insert("details".into(), details);
    }
    body
}

/// A reply that says what went wrong.
pub(crate) fn error(code: u16, reason: &str, message: &str) -> Reply {
    Reply::json(code, &status(code, reason, message, Value::Null)).remark(message)
}

fn no_page() -> Reply {
    error(404, "NotFound", "the server could not find the requested resource")
}

fn missing(kind: &Kind, name: &str) -> Reply {
    let message = format!("{} \"{name}\" not found", kind.qualified());
    Reply::json(
        404,
        &status(
            404,
            "NotFound",
            &message,
            json!({ "name": name, "group": kind.group, "kind": kind.plural }),
        ),
    )
    .remark(message)
}

fn conflict(kind: &Kind, name: &str, why: &str) -> Reply {
    let message =
        format!("Operation cannot be fulfilled on {} \"{name}\": {why}", kind.qualified());
    Reply::json(
        409,
        &status(
            409,
            "Conflict",
            &message,
            json!({ "name": name, "group": kind.group, "kind": kind.plural }),
        ),
    )
    .remark(message)
}

fn apply_conflict(kind: &Kind, conflicts: &[Conflict]) -> Reply {
    let said =
        |c: &Conflict| format!("conflict with \"{}\" using {}", c.manager, kind.api_version());
    let causes: Vec<Value> = conflicts
        .iter()
        .map(|c| json!({ "reason": "FieldManagerConflict", "message": said(c), "field": c.field }))
        .collect();
    let lines: Map<String, Value> =
        conflicts.iter().map(|c| (format!("{}: {}", said(c), c.field), Value::Null)).collect();
    let lines: Vec<&String> = lines.keys().collect();
    let plural = if conflicts.len() == 1 { "conflict" } else { "conflicts" };
    let text = lines.iter().map(|line| line.as_str()).collect::<Vec<_>>().join("\n");
    let message = format!("Apply failed with {} {plural}: {text}", conflicts.len());
    Reply::json(409, &status(409, "Conflict", &message, json!({ "causes": causes })))
        .remark(message)
}

//! Implements the API's verbs on kinds and objects.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::api::{Answer, Api};
use super::apply::{merge, merge_patch};
use super::disruption;
use super::objects::{Key, Kind};
use super::watch::Selector;
use super::writes::{
    apply, conflict, create, dry_apply, error, json_patch, manager, not_found, parse, remove, write,
};
use crate::http::{Reply, Request};

impl Api {
    pub(super) fn list(&self, request: &Request, kind: &Kind, namespace: &str) -> Reply {
        let store = self.0.store();
        let selector = Selector::from_request(request);
        let limit = request
            .param("limit")
            .and_then(|l| l.parse().ok())
            .filter(|l| *l > 0)
            .unwrap_or(usize::MAX);
        let skip: usize = request
            .param("continue")
            .and_then(|c| c.parse().ok())
            .unwrap_or(0);
        let matching: Vec<&Arc<Value>> = store
            .list(&kind.qualified(), namespace)
            .map(|(_, body)| body)
            .filter(|body| selector.matches(body))
            .collect();
        let bare = |body: &&Arc<Value>| {
            let mut body = (***body).clone();
            // The real server omits these from the items of built-in kinds.
            body.as_object_mut()
                .map(|map| (map.remove("apiVersion"), map.remove("kind")));
            body
        };
        let items: Vec<Value> = matching.iter().skip(skip).take(limit).map(bare).collect();
        let mut meta = json!({ "resourceVersion": store.version.to_string() });
        let remaining = matching
            .len()
            .saturating_sub(skip.saturating_add(items.len()));
        if remaining > 0 {
            meta["continue"] = json!((skip + items.len()).to_string());
            meta["remainingItemCount"] = json!(remaining);
        }
        Reply::json(
            200,
            &json!({ "kind": format!("{}List", kind.kind), "apiVersion": kind.api_version(), "metadata": meta, "items": items }),
        )
    }

    pub(super) fn create(&self, request: &Request, kind: &Arc<Kind>, namespace: &str) -> Answer {
        let body = parse(request)?;
        let manager = manager(request);
        let mut store = self.0.store();
        let stored = create(&mut store, kind, (namespace, &manager), body)?;
        Ok(Reply::json(201, &stored))
    }

    pub(super) fn update(&self, request: &Request, kind: &Kind, key: &Key) -> Answer {
        let body = parse(request)?;
        let mut store = self.0.store();
        let old = store
            .stored(key)
            .cloned()
            .ok_or_else(|| not_found(kind, &key.name))?;
        let version = body["metadata"]["resourceVersion"]
            .as_str()
            .unwrap_or_default();
        if !version.is_empty() && old.body["metadata"]["resourceVersion"] != version {
            return Err(conflict(
                kind,
                &key.name,
                "the object has been modified; please apply your changes to the latest version and try again",
            ));
        }
        let owners = old.owners.after_write(&manager(request), &old.body, &body);
        Ok(Reply::json(200, &write(&mut store, key, body, owners)))
    }

    pub(super) fn patch(&self, request: &Request, kind: &Kind, key: &Key, _status: bool) -> Answer {
        let change = parse(request)?;
        let mut store = self.0.store();
        let old = store
            .stored(key)
            .cloned()
            .ok_or_else(|| not_found(kind, &key.name))?;
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
        let version = change["metadata"]["resourceVersion"].as_str();
        if version.is_some_and(|version| old.body["metadata"]["resourceVersion"] != version) {
            return Err(conflict(
                kind,
                &key.name,
                "the object has been modified; please apply your changes to the latest version and try again",
            ));
        }
        let owners = old.owners.after_write(&manager(request), &old.body, &body);
        Ok(Reply::json(200, &write(&mut store, key, body, owners)))
    }

    pub(super) fn apply(&self, request: &Request, kind: &Arc<Kind>, key: &Key) -> Answer {
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
        if request.param("dryRun") == Some("All") {
            let (created, body) = dry_apply(
                &mut self.0.store(),
                kind,
                (&key.namespace, &key.name),
                (manager, force, &applied),
            )?;
            return Ok(Reply::json(if created { 201 } else { 200 }, &body));
        }
        let (created, body) = apply(
            &mut self.0.store(),
            kind,
            (&key.namespace, &key.name),
            (manager, force, &applied),
        )?;
        Ok(Reply::json(if created { 201 } else { 200 }, &body))
    }

    pub(super) fn delete(&self, request: &Request, kind: &Kind, key: &Key) -> Answer {
        let options = delete_options(request)?;
        let mut store = self.0.store();
        let body = store
            .get(key)
            .cloned()
            .ok_or_else(|| not_found(kind, &key.name))?;
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

    pub(super) fn evict(&self, request: &Request, kind: &Kind, key: &Key) -> Answer {
        let eviction = parse(request)?;
        disruption::evict(&mut self.0.store(), kind, key, &eviction)?;
        let body =
            json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success" });
        Ok(Reply::json(201, &body))
    }

    pub(super) fn delete_all(&self, request: &Request, kind: &Kind, namespace: &str) -> Answer {
        let options = delete_options(request)?;
        let selector = Selector::from_request(request);
        let mut store = self.0.store();
        let doomed: Vec<Key> = store
            .list(&kind.qualified(), namespace)
            .filter(|(_, body)| selector.matches(body))
            .map(|(key, _)| key.clone())
            .collect();
        for key in &doomed {
            remove(&mut store, key, request, &options);
        }
        Ok(Reply::json(
            200,
            &json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": { "group": kind.group, "kind": kind.plural } }),
        ))
    }

    pub(super) fn token(&self, request: &Request, key: &Key) -> Answer {
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

    pub(super) fn log(&self, kind: &Kind, key: &Key) -> Answer {
        let store = self.0.store();
        let pod = store.get(key).ok_or_else(|| not_found(kind, &key.name))?;
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
        .with_header("content-type", "text/plain"))
    }

    pub(super) fn scale(&self, request: &Request, kind: &Kind, key: &Key) -> Answer {
        let mut store = self.0.store();
        store.get(key).ok_or_else(|| not_found(kind, &key.name))?;
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

/// `DeleteOptions`; a request without a body has none.
fn delete_options(request: &Request) -> Result<Value, Reply> {
    if request.body.is_empty() {
        return Ok(Value::Null);
    }
    parse(request)
}

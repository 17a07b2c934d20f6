//! What extends the API: definitions are established at once, API services are available while a pod of their Service is ready.

use serde_json::{Value, json};

use super::facts::{condition, is_ready, keys};
use super::objects::{Key, Store};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const API_SERVICES: &str = "apiservices.apiregistration.k8s.io";

/// Writes the conditions of all of them that differ.
pub(super) fn reconcile(store: &mut Store) {
    for key in keys(store, DEFINITIONS) {
        set(store, &key, ("Established", true));
    }
    for key in keys(store, API_SERVICES) {
        let Some(body) = store.get(&key) else {
            continue;
        };
        let available = is_served(store, &body["spec"]["service"]);
        set(store, &key, ("Available", available));
    }
}

/// Whether a pod that a Service selects is ready; the API server itself needs none.
fn is_served(store: &Store, service: &Value) -> bool {
    let text = |name: &str| service[name].as_str().unwrap_or_default();
    let (namespace, name) = (text("namespace"), text("name"));
    if service.is_null() {
        return true;
    }
    let Some(service) = store.get(&Key::new("services", namespace, name)) else {
        return false;
    };
    let Some(selector) = service["spec"]["selector"].as_object() else {
        return false;
    };
    store.list("pods", namespace).any(|(_, pod)| {
        let labels = &pod["metadata"]["labels"];
        is_ready(pod) && selector.iter().all(|(key, value)| labels[key] == *value)
    })
}

fn set(store: &mut Store, key: &Key, (kind, holds): (&str, bool)) {
    let wanted = if holds { "True" } else { "False" };
    let is_set = store.get(key).is_some_and(|body| {
        let conditions = body["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|one| one["type"] == kind && one["status"] == wanted)
    });
    if !is_set {
        store.update(key, |body| {
            body["status"] = json!({ "conditions": [condition(kind, holds, "Simulated")] });
        });
    }
}

//! What all controllers read from an object, and the conditions and events that they write.

use serde_json::{Value, json};
use uuid::Uuid;

use super::apply::Owners;
use super::objects::{Key, Store};
use crate::time::now;

/// The keys of all objects of a kind.
pub(super) fn keys(store: &Store, kind: &str) -> Vec<Key> {
    store.list(kind, "").map(|(key, _)| key.clone()).collect()
}

/// The reference to the controller that owns an object.
pub(super) fn owner(body: &Value) -> Option<&Value> {
    body["metadata"]["ownerReferences"]
        .as_array()?
        .iter()
        .find(|owner| owner["controller"] == true)
}

/// A status condition that changes now.
pub(super) fn condition(kind: &str, holds: bool, reason: &str) -> Value {
    json!({ "type": kind, "status": if holds { "True" } else { "False" }, "reason": reason, "lastTransitionTime": now(), "lastProbeTime": null })
}

/// Writes a warning of the kubelet about an object.
pub(super) fn event(store: &mut Store, key: &Key, about: &Value, (reason, message): (&str, &str)) {
    let name = format!(
        "{}.{}",
        key.name,
        &Uuid::new_v4().simple().to_string()[..16]
    );
    let event_key = Key::new("events", &key.namespace, &name);
    let body = json!({ "apiVersion": "v1", "kind": "Event", "metadata": {}, "type": "Warning", "reason": reason, "message": message, "count": 1,
        "firstTimestamp": now(), "lastTimestamp": now(), "source": { "component": "kubelet" },
        "involvedObject": { "kind": about["kind"], "apiVersion": about["apiVersion"], "name": key.name, "namespace": key.namespace, "uid": about["metadata"]["uid"] } });
    store.put(&event_key, body, Owners::default());
}

/// Whether an object is being deleted.
pub(super) fn is_terminating(body: &Value) -> bool {
    !body["metadata"]["deletionTimestamp"].is_null()
}

/// Whether the condition `Ready` of a pod or node holds.
pub(super) fn is_ready(body: &Value) -> bool {
    body["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Whether a pod's tolerations match a taint.
pub(super) fn tolerates(spec: &Value, taint: &Value) -> bool {
    spec["tolerations"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|toleration| {
            let key = toleration["key"].is_null() && toleration["operator"] == "Exists"
                || toleration["key"] == taint["key"];
            key && (toleration["effect"].is_null() || toleration["effect"] == taint["effect"])
        })
}

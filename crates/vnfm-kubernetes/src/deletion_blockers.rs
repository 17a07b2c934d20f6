//! What keeps an object that is being deleted.

use crate::status::{condition_is, text};
use serde_json::Value;

/// What blocks the deletion of an object, as `: reason; reason`; empty if nothing is known.
pub(crate) fn blockers(object: &Value) -> String {
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let held = conditions.filter(|condition| {
        text(condition, "/type").starts_with("Namespace") && text(condition, "/status") == "True"
    });
    let mut reasons: Vec<String> = held
        .map(|condition| text(condition, "/message").to_owned())
        .collect();
    let finalizers = finalizers(object);
    if !finalizers.is_empty() {
        reasons.insert(0, format!("finalizer {} holds it", finalizers.join(", ")));
    }
    if reasons.is_empty() {
        String::new()
    } else {
        format!(": {}", reasons.join("; "))
    }
}

/// Finalizers other than the API server's own.
pub(crate) fn finalizers(object: &Value) -> Vec<String> {
    let all = object
        .pointer("/metadata/finalizers")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let named = all
        .filter_map(Value::as_str)
        .filter(|name| !matches!(*name, "foregroundDeletion" | "orphan"));
    named.map(|name| format!("`{name}`")).collect()
}

/// Whether finalizers of its objects keep a namespace.
pub(crate) fn namespace_is_held(object: &Value) -> bool {
    condition_is(object, "NamespaceFinalizersRemaining", "True")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_blocks_a_deletion_is_named() {
        let held_by = |metadata: Value, status: Value| {
            blockers(&json!({"metadata": metadata, "status": status}))
        };
        assert_eq!(held_by(json!({}), json!({})), "");
        assert_eq!(
            held_by(json!({"finalizers": ["foregroundDeletion"]}), json!({})),
            ""
        );
        assert_eq!(
            held_by(json!({"finalizers": ["example.com/a"]}), json!({})),
            ": finalizer `example.com/a` holds it"
        );
        let conditions = json!({"conditions": [
            {"type": "NamespaceFinalizersRemaining", "status": "True", "message": "Some content remains: example.com/a in 1 resource instances"},
            {"type": "NamespaceDeletionContentFailure", "status": "False", "message": "fine"}]});
        assert_eq!(
            held_by(json!({}), conditions),
            ": Some content remains: example.com/a in 1 resource instances"
        );
    }
}

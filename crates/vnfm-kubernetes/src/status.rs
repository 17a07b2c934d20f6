//! What the API server returns of an object: texts, numbers and conditions, and the readiness that follows from them.

use serde_json::Value;

/// The readiness of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Readiness {
    Ready,
    /// It may become ready; why it is not.
    NotYet(String),
    /// It will not become ready; why.
    Failed(String),
}

use Readiness::{NotYet, Ready};

/// Ready if the condition `name` is true.
pub(crate) fn condition_readiness(object: &Value, name: &str) -> Readiness {
    match condition(object, name) {
        Some(condition) if condition.is("True") => Ready,
        Some(condition) => {
            let (reason, message) = condition.reason_and_message();
            NotYet(join(&reason, &message))
        }
        None => NotYet(format!("condition `{name}` is not set yet")),
    }
}

/// `NotYet` while the controller has not observed the current generation.
pub(crate) fn not_observed(object: &Value) -> Option<Readiness> {
    let behind =
        count(object, "/status/observedGeneration") < count(object, "/metadata/generation");
    behind.then(|| NotYet("its controller has not observed it yet".to_owned()))
}

/// Appends why replicas cannot be created, such as an exceeded quota.
pub(crate) fn with_replica_failure(object: &Value, text: String) -> String {
    match condition(object, "ReplicaFailure").filter(|c| c.is("True")) {
        Some(failure) => {
            let (reason, message) = failure.reason_and_message();
            format!("{text}: {}", join(&reason, &message))
        }
        None => text,
    }
}

/// For workloads whose `spec.replicas` was reduced.
pub(crate) fn too_many(total: u64, desired: u64) -> Readiness {
    NotYet(format!("{total} replicas exist, {desired} are desired"))
}

#[derive(Clone, Copy)]
pub(crate) struct Condition<'a>(pub(crate) &'a Value);

impl Condition<'_> {
    pub(crate) fn is(self, status: &str) -> bool {
        text(self.0, "/status") == status
    }

    pub(crate) fn reason_and_message(self) -> (String, String) {
        (
            text(self.0, "/reason").to_owned(),
            text(self.0, "/message").to_owned(),
        )
    }
}

pub(crate) fn condition<'a>(object: &'a Value, name: &str) -> Option<Condition<'a>> {
    let all = object.pointer("/status/conditions")?.as_array()?;
    all.iter()
        .find(|condition| text(condition, "/type") == name)
        .map(Condition)
}

/// Reason and message of the condition `name`, if it is not true.
pub(crate) fn condition_message(object: &Value, name: &str) -> Option<String> {
    let condition = condition(object, name).filter(|condition| !condition.is("True"))?;
    let (reason, message) = condition.reason_and_message();
    Some(join(&reason, &message))
}

/// Whether the condition `name` exists and has this status.
pub(crate) fn condition_is(object: &Value, name: &str, status: &str) -> bool {
    condition(object, name).is_some_and(|condition| condition.is(status))
}

pub(crate) fn join(reason: &str, message: &str) -> String {
    match (reason, message) {
        ("", "") => "no reason given".to_owned(),
        (one, "") | ("", one) => one.to_owned(),
        (reason, message) => format!("{reason}: {message}"),
    }
}

pub(crate) fn desired_replicas(object: &Value) -> u64 {
    object
        .pointer("/spec/replicas")
        .and_then(Value::as_u64)
        .unwrap_or(1)
}

pub(crate) fn count(object: &Value, pointer: &str) -> u64 {
    object.pointer(pointer).and_then(Value::as_u64).unwrap_or(0)
}

pub(crate) fn is_empty(object: &Value, pointer: &str) -> bool {
    object
        .pointer(pointer)
        .and_then(Value::as_array)
        .is_none_or(Vec::is_empty)
}

/// The string at a JSON pointer; empty if there is none.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object
        .pointer(pointer)
        .and_then(Value::as_str)
        .unwrap_or_default()
}

//! The parts of a request that creates or changes a stack: its name, tags and environment.

use serde_json::{Map, Value};

use super::heat::error;
use super::template::{Environment, document};
use crate::http::Reply;

pub(super) fn is_stack_name(name: &str) -> bool {
    let letter = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic());
    letter
        && name.len() <= 255
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
}

pub(super) fn tags(body: &Value) -> Vec<String> {
    let listed = match body.get("tags") {
        Some(Value::Array(list)) => list
            .iter()
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
        Some(Value::String(text)) => text.split(',').map(str::to_owned).collect(),
        _ => Vec::new(),
    };
    listed.into_iter().filter(|tag| !tag.is_empty()).collect()
}

/// The files, registry and parameters of a request.
pub(super) fn environment(body: &Value) -> Result<(Environment, Map<String, Value>), Reply> {
    let wrong = |why: String| {
        error(
            400,
            "StackValidationFailed",
            &format!("Environment not valid: {why}"),
        )
    };
    let environment = document(body.get("environment").unwrap_or(&Value::Null)).map_err(wrong)?;
    let map = |value: &Value| value.as_object().cloned().unwrap_or_default();
    let around = Environment {
        files: map(&body["files"]),
        registry: map(&environment["resource_registry"]),
    };
    let template = document(&body["template"]).unwrap_or_default();
    let mut parameters = map(&environment["parameter_defaults"]);
    parameters.retain(|name, _| !template["parameters"][name].is_null());
    parameters.extend(map(&environment["parameters"]));
    parameters.extend(map(&body["parameters"]));
    Ok((around, parameters))
}

pub(super) fn merged(old: &Map<String, Value>, new: Map<String, Value>) -> Map<String, Value> {
    old.clone().into_iter().chain(new).collect()
}

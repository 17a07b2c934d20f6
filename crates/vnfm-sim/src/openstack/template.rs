//! HOT: parses templates, fills in parameters, orders resources.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

/// An error with Heat's type and message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TemplateError {
    pub(crate) kind: &'static str,
    pub(crate) message: String,
}

/// An error of the kind `StackValidationFailed`.
pub(crate) fn invalid(message: impl Into<String>) -> TemplateError {
    TemplateError {
        kind: "StackValidationFailed",
        message: message.into(),
    }
}

/// The definition of one resource.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    pub(crate) kind: String,
    pub(crate) properties: Map<String, Value>,
    pub(crate) requires: BTreeSet<String>,
    pub(crate) condition: Option<Value>,
}

/// A template that was parsed.
#[derive(Debug, Clone)]
pub(crate) struct Template {
    pub(crate) parameters: Map<String, Value>,
    pub(crate) conditions: Map<String, Value>,
    pub(crate) outputs: Map<String, Value>,
    pub(crate) resources: BTreeMap<String, Definition>,
}

/// The files and resource registry of a stack.
#[derive(Debug, Clone, Default)]
pub(crate) struct Environment {
    pub(crate) files: Map<String, Value>,
    pub(crate) registry: Map<String, Value>,
}

impl Environment {
    /// The file and template that implement a resource type, if any.
    pub(crate) fn template_of(&self, kind: &str) -> Option<(String, Value)> {
        let name = self
            .registry
            .get(kind)
            .and_then(Value::as_str)
            .unwrap_or(kind);
        self.files
            .get(name)
            .map(|text| (name.to_owned(), text.clone()))
    }
}

/// Parses a string as YAML; returns any other value unchanged.
pub(crate) fn document(value: &Value) -> Result<Value, String> {
    match value {
        Value::String(text) => serde_yaml::from_str(text).map_err(|error| error.to_string()),
        other => Ok(other.clone()),
    }
}

impl Template {
    /// Parses a template that a client sent.
    pub(crate) fn parse(source: &Value) -> Result<Self, TemplateError> {
        let body =
            document(source).map_err(|error| invalid(format!("Template format error: {error}")))?;
        let Some(body) = body.as_object() else {
            return Err(invalid(
                "Template format error: The template is not a JSON object or YAML mapping.",
            ));
        };
        if !body.contains_key("heat_template_version") {
            return Err(invalid(
                "Template format error: Template version was not provided",
            ));
        }
        let section = |name: &str| {
            body.get(name)
                .and_then(Value::as_object)
                .cloned()
                .unwrap_or_default()
        };
        let mut resources = BTreeMap::new();
        for (name, definition) in section("resources") {
            resources.insert(name.clone(), Definition::parse(&name, &definition)?);
        }
        let (parameters, conditions, outputs) = (
            section("parameters"),
            section("conditions"),
            section("outputs"),
        );
        Ok(Self {
            parameters,
            conditions,
            outputs,
            resources,
        })
    }

    /// The parameters' values: those given, else the defaults. As Heat, passes null through if there is no default.
    pub(crate) fn fill(
        &self,
        given: &Map<String, Value>,
    ) -> Result<Map<String, Value>, TemplateError> {
        if let Some(unknown) = given
            .keys()
            .find(|name| !self.parameters.contains_key(*name))
        {
            let message = format!("The Parameter ({unknown}) was not defined in template.");
            return Err(TemplateError {
                kind: "UnknownUserParameter",
                message,
            });
        }
        let mut values = Map::new();
        for (name, schema) in &self.parameters {
            let Some(value) = given
                .get(name)
                .filter(|v| !v.is_null())
                .or_else(|| schema.get("default"))
                .or_else(|| given.get(name))
            else {
                let message = format!("The Parameter ({name}) was not provided.");
                return Err(TemplateError {
                    kind: "UserParameterMissing",
                    message,
                });
            };
            values.insert(name.clone(), typed(name, schema, value)?);
        }
        Ok(values)
    }

    /// The resources whose condition holds, in levels that depend only on earlier ones.
    pub(crate) fn levels(&self) -> Result<Vec<Vec<String>>, TemplateError> {
        let mut left: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
        for (name, definition) in &self.resources {
            left.insert(
                name,
                definition
                    .requires
                    .iter()
                    .filter(|r| self.resources.contains_key(*r))
                    .collect(),
            );
        }
        let mut levels = Vec::new();
        while !left.is_empty() {
            let free: Vec<String> = left
                .iter()
                .filter(|(_, needs)| needs.is_empty())
                .map(|(n, _)| (*n).clone())
                .collect();
            if free.is_empty() {
                let names: Vec<_> = left.keys().map(|name| format!("'{name}'")).collect();
                let message = format!("Circular Dependency Found: [{}]", names.join(", "));
                return Err(TemplateError {
                    kind: "CircularDependencyException",
                    message,
                });
            }
            left.retain(|name, _| !free.contains(name));
            for needs in left.values_mut() {
                needs.retain(|need| !free.contains(need));
            }
            levels.push(free);
        }
        Ok(levels)
    }
}

/// Members of a resource that are kept with its properties, under names that no property has.
pub(super) const EXTERNAL_ID: &str = ":external_id";
pub(super) const DELETION_POLICY: &str = ":deletion_policy";

impl Definition {
    pub(super) fn parse(name: &str, body: &Value) -> Result<Self, TemplateError> {
        let Some(kind) = body.get("type").and_then(Value::as_str) else {
            return Err(invalid(format!(
                "Resource {name} has no type; \"resources.{name}.type\" is required"
            )));
        };
        let mut properties = body
            .get("properties")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        for member in [EXTERNAL_ID, DELETION_POLICY] {
            if let Some(value) = body.get(&member[1..]) {
                properties.insert(member.to_owned(), value.clone());
            }
        }
        let mut requires = BTreeSet::new();
        match body.get("depends_on") {
            Some(Value::String(one)) => _ = requires.insert(one.clone()),
            Some(Value::Array(many)) => {
                requires.extend(many.iter().filter_map(Value::as_str).map(str::to_owned));
            }
            _ => {}
        }
        properties
            .values()
            .for_each(|value| references(value, &mut requires));
        let condition = body.get("condition").cloned();
        Ok(Self {
            kind: kind.to_owned(),
            properties,
            requires,
            condition,
        })
    }
}

/// Collects the resources that a value refers to.
fn references(value: &Value, into: &mut BTreeSet<String>) {
    match value {
        Value::Array(list) => list.iter().for_each(|item| references(item, into)),
        Value::Object(map) => {
            for (name, item) in map {
                match (name.as_str(), item) {
                    ("get_resource", Value::String(target)) => _ = into.insert(target.clone()),
                    ("get_attr", Value::Array(path)) => {
                        if let Some(target) = path.first().and_then(Value::as_str) {
                            into.insert(target.to_owned());
                        }
                        for part in path {
                            references(part, into);
                        }
                    }
                    _ => references(item, into),
                }
            }
        }
        _ => {}
    }
}

fn typed(name: &str, schema: &Value, value: &Value) -> Result<Value, TemplateError> {
    let kind = schema
        .get("type")
        .and_then(Value::as_str)
        .unwrap_or("string");
    let refuse = |why: String| invalid(format!("Parameter '{name}' is invalid: {why}"));
    let as_text = |v: &Value| v.as_str().map_or_else(|| v.to_string(), str::to_owned);
    let value = match (kind, value) {
        (_, Value::Null) => return Ok(Value::Null),
        ("number", Value::String(text)) => serde_json::from_str(text)
            .ok()
            .filter(Value::is_number)
            .ok_or_else(|| refuse(format!("could not convert string to float: '{text}'")))?,
        ("json", Value::String(text)) => serde_json::from_str(text)
            .map_err(|e| refuse(format!("Value must be valid JSON: {e}")))?,
        ("comma_delimited_list", Value::String(text)) => text
            .split(',')
            .filter(|part| !part.is_empty())
            .map(|part| Value::from(part.trim()))
            .collect(),
        ("boolean", Value::String(text)) => match text.to_lowercase().as_str() {
            "true" | "t" | "1" | "on" | "yes" | "y" => Value::Bool(true),
            "false" | "f" | "0" | "off" | "no" | "n" => Value::Bool(false),
            other => {
                return Err(refuse(format!(
                    "Unrecognized value '{other}', acceptable values are: '0', '1', 'false', 'true'"
                )));
            }
        },
        ("string", Value::Number(_) | Value::Bool(_)) => Value::from(as_text(value)),
        ("string", Value::Array(_) | Value::Object(_)) => {
            return Err(refuse(format!("Value must be a string: {value}")));
        }
        (_, value) => value.clone(),
    };
    for constraint in schema
        .get("constraints")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        constrain(constraint, &value).map_err(refuse)?;
    }
    Ok(value)
}

fn constrain(constraint: &Value, value: &Value) -> Result<(), String> {
    let as_text = value
        .as_str()
        .map_or_else(|| value.to_string(), str::to_owned);
    if let Some(allowed) = constraint.get("allowed_values").and_then(Value::as_array)
        && !allowed.contains(value)
    {
        let allowed: Vec<_> = allowed.iter().map(ToString::to_string).collect();
        return Err(format!(
            "\"{as_text}\" is not an allowed value [{}]",
            allowed.join(", ")
        ));
    }
    let outside = |bounds: &Value, n: f64| {
        let bound = |name: &str| bounds.get(name).and_then(Value::as_f64);
        bound("min").is_some_and(|min| n < min) || bound("max").is_some_and(|max| n > max)
    };
    if let (Some(bounds), Some(n)) = (constraint.get("range"), value.as_f64())
        && outside(bounds, n)
    {
        return Err(format!(
            "{as_text} is out of range (min: {}, max: {})",
            bounds["min"], bounds["max"]
        ));
    }
    let length = u32::try_from(as_text.chars().count()).unwrap_or(u32::MAX);
    if let Some(bounds) = constraint.get("length")
        && outside(bounds, f64::from(length))
    {
        return Err(format!(
            "length ({length}) is out of range (min: {}, max: {})",
            bounds["min"], bounds["max"]
        ));
    }
    Ok(())
}

//! The configuration file and the environment as one value in which each part knows its position, so that all mistakes
//! are reported at once, each with its position.
//!
//! ```text
//! file (YAML, positions) ─┐
//!                         ├─ one value ─ JSON Schema ─┬─ valid: the typed configuration
//! VNFM_… per member ──────┘                           └─ every mistake: position, what was expected
//! ```

use super::file::ConfigFile;
use super::schema::{self, Member};
use crate::settings_file;
use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use vnfm_descriptor::{Located, escaped, nearest};

/// One mistake in the configuration.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// `file:line:column`, an environment variable, or the file if the mistake concerns all of it.
    pub location: String,
    /// What is wrong, and what was expected.
    pub message: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.location, self.message)
    }
}

/// Environment variables: name to value.
pub(crate) type Variables = BTreeMap<String, String>;

/// The environment variables that start with `VNFM_`.
pub fn environment() -> Variables {
    let all = std::env::vars_os().filter_map(|(name, value)| {
        let name = name
            .into_string()
            .ok()
            .filter(|name| name.starts_with("VNFM_"))?;
        Some((name, value.into_string().ok()?))
    });
    all.collect()
}

/// The configuration file, merged with the environment.
#[derive(Debug, Default)]
pub(super) struct Source {
    name: String,
    located: Option<Located>,
    /// Variables that set a value, by the JSON pointer of the member.
    overrides: BTreeMap<String, String>,
    pub(super) value: Value,
    pub(super) mistakes: Vec<Mistake>,
}

impl Source {
    /// Reads the file, if there is one, and applies the environment over it.
    ///
    /// # Errors
    ///
    /// If the file cannot be read.
    pub(super) fn read(path: Option<&Path>, variables: &Variables) -> anyhow::Result<Self> {
        let text = path.map(settings_file::text);
        let name = path.map_or_else(|| "configuration".to_owned(), |p| p.display().to_string());
        Ok(Self::from_text(
            &text.transpose()?.unwrap_or_default(),
            &name,
            variables,
        ))
    }

    /// As [`Source::read`], with the text given; `name` appears in the mistakes.
    pub(super) fn from_text(text: &str, name: &str, variables: &Variables) -> Self {
        let (located, found) = Located::read(text, name);
        let mistakes = found.into_iter().map(|finding| Mistake {
            location: finding
                .span
                .map_or_else(|| name.to_owned(), |span| span.to_string()),
            message: finding.message,
        });
        let value = located
            .as_ref()
            .map(|located| located.value.clone())
            .unwrap_or_default();
        let value = if value.is_null() {
            Value::Object(Map::new())
        } else {
            value
        };
        let mut source = Self {
            name: name.to_owned(),
            located,
            overrides: BTreeMap::new(),
            value,
            mistakes: mistakes.collect(),
        };
        source.remove_nulls();
        source.apply_overrides(variables);
        source
    }

    /// The typed configuration, or `None` if [`Source::mistakes`] has entries.
    ///
    /// # Errors
    ///
    /// If the schema itself is invalid: a bug.
    pub(super) fn parse(&mut self) -> anyhow::Result<Option<ConfigFile>> {
        let schema = schema::schema();
        let validator = schema::validator()?;
        let found: Vec<_> = validator
            .iter_errors(&self.value)
            .flat_map(|error| self.schema_mistakes(&schema, &error))
            .collect();
        self.mistakes.extend(found);
        if self.mistakes.is_empty() {
            match serde_path_to_error::deserialize(&self.value) {
                Ok(file) => return Ok(Some(file)),
                Err(error) => {
                    let pointer = format!("/{}", error.path().to_string().replace('.', "/"));
                    self.add(&pointer, error.inner().to_string());
                }
            }
        }
        self.mistakes.sort();
        Ok(None)
    }

    /// The typed configuration without the members that violate the schema, and the JSON pointers of those;
    /// `None` if too little remains.
    ///
    /// # Errors
    ///
    /// If the schema itself is invalid: a bug.
    pub(super) fn parse_rest(&self) -> anyhow::Result<Option<(ConfigFile, Vec<String>)>> {
        let validator = schema::validator()?;
        let (mut value, mut removed) = (self.value.clone(), Vec::new());
        loop {
            let wrong = validator
                .iter_errors(&value)
                .next()
                .map(|error| culprit(&error));
            let Some(pointer) = wrong else { break };
            if !remove_at(&mut value, &pointer) {
                return Ok(None);
            }
            removed.push(pointer);
        }
        Ok(serde_json::from_value(value)
            .ok()
            .map(|file| (file, removed)))
    }

    /// Adds a mistake about the member at a JSON pointer.
    pub(super) fn add(&mut self, pointer: &str, message: impl Into<String>) {
        let mistake = Mistake {
            location: self.location(pointer),
            message: message.into(),
        };
        self.mistakes.push(mistake);
    }

    /// The position of the member at `pointer`, or of its nearest ancestor that has one.
    fn location(&self, pointer: &str) -> String {
        let mut pointer = pointer;
        loop {
            if let Some(variable) = self.overrides.get(pointer) {
                return variable.clone();
            }
            let span = self
                .located
                .as_ref()
                .and_then(|located| located.value_at(pointer));
            if let Some(span) = span {
                return span.to_string();
            }
            match pointer.rsplit_once('/') {
                Some((parent, _)) => pointer = parent,
                None => return self.name.clone(),
            }
        }
    }

    fn key_location(&self, pointer: &str) -> String {
        let key = self
            .located
            .as_ref()
            .and_then(|located| located.key_at(pointer));
        key.map_or_else(|| self.location(pointer), ToString::to_string)
    }

    /// A null member counts as absent, except in the plugins' own configuration.
    fn remove_nulls(&mut self) {
        fn remove(value: &mut Value, depth: usize) {
            if let Some(members) = value.as_object_mut().filter(|_| depth < 4) {
                members.retain(|_, value| !value.is_null());
                members
                    .values_mut()
                    .for_each(|value| remove(value, depth + 1));
            }
        }
        let config = self.value.pointer("/plugins/config").cloned();
        remove(&mut self.value, 0);
        if let Some(remaining) = self.value.pointer_mut("/plugins/config") {
            *remaining = config.unwrap_or_default();
        }
    }

    fn apply_overrides(&mut self, variables: &Variables) {
        for member in schema::members() {
            let Some(text) = variables
                .get(&member.variable)
                .filter(|text| !text.is_empty())
            else {
                continue;
            };
            self.overrides
                .insert(member.pointer.clone(), member.variable.clone());
            match parse_variable(&member, text) {
                Ok(value) => put(&mut self.value, &member.name, value),
                Err(message) => self.add(&member.pointer, message),
            }
        }
    }

    /// Mistakes for one schema error: one for each unknown member, otherwise a single one.
    fn schema_mistakes(&self, schema: &Value, error: &ValidationError<'_>) -> Vec<Mistake> {
        let at = error.instance_path().to_string();
        if let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() {
            let known = schema::at(schema, &at)["properties"].as_object();
            let known: Vec<_> = known
                .into_iter()
                .flatten()
                .map(|(name, _)| name.as_str())
                .collect();
            let mistake = |name: &String| Mistake {
                location: self.key_location(&format!("{at}/{}", escaped(name))),
                message: unknown_member(name, &known),
            };
            return unexpected.iter().map(mistake).collect();
        }
        vec![Mistake {
            location: self.location(&at),
            message: describe(schema, error),
        }]
    }
}

/// The JSON pointer of a member that violates the schema.
fn culprit(error: &ValidationError<'_>) -> String {
    let at = error.instance_path().to_string();
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let name = unexpected.first().map(|name| escaped(name));
            format!("{at}/{}", name.unwrap_or_default())
        }
        _ => at,
    }
}

/// Removes the member at a JSON pointer; for an entry of a list, the list, so that the other entries keep their positions.
/// Returns false if there is no such member.
fn remove_at(value: &mut Value, pointer: &str) -> bool {
    let Some((parent, name)) = pointer.rsplit_once('/') else {
        return false;
    };
    let name = name.replace("~1", "/").replace("~0", "~");
    match value.pointer_mut(parent) {
        Some(Value::Object(members)) => members.remove(&name).is_some(),
        Some(Value::Array(_)) => remove_at(value, parent),
        _ => false,
    }
}

fn unknown_member(name: &str, known: &[&str]) -> String {
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("expected {}", known.join(", ")),
    };
    format!("unknown member `{name}`; {hint}")
}

fn describe(schema: &Value, error: &ValidationError<'_>) -> String {
    let found = || error.instance().to_string();
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            format!("`{}` is missing", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::Type {
            kind: TypeKind::Single(kind),
        } => {
            format!(
                "expected {}, found {}",
                type_name(&kind.to_string()),
                found()
            )
        }
        ValidationErrorKind::Maximum { limit } => {
            format!("expected at most {limit}, found {}", found())
        }
        ValidationErrorKind::Minimum { limit } => {
            format!("expected at least {limit}, found {}", found())
        }
        ValidationErrorKind::Format { format } => {
            schema::expected(format, error.instance().as_str().unwrap_or_default())
        }
        ValidationErrorKind::OneOfNotValid { .. } => {
            let choices = &schema::at(schema, &error.instance_path().to_string())["oneOf"];
            let choices = choices.as_array().into_iter().flatten();
            let choices: Vec<_> = choices
                .filter_map(|choice| choice["const"].as_str())
                .collect();
            format!("expected one of {}, found {}", choices.join(", "), found())
        }
        _ => error.to_string(),
    }
}

fn type_name(kind: &str) -> &str {
    match kind {
        "object" => "a table",
        "array" => "a list",
        "integer" => "an integer",
        "boolean" => "true or false",
        "string" => "a string",
        other => other,
    }
}

/// The value of a variable: verbatim if the member is a string, otherwise parsed as YAML.
fn parse_variable(member: &Member, text: &str) -> Result<Value, String> {
    match (member.schema["type"].as_str(), text) {
        (Some("string"), text) => Ok(text.into()),
        (Some("boolean"), "1") => Ok(true.into()),
        (Some("boolean"), "0") => Ok(false.into()),
        _ => {
            let (located, findings) = Located::read(text, &member.variable);
            match (located, findings.first()) {
                (Some(located), None) => Ok(located.value),
                (_, finding) => {
                    Err(finding
                        .map_or_else(|| "invalid YAML".to_owned(), |one| one.message.clone()))
                }
            }
        }
    }
}

/// Removes the member with a dotted name.
pub(super) fn remove(value: &mut Value, name: &str) {
    let (parent, last) = name.rsplit_once('.').unwrap_or(("", name));
    let mut parent = parent.split('.').filter(|part| !part.is_empty());
    let at = parent.try_fold(value, |at, part| at.get_mut(part));
    if let Some(members) = at.and_then(Value::as_object_mut) {
        members.remove(last);
    }
}

/// Sets the member with a dotted name, creating its parents.
pub(super) fn put(value: &mut Value, name: &str, new: Value) {
    let mut at = value;
    for part in name.split('.') {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = &mut at[part];
    }
    *at = new;
}

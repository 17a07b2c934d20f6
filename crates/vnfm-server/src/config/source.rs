//! What the configuration file and the environment say, as one value, with the place of each part: so every mistake
//! can be said at once, and where.
//!
//! ```text
//! file (YAML, places) ─┐
//!                      ├─ one value ─ JSON Schema ─┬─ fine: the typed configuration
//! VNFM_… per member ───┘                           └─ every mistake with its place and what was expected
//! ```

use super::Written;
use super::schema::{self, Member};
use anyhow::Context as _;
use jsonschema::ValidationError;
use jsonschema::error::{TypeKind, ValidationErrorKind};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use vnfm_descriptor::{Located, escaped, nearest};

/// One mistake.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mistake {
    /// `file:line:column`, or the environment variable, or the file where it is about all of it.
    pub place: String,
    /// What is wrong, and what was expected.
    pub what: String,
}

impl fmt::Display for Mistake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// Environment variables by name.
pub type Variables = BTreeMap<String, String>;

/// The environment variables that are ours.
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

/// What file and environment say.
#[derive(Debug, Default)]
pub(super) struct Source {
    name: String,
    located: Option<Located>,
    /// Variables that said something, by JSON pointer.
    said: BTreeMap<String, String>,
    pub(super) value: Value,
    pub(super) mistakes: Vec<Mistake>,
}

impl Source {
    /// Reads the file, if there is one, and puts the environment over it.
    ///
    /// # Errors
    ///
    /// Where the file cannot be read.
    pub(super) fn read(path: Option<&Path>, variables: &Variables) -> anyhow::Result<Self> {
        let text = path.map(|path| {
            std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the configuration `{}`", path.display()))
        });
        let name = path.map_or_else(|| "configuration".to_owned(), |p| p.display().to_string());
        Ok(Self::of(
            &text.transpose()?.unwrap_or_default(),
            &name,
            variables,
        ))
    }

    /// The same of a text that `name` names.
    pub(super) fn of(text: &str, name: &str, variables: &Variables) -> Self {
        let (located, found) = Located::read(text, name);
        let mistakes = found.into_iter().map(|finding| Mistake {
            place: finding
                .span
                .map_or_else(|| name.to_owned(), |span| span.to_string()),
            what: finding.message,
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
            said: BTreeMap::new(),
            value,
            mistakes: mistakes.collect(),
        };
        source.forget_nulls();
        source.override_by(variables);
        source
    }

    /// The typed configuration; what is wrong is in [`Source::mistakes`] otherwise.
    ///
    /// # Errors
    ///
    /// Where the schema is wrong: a bug.
    pub(super) fn written(&mut self) -> anyhow::Result<Option<Written>> {
        let whole = schema::schema();
        let validator = schema::validator()?;
        let found: Vec<_> = validator
            .iter_errors(&self.value)
            .flat_map(|error| self.told(&whole, &error))
            .collect();
        self.mistakes.extend(found);
        if self.mistakes.is_empty() {
            match serde_path_to_error::deserialize(&self.value) {
                Ok(written) => return Ok(Some(written)),
                Err(error) => {
                    let pointer = format!("/{}", error.path().to_string().replace('.', "/"));
                    self.add(&pointer, error.inner().to_string());
                }
            }
        }
        self.mistakes.sort();
        Ok(None)
    }

    /// Notes a mistake in the part at a JSON pointer.
    pub(super) fn add(&mut self, pointer: &str, what: impl Into<String>) {
        let mistake = Mistake {
            place: self.place(pointer),
            what: what.into(),
        };
        self.mistakes.push(mistake);
    }

    /// Where a part stands; where it is nowhere, what it belongs to.
    fn place(&self, pointer: &str) -> String {
        let mut pointer = pointer;
        loop {
            if let Some(variable) = self.said.get(pointer) {
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
                Some((above, _)) => pointer = above,
                None => return self.name.clone(),
            }
        }
    }

    fn place_of_key(&self, pointer: &str) -> String {
        let key = self
            .located
            .as_ref()
            .and_then(|located| located.key_at(pointer));
        key.map_or_else(|| self.place(pointer), ToString::to_string)
    }

    /// A member with nothing behind it is absent; what plugins are configured with is theirs.
    fn forget_nulls(&mut self) {
        fn forget(value: &mut Value, depth: usize) {
            if let Some(members) = value.as_object_mut().filter(|_| depth < 4) {
                members.retain(|_, value| !value.is_null());
                members
                    .values_mut()
                    .for_each(|value| forget(value, depth + 1));
            }
        }
        let config = self.value.pointer("/plugins/config").cloned();
        forget(&mut self.value, 0);
        if let Some(kept) = self.value.pointer_mut("/plugins/config") {
            *kept = config.unwrap_or_default();
        }
    }

    fn override_by(&mut self, variables: &Variables) {
        for member in schema::members() {
            let Some(text) = variables
                .get(&member.variable)
                .filter(|text| !text.is_empty())
            else {
                continue;
            };
            self.said
                .insert(member.pointer.clone(), member.variable.clone());
            match meant(&member, text) {
                Ok(value) => put(&mut self.value, &member.name, value),
                Err(what) => self.add(&member.pointer, what),
            }
        }
    }

    /// A complaint of the schema in our words; several where several members are not known.
    fn told(&self, whole: &Value, error: &ValidationError<'_>) -> Vec<Mistake> {
        let at = error.instance_path().to_string();
        if let ValidationErrorKind::AdditionalProperties { unexpected } = error.kind() {
            let known = schema::at(whole, &at)["properties"].as_object();
            let known: Vec<_> = known
                .into_iter()
                .flatten()
                .map(|(name, _)| name.as_str())
                .collect();
            let mistake = |name: &String| Mistake {
                place: self.place_of_key(&format!("{at}/{}", escaped(name))),
                what: unknown(name, &known),
            };
            return unexpected.iter().map(mistake).collect();
        }
        vec![Mistake {
            place: self.place(&at),
            what: complaint(whole, error),
        }]
    }
}

fn unknown(name: &str, known: &[&str]) -> String {
    let hint = match nearest(name, known.iter().copied()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("expected {}", known.join(", ")),
    };
    format!("there is no member `{name}`; {hint}")
}

fn complaint(whole: &Value, error: &ValidationError<'_>) -> String {
    let found = || error.instance().to_string();
    match error.kind() {
        ValidationErrorKind::Required { property } => {
            format!("`{}` is missing", property.as_str().unwrap_or_default())
        }
        ValidationErrorKind::Type {
            kind: TypeKind::Single(kind),
        } => {
            format!("expected {}, found {}", words(&kind.to_string()), found())
        }
        ValidationErrorKind::Maximum { limit } => {
            format!("expected at most {limit}, found {}", found())
        }
        ValidationErrorKind::Minimum { limit } => {
            format!("expected at least {limit}, found {}", found())
        }
        ValidationErrorKind::Format { format } => {
            schema::wanted(format, error.instance().as_str().unwrap_or_default())
        }
        ValidationErrorKind::OneOfNotValid { .. } => {
            let choices = &schema::at(whole, &error.instance_path().to_string())["oneOf"];
            let choices = choices.as_array().into_iter().flatten();
            let choices: Vec<_> = choices
                .filter_map(|choice| choice["const"].as_str())
                .collect();
            format!("expected one of {}, found {}", choices.join(", "), found())
        }
        _ => error.to_string(),
    }
}

fn words(kind: &str) -> &str {
    match kind {
        "object" => "a table",
        "array" => "a list",
        "integer" => "a whole number",
        "boolean" => "true or false",
        "string" => "a text",
        other => other,
    }
}

/// What a variable means for a member: a text as it is, everything else as it would stand in the file.
fn meant(member: &Member, text: &str) -> Result<Value, String> {
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
                        .map_or_else(|| "it is no YAML".to_owned(), |one| one.message.clone()))
                }
            }
        }
    }
}

/// Takes out what is at a dotted name.
pub(super) fn forget(value: &mut Value, name: &str) {
    let (above, last) = name.rsplit_once('.').unwrap_or(("", name));
    let mut above = above.split('.').filter(|part| !part.is_empty());
    let at = above.try_fold(value, |at, part| at.get_mut(part));
    if let Some(members) = at.and_then(Value::as_object_mut) {
        members.remove(last);
    }
}

/// Puts `new` at a dotted name, making what is above it.
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

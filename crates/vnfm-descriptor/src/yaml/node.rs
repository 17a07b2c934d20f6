//! Nodes: values with their positions.

use crate::finding::Span;
use serde_json::{Map, Number, Value as Json};

/// A value with its position.
#[derive(Debug, Clone, PartialEq)]
pub struct Node {
    /// The value itself: scalar, list or mapping.
    pub value: Value,
    /// Its position in the file.
    pub span: Span,
}

/// A scalar, list or mapping.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Text, number, boolean or null.
    Scalar {
        /// The text as written, without quotes and folding.
        text: String,
        /// Whether it is unquoted, so it may be a number, boolean or null.
        plain: bool,
    },
    /// A list of values, in order.
    Sequence(Vec<Node>),
    /// Entries in the order of the file.
    Mapping(Vec<(Node, Node)>),
}

impl Node {
    /// A scalar's text, even if it is a number or boolean; `None` for null, lists and mappings.
    pub fn as_str(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar { text, .. } if !self.is_null() => Some(text),
            _ => None,
        }
    }

    /// Whether it is an unquoted null or nothing at all.
    pub fn is_null(&self) -> bool {
        matches!(&self.value, Value::Scalar { text, plain: true } if matches!(text.as_str(), "" | "~" | "null" | "Null" | "NULL"))
    }

    /// A boolean of YAML 1.2; quotes are ignored, as in TOSCA parsers.
    pub fn as_bool(&self) -> Option<bool> {
        match self.as_str()? {
            "true" | "True" | "TRUE" => Some(true),
            "false" | "False" | "FALSE" => Some(false),
            _ => None,
        }
    }

    /// An integer; quotes are ignored.
    pub fn as_i64(&self) -> Option<i64> {
        integer(self.as_str()?)
    }

    /// A number from 0 to 2³² − 1; quotes are ignored.
    pub fn as_u32(&self) -> Option<u32> {
        self.as_i64().and_then(|value| u32::try_from(value).ok())
    }

    /// The texts of a list, or the text of a scalar.
    pub fn texts(&self) -> Vec<String> {
        match self.as_str() {
            Some(one) => vec![one.to_owned()],
            None => self
                .items()
                .iter()
                .filter_map(Self::as_str)
                .map(ToOwned::to_owned)
                .collect(),
        }
    }

    /// The items of a list; empty for other nodes.
    pub fn items(&self) -> &[Node] {
        if let Value::Sequence(items) = &self.value {
            items
        } else {
            &[]
        }
    }

    /// The entries of a mapping; empty for other nodes.
    pub fn entries(&self) -> &[(Node, Node)] {
        if let Value::Mapping(entries) = &self.value {
            entries
        } else {
            &[]
        }
    }

    /// The entries of a mapping whose keys are scalars.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Node)> {
        self.entries()
            .iter()
            .filter_map(|(key, value)| Some((key.as_str()?, value)))
    }

    /// The value of a key; null counts as absent.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.named()
            .find(|(name, _)| *name == key)
            .map(|(_, value)| value)
            .filter(|value| !value.is_null())
    }

    /// The value at the end of a path of keys.
    pub fn at(&self, path: &[&str]) -> Option<&Node> {
        path.iter().try_fold(self, |node, key| node.get(key))
    }

    /// Whether it is a mapping, even an empty one.
    pub fn is_mapping(&self) -> bool {
        matches!(self.value, Value::Mapping(_))
    }

    /// Whether it is a list, even an empty one.
    pub fn is_sequence(&self) -> bool {
        matches!(self.value, Value::Sequence(_))
    }

    /// Converts to JSON; scalars follow YAML 1.2's core schema.
    pub fn to_json(&self) -> Json {
        match &self.value {
            Value::Scalar { text, plain } => scalar_json(text, *plain),
            Value::Sequence(items) => Json::Array(items.iter().map(Node::to_json).collect()),
            Value::Mapping(entries) => {
                let key = |key: &Node| key.as_str().unwrap_or("null").to_owned();
                Json::Object(
                    entries
                        .iter()
                        .map(|(name, value)| (key(name), value.to_json()))
                        .collect::<Map<_, _>>(),
                )
            }
        }
    }

    /// The kind of node for messages, such as `a list`.
    pub fn kind(&self) -> &'static str {
        match &self.value {
            Value::Mapping(_) => "a mapping",
            Value::Sequence(_) => "a list",
            Value::Scalar { .. } if self.is_null() => "nothing",
            Value::Scalar { .. } => "a single value",
        }
    }
}

fn scalar_json(text: &str, plain: bool) -> Json {
    if !plain {
        return Json::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Json::Null,
        "true" | "True" | "TRUE" => Json::Bool(true),
        "false" | "False" | "FALSE" => Json::Bool(false),
        _ => match integer(text) {
            Some(number) => Json::from(number),
            None => float(text)
                .and_then(Number::from_f64)
                .map_or_else(|| Json::String(text.to_owned()), Json::Number),
        },
    }
}

/// Parses an integer of YAML 1.2's core schema.
pub fn integer(text: &str) -> Option<i64> {
    if let Some(octal) = text.strip_prefix("0o") {
        return i64::from_str_radix(octal, 8)
            .ok()
            .filter(|_| !octal.starts_with(['+', '-']));
    }
    if let Some(hex) = text.strip_prefix("0x") {
        return i64::from_str_radix(hex, 16)
            .ok()
            .filter(|_| !hex.starts_with(['+', '-']));
    }
    text.parse().ok()
}

/// Parses a floating-point number of YAML 1.2's core schema; integers, too.
pub fn float(text: &str) -> Option<f64> {
    let starts = text
        .trim_start_matches(['+', '-'])
        .starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if starts && text.contains(|c: char| c.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

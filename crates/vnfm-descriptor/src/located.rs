//! YAML files outside packages, such as a program's configuration: the value, and the position of each part, so that
//! an error can point at it.

use crate::finding::{Finding, Severity, Span};
use crate::limits::Limits;
use crate::sink::Sink;
use crate::yaml::{self, Node, Value};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// A YAML file as JSON, with the position of each part.
#[derive(Debug, Clone)]
pub struct Located {
    /// The content; scalars are read by YAML 1.2's core schema.
    pub value: Json,
    /// Positions of the values, by JSON pointer.
    positions: BTreeMap<String, Position>,
}

/// Where a key, if there is one, and its value start.
#[derive(Debug, Clone)]
struct Position {
    key: Option<Span>,
    value: Span,
}

impl Located {
    /// Reads `text`; `file` is the name that findings show. Reports errors only. The first of duplicate keys wins.
    pub fn read(text: &str, file: &str) -> (Option<Self>, Vec<Finding>) {
        let mut sink = Sink::default();
        let node = yaml::parse(text, file, &Limits::default(), &mut sink);
        let mut errors = sink.all();
        errors.retain(|finding| finding.severity == Severity::Error);
        let located = node.map(|node| {
            let mut located = Self {
                value: node.to_json(),
                positions: BTreeMap::new(),
            };
            located.record(String::new(), None, &node);
            located
        });
        (located, errors)
    }

    /// Start of the value at a JSON pointer.
    pub fn value_at(&self, pointer: &str) -> Option<&Span> {
        self.positions.get(pointer).map(|position| &position.value)
    }

    /// Start of the key of the value at a JSON pointer; list items have none.
    pub fn key_at(&self, pointer: &str) -> Option<&Span> {
        self.positions
            .get(pointer)
            .and_then(|position| position.key.as_ref())
    }

    fn record(&mut self, pointer: String, key: Option<&Span>, node: &Node) {
        match &node.value {
            Value::Scalar { .. } => {}
            Value::Sequence(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.record(format!("{pointer}/{index}"), None, item);
                }
            }
            Value::Mapping(entries) => {
                for (key, value) in entries {
                    let name = key.as_str().unwrap_or("null");
                    self.record(
                        format!("{pointer}/{}", escaped(name)),
                        Some(&key.span),
                        value,
                    );
                }
            }
        }
        let position = Position {
            key: key.cloned(),
            value: node.span.clone(),
        };
        self.positions.insert(pointer, position);
    }
}

/// Escapes a key for use in a JSON pointer (RFC 6901).
pub fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::Located;

    #[test]
    fn each_part_has_its_position() {
        let (located, errors) = Located::read("a:\n  b/c: [1, x]\n", "f.yaml");
        let located = located.unwrap();
        assert_eq!(errors, []);
        assert_eq!(located.value.to_string(), r#"{"a":{"b/c":[1,"x"]}}"#);
        let position = |span: Option<&super::Span>| span.unwrap().to_string();
        assert_eq!(position(located.key_at("/a")), "f.yaml:1:1");
        assert_eq!(position(located.key_at("/a/b~1c")), "f.yaml:2:3");
        assert_eq!(position(located.value_at("/a/b~1c/1")), "f.yaml:2:12");
        assert!(located.key_at("/a/b~1c/1").is_none());
    }

    #[test]
    fn errors_in_the_text_are_reported() {
        let (located, errors) = Located::read("a: 1\na: 2\n", "f.yaml");
        assert_eq!(located.unwrap().value["a"], 1);
        assert!(
            errors[0].to_string().starts_with("f.yaml:2:1: "),
            "{errors:?}"
        );
        let (located, errors) = Located::read("a: [\n", "f.yaml");
        assert!(located.is_none());
        assert_eq!(errors.len(), 1);
    }
}

//! A YAML file that is no part of a package, such as a program's configuration: its value, and where each part of it
//! stands, so that what is wrong with it can be shown there.

use crate::finding::{Finding, Severity, Sink, Span};
use crate::limits::Limits;
use crate::yaml::{self, Node, Value};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// A YAML file as JSON, with places.
#[derive(Debug, Clone)]
pub struct Located {
    /// What it says; scalars by YAML 1.2's core schema.
    pub value: Json,
    places: BTreeMap<String, Place>,
}

/// Where a part begins.
#[derive(Debug, Clone)]
struct Place {
    /// Its key, where it has one.
    key: Option<Span>,
    value: Span,
}

impl Located {
    /// Reads `text`, which `file` names in findings. Only errors are found; with a key that is there twice, the first
    /// counts.
    pub fn read(text: &str, file: &str) -> (Option<Self>, Vec<Finding>) {
        let mut sink = Sink::default();
        let node = yaml::parse(text, file, &Limits::default(), &mut sink);
        let mut errors = sink.all();
        errors.retain(|finding| finding.severity == Severity::Error);
        let located = node.map(|node| {
            let mut located = Self {
                value: node.to_json(),
                places: BTreeMap::new(),
            };
            located.note(String::new(), None, &node);
            located
        });
        (located, errors)
    }

    /// Where the part at a JSON pointer begins.
    pub fn value_at(&self, pointer: &str) -> Option<&Span> {
        self.places.get(pointer).map(|place| &place.value)
    }

    /// Where the key of the part at a JSON pointer begins.
    pub fn key_at(&self, pointer: &str) -> Option<&Span> {
        self.places
            .get(pointer)
            .and_then(|place| place.key.as_ref())
    }

    fn note(&mut self, pointer: String, key: Option<&Span>, node: &Node) {
        match &node.value {
            Value::Scalar { .. } => {}
            Value::Sequence(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.note(format!("{pointer}/{index}"), None, item);
                }
            }
            Value::Mapping(entries) => {
                for (key, value) in entries {
                    let name = key.as_str().unwrap_or("null");
                    self.note(
                        format!("{pointer}/{}", escaped(name)),
                        Some(&key.span),
                        value,
                    );
                }
            }
        }
        let place = Place {
            key: key.cloned(),
            value: node.span.clone(),
        };
        self.places.insert(pointer, place);
    }
}

/// A key as a JSON pointer has it (RFC 6901).
pub fn escaped(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::Located;

    #[test]
    fn each_part_has_its_place() {
        let (located, errors) = Located::read("a:\n  b/c: [1, x]\n", "f.yaml");
        let located = located.unwrap();
        assert_eq!(errors, []);
        assert_eq!(located.value.to_string(), r#"{"a":{"b/c":[1,"x"]}}"#);
        let place = |span: Option<&super::Span>| span.unwrap().to_string();
        assert_eq!(place(located.key_at("/a")), "f.yaml:1:1");
        assert_eq!(place(located.key_at("/a/b~1c")), "f.yaml:2:3");
        assert_eq!(place(located.value_at("/a/b~1c/1")), "f.yaml:2:12");
        assert!(located.key_at("/a/b~1c/1").is_none());
    }

    #[test]
    fn what_is_wrong_with_the_text_is_found() {
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

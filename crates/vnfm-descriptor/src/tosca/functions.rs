//! TOSCA's functions, as far as they can be evaluated when a package is onboarded.
//!
//! `get_input` with a default, `get_property`, `get_artifact`, `concat`, `join` and `token` are
//! evaluated, also when nested. Inputs without a default and functions that need a running VNF remain as
//! written. `get_property` reads properties of a node template, of its capabilities, and of the targets of
//! its requirements, or else the default of its type. `get_artifact` returns the artifact's `file`.

use super::kind::Kind;
use super::types::Types;
use crate::codes;
use crate::finding::Finding;
use crate::sink::Sink;
use crate::yaml::{Node, Value};
use std::borrow::Cow;
use std::collections::BTreeMap;

const FUNCTIONS: &[&str] = &[
    "get_input",
    "get_property",
    "get_attribute",
    "get_artifact",
    "get_operation_output",
    "get_nodes_of_type",
    "concat",
    "join",
    "token",
];

/// Nodes that `get_property` may evaluate in a topology; nested calls could multiply without end.
const MAX_NODES: usize = 100_000;
const MAX_DEPTH: usize = 32;

/// The function that a node calls, with its argument.
pub(super) fn called(node: &Node) -> Option<(&str, &Node)> {
    match node.entries() {
        [(name, argument)] => name
            .as_str()
            .filter(|name| FUNCTIONS.contains(name))
            .map(|name| (name, argument)),
        _ => None,
    }
}

/// The inputs and node templates that functions refer to.
pub(super) struct Scope<'a> {
    inputs: BTreeMap<&'a str, Option<&'a Node>>,
    templates: Option<&'a Node>,
    types: Option<&'a Types<'a>>,
    budget: usize,
}

impl<'a> Scope<'a> {
    /// Collects the inputs and node templates of a `topology_template`.
    pub(super) fn new(topology: &'a Node, types: Option<&'a Types<'a>>) -> Self {
        let default = |node: &'a Node| {
            node.named()
                .find(|(key, _)| *key == "default")
                .map(|(_, value)| value)
        };
        let inputs = topology
            .get("inputs")
            .into_iter()
            .flat_map(Node::named)
            .map(|(name, node)| (name, default(node)))
            .collect();
        Scope {
            inputs,
            templates: topology.get("node_templates"),
            types,
            budget: MAX_NODES,
        }
    }

    /// Evaluates the functions in a node; `this` is the template that `SELF` refers to. A
    /// node without functions is borrowed.
    pub(super) fn evaluate<'n>(
        &mut self,
        node: &'n Node,
        this: &str,
        sink: &mut Sink,
    ) -> Cow<'n, Node> {
        self.evaluate_node(node, this, 0, sink)
            .map_or(Cow::Borrowed(node), Cow::Owned)
    }

    /// The evaluated node; `None` if it does not change.
    fn evaluate_node(
        &mut self,
        node: &Node,
        this: &str,
        depth: usize,
        sink: &mut Sink,
    ) -> Option<Node> {
        if self.budget == 0 || depth > MAX_DEPTH {
            if self.budget != 0 {
                sink.add(Finding::new(
                    codes::FUNCTION,
                    node.span.clone(),
                    "function calls refer to each other endlessly",
                ));
            }
            self.budget = 0;
            return None;
        }
        if depth > 0 {
            self.budget -= 1;
        }
        if let Some((function, argument)) = called(node) {
            let inside = self.evaluate_node(argument, this, depth, sink);
            let argument = inside.as_ref().unwrap_or(argument);
            let value = match function {
                "get_input" => self.input(node, argument, sink),
                "get_property" => self.property(argument, this, depth, sink),
                "get_artifact" => self.artifact(argument, this),
                "concat" => concat(argument.items(), ""),
                "join" => argument.items().first().and_then(|items| {
                    concat(
                        items.items(),
                        argument.items().get(1).and_then(Node::as_str).unwrap_or(""),
                    )
                }),
                "token" => token(argument.items()),
                _ => None,
            };
            return value.map(|value| Node {
                value,
                span: node.span.clone(),
            });
        }
        let value = match &node.value {
            Value::Scalar { .. } => return None,
            Value::Sequence(items) => {
                let evaluated =
                    map_changed(items, |item| self.evaluate_node(item, this, depth, sink))?;
                Value::Sequence(evaluated)
            }
            Value::Mapping(entries) => {
                let evaluated = map_changed(entries, |(key, value)| {
                    let value = self.evaluate_node(value, this, depth, sink)?;
                    Some((key.clone(), value))
                })?;
                Value::Mapping(evaluated)
            }
        };
        Some(Node {
            value,
            span: node.span.clone(),
        })
    }

    fn input(&self, node: &Node, argument: &Node, sink: &mut Sink) -> Option<Value> {
        let (name, path) = match argument.items() {
            [first, rest @ ..] => (first.as_str()?, rest),
            [] => (argument.as_str()?, &[][..]),
        };
        let Some(default) = self.inputs.get(name) else {
            let finding = Finding::new(
                codes::INPUT_UNKNOWN,
                node.span.clone(),
                format!("input `{name}` is not declared"),
            );
            sink.add(finding.did_you_mean(name, self.inputs.keys().copied()));
            return None;
        };
        walk((*default)?, path).map(|found| found.value.clone())
    }

    fn property(
        &mut self,
        argument: &Node,
        this: &str,
        depth: usize,
        sink: &mut Sink,
    ) -> Option<Value> {
        let [entity, path @ ..] = argument.items() else {
            return None;
        };
        let entity = entity.as_str()?;
        if matches!(entity, "SOURCE" | "TARGET" | "HOST") {
            return None;
        }
        let name = if entity == "SELF" { this } else { entity }.to_owned();
        let Some(template) = self.templates?.get(&name) else {
            if !name.is_empty() {
                let message =
                    format!("`get_property` names `{name}`, which is not a node template");
                let known = self
                    .templates
                    .into_iter()
                    .flat_map(Node::named)
                    .map(|(name, _)| name);
                sink.add(
                    Finding::new(codes::NODE_UNKNOWN, argument.span.clone(), message)
                        .calling("get_property")
                        .did_you_mean(&name, known),
                );
            }
            return None;
        };
        let (found, owner) = self.value(template, &name, path)?;
        let value = self
            .evaluate_node(found, &owner, depth + 1, sink)
            .unwrap_or_else(|| found.clone());
        called(&value).is_none().then_some(value.value)
    }

    /// The node at a path, and the template that contains it.
    fn value(&self, template: &'a Node, name: &str, path: &[Node]) -> Option<(&'a Node, String)> {
        let owner = || name.to_owned();
        let (first, rest) = path.split_first()?;
        if let Some(found) = template.get("properties").and_then(|node| walk(node, path)) {
            return Some((found, owner()));
        }
        let first = first.as_str()?;
        let capability = template.at(&["capabilities", first, "properties"]);
        if let Some(found) = capability.and_then(|node| walk(node, rest)) {
            return Some((found, owner()));
        }
        let requirements = template
            .get("requirements")
            .map(Node::items)
            .unwrap_or_default();
        let target = requirements
            .iter()
            .flat_map(Node::named)
            .find(|(name, _)| *name == first);
        let target = target.and_then(|(_, node)| node.get("node").unwrap_or(node).as_str());
        if let (Some(target), false) = (target, rest.is_empty()) {
            let properties = self.templates?.at(&[target, "properties"])?;
            return Some((walk(properties, rest)?, target.to_owned()));
        }
        let kind = template.get("type").and_then(Node::as_str)?;
        let default = self
            .types?
            .properties(Kind::Node, kind)
            .remove(first)?
            .default?;
        Some((walk(default, rest)?, owner()))
    }

    fn artifact(&self, argument: &Node, this: &str) -> Option<Value> {
        let [entity, name, ..] = argument.items() else {
            return None;
        };
        let entity = entity
            .as_str()
            .map(|entity| if entity == "SELF" { this } else { entity })?;
        let template = self.templates?.get(entity)?;
        let name = name.as_str()?;
        let inherited = || {
            let kind = template.get("type").and_then(Node::as_str)?;
            let mut artifacts = self.types?.section(Kind::Node, kind, "artifacts");
            artifacts.remove(name)?.first().copied()
        };
        let artifact = template.at(&["artifacts", name]).or_else(inherited)?;
        artifact
            .get("file")
            .or_else(|| artifact.as_str().map(|_| artifact))
            .map(|file| file.value.clone())
    }
}

/// The items with the changes that `change` returns; `None` if no item changes.
fn map_changed<T: Clone>(items: &[T], mut change: impl FnMut(&T) -> Option<T>) -> Option<Vec<T>> {
    let mut result: Option<Vec<T>> = None;
    for (index, item) in items.iter().enumerate() {
        match (change(item), &mut result) {
            (Some(new), Some(result)) => result.push(new),
            (Some(new), none) => {
                let mut before = Vec::with_capacity(items.len());
                before.extend_from_slice(&items[..index]);
                before.push(new);
                *none = Some(before);
            }
            (None, Some(result)) => result.push(item.clone()),
            (None, None) => {}
        }
    }
    result
}

fn walk<'n>(node: &'n Node, path: &[Node]) -> Option<&'n Node> {
    path.iter().try_fold(node, |node, step| {
        match step.as_i64().and_then(|index| usize::try_from(index).ok()) {
            Some(index) if node.is_sequence() => node.items().get(index),
            _ => node.get(step.as_str()?),
        }
    })
}

fn concat(items: &[Node], separator: &str) -> Option<Value> {
    let texts: Option<Vec<&str>> = items.iter().map(Node::as_str).collect();
    Some(Value::Scalar {
        text: texts?.join(separator),
        plain: false,
    })
}

fn token(items: &[Node]) -> Option<Value> {
    let [text, separator, index] = items else {
        return None;
    };
    let index = usize::try_from(index.as_i64()?).ok()?;
    let part = text.as_str()?.split(separator.as_str()?).nth(index)?;
    Some(Value::Scalar {
        text: part.to_owned(),
        plain: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::yaml::parse;
    use serde_json::json;

    fn evaluated(text: &str) -> (serde_json::Value, Vec<String>) {
        let mut sink = Sink::default();
        let node = parse(text, "a.yaml", &Limits::default(), &mut sink).unwrap();
        let mut scope = Scope::new(&node, None);
        let json = scope
            .evaluate(
                node.at(&["node_templates", "A", "properties"]).unwrap(),
                "A",
                &mut sink,
            )
            .to_json();
        let findings = sink
            .finish()
            .unwrap_or_else(|findings| findings.as_slice().to_vec());
        (json, findings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn functions_are_evaluated_as_far_as_possible() {
        let (json, findings) = evaluated(
            "inputs: {a: {type: string, default: x}, b: {type: string}, m: {type: map, default: {k: [1, 2]}}}
node_templates:
  A:
    properties:
      one: {get_input: a}
      two: {get_input: b}
      three: [{get_input: [m, k, 1]}]
      four: {concat: [{get_property: [SELF, one]}, '-', {get_property: [B, p, q]}]}
      five: {join: [[a, b], '.']}
      six: {token: [a.b.c, '.', 1]}
      seven: {get_attribute: [SELF, x]}
      eight: {get_property: [SELF, cap, size]}
      nine: {get_property: [SELF, link, p, q]}
      ten: {concat: [{token: [{get_artifact: [SELF, script]}, /, 1]}, {get_artifact: [B, short]}]}
    capabilities: {cap: {properties: {size: {get_input: [m, k, 0]}}}}
    requirements: [{link: {node: B}}]
    artifacts: {script: {type: T, file: Scripts/a.sh}}
  B: {properties: {p: {q: {get_input: a}}}, artifacts: {short: b.sh}}
",
        );
        assert_eq!(findings, [""; 0]);
        assert_eq!(
            json,
            json!({"one": "x", "two": {"get_input": "b"}, "three": [2], "four": "x-x", "five": "a.b", "six": "b", "seven": {"get_attribute": ["SELF", "x"]}, "eight": 1, "nine": "x", "ten": "a.shb.sh"})
        );
    }

    #[test]
    fn a_topology_with_many_nodes_is_evaluated_completely() {
        let many = "a, ".repeat(MAX_NODES + 1);
        let text = format!(
            "inputs: {{a: {{type: string, default: x}}}}\nnode_templates: {{A: {{properties: {{many: [{many}], one: {{get_input: a}}}}}}}}\n"
        );
        let (json, findings) = evaluated(&text);
        assert_eq!(findings, [""; 0]);
        assert_eq!(json["one"], "x");
    }

    #[test]
    fn unknown_inputs_and_endless_functions_are_findings() {
        let (_, findings) = evaluated(
            "inputs: {flavour: {type: string}}\nnode_templates: {A: {properties: {p: {get_input: flavor}}}}\n",
        );
        assert_eq!(
            findings,
            [
                "a.yaml:2:38: error[E-INPUT-UNKNOWN]: input `flavor` is not declared (hint: did you mean `flavour`?)"
            ]
        );
        let (_, findings) =
            evaluated("node_templates: {A: {properties: {p: {get_property: [Aa, p]}}}}\n");
        assert_eq!(
            findings,
            [
                "a.yaml:1:53: error[E-NODE-UNKNOWN]: `get_property` names `Aa`, which is not a node template (hint: did you mean `A`?)"
            ]
        );
        let (_, findings) = evaluated(
            "node_templates: {A: {properties: {p: {concat: [{get_property: [SELF, p]}, {get_property: [SELF, p]}]}}}}\n",
        );
        assert!(findings[0].contains("endlessly"), "{findings:?}");
    }
}

//! Requirements that do not name a node template: a node type, a `node_filter`, or both.
//!
//! Exactly one template of the topology must match; its name replaces the filter.

use super::constraints::{holds, is_known};
use super::kind::Kind;
use super::topology::Template;
use super::types::{Property, Types};
use crate::codes;
use crate::finding::Finding;
use crate::sink::Sink;
use crate::yaml::{Node, Value};
use std::collections::{BTreeMap, HashSet};

/// Replaces types and filters in requirements by the name of the matching template.
pub(super) fn resolve(templates: &mut [Template<'_>], types: &Types<'_>, sink: &mut Sink) {
    let mut chosen: Vec<(usize, usize, Node)> = Vec::new();
    let names: HashSet<&str> = templates
        .iter()
        .map(|template| template.name.as_str())
        .collect();
    for (at, template) in templates.iter().enumerate() {
        let items = template
            .node
            .get("requirements")
            .map(Node::items)
            .unwrap_or_default();
        for (item, (name, requirement)) in items
            .iter()
            .enumerate()
            .filter_map(|(item, node)| Some((item, node.named().next()?)))
        {
            let Some(selector) = Selector::read(requirement, &names, types) else {
                continue;
            };
            let matching: Vec<&Template> = templates
                .iter()
                .filter(|other| selector.matches(other, types))
                .collect();
            if let [one] = matching.as_slice() {
                chosen.push((at, item, scalar(&one.name, requirement)));
                continue;
            }
            let names: Vec<String> = matching
                .iter()
                .map(|found| format!("`{}`", found.name))
                .collect();
            let found = if names.is_empty() {
                "none matches".to_owned()
            } else {
                format!("{} match", names.join(", "))
            };
            let message = format!(
                "`{}.{name}` selects a node template by type or filter, but {found}",
                template.name
            );
            sink.add(
                Finding::new(codes::NODE_FILTER, requirement.span.clone(), message)
                    .hint("name the node template"),
            );
            // Otherwise the type would be read as a template's name.
            chosen.push((at, item, scalar("", requirement)));
        }
    }
    for (at, item, name) in chosen {
        assign(templates[at].node.to_mut(), item, name);
    }
}

/// How a requirement selects a template.
struct Selector<'n> {
    node_type: Option<&'n str>,
    capability: Option<&'n str>,
    filter: Option<&'n Node>,
}

impl<'n> Selector<'n> {
    /// `None` if the requirement names a template, or nothing.
    fn read(node: &'n Node, templates: &HashSet<&str>, types: &Types<'_>) -> Option<Self> {
        let named = node
            .get("node")
            .or_else(|| node.as_str().map(|_| node))
            .and_then(Node::as_str);
        let node_type =
            named.filter(|name| !templates.contains(name) && types.get(Kind::Node, name).is_some());
        let filter = node
            .get("node_filter")
            .filter(|_| named.is_none() || node_type.is_some());
        let capability = node.get("capability").and_then(Node::as_str);
        (node_type.is_some() || filter.is_some()).then_some(Selector {
            node_type,
            capability,
            filter,
        })
    }

    fn matches(&self, template: &Template, types: &Types<'_>) -> bool {
        let of_type = |kind: &str| types.is_a(Kind::Node, &template.kind, kind);
        let known = |kind: &&str| types.get(Kind::Capability, kind).is_some();
        let offers = |kind: &str| super::template::offers(types, &template.kind, kind);
        self.node_type.is_none_or(of_type)
            && self.capability.filter(known).is_none_or(offers)
            && self
                .filter
                .is_none_or(|filter| matches_filter(filter, template, types))
    }
}

/// Whether a template satisfies a `node_filter`.
fn matches_filter(filter: &Node, template: &Template, types: &Types<'_>) -> bool {
    let declared = types.properties(Kind::Node, &template.kind);
    let value = |name: &str| template.property(name);
    if !properties_match(filter.get("properties"), &declared, &value, types) {
        return false;
    }
    let capabilities = types.section(Kind::Node, &template.kind, "capabilities");
    super::topology::listed(filter.get("capabilities"))
        .into_iter()
        .all(|(key, expected)| {
            let capability = key.as_str().unwrap_or_default();
            capabilities.iter().any(|(name, nodes)| {
                let kind = nodes.iter().find_map(|node| {
                    node.as_str()
                        .or_else(|| node.get("type").and_then(Node::as_str))
                });
                let kind = kind.unwrap_or_default();
                let declared = types.properties(Kind::Capability, kind);
                let value =
                    |key: &str| template.node.at(&["capabilities", name, "properties", key]);
                (*name == capability || types.is_a(Kind::Capability, kind, capability))
                    && properties_match(expected.get("properties"), &declared, &value, types)
            })
        })
}

/// Whether values satisfy every constraint of a filter's `properties`.
fn properties_match<'n>(
    filter: Option<&Node>,
    declared: &BTreeMap<&str, Property<'n>>,
    value: &dyn Fn(&str) -> Option<&'n Node>,
    types: &Types<'_>,
) -> bool {
    super::topology::listed(filter)
        .into_iter()
        .all(|(key, expected)| {
            let name = key.as_str().unwrap_or_default();
            let property = declared.get(name);
            let kind = property.map_or("string", |property| property.schema.kind);
            let Some(value) =
                value(name).or_else(|| property.and_then(|property| property.default))
            else {
                return false;
            };
            let all: Vec<(&str, &Node)> = if expected.is_sequence() {
                expected.items().iter().flat_map(Node::named).collect()
            } else if expected.is_mapping() && expected.named().all(|(name, _)| is_known(name)) {
                expected.named().collect()
            } else {
                vec![("equal", expected)]
            };
            all.into_iter()
                .all(|(constraint, bound)| holds(types, kind, value, constraint, bound))
        })
}

fn scalar(text: &str, at: &Node) -> Node {
    let plain = text.is_empty();
    Node {
        value: Value::Scalar {
            text: text.to_owned(),
            plain,
        },
        span: at.span.clone(),
    }
}

/// Sets the template's name in an item of the requirements.
fn assign(template: &mut Node, item: usize, name: Node) {
    let Value::Mapping(entries) = &mut template.value else {
        return;
    };
    let Some((_, list)) = entries
        .iter_mut()
        .find(|(key, _)| key.as_str() == Some("requirements"))
    else {
        return;
    };
    let Value::Sequence(items) = &mut list.value else {
        return;
    };
    if let Some(Node {
        value: Value::Mapping(entries),
        ..
    }) = items.get_mut(item)
        && let Some((_, requirement)) = entries.first_mut()
    {
        match &mut requirement.value {
            Value::Mapping(keys) => {
                keys.retain(|(key, _)| key.as_str() != Some("node"));
                let key = scalar("node", &name);
                keys.push((key, name));
            }
            _ => *requirement = name,
        }
    }
}

//! A `topology_template`: node templates and policies with their functions evaluated.

use super::documents::Document;
use super::functions::Scope;
use super::types::Types;
use crate::codes;
use crate::finding::{Finding, Span};
use crate::sink::Sink;
use crate::yaml::Node;
use std::borrow::Cow;
use std::collections::HashMap;

const KEYS: &[&str] = &[
    "description",
    "inputs",
    "node_templates",
    "relationship_templates",
    "groups",
    "policies",
    "outputs",
    "substitution_mappings",
    "workflows",
];

/// The topology of one file.
pub struct Topology<'a> {
    /// Path of the file in the package.
    pub path: &'a str,
    /// Position of the topology in the file.
    pub span: Span,
    /// The node templates, in the order of the file.
    pub templates: Vec<Template<'a>>,
    /// Indices of `templates` by name.
    indices: HashMap<String, usize>,
    /// The policies, in the order of the file.
    pub policies: Vec<Policy<'a>>,
    /// The groups, in the order of the file.
    pub groups: Vec<Group<'a>>,
    /// `substitution_mappings`; a topology that has them is a flavour.
    pub substitution: Option<Cow<'a, Node>>,
}

/// A node template, with its functions evaluated.
pub struct Template<'a> {
    /// Its key in the map `node_templates`.
    pub name: String,
    /// Name of its node type.
    pub kind: String,
    /// The position of its name.
    pub span: Span,
    /// Its content, with functions evaluated.
    pub node: Cow<'a, Node>,
}

/// A policy, with its functions evaluated.
pub struct Policy<'a> {
    /// Its key in the list of policies.
    pub name: String,
    /// Name of its policy type.
    pub kind: String,
    /// The position of its name.
    pub span: Span,
    /// Its content, with functions evaluated.
    pub node: Cow<'a, Node>,
}

/// A group of node templates.
pub struct Group<'a> {
    /// Its key in the map of groups.
    pub name: String,
    /// The position of its name.
    pub span: Span,
    /// Its content, with functions evaluated.
    pub node: Cow<'a, Node>,
}

impl Group<'_> {
    /// The names of its node templates.
    pub fn members(&self) -> Vec<String> {
        let members = self
            .node
            .get("members")
            .map(Node::items)
            .unwrap_or_default();
        members
            .iter()
            .filter_map(Node::as_str)
            .map(str::to_owned)
            .collect()
    }
}

impl Template<'_> {
    /// A property; null counts as absent.
    pub fn property(&self, name: &str) -> Option<&Node> {
        self.node.at(&["properties", name])
    }

    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.property(name).and_then(Node::as_str)
    }

    /// The targets of a requirement, one for each assignment.
    pub fn targets<'t>(&'t self, requirement: &'t str) -> impl Iterator<Item = &'t Node> {
        self.requirements()
            .filter(move |(name, _)| *name == requirement)
            .map(|(_, target)| target)
    }

    /// The assigned requirements, each with the node that names its target.
    pub fn requirements(&self) -> impl Iterator<Item = (&str, &Node)> {
        let items = self
            .node
            .get("requirements")
            .map(Node::items)
            .unwrap_or_default();
        items
            .iter()
            .flat_map(Node::named)
            .filter_map(|(name, node)| {
                Some((
                    name,
                    if node.is_mapping() {
                        node.get("node")?
                    } else {
                        node
                    },
                ))
            })
    }
}

impl Policy<'_> {
    /// A property; null counts as absent.
    pub fn property(&self, name: &str) -> Option<&Node> {
        self.node.at(&["properties", name])
    }

    /// The node templates and groups that it applies to.
    pub fn targets(&self) -> &[Node] {
        self.node
            .get("targets")
            .map(Node::items)
            .unwrap_or_default()
    }
}

impl<'a> Topology<'a> {
    /// Reads a file's topology, if it has one.
    pub(super) fn read(
        document: &'a Document,
        types: &'a Types<'a>,
        sink: &mut Sink,
    ) -> Option<Self> {
        let node = document.root.get("topology_template")?;
        crate::shape::keys(node, KEYS, "a topology template", sink);
        let mut scope = Scope::new(node, Some(types));
        let mut templates = templates(node, &mut scope, sink);
        super::filter::resolve(&mut templates, types, sink);
        let mut policies = Vec::new();
        for (key, policy) in listed(node.get("policies")) {
            let Some(name) = key.as_str() else { continue };
            let kind = kind_of(policy, &format!("policy `{name}`"), sink);
            let evaluated = scope.evaluate(policy, "", sink);
            policies.push(Policy {
                name: name.to_owned(),
                kind,
                span: key.span.clone(),
                node: evaluated,
            });
        }
        let mut groups = Vec::new();
        for (key, group) in node.get("groups").map(Node::entries).unwrap_or_default() {
            let Some(name) = key.as_str() else { continue };
            kind_of(group, &format!("group `{name}`"), sink);
            let evaluated = scope.evaluate(group, "", sink);
            groups.push(Group {
                name: name.to_owned(),
                span: key.span.clone(),
                node: evaluated,
            });
        }
        let substitution = node
            .get("substitution_mappings")
            .map(|mappings| scope.evaluate(mappings, "", sink));
        let by_name = |(at, template): (usize, &Template<'_>)| (template.name.clone(), at);
        Some(Topology {
            path: &document.path,
            span: node.span.clone(),
            indices: templates.iter().enumerate().map(by_name).collect(),
            templates,
            policies,
            groups,
            substitution,
        })
    }

    /// Finds a node template by its name.
    pub fn template(&self, name: &str) -> Option<&Template<'_>> {
        self.templates.get(*self.indices.get(name)?)
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        self.templates.iter().map(|template| template.name.as_str())
    }
}

fn templates<'a>(node: &'a Node, scope: &mut Scope<'_>, sink: &mut Sink) -> Vec<Template<'a>> {
    let mut templates = Vec::new();
    for (key, template) in node
        .get("node_templates")
        .map(|all| crate::shape::mapping(all, "`node_templates`", sink))
        .unwrap_or_default()
    {
        let Some(name) = key.as_str() else { continue };
        let kind = kind_of(template, &format!("node template `{name}`"), sink);
        let evaluated = scope.evaluate(template, name, sink);
        templates.push(Template {
            name: name.to_owned(),
            kind,
            span: key.span.clone(),
            node: evaluated,
        });
    }
    templates
}

/// The entries of a list of mappings (TOSCA's form for policies), or of a single mapping.
pub fn listed(node: Option<&Node>) -> Vec<&(Node, Node)> {
    match node {
        Some(node) if node.is_sequence() => node.items().iter().flat_map(Node::entries).collect(),
        Some(node) => node.entries().iter().collect(),
        None => Vec::new(),
    }
}

fn kind_of(node: &Node, what: &str, sink: &mut Sink) -> String {
    if let Some(kind) = node.get("type") {
        return crate::shape::text(kind, &format!("the type of {what}"), sink).unwrap_or_default();
    }
    sink.add(Finding::new(
        codes::SHAPE,
        node.span.clone(),
        format!("{what} has no `type`"),
    ));
    String::new()
}

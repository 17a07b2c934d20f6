//! The declared types, their derivation and inherited declarations.
//!
//! Nothing is flattened in advance: a type's declarations are looked up along its ancestors, nearest
//! first. A property that is declared again refines the inherited one: it overrides the keys that it
//! sets and inherits the others; constraints add up.

use super::builtin;
use super::constraints;
use super::documents::{Document, Origin};
use super::kind::{Kind, SECTIONS};
use super::tagged::{ELSEWHERE_KEY, VERSIONS_KEY, Version};
use crate::codes;
use crate::finding::Finding;
use crate::sink::Sink;
use crate::yaml::Node;
use regex::Regex;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// Types that TOSCA itself predefines, without a declaration.
pub(super) const PRIMITIVES: &[&str] = &[
    "string",
    "integer",
    "float",
    "boolean",
    "timestamp",
    "version",
    "range",
    "list",
    "map",
    "null",
    "any",
    "scalar-unit.size",
    "scalar-unit.time",
    "scalar-unit.frequency",
    "scalar-unit.bitrate",
];

/// A declared property, merged with those that it refines.
#[derive(Debug, Clone)]
pub(super) struct Property<'a> {
    pub(super) name: &'a str,
    pub(super) schema: Schema<'a>,
    pub(super) required: bool,
    pub(super) default: Option<&'a Node>,
    pub(super) description: Option<&'a str>,
    pub(super) write_only: bool,
    /// The versions of SOL001 that have it, if the package's version does not.
    pub(super) versions: Option<&'a str>,
    /// Its declarations in other versions of SOL001.
    pub(super) elsewhere: &'a [Node],
}

/// The declared type and constraints of a value.
#[derive(Debug, Clone, Default)]
pub(super) struct Schema<'a> {
    pub(super) kind: &'a str,
    pub(super) entry: Option<&'a Node>,
    pub(super) constraints: Vec<&'a Node>,
}

impl<'a> Schema<'a> {
    /// From `{type, entry_schema, constraints}`, or a type's name alone.
    pub(super) fn for_node(node: &'a Node) -> Self {
        Schema::merged(&[node])
    }

    fn merged(nodes: &[&'a Node]) -> Self {
        let first = |key: &str| nodes.iter().find_map(|node| node.get(key));
        let kind = nodes.iter().find_map(|node| {
            node.as_str()
                .or_else(|| node.get("type").and_then(Node::as_str))
        });
        let constraints = nodes
            .iter()
            .filter_map(|node| node.get("constraints"))
            .flat_map(Node::items)
            .collect();
        Schema {
            kind: kind.unwrap_or("string"),
            entry: first("entry_schema"),
            constraints,
        }
    }
}

impl<'a> Property<'a> {
    /// From its declarations, nearest first.
    fn merged(name: &'a str, nodes: &[&'a Node]) -> Self {
        let first = |key: &str| nodes.iter().find_map(|node| node.get(key));
        Property {
            name,
            schema: Schema::merged(nodes),
            required: first("required").and_then(Node::as_bool).unwrap_or(true),
            default: nodes.iter().find_map(|node| {
                node.named()
                    .find(|(key, _)| *key == "default")
                    .map(|(_, value)| value)
            }),
            description: first("description").and_then(Node::as_str),
            write_only: first("metadata")
                .and_then(|node| node.get("writeOnly"))
                .and_then(Node::as_bool)
                .unwrap_or(false),
            versions: nodes
                .first()
                .and_then(|node| node.get(VERSIONS_KEY))
                .and_then(Node::as_str),
            elsewhere: nodes
                .first()
                .and_then(|node| node.get(ELSEWHERE_KEY))
                .map(Node::items)
                .unwrap_or_default(),
        }
    }
}

/// Different patterns that a package may have compiled; each may cost milliseconds.
const PATTERNS: usize = 200;

/// The types that a package can use: its own, and the built-in ones.
pub struct Types<'a> {
    /// Those that the package's files declare, by kind and name; they come before built-in types.
    own: BTreeMap<(Kind, &'a str), &'a Node>,
    /// The version of SOL001 that the package states.
    pub(super) version: Option<Version>,
    /// Compiled patterns; `None` if a pattern is not supported.
    patterns: RefCell<BTreeMap<String, Option<Regex>>>,
    described: Cell<usize>,
    pub(super) data_type_cache: super::data::DataTypeCache<'a>,
    pub(super) property_cache: super::data::PropertyCache<'a>,
}

/// Parts of values described by schemas; types that contain each other would multiply without end.
const MAX_DESCRIBED: usize = 10_000;

impl<'a> Types<'a> {
    /// Collects the types of the documents, and checks them.
    pub(super) fn collect(
        documents: &'a [Document],
        version: Option<Version>,
        sink: &mut Sink,
    ) -> Self {
        let mut types = Types {
            own: BTreeMap::new(),
            version,
            patterns: RefCell::default(),
            described: Cell::new(0),
            data_type_cache: RefCell::default(),
            property_cache: RefCell::default(),
        };
        let own: Vec<(Kind, &str)> = documents
            .iter()
            .flat_map(|document| types.add(&document.root, document.origin, sink))
            .collect();
        for (kind, name) in own {
            types.check(kind, name, sink);
        }
        types
    }

    /// Adds a file's types and returns the new ones. Built-in types in a copy are skipped silently; those of an unknown
    /// version replace them.
    fn add(&mut self, root: &'a Node, origin: Origin, sink: &mut Sink) -> Vec<(Kind, &'a str)> {
        let mut added = Vec::new();
        for (kind, section, label) in SECTIONS {
            let Some(declared) = root.get(section) else {
                continue;
            };
            for (key, node) in crate::shape::mapping(declared, &format!("`{section}`"), sink) {
                let Some(name) = key.as_str() else { continue };
                let is_builtin = |kind| {
                    self.file(kind, name)
                        .is_some_and(|file| file.starts_with("builtin:"))
                };
                if origin == Origin::UnknownVersion && is_builtin(kind) {
                    self.own.insert((kind, name), node);
                    continue;
                }
                // A package may declare the normative types itself.
                let is_known = self
                    .file(kind, name)
                    .is_some_and(|file| file != builtin::NORMATIVE_TYPES);
                let in_other_section =
                    |(other, _, _): &(Kind, &str, &str)| *other != kind && is_builtin(*other);
                let misplaced = name.starts_with("tosca.") && SECTIONS.iter().any(in_other_section);
                if is_known || misplaced {
                    if origin != Origin::Package {
                        continue;
                    }
                    let message = format!("{label} `{name}` is already declared");
                    let finding = Finding::new(codes::TYPE_REDEFINED, key.span.clone(), message);
                    sink.add(finding.hint("the first declaration is used"));
                    continue;
                }
                crate::shape::mapping(node, &format!("{label} `{name}`"), sink);
                self.own.insert((kind, name), node);
                added.push((kind, name));
            }
        }
        added
    }

    /// Whether a value matches a pattern; an unsupported pattern matches everything.
    pub(super) fn matches(&self, pattern: &str, value: &str) -> bool {
        self.pattern(pattern)
            .is_none_or(|compiled| compiled.is_match(value))
    }

    /// A pattern, compiled once; `None` if it is not supported or there are too many patterns.
    pub(super) fn pattern(&self, pattern: &str) -> Option<Regex> {
        let mut patterns = self.patterns.borrow_mut();
        if let Some(known) = patterns.get(pattern) {
            return known.clone();
        }
        if patterns.len() >= PATTERNS {
            return None;
        }
        patterns
            .entry(pattern.to_owned())
            .or_insert(constraints::compiled(pattern))
            .clone()
    }

    /// Counts a described part of a value; false if there are too many.
    pub(super) fn count_part(&self) -> bool {
        self.described.set(self.described.get().saturating_add(1));
        !self.too_many_parts()
    }

    /// Whether more parts of values were described than allowed.
    pub(super) fn too_many_parts(&self) -> bool {
        self.described.get() > MAX_DESCRIBED
    }

    /// The declaration of a type.
    pub fn get(&self, kind: Kind, name: &str) -> Option<&'a Node> {
        let version = self.version.unwrap_or(Version::NEWEST);
        let own = self.own.get(&(kind, name)).copied();
        own.or_else(|| builtin::get(kind, name, version))
    }

    /// The file that declares a type.
    fn file(&self, kind: Kind, name: &str) -> Option<&str> {
        let own = self.own.get(&(kind, name));
        own.map(|own| &*own.span.file)
            .or_else(|| builtin::file(kind, name))
    }

    /// The names of all types of a kind.
    pub(super) fn names(&self, kind: Kind) -> impl Iterator<Item = &'a str> {
        let own = self.own.keys().filter(move |(own, _)| *own == kind);
        let builtin = builtin::names(kind).map(|name| -> &'a str { name });
        own.map(|(_, name)| *name).chain(builtin)
    }

    /// A type and its ancestors, nearest first; stops at a cycle.
    pub(super) fn chain(&self, kind: Kind, name: &'a str) -> Vec<(&'a str, &'a Node)> {
        let mut chain: Vec<(&str, &Node)> = Vec::new();
        let mut next = Some(name);
        while let Some(name) = next.filter(|name| !chain.iter().any(|(seen, _)| seen == name)) {
            let Some(node) = self.get(kind, name) else {
                break;
            };
            chain.push((name, node));
            next = node.get("derived_from").and_then(Node::as_str);
        }
        chain
    }

    /// Whether a type is the other or derives from it.
    pub fn is_a(&self, kind: Kind, name: &str, ancestor: &str) -> bool {
        let mut next = Some(name);
        let mut steps = self.own.len().saturating_add(builtin::count(kind));
        while let Some((own, node)) = next.and_then(|name| Some((name, self.get(kind, name)?))) {
            if own == ancestor {
                return true;
            }
            steps = match steps.checked_sub(1) {
                Some(left) => left,
                None => return false,
            };
            next = node.get("derived_from").and_then(Node::as_str);
        }
        false
    }

    /// The entries of `section` in a type and its ancestors, by name; each with its declarations, nearest first.
    pub(super) fn section(
        &self,
        kind: Kind,
        name: &str,
        section: &str,
    ) -> BTreeMap<&'a str, Vec<&'a Node>> {
        let mut all: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
        for node in self.ancestry(kind, name) {
            for (key, value) in node.get(section).into_iter().flat_map(Node::named) {
                all.entry(key).or_default().push(value);
            }
        }
        for nodes in all.values_mut() {
            own_first(nodes);
        }
        all
    }

    /// The declarations of a type and its ancestors, nearest first.
    pub fn ancestry(&self, kind: Kind, name: &str) -> Vec<&'a Node> {
        let mut nodes: Vec<&Node> = Vec::new();
        let mut next = self.get(kind, name);
        while let Some(node) =
            next.filter(|node| !nodes.iter().any(|seen| std::ptr::eq(*seen, *node)))
        {
            nodes.push(node);
            next = node
                .get("derived_from")
                .and_then(Node::as_str)
                .and_then(|parent| self.get(kind, parent));
        }
        nodes
    }

    /// The default of each property of a type, if it has one.
    pub fn defaults(&self, kind: Kind, name: &str) -> BTreeMap<&'a str, Option<&'a Node>> {
        self.properties(kind, name)
            .into_iter()
            .map(|(name, property)| (name, property.default))
            .collect()
    }

    /// The properties of a type.
    pub(super) fn properties(&self, kind: Kind, name: &str) -> BTreeMap<&'a str, Property<'a>> {
        self.section(kind, name, "properties")
            .into_iter()
            .map(|(name, nodes)| (name, Property::merged(name, &nodes)))
            .collect()
    }

    /// The requirements of a node type.
    pub fn requirements(&self, name: &str) -> BTreeMap<&'a str, &'a Node> {
        let mut all = BTreeMap::new();
        for node in self.ancestry(Kind::Node, name) {
            for item in node
                .get("requirements")
                .map(Node::items)
                .unwrap_or_default()
            {
                for (name, requirement) in item.named() {
                    all.entry(name).or_insert_with(Vec::new).push(requirement);
                }
            }
        }
        let nearest = |(name, mut nodes): (&'a str, Vec<&'a Node>)| {
            own_first(&mut nodes);
            Some((name, *nodes.first()?))
        };
        all.into_iter().filter_map(nearest).collect()
    }

    /// The operations of a node type's interface, each with its declarations, nearest first:
    /// those written at the node type, then those of the interface's type.
    pub(super) fn operations(
        &self,
        node_type: &str,
        interface: &str,
    ) -> Option<BTreeMap<&'a str, Vec<&'a Node>>> {
        let declared = self
            .section(Kind::Node, node_type, "interfaces")
            .remove(interface)?;
        let mut all: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
        for node in &declared {
            for (name, operation) in operations_in(node) {
                all.entry(name).or_default().push(operation);
            }
        }
        if let Some(kind) = declared
            .iter()
            .find_map(|node| node.get("type"))
            .and_then(Node::as_str)
        {
            for node in self.ancestry(Kind::Interface, kind) {
                for (name, operation) in operations_in(node) {
                    all.entry(name).or_default().push(operation);
                }
            }
        }
        Some(all)
    }
}

/// Removes declarations of other SOL001 versions if the package's version declares the same in an
/// ancestor: a property that moved to a type's parent.
fn own_first(nodes: &mut Vec<&Node>) {
    if nodes.iter().any(|node| node.get(VERSIONS_KEY).is_none()) {
        nodes.retain(|node| node.get(VERSIONS_KEY).is_none());
    }
}

/// The operations of an interface, under `operations` (TOSCA 1.3) or directly in it (1.2).
pub fn operations_in(node: &Node) -> Vec<(&str, &Node)> {
    const OTHER: &[&str] = &[
        "type",
        "inputs",
        "operations",
        "notifications",
        "derived_from",
        "description",
        "version",
        "metadata",
        "required",
        VERSIONS_KEY,
    ];
    let mut all: Vec<(&str, &Node)> = node
        .get("operations")
        .into_iter()
        .flat_map(Node::named)
        .collect();
    all.extend(node.named().filter(|(name, _)| !OTHER.contains(name)));
    all
}

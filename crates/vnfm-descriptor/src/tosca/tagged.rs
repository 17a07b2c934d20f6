//! Declarations for several versions of SOL001: a key such as `scope @3.3.1+` belongs to some versions only.
//!
//! ```text
//! name                 every version             name @3.3.1+         3.3.1 and later
//! name @-2.8.1         2.8.1 and earlier         name @3.7.1|4.3.1+   3.7.1, 4.3.1 and later
//! ```
//! Declarations that a version lacks are retained: [`VERSIONS_KEY`] lists the versions that have them, a property whose
//! type or constraints changed has its other declarations under [`ELSEWHERE_KEY`], a policy type whose targets changed has
//! the others under [`TARGETS_ELSEWHERE_KEY`]. A package that mixes
//! versions therefore gets a warning that names the version, and is not refused.

use crate::finding::Span;
use crate::yaml::{Node, Value};

/// The published versions of SOL001 whose types are built in, oldest first.
pub(super) const VERSIONS: [&str; 12] = [
    "2.5.1", "2.6.1", "2.7.1", "2.8.1", "3.3.1", "3.5.1", "3.6.1", "3.7.1", "4.2.1", "4.3.1",
    "4.4.1", "5.4.1",
];

/// Key of a declaration of another version: the versions that have it, as text.
pub(super) const VERSIONS_KEY: &str = "versions";
/// Key of a property: its declarations in other versions, each with [`VERSIONS_KEY`].
pub(super) const ELSEWHERE_KEY: &str = "elsewhere";

/// Key of a policy type: its targets in other versions, each with [`VERSIONS_KEY`].
pub(super) const TARGETS_ELSEWHERE_KEY: &str = "targets_elsewhere";

/// A version of the types: an index into [`VERSIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(usize);

impl Version {
    /// The default for packages that state no version.
    pub(super) const NEWEST: Version = Version(VERSIONS.len() - 1);

    /// All versions of the types, the oldest first.
    pub(super) fn all() -> impl Iterator<Item = Version> {
        (0..VERSIONS.len()).map(Version)
    }

    pub(super) fn named(name: &str) -> Option<Self> {
        VERSIONS
            .iter()
            .position(|known| *known == name)
            .map(Version)
    }

    pub(super) fn name(self) -> &'static str {
        VERSIONS[self.0]
    }

    /// Its position in [`VERSIONS`].
    pub(super) fn index(self) -> usize {
        self.0
    }
}

/// A set of versions, as a bit mask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range(u16);

impl Range {
    const ALL: Range = Range((1 << VERSIONS.len()) - 1);

    /// Parses `3.3.1+`, `-2.8.1`, `2.6.1-2.8.1` or `2.6.1`, or several of these joined by `|`.
    fn read(text: &str) -> Option<Self> {
        let mut bits = 0;
        for part in text.split('|') {
            let (first, last) = match (part.strip_suffix('+'), part.split_once('-')) {
                (Some(first), _) => (Version::named(first)?, Version::NEWEST),
                (None, Some(("", last))) => (Version(0), Version::named(last)?),
                (None, Some((first, last))) => (Version::named(first)?, Version::named(last)?),
                (None, None) => (Version::named(part)?, Version::named(part)?),
            };
            bits |= (first.0..=last.0).fold(0, |bits, version| bits | 1 << version);
        }
        Some(Range(bits))
    }

    fn contains(self, version: Version) -> bool {
        self.0 & (1 << version.0) != 0
    }

    fn intersect(self, other: Range) -> Range {
        Range(self.0 & other.0)
    }

    fn newest(self) -> Option<Version> {
        Version::all()
            .filter(|version| self.contains(*version))
            .last()
    }

    /// As a tag that [`Range::read`] parses.
    fn tag(self) -> String {
        let versions = Version::all().filter(|version| self.contains(*version));
        versions.map(Version::name).collect::<Vec<_>>().join("|")
    }

    /// As text: `2.5.1 to 2.8.1, 3.7.1`.
    fn describe(self) -> String {
        let mut runs: Vec<(Version, Version)> = Vec::new();
        for version in Version::all().filter(|version| self.contains(*version)) {
            match runs.last_mut() {
                Some((_, last)) if last.0 + 1 == version.0 => *last = version,
                _ => runs.push((version, version)),
            }
        }
        let text = |(first, last): &(Version, Version)| {
            if first == last {
                first.name().to_owned()
            } else {
                format!("{} to {}", first.name(), last.name())
            }
        };
        runs.iter().map(text).collect::<Vec<_>>().join(", ")
    }
}

/// Sections of a type whose entries are declarations.
const DECLARATIONS: &[&str] = &[
    "properties",
    "attributes",
    "capabilities",
    "requirements",
    "interfaces",
    "operations",
    "notifications",
];

/// A type in one version, from its declarations in all versions, of which each key has the type's name.
pub(super) fn type_in(declarations: &[(Node, Node)], version: Version) -> Option<Node> {
    let all = declared(declarations, version, Range::ALL, &expand_type);
    all.entries().first().map(|(_, node)| node.clone())
}

fn expand_type(node: &Node, version: Version) -> Node {
    let mut entries: Vec<(Node, Node)> = Vec::new();
    let mut targets: Vec<Node> = Vec::new();
    for (key, value) in node.entries() {
        let (name, range) = tagged(key);
        if !DECLARATIONS.contains(&name) {
            if range.contains(version) {
                entries.push((text(name, &key.span), plain(value, version)));
            } else if name == "targets" {
                targets.push(targets_in(value, range));
            }
            continue;
        }
        let expanded = if value.is_sequence() {
            let listed: Vec<(Node, Node)> = value
                .items()
                .iter()
                .flat_map(Node::entries)
                .cloned()
                .collect();
            let merged = declared(&listed, version, range, &plain);
            let one = |entry: &(Node, Node)| Node {
                value: Value::Mapping(vec![entry.clone()]),
                span: entry.0.span.clone(),
            };
            list(merged.entries().iter().map(one).collect(), &value.span)
        } else if name == "properties" {
            declared(&split(value.entries(), version), version, range, &plain)
        } else {
            declared(value.entries(), version, range, &plain)
        };
        entries.push((text(name, &key.span), expanded));
    }
    if !targets.is_empty() {
        entries.push((
            text(TARGETS_ELSEWHERE_KEY, &node.span),
            list(targets, &node.span),
        ));
    }
    Node {
        value: Value::Mapping(entries),
        span: node.span.clone(),
    }
}

/// The targets of a policy type in other versions.
fn targets_in(targets: &Node, range: Range) -> Node {
    let entries = [
        (text("targets", &targets.span), targets.clone()),
        (
            text(VERSIONS_KEY, &targets.span),
            text(&range.describe(), &targets.span),
        ),
    ];
    Node {
        value: Value::Mapping(entries.into()),
        span: targets.span.clone(),
    }
}

/// The properties that a version has, as one entry for each group of versions that checks values alike.
fn split(properties: &[(Node, Node)], version: Version) -> Vec<(Node, Node)> {
    let mut all = Vec::with_capacity(properties.len());
    for (key, value) in properties {
        let (name, range) = tagged(key);
        if !range.contains(version) || !has_tags(value) {
            all.push((key.clone(), value.clone()));
            continue;
        }
        let mut groups: Vec<(Range, Vec<Node>)> = Vec::new();
        for version in Version::all().filter(|version| range.contains(*version)) {
            let expanded = plain(value, version);
            let checked = ["type", "entry_schema", "constraints"];
            let checked = checked.iter().filter_map(|key| expanded.get(key).cloned());
            let checked: Vec<Node> = checked.collect();
            match groups.iter_mut().find(|(_, other)| *other == checked) {
                Some((versions, _)) => versions.0 |= 1 << version.0,
                None => groups.push((Range(1 << version.0), checked)),
            }
        }
        let narrowed = |(range, _): (Range, Vec<Node>)| {
            let key = text(&format!("{name} @{}", range.tag()), &key.span);
            (key, value.clone())
        };
        all.extend(groups.into_iter().map(narrowed));
    }
    all
}

/// Whether a key at any level has a version tag.
fn has_tags(node: &Node) -> bool {
    let inside = |(key, value): &(Node, Node)| {
        key.as_str().is_some_and(|key| key.contains(" @")) || has_tags(value)
    };
    node.entries().iter().any(inside) || node.items().iter().any(has_tags)
}

/// Removes a key from a mapping.
fn remove(node: &mut Node, name: &str) {
    if let Value::Mapping(entries) = &mut node.value {
        entries.retain(|(key, _)| key.as_str() != Some(name));
    }
}

fn list(items: Vec<Node>, span: &Span) -> Node {
    Node {
        value: Value::Sequence(items),
        span: span.clone(),
    }
}

/// A mapping of declarations: those of the version, and those of other versions, marked as such.
fn declared(
    entries: &[(Node, Node)],
    version: Version,
    outer: Range,
    expand: &dyn Fn(&Node, Version) -> Node,
) -> Node {
    let mut declarations: Vec<(Node, Node)> = Vec::new();
    let mut rest = entries;
    while let Some((first, others)) = rest.split_first() {
        let (name, _) = tagged(&first.0);
        let same = 1 + others
            .iter()
            .take_while(|(key, _)| tagged(key).0 == name)
            .count();
        let alternatives: Vec<(Range, &Node)> = rest[..same]
            .iter()
            .map(|(key, value)| (tagged(key).1.intersect(outer), value))
            .filter(|(range, _)| range.newest().is_some())
            .collect();
        let marked = |(range, node): &(Range, &Node)| {
            let newest = range.newest().unwrap_or(Version::NEWEST);
            let mut node = expand(node, newest);
            put(&mut node, VERSIONS_KEY, &range.describe());
            if node.get("required").is_some() || node.get("type").is_some() {
                put(&mut node, "required", "false");
            }
            node
        };
        let (own, foreign): (Vec<_>, Vec<_>) = alternatives
            .into_iter()
            .partition(|(range, _)| range.contains(version));
        let mut foreign: Vec<Node> = foreign.iter().map(marked).collect();
        let mut node = match own.first() {
            Some((_, node)) => expand(node, version),
            None if foreign.is_empty() => {
                rest = &rest[same..];
                continue;
            }
            None => foreign.remove(0),
        };
        if let (Value::Mapping(entries), false) = (&mut node.value, foreign.is_empty()) {
            let span = first.1.span.clone();
            let key = text(ELSEWHERE_KEY, &span);
            entries.push((key, list(foreign, &span)));
        }
        declarations.push((text(name, &first.0.span), node));
        rest = &rest[same..];
    }
    let span = entries
        .first()
        .map_or_else(|| Span::file("builtin:"), |(key, _)| key.span.clone());
    Node {
        value: Value::Mapping(declarations),
        span,
    }
}

/// A node without the keys of other versions.
fn plain(node: &Node, version: Version) -> Node {
    let value = match &node.value {
        Value::Scalar { .. } => return node.clone(),
        Value::Sequence(items) => {
            Value::Sequence(items.iter().map(|item| plain(item, version)).collect())
        }
        Value::Mapping(entries) => {
            let mut remaining = Vec::with_capacity(entries.len());
            for (key, value) in entries {
                let (name, range) = tagged(key);
                if range.contains(version) {
                    remaining.push((text(name, &key.span), plain(value, version)));
                }
            }
            Value::Mapping(remaining)
        }
    };
    Node {
        value,
        span: node.span.clone(),
    }
}

/// A key's name and the versions that it belongs to.
fn tagged(key: &Node) -> (&str, Range) {
    let text = key.as_str().unwrap_or_default();
    match text.split_once(" @") {
        Some((name, range)) => (name, Range::read(range).unwrap_or(Range::ALL)),
        None => (text, Range::ALL),
    }
}

fn put(node: &mut Node, name: &str, value: &str) {
    let span = node.span.clone();
    if !node.is_mapping() {
        node.value = Value::Mapping(Vec::new());
    }
    remove(node, name);
    if let Value::Mapping(entries) = &mut node.value {
        entries.push((text(name, &span), text(value, &span)));
    }
}

pub(super) fn text(text: &str, span: &Span) -> Node {
    Node {
        value: Value::Scalar {
            text: text.to_owned(),
            plain: true,
        },
        span: span.clone(),
    }
}

#[cfg(test)]
pub(super) fn is_tag(text: &str) -> bool {
    Range::read(text).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use crate::sink::Sink;
    use crate::yaml::parse;

    #[test]
    fn version_ranges_are_parsed_and_formatted() {
        for (text, described) in [
            ("3.3.1+", "3.3.1 to 5.4.1"),
            ("-2.6.1", "2.5.1 to 2.6.1"),
            ("2.8.1", "2.8.1"),
            ("2.6.1-2.8.1|4.4.1+", "2.6.1 to 2.8.1, 4.4.1 to 5.4.1"),
        ] {
            assert_eq!(
                Range::read(text).map(Range::describe).as_deref(),
                Some(described),
                "{text}"
            );
        }
        for text in ["", "3.4.1", "2.5.1-", "-", "+"] {
            assert_eq!(Range::read(text), None, "{text}");
        }
    }

    #[test]
    fn a_version_has_its_declarations_and_marks_those_of_others() {
        let text = "node_types:
  A:
    derived_from @-2.6.1: R
    derived_from @2.7.1+: S
    properties:
      p @-2.6.1: {type: string}
      p @2.7.1+: {type: list, required @3.3.1+: false}
    properties_extra @3.3.1+: x
    requirements:
      - r @3.3.1+: {capability: C}
  B @2.5.1: {derived_from: R}
";
        let file = parse(text, "a", &Limits::default(), &mut Sink::default()).unwrap();
        let types = file.get("node_types").unwrap().entries();
        let entries = |name| {
            let version = Version::named(name).unwrap();
            declared(types, version, Range::ALL, &expand_type).to_json()
        };
        assert_eq!(
            entries("2.7.1"),
            serde_json::json!({
                "A": {
                    "derived_from": "S",
                    "properties": {"p": {
                        "type": "list",
                        "elsewhere": [{"type": "string", "versions": "2.5.1 to 2.6.1", "required": false}],
                    }},
                    "requirements": [{"r": {"capability": "C", "versions": "3.3.1 to 5.4.1"}}],
                },
                "B": {"derived_from": "R", "versions": "2.5.1"},
            })
        );
        assert_eq!(entries("2.5.1")["A"]["properties"]["p"]["type"], "string");
        assert_eq!(entries("3.3.1")["A"]["properties"]["p"]["required"], false);
    }
}

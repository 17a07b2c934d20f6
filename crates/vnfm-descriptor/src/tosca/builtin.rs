//! The built-in types: TOSCA's root types, and SOL001's in each published version.
//!
//! `schemas/tosca` holds each definition once, with tags for the versions that have it ([`super::tagged`]). The texts are cut into
//! types by their indentation: a type begins at a key that is indented by two spaces. A package uses few of them, so a type
//! is parsed when it is first looked up in a version, and then kept.
//! Finally, `differences.yaml` is applied: the places where we require less than the standard.

use super::kind::{Kind, SECTIONS};
use super::tagged::{VERSIONS, Version, text, type_in};
use crate::finding::Span;
use crate::limits::Limits;
use crate::sink::Sink;
use crate::yaml::{Node, Value, parse};
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// The name of the file with TOSCA's types that SOL001 does not build on; a package may declare them itself.
pub(super) const NORMATIVE_TYPES: &str = "builtin:tosca_normative_types.yaml";

const TEXTS: &[(&str, &str)] = &[
    (
        "builtin:tosca_simple_profile.yaml",
        include_str!("../../schemas/tosca_simple_profile.yaml"),
    ),
    (
        NORMATIVE_TYPES,
        include_str!("../../schemas/tosca_normative_types.yaml"),
    ),
    (
        "builtin:sol001/data_types.yaml",
        include_str!("../../schemas/sol001/data_types.yaml"),
    ),
    (
        "builtin:sol001/node_types.yaml",
        include_str!("../../schemas/sol001/node_types.yaml"),
    ),
    (
        "builtin:sol001/policy_types.yaml",
        include_str!("../../schemas/sol001/policy_types.yaml"),
    ),
];

const DIFFERENCES: (&str, &str) = (
    "builtin:sol001/differences.yaml",
    include_str!("../../schemas/sol001/differences.yaml"),
);

/// A built-in type as written, and what it is in each version.
struct BuiltinType {
    kind: Kind,
    name: &'static str,
    file: &'static str,
    /// Its declarations for all versions: `text`, which begins after `lines` lines of the file.
    text: &'static str,
    lines: usize,
    in_version: [OnceLock<Box<Node>>; VERSIONS.len()],
}

type TypesByName = BTreeMap<&'static str, BuiltinType>;

/// A built-in type in a version; one that only other versions have is marked by [`super::tagged::VERSIONS_KEY`].
pub(super) fn get(kind: Kind, name: &str, version: Version) -> Option<&'static Node> {
    let found = types(kind).get(name)?;
    let read = || {
        let mut node = found.as_published(version);
        apply_differences(name, &mut node);
        Box::new(node)
    };
    Some(found.in_version[version.index()].get_or_init(read))
}

/// The file that declares a built-in type.
pub(super) fn file(kind: Kind, name: &str) -> Option<&'static str> {
    types(kind).get(name).map(|found| found.file)
}

/// The names of the built-in types of a kind.
pub(super) fn names(kind: Kind) -> impl Iterator<Item = &'static str> {
    types(kind).keys().copied()
}

/// How many built-in types a kind has.
pub(super) fn count(kind: Kind) -> usize {
    types(kind).len()
}

/// A built-in type in a version as in the standard, without our differences.
#[cfg(test)]
pub(super) fn as_published(kind: Kind, name: &str, version: Version) -> Option<Node> {
    let found = types(kind).get(name);
    found.map(|found| found.as_published(version))
}

/// The built-in types of a kind.
fn types(kind: Kind) -> &'static TypesByName {
    static ALL: OnceLock<BTreeMap<Kind, TypesByName>> = OnceLock::new();
    static NONE: TypesByName = BTreeMap::new();
    let read = || {
        let mut all: BTreeMap<Kind, TypesByName> = BTreeMap::new();
        for found in TEXTS.iter().flat_map(|(file, text)| cut(file, text)) {
            all.entry(found.kind).or_default().insert(found.name, found);
        }
        all
    };
    ALL.get_or_init(read).get(&kind).unwrap_or(&NONE)
}

/// Cuts a file into its types, each with all lines up to the next one.
fn cut(file: &'static str, text: &'static str) -> Vec<BuiltinType> {
    let mut all: Vec<BuiltinType> = Vec::new();
    let (mut kind, mut end) = (None, 0);
    for (lines, line) in text.split_inclusive('\n').enumerate() {
        let start = end;
        end += line.len();
        let key = line.trim_start_matches(' ');
        let name = key.split([' ', ':']).next().unwrap_or_default();
        let indentation = if key.starts_with(char::is_alphabetic) {
            line.len() - key.len()
        } else {
            usize::MAX
        };
        if indentation == 0 {
            let section = SECTIONS.iter().find(|(_, section, _)| *section == name);
            kind = section.map(|(kind, _, _)| *kind);
        }
        let Some(kind) = kind.filter(|_| indentation > 0) else {
            continue;
        };
        match all.last_mut().filter(|last| last.kind == kind) {
            Some(last) if indentation != 2 || last.name == name => {
                last.text = &text[start - last.text.len()..end];
            }
            _ if indentation == 2 => all.push(BuiltinType {
                kind,
                name,
                file,
                text: &text[start..end],
                lines,
                in_version: [const { OnceLock::new() }; VERSIONS.len()],
            }),
            _ => {}
        }
    }
    all
}

impl BuiltinType {
    /// The type in a version as in the standard, without our differences.
    fn as_published(&self, version: Version) -> Node {
        let declarations = read(self.file, self.text).map(|mut declarations| {
            move_down(&mut declarations, self.lines);
            type_in(declarations.entries(), version)
        });
        declarations
            .flatten()
            .unwrap_or_else(|| text("", &Span::file(self.file)))
    }
}

/// Adds a number of lines to all positions in a node.
fn move_down(node: &mut Node, lines: usize) {
    node.span.line += lines;
    match &mut node.value {
        Value::Scalar { .. } => {}
        Value::Sequence(items) => items.iter_mut().for_each(|item| move_down(item, lines)),
        Value::Mapping(entries) => {
            for (key, value) in entries {
                move_down(key, lines);
                move_down(value, lines);
            }
        }
    }
}

/// Applies every difference to a type.
pub(super) fn apply_differences(name: &str, node: &mut Node) {
    for types in differences().filter_map(|difference| difference.get("types")) {
        if let Some(change) = types.get(name) {
            change_node(node, change);
        }
    }
}

/// Where we require less than the standard; each entry is `{why, types}`.
pub(super) fn differences() -> impl Iterator<Item = &'static Node> {
    static READ: OnceLock<Option<Node>> = OnceLock::new();
    let all = READ
        .get_or_init(|| read(DIFFERENCES.0, DIFFERENCES.1))
        .as_ref();
    all.and_then(|all| all.get("differences"))
        .map(Node::items)
        .unwrap_or_default()
        .iter()
}

fn read(name: &str, text: &str) -> Option<Node> {
    parse(text, name, &Limits::default(), &mut Sink::default())
}

/// Sets the leaves of a change; branches that the node lacks are not created.
pub(super) fn change_node(node: &mut Node, change: &Node) {
    let Value::Mapping(entries) = &mut node.value else {
        return;
    };
    for (name, value) in change.named() {
        let found = entries
            .iter_mut()
            .find(|(key, _)| key.as_str() == Some(name));
        match found {
            Some((_, inner)) if value.is_mapping() => change_node(inner, value),
            Some((_, inner)) => *inner = value.clone(),
            None if value.is_mapping() => {}
            None => entries.push((text(name, &value.span), value.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tagged::is_tag;
    use super::super::types::Types;
    use super::*;

    /// Parses a file, which must have neither errors nor warnings.
    fn parsed((name, text): &(&str, &str)) -> Node {
        let mut sink = Sink::default();
        let file = parse(text, name, &Limits::default(), &mut sink);
        assert_eq!(sink.finish().map(|warnings| warnings.len()), Ok(0));
        file.unwrap()
    }

    /// The files as they are, in all versions.
    fn files() -> impl Iterator<Item = Node> {
        TEXTS.iter().map(parsed)
    }

    #[test]
    fn built_in_types_are_valid_in_every_version() {
        for version in Version::all() {
            let mut sink = Sink::default();
            let types = Types::collect(&[], Some(version), &mut sink);
            assert_eq!(sink.finish().map(|warnings| warnings.len()), Ok(0));
            // Declarations of other versions may refer to types that this one lacks, but not to unknown ones.
            let mut sink = Sink::default();
            types.check_builtin(&mut sink);
            assert!(!sink.failed(), "{}: {:?}", version.name(), sink.finish());
        }
        assert_eq!(files().count(), TEXTS.len());
        assert!(parsed(&DIFFERENCES).get("differences").is_some());
    }

    #[test]
    fn the_types_are_those_of_the_files_with_their_positions() {
        let mut compared = 0;
        for file in files() {
            for (kind, section, _) in SECTIONS {
                let all = file.get(section).map(Node::entries).unwrap_or_default();
                for declarations in all.chunk_by(|one, next| name_of(one) == name_of(next)) {
                    let name = name_of(&declarations[0]);
                    let found = &types(kind)[name];
                    assert_eq!(found.file, &*file.span.file, "`{name}` is declared twice");
                    for version in Version::all() {
                        let expected = type_in(declarations, version);
                        assert_eq!(Some(found.as_published(version)), expected);
                    }
                    compared += 1;
                }
            }
        }
        assert_eq!(
            compared,
            SECTIONS
                .iter()
                .map(|(kind, ..)| count(*kind))
                .sum::<usize>()
        );
        assert!(compared > 200, "only {compared} types");
    }

    fn name_of((key, _): &(Node, Node)) -> &str {
        key.as_str().unwrap().split(' ').next().unwrap()
    }

    #[test]
    fn every_version_tag_is_valid() {
        fn tags(node: &Node, seen: &mut usize) {
            for (key, value) in node.entries() {
                if let Some((_, range)) = key.as_str().unwrap_or_default().split_once(" @") {
                    assert!(is_tag(range), "{}: `{range}`", key.span);
                    *seen += 1;
                }
                tags(value, seen);
            }
            node.items().iter().for_each(|item| tags(item, seen));
        }
        let mut seen = 0;
        for file in files() {
            tags(&file, &mut seen);
        }
        assert!(seen > 200, "only {seen} tags");
    }
}

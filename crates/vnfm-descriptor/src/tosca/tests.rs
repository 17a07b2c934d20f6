//! Compares the built-in types with those that ETSI published, in every version.
//!
//! `VNFM_SOL_DATA` is the folder of the published files (default: `../shared/sol` next to the workspace). Without
//! them the comparison prints that it is skipped, and fails only with `VNFM_REQUIRE_LIVE=1`. The allowed
//! differences, `schemas/sol001/differences.yaml`, are applied to both sides.

use super::builtin;
use super::tagged::{ELSEWHERE_KEY, TARGETS_ELSEWHERE_KEY, VERSIONS, VERSIONS_KEY, Version};
use crate::finding::Span;
use crate::limits::Limits;
use crate::sink::Sink;
use crate::yaml::Node;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const SECTIONS: [&str; 8] = [
    "artifact_types",
    "data_types",
    "capability_types",
    "interface_types",
    "relationship_types",
    "node_types",
    "group_types",
    "policy_types",
];

/// The folder of the published files; prints why and returns `None` if it does not exist.
fn published() -> Option<PathBuf> {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/sol");
    let root = std::env::var_os("VNFM_SOL_DATA").map_or_else(default, PathBuf::from);
    let path = root.join("sol001");
    if path.is_dir() {
        return Some(path);
    }
    let reason = format!(
        "skipped: `{}` does not exist; set VNFM_SOL_DATA to the folder of the published data",
        path.display()
    );
    assert!(
        std::env::var("VNFM_REQUIRE_LIVE").as_deref() != Ok("1"),
        "{reason}"
    );
    eprintln!("{reason}");
    None
}

fn parse(text: &str, name: &str) -> Node {
    let mut sink = Sink::default();
    crate::yaml::parse(text, name, &Limits::default(), &mut sink)
        .unwrap_or_else(|| panic!("{name}: {:?}", sink.finish()))
}

/// In version 2.5.1 a list continues in the first column, which YAML forbids; this indents it.
fn indent_lists(text: &str) -> String {
    let is_continued = |line: &str| line.starts_with(char::is_alphabetic) && !line.contains(':');
    let lines = text.trim_start_matches('\u{feff}').lines();
    let indented = |line: &str| {
        if is_continued(line) {
            format!("{:20}{line}", "")
        } else {
            line.into()
        }
    };
    lines.map(indented).collect::<Vec<String>>().join("\n")
}

/// A file with all built-in types of a version.
fn built_in(version: Version) -> Node {
    let mapping = |entries| Node {
        value: crate::yaml::Value::Mapping(entries),
        span: Span::file("builtin:"),
    };
    let key = |name: &str| super::tagged::text(name, &Span::file("builtin:"));
    let sections = super::kind::SECTIONS.map(|(kind, section, _)| {
        let types = builtin::names(kind).filter_map(|name| {
            let node = builtin::get(kind, name, version)?;
            Some((key(name), node.clone()))
        });
        (key(section), mapping(types.collect()))
    });
    mapping(sections.into())
}

/// Applies the allowed differences to a file of types.
fn apply_differences(file: &mut Node) {
    use crate::yaml::Value::Mapping;
    let Mapping(sections) = &mut file.value else {
        return;
    };
    for (_, types) in sections {
        let Mapping(types) = &mut types.value else {
            continue;
        };
        for (name, node) in types {
            builtin::apply_differences(name.as_str().unwrap_or_default(), node);
        }
    }
}

/// Types by section and name, in a normal form.
fn tables<'n>(files: impl IntoIterator<Item = &'n Node>) -> BTreeMap<(String, String), Value> {
    let mut all = BTreeMap::new();
    for file in files {
        for section in SECTIONS {
            for (name, node) in file.get(section).into_iter().flat_map(Node::named) {
                if node.get(VERSIONS_KEY).is_none() && name.contains(".nfv.") {
                    all.insert(
                        (section.to_owned(), name.to_owned()),
                        normalise_type(section, node),
                    );
                }
            }
        }
    }
    all
}

/// A type without descriptions; lists of single mappings become mappings, defaults are removed.
fn normalise_type(section: &str, node: &Node) -> Value {
    let mut out = Map::new();
    for (key, value) in node.named() {
        let value = match key {
            "description" | TARGETS_ELSEWHERE_KEY => continue,
            "requirements" => value
                .items()
                .iter()
                .flat_map(Node::named)
                .collect::<Vec<_>>(),
            "properties" | "attributes" | "capabilities" | "interfaces" | "operations"
            | "notifications" => value.named().collect(),
            _ if section == "interface_types" && value.is_mapping() => vec![(key, value)],
            _ => {
                out.insert(key.to_owned(), value.to_json());
                continue;
            }
        };
        let direct = value.len() == 1 && value[0].0 == key;
        let under = if direct { "operations" } else { key };
        let entries = out.entry(under).or_insert_with(|| json!({}));
        for (name, declared) in value.into_iter().filter(|(_, node)| is_own(node)) {
            entries[name] = declaration(declared);
        }
    }
    out.retain(|_, value| *value != json!({}));
    Value::Object(out)
}

fn is_own(node: &Node) -> bool {
    node.get(VERSIONS_KEY).is_none()
}

fn declaration(node: &Node) -> Value {
    if let Some(kind) = node.as_str() {
        return json!({"type": kind});
    }
    let mut out = Map::new();
    for (key, value) in node.named() {
        match key {
            "description" | ELSEWHERE_KEY => {}
            "required" if value.as_bool() == Some(true) => {}
            "inputs" => {
                let inputs: Map<String, Value> = value
                    .named()
                    .map(|(name, input)| (name.to_owned(), declaration(input)))
                    .collect();
                out.insert(key.to_owned(), Value::Object(inputs));
            }
            "entry_schema" => {
                out.insert(key.to_owned(), declaration(value));
            }
            _ => {
                out.insert(key.to_owned(), value.to_json());
            }
        }
    }
    Value::Object(out)
}

/// Versions of which the published files are not in the folder: 5.4.1 is written from projects that cite its clauses.
const NOT_IN_FOLDER: [&str; 1] = ["5.4.1"];

#[test]
fn the_types_of_each_version_are_the_published_ones() {
    let Some(folder) = published() else { return };
    let mut wrong = Vec::new();
    let mut compared = 0;
    for version in Version::all().filter(|version| !NOT_IN_FOLDER.contains(&version.name())) {
        let read = |name: &str| {
            let path = folder.join(version.name()).join(name);
            std::fs::read_to_string(&path)
                .ok()
                .map(|text| parse(&indent_lists(&text), name))
        };
        let names = [
            "etsi_nfv_sol001_common_types.yaml",
            "etsi_nfv_sol001_vnfd_types.yaml",
        ];
        let mut files: Vec<Node> = names.iter().filter_map(|name| read(name)).collect();
        assert!(
            !files.is_empty(),
            "no published types of {}",
            version.name()
        );
        files.iter_mut().for_each(apply_differences);
        let (theirs, ours) = (tables(&files), tables(&[built_in(version)]));
        compared += theirs.len();
        let names = theirs
            .keys()
            .chain(ours.keys())
            .collect::<std::collections::BTreeSet<_>>();
        for name in names {
            let (theirs, ours) = (theirs.get(name), ours.get(name));
            if theirs != ours {
                wrong.push(format!(
                    "{} {}:\n  published {}\n  ours      {}",
                    version.name(),
                    name.1,
                    theirs.map_or_else(|| "-".to_owned(), ToString::to_string),
                    ours.map_or_else(|| "-".to_owned(), ToString::to_string)
                ));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "{} types differ:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(compared > 900, "only {compared} types were compared");
    println!(
        "{compared} types of {} versions are the published ones",
        VERSIONS.len() - NOT_IN_FOLDER.len()
    );
}

/// Differences that change no version must be removed.
#[test]
fn every_difference_has_an_effect() {
    let kinds = super::kind::SECTIONS;
    for (number, difference) in builtin::differences().enumerate() {
        assert!(
            difference.get("why").is_some(),
            "difference {number} has no reason"
        );
        for (name, change) in difference.get("types").into_iter().flat_map(Node::named) {
            for leaf in leaves(change) {
                let differs = Version::all().any(|version| {
                    kinds.iter().any(|(kind, section, _)| {
                        let Some(mut node) = builtin::as_published(*kind, name, version) else {
                            return false;
                        };
                        let before = normalise_type(section, &node);
                        builtin::change_node(&mut node, &leaf);
                        let is_compared = is_own(&node) && name.contains(".nfv.");
                        is_compared && before != normalise_type(section, &node)
                    })
                });
                assert!(
                    differs,
                    "`{name}` in difference {number} changes nothing: {leaf:?}"
                );
            }
        }
    }
}

/// The leaves of a change, each as a separate change.
fn leaves(change: &Node) -> Vec<Node> {
    use crate::yaml::Value;
    let around = |key: &Node, inner: Node| Node {
        value: Value::Mapping(vec![(key.clone(), inner)]),
        span: change.span.clone(),
    };
    if !change.is_mapping() {
        return vec![change.clone()];
    }
    let entries = change.entries().iter();
    entries
        .flat_map(|(key, value)| leaves(value).into_iter().map(move |leaf| around(key, leaf)))
        .collect()
}

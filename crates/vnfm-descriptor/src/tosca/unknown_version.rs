//! Types of a SOL001 version that is not built in: the package's own type files add to our newest version.
//!
//! ```text
//! type that only the file declares           added
//! property, requirement, operation, …        added to our type
//! property whose type differs                the file's declaration, since the package is written for it
//! everything else                            ours
//! ```

use super::builtin;
use super::documents::{Document, Origin};
use super::kind::{Kind, SECTIONS};
use super::tagged::{VERSIONS_KEY, Version};
use crate::yaml::{Node, Value};
use std::collections::{BTreeMap, BTreeSet};

/// Files whose types are added; further ones are like copies of a known version. The standard has four files, and each
/// one's types contain those of the ones before.
const FILES: usize = 4;

/// Adds the built-in types to those of documents whose version is unknown.
pub(super) fn extend(documents: &mut [Document], version: Version) {
    if !documents
        .iter()
        .any(|document| document.origin == Origin::UnknownVersion)
    {
        return;
    }
    let mut known: BTreeMap<(Kind, String), Node> = BTreeMap::new();
    let of_unknown_version = documents
        .iter_mut()
        .filter(|document| document.origin == Origin::UnknownVersion);
    for (number, document) in of_unknown_version.enumerate() {
        if number >= FILES {
            document.origin = Origin::Copy;
            continue;
        }
        for (kind, section, _) in SECTIONS {
            let Some(types) = entry(&mut document.root, section) else {
                continue;
            };
            let Value::Mapping(types) = &mut types.value else {
                continue;
            };
            for (name, theirs) in types {
                let Some(name) = name.as_str() else { continue };
                let Some(builtin) = builtin::get(kind, name, version) else {
                    continue;
                };
                let ours = known.entry((kind, name.to_owned()));
                let ours = ours.or_insert_with(|| builtin.clone());
                merge(ours, theirs);
                *theirs = ours.clone();
            }
        }
    }
}

/// Adds to our type what only theirs declares.
fn merge(ours: &mut Node, theirs: &Node) {
    for section in ["properties", "attributes"] {
        each(ours, theirs, section, |ours, theirs| {
            let same = ["type", "entry_schema"]
                .iter()
                .all(|key| text(ours.get(key)) == text(theirs.get(key)));
            let elsewhere = ours.get(VERSIONS_KEY).is_some();
            if !same || elsewhere {
                *ours = theirs.clone();
            }
        });
    }
    for section in ["capabilities", "artifacts", "inputs", "operations"] {
        each(ours, theirs, section, |_, _| ());
    }
    each(ours, theirs, "interfaces", |ours, theirs| {
        each_entry(ours, theirs, &mut |_, _| ()); // operations
    });
    for section in ["requirements", "targets", "members"] {
        append(ours, theirs, section);
    }
    if let Value::Mapping(entries) = &mut ours.value {
        // If only other versions declare our type: this one does too.
        entries.retain(|(key, _)| key.as_str() != Some(VERSIONS_KEY));
    }
    if ours.get("derived_from").is_none() {
        add(ours, theirs, "derived_from");
    }
}

/// The name of a type, alone or under `type`.
fn text(node: Option<&Node>) -> Option<&str> {
    node.and_then(|node| node.as_str().or_else(|| node.get("type")?.as_str()))
}

/// Calls `both` with each entry of a section that both declare; one that only theirs declares is added.
fn each(ours: &mut Node, theirs: &Node, section: &str, mut both: impl FnMut(&mut Node, &Node)) {
    let Some(declared) = theirs.get(section) else {
        return;
    };
    match entry(ours, section) {
        Some(known) if known.is_mapping() => each_entry(known, declared, &mut both),
        Some(_) => (),
        None => add(ours, theirs, section),
    }
}

fn each_entry(ours: &mut Node, theirs: &Node, both: &mut impl FnMut(&mut Node, &Node)) {
    let Value::Mapping(entries) = &mut ours.value else {
        return;
    };
    let names = entries.iter().enumerate();
    let indices: BTreeMap<String, usize> = names
        .filter_map(|(index, (key, _))| Some((key.as_str()?.to_owned(), index)))
        .collect();
    for (key, node) in theirs.entries() {
        let known = key.as_str().and_then(|name| indices.get(name));
        match known.and_then(|index| entries.get_mut(*index)) {
            Some((_, known)) => both(known, node),
            None => entries.push((key.clone(), node.clone())),
        }
    }
}

/// Adds the items of a list that ours does not have: requirements by name, others by value.
fn append(ours: &mut Node, theirs: &Node, section: &str) {
    let items = theirs.get(section).map(Node::items).unwrap_or_default();
    let Some(known) = entry(ours, section) else {
        return add(ours, theirs, section);
    };
    let Value::Sequence(known) = &mut known.value else {
        return;
    };
    let name = |item: &Node| {
        let key = item.named().next().map(|(key, _)| key.to_owned());
        key.or_else(|| item.as_str().map(str::to_owned))
    };
    let names: BTreeSet<Option<String>> = known.iter().map(name).collect();
    let new = items.iter().filter(|item| !names.contains(&name(item)));
    known.extend(new.cloned());
}

/// Adds an entry of theirs to ours.
fn add(ours: &mut Node, theirs: &Node, key: &str) {
    let found = theirs
        .entries()
        .iter()
        .find(|(name, _)| name.as_str() == Some(key));
    if let (Value::Mapping(entries), Some(found)) = (&mut ours.value, found) {
        entries.push(found.clone());
    }
}

/// The value of a key.
fn entry<'n>(node: &'n mut Node, key: &str) -> Option<&'n mut Node> {
    let Value::Mapping(entries) = &mut node.value else {
        return None;
    };
    entries
        .iter_mut()
        .find(|(name, _)| name.as_str() == Some(key))
        .map(|(_, value)| value)
}

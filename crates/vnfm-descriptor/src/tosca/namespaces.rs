//! Names of types in files that are imported with a `namespace_prefix` (TOSCA 1.3, 3.6.8 and 5.3).
//!
//! ```text
//! imports: [{file: acme.yaml, namespace_prefix: acme}, {file: other.yaml, namespace_prefix: other}]
//! type: acme:Server      the `Server` of acme.yaml; in acme.yaml itself it is `Server`
//! type: other:Server     that of other.yaml
//! ```
//! Most names occur once, so types live in one namespace and a prefix is taken off. Only where several files declare
//! the same name, those behind a prefix keep it, in their declaration and wherever they are meant.

use super::documents::Document;
use crate::yaml::{Node, Value};
use std::collections::{BTreeMap, BTreeSet};

/// What a file imports.
pub(super) struct Import {
    /// The prefix of its names, if it has one.
    pub(super) prefix: Option<String>,
    /// The file in the package; none where the types are built in.
    pub(super) file: Option<String>,
}

/// Keys under which types are named.
const TYPE_NAMES: &[&str] = &[
    "type",
    "derived_from",
    "node_type",
    "capability",
    "node",
    "relationship",
    "entry_schema",
    "key_schema",
    "targets",
    "members",
    "valid_source_types",
    "valid_target_types",
];

/// Keys of [`TYPE_NAMES`] under which node templates and groups are named, too.
const TEMPLATES_TOO: &[&str] = &["node", "targets", "members"];

/// Keys of a template below which there are values.
const VALUES: &[&str] = &["properties", "attributes", "inputs", "metadata"];

/// Keys of a topology below which there are names.
const NAMED: &[&str] = &["node_templates", "groups", "policies"];

/// The prefix of an import.
pub(super) fn prefix_of(import: &Node) -> Option<String> {
    let nested = import
        .entries()
        .first()
        .and_then(|(_, only)| only.get("namespace_prefix"));
    import
        .get("namespace_prefix")
        .or(nested)
        .and_then(Node::as_str)
        .map(str::to_owned)
}

/// Makes the names of types the same in all files; `imports` are those of each document.
pub(super) fn resolve(documents: &mut [Document], imports: &[Vec<Import>]) {
    if imports
        .iter()
        .flatten()
        .all(|import| import.prefix.is_none())
    {
        return;
    }
    let names = Names::of(documents, imports);
    for (at, document) in documents.iter_mut().enumerate() {
        let scope = Scope {
            names: &names,
            at,
            templates: templates(&document.root),
        };
        scope.declarations(&mut document.root);
        scope.references(&mut document.root, Place::Declared);
    }
}

/// The node templates and groups of a file.
fn templates(root: &Node) -> BTreeSet<String> {
    let sections = ["node_templates", "groups"];
    let all = sections
        .iter()
        .filter_map(|section| root.at(&["topology_template", section]));
    all.flat_map(Node::named)
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// What a document imports: places of documents in their order.
#[derive(Default)]
struct Reach {
    plain: Vec<usize>,
    /// By prefix; one whose types are built in reaches no document.
    behind: BTreeMap<String, Vec<usize>>,
}

impl Reach {
    fn of(imports: &[Import], places: &BTreeMap<&str, usize>) -> Self {
        let mut reach = Reach::default();
        let mut seen = BTreeSet::new();
        for import in imports {
            let place = import
                .file
                .as_ref()
                .and_then(|file| places.get(file.as_str()).copied());
            let to = match &import.prefix {
                None => &mut reach.plain,
                Some(prefix) => reach.behind.entry(prefix.clone()).or_default(),
            };
            to.extend(place.filter(|place| seen.insert((&import.prefix, *place))));
        }
        reach
    }
}

/// Who declares which names, and what they are called in all files.
struct Names {
    /// What each document imports.
    reach: Vec<Reach>,
    /// What each document declares.
    declared: Vec<BTreeSet<String>>,
    /// The prefix that keeps a document's names apart from others.
    labels: Vec<Option<String>>,
    /// Names that several documents declare.
    several: BTreeSet<String>,
}

impl Names {
    fn of(documents: &[Document], imports: &[Vec<Import>]) -> Self {
        let paths = documents.iter().enumerate();
        let places: BTreeMap<&str, usize> = paths
            .map(|(at, document)| (document.path.as_str(), at))
            .collect();
        let reach: Vec<Reach> = imports.iter().map(|all| Reach::of(all, &places)).collect();
        let declared: Vec<BTreeSet<String>> = documents.iter().map(declared).collect();
        let (mut once, mut several) = (BTreeSet::new(), BTreeSet::new());
        for name in declared.iter().flatten() {
            if !once.insert(name) {
                several.insert(name.clone());
            }
        }
        let labels = labels(imports, &places);
        Names {
            reach,
            declared,
            labels,
            several,
        }
    }

    /// What a name that stands in a document is called in all files; `None` where it stays as it is.
    fn meant(&self, at: usize, written: &str) -> Option<String> {
        let Some((prefix, name)) = written.split_once(':') else {
            return self.visible(at, written, &mut BTreeSet::new());
        };
        let files = self.reach[at].behind.get(prefix)?;
        let found = files
            .iter()
            .find_map(|file| self.visible(*file, name, &mut BTreeSet::new()));
        Some(found.unwrap_or_else(|| name.to_owned()))
    }

    /// A name as a document sees it: its own types first, then those of its imports without a prefix.
    fn visible(&self, at: usize, name: &str, seen: &mut BTreeSet<usize>) -> Option<String> {
        if !self.several.contains(name) || !seen.insert(at) {
            return None;
        }
        if self.declared[at].contains(name) {
            return Some(self.called(at, name));
        }
        self.reach[at]
            .plain
            .iter()
            .find_map(|file| self.visible(*file, name, seen))
    }

    /// What a declaration of a document is called.
    fn called(&self, at: usize, name: &str) -> String {
        match &self.labels[at] {
            Some(label) if self.several.contains(name) => format!("{label}:{name}"),
            _ => name.to_owned(),
        }
    }
}

/// The names of a file's types, of whatever kind; those of a copy of the standard's are known.
fn declared(document: &Document) -> BTreeSet<String> {
    if document.copy {
        return BTreeSet::new();
    }
    let sections = document
        .root
        .named()
        .filter(|(section, _)| section.ends_with("_types"));
    sections
        .flat_map(|(_, types)| types.named())
        .map(|(name, _)| name.to_owned())
        .collect()
}

/// The first prefix by which each document is reached, made different from the others; what is imported without one
/// has that of who imports it, and the entry has none.
fn labels(imports: &[Vec<Import>], places: &BTreeMap<&str, usize>) -> Vec<Option<String>> {
    let mut labels: Vec<Option<String>> = vec![None; imports.len()];
    let mut known = vec![false; imports.len()];
    known.iter_mut().take(1).for_each(|entry| *entry = true);
    let mut taken = BTreeSet::new();
    // Documents stand in the order in which they are reached: who imports one has its label already.
    for (from, of) in imports.iter().enumerate() {
        for import in of {
            let place = import
                .file
                .as_ref()
                .and_then(|file| places.get(file.as_str()).copied());
            let Some(to) = place.filter(|to| !std::mem::replace(&mut known[*to], true)) else {
                continue;
            };
            labels[to] = match &import.prefix {
                None => labels[from].clone(),
                Some(prefix) if taken.insert(prefix.clone()) => Some(prefix.clone()),
                // What is made up may be another file's prefix, too: then the namespaces would merge.
                Some(prefix) => {
                    let last = to + taken.len(); // so many are taken, so one of these is free
                    let made_up = |number| format!("{prefix}{number}");
                    (to..=last)
                        .map(made_up)
                        .find(|label| taken.insert(label.clone()))
                }
            };
        }
    }
    labels
}

/// What the keys of a mapping are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Those of a file, or of something that it declares.
    Declared,
    /// Those of a topology.
    Topology,
    /// Names of node templates, groups or policies.
    Names,
    /// Those of a template, below its name.
    Assigned,
}

impl Place {
    /// What is below a key; `None` for values, in which no types are named.
    fn below(self, key: &str) -> Option<Place> {
        match self {
            Place::Declared if key == "default" => None,
            Place::Declared if key == "topology_template" => Some(Place::Topology),
            Place::Topology if NAMED.contains(&key) => Some(Place::Names),
            Place::Declared | Place::Topology => Some(Place::Declared),
            Place::Assigned if VALUES.contains(&key) => None,
            Place::Names | Place::Assigned => Some(Place::Assigned),
        }
    }
}

/// The names of one document.
struct Scope<'n> {
    names: &'n Names,
    at: usize,
    templates: BTreeSet<String>,
}

impl Scope<'_> {
    /// Gives what the file declares its name in all files.
    fn declarations(&self, root: &mut Node) {
        let Value::Mapping(sections) = &mut root.value else {
            return;
        };
        for (section, types) in sections {
            let declares = section
                .as_str()
                .is_some_and(|name| name.ends_with("_types"));
            if let (true, Value::Mapping(types)) = (declares, &mut types.value) {
                for (key, _) in types {
                    if let Value::Scalar { text, .. } = &mut key.value {
                        *text = self.names.called(self.at, text);
                    }
                }
            }
        }
    }

    /// Gives every type that is named its name in all files; texts, and names of node templates, are left alone.
    fn references(&self, node: &mut Node, place: Place) {
        match &mut node.value {
            Value::Scalar { .. } => {}
            Value::Sequence(items) => {
                for item in items {
                    self.references(item, place);
                }
            }
            Value::Mapping(entries) => {
                for (key, value) in entries {
                    let name = key.as_str().unwrap_or_default();
                    let Some(below) = place.below(name) else {
                        continue;
                    };
                    if place != Place::Names && TYPE_NAMES.contains(&name) {
                        self.reference(name, value);
                    }
                    if place == Place::Declared && name == "capabilities" {
                        self.short(value);
                    }
                    self.references(value, below);
                }
            }
        }
    }

    /// Capabilities that are declared by their type's name alone.
    fn short(&self, capabilities: &mut Node) {
        let Value::Mapping(entries) = &mut capabilities.value else {
            return;
        };
        for (_, kind) in entries
            .iter_mut()
            .filter(|(_, kind)| kind.as_str().is_some())
        {
            self.reference("capability", kind);
        }
    }

    /// A name, or a list of names.
    fn reference(&self, key: &str, value: &mut Node) {
        match &mut value.value {
            Value::Sequence(items) => {
                for item in items {
                    self.reference(key, item);
                }
            }
            Value::Scalar { text, .. } => {
                if TEMPLATES_TOO.contains(&key) && self.templates.contains(text) {
                    return;
                }
                if let Some(meant) = self.names.meant(self.at, text) {
                    *text = meant;
                }
            }
            Value::Mapping(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Import, labels};
    use std::collections::BTreeMap;

    #[test]
    fn a_label_that_is_made_up_is_no_other_files() {
        let places = BTreeMap::from([("1", 1), ("2", 2), ("3", 3)]);
        for (given, expected) in [
            ([("a", "1"), ("a", "2"), ("a2", "3")], ["a", "a2", "a23"]),
            ([("a2", "1"), ("a", "3"), ("a", "2")], ["a2", "a3", "a"]),
        ] {
            let import = |(prefix, file): (&str, &str)| Import {
                prefix: Some(prefix.to_owned()),
                file: Some(file.to_owned()),
            };
            let imports = [Vec::from(given.map(import)), vec![], vec![], vec![]];
            let made = labels(&imports, &places);
            assert_eq!(made[0], None);
            let made: Vec<&str> = made.iter().flatten().map(String::as_str).collect();
            assert_eq!(made, expected);
        }
    }
}

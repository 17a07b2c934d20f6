//! Names of types in files that are imported with a `namespace_prefix` (TOSCA 1.3, 3.6.8 and 5.3).
//!
//! ```text
//! imports: [{file: acme.yaml, namespace_prefix: acme}, {file: other.yaml, namespace_prefix: other}]
//! type: acme:Server      the `Server` of acme.yaml, which calls it `Server` itself
//! type: other:Server     the one of other.yaml
//! ```
//! Most names are unique, so all types share one namespace and prefixes are removed. Only if several files declare the
//! same name does a prefixed type keep its prefix, in its declaration and in every reference to it.

use super::documents::{Document, Origin};
use crate::yaml::{Node, Value};
use std::collections::{BTreeMap, BTreeSet};

/// An import of a file.
pub(super) struct Import {
    pub(super) prefix: Option<String>,
    /// The file in the package; `None` if the types are built in.
    pub(super) file: Option<String>,
}

/// Keys whose values name types.
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

/// Those of [`TYPE_NAMES`] whose values may also name node templates and groups.
const TYPE_OR_TEMPLATE_NAMES: &[&str] = &["node", "targets", "members"];

/// Keys of a template that contain values.
const VALUES: &[&str] = &["properties", "attributes", "inputs", "metadata"];

/// Keys of a topology that contain named templates.
const NAMED: &[&str] = &["node_templates", "groups", "policies"];

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

/// Makes the names of types unique across all files; `imports` are those of each document.
pub(super) fn resolve(documents: &mut [Document], imports: &[Vec<Import>]) {
    if imports
        .iter()
        .flatten()
        .all(|import| import.prefix.is_none())
    {
        return;
    }
    let names = Names::collect(documents, imports);
    for (at, document) in documents.iter_mut().enumerate() {
        let scope = Scope {
            names: &names,
            at,
            templates: templates(&document.root),
        };
        scope.declarations(&mut document.root);
        scope.references(&mut document.root, Position::Declared);
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

/// The documents that a document imports, by index.
#[derive(Default)]
struct Reach {
    plain: Vec<usize>,
    /// By prefix; empty if its types are built in.
    prefixed: BTreeMap<String, Vec<usize>>,
}

impl Reach {
    fn collect(imports: &[Import], indices: &BTreeMap<&str, usize>) -> Self {
        let mut reach = Reach::default();
        let mut seen = BTreeSet::new();
        for import in imports {
            let index = import
                .file
                .as_ref()
                .and_then(|file| indices.get(file.as_str()).copied());
            let to = match &import.prefix {
                None => &mut reach.plain,
                Some(prefix) => reach.prefixed.entry(prefix.clone()).or_default(),
            };
            to.extend(index.filter(|index| seen.insert((&import.prefix, *index))));
        }
        reach
    }
}

/// The types that each document declares, and their unique names.
struct Names {
    /// The imports of each document.
    reach: Vec<Reach>,
    /// The types of each document.
    declared: Vec<BTreeSet<String>>,
    /// The prefix that distinguishes a document's names from others.
    labels: Vec<Option<String>>,
    /// Names that several documents declare.
    several: BTreeSet<String>,
}

impl Names {
    fn collect(documents: &[Document], imports: &[Vec<Import>]) -> Self {
        let paths = documents.iter().enumerate();
        let indices: BTreeMap<&str, usize> = paths
            .map(|(at, document)| (document.path.as_str(), at))
            .collect();
        let reach: Vec<Reach> = imports
            .iter()
            .map(|all| Reach::collect(all, &indices))
            .collect();
        let declared: Vec<BTreeSet<String>> = documents.iter().map(declared).collect();
        let (mut once, mut several) = (BTreeSet::new(), BTreeSet::new());
        for name in declared.iter().flatten() {
            if !once.insert(name) {
                several.insert(name.clone());
            }
        }
        let labels = labels(imports, &indices);
        Names {
            reach,
            declared,
            labels,
            several,
        }
    }

    /// The unique name of a type that a document refers to; `None` if it is unchanged.
    fn unique_name(&self, at: usize, written: &str) -> Option<String> {
        let Some((prefix, name)) = written.split_once(':') else {
            return self.visible(at, written, &mut BTreeSet::new());
        };
        let files = self.reach[at].prefixed.get(prefix)?;
        let found = files
            .iter()
            .find_map(|file| self.visible(*file, name, &mut BTreeSet::new()));
        Some(found.unwrap_or_else(|| name.to_owned()))
    }

    /// Resolves a name as a document sees it: its own types first, then those of its imports without a prefix.
    fn visible(&self, at: usize, name: &str, seen: &mut BTreeSet<usize>) -> Option<String> {
        if !self.several.contains(name) || !seen.insert(at) {
            return None;
        }
        if self.declared[at].contains(name) {
            return Some(self.declared_name(at, name));
        }
        self.reach[at]
            .plain
            .iter()
            .find_map(|file| self.visible(*file, name, seen))
    }

    /// The unique name of a type that a document declares.
    fn declared_name(&self, at: usize, name: &str) -> String {
        match &self.labels[at] {
            Some(label) if self.several.contains(name) => format!("{label}:{name}"),
            _ => name.to_owned(),
        }
    }
}

/// The names of a file's types, of every kind; none for a copy of the standard's types.
fn declared(document: &Document) -> BTreeSet<String> {
    if document.origin != Origin::Package {
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

/// The first prefix with which each document is imported, made unique. A document imported without a
/// prefix has that of its importer; the entry has none.
fn labels(imports: &[Vec<Import>], indices: &BTreeMap<&str, usize>) -> Vec<Option<String>> {
    let mut labels: Vec<Option<String>> = vec![None; imports.len()];
    let mut known = vec![false; imports.len()];
    known.iter_mut().take(1).for_each(|entry| *entry = true);
    let mut taken = BTreeSet::new();
    // Documents are ordered by when they are reached, so an importer always has its label already.
    for (from, imported) in imports.iter().enumerate() {
        for import in imported {
            let index = import
                .file
                .as_ref()
                .and_then(|file| indices.get(file.as_str()).copied());
            let Some(to) = index.filter(|to| !std::mem::replace(&mut known[*to], true)) else {
                continue;
            };
            labels[to] = match &import.prefix {
                None => labels[from].clone(),
                Some(prefix) if taken.insert(prefix.clone()) => Some(prefix.clone()),
                // A generated label must not equal another file's prefix, or the namespaces would merge.
                Some(prefix) => {
                    let last = to + taken.len(); // one more candidate than labels taken, so one is free
                    let numbered = |number| format!("{prefix}{number}");
                    (to..=last)
                        .map(numbered)
                        .find(|label| taken.insert(label.clone()))
                }
            };
        }
    }
    labels
}

/// What the keys of a mapping stand for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Keys of a file or of a declaration.
    Declared,
    /// Keys of a topology, such as `node_templates`.
    Topology,
    /// Names of node templates, groups or policies.
    Names,
    /// Keys of a template, such as `type`.
    Assigned,
}

impl Position {
    /// The position below a key; `None` for values, which do not name types.
    fn below(self, key: &str) -> Option<Position> {
        match self {
            Position::Declared if key == "default" => None,
            Position::Declared if key == "topology_template" => Some(Position::Topology),
            Position::Topology if NAMED.contains(&key) => Some(Position::Names),
            Position::Declared | Position::Topology => Some(Position::Declared),
            Position::Assigned if VALUES.contains(&key) => None,
            Position::Names | Position::Assigned => Some(Position::Assigned),
        }
    }
}

/// The names visible in one document.
struct Scope<'n> {
    names: &'n Names,
    at: usize,
    templates: BTreeSet<String>,
}

impl Scope<'_> {
    /// Renames the types that the document declares.
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
                        *text = self.names.declared_name(self.at, text);
                    }
                }
            }
        }
    }

    /// Renames every reference to a type; texts and names of node templates are unchanged.
    fn references(&self, node: &mut Node, position: Position) {
        match &mut node.value {
            Value::Scalar { .. } => {}
            Value::Sequence(items) => {
                for item in items {
                    self.references(item, position);
                }
            }
            Value::Mapping(entries) => {
                for (key, value) in entries {
                    let name = key.as_str().unwrap_or_default();
                    let Some(below) = position.below(name) else {
                        continue;
                    };
                    if position != Position::Names && TYPE_NAMES.contains(&name) {
                        self.reference(name, value);
                    }
                    if position == Position::Declared && name == "capabilities" {
                        self.short_capabilities(value);
                    }
                    self.references(value, below);
                }
            }
        }
    }

    /// Renames capabilities declared by their type's name alone.
    fn short_capabilities(&self, capabilities: &mut Node) {
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

    /// Renames a name or a list of names.
    fn reference(&self, key: &str, value: &mut Node) {
        match &mut value.value {
            Value::Sequence(items) => {
                for item in items {
                    self.reference(key, item);
                }
            }
            Value::Scalar { text, .. } => {
                if TYPE_OR_TEMPLATE_NAMES.contains(&key) && self.templates.contains(text) {
                    return;
                }
                if let Some(unique) = self.names.unique_name(self.at, text) {
                    *text = unique;
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
    fn generated_labels_are_unique() {
        let indices = BTreeMap::from([("1", 1), ("2", 2), ("3", 3)]);
        for (given, expected) in [
            ([("a", "1"), ("a", "2"), ("a2", "3")], ["a", "a2", "a23"]),
            ([("a2", "1"), ("a", "3"), ("a", "2")], ["a2", "a3", "a"]),
        ] {
            let import = |(prefix, file): (&str, &str)| Import {
                prefix: Some(prefix.to_owned()),
                file: Some(file.to_owned()),
            };
            let imports = [Vec::from(given.map(import)), vec![], vec![], vec![]];
            let found = labels(&imports, &indices);
            assert_eq!(found[0], None);
            let found: Vec<&str> = found.iter().flatten().map(String::as_str).collect();
            assert_eq!(found, expected);
        }
    }
}

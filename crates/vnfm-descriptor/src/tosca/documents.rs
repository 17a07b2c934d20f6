//! The files of a descriptor: the entry, its imports, and the built-in types that it refers to.
//!
//! Each file is loaded once, so diamonds are harmless; a cycle is a warning. An import whose path or URL
//! has the name of one of ETSI's type files refers to the built-in types; nothing is ever fetched. A copy
//! under another name is recognized by its head: the built-in types take precedence, its other types are
//! added. Files of a version that is not built in are loaded too; `unknown_version` adds them to the newest. `namespaces` handles the prefixes of imports.

use super::namespaces::{self, Import, prefix_of};
use super::version::{StatedVersion, Version};
use crate::archive::Archive;
use crate::codes;
use crate::finding::{Finding, Span};
use crate::limits::Limits;
use crate::path::{base, folder, resolve};
use crate::sink::Sink;
use crate::yaml::{Node, Value, parse};
use std::collections::{BTreeMap, BTreeSet};

/// One YAML file of the descriptor.
pub struct Document {
    /// Its path in the package.
    pub path: String,
    /// Content of the file, parsed.
    pub root: Node,
    /// Whose types it declares.
    pub origin: Origin,
}

/// Whose types a file declares.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// Those of the package's author.
    Package,
    /// A copy of the standard's types, under any name: the built-in types take precedence.
    Copy,
    /// The standard's types in a version that is not built in: they add to the newest one.
    UnknownVersion,
}

/// The files, and the versions of SOL001 that their imports state.
pub(super) struct Loaded {
    /// All files, with the entry first.
    pub(super) documents: Vec<Document>,
    pub(super) versions: Vec<StatedVersion>,
}

const VERSIONS: &[&str] = &[
    "tosca_simple_yaml_1_0",
    "tosca_simple_yaml_1_1",
    "tosca_simple_yaml_1_2",
    "tosca_simple_yaml_1_3",
];

const KEYS: &[&str] = &[
    "tosca_definitions_version",
    "metadata",
    "description",
    "namespace",
    "dsl_definitions",
    "repositories",
    "imports",
    "artifact_types",
    "data_types",
    "capability_types",
    "interface_types",
    "relationship_types",
    "node_types",
    "group_types",
    "policy_types",
    "topology_template",
];

/// Loads the entry and everything that it imports, the entry first.
pub(super) fn load(
    archive: &Archive,
    entry: &str,
    limits: &Limits,
    sink: &mut Sink,
) -> Option<Loaded> {
    let (versions, edges, copies) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut loader = Loader {
        archive,
        limits,
        sink,
        versions,
        edges,
        copies,
    };
    let documents = loader.load(entry)?;
    cycles(entry, &loader.edges, loader.sink);
    let versions = loader.versions;
    let entry_loaded = documents.first().is_some_and(|first| first.path == entry);
    entry_loaded.then_some(Loaded {
        documents,
        versions,
    })
}

/// An import of a file by another.
struct Edge {
    from: String,
    to: String,
    span: Span,
}

struct Loader<'a, 's> {
    archive: &'a Archive,
    limits: &'a Limits,
    sink: &'s mut Sink,
    versions: Vec<StatedVersion>,
    edges: Vec<Edge>,
    /// By path, the version of a file that is a copy of the standard's types; `None` for other files.
    copies: BTreeMap<String, Option<String>>,
}

impl Loader<'_, '_> {
    fn load(&mut self, entry: &str) -> Option<Vec<Document>> {
        let max = self.limits.imports;
        let mut seen = BTreeSet::from([entry.to_owned()]);
        let mut waiting = vec![entry.to_owned()];
        let (mut documents, mut imports) = (Vec::new(), Vec::new());
        while !waiting.is_empty() {
            if seen.len() > max {
                let message = format!("the descriptor imports more than {max} files");
                self.sink
                    .add(Finding::new(codes::IMPORT, Span::file(entry), message));
                return None;
            }
            let mut next = Vec::new();
            for path in std::mem::take(&mut waiting) {
                let origin = if path == entry {
                    Origin::Package
                } else {
                    self.origin(&path)
                };
                let Some(root) = self.document(&path, origin) else {
                    continue;
                };
                let all = self.imports(&root, &path);
                let files = all.iter().filter_map(|import| import.file.clone());
                next.extend(files.filter(|to| seen.insert(to.clone())));
                documents.push(Document { path, root, origin });
                imports.push(all);
            }
            waiting = next;
        }
        namespaces::resolve(&mut documents, &imports);
        Some(documents)
    }

    /// Parses a file. A copy of the standard's types gets no findings: some were published as invalid YAML.
    fn document(&mut self, path: &str, origin: Origin) -> Option<Node> {
        if origin != Origin::Package {
            return document(self.archive, path, self.limits, &mut Sink::default());
        }
        document(self.archive, path, self.limits, self.sink)
    }

    fn imports(&mut self, root: &Node, path: &str) -> Vec<Import> {
        let mut all = Vec::new();
        for import in root.get("imports").map(Node::items).unwrap_or_default() {
            let Some(name) = file_of(import) else {
                self.sink.add(
                    Finding::new(
                        codes::IMPORT,
                        import.span.clone(),
                        "the import does not name a file",
                    )
                    .hint("write the file's path, or `{file: path}`"),
                );
                continue;
            };
            let prefix = prefix_of(import);
            if is_builtin(name) {
                other_descriptors(name, &import.span, self.sink);
                let stated = self.stated_version(name, import, path);
                let file = self.of_unknown_version(name, path, stated.as_ref());
                self.versions.extend(stated);
                all.push(Import { prefix, file });
                continue;
            }
            if let Some(to) = self.find(name, import, path) {
                let span = import.span.clone();
                let stated = self
                    .copy(&to)
                    .map(|version| StatedVersion::new(version, &span));
                self.versions.extend(stated);
                self.edges.push(Edge {
                    from: path.to_owned(),
                    to: to.clone(),
                    span,
                });
                all.push(Import {
                    prefix,
                    file: Some(to),
                });
            }
        }
        all
    }

    /// If a file is a copy of the standard's types: the version that it states.
    fn copy(&mut self, path: &str) -> Option<String> {
        if let Some(known) = self.copies.get(path) {
            return known.clone();
        }
        let bytes = self.archive.read(path, self.limits.yaml_bytes as u64).ok();
        let text = bytes
            .as_deref()
            .and_then(|bytes| std::str::from_utf8(bytes).ok());
        let version = text.and_then(|text| StatedVersion::copied(text, is_builtin(path)));
        self.copies.insert(path.to_owned(), version.clone());
        version
    }

    /// Whose types a file declares. One with the standard's name is only loaded if its version is unknown.
    fn origin(&mut self, path: &str) -> Origin {
        if is_builtin(path) {
            return Origin::UnknownVersion;
        }
        match self.copy(path) {
            Some(version) if Version::named(&version).is_none() => Origin::UnknownVersion,
            Some(_) => Origin::Copy,
            None => Origin::Package,
        }
    }

    /// The file with the standard's types, if the package has it and its version is not built in.
    fn of_unknown_version(
        &self,
        name: &str,
        importer: &str,
        stated: Option<&StatedVersion>,
    ) -> Option<String> {
        if !is_sol001(name) || stated.is_none_or(StatedVersion::is_known) {
            return None;
        }
        let mut paths = candidates(name, importer).into_iter().flatten();
        paths.find(|path| self.archive.has(path))
    }

    /// The version that an import of the standard's types names, else that of the copy in the package.
    fn stated_version(
        &mut self,
        name: &str,
        import: &Node,
        importer: &str,
    ) -> Option<StatedVersion> {
        StatedVersion::in_name(name, &import.span).or_else(|| {
            let mut paths = candidates(name, importer).into_iter().flatten();
            let path = paths.find(|path| self.archive.has(path))?;
            self.copy(&path)
                .map(|version| StatedVersion::new(version, &import.span))
        })
    }

    /// The file in the package that an import names.
    fn find(&mut self, name: &str, import: &Node, importer: &str) -> Option<String> {
        if name.contains("://") {
            let message = format!("`{name}` is a URL, and imports are not fetched");
            let finding = Finding::new(codes::IMPORT, import.span.clone(), message);
            self.sink
                .add(finding.hint("add the file to the package and import it by its path"));
            return None;
        }
        let candidates = candidates(name, importer);
        let found = candidates
            .iter()
            .flatten()
            .find(|path| self.archive.has(path))
            .cloned();
        // The types of an ASD need no file.
        let known = base(name).to_ascii_lowercase().starts_with("asd_types");
        if found.is_none() && !known {
            let reason = candidates
                .iter()
                .find_map(|candidate| candidate.as_ref().err())
                .map(|error| format!(": {error}"))
                .unwrap_or_default();
            let message = format!("the imported file `{name}` is not in the package{reason}");
            let siblings = self
                .archive
                .paths()
                .filter(|path| folder(path) == folder(importer));
            let siblings: Vec<&str> = siblings.map(base).collect();
            self.sink.add(
                Finding::new(codes::IMPORT, import.span.clone(), message)
                    .did_you_mean(name, siblings),
            );
        }
        found
    }
}

/// The paths that an import may mean: relative to the importer, then to the package's root.
fn candidates(name: &str, importer: &str) -> [Result<String, crate::path::PathError>; 2] {
    [resolve(folder(importer), name), resolve("", name)]
}

fn document(archive: &Archive, path: &str, limits: &Limits, sink: &mut Sink) -> Option<Node> {
    let mut root = parse(&archive.text(path, limits, sink)?, path, limits, sink)?;
    fix_indentation(&mut root, sink);
    if !root.is_mapping() {
        sink.add(Finding::new(
            codes::SHAPE,
            root.span.clone(),
            format!("the file is {}, not a mapping", root.kind()),
        ));
        return None;
    }
    crate::shape::keys(&root, KEYS, "a TOSCA file", sink);
    match root.get("tosca_definitions_version") {
        Some(version)
            if version
                .as_str()
                .is_some_and(|version| VERSIONS.contains(&version)) => {}
        Some(version) => {
            let message = format!(
                "TOSCA version `{}` is not supported",
                version.as_str().unwrap_or("~")
            );
            sink.add(
                Finding::new(codes::TOSCA_VERSION, version.span.clone(), message)
                    .hint(format!("supported: {}", VERSIONS.join(", "))),
            );
        }
        None => {
            let finding = Finding::new(
                codes::TOSCA_VERSION,
                root.span.clone(),
                "the file has no `tosca_definitions_version`",
            );
            sink.add(
                finding.hint("SOL001 requires `tosca_simple_yaml_1_2` or `tosca_simple_yaml_1_3`"),
            );
        }
    }
    if let Some(imports) = root.get("imports") {
        crate::shape::list(imports, "`imports`", sink);
    }
    Some(root)
}

/// Moves type definitions that start in the first column into the empty section above them.
fn fix_indentation(root: &mut Node, sink: &mut Sink) {
    let Value::Mapping(entries) = &mut root.value else {
        return;
    };
    let is_unindented = |key: &Node| {
        key.as_str()
            .is_some_and(|key| key.contains('.') && !KEYS.contains(&key))
    };
    let mut section: Option<usize> = None;
    let mut sections: Vec<(Node, Node)> = Vec::with_capacity(entries.len());
    for (key, value) in std::mem::take(entries) {
        let types = key.as_str().is_some_and(|key| key.ends_with("_types"));
        match section {
            Some(at) if is_unindented(&key) => {
                let (name, found) = &mut sections[at];
                if !found.is_mapping() {
                    let name = name.as_str().unwrap_or_default();
                    let message = format!("the definitions of `{name}` are not indented");
                    let finding = Finding::new(codes::TYPES_INDENT, key.span.clone(), message);
                    sink.add(finding.hint("indent the definitions by two spaces"));
                    found.value = Value::Mapping(Vec::new());
                }
                if let Value::Mapping(declared) = &mut found.value {
                    declared.push((key, value));
                }
            }
            _ => {
                section = (types && value.is_null()).then_some(sections.len());
                sections.push((key, value));
            }
        }
    }
    *entries = sections;
}

/// The path in an import: `path`, `{file: path}`, `{name: path}` or `{name: {file: path}}`.
fn file_of(import: &Node) -> Option<&str> {
    if let Some(path) = import.as_str() {
        return Some(path);
    }
    if let Some(file) = import.get("file") {
        return file.as_str();
    }
    match import.entries() {
        [(_, only)] => only
            .as_str()
            .or_else(|| only.get("file").and_then(Node::as_str)),
        _ => None,
    }
}

/// Warns about an import of the standard's types for NSDs and PNFDs.
fn other_descriptors(name: &str, span: &Span, sink: &mut Sink) {
    let file = base(name).to_ascii_lowercase();
    let descriptor = ["nsd", "pnfd"]
        .iter()
        .find(|descriptor| file.starts_with(&format!("etsi_nfv_sol001_{descriptor}")));
    if let Some(descriptor) = descriptor {
        let message = format!(
            "`{}` declares types for {}s, which are not built in",
            base(name),
            descriptor.to_uppercase()
        );
        let finding = Finding::new(codes::IMPORT_OTHER, span.clone(), message);
        sink.add(finding.hint("remove the import: a VNFD does not need these types"));
    }
}

/// Whether a path or URL names one of ETSI's or OASIS's type files.
fn is_builtin(name: &str) -> bool {
    let name = name.split(['?', '#']).next().unwrap_or(name);
    let file = base(name).to_ascii_lowercase();
    let yaml = crate::path::has_extension(&file, &["yaml", "yml"]) || !file.contains('.');
    let profile = [
        "tosca_simple_yaml_1",
        "tosca_simple_profile",
        "tosca_definition_1",
        "oran_asd_types_",
    ];
    yaml && (is_sol001(name) || profile.iter().any(|stem| file.starts_with(stem)))
}

/// Whether a path or URL names one of ETSI's type files.
fn is_sol001(name: &str) -> bool {
    let name = name.split(['?', '#']).next().unwrap_or(name);
    let file = base(name).to_ascii_lowercase();
    file.starts_with("etsi_nfv_sol001_") && file.contains("_types")
}

/// Warns of each import that leads back to a file on the stack to it.
fn cycles(entry: &str, edges: &[Edge], sink: &mut Sink) {
    let mut imports: BTreeMap<&str, Vec<&Edge>> = BTreeMap::new();
    for edge in edges {
        imports.entry(&edge.from).or_default().push(edge);
    }
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut stack: Vec<(&str, usize)> = vec![(entry, 0)];
    while let Some((path, next)) = stack.last_mut() {
        let path = *path;
        let edge = imports.get(path).and_then(|all| all.get(*next));
        *next += 1;
        let Some(edge) = edge else {
            done.insert(path);
            stack.pop();
            continue;
        };
        if let Some(at) = stack.iter().position(|(path, _)| *path == edge.to) {
            let cycle: Vec<&str> = stack[at..].iter().map(|(path, _)| *path).collect();
            let message = format!(
                "the imports form a cycle: `{}`, then `{}` again",
                cycle.join("`, `"),
                edge.to
            );
            sink.add(
                Finding::new(codes::IMPORT_CYCLE, edge.span.clone(), message)
                    .hint("move the shared types to a separate file"),
            );
        } else if !done.contains(edge.to.as_str()) {
            stack.push((&edge.to, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn published_type_files_are_recognized_by_name_and_url() {
        for name in [
            "etsi_nfv_sol001_vnfd_types.yaml",
            "https://forge.etsi.org/rep/nfv/SOL001/raw/v2.6.1/etsi_nfv_sol001_common_types.yaml",
            "https://forge.etsi.org/rep/nfv/SOL001/-/blob/v3.3.1/etsi_nfv_sol001_vnfd_types.yaml?ref_type=tags",
            "helloworld/etsi_nfv_sol001_vnfd_2_5_1_types.yaml",
            "etsi_nfv_sol001_vnfd_types_v4.4.1.yml",
            "TOSCA_definition_1_3.yaml",
            "http://docs.oasis-open.org/tosca/ns/simple/yaml/1.3/tosca_simple_yaml_1_3",
        ] {
            assert!(is_builtin(name), "{name}");
        }
        for name in [
            "sample_types.yaml",
            "etsi_nfv_sol001_vnfd.yaml",
            "my_etsi_nfv_sol001_vnfd_types.yaml",
        ] {
            assert!(!is_builtin(name), "{name}");
        }
    }
}

//! The files of a descriptor: the entry, what it imports, and which built-in types it means.
//!
//! A file is loaded once, however it is reached, so diamonds are harmless; a cycle is a warning.
//! A file named like ETSI's type files means the built-in types, by path or by URL; nothing is
//! ever fetched. So does the version of a copy under another name, which says what it is in its head; what it has
//! beyond the built-in types is kept. Prefixes of imports are what `namespaces` is about.

use super::namespaces::{self, Import, prefix_of};
use super::version::Said;
use crate::archive::Archive;
use crate::finding::{Finding, Sink, Span, codes};
use crate::limits::Limits;
use crate::path::{base, folder, resolve};
use crate::yaml::{Node, Value, parse};
use std::collections::{BTreeMap, BTreeSet};

/// One YAML file of the descriptor.
pub(super) struct Document {
    /// Its path in the package.
    pub(super) path: String,
    /// What is in it.
    pub(super) root: Node,
    /// Whether it is a copy of the standard's types, under whatever name.
    pub(super) copy: bool,
}

/// The files, and what their imports say about the version of SOL001.
pub(super) struct Loaded {
    /// The entry, then what it imports.
    pub(super) documents: Vec<Document>,
    /// The versions that they name.
    pub(super) said: Vec<Said>,
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
    let (said, edges, copies) = (Vec::new(), Vec::new(), BTreeMap::new());
    let mut loader = Loader {
        archive,
        limits,
        sink,
        said,
        edges,
        copies,
    };
    let documents = loader.load(entry)?;
    cycles(entry, &loader.edges, loader.sink);
    let said = loader.said;
    let whole = documents.first().is_some_and(|first| first.path == entry);
    whole.then_some(Loaded { documents, said })
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
    said: Vec<Said>,
    edges: Vec<Edge>,
    /// Files that were looked at: the version of those that are copies of the standard's types.
    copies: BTreeMap<String, Option<String>>,
}

impl Loader<'_, '_> {
    fn load(&mut self, entry: &str) -> Option<Vec<Document>> {
        let most = self.limits.imports;
        let mut seen = BTreeSet::from([entry.to_owned()]);
        let mut waiting = vec![entry.to_owned()];
        let (mut documents, mut imports) = (Vec::new(), Vec::new());
        while !waiting.is_empty() {
            if seen.len() > most {
                let message = format!("the descriptor imports more than {most} files");
                self.sink
                    .add(Finding::new(codes::IMPORT, Span::file(entry), message));
                return None;
            }
            let mut next = Vec::new();
            for path in std::mem::take(&mut waiting) {
                let copy = path != entry && self.copy(&path).is_some();
                let Some(root) = self.document(&path, copy) else {
                    continue;
                };
                let all = self.imports(&root, &path);
                let files = all.iter().filter_map(|import| import.file.clone());
                next.extend(files.filter(|to| seen.insert(to.clone())));
                documents.push(Document { path, root, copy });
                imports.push(all);
            }
            waiting = next;
        }
        namespaces::resolve(&mut documents, &imports);
        Some(documents)
    }

    /// A file. Of a copy of the standard's types nothing is said: some of those were published as what is no YAML.
    fn document(&mut self, path: &str, copy: bool) -> Option<Node> {
        if copy {
            return document(self.archive, path, self.limits, &mut Sink::default());
        }
        document(self.archive, path, self.limits, self.sink)
    }

    /// What a file imports.
    fn imports(&mut self, root: &Node, path: &str) -> Vec<Import> {
        let mut all = Vec::new();
        for import in root.get("imports").map(Node::items).unwrap_or_default() {
            let Some(name) = file_of(import) else {
                self.sink.add(
                    Finding::new(
                        codes::IMPORT,
                        import.span.clone(),
                        "the import names no file",
                    )
                    .hint("write the file's path, or `{file: path}`"),
                );
                continue;
            };
            let prefix = prefix_of(import);
            if is_builtin(name) {
                other_descriptors(name, &import.span, self.sink);
                let said = self.said(name, import, path);
                self.said.extend(said);
                all.push(Import { prefix, file: None });
                continue;
            }
            if let Some(to) = self.find(name, import, path) {
                let span = import.span.clone();
                let said = self.copy(&to).map(|version| Said::new(version, &span));
                self.said.extend(said);
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

    /// The version of the standard whose types a file of the package is a copy of, by what it says of itself.
    fn copy(&mut self, path: &str) -> Option<String> {
        if let Some(known) = self.copies.get(path) {
            return known.clone();
        }
        let bytes = self.archive.read(path, self.limits.yaml_bytes as u64).ok();
        let text = bytes
            .as_deref()
            .and_then(|bytes| std::str::from_utf8(bytes).ok());
        let version = text.and_then(|text| Said::copied(text, is_builtin(path)));
        self.copies.insert(path.to_owned(), version.clone());
        version
    }

    /// The version that an import of the standard's types names, or else the copy in the package.
    fn said(&mut self, name: &str, import: &Node, importer: &str) -> Option<Said> {
        Said::in_name(name, &import.span).or_else(|| {
            let mut paths = candidates(name, importer).into_iter().flatten();
            let path = paths.find(|path| self.archive.has(path))?;
            self.copy(&path)
                .map(|version| Said::new(version, &import.span))
        })
    }

    /// The file in the package that an import names.
    fn find(&mut self, name: &str, import: &Node, importer: &str) -> Option<String> {
        if name.contains("://") {
            let message = format!("`{name}` is not fetched");
            let finding = Finding::new(codes::IMPORT, import.span.clone(), message);
            self.sink
                .add(finding.hint("put the file into the package and import it by its path"));
            return None;
        }
        let candidates = candidates(name, importer);
        let found = candidates
            .iter()
            .flatten()
            .find(|path| self.archive.has(path))
            .cloned();
        // The types of an ASD are known without their file.
        let known = base(name).to_ascii_lowercase().starts_with("asd_types");
        if found.is_none() && !known {
            let why = candidates
                .iter()
                .find_map(|candidate| candidate.as_ref().err())
                .map(|why| format!(": {why}"))
                .unwrap_or_default();
            let message = format!("the imported file `{name}` is not in the package{why}");
            let here = self
                .archive
                .paths()
                .filter(|path| folder(path) == folder(importer));
            let here: Vec<&str> = here.map(base).collect();
            self.sink.add(
                Finding::new(codes::IMPORT, import.span.clone(), message).did_you_mean(name, here),
            );
        }
        found
    }
}

/// Beside the importer, or from the package's root.
fn candidates(name: &str, importer: &str) -> [Result<String, crate::path::PathError>; 2] {
    [resolve(folder(importer), name), resolve("", name)]
}

fn document(archive: &Archive, path: &str, limits: &Limits, sink: &mut Sink) -> Option<Node> {
    let mut root = parse(
        &crate::package::text(archive, path, limits, sink)?,
        path,
        limits,
        sink,
    )?;
    indented(&mut root, sink);
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
                "`{}` is not a version of TOSCA that is read",
                version.as_str().unwrap_or("~")
            );
            sink.add(
                Finding::new(codes::TOSCA_VERSION, version.span.clone(), message)
                    .hint(format!("known: {}", VERSIONS.join(", "))),
            );
        }
        None => {
            let finding = Finding::new(
                codes::TOSCA_VERSION,
                root.span.clone(),
                "no `tosca_definitions_version`",
            );
            sink.add(
                finding.hint("SOL001 wants `tosca_simple_yaml_1_2` or `tosca_simple_yaml_1_3`"),
            );
        }
    }
    if let Some(imports) = root.get("imports") {
        crate::shape::list(imports, "`imports`", sink);
    }
    Some(root)
}

/// Puts definitions of types that stand in the first column into the empty section above them.
fn indented(root: &mut Node, sink: &mut Sink) {
    let Value::Mapping(entries) = &mut root.value else {
        return;
    };
    let lost = |key: &Node| {
        key.as_str()
            .is_some_and(|key| key.contains('.') && !KEYS.contains(&key))
    };
    let mut section: Option<usize> = None;
    let mut kept: Vec<(Node, Node)> = Vec::with_capacity(entries.len());
    for (key, value) in std::mem::take(entries) {
        let types = key.as_str().is_some_and(|key| key.ends_with("_types"));
        match section {
            Some(at) if lost(&key) => {
                let (name, found) = &mut kept[at];
                if !found.is_mapping() {
                    let name = name.as_str().unwrap_or_default();
                    let message = format!("what belongs to `{name}` is not indented");
                    let finding = Finding::new(codes::TYPES_INDENT, key.span.clone(), message);
                    sink.add(finding.hint("indent the definitions by two spaces"));
                    found.value = Value::Mapping(Vec::new());
                }
                if let Value::Mapping(declared) = &mut found.value {
                    declared.push((key, value));
                }
            }
            _ => {
                section = (types && value.is_null()).then_some(kept.len());
                kept.push((key, value));
            }
        }
    }
    *entries = kept;
}

/// `path`, `{file: path}`, `{name: path}` or `{name: {file: path}}`.
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

/// Warns of the standard's types for NSDs and PNFDs.
fn other_descriptors(name: &str, span: &Span, sink: &mut Sink) {
    let file = base(name).to_ascii_lowercase();
    let of = ["nsd", "pnfd"]
        .iter()
        .find(|of| file.starts_with(&format!("etsi_nfv_sol001_{of}")));
    if let Some(of) = of {
        let message = format!(
            "`{}` has types of {}s, which are not built in",
            base(name),
            of.to_uppercase()
        );
        let finding = Finding::new(codes::IMPORT_OTHER, span.clone(), message);
        sink.add(finding.hint("leave it out: a VNFD needs none of them"));
    }
}

/// Whether a path or URL names one of the standard's own type files.
fn is_builtin(name: &str) -> bool {
    let name = name.split(['?', '#']).next().unwrap_or(name);
    let file = base(name).to_ascii_lowercase();
    let yaml = crate::path::has_extension(&file, &["yaml", "yml"]) || !file.contains('.');
    let sol001 = file.starts_with("etsi_nfv_sol001_") && file.contains("_types");
    let profile = [
        "tosca_simple_yaml_1",
        "tosca_simple_profile",
        "tosca_definition_1",
        "oran_asd_types_",
    ];
    yaml && (sol001 || profile.iter().any(|stem| file.starts_with(stem)))
}

/// Warns of each import that leads back to a file on the way to it.
fn cycles(entry: &str, edges: &[Edge], sink: &mut Sink) {
    let mut imports: BTreeMap<&str, Vec<&Edge>> = BTreeMap::new();
    for edge in edges {
        imports.entry(&edge.from).or_default().push(edge);
    }
    let mut done: BTreeSet<&str> = BTreeSet::new();
    let mut way: Vec<(&str, usize)> = vec![(entry, 0)];
    while let Some((path, next)) = way.last_mut() {
        let path = *path;
        let edge = imports.get(path).and_then(|all| all.get(*next));
        *next += 1;
        let Some(edge) = edge else {
            done.insert(path);
            way.pop();
            continue;
        };
        if let Some(at) = way.iter().position(|(path, _)| *path == edge.to) {
            let round: Vec<&str> = way[at..].iter().map(|(path, _)| *path).collect();
            let message = format!(
                "the imports go round: `{}`, then `{}` again",
                round.join("`, `"),
                edge.to
            );
            sink.add(
                Finding::new(codes::IMPORT_CYCLE, edge.span.clone(), message)
                    .hint("move what both need into a file of its own"),
            );
        } else if !done.contains(edge.to.as_str()) {
            way.push((&edge.to, 0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_standards_files_are_built_in_by_any_name() {
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

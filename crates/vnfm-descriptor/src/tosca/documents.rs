//! The files of a descriptor: the entry, what it imports, and the types that are built in.
//!
//! A file is loaded once, however it is reached, so cycles and diamonds of imports are harmless.
//! A file named like ETSI's type files means the built-in types, by path or by URL; nothing is
//! ever fetched.

use crate::archive::Archive;
use crate::finding::{Finding, Sink, Span, codes};
use crate::limits::Limits;
use crate::path::{base, folder, resolve};
use crate::yaml::{Node, parse};
use std::collections::BTreeSet;
use std::sync::OnceLock;

/// One YAML file of the descriptor.
pub(super) struct Document {
    /// Its path in the package.
    pub(super) path: String,
    /// What is in it.
    pub(super) root: Node,
}

const BUILTIN: &[(&str, &str)] = &[
    (
        "builtin:tosca_simple_profile.yaml",
        include_str!("../../../../schemas/tosca/tosca_simple_profile.yaml"),
    ),
    (
        "builtin:etsi_nfv_sol001_vnfd_types.yaml",
        include_str!("../../../../schemas/tosca/etsi_nfv_sol001_vnfd_types.yaml"),
    ),
];

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

/// The built-in type files, read once.
pub(super) fn builtin() -> &'static [Node] {
    static NODES: OnceLock<Vec<Node>> = OnceLock::new();
    NODES.get_or_init(|| {
        let limits = Limits::default();
        BUILTIN
            .iter()
            .filter_map(|(name, text)| parse(text, name, &limits, &mut Sink::default()))
            .collect()
    })
}

/// Loads the entry and everything that it imports, the entry first.
pub(super) fn load(
    archive: &Archive,
    entry: &str,
    limits: &Limits,
    sink: &mut Sink,
) -> Option<Vec<Document>> {
    let mut seen = BTreeSet::from([entry.to_owned()]);
    let mut waiting = vec![entry.to_owned()];
    let mut documents = Vec::new();
    while !waiting.is_empty() {
        if seen.len() > limits.imports {
            let message = format!("the descriptor imports more than {} files", limits.imports);
            sink.add(Finding::new(codes::IMPORT, Span::file(entry), message));
            return None;
        }
        let mut next = Vec::new();
        for path in std::mem::take(&mut waiting) {
            let Some(root) = document(archive, &path, limits, sink) else { continue };
            for import in root.get("imports").map(Node::items).unwrap_or_default() {
                if let Some(found) =
                    find(import, &path, archive, sink).filter(|found| seen.insert(found.clone()))
                {
                    next.push(found);
                }
            }
            documents.push(Document { path, root });
        }
        waiting = next;
    }
    documents.first().is_some_and(|first| first.path == entry).then_some(documents)
}

fn document(archive: &Archive, path: &str, limits: &Limits, sink: &mut Sink) -> Option<Node> {
    let root = parse(&crate::package::text(archive, path, limits, sink)?, path, limits, sink)?;
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
        Some(version) if version.as_str().is_some_and(|version| VERSIONS.contains(&version)) => {}
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

/// The file that an import names; `None` for the built-in ones.
fn find(import: &Node, importer: &str, archive: &Archive, sink: &mut Sink) -> Option<String> {
    let Some(name) = file_of(import) else {
        sink.add(
            Finding::new(codes::IMPORT, import.span.clone(), "the import names no file")
                .hint("write the file's path, or `{file: path}`"),
        );
        return None;
    };
    if is_builtin(name) {
        return None;
    }
    if name.contains("://") {
        let finding =
            Finding::new(codes::IMPORT, import.span.clone(), format!("`{name}` is not fetched"));
        sink.add(finding.hint("put the file into the package and import it by its path"));
        return None;
    }
    let candidates = [resolve(folder(importer), name), resolve("", name)];
    let found = candidates.iter().flatten().find(|path| archive.has(path)).cloned();
    if found.is_none() {
        let why = candidates
            .iter()
            .find_map(|candidate| candidate.as_ref().err())
            .map(|why| format!(": {why}"))
            .unwrap_or_default();
        let finding = Finding::new(
            codes::IMPORT,
            import.span.clone(),
            format!("the imported file `{name}` is not in the package{why}"),
        );
        let here: Vec<&str> =
            archive.paths().filter(|path| folder(path) == folder(importer)).map(base).collect();
        sink.add(finding.did_you_mean(name, here));
    }
    found
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
        [(_, only)] => only.as_str().or_else(|| only.get("file").and_then(Node::as_str)),
        _ => None,
    }
}

fn is_builtin(name: &str) -> bool {
    let stem = base(name).to_ascii_lowercase();
    let stem = stem.trim_end_matches(".yaml").trim_end_matches(".yml");
    stem.starts_with("etsi_nfv_sol001_") && stem.ends_with("_types")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_types_are_sound() {
        for (name, text) in BUILTIN {
            let mut sink = Sink::default();
            assert!(parse(text, name, &Limits::default(), &mut sink).is_some());
            assert_eq!(sink.finish().map(|warnings| warnings.len()), Ok(0));
        }
        let mut sink = Sink::default();
        super::super::types::Types::collect(&[], &mut sink);
        assert_eq!(sink.finish().map(|warnings| warnings.len()), Ok(0));
        assert_eq!(builtin().len(), BUILTIN.len());
    }

    #[test]
    fn etsi_files_are_built_in_by_any_name() {
        assert!(is_builtin("etsi_nfv_sol001_vnfd_types.yaml"));
        assert!(is_builtin(
            "https://forge.etsi.org/rep/nfv/SOL001/raw/v2.6.1/etsi_nfv_sol001_common_types.yaml"
        ));
        assert!(is_builtin("helloworld/etsi_nfv_sol001_vnfd_2_5_1_types.yaml"));
        assert!(!is_builtin("sample_types.yaml"));
    }
}

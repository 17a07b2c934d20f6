//! A single YAML file: a descriptor with the files that it imports, a Heat template, a manifest.
//!
//! If the file is in a package (a folder above it contains `TOSCA-Metadata`), the package is linted and the findings of
//! other files are removed. Otherwise the package is unknown, so the codes that need one are skipped.

use crate::consequences::CONSEQUENCES;
use crate::explain::codes;
use crate::report::Report;
use crate::source::Source;
use crate::{heat, kubernetes, package, secrets};
use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::path::Path;
use vnfm_descriptor::raw::{Archive, Node, Sink, folder, of_text, parse_all, resolve};
use vnfm_descriptor::{Finding, Findings, Limits, Span, normalise};
use zip::write::SimpleFileOptions;

/// Folders above the file that are searched for the package's root.
const MAX_LEVELS_UP: usize = 5;

/// Codes that need the package.
const NEED_PACKAGE: &[&str] = &[
    codes::MANIFEST_NONE,
    codes::META_KEY,
    codes::ARTIFACT_MISSING,
    codes::ARTIFACT_ABSENT,
    codes::IMPLEMENTATION_UNKNOWN,
    codes::ORDER_NONE,
    codes::VDU_IMAGE,
    codes::VDU_COMPUTE,
    codes::HOT_FILE,
    codes::HOT_PLACE,
    codes::DEPLOY_NONE,
];

/// Codes that do not apply to a file of types.
const NEED_TOPOLOGY: &[&str] = &[
    codes::VNF_MISSING,
    codes::VNF_PROPERTY,
    codes::VNF_REQUIRED,
    codes::FLAVOUR,
];

pub(crate) fn lint(path: &Path, limits: &Limits) -> Report {
    if let Some(report) = in_package(path, limits) {
        return report;
    }
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let text = match text_of(path, limits) {
        Ok(text) => text,
        Err(finding) => return vec![finding].into(),
    };
    let mut sink = Sink::default();
    let Some(nodes) = parse_all(&text, name, limits, &mut sink) else {
        return sink.all().into();
    };
    let mut files = BTreeMap::from([(name.to_owned(), text)]);
    let has = |key: &str| nodes.first().is_some_and(|node| node.get(key).is_some());
    let is_tosca = has("tosca_definitions_version");
    if is_tosca {
        imports(
            path.parent().unwrap_or(Path::new(".")),
            name,
            limits,
            &mut files,
        );
        let meta = format!("TOSCA-Meta-File-Version: 1.0\nEntry-Definitions: {name}\n");
        files.insert("TOSCA-Metadata/TOSCA.meta".to_owned(), meta);
    }
    let archive = zipped(&files).and_then(|bytes| {
        let mut sink = Sink::default();
        Archive::bytes(bytes.into(), limits, &mut sink).ok_or_else(|| sink.all())
    });
    let archive = match archive {
        Ok(archive) => archive,
        Err(findings) => return findings.into(),
    };
    let is_known = |node: &Node| {
        let keys = ["heat_template_version", "apiVersion", "kind"];
        node.is_null() || keys.iter().any(|key| node.get(key).is_some())
    };
    if is_tosca {
        lint_descriptor(&archive, name, has("topology_template"), limits)
    } else if !nodes.iter().all(is_known) {
        let text = files.get(name).map(String::as_str).unwrap_or_default();
        vec![of_text(name, text)].into()
    } else {
        lint_documents(&archive, name, &nodes, limits, sink)
    }
}

/// Lints the package made of a descriptor and its imports; keeps the findings in `name` that a file alone can have.
fn lint_descriptor(archive: &Archive, name: &str, has_topology: bool, limits: &Limits) -> Report {
    let mut report = package::lint_archive(archive, limits, Sink::default());
    report.findings.retain(|finding| {
        let here = finding
            .span
            .as_ref()
            .is_some_and(|span| &*span.file == name);
        here && !NEED_PACKAGE.contains(&finding.code)
            && (has_topology || !NEED_TOPOLOGY.contains(&finding.code))
    });
    report
}

/// Lints the Heat templates and Kubernetes objects of a file.
fn lint_documents(
    archive: &Archive,
    name: &str,
    nodes: &[Node],
    limits: &Limits,
    mut sink: Sink,
) -> Report {
    let source = Source::new(archive, limits);
    secrets::check(&source, &mut sink);
    let mut own = Sink::default();
    for node in nodes {
        if node.get("heat_template_version").is_some() {
            heat::template(&source, name, node, &mut own);
        } else if node.get("apiVersion").is_some() || node.get("kind").is_some() {
            kubernetes::object(node, &mut own);
        }
    }
    for finding in own
        .all_with(CONSEQUENCES)
        .into_iter()
        .filter(|finding| !NEED_PACKAGE.contains(&finding.code))
    {
        sink.add(finding);
    }
    package::finished(&source, Some(name), sink)
}

/// The findings of a file that is in a package; `None` if no folder above it is one.
fn in_package(path: &Path, limits: &Limits) -> Option<Report> {
    let full = path.canonicalize().ok()?;
    let root = full
        .ancestors()
        .skip(1)
        .take(MAX_LEVELS_UP)
        .find(|up| up.join("TOSCA-Metadata").is_dir())?;
    let name = full.strip_prefix(root).ok()?.to_str()?.to_owned();
    let mut report = package::lint(root, limits);
    let here = |finding: &Finding| finding.span.as_ref().is_some_and(|span| *span.file == name);
    report.findings.retain(here);
    report.allowed.retain(|allowed| here(&allowed.finding));
    Some(report)
}

fn text_of(path: &Path, limits: &Limits) -> Result<String, Finding> {
    let mut bytes = Vec::new();
    let limit = limits.yaml_bytes as u64 + 1;
    let read = std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes));
    read.map_err(|error| Finding::unreadable(path, &error))?;
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    String::from_utf8(bytes)
        .map_err(|_| Finding::new(codes::YAML, Span::file(name), "the file is not UTF-8"))
}

/// Adds the files that a descriptor imports, if they are in its folder or below.
fn imports(root: &Path, entry: &str, limits: &Limits, files: &mut BTreeMap<String, String>) {
    let mut waiting = vec![entry.to_owned()];
    while let Some(path) = waiting.pop() {
        let Some(text) = files.get(&path) else {
            continue;
        };
        let nodes = parse_all(text, &path, limits, &mut Sink::default()).unwrap_or_default();
        let listed = nodes
            .first()
            .and_then(|node| node.get("imports"))
            .map(Node::items);
        for import in listed.unwrap_or_default() {
            let named = import
                .as_str()
                .or_else(|| import.get("file").and_then(Node::as_str));
            let Some(found) = named.and_then(|name| resolve(folder(&path), name).ok()) else {
                continue;
            };
            let inside = normalise(&found).is_ok() && files.len() < limits.imports;
            if files.contains_key(&found) || !inside {
                continue;
            }
            if let Ok(text) = text_of(&root.join(&found), limits) {
                files.insert(found.clone(), text);
                waiting.push(found);
            }
        }
    }
}

fn zipped(files: &BTreeMap<String, String>) -> Result<Vec<u8>, Vec<Finding>> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let mut add = || -> Result<(), String> {
        for (name, text) in files {
            let options = SimpleFileOptions::default();
            zip.start_file(name, options)
                .map_err(|error| error.to_string())?;
            zip.write_all(text.as_bytes())
                .map_err(|error| error.to_string())?;
        }
        Ok(())
    };
    let failed = |reason: String| {
        Findings::one(Finding::new(
            codes::IO,
            None,
            format!("cannot pack the files for lint: {reason}"),
        ))
        .as_slice()
        .to_vec()
    };
    add().map_err(failed)?;
    Ok(zip
        .finish()
        .map_err(|error| failed(error.to_string()))?
        .into_inner())
}

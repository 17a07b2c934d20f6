//! Lint: everything that can be checked in a package without a server, including warnings.
//!
//! ```text
//! package      errors and warnings of onboarding                         package.rs
//! tosca rules  names, references, occurrences, scaling, wiring, images   ../tosca/rules/
//! files        TOSCA.meta, manifest, unnamed and leftover files          files.rs
//! secrets      keys, kubeconfigs, passwords, tokens                      secrets.rs
//! heat         Base HOT and the templates nested in it                   heat.rs
//! kubernetes   order file, manifests, kinds and fields                   kubernetes.rs, kinds.rs
//! suppressions findings that comments allow, with a reason               suppressions.rs
//! ```
//! Only the first row has errors: lint reports an error exactly if onboarding refuses the package.
//! [`explain()`] describes a code.

mod explain;
mod files;
mod heat;
mod kinds;
mod kubernetes;
mod scalars;
mod secrets;
mod single_file;
mod suppressions;

pub use explain::{EXPLANATIONS, Explanation, explain};

use crate::archive::Archive;
use crate::finding::{Finding, Severity, Sink, Span};
use crate::limits::Limits;
use crate::package::examine;
use crate::path::has_extension;
use crate::yaml::Node;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

pub(crate) use scalars::traps;

/// Larger text files are not searched, in bytes.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// The findings of a package or file.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Sorted by file and position.
    pub findings: Vec<Finding>,
    /// Findings that comments in the package allow.
    pub allowed: Vec<Allowed>,
    sources: BTreeMap<String, Vec<String>>,
}

/// A finding that a comment allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Allowed {
    /// A warning; errors cannot be allowed.
    pub finding: Finding,
    /// The reason that the comment gives.
    pub reason: String,
}

impl Report {
    /// The highest severity among the findings; `None` if there are none.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).min()
    }

    /// The source line of a finding; `None` if the line contains a secret.
    pub fn line(&self, span: &Span) -> Option<&str> {
        let secret = self
            .findings
            .iter()
            .chain(self.allowed.iter().map(|allowed| &allowed.finding));
        let mut secret = secret.filter(|finding| finding.code.starts_with("W-SECRET"));
        let here = |finding: &Finding| {
            let position = finding.span.as_ref().map(|span| (&span.file, span.line));
            position == Some((&span.file, span.line))
        };
        if secret.any(here) {
            return None;
        }
        self.sources
            .get(&*span.file)?
            .get(span.line.checked_sub(1)?)
            .map(String::as_str)
    }
}

/// Lints a folder, a `.csar` or `.zip` file, or a single YAML file.
pub fn lint(path: &Path, limits: &Limits) -> Report {
    let name = path
        .file_name()
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    if path.is_file() && has_extension(name, &["yaml", "yml"]) {
        return single_file::lint(path, limits);
    }
    let mut sink = Sink::default();
    match Archive::open(path, limits, &mut sink) {
        Some(archive) => package(&archive, limits, sink),
        None => Report {
            findings: sink.all(),
            ..Report::default()
        },
    }
}

fn package(archive: &Archive, limits: &Limits, mut sink: Sink) -> Report {
    let source = Source::new(archive, limits);
    let read = examine(archive, limits, &mut sink);
    if sink.has(&[crate::codes::ZIP, crate::codes::ZIP_BOMB]) {
        return Report {
            findings: sink.all(),
            ..Report::default()
        };
    }
    if let Some(meta) = &read.meta {
        let compatible = crate::package::compatible_versions(meta);
        crate::tosca::rules(archive, &meta.entry, compatible, limits, &mut sink);
    }
    files::check(&source, &read, &mut sink);
    secrets::check(&source, &mut sink);
    heat::check(&source, &read, &mut sink);
    kubernetes::check(&source, &read, &mut sink);
    let entry = read.meta.as_ref().map(|meta| meta.entry.as_str());
    report(&source, entry, sink)
}

/// Separates allowed findings from the others and collects the lines of all.
fn report(source: &Source<'_>, entry: Option<&str>, sink: Sink) -> Report {
    let (findings, allowed) = suppressions::apply(source, entry, sink.all());
    let files = findings
        .iter()
        .chain(allowed.iter().map(|allowed| &allowed.finding));
    let mut sources = BTreeMap::new();
    for span in files
        .filter_map(|finding| finding.span.as_ref())
        .filter(|span| span.line > 0)
    {
        let lines = || {
            let text = source.text(&span.file).unwrap_or_default();
            text.trim_start_matches('\u{feff}')
                .lines()
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        sources.entry(span.file.to_string()).or_insert_with(lines);
    }
    Report {
        findings,
        allowed,
        sources,
    }
}

/// The files of a package, for the rules.
struct Source<'a> {
    archive: &'a Archive,
    limits: &'a Limits,
    paths: Vec<&'a str>,
}

impl<'a> Source<'a> {
    fn new(archive: &'a Archive, limits: &'a Limits) -> Self {
        Source {
            archive,
            limits,
            paths: archive.paths().collect(),
        }
    }

    /// A file's text; `None` if it is large or not UTF-8.
    fn text(&self, path: &str) -> Option<String> {
        let limit = MAX_TEXT_BYTES.max(self.limits.yaml_bytes as u64);
        String::from_utf8(self.archive.read(path, limit).ok()?).ok()
    }

    /// The documents of a YAML file; `None` if it cannot be read, which is reported elsewhere.
    fn yaml(&self, path: &str) -> Option<Vec<Node>> {
        crate::yaml::parse_all(&self.text(path)?, path, self.limits, &mut Sink::default())
    }

    fn yaml_paths(&self) -> impl Iterator<Item = &'a str> + use<'a, '_> {
        self.paths
            .iter()
            .copied()
            .filter(|path| has_extension(path, &["yaml", "yml"]))
    }
}

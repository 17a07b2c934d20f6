//! Lint: everything that can be said about a package without a server, doubts included.
//!
//! ```text
//! package      what refuses a package, and what onboarding warns of      package.rs
//! tosca rules  names, references, occurrences, scaling, wiring, images   ../tosca/rules/
//! files        TOSCA.meta, manifest, unnamed files, leftovers            files.rs
//! secrets      keys, kubeconfigs, passwords, tokens                      secrets.rs
//! heat         Base HOT and the templates nested in it                   heat.rs
//! kubernetes   order file, manifests, kinds and fields                   kubernetes.rs, kinds.rs
//! allows       what somebody allowed, with a reason                      suppressions.rs
//! ```
//! Only the first row has errors: what lint calls an error is what onboarding refuses, and the
//! other way round. [`explain()`] tells more about a code.

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

/// Text files above this are not looked into.
const TEXT: u64 = 1 << 20;

/// What lint found.
#[derive(Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// The findings, in the order of the files.
    pub findings: Vec<Finding>,
    /// What would be a finding if it were not allowed.
    pub allowed: Vec<Allowed>,
    sources: BTreeMap<String, Vec<String>>,
}

/// A finding that a comment allows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Allowed {
    /// The finding.
    pub finding: Finding,
    /// Why it is allowed.
    pub reason: String,
}

impl Report {
    /// The gravest finding; none where there is nothing to say.
    pub fn worst(&self) -> Option<Severity> {
        self.findings.iter().map(|finding| finding.severity).min()
    }

    /// The line that a finding is about; never one that holds a secret.
    pub fn line(&self, span: &Span) -> Option<&str> {
        let secret = self
            .findings
            .iter()
            .chain(self.allowed.iter().map(|allowed| &allowed.finding));
        let mut secret = secret.filter(|finding| finding.code.starts_with("W-SECRET"));
        let here = |finding: &Finding| {
            let place = finding.span.as_ref().map(|place| (&place.file, place.line));
            place == Some((&span.file, span.line))
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

/// Looks at a folder, a `.csar` or `.zip` file, or one YAML file alone.
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

/// Looks at a package.
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

/// The findings without those that are allowed, with the lines that they are about.
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

/// The files of a package, as rules read them.
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

    /// A file's text, if it is text and not large.
    fn text(&self, path: &str) -> Option<String> {
        let limit = TEXT.max(self.limits.yaml_bytes as u64);
        String::from_utf8(self.archive.read(path, limit).ok()?).ok()
    }

    /// The documents of a YAML file; `None` where it cannot be read, which others have said.
    fn yaml(&self, path: &str) -> Option<Vec<Node>> {
        crate::yaml::parse_all(&self.text(path)?, path, self.limits, &mut Sink::default())
    }

    /// The YAML files.
    fn yaml_paths(&self) -> impl Iterator<Item = &'a str> + use<'a, '_> {
        self.paths
            .iter()
            .copied()
            .filter(|path| has_extension(path, &["yaml", "yml"]))
    }
}

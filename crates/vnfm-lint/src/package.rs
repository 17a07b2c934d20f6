//! A package: every stage of reading it, then every rule.

use crate::consequences::CONSEQUENCES;
use crate::explain::codes;
use crate::report::Report;
use crate::source::Source;
use crate::{deployable, files, heat, kubernetes, secrets, suppressions, tosca};
use std::collections::BTreeMap;
use std::path::Path;
use vnfm_descriptor::Limits;
use vnfm_descriptor::raw::{Archive, Sink, examine};

/// Lints a folder or an archive.
pub(crate) fn lint(path: &Path, limits: &Limits) -> Report {
    let mut sink = Sink::default();
    match Archive::open_files(path, limits, &mut sink) {
        Some(archive) => lint_archive(&archive, limits, sink),
        None => sink.all_with(CONSEQUENCES).into(),
    }
}

/// Lints an archive; `sink` has what opening it reported.
pub(crate) fn lint_archive(archive: &Archive, limits: &Limits, mut sink: Sink) -> Report {
    let source = Source::new(archive, limits);
    let read = examine(archive, limits, &mut sink);
    if sink.has(&[codes::ZIP, codes::ZIP_BOMB, codes::PACKAGE_KIND]) {
        return sink.all_with(CONSEQUENCES).into();
    }
    if let Some(meta) = &read.meta {
        tosca::check(archive, meta, limits, &mut sink);
    }
    files::check(&source, &read, &mut sink);
    secrets::check(&source, &mut sink);
    heat::check(&source, &read, &mut sink);
    kubernetes::check(&source, &read, &mut sink);
    deployable::check(&source, &read, &mut sink);
    let entry = read.meta.as_ref().map(|meta| meta.entry.as_str());
    finished(&source, entry, sink)
}

/// Separates allowed findings from the others and collects the lines of all.
pub(crate) fn finished(source: &Source<'_>, entry: Option<&str>, sink: Sink) -> Report {
    let (findings, allowed) = suppressions::apply(source, entry, sink.all_with(CONSEQUENCES));
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
                .map(ToOwned::to_owned)
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

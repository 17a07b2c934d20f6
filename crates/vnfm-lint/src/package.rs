//! A package: every stage of reading it, then every rule.

use crate::consequences::CONSEQUENCES;
use crate::explain::codes;
use crate::report::Report;
use crate::source::Source;
use crate::{deployable, files, heat, kubernetes, secrets, suppressions, tosca};
use std::collections::BTreeMap;
use std::panic::resume_unwind;
use std::path::Path;
use std::thread;
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
    let descriptor = |sink: &mut Sink| {
        if let Some(meta) = &read.meta {
            tosca::check(archive, meta, limits, sink);
        }
    };
    let secrets = |sink: &mut Sink| secrets::check(&source, sink);
    let others = |sink: &mut Sink| {
        files::check(&source, &read, sink);
        heat::check(&source, &read, sink);
        kubernetes::check(&source, &read, sink);
        deployable::check(&source, &read, sink);
    };
    check_in_parallel(&[&descriptor, &secrets, &others], &mut sink);
    let entry = read.meta.as_ref().map(|meta| meta.entry.as_str());
    finished(&source, entry, sink)
}

/// A group of rules; it reads the same files as the others, and is independent of them.
type Rules<'a> = &'a (dyn Fn(&mut Sink) + Sync);

/// Applies groups of rules, each in a thread of its own.
fn check_in_parallel(groups: &[Rules<'_>], sink: &mut Sink) {
    thread::scope(|scope| {
        let mut begun = Vec::new();
        for rules in groups.iter().copied() {
            let check = move || {
                let mut found = Sink::default();
                rules(&mut found);
                found
            };
            let thread = thread::Builder::new().spawn_scoped(scope, check);
            // Without a further thread, this one does the work.
            begun.push(thread.map_err(|_| check()));
        }
        for checked in begun {
            sink.append(match checked {
                Ok(thread) => thread.join().unwrap_or_else(|panic| resume_unwind(panic)),
                Err(found) => found,
            });
        }
    });
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

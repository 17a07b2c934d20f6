//! The hashes in `TOSCA.meta`: sections after the first, one for each file.
//!
//! ```text
//! Name: Files/images/web.img      also `Source`, as in a manifest
//! Content-Type: application/x-iso9066-image
//! Algorithm: SHA-256
//! Hash: 9f86d0…
//! ```
//! They are verified like those of the manifest. A section without `Algorithm` and `Hash` states nothing to verify.

use crate::archive::Archive;
use crate::codes;
use crate::finding::{Finding, Span};
use crate::hashes::{Algorithm, Expected, StatedBy};
use crate::path::normalise;
use crate::sink::Sink;

/// A section of `TOSCA.meta` that names a file.
struct Section<'a> {
    name: &'a str,
    algorithm: Option<&'a str>,
    hash: Option<&'a str>,
    /// Line of its name, from 1.
    line: usize,
}

/// The hashes that the file `TOSCA.meta` at `path` states, each with the file's path.
pub(crate) fn read(
    path: &str,
    text: &str,
    archive: &Archive,
    sink: &mut Sink,
) -> Vec<(String, Expected)> {
    let mut all = Vec::new();
    for section in sections(text) {
        match expected(&section, &Span::line(path, section.line), archive) {
            Ok(found) => all.extend(found),
            Err(finding) => sink.add(finding),
        }
    }
    all
}

/// The files that the sections of `TOSCA.meta` name, with or without a hash.
pub(crate) fn names(text: &str) -> impl Iterator<Item = String> {
    let sections = sections(text).into_iter();
    sections.filter_map(|section| normalise(section.name).ok())
}

/// The file and its hash, if the section states one.
fn expected(
    section: &Section<'_>,
    span: &Span,
    archive: &Archive,
) -> Result<Option<(String, Expected)>, Finding> {
    let name = section.name;
    let (algorithm, hash) = match (section.algorithm, section.hash) {
        (None, None) => return Ok(None),
        (Some(algorithm), Some(hash)) => (algorithm, hash),
        _ => {
            let message = format!("`{name}` needs both `Algorithm` and `Hash`");
            return Err(Finding::new(codes::META, span.clone(), message));
        }
    };
    let Some(algorithm) = Algorithm::from_name(algorithm) else {
        let message = format!("unknown hash algorithm `{algorithm}`");
        let finding = Finding::new(codes::META, span.clone(), message);
        return Err(finding.hint("use SHA-224, SHA-256, SHA-384 or SHA-512"));
    };
    let Some(path) = normalise(name).ok().filter(|path| archive.has(path)) else {
        let message = format!("a hash is stated for `{name}`, which is not in the package");
        let finding = Finding::new(codes::META, span.clone(), message);
        return Err(finding.did_you_mean(name, archive.paths()));
    };
    let expected = Expected {
        algorithm,
        hash: hash.to_owned(),
        span: span.clone(),
        stated_by: StatedBy::ToscaMeta,
    };
    Ok(Some((path, expected)))
}

/// The sections that name a file in the package. Empty lines separate sections; external files are not in the package.
fn sections(text: &str) -> Vec<Section<'_>> {
    let mut all: Vec<Section<'_>> = Vec::new();
    let mut inside = false;
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let Some((key, value)) = line.split_once(':') else {
            inside &= !line.trim().is_empty();
            continue;
        };
        let value = value.trim();
        let stated = Some(value).filter(|value| !value.is_empty());
        match (key.trim().to_ascii_lowercase().as_str(), all.last_mut()) {
            ("name" | "source", _) if !inside => {
                inside = true;
                all.push(Section {
                    name: value,
                    algorithm: None,
                    hash: None,
                    line: index + 1,
                });
            }
            ("algorithm", Some(section)) if inside => section.algorithm = stated,
            ("hash", Some(section)) if inside => section.hash = stated,
            _ => {}
        }
    }
    all.retain(|section| !section.name.contains("://"));
    all
}

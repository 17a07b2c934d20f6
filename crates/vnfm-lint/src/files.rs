//! SOL004's own files: `TOSCA.meta`, the manifest, and the other files of the package.

use crate::explain::codes;
use crate::source::Source;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_descriptor::raw::{Parts, Sink, base};
use vnfm_descriptor::{Finding, Manifest, Span, Vnfd, normalise};

/// Keys of `TOSCA.meta`; `true` marks the mandatory ones.
const META_KEYS: &[(&str, bool)] = &[
    ("TOSCA-Meta-File-Version", true),
    ("CSAR-Version", true),
    ("Created-By", true),
    ("Entry-Definitions", false),
    ("Other-Definitions", false),
    ("ETSI-Entry-Manifest", false),
    ("ETSI-Entry-Change-Log", false),
    ("ETSI-Entry-Tests", false),
    ("ETSI-Entry-Licenses", false),
    ("ETSI-Entry-Certificate", false),
    ("Entry-Manifest", false),
    ("Entry-Change-Log", false),
    ("Entry-Tests", false),
    ("Entry-Licenses", false),
    ("Entry-Certificate", false),
    ("Hash", false),
    ("Algorithm", false),
    ("Name", false),
    ("Content-Type", false),
];

/// Keys of a VNF's manifest; `true` marks the mandatory ones.
const METADATA: &[(&str, bool)] = &[
    ("vnf_product_name", true),
    ("vnf_provider_id", true),
    ("vnf_package_version", true),
    ("vnf_release_date_time", true),
    ("vnfm_info", false),
    ("vnfd_id", false),
    ("vnf_software_version", false),
    ("compatible_specification_versions", false),
    ("vnf_provider", false),
];

/// Files that the manifest need not name, in addition to `requests/`.
const UNLISTED: &[&str] = &["README", "README.md", "README.txt", "README.rst"];

/// Checks the package's own files, not those of the VNF.
pub(crate) fn check(source: &Source<'_>, read: &Parts, sink: &mut Sink) {
    meta(source, sink);
    for path in source.paths.iter().filter(|path| is_junk(path)) {
        sink.add(
            Finding::new(
                codes::FILE_JUNK,
                Span::file(path),
                "this file does not belong in a package",
            )
            .hint("remove it before packing"),
        );
    }
    for path in source.yaml_paths() {
        if source
            .text(path)
            .is_some_and(|text| text.starts_with('\u{feff}'))
        {
            let message = "the file starts with a byte order mark";
            let finding = Finding::new(codes::YAML_BOM, Span::file(path), message);
            sink.add(finding.hint("save it as UTF-8 without a byte order mark"));
        }
    }
    if let Some(manifest) = read.meta.as_ref().and_then(|meta| meta.manifest.as_ref()) {
        lines(source, manifest, sink);
        metadata(manifest, sink);
        if let Some(vnfd) = &read.vnfd {
            compare_with_vnfd(manifest, vnfd, sink);
        }
        sources(source, manifest, sink);
    }
}

/// `TOSCA.meta`: its keys, and the files that it names.
fn meta(source: &Source<'_>, sink: &mut Sink) {
    let Some(path) = source
        .paths
        .iter()
        .find(|path| path.eq_ignore_ascii_case("TOSCA-Metadata/TOSCA.meta"))
    else {
        return;
    };
    let text = source.text(path).unwrap_or_default();
    let block: Vec<(usize, &str, &str)> = text
        .lines()
        .enumerate()
        .skip_while(|(_, line)| line.trim().is_empty())
        .take_while(|(_, line)| !line.trim().is_empty())
        .filter_map(|(index, line)| {
            line.split_once(':')
                .map(|(key, value)| (index + 1, key.trim(), value.trim()))
        })
        .collect();
    for (line, key, value) in &block {
        let span = Span::line(path, *line);
        if !META_KEYS
            .iter()
            .any(|(known, _)| known.eq_ignore_ascii_case(key))
        {
            let message = format!("`{key}` is not a key of TOSCA.meta");
            let finding = Finding::new(codes::META_KEY, span.clone(), message).about(*key);
            sink.add(finding.did_you_mean(key, META_KEYS.iter().map(|(known, _)| *known)));
        }
        // Reading the package checks the entry and the manifest.
        let file =
            key.contains("Entry-") && !key.ends_with("Definitions") && !key.ends_with("Manifest");
        let inside = format!("{}/", value.trim_end_matches('/'));
        let exists = |value: &str| {
            normalise(value).is_ok_and(|path| source.archive.has(&path))
                || source.paths.iter().any(|path| path.starts_with(&inside))
        };
        if file && !exists(value) {
            let message = format!("`{value}` is not in the package");
            let finding = Finding::new(codes::META_FILE, span, message);
            sink.add(finding.did_you_mean(value, source.paths.iter().copied()));
        }
    }
    for (key, _) in META_KEYS.iter().filter(|(_, required)| *required) {
        if !block
            .iter()
            .any(|(_, given, _)| given.eq_ignore_ascii_case(key))
        {
            let message = format!("`{key}` is missing");
            let hint = match *key {
                "Created-By" => "state who created the package",
                "CSAR-Version" => "write `CSAR-Version: 1.1`",
                _ => "write `TOSCA-Meta-File-Version: 1.0`",
            };
            let finding = Finding::new(codes::META_KEY, Span::file(path), message);
            sink.add(finding.about(*key).hint(hint));
        }
    }
}

/// Reports lines of the manifest that are ignored.
fn lines(source: &Source<'_>, manifest: &Manifest, sink: &mut Sink) {
    let text = source.text(&manifest.path).unwrap_or_default();
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.starts_with("-----BEGIN") {
            return;
        }
        if !line.is_empty() && !line.contains(':') {
            let span = Span::line(&manifest.path, index + 1);
            let message = format!("`{line}` is not `Key: value`");
            sink.add(Finding::new(codes::MANIFEST_LINE, span, message));
        }
    }
}

fn metadata(manifest: &Manifest, sink: &mut Sink) {
    let span = || Span::file(&manifest.path);
    // The manifests of PNFs and ASDs have other keys.
    if manifest
        .metadata
        .keys()
        .any(|key| key.starts_with("pnfd_") || key.starts_with("application_"))
    {
        return;
    }
    for key in manifest.metadata.keys() {
        if !METADATA.iter().any(|(known, _)| known == key) {
            let finding = Finding::new(
                codes::MANIFEST_METADATA,
                span(),
                format!("`{key}` is not metadata of a VNF package"),
            );
            sink.add(finding.did_you_mean(key, METADATA.iter().map(|(known, _)| *known)));
        }
    }
    for (key, _) in METADATA.iter().filter(|(_, required)| *required) {
        if manifest.metadata.get(*key).is_none_or(String::is_empty) {
            let message = format!("`{key}` is missing");
            let finding = Finding::new(codes::MANIFEST_METADATA, span(), message).about(*key);
            sink.add(finding.hint("add it below `metadata:`"));
        }
    }
    if let Some(date) = manifest
        .metadata
        .get("vnf_release_date_time")
        .filter(|date| !is_time(date))
    {
        let message = format!("`{date}` is not a date and time");
        let finding = Finding::new(codes::MANIFEST_DATE, span(), message);
        sink.add(finding.hint("write it as `2026-11-01T10:00:00Z`"));
    }
}

/// A date and time of RFC 3339: `2026-11-01T10:00:00Z`.
fn is_time(text: &str) -> bool {
    let Some((day, time)) = text.split_once(['T', 't', ' ']) else {
        return false;
    };
    let shape = |text: &str, shape: &str| {
        text.len() == shape.len()
            && text
                .bytes()
                .zip(shape.bytes())
                .all(|(byte, expected)| match expected {
                    b'0' => byte.is_ascii_digit(),
                    _ => byte == expected,
                })
    };
    let zone = time.find(['Z', 'z', '+']).or_else(|| time.rfind('-'));
    let Some((clock, zone)) = zone.map(|at| time.split_at(at)) else {
        return false;
    };
    let clock = clock.split('.').next().unwrap_or_default();
    let offset = zone.eq_ignore_ascii_case("z") || shape(&zone[1..], "00:00");
    shape(day, "0000-00-00") && shape(clock, "00:00:00") && offset
}

/// The manifest's metadata equals the VNFD's properties.
fn compare_with_vnfd(manifest: &Manifest, vnfd: &Vnfd, sink: &mut Sink) {
    let pairs = [
        ("vnf_product_name", "product_name", &vnfd.product_name),
        ("vnf_provider_id", "provider", &vnfd.provider),
        ("vnfd_id", "descriptor_id", &vnfd.descriptor_id),
        (
            "vnf_software_version",
            "software_version",
            &vnfd.software_version,
        ),
    ];
    for (key, property, stated) in pairs {
        let Some(other) = manifest.metadata.get(key).filter(|other| *other != stated) else {
            continue;
        };
        let message = format!("`{key}` is `{other}`, but the VNFD's `{property}` is `{stated}`");
        sink.add(Finding::new(
            codes::MANIFEST_DIFFERS,
            Span::file(&manifest.path),
            message,
        ));
    }
}

/// The files that the manifest names, and those that it does not.
fn sources(source: &Source<'_>, manifest: &Manifest, sink: &mut Sink) {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    for named in &manifest.sources {
        let path = normalise(&named.source).unwrap_or_else(|_| named.source.clone());
        if let Some(first) = seen.insert(path, named.line) {
            let message = format!("`{}` is already named on line {first}", named.source);
            let span = Span::line(&manifest.path, named.line);
            sink.add(Finding::new(codes::MANIFEST_TWICE, span, message));
        }
    }
    // The manifest and TOSCA.meta need no hash.
    let itself = |path: &str| path == manifest.path || path.ends_with("TOSCA.meta");
    let counted = || {
        manifest
            .sources
            .iter()
            .filter(|named| !itself(&named.source))
    };
    let hashed = counted().filter(|named| named.hash.is_some()).count();
    for named in counted().filter(|named| hashed > 0 && named.hash.is_none()) {
        if !named.source.contains("://") {
            let span = Span::line(&manifest.path, named.line);
            let message = format!("`{}` has no hash, unlike other files", named.source);
            let finding = Finding::new(codes::MANIFEST_HASHES, span, message).about(&named.source);
            sink.add(finding.hint("state `Algorithm` and `Hash` of every file"));
        }
    }
    let named: BTreeSet<&str> = seen.keys().map(String::as_str).collect();
    for path in &source.paths {
        let unlisted = UNLISTED.contains(path) || path.starts_with("requests/") || is_junk(path);
        let signature = [".cms", ".cert", ".p7", ".pem", ".sig"]
            .iter()
            .any(|end| path.ends_with(end));
        if named.contains(path) || itself(path) || unlisted || signature {
            continue;
        }
        let message = format!("the manifest `{}` does not name this file", manifest.path);
        let finding = Finding::new(codes::FILE_UNNAMED, Span::file(path), message).about(*path);
        sink.add(finding.hint(format!("add `Source: {path}`, or remove the file")));
    }
}

fn is_junk(path: &str) -> bool {
    const NAMES: &[&str] = &[".DS_Store", "Thumbs.db", "desktop.ini"];
    let name = base(path);
    NAMES.contains(&name)
        || path.starts_with("__MACOSX/")
        || path
            .split('/')
            .any(|part| part == ".git" || part == "__pycache__")
        || [".swp", ".orig", ".rej", ".bak", ".pyc", "~"]
            .iter()
            .any(|end| name.ends_with(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn release_dates_follow_rfc_3339() {
        for text in [
            "2026-11-01T10:00:00Z",
            "2026-11-01 10:00:00.5+01:00",
            "2026-11-01T10:00:00-05:00",
        ] {
            assert!(is_time(text), "{text}");
        }
        for text in [
            "2026-11-01",
            "01.11.2026",
            "2026-11-01T10:00:00",
            "",
            "2026-11-01T10:00Z",
        ] {
            assert!(!is_time(text), "{text}");
        }
    }
}

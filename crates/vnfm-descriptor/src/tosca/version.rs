//! The SOL001 version of a package: stated by its imports, else by the type files in the package, else by its manifest.
//!
//! ```text
//! …/SOL001/raw/v2.6.1/etsi_nfv_sol001_vnfd_types.yaml      in the URL
//! etsi_nfv_sol001_vnfd_2_5_1_types.yaml                    in the file's name
//! Definitions/etsi_nfv_sol001_vnfd_types.yaml              `template_version` in the file
//! Definitions/types/nfv.yaml                               the same, if its `template_name` is the standard's
//! compatible_specification_versions: 2.7.1,3.3.1           in the manifest
//! ```
//! A package that states no version is read as the newest, and may use everything from any version.

use super::tagged::VERSIONS;
pub(super) use super::tagged::Version;
use crate::codes;
use crate::finding::{Finding, Span};
use crate::sink::Sink;
use std::collections::BTreeSet;

/// A version that a package states, and where.
pub(super) struct StatedVersion {
    version: String,
    span: Span,
}

impl StatedVersion {
    /// The version in the name or URL of an import, the file's own name first.
    pub(super) fn in_name(name: &str, span: &Span) -> Option<Self> {
        let (path, file) = name.rsplit_once('/').unwrap_or(("", name));
        let version = version_number(file).or_else(|| version_number(path))?;
        Some(StatedVersion {
            version,
            span: span.clone(),
        })
    }

    /// Whether the types of this version are built in.
    pub(super) fn is_known(&self) -> bool {
        Version::named(&self.version).is_some()
    }

    pub(super) fn new(version: String, span: &Span) -> Self {
        StatedVersion {
            version,
            span: span.clone(),
        }
    }

    /// The version that a copy of the standard's types states at its head. A file that is not `named` like one must
    /// identify itself: a vendor's own `template_version` has nothing to do with SOL001.
    pub(super) fn copied(text: &str, named: bool) -> Option<String> {
        let lines = text.lines().map(str::trim_start);
        let head = || {
            lines
                .clone()
                .take_while(|line| !line.starts_with("data_types"))
                .take(HEAD_LINES)
        };
        let standard = |line: &str| {
            let value = |key: &str| {
                line.strip_prefix(key)
                    .map(|value| value.trim().to_ascii_lowercase())
            };
            let named = value("template_name:").is_some_and(|name| name.contains(TYPES));
            let described = value("description:").is_some_and(|text| text.contains(DESCRIBED));
            named || described
        };
        if !named && !head().any(standard) {
            return None;
        }
        let stated =
            |line: &&str| line.starts_with("template_version:") || line.starts_with("description:");
        head().filter(stated).filter_map(version_number).last()
    }
}

/// The names of the standard's type files contain this, and their descriptions [`DESCRIBED`].
const TYPES: &str = "etsi_nfv_sol001_";
const DESCRIBED: &str = "etsi nfv sol 001";

/// Lines of a type file's head.
const HEAD_LINES: usize = 40;

/// The version of a package, if it states one.
pub(super) fn choose(
    stated: &[StatedVersion],
    compatible: Option<&str>,
    sink: &mut Sink,
) -> Option<Version> {
    let names: BTreeSet<&str> = stated
        .iter()
        .map(|stated| stated.version.as_str())
        .collect();
    let Some(last) = stated.last() else {
        let listed = compatible.into_iter().flat_map(|list| list.split(','));
        let known = listed.filter_map(|name| Version::named(name.trim().trim_start_matches('v')));
        return known.max();
    };
    let newest = |name: &&str| Version::named(name).unwrap_or(Version::NEWEST);
    let version = names.iter().map(newest).max().unwrap_or(Version::NEWEST);
    if let Some(unknown) = stated.iter().find(|stated| !stated.is_known()) {
        let message = format!(
            "SOL001 {} is unknown; the package is read as {}",
            unknown.version,
            version.name()
        );
        sink.add(
            Finding::new(codes::SOL001_VERSION, unknown.span.clone(), message)
                .hint(format!("known versions: {}", VERSIONS.join(", "))),
        );
    } else if names.len() > 1 {
        let all: Vec<&str> = names.iter().copied().collect();
        let message = format!(
            "the package imports SOL001 in versions {}; it is read as {}",
            all.join(" and "),
            version.name()
        );
        sink.add(
            Finding::new(codes::SOL001_VERSION, last.span.clone(), message)
                .hint("import all type files in the same version"),
        );
    }
    Some(version)
}

/// The first three numbers joined by dots or underscores, such as `v2.6.1` or `2_5_1`.
fn version_number(text: &str) -> Option<String> {
    let joined = |c: char| c.is_ascii_digit() || c == '.' || c == '_';
    let text = text.to_ascii_lowercase().replace("sol001", "sol");
    text.split(|c| !joined(c)).find_map(|run| {
        let numbers: Vec<&str> = run
            .split(['.', '_'])
            .filter(|number| !number.is_empty())
            .collect();
        let [_, _, _] = numbers[..] else { return None };
        numbers
            .iter()
            .all(|number| number.len() <= 3)
            .then(|| numbers.join("."))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_found_in_file_names_and_urls() {
        for (name, expected) in [
            (
                "https://forge.etsi.org/rep/nfv/SOL001/raw/v2.6.1/etsi_nfv_sol001_vnfd_types.yaml",
                Some("2.6.1"),
            ),
            (
                "https://forge.etsi.org/rep/nfv/SOL001/-/blob/4.4.1/etsi_nfv_sol001_common_types.yaml?ref_type=tags",
                Some("4.4.1"),
            ),
            (
                "helloworld3/etsi_nfv_sol001_vnfd_2_5_1_types.yaml",
                Some("2.5.1"),
            ),
            ("etsi_nfv_sol001_2_7_1_types.yaml", Some("2.7.1")),
            (
                "v2.6.1/etsi_nfv_sol001_vnfd_types_v3.3.1.yaml",
                Some("3.3.1"),
            ),
            ("http://10.0.0.1/etsi_nfv_sol001_vnfd_types.yaml", None),
            ("etsi_nfv_sol001_vnfd_types.yaml", None),
            ("2024.1/etsi_nfv_sol001_vnfd_types.yaml", None),
        ] {
            let stated =
                StatedVersion::in_name(name, &Span::file("a")).map(|stated| stated.version);
            assert_eq!(stated.as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_copy_states_its_version_in_its_head() {
        let version_of = |text| StatedVersion::copied(text, false);
        let head = "description: ETSI NFV SOL 001 vnfd types 2.6.1\nmetadata:\n  template_name: etsi_nfv_sol001_vnfd_types\n  template_version: 2.7.1\n";
        assert_eq!(version_of(head).as_deref(), Some("2.7.1"));
        let old = "description: ETSI NFV SOL 001 vnfd types definitions version 2.5.1\n";
        assert_eq!(version_of(old).as_deref(), Some("2.5.1"));
        let own = "description: my VNF 1.2.3\nmetadata: \n  template_name: mine\n  template_version: 3.3.1\n";
        assert_eq!(
            version_of(own),
            None,
            "a vendor's version is not a version of SOL001"
        );
        assert_eq!(
            StatedVersion::copied(own, true).as_deref(),
            Some("3.3.1"),
            "unless the file is named like the standard's"
        );
        assert_eq!(
            version_of("description: x\ndata_types:\n  a: {template_version: 2.5.1}\n"),
            None
        );
    }

    #[test]
    fn the_newest_stated_version_is_used() {
        let chosen = |names: &[&str], compatible| {
            let span = Span::file("a.yaml");
            let stated: Vec<StatedVersion> = names
                .iter()
                .filter_map(|name| StatedVersion::in_name(name, &span))
                .collect();
            let mut sink = Sink::default();
            let version = choose(&stated, compatible, &mut sink).map_or("none", Version::name);
            (
                version,
                sink.finish()
                    .unwrap()
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>(),
            )
        };
        assert_eq!(
            chosen(&["a_3.3.1", "b_3.3.1"], Some("4.2.1")),
            ("3.3.1", vec![])
        );
        assert_eq!(chosen(&[], Some("2.7.1, 3.5.1,9.9.9")), ("3.5.1", vec![]));
        assert_eq!(chosen(&[], None), ("none", vec![]));
        let (version, warned) = chosen(&["2.6.1", "3.3.1"], None);
        assert_eq!(version, "3.3.1");
        assert!(warned[0].contains("versions 2.6.1 and 3.3.1"), "{warned:?}");
        let (version, warned) = chosen(&["9.1.1"], None);
        assert_eq!(version, "5.4.1");
        assert!(
            warned[0].starts_with("a.yaml: warning[W-SOL001-VERSION]: SOL001 9.1.1 is unknown"),
            "{warned:?}"
        );
    }
}

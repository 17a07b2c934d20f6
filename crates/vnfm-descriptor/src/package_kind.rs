//! Recognises what a file is if it is something other than a VNF package, and says so in one finding instead of hundreds.
//!
//! | recognised by | kind |
//! |---|---|
//! | the names of its files | SDC's CSARs, outer archives, charts |
//! | the YAML files at its root | Heat templates, OSM's descriptors (SOL006) |
//! | metadata of its manifest, types of its node templates | NSDs, PNFDs: `tosca/other_kinds.rs` |
//! | its first bytes | compressed archives that are not zip archives: `archive.rs` |
//!
//! An archive with `TOSCA-Metadata/TOSCA.meta` may be a VNF package whatever YAML files it has at its root.

use crate::archive::Archive;
use crate::codes;
use crate::finding::{Finding, Span};
use crate::limits::Limits;
use crate::path::{base, folder, has_extension};

/// YAML files at the root whose text is searched.
const MAX_ROOT_FILES: usize = 100;

const EXTRACT: &str = "extract the package and use that";
const NO_CHART: &str = "add the chart to a VNF package, as the artifact of a `tosca.nodes.nfv.Mciop` or of an ASD's deployment item";
const NO_HEAT: &str =
    "add the templates to a VNF package: `BaseHOT/FLAVOUR/`, next to a VNFD in `Definitions/`";
const NO_OSM: &str = "write a VNFD of SOL001 (TOSCA): OSM's descriptors follow SOL006 (YANG)";

/// The finding that all others follow from; `drop_consequences` keeps it alone.
pub(crate) fn found(span: Option<Span>, what: &str, hint: impl Into<String>) -> Finding {
    let message = format!("this is {what}, not a VNF package");
    Finding::new(codes::PACKAGE_KIND, span, message).hint(hint)
}

/// What an archive is, if the names of its files or the YAML files at its root show that it is no VNF package.
pub(crate) fn of_archive(archive: &Archive, limits: &Limits) -> Option<Finding> {
    let paths: Vec<&str> = archive.paths().collect();
    if let Some(finding) = sdc_csar(&paths) {
        return Some(finding);
    }
    let is_meta = |path: &&str| path.eq_ignore_ascii_case("TOSCA-Metadata/TOSCA.meta");
    if paths.iter().any(is_meta) {
        return None;
    }
    outer_archive(&paths)
        .or_else(|| chart(&paths))
        .or_else(|| root_files(&paths, archive, limits))
}

/// A CSAR of ONAP's SDC: a service or a resource, which may contain the package that was onboarded there.
fn sdc_csar(paths: &[&str]) -> Option<Finding> {
    // A VNF package may name its descriptor like this, but has a manifest; SDC's own has one name.
    let is_manifest = |path: &&str| {
        folder(path).is_empty() && has_extension(path, &["mf"]) && *path != "MainServiceTemplate.mf"
    };
    let has_manifest = paths.iter().any(is_manifest);
    let template = |kind: &str| {
        let names = || paths.iter().map(|path| base(path));
        !has_manifest
            && names().any(|name| name.starts_with(kind) && name.ends_with("-template.yml"))
    };
    let internal = |path: &&str| base(path) == "GlobalSubstitutionTypesServiceTemplate.yaml";
    let what = if template("service-") {
        "a service CSAR of ONAP SDC"
    } else if template("resource-") || paths.contains(&"csar.meta") {
        "a resource CSAR of ONAP SDC"
    } else if paths.iter().any(internal) {
        "a CSAR that ONAP SDC generated"
    } else {
        return None;
    };
    let packages: Vec<&str> = paths
        .iter()
        .filter(|path| has_extension(path, &["csar"]))
        .copied()
        .collect();
    let hint = match packages[..] {
        [] => "use the package that was onboarded to SDC".to_owned(),
        [only] => format!("it contains the package `{only}`: {EXTRACT}"),
        [first, second] => format!("it contains the packages `{first}` and `{second}`: use these"),
        [first, ref others @ ..] => format!(
            "it contains the package `{first}` and {} others: use these",
            others.len()
        ),
    };
    Some(found(None, what, hint))
}

/// An archive around one package, which is unsigned, or has more files than SOL004 5.1 allows.
fn outer_archive(paths: &[&str]) -> Option<Finding> {
    const ACCOMPANYING: &[&str] = &["cms", "p7s", "cert", "crt", "cer", "pem", "txt", "md"];
    let is_package = |path: &&&str| has_extension(path, &["csar"]);
    let mut packages = paths.iter().filter(is_package);
    let (Some(package), None) = (packages.next(), packages.next()) else {
        return None;
    };
    let accompanies = |path: &&str| path == package || has_extension(path, ACCOMPANYING);
    paths.iter().all(accompanies).then(|| {
        let hint = format!(
            "its package is `{package}`: {EXTRACT}; a signed one is accepted as it is with exactly one `.cms` and one `.cert` next to it"
        );
        found(None, "an archive around a package", hint)
    })
}

/// A Helm chart as a folder or zip archive, or several packed ones as SDC takes them.
fn chart(paths: &[&str]) -> Option<Finding> {
    let charts: Vec<&&str> = paths
        .iter()
        .filter(|path| base(path) == "Chart.yaml")
        .collect();
    let top = charts
        .iter()
        .map(|path| folder(path))
        .min_by_key(|folder| folder.len());
    if let Some(top) = top.filter(|top| !top.contains('/'))
        && paths
            .iter()
            .all(|path| top.is_empty() || path.starts_with(&format!("{top}/")))
    {
        return Some(found(None, "a Helm chart", NO_CHART));
    }
    let packed = paths
        .iter()
        .any(|path| folder(path).is_empty() && has_extension(path, &["tgz"]));
    (packed && paths.contains(&"MANIFEST.json"))
        .then(|| found(None, "an archive of Helm charts for ONAP SDC", NO_CHART))
}

/// Heat templates or SOL006 descriptors at the root, without any TOSCA.
fn root_files(paths: &[&str], archive: &Archive, limits: &Limits) -> Option<Finding> {
    let yaml = paths
        .iter()
        .filter(|path| path.matches('/').count() <= 1 && has_extension(path, &["yaml", "yml"]));
    let mut heat = None;
    let mut osm = None;
    for path in yaml.take(MAX_ROOT_FILES) {
        let bytes = archive
            .read(path, limits.yaml_bytes as u64)
            .unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        if has_key(&text, &["tosca_definitions_version"]) {
            return None;
        }
        if folder(path).is_empty() && has_key(&text, &["heat_template_version"]) {
            heat.get_or_insert(*path);
        }
        if is_sol006(&text) {
            osm.get_or_insert(*path);
        }
    }
    let heat = heat.map(|path| {
        found(
            Some(Span::file(path)),
            "an archive of Heat templates",
            NO_HEAT,
        )
    });
    heat.or_else(|| osm.map(sol006))
}

fn sol006(path: &str) -> Finding {
    found(
        Some(Span::file(path)),
        "a descriptor of OSM or SOL006",
        NO_OSM,
    )
}

/// Whether a line starts with one of the keys.
fn has_key(text: &str, keys: &[&str]) -> bool {
    let starts = |line: &str| {
        let line = line.trim_start_matches('\u{feff}');
        keys.iter().any(|key| {
            let rest = line.strip_prefix(key);
            rest.is_some_and(|rest| rest.trim_start().starts_with(':'))
        })
    };
    text.lines().any(starts)
}

/// Whether a YAML text is a descriptor of OSM or SOL006.
fn is_sol006(text: &str) -> bool {
    has_key(
        text,
        &[
            "vnfd",
            "nsd",
            "nst",
            "vnfd-catalog",
            "nsd-catalog",
            "vnfd:vnfd-catalog",
            "nsd:nsd-catalog",
            "etsi-nfv-descriptors:nfv",
            "'vnfd:vnfd-catalog'",
            "'nsd:nsd-catalog'",
        ],
    )
}

/// What a YAML file without TOSCA, Heat or Kubernetes content is.
pub fn of_text(path: &str, text: &str) -> Finding {
    if is_sol006(text) {
        return sol006(path);
    }
    let message =
        "the file is neither a TOSCA descriptor, nor a Heat template, nor Kubernetes objects";
    Finding::new(codes::PACKAGE_KIND, Span::file(path), message)
        .hint("a descriptor starts with `tosca_definitions_version`")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_are_recognised_by_the_names_of_their_files() {
        let kind = |paths: &[&str]| {
            let found = sdc_csar(paths)
                .or_else(|| outer_archive(paths))
                .or_else(|| chart(paths));
            found.map(|finding| {
                format!("{} / {}", finding.message, finding.hint.unwrap_or_default())
            })
        };
        let is = |paths: &[&str], expected: &str| {
            let found = kind(paths).unwrap_or_default();
            assert!(found.contains(expected), "{paths:?}: {found}");
        };
        is(
            &["Definitions/service-A-template.yml", "csar.meta"],
            "service CSAR",
        );
        is(
            &["a_FILES/Definitions/resource-A-template.yml"],
            "resource CSAR",
        );
        is(
            &[
                "Definitions/resource-A-template.yml",
                "MainServiceTemplate.mf",
            ],
            "resource CSAR",
        );
        is(
            &["a.csar", "b.csar", "c.csar", "csar.meta"],
            "the package `a.csar` and 2 others",
        );
        is(
            &["Artifacts/x/vnf.csar", "csar.meta"],
            "the package `Artifacts/x/vnf.csar`",
        );
        is(&["web.csar", "web.cert"], "its package is `web.csar`");
        is(&["web/Chart.yaml", "web/templates/a.yaml"], "a Helm chart");
        is(&["Chart.yaml", "charts/b/Chart.yaml"], "a Helm chart");
        is(&["MANIFEST.json", "a.tgz"], "Helm charts for ONAP SDC");
        for paths in [
            &["vnfd.yaml", "Files/web/Chart.yaml"][..],
            &["vnfd.yaml", "a/Chart.yaml"],
            &["vnfd.yaml", "inner.csar"],
            &["vnfd.yaml", "web.tgz"],
            &["resource-web-template.yml", "resource-web-template.mf"],
        ] {
            assert_eq!(kind(paths), None, "{paths:?}");
        }
    }

    #[test]
    fn texts_are_recognised_by_their_keys() {
        for text in [
            "vnfd:\n  id: a\n",
            "nsd :\n",
            "\u{feff}vnfd:vnfd-catalog:\n  vnfd:\n",
        ] {
            assert!(is_sol006(text), "{text}");
        }
        for text in ["a:\n  vnfd: b\n", "vnfd_id: a\n", "# vnfd:\n"] {
            assert!(!is_sol006(text), "{text}");
        }
    }
}

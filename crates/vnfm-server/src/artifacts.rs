//! Selects files of a package for clients (SOL005 9.4.4, 9.4.4b, 9.4.5a; SOL004 4.3).
//!
//! ```text
//! package ─┬ VNFD            the YAML files in the folder of its entry file, and TOSCA.meta
//!          ├ manifest        and the certificate of its signature
//!          ├ software images
//!          ├ signatures      and certificates of single files, which the manifest names
//!          └ artifacts       everything else: non-MANO artifacts are in a set of the manifest, the others are MANO artifacts
//! ```
//! External artifacts are named by their URI without the scheme.

use crate::problem::{HandlerResult, Problem};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_descriptor::{Package, SwImage};

/// The requested artifacts (SOL005 9.4.5a.3.2).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Selection {
    exclude_mano: bool,
    exclude_non_mano: bool,
    externals: bool,
    /// Includes signatures of single files.
    signatures: bool,
    /// Sets of non-MANO artifacts; all if absent.
    sets: Option<BTreeSet<String>>,
}

/// Query parameter: include signatures and certificates.
pub(crate) const SIGNATURES: &str = "include_signatures";
const NO_MANO: &str = "exclude_all_mano_artifacts";
const NO_NON_MANO: &str = "exclude_all_non_mano_artifacts";
const EXTERNALS: &str = "include_external_artifacts";
const SETS: &str = "select_non_mano_artifact_sets";

impl Selection {
    /// Parses the query parameters of a request for artifacts.
    ///
    /// # Errors
    ///
    /// 400 for an unknown parameter, a flag with a value, or contradictory parameters.
    pub(crate) fn from_query(query: &BTreeMap<String, String>) -> HandlerResult<Self> {
        crate::query::known(query, &[SIGNATURES, NO_MANO, NO_NON_MANO, EXTERNALS, SETS])?;
        let sets = query
            .get(SETS)
            .map(|sets| sets.split(',').map(|set| set.trim().to_owned()));
        let selection = Self {
            exclude_mano: flag(query, NO_MANO)?,
            exclude_non_mano: flag(query, NO_NON_MANO)?,
            externals: flag(query, EXTERNALS)?,
            signatures: flag(query, SIGNATURES)?,
            sets: sets.map(Iterator::collect),
        };
        if selection.exclude_non_mano && selection.sets.is_some() {
            let detail = format!("`{NO_NON_MANO}` and `{SETS}` contradict each other");
            return Err(Problem::bad_request(detail));
        }
        Ok(selection)
    }
}

/// Whether a flag, which is a parameter without a value, is present.
///
/// # Errors
///
/// 400 if it has a value.
pub(crate) fn flag(query: &BTreeMap<String, String>, name: &str) -> HandlerResult<bool> {
    match query.get(name).map(String::as_str) {
        None => Ok(false),
        Some("") => Ok(true),
        Some(value) => {
            let detail =
                format!("query parameter `{name}` is a flag; it must not have the value `{value}`");
            Err(Problem::bad_request(detail))
        }
    }
}

/// Files for an archive: name in the archive to path or URI in the package.
pub(crate) type Files = BTreeMap<String, String>;

/// The files of the VNFD; with `signatures`, also the signatures and certificates.
pub(crate) fn of_vnfd(package: &Package, signatures: bool) -> Files {
    let entry = package.entry();
    let folder = entry.rsplit_once('/').map_or("", |(folder, _)| folder);
    let is_in_folder = |path: &str| match folder {
        "" => !path.contains('/'),
        folder => path
            .strip_prefix(folder)
            .is_some_and(|rest| rest.starts_with('/')),
    };
    let yaml = |path: &&str| is_yaml(path) && is_in_folder(path);
    let mut paths: BTreeSet<&str> = package.paths().filter(yaml).collect();
    paths.insert(entry);
    paths.extend(package.paths().filter(|path| is_meta(path)));
    if signatures {
        let signatures: Vec<_> = paths
            .iter()
            .flat_map(|path| signatures_of(package, path))
            .collect();
        paths.extend(signatures);
        paths.extend(manifest_and_certificate(package));
    }
    named(paths)
}

/// The manifest and the certificate of its signature.
pub(crate) fn of_manifest(package: &Package) -> Files {
    named(manifest_and_certificate(package))
}

/// One file, with its signature and certificate.
pub(crate) fn of_file(package: &Package, path: &str) -> Files {
    let mut files = named(signatures_of(package, path));
    files.insert(name_of(path), path.to_owned());
    files
}

/// The artifacts that a request selects.
///
/// # Errors
///
/// If the manifest cannot be read.
pub(crate) fn selected(package: &Package, selection: &Selection) -> Result<Files, String> {
    let sets = sets(package)?;
    let is_requested = |path: &str| match sets.get(path) {
        None => !selection.exclude_mano,
        Some(set) => {
            let chosen = selection.sets.as_ref();
            !selection.exclude_non_mano && chosen.is_none_or(|chosen| chosen.contains(set))
        }
    };
    let mut files = Files::new();
    for path in artifacts(package).filter(|path| is_requested(path)) {
        files.insert(name_of(path), path.to_owned());
    }
    if selection.externals {
        let uris = package
            .externals()
            .iter()
            .map(|external| external.uri.as_str());
        files.extend(
            uris.filter(|uri| is_requested(uri))
                .map(|uri| (name_of(uri), uri.to_owned())),
        );
    }
    if selection.signatures {
        let signatures: Vec<_> = files
            .values()
            .flat_map(|path| signatures_of(package, path))
            .collect();
        files.extend(named(signatures));
    }
    Ok(files)
}

/// All files except VNFD, manifest, images and signatures.
pub(crate) fn artifacts(package: &Package) -> impl Iterator<Item = &str> {
    let mut others: BTreeSet<&str> = manifest_and_certificate(package).collect();
    let sources = package
        .manifest()
        .map(|manifest| manifest.sources.as_slice());
    for source in sources.unwrap_or_default() {
        others.extend(source.signature.as_deref());
        others.extend(source.certificate.as_deref());
    }
    others.extend(images(package).filter_map(|(_, image)| image.artifact.as_deref()));
    let vnfd = of_vnfd(package, false);
    package
        .paths()
        .filter(move |path| !vnfd.contains_key(*path) && !others.contains(path))
}

/// The images of all flavours, with the VDU, storage or container that uses each.
pub(crate) fn images(package: &Package) -> impl Iterator<Item = (&str, &SwImage)> {
    package.vnfd().flavours.values().flat_map(|flavour| {
        let containers = flavour.containers.values();
        let of_containers =
            containers.filter_map(|one| Some((one.name.as_str(), one.image.as_ref()?)));
        flavour.images().chain(of_containers)
    })
}

/// The manifest, whose signature covers the package, and its certificate.
fn manifest_and_certificate(package: &Package) -> impl Iterator<Item = &str> {
    let manifest = package.manifest().map(|manifest| manifest.path.as_str());
    manifest.into_iter().chain(package.certificate())
}

/// Signature and certificate of a single file.
fn signatures_of<'a>(package: &'a Package, path: &str) -> Vec<&'a str> {
    let sources = package
        .manifest()
        .map(|manifest| manifest.sources.as_slice());
    let of_path = sources.unwrap_or_default().iter().filter(|source| {
        source.source == path
            || vnfm_descriptor::normalise(&source.source).is_ok_and(|it| it == path)
    });
    let named = of_path.flat_map(|source| [&source.signature, &source.certificate]);
    named
        .filter_map(|path| path.as_deref())
        .filter(|path| package.has(path))
        .collect()
}

/// The set of each non-MANO artifact (SOL004 4.3.7), by its path or URI: `non_mano_artifact_sets` of the manifest.
///
/// ```text
/// non_mano_artifact_sets:
///   acme_tests:
///     Source: Tests/smoke.sh
/// ```
///
/// # Errors
///
/// If the manifest cannot be read.
pub(crate) fn sets(package: &Package) -> Result<BTreeMap<String, String>, String> {
    let Some(manifest) = package.manifest() else {
        return Ok(BTreeMap::new());
    };
    let text = package
        .read(&manifest.path)
        .map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let mut sets = BTreeMap::new();
    let (mut in_sets, mut set) = (false, String::new());
    for line in text
        .lines()
        .take_while(|line| !line.starts_with("-----BEGIN"))
    {
        let is_top = !line.starts_with([' ', '\t']);
        let Some((key, value)) = line.trim().split_once(':') else {
            continue;
        };
        let (key, value) = (key.trim(), value.trim());
        if is_top {
            in_sets = value.is_empty() && key.eq_ignore_ascii_case("non_mano_artifact_sets");
            set.clear();
        } else if in_sets && value.is_empty() {
            key.clone_into(&mut set);
        } else if in_sets && key.eq_ignore_ascii_case("source") && !set.is_empty() {
            let path = vnfm_descriptor::normalise(value).unwrap_or_else(|_| value.to_owned());
            sets.insert(
                if value.contains("://") {
                    value.to_owned()
                } else {
                    path
                },
                set.clone(),
            );
        }
    }
    Ok(sets)
}

fn named<'a>(paths: impl IntoIterator<Item = &'a str>) -> Files {
    paths
        .into_iter()
        .map(|path| (path.to_owned(), path.to_owned()))
        .collect()
}

/// The name of a file in an archive: the path, or the URI without the scheme.
fn name_of(path: &str) -> String {
    path.split_once("://")
        .map_or(path, |(_, rest)| rest)
        .to_owned()
}

fn is_yaml(path: &str) -> bool {
    let extension = path
        .rsplit_once('.')
        .map(|(_, extension)| extension.to_ascii_lowercase());
    matches!(extension.as_deref(), Some("yaml" | "yml"))
}

fn is_meta(path: &str) -> bool {
    path.to_ascii_lowercase().starts_with("tosca-metadata/")
}

#[cfg(test)]
mod tests {
    use super::{Selection, of_vnfd, selected};
    use std::collections::{BTreeMap, BTreeSet};
    use std::io::Cursor;
    use std::path::PathBuf;
    use vnfm_descriptor::{Limits, Package, pack};

    /// A sample with lines appended to its manifest and with additional files.
    fn package(sample: &str, lines: &str, more: &[&str]) -> Package {
        let samples = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples");
        let limits = Limits::default();
        let package = Package::from_bytes(pack(&samples.join(sample), &limits).unwrap(), &limits);
        let package = package.unwrap();
        let manifest = package.manifest().unwrap().path.clone();
        let text = String::from_utf8(package.read(&manifest).unwrap()).unwrap();
        let mut files: BTreeMap<_, _> = more
            .iter()
            .map(|path| ((*path).to_owned(), b"x".to_vec()))
            .collect();
        files.insert(manifest, format!("{text}\n{lines}\n").into_bytes());
        let mut bytes = Cursor::new(Vec::new());
        vnfm_descriptor::repack(&package, &files, &mut bytes).unwrap();
        Package::from_bytes(bytes.into_inner(), &limits).unwrap()
    }

    fn query(text: &str) -> BTreeMap<String, String> {
        form_urlencoded::parse(text.as_bytes())
            .into_owned()
            .collect()
    }

    fn names(package: &Package, text: &str) -> Vec<String> {
        let selection = Selection::from_query(&query(text)).unwrap();
        selected(package, &selection).unwrap().into_keys().collect()
    }

    const SETS: &str = "non_mano_artifact_sets:\n  acme_tests:\n    Source: Tests/smoke.sh\n  \
                        acme_papers:\n    Source: Papers/manual.txt\n";

    #[test]
    fn all_other_files_are_mano_or_non_mano_artifacts() {
        let package = package("vnf-b-cnf", SETS, &["Tests/smoke.sh", "Papers/manual.txt"]);
        let manifests =
            ["order", "page", "service", "web"].map(|name| format!("Files/kubernetes/{name}.yaml"));
        let without = |text: &str| -> BTreeSet<String> {
            names(&package, text)
                .into_iter()
                .filter(|name| !manifests.contains(name))
                .collect()
        };
        let archive = |names: &[&str]| {
            names
                .iter()
                .map(|name| (*name).to_owned())
                .collect::<BTreeSet<_>>()
        };
        let all = without("");
        assert!(
            all.is_superset(&archive(&["Tests/smoke.sh", "Papers/manual.txt"])),
            "{all:?}"
        );
        assert!(
            manifests
                .iter()
                .all(|name| names(&package, "").contains(name))
        );
        for vnfd in [
            "Definitions/vnf-b.yaml",
            "TOSCA-Metadata/TOSCA.meta",
            "vnf-b.mf",
        ] {
            assert!(!all.contains(vnfd), "{vnfd}");
        }
        let only = names(&package, "exclude_all_mano_artifacts");
        assert_eq!(only, ["Papers/manual.txt", "Tests/smoke.sh"]);
        let chosen = "exclude_all_mano_artifacts&select_non_mano_artifact_sets=acme_tests,none";
        assert_eq!(names(&package, chosen), ["Tests/smoke.sh"]);
        let mano = without("exclude_all_non_mano_artifacts");
        assert!(
            mano.is_disjoint(&archive(&["Tests/smoke.sh", "Papers/manual.txt"])),
            "{mano:?}"
        );
        let nothing = "exclude_all_mano_artifacts&exclude_all_non_mano_artifacts";
        assert_eq!(names(&package, nothing), [""; 0]);
    }

    #[test]
    fn contradictory_parameters_are_refused() {
        for wrong in [
            "include_signatures=true",
            "everything",
            "exclude_all_non_mano_artifacts&select_non_mano_artifact_sets=a",
        ] {
            assert!(Selection::from_query(&query(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_vnfd_has_all_files_in_the_folder_of_its_entry() {
        let package = package("vnf-a-k8s-cluster", "", &[]);
        let files: Vec<_> = of_vnfd(&package, false).into_keys().collect();
        let vnfd = [
            "Definitions/vnf-a-types.yaml",
            "Definitions/vnf-a.yaml",
            "TOSCA-Metadata/TOSCA.meta",
        ];
        assert_eq!(files, vnfd);
        let signed: Vec<_> = of_vnfd(&package, true).into_keys().collect();
        assert_eq!(signed, [&vnfd[..], &["vnf-a.mf"]].concat());
    }
}

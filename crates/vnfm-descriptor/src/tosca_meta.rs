//! SOL004's two text files: `TOSCA-Metadata/TOSCA.meta` and the manifest `*.mf`.
//!
//! Both consist of `Key: value` lines. Real packages differ in case, indentation, line endings and the `ETSI-` prefix;
//! all variants are accepted. A signed manifest ends with a CMS signature, which `vnfm-signature` verifies.

use crate::archive::Archive;
use crate::codes;
use crate::external::External;
use crate::finding::{Finding, Span};
use crate::hashes::{Algorithm, Expected, ExpectedHashes, StatedBy};
use crate::meta_hashes;
use crate::oci;
use crate::path::{base, folder, has_extension, normalise};
use crate::sink::Sink;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// The content of `TOSCA.meta` and the manifest.
#[derive(Debug)]
pub struct Meta {
    /// Path of the descriptor in the package.
    pub entry: String,
    /// The SOL004 manifest, if the package has one.
    pub manifest: Option<Manifest>,
    /// The external artifacts that the manifest names.
    pub(crate) externals: Vec<External>,
    /// Path of the signer's certificate: the one that `TOSCA.meta` names, or the one next to the manifest.
    pub(crate) certificate: Option<String>,
    /// The files and URIs that the manifest and the sections of `TOSCA.meta` name.
    pub(crate) listed: BTreeSet<String>,
}

impl Meta {
    /// The versions of the standard that the manifest states.
    pub(crate) fn compatible_versions(&self) -> Option<&str> {
        let metadata = &self.manifest.as_ref()?.metadata;
        metadata
            .get("compatible_specification_versions")
            .map(String::as_str)
    }
}

/// The manifest of a package.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Manifest {
    /// The manifest's own path in the package.
    pub path: String,
    /// Names and values below `metadata:`.
    pub metadata: BTreeMap<String, String>,
    /// The files and external artifacts that it names, in its order.
    pub sources: Vec<ManifestSource>,
    /// Whether it ends with a CMS signature.
    pub signed: bool,
}

/// A file that the manifest names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ManifestSource {
    /// A path in the package, or a URI.
    pub source: String,
    /// `SHA-224`, `SHA-256`, `SHA-384` or `SHA-512`.
    pub algorithm: Option<String>,
    /// The hash as hexadecimal digits.
    pub hash: Option<String>,
    /// Path of the file's own signature, if it has one.
    pub signature: Option<String>,
    /// Path of the certificate of that signature.
    pub certificate: Option<String>,
    /// Line of the manifest that names it, from 1.
    pub line: usize,
}

impl ManifestSource {
    /// Whether it is an external artifact.
    pub fn is_external(&self) -> bool {
        self.source.contains("://")
    }
}

/// Finds the descriptor, and reads the manifest with the hashes that it states.
pub(crate) fn read(
    archive: &Archive,
    limit: u64,
    sink: &mut Sink,
) -> Option<(Meta, ExpectedHashes)> {
    let EntryPoints {
        entry,
        manifest: named,
        certificate,
        hashes,
        mut listed,
    } = entry_points(archive, limit, sink)?;
    let manifest = manifest_path(archive, &entry, named, sink);
    if manifest.is_none() && !sink.failed() {
        sink.add(
            Finding::new(codes::MANIFEST_NONE, None, "the package has no manifest")
                .hint("SOL004 requires one next to the descriptor, `*.mf`"),
        );
    }
    let manifest = manifest.and_then(|path| {
        Some(parse(
            &path,
            &text(archive, &path, limit, codes::MANIFEST, sink)?,
            sink,
        ))
    });
    let mut expected = ExpectedHashes::default();
    let stated = manifest.iter();
    let stated = stated.flat_map(|manifest| expected_hashes(manifest, archive, sink));
    for (path, hash) in stated.collect::<Vec<_>>().into_iter().chain(hashes) {
        expected.add(path, hash);
    }
    oci::add_hashes(archive, &mut expected);
    let externals = manifest
        .as_ref()
        .map(|manifest| externals(manifest, sink))
        .unwrap_or_default();
    let sources = manifest.iter().flat_map(|manifest| &manifest.sources);
    listed.extend(sources.map(|source| match normalise(&source.source) {
        Ok(path) if !source.is_external() => path,
        _ => source.source.clone(),
    }));
    archive.set_externals(
        externals
            .iter()
            .map(|external| external.uri.clone())
            .collect(),
    );
    let certificate = certificate
        .or_else(|| Some(certificate_path(&manifest.as_ref()?.path)))
        .and_then(|path| {
            let path = normalise(&path).ok()?;
            archive.has(&path).then_some(path)
        });
    Some((
        Meta {
            entry,
            manifest,
            externals,
            certificate,
            listed,
        },
        expected,
    ))
}

/// Path of the signer's certificate if it is next to the manifest (SOL004 4.3.6).
fn certificate_path(manifest: &str) -> String {
    format!(
        "{}.cert",
        manifest.rsplit_once('.').map_or(manifest, |(stem, _)| stem)
    )
}

/// The files that `TOSCA.meta` names.
struct EntryPoints {
    entry: String,
    manifest: Option<(String, Span)>,
    certificate: Option<String>,
    /// The hashes that `TOSCA.meta` states, each with the file's path.
    hashes: Vec<(String, Expected)>,
    /// The files that its sections name.
    listed: BTreeSet<String>,
}

/// Reads `TOSCA.meta`; without it, the descriptor is the only YAML file at the root.
fn entry_points(archive: &Archive, limit: u64, sink: &mut Sink) -> Option<EntryPoints> {
    let Some(meta) = archive
        .paths()
        .find(|path| path.eq_ignore_ascii_case("TOSCA-Metadata/TOSCA.meta"))
        .map(str::to_owned)
    else {
        let entry = root_yaml(archive, sink)?;
        return Some(EntryPoints {
            entry,
            manifest: None,
            certificate: None,
            hashes: Vec::new(),
            listed: BTreeSet::new(),
        });
    };
    let text = text(archive, &meta, limit, codes::META, sink)?;
    let block = first_block(&text);
    let find = |names: &[&str]| {
        block
            .iter()
            .find(|(key, _, _)| names.iter().any(|name| key.eq_ignore_ascii_case(name)))
    };
    let Some((_, value, line)) = find(&["Entry-Definitions"]) else {
        sink.add(
            Finding::new(codes::META, Span::file(&meta), "no `Entry-Definitions`")
                .hint("name the descriptor"),
        );
        return None;
    };
    let path = normalise(value).ok().filter(|path| archive.has(path));
    if path.is_none() {
        let finding = Finding::new(
            codes::ENTRY,
            Span::line(&meta, *line),
            format!("`Entry-Definitions` names `{value}`, which is not in the package"),
        );
        sink.add(finding.did_you_mean(value, archive.paths()));
    }
    let named = find(&["ETSI-Entry-Manifest", "Entry-Manifest"])
        .map(|(_, value, line)| (value.clone(), Span::line(&meta, *line)));
    let certificate = find(&["ETSI-Entry-Certificate", "Entry-Certificate"]);
    let certificate = certificate.map(|(_, value, _)| value.clone());
    Some(EntryPoints {
        entry: path?,
        manifest: named,
        certificate,
        hashes: meta_hashes::read(&meta, &text, archive, sink),
        listed: meta_hashes::names(&text).collect(),
    })
}

/// The only YAML file at the root.
fn root_yaml(archive: &Archive, sink: &mut Sink) -> Option<String> {
    let yaml = |path: &&str| has_extension(path, &["yaml", "yml"]);
    let roots: Vec<&str> = archive
        .paths()
        .filter(|path| folder(path).is_empty())
        .filter(yaml)
        .collect();
    if let [only] = roots.as_slice() {
        return Some((*only).to_owned());
    }
    let message = match roots.len() {
        0 => "the package has neither `TOSCA-Metadata/TOSCA.meta` nor a YAML file at its root"
            .to_owned(),
        _ => format!(
            "the package has no `TOSCA-Metadata/TOSCA.meta` but several YAML files at its root: {}",
            roots.join(", ")
        ),
    };
    let below = archive
        .paths()
        .find_map(|path| path.strip_suffix("/TOSCA-Metadata/TOSCA.meta"));
    let hint = match below {
        Some(folder) => format!("the package is in the folder `{folder}`: pack its content alone"),
        None => {
            "name the descriptor with `Entry-Definitions` in `TOSCA-Metadata/TOSCA.meta`".to_owned()
        }
    };
    sink.add(Finding::new(codes::ENTRY, None, message).hint(hint));
    None
}

fn manifest_path(
    archive: &Archive,
    entry: &str,
    named: Option<(String, Span)>,
    sink: &mut Sink,
) -> Option<String> {
    if let Some((value, span)) = named {
        let path = normalise(&value).ok().filter(|path| archive.has(path));
        if path.is_none() {
            sink.add(
                Finding::new(
                    codes::MANIFEST,
                    span,
                    format!("the manifest `{value}` is not in the package"),
                )
                .did_you_mean(&value, archive.paths()),
            );
        }
        return path;
    }
    let stem = entry.rsplit_once('.').map_or(entry, |(stem, _)| stem);
    let sibling = format!("{stem}.mf");
    if archive.has(&sibling) {
        return Some(sibling);
    }
    archive
        .paths()
        .find(|path| folder(path).is_empty() && has_extension(path, &["mf"]))
        .map(str::to_owned)
}

fn text(
    archive: &Archive,
    path: &str,
    limit: u64,
    code: &'static str,
    sink: &mut Sink,
) -> Option<String> {
    let read = archive.read(path, limit).map_err(|error| error.to_string());
    match read
        .and_then(|bytes| String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned()))
    {
        Ok(text) => Some(text),
        Err(reason) => {
            sink.add(Finding::new(code, Span::file(path), reason));
            None
        }
    }
}

/// The `Key: value` lines of the first block, which an empty line ends, with their line numbers.
fn first_block(text: &str) -> Vec<(String, String, usize)> {
    let lines = text
        .trim_start_matches('\u{feff}')
        .lines()
        .enumerate()
        .map(|(index, line)| (index + 1, line.trim()));
    lines
        .skip_while(|(_, line)| line.is_empty())
        .take_while(|(_, line)| !line.is_empty())
        .filter_map(|(number, line)| {
            line.split_once(':')
                .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned(), number))
        })
        .collect()
}

fn parse(path: &str, text: &str, sink: &mut Sink) -> Manifest {
    let mut manifest = Manifest {
        path: path.to_owned(),
        metadata: BTreeMap::new(),
        sources: Vec::new(),
        signed: false,
    };
    let mut in_metadata = false;
    for (index, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        // The signature starts here; nothing after this line is signed.
        if line.starts_with("-----BEGIN") {
            manifest.signed = true;
            let finding = Finding::new(
                codes::SIGNATURE,
                Span::line(path, index + 1),
                "the manifest's signature is not verified",
            );
            sink.add(
                finding.hint(
                    "its hashes are verified; the server verifies signatures if configured to",
                ),
            );
            break;
        }
        let Some((key, value)) = line
            .split_once(':')
            .map(|(key, value)| (key.trim(), value.trim()))
        else {
            continue;
        };
        match (
            key.to_ascii_lowercase().as_str(),
            manifest.sources.last_mut(),
        ) {
            ("metadata", _) if value.is_empty() => in_metadata = true,
            ("source", _) => {
                in_metadata = false;
                manifest.sources.push(ManifestSource {
                    source: value.to_owned(),
                    algorithm: None,
                    hash: None,
                    signature: None,
                    certificate: None,
                    line: index + 1,
                });
            }
            ("algorithm", Some(source)) => source.algorithm = Some(value.to_owned()),
            ("hash", Some(source)) => source.hash = Some(value.to_owned()),
            ("signature", Some(source)) => source.signature = Some(value.to_owned()),
            ("certificate", Some(source)) => source.certificate = Some(value.to_owned()),
            _ if in_metadata => drop(manifest.metadata.insert(key.to_owned(), value.to_owned())),
            _ => {}
        }
    }
    manifest
}

fn externals(manifest: &Manifest, sink: &mut Sink) -> Vec<External> {
    let external = manifest
        .sources
        .iter()
        .filter(|source| source.is_external());
    external
        .filter_map(|source| {
            External::from_source(source, &Span::line(&manifest.path, source.line), sink)
        })
        .collect()
}

/// The finding for a file that the manifest names but the package lacks. Without a hash nothing would be verified, so that
/// is only a warning; a file of the same name in another folder probably moved.
fn missing(source: &ManifestSource, archive: &Archive, span: Span) -> Finding {
    let named = &source.source;
    let code = match (&source.algorithm, &source.hash) {
        (None, None) => codes::MANIFEST_FILE,
        _ => codes::MANIFEST,
    };
    let message = format!("the manifest names `{named}`, which is not in the package");
    let finding = Finding::new(code, span, message).about(named);
    let same_name = |path: &&str| base(path).eq_ignore_ascii_case(base(named));
    let moved: Vec<&str> = archive.paths().filter(same_name).collect();
    match moved[..] {
        [only] => finding.suggest(only),
        _ => finding.did_you_mean(named, archive.paths()),
    }
}

fn expected_hashes(
    manifest: &Manifest,
    archive: &Archive,
    sink: &mut Sink,
) -> BTreeMap<String, Expected> {
    let mut all = BTreeMap::new();
    for source in &manifest.sources {
        let span = Span::line(&manifest.path, source.line);
        if source.is_external() {
            continue;
        }
        let Some(path) = normalise(&source.source)
            .ok()
            .filter(|path| archive.has(path))
        else {
            sink.add(missing(source, archive, span));
            continue;
        };
        let (algorithm, hash) = match (&source.algorithm, &source.hash) {
            (None, None) => continue,
            (Some(algorithm), Some(hash)) => (algorithm, hash.clone()),
            _ => {
                let message = format!("`{}` needs both `Algorithm` and `Hash`", source.source);
                sink.add(Finding::new(codes::MANIFEST, span, message).about(&source.source));
                continue;
            }
        };
        let Some(algorithm) = Algorithm::from_name(algorithm) else {
            let message = format!("unknown hash algorithm `{algorithm}`");
            let finding = Finding::new(codes::MANIFEST, span, message);
            sink.add(finding.hint("use SHA-224, SHA-256, SHA-384 or SHA-512"));
            continue;
        };
        all.insert(
            path,
            Expected {
                algorithm,
                hash,
                span,
                stated_by: StatedBy::Manifest,
            },
        );
    }
    all
}

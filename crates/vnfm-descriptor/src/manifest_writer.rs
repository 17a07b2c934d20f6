//! Writes SOL004's two text files: `TOSCA.meta`, and a manifest that names every file with its hash.
//!
//! Content that only the vendor knows stays: metadata, non-MANO artifact sets, signatures of
//! individual files. Hashes are recomputed.

use crate::finding::Findings;
use crate::hexadecimal::hexadecimal;
use crate::model::Vnfd;
use crate::package::Package;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Keys that describe one file of the manifest.
const FILE_KEYS: &[&str] = &["source", "algorithm", "hash", "signature", "certificate"];

/// Rewrites the manifest `text` with the SHA-256 of every file of the package, without a signature. The
/// contents of `replaced` count instead of those in the package; the files in `excluded` are not listed:
/// the manifest itself, signatures, certificates.
///
/// # Errors
/// A file cannot be read.
pub fn manifest_with(
    package: &Package,
    text: &str,
    replaced: &BTreeMap<String, Vec<u8>>,
    excluded: &[&str],
) -> Result<String, Findings> {
    let (head, tail) = preserved(text);
    let sources: BTreeMap<&str, _> = package
        .manifest()
        .into_iter()
        .flat_map(|manifest| &manifest.sources)
        .map(|source| (source.source.as_str(), source))
        .collect();
    let mut written = head;
    let mut names: Vec<&str> = package
        .paths()
        .chain(replaced.keys().map(String::as_str))
        .collect();
    names.sort_unstable();
    names.dedup();
    for name in names.into_iter().filter(|name| !excluded.contains(name)) {
        let hash = match replaced.get(name) {
            Some(bytes) => hexadecimal(&Sha256::digest(bytes)),
            None => hash(package, name)?,
        };
        // Writing into a String cannot fail.
        let _ = write!(
            written,
            "\nSource: {name}\nAlgorithm: SHA-256\nHash: {hash}\n"
        );
        let source = sources.get(name);
        for (key, value) in [
            (
                "Signature",
                source.and_then(|source| source.signature.as_ref()),
            ),
            (
                "Certificate",
                source.and_then(|source| source.certificate.as_ref()),
            ),
        ] {
            if let Some(value) = value {
                let _ = writeln!(written, "{key}: {value}");
            }
        }
    }
    if !tail.is_empty() {
        let _ = write!(written, "\n{tail}");
    }
    Ok(written)
}

/// Removes the list of files and everything after it from a manifest.
pub fn without_files(text: &str) -> String {
    let (head, _) = preserved(text);
    head
}

/// The parts of a manifest that stay: what comes before the list of files, and the artifact sets after it.
fn preserved(text: &str) -> (String, String) {
    let (mut head, mut tail) = (Vec::new(), Vec::new());
    let mut in_sets = false;
    for line in text
        .trim_start_matches('\u{feff}')
        .lines()
        .map(str::trim_end)
    {
        if line.trim_start().starts_with("-----BEGIN") {
            break;
        }
        let key = line
            .split(':')
            .next()
            .unwrap_or_default()
            .trim()
            .to_ascii_lowercase();
        in_sets |= key == "non_mano_artifact_sets";
        if in_sets {
            tail.push(line);
        } else if !FILE_KEYS.contains(&key.as_str()) && !line.trim().is_empty() {
            head.push(line);
        }
    }
    let lines = |mut lines: Vec<&str>| {
        if !lines.is_empty() {
            // So that the last line ends with a line feed.
            lines.push("");
        }
        lines.join("\n")
    };
    (lines(head), lines(tail))
}

fn hash(package: &Package, name: &str) -> Result<String, Findings> {
    package.sha256_of(name).map_err(|error| {
        let span = crate::finding::Span::file(name);
        let code = crate::codes::IO;
        Findings::one(crate::finding::Finding::new(code, span, error.to_string()))
    })
}

/// The metadata section of a new manifest; `released` is the release time in the format of RFC 3339.
pub fn new_manifest(vnfd: &Vnfd, released: &str) -> String {
    let mut text = format!(
        "metadata:\n  vnf_product_name: {}\n  vnf_provider_id: {}\n  vnf_package_version: {}\n  \
         vnf_release_date_time: {released}\n  vnfd_id: {}\n  vnf_software_version: {}\n",
        vnfd.product_name,
        vnfd.provider,
        vnfd.descriptor_version,
        vnfd.descriptor_id,
        vnfd.software_version
    );
    if !vnfd.vnfm_info.is_empty() {
        let _ = writeln!(text, "  vnfm_info: {}", vnfd.vnfm_info.join(","));
    }
    text
}

/// A new `TOSCA.meta` that names a descriptor and a manifest.
pub fn new_meta(entry: &str, manifest: &str) -> String {
    format!(
        "TOSCA-Meta-File-Version: 1.0\nCSAR-Version: 1.1\nCreated-By: vnfmctl\nEntry-Definitions: {entry}\n\
         ETSI-Entry-Manifest: {manifest}\n"
    )
}

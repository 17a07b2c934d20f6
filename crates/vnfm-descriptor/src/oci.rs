//! Container images in OCI image layout: what each consists of, in the order in which a registry accepts it.
//!
//! ```text
//! images/web/oci-layout            marks the folder
//! images/web/index.json            names each image, and states the digest of its manifest or index
//! images/web/blobs/sha256/DIGEST   index ─► manifest ─► config and layers
//! ```
//! A blob is named by its hash ([`add_hashes`]), which is verified in the pass over all files. Here, references are
//! followed: each blob exists and has the stated size. Manifests are read up to one limit for the whole package.

use crate::archive::Archive;
use crate::codes;
use crate::finding::{Finding, Span};
use crate::hashes::{Algorithm, Expected, ExpectedHashes, StatedBy};
use crate::hexadecimal::hexadecimal;
use crate::limits::Limits;
use crate::model::{OciBlob, OciImage};
use crate::path::{base, folder};
use crate::sink::Sink;
use regex::Regex;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

const MARKER: &str = "oci-layout";
const INDEX_TYPE: &str = "application/vnd.oci.image.index.v1+json";
/// Largest manifest or index, in bytes; registries accept no larger ones.
const MANIFEST_BYTES: u64 = 4 << 20;
/// How deep indexes may be nested above a manifest.
const MAX_DEPTH: usize = 4;

/// `[HOST[:PORT]/]PATH[:TAG]` by the grammar of the OCI distribution specification.
static REFERENCE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let part = "[a-z0-9]+(?:(?:\\.|_|__|-+)[a-z0-9]+)*";
    let host = "[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?";
    let tag = "[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}";
    Regex::new(&format!("^(?:{host}/)?{part}(?:/{part})*(?::{tag})?$")).ok()
});

/// Adds the hash of each blob in an image layout.
pub(crate) fn add_hashes(archive: &Archive, expected: &mut ExpectedHashes) {
    for path in archive.paths() {
        if let Some(hash) = blob_hash(path, archive) {
            let hash = Expected {
                algorithm: Algorithm::Sha256,
                hash: hash.to_owned(),
                span: Span::file(path),
                stated_by: StatedBy::BlobName,
            };
            expected.add(path.to_owned(), hash);
        }
    }
}

/// The SHA-256 that a blob of an image layout must have: its name.
fn blob_hash<'a>(path: &'a str, archive: &Archive) -> Option<&'a str> {
    let layout = folder(path).strip_suffix("blobs/sha256")?;
    let in_layout = layout.is_empty() || layout.ends_with('/');
    let name = base(path);
    (in_layout && is_sha256(name) && archive.has(&format!("{layout}{MARKER}"))).then_some(name)
}

fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
}

/// The images of all layouts in a package, sorted by layout; an image with an error is left out.
pub(crate) fn images(archive: &Archive, limits: &Limits, sink: &mut Sink) -> Vec<OciImage> {
    let layouts = archive.paths().filter(|path| base(path) == MARKER);
    let mut reader = Reader {
        archive,
        remaining: limits.file_bytes,
    };
    let mut images: Vec<OciImage> = Vec::new();
    let mut digests: BTreeMap<String, String> = BTreeMap::new();
    for layout in layouts.map(folder) {
        for image in reader.layout(layout) {
            let image = match image {
                Ok(image) => image,
                Err(finding) => {
                    sink.add(finding);
                    continue;
                }
            };
            match digests.insert(image.name.clone(), image.digest.clone()) {
                None => images.push(image),
                // Named by its index as well, or in two layouts.
                Some(digest) if digest == image.digest => {}
                Some(_) => {
                    let message = format!("two different images have the name `{}`", image.name);
                    sink.add(wrong(&in_layout(layout, "index.json"), message));
                }
            }
        }
    }
    images
}

/// A reference to a blob: OCI image specification, "Content Descriptors".
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// An index, which has `manifests`, or a manifest, which has `config` and `layers`.
#[derive(Debug, Deserialize)]
struct Content {
    #[serde(default)]
    manifests: Vec<Descriptor>,
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

/// The name that an image gets, from the annotations of its descriptor or of the index.
fn name(annotations: &BTreeMap<String, String>) -> Option<&str> {
    let name = annotations.get("name");
    name.or_else(|| annotations.get("org.opencontainers.image.ref.name"))
        .map(String::as_str)
}

fn in_layout(layout: &str, path: &str) -> String {
    if layout.is_empty() {
        path.to_owned()
    } else {
        format!("{layout}/{path}")
    }
}

fn wrong(path: &str, message: String) -> Finding {
    Finding::new(codes::ASD, Span::file(path), message)
}

struct Reader<'a> {
    archive: &'a Archive,
    /// Bytes of manifests and indexes that may still be read.
    remaining: u64,
}

/// The blobs of an image, collected so far.
struct Blobs<'a> {
    layout: &'a str,
    found: Vec<OciBlob>,
    /// Digests, each with whether it was referenced as a manifest.
    seen: BTreeSet<(String, bool)>,
}

impl Reader<'_> {
    /// The named images of a layout. A name of the index itself is that of its only manifest, or else of the index.
    fn layout(&mut self, layout: &str) -> Vec<Result<OciImage, Finding>> {
        let path = in_layout(layout, "index.json");
        let (bytes, index) = match self.content(&path) {
            Ok(read) => read,
            Err(finding) => return vec![Err(finding)],
        };
        let mut images = Vec::new();
        for descriptor in &index.manifests {
            if let Some(name) = name(&descriptor.annotations) {
                images.push(self.image(layout, name, descriptor));
            }
        }
        match (name(&index.annotations), &index.manifests[..]) {
            (Some(name), [only]) => images.push(self.image(layout, name, only)),
            (Some(name), [_, ..]) => images.push(self.index(layout, name, (&bytes[..], &index))),
            _ => {}
        }
        if images.is_empty() {
            let message =
                format!("the image in `{layout}` has no `name` annotation in its `index.json`");
            let hint = "set it to the tag that the image gets in the registry";
            images.push(Err(wrong(&path, message).hint(hint)));
        }
        images
    }

    /// The image of a manifest or nested index.
    fn image(
        &mut self,
        layout: &str,
        name: &str,
        descriptor: &Descriptor,
    ) -> Result<OciImage, Finding> {
        check_name(layout, name)?;
        let mut blobs = Blobs::new(layout);
        self.manifest(&mut blobs, descriptor, 0)?;
        Ok(OciImage {
            layout: layout.to_owned(),
            name: name.to_owned(),
            digest: descriptor.digest.clone(),
            blobs: blobs.found,
        })
    }

    /// The image that `index.json` itself is, such as one for several architectures.
    fn index(
        &mut self,
        layout: &str,
        name: &str,
        (bytes, index): (&[u8], &Content),
    ) -> Result<OciImage, Finding> {
        check_name(layout, name)?;
        let mut blobs = Blobs::new(layout);
        for descriptor in &index.manifests {
            self.manifest(&mut blobs, descriptor, 1)?;
        }
        let digest = format!("sha256:{}", hexadecimal(&Sha256::digest(bytes)));
        blobs.found.push(OciBlob {
            digest: digest.clone(),
            media_type: INDEX_TYPE.to_owned(),
            size: bytes.len() as u64,
            path: in_layout(layout, "index.json"),
            manifest: true,
        });
        Ok(OciImage {
            layout: layout.to_owned(),
            name: name.to_owned(),
            digest,
            blobs: blobs.found,
        })
    }

    /// Adds a manifest or index after everything that it references.
    fn manifest(
        &mut self,
        blobs: &mut Blobs<'_>,
        descriptor: &Descriptor,
        depth: usize,
    ) -> Result<(), Finding> {
        let Some(blob) = self.blob(blobs, descriptor, true)? else {
            return Ok(());
        };
        if depth > MAX_DEPTH {
            let message = format!("indexes are nested deeper than {MAX_DEPTH} levels");
            return Err(wrong(&blob.path, message));
        }
        let (_, content) = self.content(&blob.path)?;
        for child in &content.manifests {
            self.manifest(blobs, child, depth + 1)?;
        }
        for child in content.config.iter().chain(&content.layers) {
            if let Some(blob) = self.blob(blobs, child, false)? {
                blobs.found.push(blob);
            }
        }
        blobs.found.push(blob);
        Ok(())
    }

    /// The file of a referenced blob; `None` if it is a repetition.
    fn blob(
        &self,
        blobs: &mut Blobs<'_>,
        descriptor: &Descriptor,
        manifest: bool,
    ) -> Result<Option<OciBlob>, Finding> {
        let (layout, digest) = (blobs.layout, &descriptor.digest);
        let hash = digest
            .strip_prefix("sha256:")
            .filter(|hash| is_sha256(hash));
        let Some(hash) = hash else {
            let message =
                format!("the image in `{layout}` references the invalid digest `{digest}`");
            let finding = wrong(&in_layout(layout, "index.json"), message);
            return Err(finding.hint("write `sha256:` and 64 hexadecimal digits, in lower case"));
        };
        if !blobs.seen.insert((digest.clone(), manifest)) {
            return Ok(None);
        }
        let path = in_layout(layout, &format!("blobs/sha256/{hash}"));
        let size = self.archive.stated_size(&path).map_err(|_| {
            let message = format!("the image in `{layout}` lacks its blob `{digest}`");
            let finding = wrong(&in_layout(layout, "index.json"), message);
            finding.hint("copy the image into the layout completely")
        })?;
        if size != descriptor.size {
            let stated = descriptor.size;
            let message = format!("the blob has {size} bytes, but its reference states {stated}");
            return Err(wrong(&path, message));
        }
        Ok(Some(OciBlob {
            digest: digest.clone(),
            media_type: descriptor.media_type.clone(),
            size,
            path,
            manifest,
        }))
    }

    /// Reads an index or a manifest.
    fn content(&mut self, path: &str) -> Result<(Vec<u8>, Content), Finding> {
        let unreadable = |reason: String| {
            wrong(
                path,
                format!("the image index or manifest cannot be read: {reason}"),
            )
        };
        let limit = MANIFEST_BYTES.min(self.remaining);
        let bytes = self
            .archive
            .read(path, limit)
            .map_err(|error| unreadable(error.to_string()))?;
        self.remaining -= bytes.len() as u64;
        let content =
            serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))?;
        Ok((bytes, content))
    }
}

impl<'a> Blobs<'a> {
    fn new(layout: &'a str) -> Self {
        Self {
            layout,
            found: Vec::new(),
            seen: BTreeSet::new(),
        }
    }
}

/// Refuses a name that cannot become a reference in a registry.
fn check_name(layout: &str, name: &str) -> Result<(), Finding> {
    let valid = REFERENCE
        .as_ref()
        .is_some_and(|reference| reference.is_match(name));
    if valid {
        return Ok(());
    }
    let message = format!(
        "the image name `{}` is not a valid reference",
        name.escape_debug()
    );
    let finding = wrong(&in_layout(layout, "index.json"), message);
    Err(finding.hint("write `PATH:TAG`, with the path in lower case, such as `acme/web:1.2`"))
}

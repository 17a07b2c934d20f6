//! The archive of a package: names, sizes and bytes; hostile entries are refused with their names.
//!
//! A folder is packed first (deterministically, so that its hash is stable); then the same code reads all
//! three forms (folder, file, bytes). The actual bytes are counted while they are read: sizes that the
//! archive states are never trusted.

use crate::bytes::{Bytes, Reader};
use crate::codes;
use crate::finding::{Finding, Findings, Span};
use crate::limits::Limits;
use crate::path::{PathError, normalise};
use crate::sink::Sink;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::path::Path;
use std::sync::{Arc, OnceLock};
use zip::ZipArchive;

/// Why a file of a package cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The path cannot name a file in a package.
    #[error("cannot read `{path}` from the package: {source}")]
    Path {
        /// The path that was requested.
        path: String,
        /// Why it is not a valid path.
        source: PathError,
    },
    /// The package does not have the file.
    #[error("the package has no file `{path}`")]
    NotFound {
        /// The path that was requested.
        path: String,
    },
    /// The file is too large.
    #[error("`{path}` has more than {limit} bytes")]
    TooLarge {
        /// The path that was requested.
        path: String,
        /// The limit in bytes, from `Limits`.
        limit: u64,
    },
    /// It is an external artifact that was not downloaded.
    #[error("the external artifact `{uri}` was not downloaded")]
    NotFetched {
        /// The URI that the package names.
        uri: String,
    },
    /// Reading failed with an I/O error.
    #[error("cannot read `{path}` from the package: {reason}")]
    Io {
        /// The path that was requested.
        path: String,
        /// The message of the I/O error.
        reason: String,
    },
}

pub(crate) type Zip = ZipArchive<Reader>;

/// The files of a package.
#[derive(Debug)]
pub struct Archive {
    bytes: Bytes,
    /// The parsed directory; cloned for each read.
    pub(crate) zip: Zip,
    /// Index in the zip archive by normalised path.
    pub(crate) entries: BTreeMap<String, usize>,
    /// URIs of the external artifacts, set once the manifest is read.
    externals: OnceLock<BTreeSet<String>>,
}

impl Archive {
    /// Opens a folder, a zip file, or bytes. A folder has the bytes that [`pack`](crate::pack()) creates.
    pub fn open(path: &Path, limits: &Limits, sink: &mut Sink) -> Option<Self> {
        Archive::open_packed(path, crate::pack::pack, limits, sink)
    }

    /// Like [`Archive::open`], for callers that read the files and need no hash of the archive: a folder is not
    /// compressed, which takes a fraction of the time.
    pub fn open_files(path: &Path, limits: &Limits, sink: &mut Sink) -> Option<Self> {
        Archive::open_packed(path, crate::pack::store, limits, sink)
    }

    fn open_packed(
        path: &Path,
        pack: impl Fn(&Path, &Limits) -> Result<Vec<u8>, Findings>,
        limits: &Limits,
        sink: &mut Sink,
    ) -> Option<Self> {
        if !path.is_dir() {
            return Archive::list(Bytes::File(path.into()), limits, sink);
        }
        match pack(path, limits) {
            Ok(bytes) => Archive::bytes(bytes.into(), limits, sink),
            Err(findings) => {
                findings
                    .as_slice()
                    .iter()
                    .for_each(|finding| sink.add(finding.clone()));
                None
            }
        }
    }

    /// Opens a zip archive in memory.
    pub fn bytes(bytes: Arc<[u8]>, limits: &Limits, sink: &mut Sink) -> Option<Self> {
        Archive::list(Bytes::Memory(bytes), limits, sink)
    }

    /// The bytes of the entire archive.
    pub(crate) fn raw(&self) -> &Bytes {
        &self.bytes
    }

    /// The paths of all files, sorted.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Whether there is such a file; `path` must be normalised.
    pub fn has(&self, path: &str) -> bool {
        self.entries.contains_key(path)
    }

    /// Stores the URIs of the external artifacts that the manifest names.
    pub(crate) fn set_externals(&self, uris: BTreeSet<String>) {
        // The manifest is read once.
        let _ = self.externals.set(uris);
    }

    /// Whether the manifest names this URI with a hash.
    pub(crate) fn has_external(&self, uri: &str) -> bool {
        self.externals.get().is_some_and(|uris| uris.contains(uri))
    }

    /// The URIs that the manifest names with a hash.
    pub(crate) fn external_uris(&self) -> impl Iterator<Item = &str> {
        self.externals
            .get()
            .into_iter()
            .flatten()
            .map(String::as_str)
    }

    /// Reads a file of at most `limit` bytes.
    ///
    /// # Errors
    /// The file is missing, too large or damaged.
    pub fn read(&self, path: &str, limit: u64) -> Result<Vec<u8>, ReadError> {
        let mut bytes = Vec::new();
        let taken = self.with_file(path, |file| file.take(limit + 1).read_to_end(&mut bytes))?;
        if taken as u64 > limit {
            Err(ReadError::TooLarge {
                path: path.to_owned(),
                limit,
            })
        } else {
            Ok(bytes)
        }
    }

    /// Reads a YAML file of at most `limits.yaml_bytes` as text; failures become findings.
    pub(crate) fn text(&self, path: &str, limits: &Limits, sink: &mut Sink) -> Option<String> {
        let text = self
            .read(path, limits.yaml_bytes as u64)
            .map_err(|error| error.to_string())
            .and_then(|bytes| {
                String::from_utf8(bytes).map_err(|_| "the file is not UTF-8".to_owned())
            });
        text.map_err(|reason| sink.add(Finding::new(codes::YAML, Span::file(path), reason)))
            .ok()
    }

    /// The size of a file as the archive states it; the actual size may differ.
    pub(crate) fn stated_size(&self, path: &str) -> Result<u64, ReadError> {
        let failed = |reason: String| ReadError::Io {
            path: path.to_owned(),
            reason,
        };
        let index = self.entries.get(path);
        let index = *index.ok_or_else(|| ReadError::NotFound {
            path: path.to_owned(),
        })?;
        let mut zip = self.zip.clone();
        let entry = zip
            .by_index_raw(index)
            .map_err(|error| failed(error.to_string()))?;
        Ok(entry.size())
    }

    /// Copies a file of at most `max` bytes.
    pub(crate) fn copy_within(
        &self,
        path: &str,
        max: u64,
        to: &mut dyn Write,
    ) -> Result<u64, ReadError> {
        let copied = self.with_file(path, |file| {
            io::copy(&mut file.take(max.saturating_add(1)), to)
        })?;
        if copied > max {
            return Err(ReadError::TooLarge {
                path: path.to_owned(),
                limit: max,
            });
        }
        Ok(copied)
    }

    /// Copies a file of any size.
    pub(crate) fn copy(&self, path: &str, to: &mut dyn Write) -> Result<u64, ReadError> {
        self.with_file(path, |file| io::copy(file, to))
    }

    fn with_file<T>(
        &self,
        path: &str,
        act: impl FnOnce(&mut dyn Read) -> io::Result<T>,
    ) -> Result<T, ReadError> {
        let normal = normalise(path).map_err(|source| ReadError::Path {
            path: path.to_owned(),
            source,
        })?;
        let index = *self
            .entries
            .get(&normal)
            .ok_or_else(|| ReadError::NotFound {
                path: path.to_owned(),
            })?;
        let failed = |reason: String| ReadError::Io {
            path: path.to_owned(),
            reason,
        };
        let mut zip = self.zip.clone();
        let mut file = zip
            .by_index(index)
            .map_err(|error| failed(error.to_string()))?;
        act(&mut file).map_err(|error| failed(error.to_string()))
    }

    fn list(bytes: Bytes, limits: &Limits, sink: &mut Sink) -> Option<Self> {
        let mut zip = match open_zip(&bytes) {
            Ok(zip) => zip,
            Err(finding) => {
                sink.add(finding);
                return None;
            }
        };
        if zip.len() > limits.entries {
            let message = format!(
                "the archive has {} entries, more than the limit of {}",
                zip.len(),
                limits.entries
            );
            sink.add(Finding::new(codes::ZIP_BOMB, None, message));
            return None;
        }
        if zip.has_duplicate_names() {
            sink.add(Finding::new(
                codes::ZIP_DUPLICATE,
                None,
                "two entries of the archive have the same name",
            ));
        }
        if zip.has_overlapping_entries().unwrap_or(true) {
            sink.add(
                Finding::new(codes::ZIP_BOMB, None, "entries of the archive overlap")
                    .hint("repack it with an ordinary tool"),
            );
        }
        if let Some(bytes) = bytes_before(&mut zip) {
            let message = format!("{bytes} bytes come before the archive");
            let finding = Finding::new(codes::ZIP, None, message);
            sink.add(
                finding.hint("repack it: the bytes before it may be another file in disguise"),
            );
        }
        if let Some(bytes) = bytes_after(&bytes) {
            let message = format!("{bytes} bytes follow the end of the archive");
            let finding = Finding::new(codes::ZIP, None, message);
            sink.add(finding.hint("repack it: the bytes after it may be another file in disguise"));
        }
        let entries = list_entries(&mut zip, limits, sink);
        // The clone does not hold the file open.
        (!sink.failed()).then(|| Archive {
            bytes,
            zip: zip.clone(),
            entries,
            externals: OnceLock::new(),
        })
    }
}

/// The files by normalised path; each entry that a package must not have becomes a finding.
fn list_entries(zip: &mut Zip, limits: &Limits, sink: &mut Sink) -> BTreeMap<String, usize> {
    let mut entries = BTreeMap::new();
    let mut folded: BTreeMap<String, String> = BTreeMap::new();
    for index in 0..zip.len() {
        let Some((name, normal)) = read_entry(zip, index, limits, sink) else {
            continue;
        };
        if let Some(other) = folded.insert(crate::path::folded(&normal), name.clone()) {
            let message =
                format!("`{other}` differs only in case or in how its characters are encoded");
            sink.add(Finding::new(
                codes::ZIP_DUPLICATE,
                Span::file(&name),
                message,
            ));
        }
        entries.insert(normal, index);
    }
    check_file_and_folder(&folded, sink);
    entries
}

/// The name and the normalised path of a file; `None` for folders, and for entries that a package must not have.
fn read_entry(
    zip: &mut Zip,
    index: usize,
    limits: &Limits,
    sink: &mut Sink,
) -> Option<(String, String)> {
    let entry = match zip.by_index_raw(index) {
        Ok(entry) => entry,
        Err(error) => {
            sink.add(Finding::new(
                codes::ZIP,
                None,
                format!("entry {index} of the archive cannot be read: {error}"),
            ));
            return None;
        }
    };
    let Ok(name) = entry.name().map(std::borrow::Cow::into_owned) else {
        sink.add(Finding::new(
            codes::ZIP_PATH,
            None,
            format!("the name of entry {index} is not UTF-8"),
        ));
        return None;
    };
    let refuse = |code, message: String| Finding::new(code, Span::file(&name), message);
    let kind = entry.unix_mode().map_or(0, |mode| mode & 0o170_000);
    if entry.is_symlink() || !matches!(kind, 0 | 0o100_000 | 0o040_000) {
        let finding = refuse(
            codes::ZIP_SYMLINK,
            "the entry is a symbolic link or a special file".to_owned(),
        );
        sink.add(finding.hint("replace it by the file itself"));
    }
    if entry.encrypted() {
        sink.add(refuse(
            codes::ZIP_ENCRYPTED,
            "the entry is encrypted".to_owned(),
        ));
    }
    if name.len() > limits.path_bytes {
        sink.add(refuse(
            codes::ZIP_PATH,
            format!("the name has more than {} bytes", limits.path_bytes),
        ));
    }
    match normalise(&name) {
        Ok(normal) if entry.is_dir() => drop(normal),
        Ok(normal) => return Some((name.clone(), normal)),
        Err(error) => {
            let finding = refuse(codes::ZIP_PATH, error.to_string());
            sink.add(finding.hint("use a relative path that stays in the package"));
        }
    }
    None
}

/// Refuses a name that is both a file and a folder, since it cannot be unpacked.
fn check_file_and_folder(folded: &BTreeMap<String, String>, sink: &mut Sink) {
    for (path, name) in folded {
        let mut parent = crate::path::folder(path);
        while !parent.is_empty() {
            if let Some(file) = folded.get(parent) {
                sink.add(Finding::new(
                    codes::ZIP_DUPLICATE,
                    Span::file(file),
                    format!("the file is also the folder of `{name}`"),
                ));
            }
            parent = crate::path::folder(parent);
        }
    }
}

fn open_zip(bytes: &Bytes) -> Result<Zip, Finding> {
    if let Bytes::File(path) = bytes {
        std::fs::File::open(path).map_err(|error| Finding::unreadable(path, &error))?;
    }
    ZipArchive::new(bytes.reader()).map_err(|error| {
        compressed(&bytes.head()).unwrap_or_else(|| {
            Finding::new(
                codes::ZIP,
                None,
                format!("the package is not a readable zip archive: {error}"),
            )
            .hint("a package is a folder, or a zip file ending in .csar or .zip")
        })
    })
}

/// The finding for a file that is compressed in another way, by its first bytes.
fn compressed(first: &[u8]) -> Option<Finding> {
    const KINDS: &[(&[u8], &str)] = &[
        (
            b"\x1f\x8b",
            "with gzip, like a Helm chart or a package of OSM",
        ),
        (b"BZh", "with bzip2"),
        (b"\xfd7zXZ", "with xz"),
        (b"\x28\xb5\x2f\xfd", "with zstd"),
    ];
    let (_, how) = KINDS.iter().find(|(magic, _)| first.starts_with(magic))?;
    let message = format!("this is compressed {how}, not a VNF package");
    let finding = Finding::new(codes::PACKAGE_KIND, None, message);
    Some(finding.hint("a VNF package is a folder or a zip archive"))
}

/// Number of bytes before the first entry, if any. An archive without entries is refused elsewhere.
fn bytes_before(zip: &mut Zip) -> Option<u64> {
    let first =
        (0..zip.len()).filter_map(|index| Some(zip.by_index_raw(index).ok()?.header_start()));
    let first = first.min().unwrap_or_default().max(zip.offset());
    (first > 0).then_some(first)
}

/// Number of bytes after the end-of-archive record and its comment, if any.
fn bytes_after(bytes: &Bytes) -> Option<u64> {
    const RECORD_LEN: usize = 22;
    let tail = bytes.tail(RECORD_LEN as u64 + u64::from(u16::MAX)).ok()?;
    let mut after = None;
    for at in (0..=tail.len().checked_sub(RECORD_LEN)?).rev() {
        if !tail[at..].starts_with(b"PK\x05\x06") {
            continue;
        }
        let comment = usize::from(u16::from_le_bytes([tail[at + 20], tail[at + 21]]));
        match tail.len().checked_sub(at + RECORD_LEN + comment) {
            Some(0) => return None,
            Some(more) if after.is_none() => after = Some(more as u64),
            _ => {}
        }
    }
    after
}

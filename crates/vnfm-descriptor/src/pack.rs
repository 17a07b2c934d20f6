//! Writes archives: sorted and without timestamps, so that the same files give the same bytes.
//!
//! | | from | to |
//! |---|---|---|
//! | [`pack`], [`pack_to`] | a folder | a package |
//! | [`wrap`] | a package, its signature and certificate | the outer archive of SOL004's option 2 |
//!
//! Hidden files of a folder (version control, editors) are skipped, except the `.helmignore` of a chart; links are refused.

use crate::codes;
use crate::finding::{Finding, Findings, Span};
use crate::limits::Limits;
use crate::sink::Sink;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor, Seek, Write};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Packs a folder into a zip archive in memory.
///
/// # Errors
/// The folder cannot be read, has symbolic links or special files, or is larger than `limits`.
pub fn pack(folder: &Path, limits: &Limits) -> Result<Vec<u8>, Findings> {
    let mut bytes = Cursor::new(Vec::new());
    pack_to(folder, limits, &mut bytes)?;
    Ok(bytes.into_inner())
}

/// Packs a folder of any size into a zip archive, with constant memory.
///
/// # Errors
/// As [`pack`], or `to` cannot be written.
pub fn pack_to(
    folder: &Path,
    limits: &Limits,
    to: &mut (impl Write + Seek),
) -> Result<(), Findings> {
    write(folder, limits, CompressionMethod::Deflated, to)
}

/// Packs a folder into a zip archive without compression, for callers that only read its files.
pub(crate) fn store(folder: &Path, limits: &Limits) -> Result<Vec<u8>, Findings> {
    let mut bytes = Cursor::new(Vec::new());
    write(folder, limits, CompressionMethod::Stored, &mut bytes)?;
    Ok(bytes.into_inner())
}

fn write(
    folder: &Path,
    limits: &Limits,
    method: CompressionMethod,
    to: &mut (impl Write + Seek),
) -> Result<(), Findings> {
    let mut files = BTreeMap::new();
    let mut sink = Sink::default();
    walk(folder, "", &mut files, &mut sink);
    let total: u64 = files.values().map(|(_, size)| size).sum();
    if files.len() > limits.entries || total > limits.total_bytes {
        let message = format!(
            "the folder has {} files and {total} bytes, which exceeds the limits",
            files.len()
        );
        sink.add(Finding::new(codes::ZIP_BOMB, None, message));
    }
    sink.finish()?;
    let mut zip = Zip::new(to);
    for (name, (path, size)) in &files {
        zip.add(name, method, *size, |to| {
            let mut file = File::open(path).map_err(|error| error.to_string())?;
            io::copy(&mut file, to)
                .map(drop)
                .map_err(|error| error.to_string())
        })?;
    }
    zip.finish()
}

/// Writes the outer archive of option 2 (SOL004 5.1): `NAME.csar`, `NAME.cms` and, if
/// there is a certificate, `NAME.cert`.
///
/// # Errors
/// The package cannot be read, or `to` cannot be written.
pub fn wrap(
    (name, package): (&str, &Path),
    signature: &[u8],
    certificate: Option<&[u8]>,
    to: &mut (impl Write + Seek),
) -> Result<(), Findings> {
    let unreadable = |error: io::Error| Findings::one(Finding::unreadable(package, &error));
    let mut file = File::open(package).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let mut zip = Zip::new(to);
    let small = |zip: &mut Zip<_>, extension: &str, bytes: &[u8]| {
        let (name, size) = (format!("{name}.{extension}"), bytes.len() as u64);
        zip.add(&name, CompressionMethod::Stored, size, |to| {
            to.write_all(bytes).map_err(|error| error.to_string())
        })
    };
    if let Some(certificate) = certificate {
        small(&mut zip, "cert", certificate)?;
    }
    small(&mut zip, "cms", signature)?;
    // The package is already compressed.
    zip.add(
        &format!("{name}.csar"),
        CompressionMethod::Stored,
        size,
        |to| {
            io::copy(&mut file, to)
                .map(drop)
                .map_err(|error| error.to_string())
        },
    )?;
    zip.finish()
}

/// An archive that is being written.
pub(crate) struct Zip<W: Write + Seek>(ZipWriter<W>);

impl<W: Write + Seek> Zip<W> {
    pub(crate) fn new(to: W) -> Self {
        Self(ZipWriter::new(to))
    }

    /// Adds a file of about `size` bytes, which `content` writes.
    pub(crate) fn add(
        &mut self,
        name: &str,
        method: CompressionMethod,
        size: u64,
        content: impl FnOnce(&mut dyn Write) -> Result<(), String>,
    ) -> Result<(), Findings> {
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .last_modified_time(zip::DateTime::default())
            .unix_permissions(0o644)
            .large_file(size >= u64::from(u32::MAX));
        let started = self
            .0
            .start_file(name, options)
            .map_err(|error| error.to_string());
        started
            .and_then(|()| content(&mut self.0))
            .map_err(|reason| cannot_pack(name, &reason))
    }

    pub(crate) fn finish(self) -> Result<(), Findings> {
        self.0.finish().map(drop).map_err(|error| {
            let message = format!("cannot finish the archive: {error}");
            Findings::one(Finding::new(codes::IO, None, message))
        })
    }
}

pub(crate) fn cannot_pack(name: &str, reason: &str) -> Findings {
    let message = format!("the file cannot be packed: {reason}");
    Findings::one(Finding::new(codes::IO, Span::file(name), message))
}

/// What a chart's folder states about its packing; helm reads it.
pub(crate) const HELMIGNORE: &str = ".helmignore";

/// Whether the file belongs to no package: it is hidden, and not the `.helmignore` next to a `Chart.yaml`.
fn is_skipped(folder: &Path, name: &str) -> bool {
    name.starts_with('.') && (name != HELMIGNORE || !folder.join("Chart.yaml").is_file())
}

/// Collects the files of a folder with their sizes.
fn walk(
    folder: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, (PathBuf, u64)>,
    sink: &mut Sink,
) {
    let listed = match std::fs::read_dir(folder) {
        Ok(listed) => listed,
        Err(error) => return sink.add(Finding::unreadable(folder, &error)),
    };
    for entry in listed {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return sink.add(Finding::unreadable(folder, &error)),
        };
        let raw = entry.file_name();
        let Some(name) = raw.to_str().map(|name| {
            if prefix.is_empty() {
                name.to_owned()
            } else {
                format!("{prefix}/{name}")
            }
        }) else {
            sink.add(Finding::new(
                codes::ZIP_PATH,
                None,
                format!("the name of `{}` is not UTF-8", entry.path().display()),
            ));
            continue;
        };
        if raw.to_str().is_some_and(|raw| is_skipped(folder, raw)) {
            continue;
        }
        match std::fs::symlink_metadata(entry.path()) {
            Ok(found) if found.is_dir() => walk(&entry.path(), &name, files, sink),
            Ok(found) if found.is_file() => drop(files.insert(name, (entry.path(), found.len()))),
            Ok(_) => sink.add(
                Finding::new(
                    codes::ZIP_SYMLINK,
                    Span::file(&name),
                    "the file is a symbolic link or a special file",
                )
                .hint("replace it by the file itself"),
            ),
            Err(error) => sink.add(Finding::unreadable(&entry.path(), &error)),
        }
    }
}

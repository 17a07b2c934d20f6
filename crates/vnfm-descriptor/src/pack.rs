//! A folder as an archive: sorted, without times, so that the same files give the same bytes.
//!
//! Names that start with a dot (version control, editors) are left out; links are refused.

use crate::archive::cannot_read;
use crate::finding::{Finding, Findings, Sink, Span, codes};
use crate::limits::Limits;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Cursor};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Packs a folder into a zip archive: sorted, without times, so that the same files give the
/// same bytes.
///
/// # Errors
/// The folder cannot be read, has symbolic links or special files, or is larger than `limits`.
pub fn pack(folder: &Path, limits: &Limits) -> Result<Vec<u8>, Findings> {
    let mut files = BTreeMap::new();
    let mut sink = Sink::default();
    walk(folder, "", &mut files, &mut sink);
    let total: u64 = files.values().map(|(_, size)| size).sum();
    if files.len() > limits.entries || total > limits.total_bytes {
        let message =
            format!("the folder has {} files and {total} bytes, more than are packed", files.len());
        sink.add(Finding::new(codes::ZIP_BOMB, None, message));
    }
    sink.finish()?;
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(zip::DateTime::default())
        .unix_permissions(0o644);
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, (path, size)) in &files {
        let add = || -> Result<(), String> {
            zip.start_file(name, options.large_file(*size >= u64::from(u32::MAX)))
                .map_err(|error| error.to_string())?;
            let mut file = File::open(path).map_err(|error| error.to_string())?;
            io::copy(&mut file, &mut zip).map_err(|error| error.to_string())?;
            Ok(())
        };
        let mut add = add;
        add().map_err(|reason| {
            Findings::one(Finding::new(
                codes::IO,
                Span::file(name),
                format!("the file cannot be packed: {reason}"),
            ))
        })?;
    }
    let packed = zip.finish().map_err(|error| {
        Findings::one(Finding::new(codes::IO, None, format!("cannot finish the archive: {error}")))
    })?;
    Ok(packed.into_inner())
}

/// Collects the files of a folder; hidden ones of version control and editors are left out.
fn walk(
    folder: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, (PathBuf, u64)>,
    sink: &mut Sink,
) {
    let listed = match std::fs::read_dir(folder) {
        Ok(listed) => listed,
        Err(error) => return sink.add(cannot_read(folder, &error)),
    };
    for entry in listed {
        let entry = match entry {
            Ok(entry) => entry,
            Err(error) => return sink.add(cannot_read(folder, &error)),
        };
        let raw = entry.file_name();
        let Some(name) = raw.to_str().map(|name| {
            if prefix.is_empty() { name.to_owned() } else { format!("{prefix}/{name}") }
        }) else {
            sink.add(Finding::new(
                codes::ZIP_PATH,
                None,
                format!("the name of `{}` is not UTF-8", entry.path().display()),
            ));
            continue;
        };
        if raw.to_str().is_some_and(|raw| raw.starts_with('.')) {
            continue;
        }
        match std::fs::symlink_metadata(entry.path()) {
            Ok(found) if found.is_dir() => walk(&entry.path(), &name, files, sink),
            Ok(found) if found.is_file() => drop(files.insert(name, (entry.path(), found.len()))),
            Ok(_) => sink.add(
                Finding::new(
                    codes::ZIP_SYMLINK,
                    Span::file(&name),
                    "this is a symbolic link or a special file",
                )
                .hint("put the file itself there"),
            ),
            Err(error) => sink.add(cannot_read(&entry.path(), &error)),
        }
    }
}

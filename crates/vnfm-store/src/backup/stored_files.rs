//! The files that are stored with instances, in a backup: `files/<instance id>/<name>`, each described in the manifest.
//!
//! ```text
//! unpacked into      files.restoring-<time>         while `vnfm.db.restoring` exists: removed by the next start
//! database renamed   files  ─► files.before-<time>  from here on: completed by the next start
//!                    files.restoring-<time> ─► files
//! ```

use super::restore::{extract, not_a_backup};
use super::{Archive, RESTORING, io_error, options};
use crate::instance_files::{DESCRIPTION, FileDir, with_end, write_description};
use crate::packages::private_folder;
use crate::secret_keys::sync_folder_of;
use jiff::Timestamp;
use serde_json::{Value, to_value};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use vnfm_core::ports::{StoreError, is_file_name};
use vnfm_types::StoredFile;
use zip::{CompressionMethod, ZipArchive};

/// Where they are in a backup and in a data folder.
const FILES: &str = "files";
/// The folder into which a backup is unpacked; the time of the restore follows.
const UNPACKED: &str = "files.restoring-";
/// The folder with the files from before a restore; its time follows.
const BEFORE: &str = "files.before-";
/// The member of a file's entry in the manifest with its description.
const STORED: &str = "stored";

/// Checks that `folder` has room for a backup with the files of these instances, which do not become smaller in it.
pub(super) fn check_room(
    files: &FileDir,
    instances: &BTreeSet<String>,
    folder: &Path,
) -> Result<(), StoreError> {
    let room = with_files(files, instances).and_then(|ids| match files.bytes_of(&ids)? {
        0 => Ok((0, Ok(()))),
        bytes => Ok((bytes, files.check_room(folder, bytes)?)),
    });
    match room.map_err(|e| io_error(&e, "measure the stored files for", folder))? {
        (_, Ok(())) => Ok(()),
        (bytes, Err(free)) => Err(StoreError::Unavailable(format!(
            "cannot write the backup: the stored files have {bytes} bytes; {free}; hint: free space in the data folder"
        ))),
    }
}

/// Those of the instances that have files.
fn with_files(files: &FileDir, instances: &BTreeSet<String>) -> io::Result<Vec<String>> {
    let mut ids = files.instance_ids()?;
    ids.retain(|id| instances.contains(id));
    Ok(ids)
}

/// Adds the files of these instances to a backup.
pub(super) fn add(
    archive: &mut Archive,
    files: &FileDir,
    instances: &BTreeSet<String>,
) -> Result<(), StoreError> {
    let added = with_files(files, instances).and_then(|ids| {
        ids.iter()
            .try_for_each(|id| add_those_of(archive, files, id))
    });
    added.map_err(|error| {
        StoreError::Unavailable(format!("cannot add a stored file to the backup: {error}"))
    })
}

fn add_those_of(archive: &mut Archive, files: &FileDir, id: &str) -> io::Result<()> {
    // Snapshots of etcd are encrypted: compressing them takes time and saves nothing.
    let options = options().compression_method(CompressionMethod::Stored);
    for opened in files.opened(id)? {
        let (stored, mut content) = opened?;
        let name = format!("{FILES}/{id}/{}", stored.name);
        let entry = archive.add((&name, options), &mut content)?;
        entry[STORED] = to_value(stored)?;
    }
    Ok(())
}

/// The folder into which a restore at this time unpacks the stored files.
pub(super) fn unpacked(data: &Path, at: Timestamp) -> PathBuf {
    data.join(format!("{UNPACKED}{}", at.strftime("%Y%m%dT%H%M%SZ")))
}

/// Unpacks the file `name` of a backup, and its description, into `folder`. False if it is not a stored file.
pub(super) fn unpack(
    archive: &mut ZipArchive<File>,
    (name, entry): (&str, &Value),
    folder: &Path,
) -> Result<bool, StoreError> {
    let mut parts = name.split('/');
    let (Some(FILES), Some(id), Some(file), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Ok(false);
    };
    let stored: StoredFile = serde_json::from_value(entry[STORED].clone())
        .map_err(|e| not_a_backup(&format!("`{name}` in it has no description: {e}")))?;
    if !is_file_name(id)
        || !is_file_name(file)
        || file.ends_with(DESCRIPTION)
        || stored.name != file
    {
        return Ok(false);
    }
    let to = folder.join(id).join(file);
    if !folder.join(id).exists() {
        private_folder(&folder.join(id)).map_err(|e| io_error(&e, "create the folder of", &to))?;
    }
    extract(archive, (name, entry), &to)?;
    let description = with_end(&to, DESCRIPTION);
    let described = write_description(&description, &stored)
        .and_then(|()| sync_folder_of(&to))
        .and_then(|()| sync_folder_of(&folder.join(id)));
    described.map_err(|e| io_error(&e, "write", &description))?;
    Ok(true)
}

/// Completes a restore whose database has its name, or removes what is left of one that did not come so far. Returns the
/// folder with the previous files, if there were any. Call it while the database is locked.
///
/// # Errors
///
/// If a folder cannot be renamed or removed; a later call continues.
pub(crate) fn complete_restore(data: &Path) -> Result<Option<PathBuf>, StoreError> {
    let failed =
        |error: io::Error| io_error(&error, "complete the restore of stored files in", data);
    let Some(time) = begun(data).map_err(failed)? else {
        return Ok(None);
    };
    let unpacked = data.join(format!("{UNPACKED}{time}"));
    if data.join(RESTORING).exists() {
        fs::remove_dir_all(&unpacked).map_err(failed)?;
        return Ok(None);
    }
    let (files, before) = (data.join(FILES), data.join(format!("{BEFORE}{time}")));
    let kept = set_aside(&files, &before).map_err(failed)?;
    let renamed = fs::rename(&unpacked, &files).and_then(|()| sync_folder_of(&files));
    renamed.map_err(failed)?;
    Ok(kept.then_some(before))
}

/// The time of a restore that is not complete.
fn begun(data: &Path) -> io::Result<Option<String>> {
    for entry in fs::read_dir(data)? {
        let name = entry?.file_name();
        if let Some(time) = name.to_str().and_then(|name| name.strip_prefix(UNPACKED)) {
            return Ok(Some(time.to_owned()));
        }
    }
    Ok(None)
}

/// Renames the folder of files; false if it is empty or missing.
fn set_aside(files: &Path, before: &Path) -> io::Result<bool> {
    match fs::remove_dir(files) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {
            fs::rename(files, before)?;
            Ok(true)
        }
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(false),
    }
}

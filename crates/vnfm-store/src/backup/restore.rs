//! Restores a backup into a data folder.

use super::{
    DATABASE, FORMAT, KEYS, MANIFEST, MAX_MANIFEST_BYTES, RESTORING, Restored, io_error, joined,
    private, stored_files,
};
use crate::executor::one;
use crate::fault::Done;
use crate::hashing::copy;
use crate::location::{Access, open_file};
use crate::packages::private_folder;
use crate::secret_keys::{SecretKeys, sync_folder_of};
use crate::statement::Query;
use crate::{key_provider, opening, process_lock, restore_mark, schema, wal};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use vnfm_core::ports::{SecretSealer, StoreError};
use zip::ZipArchive;

/// Restores the backup `file` into the data folder `data`, whose server must be stopped. The matching key file must
/// already be there. An existing database is renamed and kept.
///
/// # Errors
///
/// `Unavailable` if a server uses the folder or the disk fails; `Broken` if the file is not a backup, is damaged, is
/// newer than this binary, or was encrypted with other keys. Nothing is changed then.
pub async fn restore(file: &Path, data: &Path, at: Timestamp) -> Result<Restored, StoreError> {
    restore_with(file, data, at, None).await
}

/// Like [`restore`], but `sealer` may hold the backup's keys, so the key file may be missing.
///
/// # Errors
///
/// See [`restore`]; also `Keys` if `sealer` cannot provide a key.
pub async fn restore_with(
    file: &Path,
    data: &Path,
    at: Timestamp,
    sealer: Option<Arc<dyn SecretSealer>>,
) -> Result<Restored, StoreError> {
    let _lock = process_lock::lock(&data.join(DATABASE))?;
    stored_files::complete_restore(data)?;
    let keys = keys_for(file, data, sealer)?;
    let unpacked = Unpacked {
        database: data.join(RESTORING),
        packages: data.join("packages"),
        files: stored_files::unpacked(data, at),
    };
    let action = format!("restore `{}`", file.display());
    let (from, to) = (file.to_owned(), unpacked.clone());
    let manifest = joined(spawn_blocking(move || unpack(&from, &to)).await, &action);
    let restored = match manifest {
        Ok(manifest) => install(&unpacked.database, data, (keys, at), &manifest).await,
        Err(error) => Err(error),
    };
    if restored.is_err() {
        unpacked.remove();
    }
    restored.map_err(|error| match error {
        StoreError::Broken(reason) if !reason.starts_with("cannot") => {
            StoreError::Broken(format!("cannot {action}: {reason}"))
        }
        error => error,
    })
}

/// Where a backup is unpacked.
#[derive(Clone)]
struct Unpacked {
    /// While it exists, the restore can be given up.
    database: PathBuf,
    /// Each package is put into its place: one that is there already is the same.
    packages: PathBuf,
    files: PathBuf,
}

/// The keys with which the backup must be readable.
fn keys_for(
    file: &Path,
    data: &Path,
    sealer: Option<Arc<dyn SecretSealer>>,
) -> Result<SecretKeys, StoreError> {
    let keys = data.join(KEYS);
    if let Some(sealer) = sealer {
        return SecretKeys::with(&keys, sealer);
    }
    if !keys.exists() {
        return Err(StoreError::Broken(format!(
            "cannot restore `{}`: `{}` is missing; hint: copy the key file that belongs to the backup there first",
            file.display(),
            keys.display()
        )));
    }
    SecretKeys::open(&keys)
}

impl Unpacked {
    /// Gives the restore up, unless the database has been renamed: the next start then completes it.
    fn remove(&self) {
        if !self.database.exists() {
            return;
        }
        match fs::remove_dir_all(&self.files) {
            // The next start tries again, as long as the database is there.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {}
            _ => drop(fs::remove_file(&self.database)),
        }
    }
}

/// Prepares the unpacked database and renames it over the old one, then the stored files.
async fn install(
    new: &Path,
    data: &Path,
    (keys, at): (SecretKeys, Timestamp),
    manifest: &Value,
) -> Result<Restored, StoreError> {
    let made_at = manifest["madeAt"]
        .as_str()
        .and_then(|at| at.parse::<Timestamp>().ok());
    let backup_at = made_at.ok_or_else(|| not_a_backup("its manifest has no `madeAt`"))?;
    let mark = json!({"restoredAt": at, "backupAt": backup_at}).to_string();
    let installation_id = prepare(new, keys, &mark)
        .await
        .map_err(|e| e.with_action("prepare it"))?;
    let database = &data.join(DATABASE);
    let before = set_aside(database, at)?;
    let moved = fs::rename(new, database).and_then(|()| sync_folder_of(database));
    moved.map_err(|e| io_error(&e, "write", database))?;
    let files_before = stored_files::complete_restore(data)?;
    let names: Vec<_> = manifest["files"]
        .as_object()
        .into_iter()
        .flat_map(|files| files.keys())
        .collect();
    let count = |is: fn(&str) -> bool| names.iter().filter(|name| is(name)).count();
    Ok(Restored {
        installation_id,
        backup_at,
        packages: count(|name| Path::new(name).extension().is_some_and(|end| end == "csar")),
        files: count(|name| name.starts_with("files/")),
        before,
        files_before,
    })
}

/// Migrates a restored database to this binary's schema, checks the keys, and marks it as in recovery.
async fn prepare(new: &Path, keys: SecretKeys, mark: &str) -> Done<String> {
    let mut db = open_file(new, Access::Write)?;
    schema::migrate(&db, schema::MIGRATIONS)?;
    let keys = key_provider::complete(&mut db, keys).await?;
    let installation_id = opening::prepare(&db, &keys)?;
    restore_mark::mark(&db, mark)?;
    db.close().map_err(|(_, error)| error)?;
    Ok(installation_id)
}

/// Keeps the existing database under another name, after a checkpoint of its write-ahead log.
fn set_aside(database: &Path, at: Timestamp) -> Result<Option<PathBuf>, StoreError> {
    let has_any = database.metadata().is_ok_and(|meta| meta.len() > 0);
    let previous = wal::companion(
        database,
        &format!(".before-{}", at.strftime("%Y%m%dT%H%M%SZ")),
    );
    if has_any && let Err(fault) = checkpoint(database) {
        let error = fault.with_action("checkpoint its write-ahead log");
        tracing::warn!(%error, "the previous database is kept without a checkpoint");
    }
    // Even without a database: SQLite would apply the log of a lost one to the new one.
    for end in ["-wal", "-shm", "-acked"] {
        let companion = wal::companion(database, end);
        if companion.exists() {
            fs::rename(&companion, wal::companion(&previous, end))
                .map_err(|e| io_error(&e, "keep", &companion))?;
        }
    }
    if !has_any {
        return Ok(None);
    }
    fs::hard_link(database, &previous).map_err(|e| io_error(&e, "keep", database))?;
    Ok(Some(previous))
}

fn checkpoint(database: &Path) -> Done<()> {
    wal::check(database)?;
    let old = open_file(database, Access::Write)?;
    let _busy: i64 = one(&old, &Query::new("PRAGMA wal_checkpoint(TRUNCATE)"))?;
    old.close().map_err(|(_, error)| error)?;
    Ok(())
}

/// Unpacks database, packages and stored files, verifies their hashes, and returns the manifest.
fn unpack(file: &Path, to: &Unpacked) -> Result<Value, StoreError> {
    let opened = File::open(file).map_err(|e| io_error(&e, "read", file))?;
    let mut archive = ZipArchive::new(opened).map_err(|e| not_a_backup(&e.to_string()))?;
    let manifest = manifest(&mut archive)?;
    let files = manifest["files"].as_object().cloned().unwrap_or_default();
    let Some(entry) = files.get(DATABASE) else {
        return Err(not_a_backup("it has no database"));
    };
    let folders = [
        Some(&to.packages),
        (manifest["format"] != 1).then_some(&to.files),
    ];
    extract_whole(&mut archive, (DATABASE, entry), &to.database)?;
    sync_folder_of(&to.database).map_err(|e| io_error(&e, "write", &to.database))?;
    for folder in folders.into_iter().flatten() {
        private_folder(folder).map_err(|e| io_error(&e, "create", folder))?;
    }
    for (name, entry) in files.iter().filter(|(name, _)| *name != DATABASE) {
        match name.strip_prefix("packages/") {
            Some(package) if !package.contains('/') && !package.starts_with('.') => {
                extract_whole(&mut archive, (name, entry), &to.packages.join(package))?;
            }
            _ if stored_files::unpack(&mut archive, (name, entry), &to.files)? => {}
            _ => return Err(not_a_backup(&format!("it names `{name}`"))),
        }
    }
    Ok(manifest)
}

fn manifest(archive: &mut ZipArchive<File>) -> Result<Value, StoreError> {
    let mut text = String::new();
    let found = archive
        .by_name(MANIFEST)
        .map_err(|e| not_a_backup(&e.to_string()))?;
    found
        .take(MAX_MANIFEST_BYTES)
        .read_to_string(&mut text)
        .map_err(|e| not_a_backup(&format!("`{MANIFEST}`: {e}")))?;
    let manifest: Value =
        serde_json::from_str(&text).map_err(|e| not_a_backup(&format!("`{MANIFEST}`: {e}")))?;
    match (manifest["format"].as_u64(), manifest["schema"].as_i64()) {
        (Some(1..=FORMAT), Some(schema)) if schema <= schema::newest() => Ok(manifest),
        (format, schema) => Err(not_a_backup(&format!(
            "it has format {} and schema {}, but this binary supports formats up to {FORMAT} and schemas up to {}; restore it \
             with the newer binary that wrote it",
            format.unwrap_or_default(),
            schema.unwrap_or_default(),
            schema::newest()
        ))),
    }
}

/// Extracts a file under a temporary name, and renames it once its hash is verified.
fn extract_whole(
    archive: &mut ZipArchive<File>,
    (name, entry): (&str, &Value),
    to: &Path,
) -> Result<(), StoreError> {
    let part = wal::companion(to, ".part");
    extract(archive, (name, entry), &part)?;
    fs::rename(&part, to).map_err(|e| io_error(&e, "write", to))
}

/// Extracts a file and verifies its hash; removes it if it is damaged.
pub(super) fn extract(
    archive: &mut ZipArchive<File>,
    (name, entry): (&str, &Value),
    to: &Path,
) -> Result<(), StoreError> {
    let copied = extract_unverified(archive, name, to);
    let verified = copied.and_then(|hash| match entry["sha256"].as_str() {
        Some(expected) if expected == hash => Ok(()),
        _ => Err(not_a_backup(&format!("`{name}` in it is damaged"))),
    });
    verified.inspect_err(|_| drop(fs::remove_file(to)))
}

/// Extracts a file; its SHA-256.
fn extract_unverified(
    archive: &mut ZipArchive<File>,
    name: &str,
    to: &Path,
) -> Result<String, StoreError> {
    let mut from = archive
        .by_name(name)
        .map_err(|e| not_a_backup(&format!("`{name}`: {e}")))?;
    let _ = fs::remove_file(to); // a leftover of a crash
    let mut out = private(to).map_err(|e| io_error(&e, "create", to))?;
    let hash = copy(&mut from, &mut out).and_then(|hash| out.sync_all().map(|()| hash));
    hash.map_err(|error| match error.raw_os_error() {
        Some(_) => io_error(&error, "write", to),
        None => not_a_backup(&format!("`{name}` in it is damaged: {error}")),
    })
}

pub(super) fn not_a_backup(reason: &str) -> StoreError {
    StoreError::Broken(format!(
        "this backup cannot be used: {reason}; hint: nothing was changed; use another backup"
    ))
}

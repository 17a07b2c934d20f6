//! Restores a backup into a data folder.

use super::{DATABASE, FORMAT, KEYS, MANIFEST, Restored, copy, io_error, joined, private};
use crate::executor::one;
use crate::fault::Done;
use crate::location::{Access, open_file};
use crate::packages::private_folder;
use crate::secret_keys::{SecretKeys, sync_folder_of};
use crate::statement::Query;
use crate::{key_provider, opening, process_lock, restore_mark, schema, wal};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::fs::{self, File};
use std::io::Read as _;
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
    let database = data.join(DATABASE);
    let _lock = process_lock::lock(&database)?;
    let keys = keys_for(file, data, sealer)?;
    let new = data.join("vnfm.db.restoring");
    let action = format!("restore `{}`", file.display());
    let (from, to, folder) = (file.to_owned(), new.clone(), data.join("packages"));
    let unpacked = joined(
        spawn_blocking(move || unpack(&from, &to, &folder)).await,
        &action,
    );
    let restored = match unpacked {
        Ok(manifest) => install(&new, &database, (keys, at), &manifest).await,
        Err(error) => Err(error),
    };
    let _ = fs::remove_file(&new); // it does not exist after a rename
    restored.map_err(|error| match error {
        StoreError::Broken(reason) if !reason.starts_with("cannot") => {
            StoreError::Broken(format!("cannot {action}: {reason}"))
        }
        error => error,
    })
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

/// Prepares the unpacked database and renames it over the old one.
async fn install(
    new: &Path,
    database: &Path,
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
    let before = set_aside(database, at)?;
    let moved = fs::rename(new, database).and_then(|()| sync_folder_of(database));
    moved.map_err(|e| io_error(&e, "write", database))?;
    let files = manifest["files"]
        .as_object()
        .into_iter()
        .flat_map(|files| files.keys());
    let packages = files
        .filter(|name| Path::new(name).extension().is_some_and(|end| end == "csar"))
        .count();
    Ok(Restored {
        installation_id,
        backup_at,
        packages,
        before,
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

/// Unpacks database and packages, verifies their hashes, and returns the manifest.
fn unpack(file: &Path, database: &Path, packages: &Path) -> Result<Value, StoreError> {
    let opened = File::open(file).map_err(|e| io_error(&e, "read", file))?;
    let mut archive = ZipArchive::new(opened).map_err(|e| not_a_backup(&e.to_string()))?;
    let manifest = manifest(&mut archive)?;
    private_folder(packages).map_err(|e| io_error(&e, "create", packages))?;
    let files = manifest["files"].as_object().cloned().unwrap_or_default();
    if !files.contains_key(DATABASE) {
        return Err(not_a_backup("it has no database"));
    }
    for (name, entry) in &files {
        let to = match name.strip_prefix("packages/") {
            _ if name == DATABASE => database.to_owned(),
            Some(package) if !package.contains('/') && !package.starts_with('.') => {
                packages.join(package)
            }
            _ => return Err(not_a_backup(&format!("it names `{name}`"))),
        };
        let part = wal::companion(&to, ".part");
        let verified =
            extract(&mut archive, name, &part).and_then(|hash| match entry["sha256"].as_str() {
                Some(expected) if expected == hash => Ok(()),
                _ => Err(not_a_backup(&format!("`{name}` in it is damaged"))),
            });
        verified.inspect_err(|_| drop(fs::remove_file(&part)))?;
        fs::rename(&part, &to).map_err(|e| io_error(&e, "write", &to))?;
    }
    Ok(manifest)
}

fn manifest(archive: &mut ZipArchive<File>) -> Result<Value, StoreError> {
    let mut text = String::new();
    let found = archive
        .by_name(MANIFEST)
        .map_err(|e| not_a_backup(&e.to_string()))?;
    found
        .take(1 << 24)
        .read_to_string(&mut text)
        .map_err(|e| not_a_backup(&format!("`{MANIFEST}`: {e}")))?;
    let manifest: Value =
        serde_json::from_str(&text).map_err(|e| not_a_backup(&format!("`{MANIFEST}`: {e}")))?;
    match (manifest["format"].as_u64(), manifest["schema"].as_i64()) {
        (Some(FORMAT), Some(schema)) if schema <= schema::newest() => Ok(manifest),
        (format, schema) => Err(not_a_backup(&format!(
            "it has format {} and schema {}, but this binary supports format {FORMAT} and schemas up to {}; restore it \
             with the newer binary that wrote it",
            format.unwrap_or_default(),
            schema.unwrap_or_default(),
            schema::newest()
        ))),
    }
}

fn extract(archive: &mut ZipArchive<File>, name: &str, to: &Path) -> Result<String, StoreError> {
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

fn not_a_backup(reason: &str) -> StoreError {
    StoreError::Broken(format!(
        "this backup cannot be used: {reason}; hint: nothing was changed; use another backup"
    ))
}

//! A backup is one file: the database as it was at one moment, and the packages that it names. The keys are not in
//! it: who has a backup has no secret, and who restores one brings the key file along.
//!
//! ```text
//! backup:   VACUUM INTO (writers go on) ─ packages ─ manifest with hashes ─ .zip
//! restore:  lock ─ hashes, schema, keys fit? ─ mark "in recovery" ─ fold and keep the old database ─ rename
//! ```
//! Nothing that is there is touched before the last step, and that is one rename. What the mark means is the
//! server's business: it takes no operation until somebody has seen how the VIMs differ.

use crate::fault::Done;
use crate::keys::{SecretKeys, sync_folder_of};
use crate::packages::{PackageDir, private_folder};
use crate::place;
use crate::sqlite::SqliteStore;
use crate::{alone, keeper, schema, wal, write};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, query, query_scalar};
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use uuid::Uuid;
use vnfm_core::ports::{SecretSealer, StoreError};
use zip::write::SimpleFileOptions;
use zip::{ZipArchive, ZipWriter};

const FORMAT: u64 = 1;
const MANIFEST: &str = "manifest.json";
const DATABASE: &str = "vnfm.db";
const KEYS: &str = "secrets.key";
/// Where the mark of a restored database is kept.
const MARK: &str = "recovery";

/// Since when a database is in recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// When it was restored.
    pub restored_at: Timestamp,
    /// The moment that it shows.
    pub backup_at: Timestamp,
}

/// What was restored.
#[derive(Debug)]
pub struct Restored {
    /// Of which installation.
    pub installation_id: String,
    /// The moment that it shows.
    pub backup_at: Timestamp,
    /// How many packages came with it.
    pub packages: usize,
    /// Where the database that was there before is now.
    pub before: Option<PathBuf>,
}

impl SqliteStore {
    /// Writes a backup to `file`, which must not be there. Reads and writes go on meanwhile.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the disk does not take it; `Broken` for a database in memory.
    pub async fn backup(
        &self,
        packages: &PackageDir,
        file: &Path,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let to = private(file).map_err(|e| said(&e, "make", file))?;
        let folder = folder_of(file);
        let made = self.backup_into(packages, (folder, to), at).await;
        made.map(drop).inspect_err(|_| drop(fs::remove_file(file)))
    }

    /// Makes a backup in a file of `folder` that has no name: it is gone when it is closed, however the process ends.
    /// Reads and writes go on meanwhile.
    ///
    /// # Errors
    ///
    /// As [`Self::backup`].
    pub async fn nameless_backup(
        &self,
        packages: &PackageDir,
        folder: &Path,
        at: Timestamp,
    ) -> Result<File, StoreError> {
        let to = tempfile::tempfile_in(folder).map_err(|e| said(&e, "make a file in", folder))?;
        self.backup_into(packages, (folder, to), at).await
    }

    /// Writes a backup into a new file, with what is needed meanwhile in `folder`; the file at its beginning.
    async fn backup_into(
        &self,
        packages: &PackageDir,
        (folder, to): (&Path, File),
        at: Timestamp,
    ) -> Result<File, StoreError> {
        let Some(database) = self.path() else {
            return Err(StoreError::Broken(
                "a database in memory has no backup".into(),
            ));
        };
        let doing = format!("make a backup in `{}`", folder.display());
        // SQLite wants a name to write to. What a crash leaves of it is removed at the next start.
        let snapshot = folder.join(format!("backup-{}.part", Uuid::new_v4()));
        let copied = snapshot_of(database, &snapshot).await;
        let opened = File::open(&snapshot);
        let _ = fs::remove_file(&snapshot); // it may never have been made
        let ids = copied.map_err(|fault| fault.told(&doing))?;
        let copy = opened.map_err(|e| said(&e, "read", &snapshot))?;
        let mut kept = Vec::new();
        for id in ids {
            let files = packages.files(&id);
            kept.extend(files.map_err(|e| StoreError::Broken(e.to_string()))?);
        }
        let of = json!({"format": FORMAT, "installationId": self.installation(), "madeAt": at,
            "schema": schema::newest()});
        let packed = spawn_blocking(move || pack(copy, &kept, of, to)).await;
        joined(packed, &doing)
    }

    /// Whether this database was restored and nobody has confirmed yet how the world differs from it.
    ///
    /// # Errors
    ///
    /// Where the database does not answer.
    pub async fn recovery(&self) -> Result<Option<Recovery>, StoreError> {
        let mut connection = self.writer().await;
        let read = async {
            let mark: Option<String> = query_scalar("SELECT value FROM meta WHERE key = $1")
                .bind(MARK)
                .fetch_optional(&mut *connection)
                .await?;
            mark.map(|mark| Ok(recovery_of(&serde_json::from_str(&mark)?)))
                .transpose()
        };
        let read: Done<Option<Option<Recovery>>> = read.await;
        Ok(read
            .map_err(|e| e.told("read whether it is in recovery"))?
            .flatten())
    }

    /// Takes the mark away.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the disk does not take it.
    pub async fn end_recovery(&self) -> Result<(), StoreError> {
        let mut connection = self.writer().await;
        let ended = query("DELETE FROM meta WHERE key = $1")
            .bind(MARK)
            .execute(&mut *connection);
        let ended = ended.await.map(drop).map_err(Into::into);
        self.ended(&mut connection, ended, "end the recovery").await
    }
}

fn recovery_of(mark: &Value) -> Option<Recovery> {
    let at = |name: &str| mark[name].as_str().and_then(|at| at.parse().ok());
    Some(Recovery {
        restored_at: at("restoredAt")?,
        backup_at: at("backupAt")?,
    })
}

/// Copies the database as it is at one moment; the ids of the packages that it names.
async fn snapshot_of(database: &Path, to: &Path) -> Done<Vec<String>> {
    private(to).map_err(|e| said(&e, "make", to))?;
    let mut source =
        SqliteConnection::connect_with(&place::options().filename(database).read_only(true))
            .await?;
    query("VACUUM INTO $1")
        .bind(to.to_string_lossy().into_owned())
        .execute(&mut source)
        .await?;
    source.close().await?;
    let plain = sqlx::sqlite::SqliteConnectOptions::new()
        .filename(to)
        .read_only(true);
    let mut copy = SqliteConnection::connect_with(&plain).await?;
    let infos: Vec<(String, String)> = sqlx::query_as("SELECT id, info FROM packages ORDER BY id")
        .fetch_all(&mut copy)
        .await?;
    copy.close().await?;
    let onboarded = |info: &str| {
        let info: Value = serde_json::from_str(info).unwrap_or_default();
        info["onboardingState"] == "ONBOARDED"
    };
    Ok(infos
        .into_iter()
        .filter(|(_, info)| onboarded(info))
        .map(|(id, _)| id)
        .collect())
}

/// Packs the copy of the database and the files of packages; the archive, at its beginning.
fn pack(
    mut database: File,
    packages: &[PathBuf],
    mut manifest: Value,
    to: File,
) -> Result<File, StoreError> {
    let unwritten =
        |error: io::Error| StoreError::Unavailable(format!("cannot write the backup: {error}"));
    let mut archive = ZipWriter::new(to);
    let mut files = serde_json::Map::new();
    let hash = add(&mut archive, DATABASE, &mut database).map_err(unwritten)?;
    files.insert(DATABASE.to_owned(), json!({"sha256": hash}));
    for path in packages {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("packages/{name}");
        let added = File::open(path).and_then(|mut file| add(&mut archive, &name, &mut file));
        let hash = added.map_err(|e| said(&e, "read", path))?;
        files.insert(name, json!({"sha256": hash}));
    }
    manifest["files"] = Value::Object(files);
    let text = serde_json::to_vec_pretty(&manifest).unwrap_or_default();
    let written = archive
        .start_file(MANIFEST, options())
        .map_err(io::Error::other)
        .and_then(|()| archive.write_all(&text));
    let written = written.and_then(|()| archive.finish().map_err(io::Error::other));
    let whole = written.and_then(|mut file| {
        file.sync_all()?;
        file.rewind()?;
        Ok(file)
    });
    whole.map_err(unwritten)
}

fn options() -> SimpleFileOptions {
    SimpleFileOptions::default().large_file(true)
}

/// Adds a file; the hash of what was read.
fn add(archive: &mut ZipWriter<File>, name: &str, from: &mut File) -> io::Result<String> {
    archive
        .start_file(name, options())
        .map_err(io::Error::other)?;
    copy(from, archive)
}

/// The SHA-256 of a file in hexadecimal, lower case.
pub(crate) fn hash_of(path: &Path) -> io::Result<String> {
    copy(&mut File::open(path)?, &mut io::sink())
}

/// Copies all of it; its hash.
fn copy(from: &mut impl io::Read, to: &mut impl io::Write) -> io::Result<String> {
    let (mut hash, mut buffer) = (Sha256::new(), vec![0; 64 * 1024]);
    loop {
        let count = from.read(&mut buffer)?;
        if count == 0 {
            break;
        }
        hash.update(&buffer[..count]);
        to.write_all(&buffer[..count])?;
    }
    let mut text = String::new();
    for byte in hash.finalize() {
        let _ = write!(text, "{byte:02x}"); // a String takes everything
    }
    Ok(text)
}

/// Brings the backup `file` into the data folder `data`, whose server must not run. The key file that belongs to it
/// has to be there. A database that is there is kept beside it.
///
/// # Errors
///
/// `Unavailable` where a server has the folder or the disk does not take it; `Broken` where it is no backup, is
/// damaged, is newer than this binary, or was sealed with other keys. Then nothing was changed.
pub async fn restore(file: &Path, data: &Path, at: Timestamp) -> Result<Restored, StoreError> {
    restore_with(file, data, at, None).await
}

/// The same, where `sealer` may keep the keys that belong to the backup; the key file may be absent then.
///
/// # Errors
///
/// As [`restore`], and `Keys` where a key cannot be had from `sealer`.
pub async fn restore_with(
    file: &Path,
    data: &Path,
    at: Timestamp,
    sealer: Option<Arc<dyn SecretSealer>>,
) -> Result<Restored, StoreError> {
    let database = data.join(DATABASE);
    let _lock = alone::lock(&database)?;
    let keys = keys_for(file, data, sealer)?;
    let new = data.join("vnfm.db.restoring");
    let doing = format!("restore `{}`", file.display());
    let (from, to, folder) = (file.to_owned(), new.clone(), data.join("packages"));
    let unpacked = joined(
        spawn_blocking(move || unpack(&from, &to, &folder)).await,
        &doing,
    );
    let restored = match unpacked {
        Ok(manifest) => exchange(&new, &database, (keys, at), &manifest).await,
        Err(error) => Err(error),
    };
    let _ = fs::remove_file(&new); // after a rename it is not there
    restored.map_err(|error| match error {
        StoreError::Broken(why) if !why.starts_with("cannot") => {
            StoreError::Broken(format!("cannot {doing}: {why}"))
        }
        error => error,
    })
}

/// The keys that the backup is tried with.
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
            "cannot restore `{}`: there is no `{}`; hint: bring the key file that belongs to the backup there first",
            file.display(),
            keys.display()
        )));
    }
    SecretKeys::open(&keys)
}

async fn exchange(
    new: &Path,
    database: &Path,
    (keys, at): (SecretKeys, Timestamp),
    manifest: &Value,
) -> Result<Restored, StoreError> {
    let made = manifest["madeAt"]
        .as_str()
        .and_then(|at| at.parse::<Timestamp>().ok());
    let backup_at = made.ok_or_else(|| not_a_backup("its manifest has no `madeAt`"))?;
    let mark = json!({"restoredAt": at, "backupAt": backup_at}).to_string();
    let installation_id = prepared(new, keys, &mark)
        .await
        .map_err(|e| e.told("prepare it"))?;
    let before = set_aside(database, at).await?;
    let moved = fs::rename(new, database).and_then(|()| sync_folder_of(database));
    moved.map_err(|e| said(&e, "write", database))?;
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

/// Brings a restored database to this binary's schema, sees that the keys fit, and marks it.
async fn prepared(new: &Path, keys: SecretKeys, mark: &str) -> Done<String> {
    let mut connection = SqliteConnection::connect_with(&place::options().filename(new)).await?;
    schema::migrate(&mut connection, schema::MIGRATIONS).await?;
    let keys = keeper::complete(&mut connection, keys).await?;
    let installation_id = write::prepare(&mut connection, &keys).await?;
    query("DELETE FROM meta WHERE key = $1")
        .bind(MARK)
        .execute(&mut connection)
        .await?;
    query("INSERT INTO meta (key, value) VALUES ($1, $2)")
        .bind(MARK)
        .bind(mark)
        .execute(&mut connection)
        .await?;
    connection.close().await?;
    Ok(installation_id)
}

/// Keeps the database that is there, with its log folded in, beside itself.
async fn set_aside(database: &Path, at: Timestamp) -> Result<Option<PathBuf>, StoreError> {
    let has_any = database.metadata().is_ok_and(|meta| meta.len() > 0);
    let kept = wal::beside(
        database,
        &format!(".before-{}", at.strftime("%Y%m%dT%H%M%SZ")),
    );
    let folded = async {
        wal::check(database)?;
        let mut old = SqliteConnection::connect_with(&place::options().filename(database)).await?;
        query("PRAGMA wal_checkpoint(TRUNCATE)")
            .execute(&mut old)
            .await?;
        Ok(old.close().await?)
    };
    if has_any {
        let folded: Done<()> = folded.await;
        if let Err(fault) = folded {
            let why = fault.told("fold its log");
            tracing::warn!(%why, "the database that was there is kept as it is");
        }
    }
    // Also without a database: SQLite would take the log of a lost one for that of the new one.
    for end in ["-wal", "-shm", "-acked"] {
        let companion = wal::beside(database, end);
        if companion.exists() {
            fs::rename(&companion, wal::beside(&kept, end))
                .map_err(|e| said(&e, "keep", &companion))?;
        }
    }
    if !has_any {
        return Ok(None);
    }
    fs::hard_link(database, &kept).map_err(|e| said(&e, "keep", database))?;
    Ok(Some(kept))
}

/// Unpacks database and packages, each of them only as its hash says; the manifest.
fn unpack(file: &Path, database: &Path, packages: &Path) -> Result<Value, StoreError> {
    let opened = File::open(file).map_err(|e| said(&e, "read", file))?;
    let mut archive = ZipArchive::new(opened).map_err(|e| not_a_backup(&e.to_string()))?;
    let manifest = manifest(&mut archive)?;
    private_folder(packages).map_err(|e| said(&e, "make", packages))?;
    let files = manifest["files"].as_object().cloned().unwrap_or_default();
    if !files.contains_key(DATABASE) {
        return Err(not_a_backup("it has no database"));
    }
    for (name, told) in &files {
        let to = match name.strip_prefix("packages/") {
            _ if name == DATABASE => database.to_owned(),
            Some(package) if !package.contains('/') && !package.starts_with('.') => {
                packages.join(package)
            }
            _ => return Err(not_a_backup(&format!("it names `{name}`"))),
        };
        let part = wal::beside(&to, ".part");
        let whole =
            extract(&mut archive, name, &part).and_then(|hash| match told["sha256"].as_str() {
                Some(told) if told == hash => Ok(()),
                _ => Err(not_a_backup(&format!("`{name}` in it is damaged"))),
            });
        whole.inspect_err(|_| drop(fs::remove_file(&part)))?;
        fs::rename(&part, &to).map_err(|e| said(&e, "write", &to))?;
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
            "it has format {} and schema {}, and this binary knows format {FORMAT} and schemas up to {}; restore it \
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
    let _ = fs::remove_file(to); // what a crash left of an earlier one
    let mut out = private(to).map_err(|e| said(&e, "make", to))?;
    let hash = copy(&mut from, &mut out).and_then(|hash| out.sync_all().map(|()| hash));
    hash.map_err(|error| match error.raw_os_error() {
        Some(_) => said(&error, "write", to),
        None => not_a_backup(&format!("`{name}` in it is damaged: {error}")),
    })
}

/// The folder of a file.
fn folder_of(file: &Path) -> &Path {
    file.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// A new file that only its owner reads.
fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

fn said(error: &io::Error, doing: &str, path: &Path) -> StoreError {
    StoreError::Unavailable(format!("cannot {doing} `{}`: {error}", path.display()))
}

fn not_a_backup(why: &str) -> StoreError {
    StoreError::Broken(format!(
        "it is no backup that can be used: {why}; hint: nothing was changed; use another one"
    ))
}

fn joined<T>(
    outcome: Result<Result<T, StoreError>, tokio::task::JoinError>,
    doing: &str,
) -> Result<T, StoreError> {
    outcome.unwrap_or_else(|error| Err(StoreError::Broken(format!("cannot {doing}: {error}"))))
}

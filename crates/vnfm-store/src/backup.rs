//! A backup is one file: a consistent snapshot of the database, and the packages that it refers to. The keys are not
//! included: a backup reveals no secret, and restoring it needs the key file.
//!
//! ```text
//! backup:   VACUUM INTO (writers continue) ─ packages ─ manifest with hashes ─ .zip
//! restore:  lock ─ check hashes, schema, keys ─ mark "in recovery" ─ checkpoint and keep the old database ─ rename
//! ```
//! Existing files are not touched before the last step, which is one rename. While the mark is set, the server accepts
//! no operations until an operator has confirmed how the VIMs differ.

mod restore;

pub use restore::{restore, restore_with};

use crate::fault::Done;
use crate::packages::PackageDir;
use crate::sqlite::SqliteStore;
use crate::{location, schema};
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use sqlx::sqlite::SqliteConnection;
use sqlx::{Connection as _, query, query_scalar};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use tokio::task::spawn_blocking;
use uuid::Uuid;
use vnfm_core::ports::StoreError;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

const FORMAT: u64 = 1;
const MANIFEST: &str = "manifest.json";
const DATABASE: &str = "vnfm.db";
const KEYS: &str = "secrets.key";
/// Key in `meta` of the mark of a restored database.
const MARK: &str = "recovery";

/// The mark of a database in recovery.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// When it was restored.
    pub restored_at: Timestamp,
    /// When the backup was written.
    pub backup_at: Timestamp,
}

/// The result of a restore.
#[derive(Debug)]
pub struct Restored {
    /// The installation that the backup is of.
    pub installation_id: String,
    /// When the backup was written.
    pub backup_at: Timestamp,
    /// Number of packages in the backup.
    pub packages: usize,
    /// Path of the previous database, which is kept; `None` if there was none.
    pub before: Option<PathBuf>,
}

impl SqliteStore {
    /// Writes a backup to `file`, which must not exist. Reads and writes continue meanwhile.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk is full or fails; `Broken` for a database in memory.
    pub async fn backup(
        &self,
        packages: &PackageDir,
        file: &Path,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        let to = private(file).map_err(|e| io_error(&e, "create", file))?;
        let folder = folder_of(file);
        let written = self.backup_into(packages, (folder, to), at).await;
        written
            .map(drop)
            .inspect_err(|_| drop(fs::remove_file(file)))
    }

    /// Writes a backup to an unnamed file in `folder`, which the kernel deletes when it is closed. Reads and writes
    /// continue meanwhile.
    ///
    /// # Errors
    ///
    /// See [`Self::backup`].
    pub async fn unnamed_backup(
        &self,
        packages: &PackageDir,
        folder: &Path,
        at: Timestamp,
    ) -> Result<File, StoreError> {
        let to =
            tempfile::tempfile_in(folder).map_err(|e| io_error(&e, "create a file in", folder))?;
        self.backup_into(packages, (folder, to), at).await
    }

    /// Writes a backup into `to`, with temporary files in `folder`. Returns the file, rewound.
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
        let action = format!("write a backup in `{}`", folder.display());
        // SQLite needs a named file. After a crash, the next start removes it.
        let snapshot = folder.join(format!("backup-{}.part", Uuid::new_v4()));
        let copied = snapshot_of(database, &snapshot).await;
        let opened = File::open(&snapshot);
        let _ = fs::remove_file(&snapshot); // it may not exist
        let ids = copied.map_err(|fault| fault.with_action(&action))?;
        let copy = opened.map_err(|e| io_error(&e, "read", &snapshot))?;
        let mut files = Vec::new();
        for id in ids {
            let found = packages.files(&id);
            files.extend(found.map_err(|e| StoreError::Broken(e.to_string()))?);
        }
        let manifest = json!({"format": FORMAT, "installationId": self.installation(), "madeAt": at,
            "schema": schema::newest()});
        let packed = spawn_blocking(move || pack(copy, &files, manifest, to)).await;
        joined(packed, &action)
    }

    /// The recovery mark, if this database was restored and the restore is not confirmed yet.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
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
            .map_err(|e| e.with_action("read the recovery mark"))?
            .flatten())
    }

    /// Ends the recovery: removes its mark.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk is full or fails.
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

/// Writes a consistent copy of the database; returns the ids of the onboarded packages in it.
async fn snapshot_of(database: &Path, to: &Path) -> Done<Vec<String>> {
    private(to).map_err(|e| io_error(&e, "create", to))?;
    let mut source =
        SqliteConnection::connect_with(&location::options().filename(database).read_only(true))
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
    let mut onboarded = Vec::new();
    for (id, info) in infos {
        let info: Value = serde_json::from_str(&info)?;
        if info["onboardingState"] == "ONBOARDED" {
            onboarded.push(id);
        }
    }
    Ok(onboarded)
}

/// Packs the copy of the database and the package files. Returns the archive, rewound.
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
        let hash = added.map_err(|e| io_error(&e, "read", path))?;
        files.insert(name, json!({"sha256": hash}));
    }
    manifest["files"] = Value::Object(files);
    let text = serde_json::to_vec_pretty(&manifest).map_err(|error| {
        StoreError::Broken(format!("cannot write the manifest of the backup: {error}"))
    })?;
    let written = archive
        .start_file(MANIFEST, options())
        .map_err(io::Error::other)
        .and_then(|()| archive.write_all(&text));
    let written = written.and_then(|()| archive.finish().map_err(io::Error::other));
    let synced = written.and_then(|mut file| {
        file.sync_all()?;
        file.rewind()?;
        Ok(file)
    });
    synced.map_err(unwritten)
}

fn options() -> SimpleFileOptions {
    SimpleFileOptions::default().large_file(true)
}

/// Adds a file to the archive; returns its hash.
fn add(archive: &mut ZipWriter<File>, name: &str, from: &mut File) -> io::Result<String> {
    archive
        .start_file(name, options())
        .map_err(io::Error::other)?;
    copy(from, archive)
}

/// The SHA-256 of a file in lowercase hexadecimal.
pub(crate) fn hash_of(path: &Path) -> io::Result<String> {
    copy(&mut File::open(path)?, &mut io::sink())
}

/// Copies all bytes; returns their SHA-256.
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
    Ok(hex::encode(hash.finalize()))
}

/// The folder of a file, `.` for a bare name.
fn folder_of(file: &Path) -> &Path {
    file.parent()
        .filter(|folder| !folder.as_os_str().is_empty())
        .unwrap_or(Path::new("."))
}

/// Creates a file that only its owner can read.
fn private(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
}

fn io_error(error: &io::Error, action: &str, path: &Path) -> StoreError {
    StoreError::Unavailable(format!("cannot {action} `{}`: {error}", path.display()))
}

fn joined<T>(
    outcome: Result<Result<T, StoreError>, tokio::task::JoinError>,
    action: &str,
) -> Result<T, StoreError> {
    outcome.unwrap_or_else(|error| Err(StoreError::Broken(format!("cannot {action}: {error}"))))
}

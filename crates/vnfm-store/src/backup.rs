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

use crate::database::Database;
use crate::executor::{all, execute};
use crate::fault::Done;
use crate::location::{Access, open_file};
use crate::packages::PackageDir;
use crate::schema;
use crate::statement::Query;
use jiff::Timestamp;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
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

/// Writes a backup to `file`, which must not exist.
pub(crate) async fn write(
    database: &Database,
    packages: &PackageDir,
    file: &Path,
    at: Timestamp,
) -> Result<(), StoreError> {
    let to = private(file).map_err(|e| io_error(&e, "create", file))?;
    let written = write_into(database, packages, (folder_of(file), to), at).await;
    written
        .map(drop)
        .inspect_err(|_| drop(fs::remove_file(file)))
}

/// Writes a backup to an unnamed file in `folder`, which the kernel deletes when it is closed.
pub(crate) async fn write_unnamed(
    database: &Database,
    packages: &PackageDir,
    folder: &Path,
    at: Timestamp,
) -> Result<File, StoreError> {
    let to = tempfile::tempfile_in(folder).map_err(|e| io_error(&e, "create a file in", folder))?;
    write_into(database, packages, (folder, to), at).await
}

/// Writes a backup into `to`, with temporary files in `folder`. Returns the file, rewound.
async fn write_into(
    database: &Database,
    packages: &PackageDir,
    (folder, to): (&Path, File),
    at: Timestamp,
) -> Result<File, StoreError> {
    let Some(path) = database.path() else {
        return Err(StoreError::Broken(
            "a database in memory has no backup".into(),
        ));
    };
    let action = format!("write a backup in `{}`", folder.display());
    // SQLite needs a named file. After a crash, the next start removes it.
    let snapshot = folder.join(format!("backup-{}.part", Uuid::new_v4()));
    let (from, copy) = (path.to_owned(), snapshot.clone());
    let copied = spawn_blocking(move || {
        let ids = snapshot_of(&from, &copy);
        let opened = File::open(&copy);
        let _ = fs::remove_file(&copy); // it may not exist
        (ids, opened)
    });
    let (ids, opened) = copied
        .await
        .map_err(|error| StoreError::Broken(format!("cannot {action}: {error}")))?;
    let ids = ids.map_err(|fault| fault.with_action(&action))?;
    let copy = opened.map_err(|e| io_error(&e, "read", &snapshot))?;
    let mut files = Vec::new();
    for id in ids {
        let found = packages.files(&id);
        files.extend(found.map_err(|e| StoreError::Broken(e.to_string()))?);
    }
    let manifest = json!({"format": FORMAT, "installationId": database.installation_id, "madeAt": at,
        "schema": schema::newest()});
    let packed = spawn_blocking(move || pack(copy, &files, manifest, to)).await;
    joined(packed, &action)
}

/// Writes a consistent copy of the database; returns the ids of the onboarded packages in it.
fn snapshot_of(database: &Path, to: &Path) -> Done<Vec<String>> {
    private(to).map_err(|e| io_error(&e, "create", to))?;
    let source = open_file(database, Access::Read)?;
    let vacuum = Query::new("VACUUM INTO $1").bind(&*to.to_string_lossy());
    execute(&source, &vacuum)?;
    drop(source);
    let copy = open_file(to, Access::Read)?;
    let infos: Vec<(String, String)> = all(
        &copy,
        &Query::new("SELECT id, info FROM packages ORDER BY id"),
    )?;
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

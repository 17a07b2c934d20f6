//! A backup is one file: a consistent snapshot of the database, the packages that it refers to, and the files that are stored
//! with its instances. The keys are not included: a backup reveals no secret, and restoring it needs the key file.
//!
//! ```text
//! backup:   VACUUM INTO (writers continue) ─ packages ─ stored files ─ manifest with hashes ─ .zip
//! restore:  lock ─ check hashes, schema, keys ─ mark "in recovery" ─ checkpoint and keep the old database ─ rename
//!           ─ keep the old folder of stored files ─ rename
//! ```
//! The rename of the database is what counts: before it, existing files are not touched; after it, the next start completes
//! what a crash has left ([`complete_restore`]). While the mark is set, the server accepts no operations until an operator
//! has confirmed how the VIMs differ.
//!
//! A stored file is in the backup as it is when it is reached; one that is deleted meanwhile is left out. If a package is
//! deleted meanwhile, the backup begins again with a new copy of the database.

mod restore;
mod stored_files;

pub use restore::{restore, restore_with};
pub(crate) use stored_files::complete_restore;

use crate::database::Database;
use crate::executor::{all, execute};
use crate::fault::Done;
use crate::hashing::copy;
use crate::instance_files::FileDir;
use crate::location::{Access, open_file};
use crate::packages::PackageDir;
use crate::schema;
use crate::secret_keys::folder_of;
use crate::statement::Query;
use crate::tenant_usage;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::spawn_blocking;
use uuid::Uuid;
use vnfm_core::ports::StoreError;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Format 1 has no stored files; a restore of it leaves those that are there.
const FORMAT: u64 = 2;
const MANIFEST: &str = "manifest.json";
const DATABASE: &str = "vnfm.db";
/// The restored database, until it is renamed.
const RESTORING: &str = "vnfm.db.restoring";
const KEYS: &str = "secrets.key";
/// Maximum number of attempts at a backup, if packages are deleted while it is written.
const MAX_ATTEMPTS: usize = 5;
/// Upper bound of the manifest, which has some 300 bytes for each file.
const MAX_MANIFEST_BYTES: u64 = 1 << 26;

/// The folders whose files a backup contains besides the database.
#[derive(Clone)]
pub struct BackupFolders {
    /// The packages that the database refers to.
    pub packages: Arc<PackageDir>,
    /// The files that are stored with its instances.
    pub files: Arc<FileDir>,
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
    /// Number of stored files in the backup.
    pub files: usize,
    /// Path of the previous database, which is kept; `None` if there was none.
    pub before: Option<PathBuf>,
    /// Path of the previous folder of stored files, which is kept; `None` if there were none, or the backup has no such
    /// folder and they stay.
    pub files_before: Option<PathBuf>,
}

/// Writes a backup to `file`, which must not exist.
pub(crate) async fn write(
    database: &Database,
    folders: &BackupFolders,
    file: &Path,
    at: Timestamp,
) -> Result<(), StoreError> {
    let to = private(file).map_err(|e| io_error(&e, "create", file))?;
    let written = write_into(database, folders, (folder_of(file), to), at).await;
    written
        .map(drop)
        .inspect_err(|_| drop(fs::remove_file(file)))
}

/// Writes a backup to an unnamed file in `folder`, which the kernel deletes when it is closed.
pub(crate) async fn write_unnamed(
    database: &Database,
    folders: &BackupFolders,
    folder: &Path,
    at: Timestamp,
) -> Result<File, StoreError> {
    let to = tempfile::tempfile_in(folder).map_err(|e| io_error(&e, "create a file in", folder))?;
    write_into(database, folders, (folder, to), at).await
}

/// Writes a backup into `to`, with temporary files in `folder`. Returns the file, rewound.
async fn write_into(
    database: &Database,
    folders: &BackupFolders,
    (folder, to): (&Path, File),
    at: Timestamp,
) -> Result<File, StoreError> {
    let Some(path) = database.path() else {
        return Err(StoreError::Broken(
            "a database in memory has no backup".into(),
        ));
    };
    let action = format!("write a backup in `{}`", folder.display());
    let manifest = json!({"format": FORMAT, "installationId": database.installation_id, "madeAt": at,
        "schema": schema::newest()});
    let (from, folders, within) = (path.to_owned(), folders.clone(), folder.to_owned());
    let during = action.clone();
    let packed = spawn_blocking(move || {
        let mut attempt = 0;
        loop {
            attempt += 1;
            let contents = Contents::copy(&from, &within);
            let contents = contents.map_err(|fault| fault.with_action(&during))?;
            stored_files::check_room(&folders.files, &contents.instances, &within)?;
            let packed = pack(&contents, &folders, manifest.clone(), emptied(&to)?);
            let is_last = packed.is_ok() || attempt == MAX_ATTEMPTS;
            if is_last || !contents.refers_to_deleted(&from) {
                return packed;
            }
        }
    });
    joined(packed.await, &action)
}

/// The same file, without the content of an earlier attempt.
fn emptied(file: &File) -> Result<File, StoreError> {
    let emptied = file.set_len(0).and_then(|()| {
        let mut file = file.try_clone()?;
        file.rewind()?;
        Ok(file)
    });
    emptied.map_err(|e| unwritten(&e))
}

/// The copy of the database, and what it refers to.
struct Contents {
    database: File,
    /// The ids of the onboarded packages.
    packages: Vec<String>,
    /// The ids of the instances.
    instances: BTreeSet<String>,
}

impl Contents {
    /// Whether a package of the copy was deleted from the database since.
    fn refers_to_deleted(&self, database: &Path) -> bool {
        let current = open_file(database, Access::Read).and_then(|db| onboarded(&db));
        current.is_ok_and(|current| self.packages.iter().any(|id| !current.contains(id)))
    }

    /// Copies the database at one moment, into a file in `folder` that is deleted when it is closed.
    fn copy(database: &Path, folder: &Path) -> Done<Self> {
        // SQLite needs a named file. After a crash, the next start removes it.
        let copy = folder.join(format!("backup-{}.part", Uuid::new_v4()));
        let contents = Self::copied(database, &copy);
        let _ = fs::remove_file(&copy); // it may not exist
        contents
    }

    fn copied(database: &Path, to: &Path) -> Done<Self> {
        private(to).map_err(|e| io_error(&e, "create", to))?;
        let source = open_file(database, Access::Read)?;
        let vacuum = Query::new("VACUUM INTO $1").bind(&*to.to_string_lossy());
        execute(&source, &vacuum)?;
        drop(source);
        let copy = open_file(to, Access::Read)?;
        let instances = tenant_usage::instances(&copy)?.into_iter();
        Ok(Self {
            packages: onboarded(&copy)?,
            instances: instances.map(|(_, id)| id).collect(),
            database: File::open(to).map_err(|e| io_error(&e, "read", to))?,
        })
    }
}

/// The ids of the onboarded packages in a database.
fn onboarded(db: &rusqlite::Connection) -> Done<Vec<String>> {
    let infos: Vec<(String, String)> =
        all(db, &Query::new("SELECT id, info FROM packages ORDER BY id"))?;
    let mut onboarded = Vec::new();
    for (id, info) in infos {
        let info: Value = serde_json::from_str(&info)?;
        if info["onboardingState"] == "ONBOARDED" {
            onboarded.push(id);
        }
    }
    Ok(onboarded)
}

/// A backup that is being written.
struct Archive {
    zip: ZipWriter<File>,
    /// The files in it, for the manifest.
    files: Map<String, Value>,
}

/// Packs the copy of the database, the packages and the stored files. Returns the archive, rewound.
fn pack(
    contents: &Contents,
    folders: &BackupFolders,
    mut manifest: Value,
    to: File,
) -> Result<File, StoreError> {
    let mut archive = Archive {
        zip: ZipWriter::new(to),
        files: Map::new(),
    };
    let added = archive.add((DATABASE, options()), &mut &contents.database);
    added.map_err(|e| unwritten(&e))?;
    for id in &contents.packages {
        let files = folders.packages.files(id);
        for path in files.map_err(|e| StoreError::Broken(e.to_string()))? {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            let name = format!("packages/{name}");
            let mut file = File::open(&path).map_err(|e| io_error(&e, "read", &path))?;
            let added = archive.add((&name, options()), &mut file);
            added.map_err(|e| io_error(&e, "add", &path))?;
        }
    }
    stored_files::add(&mut archive, &folders.files, &contents.instances)?;
    manifest["files"] = Value::Object(std::mem::take(&mut archive.files));
    archive.finish(&manifest)
}

impl Archive {
    /// Adds a file with its hash.
    fn add(
        &mut self,
        (name, options): (&str, SimpleFileOptions),
        from: &mut impl Read,
    ) -> io::Result<&mut Value> {
        self.zip
            .start_file(name, options)
            .map_err(io::Error::other)?;
        let hash = copy(from, &mut self.zip)?;
        let entry = self.files.entry(name);
        Ok(entry.or_insert(json!({"sha256": hash})))
    }

    fn finish(mut self, manifest: &Value) -> Result<File, StoreError> {
        let text = serde_json::to_vec_pretty(manifest).map_err(|error| {
            StoreError::Broken(format!("cannot write the manifest of the backup: {error}"))
        })?;
        if text.len() as u64 > MAX_MANIFEST_BYTES {
            let bytes = text.len();
            return Err(StoreError::Broken(format!(
                "cannot write the manifest of the backup: it has {bytes} bytes, and a restore reads {MAX_MANIFEST_BYTES}; hint: \
                 delete stored files that are not needed"
            )));
        }
        let started = self.zip.start_file(MANIFEST, options());
        let written = started
            .map_err(io::Error::other)
            .and_then(|()| self.zip.write_all(&text));
        let finished = written.and_then(|()| self.zip.finish().map_err(io::Error::other));
        let synced = finished.and_then(|mut file| {
            file.sync_all()?;
            file.rewind()?;
            Ok(file)
        });
        synced.map_err(|e| unwritten(&e))
    }
}

fn unwritten(error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("cannot write the backup: {error}"))
}

fn options() -> SimpleFileOptions {
    SimpleFileOptions::default().large_file(true)
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

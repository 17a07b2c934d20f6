//! The files of a data folder: which of them belong together, and whether they are still the ones that were opened.
//!
//! ```text
//! vnfm.db      vnfm.db-wal, vnfm.db-acked      secrets.key      packages/      files/
//! ```
//! The database is created first and removed last, so any of the others without it shows that it was lost.

use crate::database::Database;
use crate::executor::one;
use crate::group_commit::Writer;
use crate::leftovers::{Folder, remove_leftovers_in};
use crate::secret_keys::{SecretKeys, folder_of, sync_folder_of};
use crate::statement::Query;
use crate::{process_lock, wal};
use jiff::Timestamp;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use vnfm_core::ports::StoreError;

const DATABASE: &str = "vnfm.db";
const KEY_FILE: &str = "secrets.key";
const PACKAGES: &str = "packages";
const FILES: &str = "files";
/// Suffixes of the files next to a database that is in use: SQLite's log and its index, and our note.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-acked"];

/// Refuses a data folder that has lost its database; creates an empty database in a new folder before any other file.
/// Call it before the key file is created.
///
/// # Errors
///
/// `Broken` if the database was lost, with the evidence and a hint; `Unavailable` if the folder
/// cannot be read or written.
pub fn check_files(data: &Path) -> Result<(), StoreError> {
    let database = data.join(DATABASE);
    refuse_lost(&database)?;
    if database.exists() {
        return Ok(());
    }
    let signs = [data.join(KEY_FILE)]
        .into_iter()
        .filter(|file| file.exists());
    let signs: Vec<_> = signs.chain(archives(data)?.into_iter().take(1)).collect();
    if let Some(sign) = signs.first() {
        return Err(lost(&database, sign));
    }
    process_lock::create(&database)?;
    sync_folder_of(&database).map_err(|error| failed("write", &database, &error))
}

/// Refuses a missing or empty database at `path` if a log or note of one is next to it.
pub(crate) fn refuse_lost(path: &Path) -> Result<(), StoreError> {
    if path.metadata().is_ok_and(|meta| meta.len() > 0) {
        return Ok(());
    }
    let log = wal::companion(path, "-wal");
    let has_log = log.metadata().is_ok_and(|meta| meta.len() > 0);
    let note = wal::companion(path, "-acked");
    let sign = if has_log {
        Some(log)
    } else {
        Some(note).filter(|note| note.exists())
    };
    sign.map_or(Ok(()), |sign| Err(lost(path, &sign)))
}

fn lost(database: &Path, sign: &Path) -> StoreError {
    let (database, sign) = (database.display(), sign.display());
    StoreError::Broken(format!(
        "the database `{database}` is missing or empty, but `{sign}` shows that there was one, with VIMs, \
         instances and operations; hint: nothing was changed: put the file back with its `-wal` and `-acked` files, or restore a backup \
         (`vnfm-server restore FILE`); to begin with an empty database instead, run `vnfm-server accept-loss`"
    ))
}

/// The package archives in a data folder.
fn archives(data: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let folder = data.join(PACKAGES);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(|error| failed("read", &folder, &error))?,
    };
    let files = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    Ok(files
        .filter(|file| file.extension().is_some_and(|end| end == "csar"))
        .collect())
}

/// Accepts the loss of a database or of its write-ahead log, so that a server can start again: moves the packages, the
/// stored files and the database's other files (or only the note of the log) into a folder `vnfm.db.lost-…`. The key
/// file stays. Returns the moves, from and to; none if nothing is missing.
///
/// # Errors
///
/// `Unavailable` if a server uses the folder or the disk fails.
pub fn accept_loss(data: &Path, at: Timestamp) -> Result<Vec<(PathBuf, PathBuf)>, StoreError> {
    let database = data.join(DATABASE);
    let _lock = process_lock::lock(&database)?;
    let lost_folder = data.join(format!("{DATABASE}.lost-{}", at.strftime("%Y%m%dT%H%M%SZ")));
    let companions = COMPANIONS.map(|end| wal::companion(&database, end));
    let has_database = database.metadata().is_ok_and(|meta| meta.len() > 0);
    let given_up: Vec<PathBuf> = if has_database {
        if wal::check(&database).is_ok() {
            return Ok(Vec::new());
        }
        companions.into()
    } else {
        companions
            .into_iter()
            .chain([PACKAGES, FILES].map(|folder| data.join(folder)))
            .collect()
    };
    let mut moved = Vec::new();
    for file in given_up.into_iter().filter(|file| file.exists()) {
        let created = DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&lost_folder);
        created.map_err(|error| failed("create", &lost_folder, &error))?;
        let to = lost_folder.join(file.file_name().unwrap_or_default());
        fs::rename(&file, &to).map_err(|error| failed("move", &file, &error))?;
        moved.push((file, to));
    }
    if !has_database {
        process_lock::create(&database)?;
    }
    sync_folder_of(&database).map_err(|error| failed("write", &database, &error))?;
    Ok(moved)
}

/// Open files with the paths under which they were opened: path, device, inode.
#[derive(Debug)]
pub(crate) struct OpenFiles(Vec<(PathBuf, u64, u64)>);

impl OpenFiles {
    /// The folder of the database at `path`, and the files that SQLite has open in it.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        let folder = folder_of(path).to_owned();
        let files = ["-wal", "-shm"].map(|end| wal::companion(path, end));
        let all = [folder, path.to_owned()].into_iter().chain(files);
        let identify = |file: PathBuf| match file.metadata() {
            Ok(meta) => Ok((file, meta.dev(), meta.ino())),
            Err(error) => Err(failed("inspect", &file, &error)),
        };
        all.map(identify).collect::<Result<_, _>>().map(Self)
    }

    /// Checks that each path still leads to the open file.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (file, device, inode) in &self.0 {
            let reason = match file.metadata() {
                Ok(meta) if (meta.dev(), meta.ino()) == (*device, *inode) => continue,
                Ok(_) => "was replaced by another file".to_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => "was removed".to_owned(),
                Err(error) => format!("cannot be inspected: {error}"),
            };
            return Err(format!(
                "`{}`, which this server has open, {reason}",
                file.display()
            ));
        }
        Ok(())
    }
}

/// Removes leftovers of killed processes next to the database, retired keys first. A failure only logs a warning: it
/// must not prevent a start.
pub(crate) fn remove_leftovers(path: &Path, keys: &SecretKeys) {
    let folders = [keys.folder(), Some(folder_of(path))];
    for folder in folders.into_iter().flatten() {
        if let Err(error) = remove_leftovers_in(Folder::Data, folder) {
            tracing::warn!(%error, folder = %folder.display(), "cannot remove leftovers of a crash");
        }
    }
}

/// Checkpoints the write-ahead log into the database and truncates it. Returns false if a reader
/// blocks that; the log stays.
pub(crate) async fn checkpoint_log(database: &Database) -> Result<bool, StoreError> {
    let checkpoint = |writer: &mut Writer| {
        writer.note_durably();
        let busy: i64 = one(&writer.db, &Query::new("PRAGMA wal_checkpoint(TRUNCATE)"))?;
        Ok(busy == 0)
    };
    database
        .task("checkpoint the write-ahead log", checkpoint)
        .await
}

fn failed(action: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("cannot {action} `{}`: {error}", path.display()))
}

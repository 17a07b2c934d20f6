//! The files of a data folder: which of them have to be there together, and whether they are still those that were opened.
//!
//! ```text
//! vnfm.db      vnfm.db-wal, vnfm.db-acked      secrets.key      packages/
//! ```
//! The database comes first and goes last. Without it, any of the others says that it was lost.

use crate::fault::Fault;
use crate::keys::{SecretKeys, sync_folder_of};
use crate::leftovers::{Folder, sweep};
use crate::sqlite::SqliteStore;
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
/// What SQLite and we keep beside a database while it is in use.
const COMPANIONS: [&str; 3] = ["-wal", "-shm", "-acked"];

/// Refuses a data folder whose database is missing although there was one; makes an empty database in a new folder, before
/// anything else is put there. To be called before the key file is made.
///
/// # Errors
///
/// `Broken` where the database was lost, with what speaks for it and the ways on; `Unavailable` where the folder cannot
/// be read or written.
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

/// Refuses where there is no database at `path`, or an empty file, beside what one leaves there.
pub(crate) fn refuse_lost(path: &Path) -> Result<(), StoreError> {
    if path.metadata().is_ok_and(|meta| meta.len() > 0) {
        return Ok(());
    }
    let log = wal::beside(path, "-wal");
    let has_log = log.metadata().is_ok_and(|meta| meta.len() > 0);
    let note = wal::beside(path, "-acked");
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
        "the database `{database}` is missing or empty, and `{sign}` says that there was one: VIMs, instances and \
         operations were in it; hint: nothing was changed: bring the file back with those beside it, or restore a backup \
         (`vnfm-server restore FILE`); to begin with an empty database instead, run `vnfm-server accept-loss`"
    ))
}

/// The archives of packages in a data folder.
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

/// Gives up what was lost of a data folder, so that a server starts with what is left: without a database what is left of
/// one and its packages go aside, without its write-ahead log the note of it. The key file stays. Says what went where;
/// nothing where nothing is missing.
///
/// # Errors
///
/// `Unavailable` where a server has the folder, or the disk does not take it.
pub fn accept_loss(data: &Path, at: Timestamp) -> Result<Vec<(PathBuf, PathBuf)>, StoreError> {
    let database = data.join(DATABASE);
    let _lock = process_lock::lock(&database)?;
    let aside = data.join(format!("{DATABASE}.lost-{}", at.strftime("%Y%m%dT%H%M%SZ")));
    let companions = COMPANIONS.map(|end| wal::beside(&database, end));
    let has_database = database.metadata().is_ok_and(|meta| meta.len() > 0);
    let given_up: Vec<PathBuf> = if has_database {
        if wal::check(&database).is_ok() {
            return Ok(Vec::new());
        }
        companions.into()
    } else {
        companions
            .into_iter()
            .chain([data.join(PACKAGES)])
            .collect()
    };
    let mut moved = Vec::new();
    for file in given_up.into_iter().filter(|file| file.exists()) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&aside);
        made.map_err(|error| failed("make", &aside, &error))?;
        let to = aside.join(file.file_name().unwrap_or_default());
        fs::rename(&file, &to).map_err(|error| failed("move", &file, &error))?;
        moved.push((file, to));
    }
    if !has_database {
        process_lock::create(&database)?;
    }
    sync_folder_of(&database).map_err(|error| failed("write", &database, &error))?;
    Ok(moved)
}

/// Files that are open, by the names that they had when they were opened.
#[derive(Debug)]
pub(crate) struct Places(Vec<(PathBuf, u64, u64)>);

impl Places {
    /// The folder of the database at `path`, and what SQLite has open in it.
    pub(crate) fn of(path: &Path) -> Result<Self, StoreError> {
        let folder = path
            .parent()
            .filter(|folder| !folder.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new(".")).to_owned();
        let files = ["-wal", "-shm"].map(|end| wal::beside(path, end));
        let all = [folder, path.to_owned()].into_iter().chain(files);
        let place = |file: PathBuf| match file.metadata() {
            Ok(meta) => Ok((file, meta.dev(), meta.ino())),
            Err(error) => Err(failed("look at", &file, &error)),
        };
        all.map(place).collect::<Result<_, _>>().map(Self)
    }

    /// Whether each name still leads to the file that is open.
    pub(crate) fn check(&self) -> Result<(), String> {
        for (file, device, inode) in &self.0 {
            let why = match file.metadata() {
                Ok(meta) if (meta.dev(), meta.ino()) == (*device, *inode) => continue,
                Ok(_) => "was replaced by another one".to_owned(),
                Err(error) if error.kind() == io::ErrorKind::NotFound => "was removed".to_owned(),
                Err(error) => format!("cannot be looked at: {error}"),
            };
            return Err(format!(
                "`{}`, which this server has open, {why}",
                file.display()
            ));
        }
        Ok(())
    }
}

/// Removes what killed processes left beside the database, retired keys first. What cannot be removed is no reason not to
/// start.
pub(crate) fn tidy(path: &Path, keys: &SecretKeys) {
    let folders = [keys.folder(), path.parent()];
    for folder in folders.into_iter().flatten() {
        let folder = if folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            folder
        };
        if let Err(error) = sweep(Folder::Data, folder) {
            tracing::warn!(%error, folder = %folder.display(), "cannot remove leftovers of a crash");
        }
    }
}

impl SqliteStore {
    /// Folds the write-ahead log into the database and empties it: what a server does last before it ends. What is
    /// written later is safe as before.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the disk does not take it, or somebody reads the database for long; nothing is lost, the log
    /// stays.
    pub async fn fold(&self) -> Result<(), StoreError> {
        if self.is_folded().await? {
            return Ok(());
        }
        let why = "cannot checkpoint the write-ahead log: the database is being read";
        Err(StoreError::Unavailable(why.to_owned()))
    }

    /// The same; false where somebody reads the database, and the log stays.
    pub(crate) async fn is_folded(&self) -> Result<bool, StoreError> {
        const FOLD: &str = "PRAGMA wal_checkpoint(TRUNCATE)";
        if let Some(file) = &self.file {
            file.integrity.stop();
        }
        let mut writer = self.writer().await;
        self.writer.note_for_good();
        let folded = sqlx::query_as::<_, (i64, i64, i64)>(FOLD)
            .fetch_one(&mut *writer)
            .await;
        let folded = folded.map(|(busy, ..)| busy == 0).map_err(Fault::from);
        self.ended(&mut writer, folded, "checkpoint the write-ahead log")
            .await
    }

    /// Whether the database and its folder are still where they were opened; one in memory always is.
    ///
    /// # Errors
    ///
    /// Which of them was removed or replaced: what is written from now on is lost when this process ends.
    pub fn in_place(&self) -> Result<(), String> {
        self.file
            .as_ref()
            .map_or(Ok(()), |file| file.places.check())
    }

    /// Whether the database is whole, as far as its check at the start has come.
    ///
    /// # Errors
    ///
    /// What is damaged.
    pub fn integrity(&self) -> Result<(), String> {
        self.file
            .as_ref()
            .map_or(Ok(()), |file| file.integrity.result())
    }
}

fn failed(doing: &str, path: &Path, error: &io::Error) -> StoreError {
    StoreError::Unavailable(format!("cannot {doing} `{}`: {error}", path.display()))
}

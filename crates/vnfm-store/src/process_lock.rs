//! Only one process may open a database. Two OS locks enforce it: one on a lock file next to the database, which names
//! the process, and one on the database file itself, so that removing the lock file does not help. The kernel releases
//! both when the process dies, however it dies.

use crate::wal;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use vnfm_core::ports::StoreError;

/// Both locks, held until this value is dropped.
#[derive(Debug)]
pub(crate) struct Lock {
    _beside: File,
    _database: Option<LockedDatabase>,
}

/// A database file that this process has locked.
#[derive(Debug)]
struct LockedDatabase {
    /// Never read: SQLite has it open as well.
    _file: File,
    inode: Inode,
}

/// Device and inode number, which identify a file under all its names.
type Inode = (u64, u64);

/// The databases that this process has open. Closing any handle of a file drops all POSIX locks of the process on it, so
/// a file that SQLite has open must not be opened and closed to test its lock.
static HERE: Mutex<BTreeSet<Inode>> = Mutex::new(BTreeSet::new());

fn open_databases() -> MutexGuard<'static, BTreeSet<Inode>> {
    HERE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Drop for LockedDatabase {
    fn drop(&mut self) {
        open_databases().remove(&self.inode);
    }
}

/// Locks the lock file and writes the process into it, then locks the database itself, if it exists.
pub(crate) fn lock(path: &Path) -> Result<Lock, StoreError> {
    let lock_file = wal::companion(path, ".lock");
    let failed = |action: &str, reason: String| {
        StoreError::Unavailable(format!(
            "cannot {action} `{}`: {reason}",
            lock_file.display()
        ))
    };
    let mut file = opened(&lock_file).map_err(|e| {
        failed(
            "open",
            format!("{e}; hint: its folder must exist and be writable"),
        )
    })?;
    match file.try_lock() {
        Ok(()) => {
            let database = lock_database(path)?;
            let written = file
                .set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| write!(file, "{}", std::process::id()));
            written.map_err(|e| failed("write", e.to_string()))?;
            Ok(Lock {
                _beside: file,
                _database: database,
            })
        }
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let owner = match file.read_to_string(&mut owner) {
                Ok(_) if !owner.is_empty() => format!("the process {owner}"),
                _ => "another process".to_owned(),
            };
            Err(is_open(path, &owner))
        }
        Err(TryLockError::Error(error)) => Err(failed("lock", error.to_string())),
    }
}

/// Locks the database file, if there is one.
fn lock_database(path: &Path) -> Result<Option<LockedDatabase>, StoreError> {
    let failed = |error: io::Error| {
        StoreError::Unavailable(format!("cannot lock `{}`: {error}", path.display()))
    };
    let inode = match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed(error)),
        Ok(meta) => (meta.dev(), meta.ino()),
    };
    let mut open_databases = open_databases();
    if open_databases.contains(&inode) {
        return Err(is_open(path, "this process"));
    }
    let file = File::open(path).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => {
            open_databases.insert(inode);
            Ok(Some(LockedDatabase { _file: file, inode }))
        }
        Err(TryLockError::WouldBlock) => Err(is_open(path, "another process")),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

fn is_open(path: &Path, owner: &str) -> StoreError {
    StoreError::Unavailable(format!(
        "cannot open the database `{}`: {owner} has it open; hint: stop that process, or use another data folder",
        path.display()
    ))
}

/// Creates an empty file that only its owner can read, unless it exists; SQLite gives its other files the same mode.
pub(crate) fn create(path: &Path) -> Result<(), StoreError> {
    let created = match OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)
    {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        created => created.map(drop),
    };
    created.map_err(|error| {
        StoreError::Unavailable(format!(
            "cannot open the database `{}`: {error}; hint: its folder must exist and be writable",
            path.display()
        ))
    })
}

/// Opens the file, or creates one that only its owner can read.
fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
}

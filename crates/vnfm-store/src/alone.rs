//! One process has a database: an OS lock beside the file keeps a second one out, and the kernel gives it back when a
//! process dies, however it dies.

use crate::wal;
use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use vnfm_core::ports::StoreError;

/// Takes the lock beside the database, and writes into it who has it.
pub(crate) fn lock(path: &Path) -> Result<File, StoreError> {
    let beside = wal::beside(path, ".lock");
    let failed = |what: &str, why: String| {
        StoreError::Unavailable(format!("cannot {what} `{}`: {why}", beside.display()))
    };
    let mut file = opened(&beside).map_err(|e| {
        failed("open", format!("{e}; hint: its folder has to be there and writable"))
    })?;
    match file.try_lock() {
        Ok(()) => {
            let told = file
                .set_len(0)
                .and_then(|()| file.rewind())
                .and_then(|()| write!(file, "{}", std::process::id()));
            told.map_err(|e| failed("write", e.to_string()))?;
            Ok(file)
        }
        Err(TryLockError::WouldBlock) => {
            let mut owner = String::new();
            let owner = match file.read_to_string(&mut owner) {
                Ok(_) if !owner.is_empty() => format!("the process {owner}"),
                _ => "another process".to_owned(),
            };
            Err(StoreError::Unavailable(format!(
                "cannot open the database `{}`: {owner} has it open; hint: stop that one, or give this one another \
                 data folder",
                path.display()
            )))
        }
        Err(TryLockError::Error(error)) => Err(failed("lock", error.to_string())),
    }
}

/// Makes an empty file that only its owner can read; SQLite gives its companions the same mode.
pub(crate) fn create(path: &Path) -> Result<(), StoreError> {
    opened(path).map(drop).map_err(|error| {
        StoreError::Unavailable(format!("cannot open the database `{}`: {error}", path.display()))
    })
}

/// The file as it is, or a new one that only its owner can read.
fn opened(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

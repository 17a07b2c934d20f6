//! The folder of one run, of this user alone, and the removal of those that killed processes left.
//!
//! A folder is locked as long as its process lives; the kernel unlocks it when the process is killed. So a folder that can be
//! locked is abandoned, unless another process has only just created it. The first run of a process deletes them.

use rustix::fs::{FlockOperation, flock};
use rustix::process::getuid;
use std::fs::{self, DirEntry, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Once;
use std::time::Duration;
use tempfile::TempDir;

const PREFIX: &str = "vnfm-helm-";

/// Entries of the temporary folder that are looked at, at most.
const LOOKED_AT: usize = 10_000;

/// Time that a process needs at most between creating a folder and locking it.
const CREATION: Duration = Duration::from_mins(1);

static ABANDONED: Once = Once::new();

/// A locked folder, deleted when dropped.
pub(crate) struct RunFolder {
    folder: TempDir,
    _lock: File,
}

impl RunFolder {
    /// # Errors
    ///
    /// There is no space for it.
    pub(crate) fn new() -> io::Result<Self> {
        let parent = std::env::temp_dir();
        ABANDONED.call_once(|| delete_abandoned(&parent));
        Self::within(&parent)
    }

    fn within(parent: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(parent)?;
        let lock = File::open(folder.path())?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)?;
        Ok(Self {
            folder,
            _lock: lock,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Deletes what it can; the next process tries the rest again.
fn delete_abandoned(parent: &Path) {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    for entry in entries.take(LOOKED_AT) {
        let is_ours = entry.file_name().to_string_lossy().starts_with(PREFIX);
        if is_ours && is_abandoned(&entry).unwrap_or(false) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn is_abandoned(entry: &DirEntry) -> io::Result<bool> {
    let metadata = entry.metadata()?;
    let age = metadata.modified()?.elapsed().unwrap_or_default();
    if !metadata.is_dir() || metadata.uid() != getuid().as_raw() || age < CREATION {
        return Ok(false);
    }
    let lock = File::open(entry.path())?;
    Ok(flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_deleted_once_no_process_has_it() {
        let parent = tempfile::tempdir().unwrap();
        let running = RunFolder::within(parent.path()).unwrap();
        let new = parent.path().join("vnfm-helm-new");
        fs::create_dir(&new).unwrap();
        let left = parent.path().join("vnfm-helm-left");
        let foreign = parent.path().join("other-left");
        let link = parent.path().join("vnfm-helm-link");
        fs::create_dir(&left).unwrap();
        fs::write(left.join("render.sh"), "exit").unwrap();
        fs::create_dir(&foreign).unwrap();
        std::os::unix::fs::symlink(&foreign, &link).unwrap();
        for old in [left.as_path(), &foreign, running.path()] {
            let created = fs::metadata(old).unwrap().modified().unwrap();
            let before = created - CREATION;
            File::open(old).unwrap().set_modified(before).unwrap();
        }

        delete_abandoned(parent.path());

        assert!(!left.exists(), "nobody uses it");
        assert!(running.path().exists(), "a run uses it");
        assert!(new.exists(), "a run may be about to lock it");
        assert!(foreign.exists() && link.exists(), "they are not ours");
        let path = running.path().to_owned();
        drop(running);
        assert!(!path.exists(), "the run is over");
    }
}

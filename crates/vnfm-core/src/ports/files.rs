//! Files that are stored with an instance, outside its hosts: hooks copy them there from a host, and back.
//!
//! | rule | mandatory |
//! |---|---|
//! | a file appears under its name complete and durable, or not at all | yes |
//! | what is written to [`InstanceFiles::begin`]'s path and not completed is removed, at the latest at the next start | yes |
//! | a file that does not fit is refused before it is written, and leaves the others as they are | yes |

use super::{Code, ErrorKind, PortError};
use async_trait::async_trait;
use std::path::PathBuf;
use vnfm_types::StoredFile;

/// Upper bound of the size of one file, in bytes: etcd's own limit is 8 GiB.
pub const MAX_FILE_BYTES: u64 = 16 * 1024 * 1024 * 1024;
/// Upper bound of the length of a name.
const MAX_NAME_CHARS: usize = 128;

/// Stores files by instance and name.
#[async_trait]
pub trait InstanceFiles: Send + Sync {
    /// The files of an instance, ordered by name.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk cannot be read.
    async fn list(&self, instance_id: &str) -> Result<Vec<StoredFile>, PortError>;

    /// The ids of the instances that have files.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk cannot be read.
    async fn instances(&self) -> Result<Vec<String>, PortError>;

    /// A local path at which the caller writes a file of `bytes` bytes, before [`InstanceFiles::complete`]. Readable by this
    /// process alone.
    ///
    /// # Errors
    ///
    /// `Refused` if the name is not usable, or there are too many files; `Unavailable` if the disk has no room for it.
    async fn begin(&self, instance_id: &str, name: &str, bytes: u64) -> Result<PathBuf, PortError>;

    /// Stores what was written at `written` under its name, and replaces a file of that name. If `sha256` is given and is not
    /// that of the content, removes it instead.
    ///
    /// # Errors
    ///
    /// `Refused` if the content is another; `Unavailable` if the disk cannot be written.
    async fn complete(
        &self,
        instance_id: &str,
        name: &str,
        (written, sha256): (PathBuf, Option<&str>),
    ) -> Result<StoredFile, PortError>;

    /// Removes what was written at `written`, which will not be completed; succeeds if it does not exist.
    async fn discard(&self, written: PathBuf);

    /// A file and its local path; its content still has the SHA-256 with which it was stored.
    ///
    /// # Errors
    ///
    /// `Refused` if there is no such file, or its content has changed on the disk.
    async fn open(&self, instance_id: &str, name: &str)
    -> Result<(StoredFile, PathBuf), PortError>;

    /// Deletes a file; succeeds if it does not exist.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk cannot be written.
    async fn remove(&self, instance_id: &str, name: &str) -> Result<(), PortError>;

    /// Removes all files of an instance; succeeds if there are none.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk cannot be written.
    async fn remove_all(&self, instance_id: &str) -> Result<(), PortError>;
}

/// Whether a file can have this name: letters, digits, `-`, `_` and `.`, not first.
///
/// ```
/// use vnfm_core::ports::is_file_name;
///
/// assert!(is_file_name("0123456789ab-20261128T120000Z.db.enc"));
/// assert!(!is_file_name("../etc/passwd") && !is_file_name(".hidden") && !is_file_name(""));
/// ```
pub fn is_file_name(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    (1..=MAX_NAME_CHARS).contains(&name.len()) && !name.starts_with('.') && name.chars().all(plain)
}

/// Without a place for files: hooks that store one are refused.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoInstanceFiles;

impl NoInstanceFiles {
    fn refuse<T>(action: String) -> Result<T, PortError> {
        let what = "this engine was built without a place for files";
        Err(PortError::new(&NO_FILES, action, what))
    }
}

#[async_trait]
impl InstanceFiles for NoInstanceFiles {
    async fn list(&self, _: &str) -> Result<Vec<StoredFile>, PortError> {
        Self::refuse("list the files of an instance".to_owned())
    }
    async fn instances(&self) -> Result<Vec<String>, PortError> {
        Ok(Vec::new())
    }
    async fn begin(&self, _: &str, name: &str, _: u64) -> Result<PathBuf, PortError> {
        Self::refuse(format!("store `{name}`"))
    }
    async fn complete(
        &self,
        _: &str,
        name: &str,
        _: (PathBuf, Option<&str>),
    ) -> Result<StoredFile, PortError> {
        Self::refuse(format!("store `{name}`"))
    }
    async fn discard(&self, _: PathBuf) {}
    async fn open(&self, _: &str, name: &str) -> Result<(StoredFile, PathBuf), PortError> {
        Self::refuse(format!("read `{name}`"))
    }
    async fn remove(&self, _: &str, name: &str) -> Result<(), PortError> {
        Self::refuse(format!("delete `{name}`"))
    }
    async fn remove_all(&self, _: &str) -> Result<(), PortError> {
        Ok(())
    }
}

pub(crate) const NO_FILES: Code = Code {
    name: "file.no-store",
    kind: ErrorKind::Refused,
    means: "a hook stores a file with its instance, which this program does not offer",
    next: "give the engine a folder for files (`Engine::with_files`)",
};

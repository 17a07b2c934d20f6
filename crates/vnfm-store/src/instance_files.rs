//! Files that are stored with instances: `<folder>/<instance id>/<name>`, each with its size, SHA-256 and time in
//! `<name>.stored`.
//!
//! A file is written under a temporary name and renamed in one step, after it and its description are durable. Leftovers of a
//! crash are removed when the folder is opened. The disk keeps a reserve: a file that would use it up is refused before it is
//! written. A backup reads each file with the description that belongs to it ([`FileDir::opened`]).

use crate::hashing::hash_of;
use crate::packages::private_folder;
use crate::secret_keys::sync_folder_of;
use async_trait::async_trait;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::task::spawn_blocking;
use uuid::Uuid;
use vnfm_core::ports::{Clock, Code, ErrorKind, InstanceFiles, PortError, is_file_name};
use vnfm_types::StoredFile;

const INCOMING: &str = ".incoming-";
pub(crate) const DESCRIPTION: &str = ".stored";
/// Upper bound of what is read of a description, which has some hundred bytes.
const MAX_DESCRIPTION_BYTES: u64 = 64 * 1024;
/// Upper bound of the number of files of an instance.
const MAX_FILES: usize = 1_000;

const UNREADABLE: Code = Code {
    name: "file.unreadable",
    kind: ErrorKind::Unavailable,
    means: "the folder of stored files cannot be read or written",
    next: "check free space, and the owner of the folder `files` in the data folder, then retry",
};
const NO_SPACE: Code = Code {
    name: "file.no-space",
    kind: ErrorKind::Unavailable,
    means: "the disk has no room for a file that is to be stored",
    next: "free space in the data folder, or keep fewer files, then retry; the stored files are as they were",
};
const ABSENT: Code = Code {
    name: "file.absent",
    kind: ErrorKind::Refused,
    means: "the VNFM has stored no file of this name with the instance",
    next: "use a name that is listed; for snapshots of etcd: `vnfmctl cluster backups`",
};
const BAD_NAME: Code = Code {
    name: "file.bad-name",
    kind: ErrorKind::Refused,
    means: "a file cannot be stored under this name, or there are too many files",
    next: "use letters, digits, `-`, `_` and `.`; remove files that are not needed",
};
const ALTERED: Code = Code {
    name: "file.altered",
    kind: ErrorKind::Refused,
    means: "a file was truncated or changed",
    next: "use another file, or a copy of this one that is intact",
};

/// All error codes of stored files, for `docs/errors.md`.
pub const CODES: &[&Code] = &[&UNREADABLE, &NO_SPACE, &ABSENT, &BAD_NAME, &ALTERED];

/// A folder of files by instance.
pub struct FileDir {
    folder: PathBuf,
    clock: Arc<dyn Clock>,
    /// Free bytes that stay.
    reserve: u64,
    /// Held while a file and its description are renamed, or opened together.
    renaming: Arc<Mutex<()>>,
}

impl FileDir {
    /// Opens the folder at `folder`, creating it if necessary, and removes what a crash has left. `reserve` bytes of the disk
    /// stay free.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the folder cannot be created or read.
    pub fn open(folder: &Path, clock: Arc<dyn Clock>, reserve: u64) -> Result<Self, PortError> {
        let opened = private_folder(folder).and_then(|()| remove_incoming(folder));
        opened.map_err(|error| unreadable("open", folder, &error))?;
        Ok(Self {
            folder: folder.to_owned(),
            clock,
            reserve,
            renaming: Arc::default(),
        })
    }

    /// The files of an instance, each with its content as it is described. Those that are removed meanwhile are left out.
    pub(crate) fn opened(
        &self,
        instance_id: &str,
    ) -> io::Result<impl Iterator<Item = io::Result<(StoredFile, File)>>> {
        let folder = self.folder.join(instance_id);
        let files = listed(&folder)?.into_iter();
        Ok(files.filter_map(move |file| {
            let path = folder.join(&file.name);
            let _renaming = self.renaming.lock().unwrap_or_else(PoisonError::into_inner);
            let described = described(&with_end(&path, DESCRIPTION)).transpose()?;
            let opened = present(File::open(&path)).transpose()?;
            Some(described.and_then(|described| Ok((described, opened?))))
        }))
    }

    /// The ids of the instances that have files.
    pub(crate) fn instance_ids(&self) -> io::Result<Vec<String>> {
        instance_ids(&self.folder)
    }

    /// Bytes of all files of these instances.
    pub(crate) fn bytes_of(&self, instance_ids: &[String]) -> io::Result<u64> {
        let of_one = |id: &String| {
            let files = listed(&self.folder.join(id))?;
            Ok(files.iter().map(|file| file.bytes).sum::<u64>())
        };
        instance_ids.iter().map(of_one).sum()
    }

    /// Whether the disk of `folder` has room for `bytes` bytes and the reserve; if not, says how much it has.
    pub(crate) fn check_room(&self, folder: &Path, bytes: u64) -> io::Result<Result<(), String>> {
        room(folder, bytes, self.reserve)
    }

    fn folder_of(&self, instance_id: &str) -> Result<PathBuf, PortError> {
        if !is_file_name(instance_id) {
            return Err(PortError::new(
                &BAD_NAME,
                "find the files of an instance",
                format!("`{instance_id}` is not an id"),
            ));
        }
        Ok(self.folder.join(instance_id))
    }

    /// The paths of a file and of its description.
    fn paths(&self, instance_id: &str, name: &str) -> Result<[PathBuf; 2], PortError> {
        if !is_file_name(name) || name.ends_with(DESCRIPTION) {
            let what = format!("`{name}` cannot be the name of a stored file");
            return Err(PortError::new(&BAD_NAME, "find a stored file", what));
        }
        let path = self.folder_of(instance_id)?.join(name);
        let description = with_end(&path, DESCRIPTION);
        Ok([path, description])
    }
}

#[async_trait]
impl InstanceFiles for FileDir {
    async fn list(&self, instance_id: &str) -> Result<Vec<StoredFile>, PortError> {
        let folder = self.folder_of(instance_id)?;
        blocking(&folder.clone(), move || listed(&folder)).await
    }

    async fn instances(&self) -> Result<Vec<String>, PortError> {
        let folder = self.folder.clone();
        blocking(&self.folder, move || instance_ids(&folder)).await
    }

    async fn begin(&self, instance_id: &str, name: &str, bytes: u64) -> Result<PathBuf, PortError> {
        let [path, _] = self.paths(instance_id, name)?;
        let folder = self.folder_of(instance_id)?;
        let files = self.list(instance_id).await?;
        if files.len() >= MAX_FILES && files.iter().all(|file| file.name != name) {
            let what = format!("the instance has {MAX_FILES} stored files");
            return Err(PortError::new(&BAD_NAME, format!("store `{name}`"), what));
        }
        let to = folder.join(format!("{INCOMING}{}", Uuid::new_v4()));
        let (reserve, created) = (self.reserve, to.clone());
        let room = blocking(&path, move || {
            private_folder(&folder)?;
            let room = room(&folder, bytes, reserve)?;
            if room.is_ok() {
                private_file(&created)?;
            }
            Ok(room)
        })
        .await?;
        room.map_err(|free| {
            let what = format!("the file has {bytes} bytes; {free}");
            PortError::new(&NO_SPACE, format!("store `{name}`"), what)
        })?;
        Ok(to)
    }

    async fn complete(
        &self,
        instance_id: &str,
        name: &str,
        (written, sha256): (PathBuf, Option<&str>),
    ) -> Result<StoredFile, PortError> {
        let [path, description] = self.paths(instance_id, name)?;
        let hashed = written.clone();
        let (hash, bytes) = blocking(&path, move || {
            let file = File::open(&hashed)?;
            file.sync_all()?;
            Ok((hash_of(&hashed)?, file.metadata()?.len()))
        })
        .await?;
        if let Some(expected) = sha256.filter(|expected| *expected != hash) {
            self.discard(written).await;
            let what = format!("its SHA-256 is {hash} and should be {expected}");
            return Err(PortError::new(&ALTERED, format!("store `{name}`"), what));
        }
        let stored = StoredFile {
            name: name.to_owned(),
            bytes,
            sha256: hash,
            stored_at: self.clock.now(),
        };
        let (described, renaming) = (stored.clone(), self.renaming.clone());
        blocking(&path.clone(), move || {
            let new = with_end(&written, DESCRIPTION);
            write_description(&new, &described)?;
            let _renaming = renaming.lock().unwrap_or_else(PoisonError::into_inner);
            // A file without its description does not exist.
            fs::rename(&written, &path)?;
            fs::rename(&new, &description)?;
            sync_folder_of(&path)
        })
        .await?;
        Ok(stored)
    }

    async fn discard(&self, written: PathBuf) {
        for file in [with_end(&written, DESCRIPTION), written] {
            if let Err(error) = present(fs::remove_file(&file)) {
                tracing::warn!(file = %file.display(), %error, "the next start removes a partial file");
            }
        }
    }

    async fn open(
        &self,
        instance_id: &str,
        name: &str,
    ) -> Result<(StoredFile, PathBuf), PortError> {
        let [path, _] = self.paths(instance_id, name)?;
        let mut files = self.list(instance_id).await?;
        let action = || format!("read `{name}`");
        let Some(at) = files.iter().position(|file| file.name == name) else {
            let what = format!("instance `{instance_id}` has no stored file `{name}`");
            return Err(PortError::new(&ABSENT, action(), what));
        };
        let stored = files.swap_remove(at);
        let hashed = path.clone();
        let hash = blocking(&path, move || hash_of(&hashed)).await?;
        if hash != stored.sha256 {
            let what = format!(
                "its SHA-256 is {hash}, and was {} when it was stored",
                stored.sha256
            );
            return Err(PortError::new(&ALTERED, action(), what));
        }
        Ok((stored, path))
    }

    async fn remove(&self, instance_id: &str, name: &str) -> Result<(), PortError> {
        let paths = self.paths(instance_id, name)?;
        let at = paths[0].clone();
        blocking(&at, move || {
            // The description first: a file without it does not exist.
            for path in paths.iter().rev() {
                present(fs::remove_file(path))?;
            }
            Ok(())
        })
        .await
    }

    async fn remove_all(&self, instance_id: &str) -> Result<(), PortError> {
        let folder = self.folder_of(instance_id)?;
        blocking(&folder.clone(), move || {
            present(fs::remove_dir_all(folder)).map(drop)
        })
        .await
    }
}

/// The files of a folder that have a description, ordered by name.
fn listed(folder: &Path) -> io::Result<Vec<StoredFile>> {
    let mut files = Vec::new();
    for entry in present(fs::read_dir(folder))?.into_iter().flatten() {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let Some(name) = name.strip_suffix(DESCRIPTION) else {
            continue;
        };
        if name.starts_with(INCOMING) || !path.with_file_name(name).is_file() {
            continue;
        }
        files.extend(described(&path)?);
    }
    files.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(files)
}

/// What a description says; `None` if it does not exist or is damaged.
fn described(path: &Path) -> io::Result<Option<StoredFile>> {
    let Some(description) = present(File::open(path))? else {
        return Ok(None);
    };
    let mut text = Vec::new();
    description
        .take(MAX_DESCRIPTION_BYTES)
        .read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text).ok())
}

/// Writes the description of a file durably.
pub(crate) fn write_description(path: &Path, stored: &StoredFile) -> io::Result<()> {
    let mut file = private_file(path)?;
    file.write_all(&serde_json::to_vec(stored)?)?;
    file.sync_all()
}

/// The folders of instances.
fn instance_ids(folder: &Path) -> io::Result<Vec<String>> {
    let mut ids = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            ids.extend(entry.file_name().into_string());
        }
    }
    Ok(ids)
}

/// Whether the disk of a folder has room for `bytes` bytes besides `reserve`; if not, says how much it has.
fn room(folder: &Path, bytes: u64, reserve: u64) -> io::Result<Result<(), String>> {
    let disk = rustix::fs::statvfs(folder)?;
    let free = disk.f_bavail.saturating_mul(disk.f_frsize);
    if free >= bytes.saturating_add(reserve) {
        return Ok(Ok(()));
    }
    let folder = folder.display();
    Ok(Err(format!(
        "the disk of `{folder}` has {free} free, of which {reserve} stay free"
    )))
}

/// Removes the temporary files of all instances.
fn remove_incoming(folder: &Path) -> io::Result<()> {
    for id in instance_ids(folder)? {
        for file in fs::read_dir(folder.join(id))? {
            let file = file?;
            if file.file_name().to_string_lossy().starts_with(INCOMING) {
                fs::remove_file(file.path())?;
            }
        }
    }
    Ok(())
}

/// `None` if the file or folder does not exist.
fn present<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        other => other.map(Some),
    }
}

/// Creates an empty file that only this user can read.
fn private_file(path: &Path) -> io::Result<File> {
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = File::options();
    options.write(true).create_new(true).mode(0o600);
    options.open(path)
}

pub(crate) fn with_end(path: &Path, end: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(end);
    name.into()
}

/// Runs `work` on a thread for blocking calls.
async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, PortError> {
    let done = spawn_blocking(work).await;
    let done = done.unwrap_or_else(|panicked| Err(io::Error::other(panicked.to_string())));
    done.map_err(|error| unreadable("use", path, &error))
}

fn unreadable(action: &str, path: &Path, error: &io::Error) -> PortError {
    let code = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => &NO_SPACE,
        _ => &UNREADABLE,
    };
    PortError::new(
        code,
        format!("{action} `{}`", path.display()),
        error.to_string(),
    )
}

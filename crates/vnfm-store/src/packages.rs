//! The packages' files: `<folder>/<vnf_pkg_id>.csar`, read and checked once, then kept in memory. Beside it lie the
//! external artifacts that were fetched for it: `<vnf_pkg_id>.<algorithm>-<hash>.artifact`.
//!
//! An archive has a second name by its hash, `<sha256>.kept`, as long as it is some package's: what is wanted again, by
//! another tenant for instance, is found by it and not fetched once more ([`PackageDir::copy_of`]). Both names are of one
//! file, so it takes its room once.
//!
//! An upload comes in under a name of its own ([`PackageDir::incoming`]) and gets the package's name in one step,
//! so no half file is ever read; what a crash left of an upload is swept away when the folder is opened. Ids are
//! made by us and the same for no two tenants: whose a package is, its record says.

use crate::backup::hash_of;
use crate::keys::sync_folder_of;
use crate::leftovers::{Folder, sweep};
use async_trait::async_trait;
use std::collections::HashMap;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use uuid::Uuid;
use vnfm_core::ports::{Code, ErrorKind, Packages, PortError};
use vnfm_descriptor::{External, Findings, Limits, Package};

const INCOMING: &str = ".incoming-";
const ARTIFACT: &str = ".artifact";
const KEPT: &str = ".kept";
const ARRIVING: &str = ".arriving";

const ABSENT: Code = Code {
    name: "package.absent",
    kind: ErrorKind::Refused,
    means: "the VNF package is not onboarded",
    next: "onboard the package, then try again",
};
const UNREADABLE: Code = Code {
    name: "package.unreadable",
    kind: ErrorKind::Unavailable,
    means: "the file of a VNF package cannot be read or written",
    next: "look at the disk and at the owner of the folder `packages`",
};
const DAMAGED: Code = Code {
    name: "package.damaged",
    kind: ErrorKind::Broken,
    means: "the file of an onboarded VNF package is no longer what was onboarded",
    next: "restore the file from a backup, or onboard the package anew",
};

/// All error codes of package files, for `docs/errors.md`.
pub const CODES: &[&Code] = &[&ABSENT, &UNREADABLE, &DAMAGED];

/// Why an upload did not become a package.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackageFailure {
    /// What is wrong with the package.
    #[error("the package is refused:\n{0}")]
    Refused(Findings),
    /// It cannot be kept.
    #[error(transparent)]
    Kept(#[from] PortError),
}

/// A folder of packages.
#[derive(Debug)]
pub struct PackageDir {
    folder: PathBuf,
    limits: Limits,
    known: Mutex<HashMap<String, Arc<OnceCell<Arc<Package>>>>>,
}

impl PackageDir {
    /// The folder at `folder`, made where there is none; nothing beyond `limits` is read from a package.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the folder cannot be made or read.
    pub fn open(folder: &Path, limits: Limits) -> Result<Self, PortError> {
        let opened = private_folder(folder).and_then(|()| tidy(folder));
        opened.map_err(|error| unreadable("open the folder", folder, &error))?;
        Ok(Self {
            folder: folder.to_owned(),
            limits,
            known: Mutex::default(),
        })
    }

    /// Where an upload may be written before [`PackageDir::store`]: a new name each time, on the same disk.
    pub fn incoming(&self) -> PathBuf {
        self.folder.join(format!("{INCOMING}{}", Uuid::new_v4()))
    }

    /// Where a package may arrive over several lives of the process, before [`PackageDir::store`]; what is known of it may
    /// be noted in a file whose name goes on after this one's.
    ///
    /// # Errors
    ///
    /// `Refused` where `vnf_pkg_id` is no id of ours.
    pub fn arriving(&self, vnf_pkg_id: &str) -> Result<PathBuf, PortError> {
        Ok(self.path(vnf_pkg_id)?.with_extension(&ARRIVING[1..]))
    }

    /// Removes what has arrived of packages other than these: of one that was deleted meanwhile nobody else knows.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the folder cannot be read, or a file not removed.
    pub fn forget_arrived(&self, but: &[&str]) -> Result<(), PortError> {
        let is_over = |name: &str| {
            name.split_once(ARRIVING)
                .is_some_and(|(vnf_pkg_id, _)| !but.contains(&vnf_pkg_id))
        };
        let removed = remove_from(&self.folder, is_over);
        removed.map_err(|error| unreadable("tidy the folder", &self.folder, &error))
    }

    /// What is read of a package at most.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Where the archive of a package is.
    ///
    /// # Errors
    ///
    /// `Refused` where `vnf_pkg_id` is no id of ours.
    pub fn path(&self, vnf_pkg_id: &str) -> Result<PathBuf, PortError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if vnf_pkg_id.is_empty() || !vnf_pkg_id.chars().all(plain) {
            return Err(absent(vnf_pkg_id));
        }
        Ok(self.folder.join(format!("{vnf_pkg_id}.csar")))
    }

    /// Where an external artifact of a package is kept.
    ///
    /// # Errors
    ///
    /// `Refused` where `vnf_pkg_id` is no id of ours.
    pub fn external(&self, vnf_pkg_id: &str, external: &External) -> Result<PathBuf, PortError> {
        Ok(beside(&self.path(vnf_pkg_id)?, external))
    }

    /// All files of a package: its archive first, then its external artifacts.
    ///
    /// # Errors
    ///
    /// `Refused` where `vnf_pkg_id` is no id of ours; `Unavailable` where the folder cannot be read.
    pub fn files(&self, vnf_pkg_id: &str) -> Result<Vec<PathBuf>, PortError> {
        let mut files = vec![self.path(vnf_pkg_id)?];
        files.extend(self.beside(vnf_pkg_id, |name| name.ends_with(ARTIFACT))?);
        Ok(files)
    }

    /// Files that have a package's name, and more of it that is `meant`.
    fn beside(
        &self,
        vnf_pkg_id: &str,
        meant: impl Fn(&str) -> bool,
    ) -> Result<Vec<PathBuf>, PortError> {
        let unread = |error: io::Error| unreadable("read the folder", &self.folder, &error);
        let (begins, mut files) = (format!("{vnf_pkg_id}."), Vec::new());
        for entry in fs::read_dir(&self.folder).map_err(unread)? {
            let entry = entry.map_err(unread)?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with(&begins) && meant(&name) {
                files.push(entry.path());
            }
        }
        Ok(files)
    }

    /// Takes the file at `upload` as the archive of `vnf_pkg_id`, if nothing is wrong with it. The upload is gone
    /// afterwards, either way.
    ///
    /// # Errors
    ///
    /// What is wrong with the package; `Unavailable` where it cannot be kept.
    pub async fn store(
        &self,
        vnf_pkg_id: &str,
        upload: PathBuf,
    ) -> Result<Arc<Package>, PackageFailure> {
        self.store_as(vnf_pkg_id, upload, None).await
    }

    /// The same where who wrote the file has its SHA-256, in hexadecimal: it is read once instead of twice.
    ///
    /// # Errors
    ///
    /// As [`PackageDir::store`].
    pub async fn store_hashed(
        &self,
        vnf_pkg_id: &str,
        upload: PathBuf,
        sha256: String,
    ) -> Result<Arc<Package>, PackageFailure> {
        self.store_as(vnf_pkg_id, upload, Some(sha256)).await
    }

    async fn store_as(
        &self,
        vnf_pkg_id: &str,
        upload: PathBuf,
        sha256: Option<String>,
    ) -> Result<Arc<Package>, PackageFailure> {
        let path = self.path(vnf_pkg_id)?;
        let limits = self.limits;
        let keeping = {
            let path = path.clone();
            move || keep((&upload, sha256), &path, &limits)
        };
        let package = Arc::new(blocking(&path, keeping).await??);
        self.known().insert(
            vnf_pkg_id.to_owned(),
            Arc::new(OnceCell::from(package.clone())),
        );
        Ok(package)
    }

    /// An archive that some package has, by its SHA-256 in hexadecimal: under a new name of [`PackageDir::incoming`].
    /// `None` where none has it, or the disk knows no second names.
    pub async fn copy_of(&self, sha256: &str) -> Option<PathBuf> {
        let is_hash = sha256.len() == 64 && sha256.bytes().all(|byte| byte.is_ascii_hexdigit());
        let kept = self
            .folder
            .join(format!("{}{KEPT}", sha256.to_ascii_lowercase()));
        let to = self.incoming();
        if !is_hash {
            return None;
        }
        let wanted = sha256.to_ascii_lowercase();
        let naming = spawn_blocking(move || {
            fs::hard_link(&kept, &to).ok()?;
            // What somebody changed on the disk is not what is wanted.
            if hash_of(&to).is_ok_and(|hash| hash == wanted) {
                return Some(to);
            }
            let _ = fs::remove_file(&to); // swept away at the next start
            None
        });
        naming.await.ok().flatten()
    }

    /// The same for a folder, which is packed, or an archive that stays where it is.
    ///
    /// # Errors
    ///
    /// As [`PackageDir::store`].
    pub async fn take(
        &self,
        vnf_pkg_id: &str,
        source: &Path,
    ) -> Result<Arc<Package>, PackageFailure> {
        let (upload, limits) = (self.incoming(), self.limits);
        let (from, to) = (source.to_owned(), upload.clone());
        blocking(source, move || -> Result<(), PackageFailure> {
            let unwritten = |error: io::Error| unreadable("write the package", &to, &error);
            if from.is_dir() {
                let mut file = io::BufWriter::new(File::create(&to).map_err(unwritten)?);
                vnfm_descriptor::pack_to(&from, &limits, &mut file)
                    .map_err(PackageFailure::Refused)?;
                return Ok(io::Write::flush(&mut file).map_err(unwritten)?);
            }
            let copied = fs::copy(&from, &to).map(drop);
            Ok(copied.map_err(|error| unreadable("read the package", &from, &error))?)
        })
        .await??;
        self.store(vnf_pkg_id, upload).await
    }

    /// Removes the archive of a package, and what has arrived of one; that there is none is a success.
    ///
    /// # Errors
    ///
    /// `Unavailable` where the file cannot be removed.
    pub async fn remove(&self, vnf_pkg_id: &str) -> Result<(), PortError> {
        let path = self.path(vnf_pkg_id)?;
        self.known().remove(vnf_pkg_id);
        let (mut files, folder) = (self.files(vnf_pkg_id)?, self.folder.clone());
        files.extend(self.beside(vnf_pkg_id, |name| name.contains(ARRIVING))?);
        blocking(&path, move || {
            files
                .iter()
                .try_for_each(|file| match fs::remove_file(file) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(unreadable("remove the package", file, &error))
                    }
                    _ => Ok(()),
                })?;
            forget_unused(&folder).map_err(|error| unreadable("tidy the folder", &folder, &error))
        })
        .await?
    }

    /// Forgets parsed packages that nobody uses at the moment; they are read again when they are needed. Returns how
    /// many that are, and only counts them with `dry_run`.
    pub fn forget_idle(&self, dry_run: bool) -> usize {
        let mut known = self.known();
        let idle = |cell: &Arc<OnceCell<Arc<Package>>>| {
            Arc::strong_count(cell) == 1
                && cell
                    .get()
                    .is_some_and(|package| Arc::strong_count(package) == 1)
        };
        let count = known.values().filter(|cell| idle(cell)).count();
        if !dry_run {
            known.retain(|_, cell| !idle(cell));
        }
        count
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, Arc<OnceCell<Arc<Package>>>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Packages for PackageDir {
    /// Whoever asks while it is being read waits for that one reading.
    async fn package(&self, _tenant: &str, vnf_pkg_id: &str) -> Result<Arc<Package>, PortError> {
        let path = self.path(vnf_pkg_id)?;
        let cell = self
            .known()
            .entry(vnf_pkg_id.to_owned())
            .or_default()
            .clone();
        let limits = self.limits;
        let id = vnf_pkg_id.to_owned();
        let read = cell.get_or_try_init(|| async move {
            blocking(&path.clone(), move || {
                read(&id, &path, &limits).map(Arc::new)
            })
            .await?
        });
        match read.await {
            Ok(package) => Ok(package.clone()),
            Err(error) => {
                // Ids that nobody onboarded must not pile up.
                self.known()
                    .retain(|_, cell| cell.initialized() || Arc::strong_count(cell) > 1);
                Err(error)
            }
        }
    }
}

fn keep(
    (upload, sha256): (&Path, Option<String>),
    path: &Path,
    limits: &Limits,
) -> Result<Package, PackageFailure> {
    let moved = own(upload, 0o600)
        .and_then(|()| File::open(upload))
        .and_then(|file| file.sync_all())
        .and_then(|()| fs::rename(upload, path))
        .and_then(|()| sync_folder_of(path));
    moved.map_err(|error| {
        let _ = fs::remove_file(upload);
        unreadable("keep the package", path, &error)
    })?;
    let opened = match sha256 {
        Some(known) => Package::open_hashed(path, known, limits),
        None => Package::open(path, limits),
    };
    if let Ok(package) = &opened {
        let kept = path.with_file_name(format!("{}{KEPT}", package.sha256()));
        // That there is one already, or the disk knows no second names: then it is fetched once more.
        let _ = fs::hard_link(path, kept);
    }
    opened
        .map(|package| package.with_externals(|external| beside(path, external)))
        .map_err(|findings| match fs::remove_file(path) {
            Ok(()) => PackageFailure::Refused(findings),
            Err(error) => unreadable("remove the refused package", path, &error).into(),
        })
}

/// The file of an external artifact beside the archive of its package.
fn beside(archive: &Path, external: &External) -> PathBuf {
    archive.with_extension(format!(
        "{}-{}{ARTIFACT}",
        external.algorithm, external.hash
    ))
}

fn read(id: &str, path: &Path, limits: &Limits) -> Result<Package, PortError> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(absent(id)),
        Err(error) => return Err(unreadable("read the package", path, &error)),
        Ok(_) => {}
    }
    let damaged = |why: String| {
        let doing = format!("read the package `{}`", path.display());
        PortError::new(&DAMAGED, doing, why).on(id)
    };
    let package = Package::open(path, limits).map_err(|findings| damaged(findings.to_string()))?;
    for external in package.externals() {
        external
            .check(&beside(path, external))
            .map_err(|error| damaged(error.to_string()))?;
    }
    Ok(package.with_externals(|external| beside(path, external)))
}

/// The folder, with what lies in it for its owner alone.
pub(crate) fn private_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    own(folder, 0o700)?;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            own(&entry.path(), 0o600)?;
        }
    }
    Ok(())
}

/// Takes away what others than the owner may do; only the owner can.
fn own(path: &Path, wanted: u32) -> io::Result<()> {
    let mode = path.metadata()?.permissions().mode();
    if mode & 0o777 & !wanted == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(wanted))
}

/// Removes what uploads left behind that did not come to their end.
fn tidy(folder: &Path) -> io::Result<()> {
    sweep(Folder::Packages, folder)?;
    forget_unused(folder)
}

fn remove_from(folder: &Path, is_meant: impl Fn(&str) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if is_meant(&entry.file_name().to_string_lossy()) {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

/// Removes the archives that are no package's any more: nothing but their hash names them.
fn forget_unused(folder: &Path) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_kept = entry.file_name().to_string_lossy().ends_with(KEPT);
        if is_kept && entry.metadata()?.nlink() == 1 {
            fs::remove_file(entry.path())?;
        }
    }
    Ok(())
}

async fn blocking<T: Send + 'static>(
    path: &Path,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, PortError> {
    spawn_blocking(work).await.map_err(|error| {
        let doing = format!("read the package `{}`", path.display());
        PortError::new(&DAMAGED, doing, format!("its reader stopped: {error}"))
    })
}

fn absent(id: &str) -> PortError {
    PortError::new(
        &ABSENT,
        format!("find the VNF package `{id}`"),
        "it is not onboarded",
    )
    .on(id)
}

fn unreadable(doing: &str, path: &Path, error: &io::Error) -> PortError {
    let doing = format!("{doing} `{}`", path.display());
    PortError::new(&UNREADABLE, doing, error.to_string())
}

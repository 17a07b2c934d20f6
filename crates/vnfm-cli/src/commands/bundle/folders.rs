//! The folders that a bundle is installed to: what they contain already, and how an item gets there.
//!
//! An item appears completely or not at all: its files are written and synced under a temporary name in the same
//! folder, and renamed. Names come from the index, which has no path separators in them.

use super::super::plugin::{copy_and_pin, default_dir};
use crate::args::InstallBundle;
use crate::bundle::{Bundle, BundledFile, Item, Kind, copy_hashed};
use crate::client::{Failure, Outcome, local};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use tempfile::{Builder, NamedTempFile, TempDir};
use vnfm_plugin_host::{Lock, inspect};

/// Prefix of temporary names; what a killed installation left behind may be deleted.
const TEMPORARY: &str = ".vnfm-bundle-";
const EXECUTABLE: u32 = 0o755;
const READABLE: u32 = 0o644;

/// What a folder or the server has of an item.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Presence {
    Missing,
    Present,
    /// It has something else of that name; what it is.
    Differs(String),
}

/// A folder for each kind that needs one.
pub(super) struct Folders {
    plugins: PathBuf,
    binaries: PathBuf,
    images: PathBuf,
}

impl Folders {
    /// The folders of the command line; those of the wanted kinds must be named.
    pub(super) fn new(args: &InstallBundle, wanted: &[Kind]) -> Outcome<Self> {
        let named = |kind: Kind, folder: &Option<PathBuf>| match folder {
            None if wanted.contains(&kind) => Err(Failure::Hinted {
                message: format!(
                    "the bundle has {}, but no folder for them is named",
                    kind.folder()
                ),
                hint: format!(
                    "name it with `--{} FOLDER`, or select other kinds with --only",
                    kind.folder()
                ),
            }),
            folder => Ok(folder.clone().unwrap_or_default()),
        };
        let is_wanted = wanted.contains(&Kind::Plugin);
        let plugins = match &args.plugins {
            None if is_wanted => default_dir()?,
            folder => folder.clone().unwrap_or_default(),
        };
        Ok(Self {
            plugins,
            binaries: named(Kind::Binary, &args.binaries)?,
            images: named(Kind::Image, &args.images)?,
        })
    }

    /// What the folder of a binary, image or plugin has of it.
    pub(super) fn presence(&self, item: &Item) -> Outcome<Presence> {
        let path = self.path(item);
        if item.kind == Kind::Plugin {
            return self.plugin_presence(item);
        }
        match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Presence::Missing),
            Err(error) => return Err(unreadable(&path, &error)),
            Ok(_) => {}
        }
        let is_same = |file: &BundledFile| {
            let inner = item.path_in_item(file).unwrap_or_default();
            let at = if item.kind == Kind::Image {
                path.join(inner)
            } else {
                path.clone()
            };
            has_content(&at, file)
        };
        // A link to such a folder is not one: it may change at any time.
        let is_link = path.is_symlink();
        if !is_link && item.files.iter().all(is_same) {
            return Ok(Presence::Present);
        }
        Ok(Presence::Differs(format!(
            "`{}` is another one",
            path.display()
        )))
    }

    fn plugin_presence(&self, item: &Item) -> Outcome<Presence> {
        let lock = Lock::read(&self.plugins)?;
        let version = item.version.as_deref().unwrap_or_default();
        let mut pins = lock.plugins.iter().filter(|pin| !pin.superseded);
        let Some(pin) =
            pins.find(|pin| (pin.name.as_str(), pin.version.as_str()) == (&item.name, version))
        else {
            return Ok(Presence::Missing);
        };
        if !pin.sha256.eq_ignore_ascii_case(&item.files[0].sha256) {
            let what = format!("`{}` allows another library of it", self.plugins.display());
            return Ok(Presence::Differs(what));
        }
        // A pinned library that is missing or damaged is installed again.
        let is_there = has_content(&self.plugins.join(&pin.file), &item.files[0]);
        Ok(if is_there {
            Presence::Present
        } else {
            Presence::Missing
        })
    }

    /// Installs a binary, image or plugin; where it is now.
    pub(super) fn install(
        &self,
        bundle: &Bundle,
        number: usize,
        replaces: bool,
    ) -> Outcome<PathBuf> {
        let item = &bundle.items()[number];
        let path = self.path(item);
        match item.kind {
            Kind::Binary => self.binary(bundle, number, replaces)?,
            Kind::Image => self.image(bundle, number, replaces)?,
            Kind::Plugin => return self.plugin(bundle, number),
            Kind::Package => return Err(local("packages are onboarded, not copied to a folder")),
        }
        Ok(path)
    }

    fn path(&self, item: &Item) -> PathBuf {
        match item.kind {
            Kind::Binary => self.binaries.join(&item.name),
            Kind::Image => self.images.join(&item.name),
            Kind::Plugin | Kind::Package => self.plugins.clone(),
        }
    }

    fn binary(&self, bundle: &Bundle, number: usize, replaces: bool) -> Outcome<()> {
        let path = self.path(&bundle.items()[number]);
        let failed = |error: io::Error| unwritable(&path, &error);
        DirBuilder::new()
            .recursive(true)
            .mode(EXECUTABLE)
            .create(&self.binaries)
            .map_err(failed)?;
        let mut file = Builder::new()
            .prefix(TEMPORARY)
            .tempfile_in(&self.binaries)
            .map_err(failed)?;
        bundle.copy((number, 0), file.as_file_mut())?;
        file.as_file()
            .set_permissions(Permissions::from_mode(EXECUTABLE))
            .map_err(failed)?;
        file.as_file().sync_all().map_err(failed)?;
        let persisted = if replaces {
            file.persist(&path)
        } else {
            file.persist_noclobber(&path)
        };
        persisted.map(drop).map_err(|error| failed(error.error))
    }

    fn image(&self, bundle: &Bundle, number: usize, replaces: bool) -> Outcome<()> {
        let item = &bundle.items()[number];
        let path = self.path(item);
        let failed = |error: io::Error| unwritable(&path, &error);
        DirBuilder::new()
            .recursive(true)
            .mode(EXECUTABLE)
            .create(&self.images)
            .map_err(failed)?;
        let new = temporary_folder(&self.images).map_err(failed)?;
        for (index, file) in item.files.iter().enumerate() {
            let at = new.path().join(item.path_in_item(file).unwrap_or_default());
            let parent = at.parent().unwrap_or(new.path());
            DirBuilder::new()
                .recursive(true)
                .mode(EXECUTABLE)
                .create(parent)
                .map_err(failed)?;
            let mut out = File::create_new(&at).map_err(failed)?;
            bundle.copy((number, index), &mut out)?;
            out.set_permissions(Permissions::from_mode(READABLE))
                .map_err(failed)?;
            out.sync_all().map_err(failed)?;
        }
        fs::set_permissions(new.path(), Permissions::from_mode(EXECUTABLE)).map_err(failed)?;
        // The old one is kept until the new one has its name, and deleted with its temporary folder.
        let old = temporary_folder(&self.images).map_err(failed)?;
        let kept = old.path().join(&item.name);
        if replaces {
            fs::rename(&path, &kept).map_err(failed)?;
        }
        if let Err(error) = fs::rename(new.path(), &path) {
            if replaces {
                let _ = fs::rename(&kept, &path); // the first error is the one to report
            }
            return Err(failed(error));
        }
        // It has its final name: nothing is left to delete.
        let _ = new.keep();
        Ok(())
    }

    /// Copies and pins a library, which must declare what the index says.
    fn plugin(&self, bundle: &Bundle, number: usize) -> Outcome<PathBuf> {
        let item = &bundle.items()[number];
        // A library is loaded only from a folder that nobody else can write to.
        let folder = tempfile::tempdir().map_err(|error| no_temporary(&error))?;
        let file = NamedTempFile::new_in(folder.path());
        let mut file = file.map_err(|error| no_temporary(&error))?;
        bundle.copy((number, 0), file.as_file_mut())?;
        let declared = inspect(file.path())?.declaration;
        if declared.name != item.name || Some(&declared.version) != item.version.as_ref() {
            return Err(local(format!(
                "the library of {} declares `{}@{}`; it was not installed",
                item.label(),
                declared.name,
                declared.version
            )));
        }
        let pin = copy_and_pin(file.path(), &self.plugins)?;
        Ok(self.plugins.join(pin.file))
    }
}

/// A file of the bundle in the folder for temporary files, such as a package to upload.
pub(super) fn extract(bundle: &Bundle, number: usize) -> Outcome<NamedTempFile> {
    let mut file = NamedTempFile::new().map_err(|error| no_temporary(&error))?;
    bundle.copy((number, 0), file.as_file_mut())?;
    Ok(file)
}

/// Whether the path is a regular file with this content.
fn has_content(path: &Path, expected: &BundledFile) -> bool {
    let meta = fs::symlink_metadata(path);
    if !meta.is_ok_and(|meta| meta.is_file() && meta.len() == expected.size) {
        return false;
    }
    let hashed = File::open(path).and_then(|file| copy_hashed(file, &mut io::sink()));
    hashed.is_ok_and(|(_, sha256)| sha256 == expected.sha256)
}

fn temporary_folder(parent: &Path) -> io::Result<TempDir> {
    Builder::new().prefix(TEMPORARY).tempdir_in(parent)
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    local(format!("cannot read `{}`: {error}", path.display()))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    local(format!("cannot write `{}`: {error}", path.display()))
}

fn no_temporary(error: &io::Error) -> Failure {
    local(format!(
        "cannot write to `{}` (TMPDIR names another folder): {error}",
        std::env::temp_dir().display()
    ))
}

//! Sample records of the conformance rules, and a database in a temporary folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;
pub(crate) use vnfm_conformance::store::records::*;
use vnfm_core::ports::StoreError;
use vnfm_descriptor::Limits;
use vnfm_store::{BackupFolders, PackageDir, SecretKeys, SqliteStore};

/// A folder with a database and its keys.
pub(crate) struct Home {
    pub(crate) folder: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn database(&self) -> PathBuf {
        self.folder.path().join("vnfm.db")
    }

    pub(crate) fn key_file(&self) -> PathBuf {
        self.folder.path().join("secrets.key")
    }

    pub(crate) async fn try_open(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(&self.database(), SecretKeys::open(&self.key_file())?).await
    }

    pub(crate) async fn open(&self) -> SqliteStore {
        self.try_open().await.unwrap()
    }
}

/// As [`folders`], with the package that [`seed`] records.
pub(crate) fn folders_with_package(data: &Path) -> BackupFolders {
    let folders = folders(data);
    let package = folders.packages.path("package").unwrap();
    std::fs::write(package, "what was onboarded").unwrap();
    folders
}

/// The folders of packages and stored files in a data folder.
pub(crate) fn folders(data: &Path) -> BackupFolders {
    let packages = PackageDir::open(&data.join("packages"), Limits::default());
    BackupFolders {
        packages: Arc::new(packages.unwrap()),
        files: Arc::new(crate::instance_files::open(&data.join("files"))),
    }
}

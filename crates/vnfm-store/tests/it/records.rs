//! Sample records of the conformance rules, and a database in a temporary folder.

use std::path::PathBuf;
pub(crate) use vnfm_conformance::store::records::*;
use vnfm_core::ports::StoreError;
use vnfm_store::{SecretKeys, SqliteStore};

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

//! The ports for the care of the database.

use super::SqliteStore;
use crate::backup::BackupFolders;
use crate::files::checkpoint_log;
use crate::quota_conditions::Quotas;
use crate::{
    backup, key_provider, restore_mark, retention, rotate, statistics, tenant_usage, upgrade,
};
use async_trait::async_trait;
use jiff::Timestamp;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use vnfm_core::ports::{
    Backups, KeyLocation, PackageRecord, Pruned, QuotaLimits, Recovery, Retention, SealedBy,
    SealingKeys, Statistics, StoreAdmin, StoreError, UnfinishedWork,
};

#[async_trait]
impl StoreAdmin for SqliteStore {
    fn set_quotas(&self, limits: QuotaLimits) {
        let _ = self.quotas.set(Quotas::new(limits));
    }

    async fn prune(
        &self,
        retention: &Retention,
        now: Timestamp,
        dry_run: bool,
    ) -> Result<Pruned, StoreError> {
        retention::prune(&self.database, retention, now, dry_run).await
    }

    async fn statistics(&self) -> Result<Statistics, StoreError> {
        statistics::count(&self.database).await
    }

    async fn probe(&self) -> Result<(), StoreError> {
        statistics::probe(&self.database).await
    }

    fn check_open_files(&self) -> Result<(), String> {
        self.file
            .as_ref()
            .map_or(Ok(()), |file| file.open_files.check())
    }

    fn integrity(&self) -> Result<(), String> {
        self.file
            .as_ref()
            .map_or(Ok(()), |file| file.integrity.result())
    }

    async fn recovery(&self) -> Result<Option<Recovery>, StoreError> {
        restore_mark::read(&self.database).await
    }

    async fn end_recovery(&self) -> Result<(), StoreError> {
        restore_mark::end(&self.database).await
    }

    async fn checkpoint_log(&self) -> Result<(), StoreError> {
        self.stop_check();
        if checkpoint_log(&self.database).await? {
            return Ok(());
        }
        let reason = "cannot checkpoint the write-ahead log: the database is being read";
        Err(StoreError::Unavailable(reason.to_owned()))
    }
}

#[async_trait]
impl SealingKeys for SqliteStore {
    fn key_location(&self) -> KeyLocation {
        key_provider::location(&self.database)
    }

    async fn rotate(&self) -> Result<u64, StoreError> {
        let _guard = self.database.lock_rotation().await;
        rotate::seal_with_new(&self.database, self.key_location()).await?;
        self.stop_check();
        rotate::reseal_all(&self.database).await
    }

    async fn migrate(&self, to: KeyLocation) -> Result<u64, StoreError> {
        let _guard = self.database.lock_rotation().await;
        if self.key_location() != to {
            rotate::seal_with_new(&self.database, to).await?;
        }
        self.stop_check();
        rotate::reseal_all(&self.database).await
    }

    async fn sealed_by(&self) -> Result<Vec<SealedBy>, StoreError> {
        rotate::sealed_by(&self.database).await
    }

    async fn unused_keys(&self) -> Result<Vec<String>, StoreError> {
        key_provider::unused_keys(&self.database).await
    }
}

#[async_trait]
impl UnfinishedWork for SqliteStore {
    async fn instances_without_levels(&self) -> Result<Vec<(String, String)>, StoreError> {
        let action = "list instances without scale levels";
        self.database.read(action, upgrade::needing_levels).await
    }

    async fn all_instances(&self) -> Result<Vec<(String, String)>, StoreError> {
        let action = "list the instances of all tenants";
        self.database.read(action, tenant_usage::instances).await
    }

    async fn unmeasured_packages(&self) -> Result<Vec<(String, String)>, StoreError> {
        let action = "list packages of unknown size";
        self.database.read(action, tenant_usage::unmeasured).await
    }

    async fn unfinished_packages(&self) -> Result<Vec<PackageRecord>, StoreError> {
        statistics::unfinished_packages(&self.database).await
    }
}

/// Backups of a database and of the files that belong to it.
pub struct StoreBackups {
    /// The database to back up.
    pub store: Arc<SqliteStore>,
    /// Its packages and stored files.
    pub folders: BackupFolders,
}

#[async_trait]
impl Backups for StoreBackups {
    async fn unnamed_backup(&self, folder: &Path, at: Timestamp) -> Result<File, StoreError> {
        backup::write_unnamed(&self.store.database, &self.folders, folder, at).await
    }
}

impl SqliteStore {
    /// Writes a backup to `file`, which must not exist. Reads and writes continue meanwhile.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk is full or fails; `Broken` for a database in memory.
    pub async fn backup(
        &self,
        folders: &BackupFolders,
        file: &Path,
        at: Timestamp,
    ) -> Result<(), StoreError> {
        backup::write(&self.database, folders, file, at).await
    }

    /// Interrupts a running integrity check: its snapshot would block a checkpoint of the write-ahead log.
    fn stop_check(&self) {
        if let Some(file) = &self.file {
            file.integrity.stop();
        }
    }
}

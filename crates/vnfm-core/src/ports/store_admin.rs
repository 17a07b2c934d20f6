//! Ports for the care of a store, apart from [`Store`](super::Store): quotas, retention, statistics, health, recovery, backups, sealing keys,
//! and what an older version or an ended process left to do. None of them names a database.

use super::{PackageRecord, QuotaLimits, StoreError};
use async_trait::async_trait;
use jiff::Timestamp;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

const DAY: Duration = Duration::from_hours(24);

/// The retention time of each kind of row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Retention {
    /// Ended operation occurrences. Default one year.
    pub op_occs: Duration,
    /// Journals and checkpoints of ended operations. Default 90 days.
    pub journal: Duration,
    /// Logs of ended operations. Default 30 days.
    pub logs: Duration,
    /// Notifications, delivered or not. Default 30 days.
    pub outbox: Duration,
    /// Audit entries. Default one year.
    pub audit: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        let (year, month) = (365 * DAY, 30 * DAY);
        Self {
            op_occs: year,
            journal: 90 * DAY,
            logs: month,
            outbox: month,
            audit: year,
        }
    }
}

/// The number of rows removed, or to be removed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pruned {
    /// Number of operation occurrences, all ended.
    pub op_occs: u64,
    /// Rows of journals and checkpoints.
    pub journal: u64,
    /// Number of lines of logs.
    pub log_lines: u64,
    /// Number of notifications in the outbox.
    pub notifications: u64,
    /// Number of entries of the audit log.
    pub audit: u64,
}

/// Counts over all tenants, for the metrics.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Operations that have not ended: type, state, count.
    pub open_ops: Vec<(String, String, i64)>,
    /// Number of instances by state: state, count.
    pub instances: Vec<(String, i64)>,
    /// Undeliverable notifications of the current subscriptions.
    pub given_up: i64,
    /// Every VIM in the registry.
    pub vims: Vec<VimExpiry>,
}

/// The expiry of a VIM's login.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VimExpiry {
    /// Id of the VIM in the registry.
    pub id: String,
    /// The earliest expiry among its login and its certificates.
    pub expires_at: Option<Timestamp>,
}

/// The mark of a database that was restored from a backup, until an operator confirms the restore.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recovery {
    /// When the backup was restored.
    pub restored_at: Timestamp,
    /// When the backup was written.
    pub backup_at: Timestamp,
}

/// Quotas, retention, statistics, health and recovery of a store.
#[async_trait]
pub trait StoreAdmin: Send + Sync {
    /// Enforces quotas for every tenant from now on. Only the first call has an effect.
    fn set_quotas(&self, limits: QuotaLimits);

    /// Removes what is older at `now` than `retention` keeps; with `dry_run` only counts it.
    ///
    /// # Errors
    ///
    /// If the database fails; rows removed until then stay removed.
    async fn prune(
        &self,
        retention: &Retention,
        now: Timestamp,
        dry_run: bool,
    ) -> Result<Pruned, StoreError>;

    /// Reads the counts that the metrics report.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn statistics(&self) -> Result<Statistics, StoreError>;

    /// Writes a small row durably, to check that the database accepts it.
    ///
    /// # Errors
    ///
    /// If the database cannot be written, such as on a full disk.
    async fn probe(&self) -> Result<(), StoreError>;

    /// Checks that the database's files are still those that were opened. A store without files always succeeds.
    ///
    /// # Errors
    ///
    /// Names the removed or replaced file: later writes are lost when this process ends.
    fn check_open_files(&self) -> Result<(), String> {
        Ok(())
    }

    /// The result of the integrity check so far; `Ok` while it runs, or if there is none.
    ///
    /// # Errors
    ///
    /// Describes the damage that was found.
    fn integrity(&self) -> Result<(), String> {
        Ok(())
    }

    /// The recovery mark, if this database was restored and the restore is not confirmed yet.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    async fn recovery(&self) -> Result<Option<Recovery>, StoreError>;

    /// Ends the recovery: removes its mark.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk is full or fails.
    async fn end_recovery(&self) -> Result<(), StoreError>;

    /// Moves everything into the database's main file, as the last step of a shutdown. Later writes are as safe as before.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails or a reader blocks this for long; nothing is lost.
    async fn checkpoint_log(&self) -> Result<(), StoreError>;
}

/// Backups of a store, of the packages that it refers to, and of the files that are stored with its instances.
#[async_trait]
pub trait Backups: Send + Sync {
    /// Writes a backup, made at `at`, into an unnamed file in `folder`, which the kernel deletes when it is closed. Reads
    /// and writes continue meanwhile. The file is rewound.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk is full or fails; `Broken` if this store has no backups.
    async fn unnamed_backup(&self, folder: &Path, at: Timestamp) -> Result<File, StoreError>;
}

/// Where keys that seal secrets may be stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyLocation {
    /// In the key file next to the database.
    File,
    /// With the [`SecretSealer`](super::SecretSealer), such as Barbican.
    Sealer,
}

/// A key, and the number of values sealed with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedBy {
    /// Fingerprint of the key, which does not reveal it.
    pub fingerprint: String,
    /// Where it is stored: `fernet_key` for the key file, `barbican_key`, or `missing`.
    pub key_type: String,
    /// Its id at the key provider, if it is there.
    pub secret_uuid: Option<String>,
    /// Number of values sealed with it.
    pub values: u64,
    /// Whether new values are sealed with it.
    pub seals: bool,
}

/// The keys that seal a store's secrets.
#[async_trait]
pub trait SealingKeys: Send + Sync {
    /// Where the key is stored that seals new secrets.
    fn key_location(&self) -> KeyLocation;

    /// Seals everything with a new key and removes the old keys. Returns the number of resealed texts. Until it is
    /// reopened, the store still unseals with the old keys too.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails, `Keys` if the key provider fails, `Broken` if a row cannot be unsealed. The old
    /// keys then stay, and the next rotation continues.
    async fn rotate(&self) -> Result<u64, StoreError>;

    /// Seals everything with a key stored in another location and removes the keys elsewhere. Returns the number of
    /// resealed texts. Continues an interrupted migration; does nothing if all keys are at that location.
    ///
    /// # Errors
    ///
    /// Those of [`Self::rotate`]; the next migration then continues.
    async fn migrate(&self, to: KeyLocation) -> Result<u64, StoreError>;

    /// The number of values sealed with each key; shows what an interrupted rotation or migration still has to do.
    ///
    /// # Errors
    ///
    /// If the database cannot be read.
    async fn sealed_by(&self) -> Result<Vec<SealedBy>, StoreError>;

    /// The ids of keys at the provider that have this installation's name and that this database does not
    /// need; empty without a provider.
    ///
    /// # Errors
    ///
    /// `Keys` if the key provider does not respond.
    async fn unused_keys(&self) -> Result<Vec<String>, StoreError>;
}

/// What an older version or an ended process left to do, which a server does when it starts.
#[async_trait]
pub trait UnfinishedWork: Send + Sync {
    /// Instances that a version before scale levels wrote, each with its tenant, for
    /// [`Engine::record_levels`](crate::Engine::record_levels).
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn instances_without_levels(&self) -> Result<Vec<(String, String)>, StoreError>;

    /// The instances of all tenants, each with its tenant, for [`StoredFiles::count`](crate::StoredFiles::count).
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn all_instances(&self) -> Result<Vec<(String, String)>, StoreError>;

    /// Packages of unknown size, each with its tenant: those of versions that did not record sizes.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn unmeasured_packages(&self) -> Result<Vec<(String, String)>, StoreError>;

    /// The packages of all tenants whose onboarding was interrupted when the previous process ended.
    ///
    /// # Errors
    ///
    /// If the database does not respond.
    async fn unfinished_packages(&self) -> Result<Vec<PackageRecord>, StoreError>;
}

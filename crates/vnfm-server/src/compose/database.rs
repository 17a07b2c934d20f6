//! The database behind its ports. Only this file names the kind of database.

use crate::config::Config;
use crate::maintenance::MIN_FREE_BYTES;
use crate::secrets::Secrets;
use anyhow::Context as _;
use jiff::Timestamp;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{
    Backups, Clock, ErrorKind, KeyLocation, SealingKeys, Store, StoreAdmin, StoreError,
    UnfinishedWork,
};
use vnfm_store::{
    BackupFolders, FileDir, PackageDir, SecretKeys, SqliteStore, StoreBackups, UncheckedAddress,
};

/// The key file in the data folder.
const KEY_FILE: &str = "secrets.key";
/// Interval between two attempts at startup.
const RETRY_INTERVAL: Duration = Duration::from_secs(2);

/// An open database with its packages and keys.
pub(super) struct Database {
    pub(super) store: Arc<dyn Store>,
    pub(super) admin: Arc<dyn StoreAdmin>,
    pub(super) keys: Arc<dyn SealingKeys>,
    pub(super) unfinished: Arc<dyn UnfinishedWork>,
    pub(super) backups: Arc<dyn Backups>,
    /// The packages in the folder next to it.
    pub(super) packages: Arc<PackageDir>,
    /// The files that are stored with instances, in the folder next to it.
    pub(super) files: Arc<FileDir>,
    /// As found when it was opened.
    pub(super) unchecked_addresses: Vec<UncheckedAddress>,
}

impl Database {
    /// Opens the database of the configured data folder, then the packages: if the database was lost, nothing is created.
    /// Packages are read within `limits`.
    pub(super) async fn open(
        config: &Config,
        clock: &Arc<dyn Clock>,
        limits: vnfm_descriptor::Limits,
    ) -> anyhow::Result<Self> {
        let store = Arc::new(open_sqlite(&config.data, &config.secrets, clock).await?);
        let packages = Arc::new(PackageDir::open(&config.data.join("packages"), limits)?);
        let reserve = config.limits.free_bytes.unwrap_or(MIN_FREE_BYTES);
        let files = FileDir::open(&config.data.join("files"), clock.clone(), reserve)?;
        let files = Arc::new(files);
        Ok(Self {
            admin: store.clone(),
            keys: store.clone(),
            unfinished: store.clone(),
            backups: Arc::new(StoreBackups {
                store: store.clone(),
                folders: BackupFolders {
                    packages: packages.clone(),
                    files: files.clone(),
                },
            }),
            packages,
            files,
            unchecked_addresses: store.unchecked_addresses(),
            store,
        })
    }
}

/// Opens the database of a data folder with its keys; waits for Barbican if necessary.
async fn open_sqlite(
    data: &Path,
    secrets: &Secrets,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<SqliteStore> {
    let (database, file) = (data.join("vnfm.db"), data.join(KEY_FILE));
    vnfm_store::check_files(data).context("cannot use the data folder")?;
    let sealer = secrets.sealer(clock)?;
    let deadline = clock
        .now()
        .saturating_add(secrets.wait())
        .unwrap_or(Timestamp::MAX);
    loop {
        let keys = match &sealer {
            Some(sealer) => SecretKeys::with(&file, sealer.clone()),
            None => SecretKeys::open(&file),
        };
        let opened = SqliteStore::open(&database, keys.context("cannot use the key file")?).await;
        match opened {
            Err(StoreError::Keys {
                kind: ErrorKind::Unavailable,
                detail,
            }) if clock.now() < deadline => {
                tracing::warn!("{detail}; waiting for it");
                clock.sleep(RETRY_INTERVAL).await;
            }
            opened => {
                let store =
                    opened.with_context(|| format!("cannot use `{}`", database.display()))?;
                if sealer.is_some() && store.key_location() == KeyLocation::File {
                    tracing::warn!(
                        "Barbican is configured, but the key file is still in use; move the key with `vnfmctl secrets migrate --to \
                         barbican`"
                    );
                }
                return Ok(store);
            }
        }
    }
}

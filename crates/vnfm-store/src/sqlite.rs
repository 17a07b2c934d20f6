//! The database file and its connections; the `Store` trait is in `sqlite/port.rs`.
//!
//! There is one writer at a time, so write transactions never conflict: the thread of `group`, or a maintenance task that
//! holds the writer's lock. Other connections read from snapshots without waiting for the writer. Only one process opens
//! the file (`process_lock`), so the leases that it finds belong to dead processes.

use crate::fault::{Done, Fault};
use crate::files::{OpenFiles, refuse_lost, remove_leftovers};
use crate::group::{Group, Writer, WriterGuard};
use crate::integrity::Integrity;
use crate::kept_addresses::{self, KeptAddresses, UncheckedAddress};
use crate::keys::SecretKeys;
use crate::location::Location;
use crate::process_lock::{Lock, create, lock};
use crate::quotas::{QuotaLimits, Quotas};
use crate::vim_cache::VimCache;
use crate::wal::Acknowledged;
use crate::{key_provider, schema, upgrade, usage, wal, write};
use sqlx::Connection as _;
use sqlx::sqlite::SqliteConnection;
use std::fs::File;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};
use tokio::sync::{Mutex, MutexGuard, watch};
use uuid::Uuid;
use vnfm_core::ports::StoreError;

mod port;

const READERS: usize = 4;

/// The store on SQLite.
pub struct SqliteStore {
    // Fields are dropped in order: this one first, the lock last.
    group: Group,
    pub(crate) writer: Arc<Writer>,
    readers: Vec<Mutex<SqliteConnection>>,
    next_reader: AtomicUsize,
    installation_id: String,
    kept_addresses: KeptAddresses,
    /// Held while keys are changed: one change at a time.
    turning: Mutex<()>,
    /// Set once by [`Self::set_quotas`].
    quotas: OnceLock<Quotas>,
    /// The index of the write-ahead log; must not close before the connections do.
    index: Option<Arc<File>>,
    pub(crate) file: Option<FileState>,
}

/// The state of a database in a file, in addition to its connections.
pub(crate) struct FileState {
    pub(crate) integrity: Integrity,
    pub(crate) open_files: OpenFiles,
    _lock: Lock,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore")
            .field("installation_id", &self.installation_id)
            .finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the database at `path`, creating it if necessary; its folder must exist.
    ///
    /// # Errors
    ///
    /// `Unavailable` if another process uses it or the file cannot be opened; `Broken` if the file was lost or is damaged,
    /// lost its write-ahead log, was written by a newer binary, or has secrets sealed with keys other than `keys`; `Keys`
    /// if the key provider does not return a key (kind `Unavailable` if a retry may help).
    pub async fn open(path: &Path, keys: SecretKeys) -> Result<Self, StoreError> {
        refuse_lost(path)?;
        create(path)?;
        let lock = lock(path)?;
        remove_leftovers(path, &keys);
        let action = format!("open the database `{}`", path.display());
        let opened = async {
            wal::check(path)?;
            let location = Location::File(path.to_path_buf());
            let options = location.options();
            let mut writer = SqliteConnection::connect_with(&options).await?;
            let integrity = Integrity::begin(path)?;
            integrity.wait(path).await?;
            // Writes begin here, so they must be noted even if the open fails later.
            let (acknowledged, index) = Acknowledged::open(path)?;
            schema::migrate(&mut writer, schema::MIGRATIONS).await?;
            let mut readers = Vec::with_capacity(READERS);
            for _ in 0..READERS {
                readers.push(Mutex::new(
                    SqliteConnection::connect_with(&options.clone().read_only(true)).await?,
                ));
            }
            let file = FileState {
                integrity,
                open_files: OpenFiles::open(path)?,
                _lock: lock,
            };
            let notes = Some((acknowledged, index));
            Self::on((writer, readers), keys, (location, Some(file)), notes).await
        };
        opened
            .await
            .map_err(|fault: Fault| match fault.with_action(&action) {
                StoreError::Broken(why) if !why.starts_with("cannot") => {
                    StoreError::Broken(format!("cannot {action}: {why}"))
                }
                error => error,
            })
    }

    /// A database in memory with its own keys, for tests and for embedders that need no persistence.
    ///
    /// # Errors
    ///
    /// `Unavailable` if memory runs out.
    pub async fn in_memory() -> Result<Self, StoreError> {
        let opened = async {
            let location = Location::Memory(format!("/vnfm-{}", Uuid::new_v4()));
            let mut writer = SqliteConnection::connect_with(&location.options()).await?;
            schema::migrate(&mut writer, schema::MIGRATIONS).await?;
            Self::on(
                (writer, Vec::new()),
                SecretKeys::ephemeral(),
                (location, None),
                None,
            )
            .await
        };
        opened
            .await
            .map_err(|fault: Fault| fault.with_action("create a database in memory"))
    }

    async fn on(
        (mut writer, readers): (SqliteConnection, Vec<Mutex<SqliteConnection>>),
        keys: SecretKeys,
        (location, file): (Location, Option<FileState>),
        notes: Option<(Acknowledged, Arc<File>)>,
    ) -> Done<Self> {
        let keys = key_provider::complete(&mut writer, keys).await?;
        let installation_id = write::prepare(&mut writer, &keys).await?;
        upgrade::convert(&mut writer, &keys).await?;
        let kept_addresses = kept_addresses::read(&mut writer, &keys).await?;
        let (acknowledged, index) = notes.unzip();
        let writer = Arc::new(Writer {
            acknowledged: acknowledged.map(Into::into),
            connection: Mutex::new(writer),
            keys: RwLock::new(Arc::new(keys)),
            location,
            vims: VimCache::default(),
            change_counters: watch::Sender::default(),
        });
        writer.note();
        Ok(Self {
            group: Group::start(writer.clone())?,
            writer,
            readers,
            next_reader: AtomicUsize::new(0),
            installation_id,
            kept_addresses,
            turning: Mutex::new(()),
            quotas: OnceLock::new(),
            index,
            file,
        })
    }

    /// Enforces quotas for every tenant from now on. Only the first call has an effect.
    pub fn set_quotas(&self, most: QuotaLimits) {
        let _ = self.quotas.set(Quotas::new(most));
    }

    /// Instances that a version before scale levels wrote, each with its tenant, for
    /// [`Engine::record_levels`](vnfm_core::Engine::record_levels).
    ///
    /// # Errors
    ///
    /// If the database does not answer.
    pub async fn instances_without_levels(&self) -> Result<Vec<(String, String)>, StoreError> {
        let found = upgrade::needing_levels(&mut *self.reader().await).await;
        found.map_err(|fault| fault.with_action("list instances without scale levels"))
    }

    /// Packages of unknown size, each with its tenant: those of versions that did not record sizes.
    ///
    /// # Errors
    ///
    /// If the database fails.
    pub async fn unmeasured_packages(&self) -> Result<Vec<(String, String)>, StoreError> {
        let found = usage::unmeasured(&mut *self.reader().await).await;
        found.map_err(|e| e.with_action("list packages of unknown size"))
    }

    /// Closes the database, which checkpoints the write-ahead log. Dropping the store is safe too.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails; nothing that was acknowledged is lost.
    pub async fn close(self) -> Result<(), StoreError> {
        let closed = async {
            drop(self.group);
            for reader in self.readers {
                reader.into_inner().close().await?;
            }
            if let Some(writer) = Arc::into_inner(self.writer) {
                writer.note_durably();
                writer.connection.into_inner().close().await?;
            }
            drop((self.index, self.file));
            Ok(())
        };
        closed
            .await
            .map_err(|fault: Fault| fault.with_action("close the database"))
    }

    /// The maintenance connection, which excludes the writer thread; waiters get it in order.
    pub(crate) async fn writer(&self) -> WriterGuard<'_> {
        self.writer.lock().await
    }

    /// A reading connection: a free one, or else the next in rotation.
    pub(crate) async fn reader(&self) -> MutexGuard<'_, SqliteConnection> {
        if let Some(free) = self
            .readers
            .iter()
            .find_map(|reader| reader.try_lock().ok())
        {
            return free;
        }
        if self.readers.is_empty() {
            return self.writer.connection.lock().await;
        }
        let turn = self.next_reader.fetch_add(1, Ordering::Relaxed) % self.readers.len();
        self.readers[turn].lock().await
    }

    /// The addresses that VIMs keep which were in use before addresses were checked.
    pub fn unchecked_addresses(&self) -> Vec<UncheckedAddress> {
        self.kept_addresses.all()
    }

    /// The path of the file; `None` in memory.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.writer.location {
            Location::File(path) => Some(path),
            Location::Memory(_) => None,
        }
    }

    pub(crate) fn installation(&self) -> &str {
        &self.installation_id
    }

    /// The current keys; see [`Writer::keys`].
    pub(crate) fn keys(&self) -> Arc<SecretKeys> {
        self.writer.keys()
    }

    /// Replaces the keys; call it only under the writer's lock.
    pub(crate) fn set_keys(&self, keys: SecretKeys) {
        *self
            .writer
            .keys
            .write()
            .unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
    }

    /// Serialises changes of keys.
    pub(crate) async fn lock_rotation(&self) -> MutexGuard<'_, ()> {
        self.turning.lock().await
    }

    /// Drops the cached VIMs.
    pub(crate) fn forget_vims(&self) {
        self.writer.vims.forget();
    }

    /// Converts the result of work on the maintenance connection. After an error of the database itself, which may have
    /// ended the transaction unnoticed by the driver, opens a new connection.
    pub(crate) async fn ended<T>(
        &self,
        writer: &mut SqliteConnection,
        outcome: Done<T>,
        action: &str,
    ) -> Result<T, StoreError> {
        let location = &self.writer.location;
        if outcome.as_ref().is_err_and(Fault::is_database_error)
            && location.is_file()
            && let Ok(new) = SqliteConnection::connect_with(&location.options()).await
        {
            *writer = new;
        }
        outcome.map_err(|fault| fault.with_action(action))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::{Answer, Work};
    use std::os::unix::fs::MetadataExt as _;
    use vnfm_core::ports::{Change, OutboxRow, Store as _};

    impl SqliteStore {
        /// The value of a PRAGMA on the writer's connection, then on each of the others.
        async fn pragma(&self, sql: &'static str) -> Vec<i64> {
            let Ok(Answer::Value(Some(writer_value))) = self.group.execute(Work::Pragma(sql)).await
            else {
                panic!("the writer thread returns nothing for `{sql}`");
            };
            let mut values = vec![writer_value];
            for connection in std::iter::once(&self.writer.connection).chain(&self.readers) {
                let mut connection = connection.lock().await;
                values.push(
                    sqlx::query_scalar(sql)
                        .fetch_one(&mut *connection)
                        .await
                        .unwrap(),
                );
            }
            values
        }
    }

    async fn file(folder: &tempfile::TempDir) -> SqliteStore {
        SqliteStore::open(&folder.path().join("vnfm.db"), SecretKeys::ephemeral())
            .await
            .unwrap()
    }

    fn notification_changes(size: usize) -> Vec<Change> {
        let row = OutboxRow {
            seq: 0,
            tenant: "default".into(),
            instance_id: "i".into(),
            kind: "VnfIdentifierCreationNotification".into(),
            body: "x".repeat(size).into(),
            about: vnfm_core::ports::EventScope::default(),
            at: jiff::Timestamp::UNIX_EPOCH,
        };
        vec![Change::Outbox(Box::new(row))]
    }

    #[tokio::test]
    async fn every_connection_has_the_durable_pragmas() {
        let folder = tempfile::tempdir().unwrap();
        let store = file(&folder).await;
        assert_eq!(store.pragma("PRAGMA synchronous").await, [2; 6], "FULL");
        assert_eq!(store.pragma("PRAGMA foreign_keys").await, [1; 6]);
        assert_eq!(store.pragma("PRAGMA secure_delete").await, [1; 6]);
        assert_eq!(store.pragma("PRAGMA temp_store").await, [2; 6], "MEMORY");
        assert!(folder.path().join("vnfm.db-wal").exists());
        store.close().await.unwrap();
        assert!(!folder.path().join("vnfm.db-wal").exists());
    }

    /// Without that lock, another process that reads the database takes the log's index for a leftover and truncates it
    /// under us.
    #[tokio::test]
    async fn the_index_of_the_log_stays_locked_after_each_write() {
        let folder = tempfile::tempdir().unwrap();
        let store = file(&folder).await;
        let index = std::fs::metadata(folder.path().join("vnfm.db-shm"))
            .unwrap()
            .ino();
        for _ in 0..2 {
            store.write(None, notification_changes(1)).await.unwrap();
            // Reading /proc/locks may miss entries while others lock and unlock.
            assert!(
                (0..100).any(|_| is_in_use(index)),
                "the index is not locked"
            );
        }
    }

    /// True if this process has locked the byte of the index that SQLite locks while a process uses it.
    fn is_in_use(index: u64) -> bool {
        const IN_USE: u64 = 128;
        let (process, index) = (std::process::id().to_string(), index.to_string());
        let number = |word: &str| word.parse().unwrap_or(u64::MAX);
        std::fs::read_to_string("/proc/locks")
            .unwrap()
            .lines()
            .any(|lock| {
                let words: Vec<_> = lock.split_whitespace().collect();
                let [.., pid, file, first, last] = words[..] else {
                    return false;
                };
                pid == process
                    && file.rsplit(':').next() == Some(&index)
                    && (number(first)..=number(last)).contains(&IN_USE)
            })
    }

    #[tokio::test]
    async fn a_full_disk_is_an_error_and_the_next_write_succeeds() {
        let folder = tempfile::tempdir().unwrap();
        let store = file(&folder).await;
        store.write(None, notification_changes(1)).await.unwrap();
        assert!(store.pragma("PRAGMA page_count").await[0] < 100);
        store.pragma("PRAGMA max_page_count = 100").await;
        let error = store
            .write(None, notification_changes(1 << 20))
            .await
            .unwrap_err();
        assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
        store
            .write(None, notification_changes(1 << 20))
            .await
            .unwrap();
        let numbers: Vec<_> = store
            .outbox(0, 9)
            .await
            .unwrap()
            .iter()
            .map(|row| row.seq)
            .collect();
        assert_eq!(numbers, [1, 2]);
    }
}

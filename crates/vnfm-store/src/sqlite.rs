//! The store on a database file; the ports that it implements are in `sqlite/port.rs` and `sqlite/admin.rs`.
//!
//! There is one writer at a time, so write transactions never conflict: the thread of `group_commit`. Other threads read
//! from snapshots without waiting for it. Only one process opens the file (`process_lock`), so the leases that it
//! finds belong to dead processes.

use crate::backup::complete_restore;
use crate::database::{Database, Prepared};
use crate::fault::{Done, Fault};
use crate::files::{OpenFiles, refuse_lost, remove_leftovers};
use crate::group_commit::Opened;
use crate::integrity::Integrity;
use crate::kept_addresses::{self, KeptAddresses, UncheckedAddress};
use crate::location::{Access, Location};
use crate::process_lock::{Lock, create, lock};
use crate::quota_conditions::Quotas;
use crate::secret_keys::{SecretKeys, folder_of};
use crate::wal::Acknowledged;
use crate::{key_provider, opening, schema, upgrade, wal};
use std::fs::File;
use std::path::Path;
use std::sync::{Arc, OnceLock};
use tokio::task::spawn_blocking;
use uuid::Uuid;
use vnfm_core::ports::StoreError;

mod admin;
mod port;
pub use admin::StoreBackups;

/// The store on SQLite, in a file or in memory.
pub struct SqliteStore {
    // Fields are dropped in order: this one first, the lock last.
    database: Database,
    kept_addresses: KeptAddresses,
    /// The quotas of each tenant; set once, when the server starts.
    quotas: OnceLock<Quotas>,
    file: Option<FileState>,
}

/// The state of a database in a file, in addition to its connections.
struct FileState {
    integrity: Integrity,
    open_files: OpenFiles,
    /// The index of the write-ahead log; must not close before the connections do.
    _index: Arc<File>,
    _lock: Lock,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore")
            .field("installation_id", &self.database.installation_id)
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
        complete_restore(folder_of(path))?;
        remove_leftovers(path, &keys);
        let action = format!("open the database `{}`", path.display());
        Self::open_locked(path, keys, lock).await.map_err(|fault| {
            match fault.with_action(&action) {
                StoreError::Broken(reason) if !reason.starts_with("cannot") => {
                    StoreError::Broken(format!("cannot {action}: {reason}"))
                }
                error => error,
            }
        })
    }

    async fn open_locked(path: &Path, keys: SecretKeys, lock: Lock) -> Done<Self> {
        wal::check(path)?;
        let location = Location::File(path.to_path_buf());
        let db = location.open(Access::Write)?;
        let integrity = Integrity::begin(path)?;
        integrity.wait(path).await?;
        // Writes begin here, so they must be noted even if the open fails later.
        let (acknowledged, index) = Acknowledged::open(path)?;
        let file = FileState {
            _index: index,
            integrity,
            open_files: OpenFiles::open(path)?,
            _lock: lock,
        };
        let opened = Opened {
            acknowledged: Some(acknowledged),
            db,
        };
        Self::on(opened, keys, location, Some(file)).await
    }

    /// A database in memory with its own keys, for tests and for embedders that need no persistence.
    ///
    /// # Errors
    ///
    /// `Unavailable` if memory runs out.
    pub async fn in_memory() -> Result<Self, StoreError> {
        let opened = async {
            let location = Location::Memory(format!("/vnfm-{}", Uuid::new_v4()));
            let opened = Opened {
                acknowledged: None,
                db: location.open(Access::Write)?,
            };
            Self::on(opened, SecretKeys::ephemeral(), location, None).await
        };
        opened
            .await
            .map_err(|fault: Fault| fault.with_action("create a database in memory"))
    }

    async fn on(
        opened: Opened,
        keys: SecretKeys,
        location: Location,
        file: Option<FileState>,
    ) -> Done<Self> {
        let mut opened = blocking(move || {
            let opened = opened; // as a whole: it is dropped in order if this fails
            schema::migrate(&opened.db, schema::MIGRATIONS)?;
            Ok(opened)
        })
        .await?;
        let keys = key_provider::complete(&mut opened.db, keys).await?;
        let (database, kept_addresses) = blocking(move || {
            let opened = opened;
            let installation_id = opening::prepare(&opened.db, &keys)?;
            upgrade::convert(&opened.db, &keys)?;
            let kept_addresses = kept_addresses::read(&opened.db, &keys)?;
            let database = Database::start(Prepared {
                opened,
                location,
                keys,
                installation_id,
            })?;
            Ok((database, kept_addresses))
        })
        .await?;
        Ok(Self {
            database,
            kept_addresses,
            quotas: OnceLock::new(),
            file,
        })
    }

    /// Closes the database, which checkpoints the write-ahead log. Dropping the store is safe too.
    ///
    /// # Errors
    ///
    /// `Unavailable` if the disk fails; nothing that was acknowledged is lost.
    pub async fn close(self) -> Result<(), StoreError> {
        let Self { database, file, .. } = self;
        let closed = blocking(move || {
            let closed = database.close();
            drop(file);
            closed
        });
        closed
            .await
            .map_err(|fault| fault.with_action("close the database"))
    }

    /// The addresses that VIMs keep which were in use before addresses were checked.
    pub fn unchecked_addresses(&self) -> Vec<UncheckedAddress> {
        self.kept_addresses.all()
    }
}

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Done<T> + Send + 'static) -> Done<T> {
    let done = spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(StoreError::Broken(error.to_string()).into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::one;
    use crate::readers::READERS;
    use crate::statement::Query;
    use futures::future::join_all;
    use serde_json::json;
    use std::os::unix::fs::MetadataExt as _;
    use std::sync::Barrier;
    use vnfm_core::ports::{Change, OutboxRow, Store as _, VimRecord};

    impl SqliteStore {
        /// The value of a PRAGMA on the writer's connection, then on each of the others.
        async fn pragma(&self, sql: &'static str) -> Vec<i64> {
            let on_writer = self.database.task("query the writer", move |writer| {
                one(&writer.db, &Query::new(sql))
            });
            let mut values = vec![on_writer.await.unwrap()];
            // Each reading thread takes one of these and waits for the others.
            let barrier = Arc::new(Barrier::new(READERS));
            let on_readers = (0..READERS).map(|_| {
                let barrier = barrier.clone();
                self.database.read("query a reader", move |db| {
                    barrier.wait();
                    one::<i64>(db, &Query::new(sql))
                })
            });
            values.extend(join_all(on_readers).await.into_iter().map(Result::unwrap));
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
        assert_eq!(store.pragma("PRAGMA synchronous").await, [2; 5], "FULL");
        assert_eq!(store.pragma("PRAGMA foreign_keys").await, [1; 5]);
        assert_eq!(store.pragma("PRAGMA secure_delete").await, [1; 5]);
        assert_eq!(store.pragma("PRAGMA temp_store").await, [2; 5], "MEMORY");
        assert!(folder.path().join("vnfm.db-wal").exists());
        store.close().await.unwrap();
        assert!(!folder.path().join("vnfm.db-wal").exists());
    }

    /// Two stores as of two processes: neither knows what the other one writes.
    #[tokio::test]
    async fn a_change_of_a_vim_by_another_process_is_seen_at_the_next_read() {
        let folder = tempfile::tempdir().unwrap();
        let (path, keys) = (folder.path().join("vnfm.db"), SecretKeys::ephemeral());
        create(&path).unwrap();
        let open = async || {
            let location = Location::File(path.clone());
            let opened = Opened {
                acknowledged: None,
                db: location.open(Access::Write).unwrap(),
            };
            SqliteStore::on(opened, keys.clone(), location, None)
                .await
                .unwrap_or_else(|_| panic!("cannot open the store"))
        };
        let (one, other) = (open().await, open().await);
        let registered = |password: &str| VimRecord {
            tenant: "default".into(),
            version: 1,
            vim: serde_json::from_value(json!({"id": "v", "name": "cloud", "vimType": "t",
                "createdAt": "2026-01-01T00:00:00Z", "updatedAt": "2026-01-01T00:00:00Z"}))
            .unwrap(),
            access_info: json!({"password": password}).into(),
        };
        let change = async |change| one.write(None, vec![change]).await.unwrap();
        let seen = async |name| other.vim("default", name).await.map(|vim| vim.access_info);
        change(Change::AddVim(Box::new(registered("first")))).await;
        assert_eq!(seen("v").await.unwrap(), registered("first").access_info);
        let changed = one.vim("default", "v").await.unwrap();
        let changed = VimRecord {
            access_info: registered("second").access_info,
            ..changed
        };
        change(Change::PutVim(Box::new(changed))).await;
        for name in ["v", "cloud"] {
            assert_eq!(seen(name).await.unwrap(), registered("second").access_info);
        }
        let remove = || Change::RemoveVim {
            tenant: "default".into(),
            id: "v".into(),
            force: false,
        };
        change(remove()).await;
        assert!(seen("v").await.is_err());
        // Registered again with the id, the version and the times that the other store has seen before.
        change(Change::AddVim(Box::new(registered("third")))).await;
        assert_eq!(seen("v").await.unwrap(), registered("third").access_info);
        change(remove()).await;
        change(Change::AddVim(Box::new(registered("fourth")))).await;
        assert_eq!(seen("v").await.unwrap(), registered("fourth").access_info);
    }

    /// Without that lock, another process that reads the database takes the log's index for a leftover
    /// and truncates it under us.
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

//! An open database: the thread that writes, the threads that read, and what they share. Everything above is written
//! as queries, statements and tasks.

use crate::executor;
use crate::fault::Done;
use crate::group_commit::{Answer, Group, Opened, Shared, Work, Writer};
use crate::location::Location;
use crate::readers::Readers;
use crate::secret_keys::SecretKeys;
use crate::statement::{Query, Row};
use crate::vim_record_cache::VimCache;
use rusqlite::Connection;
use std::path::Path;
use std::sync::{Arc, RwLock};
use tokio::sync::{Mutex, MutexGuard, watch};
use vnfm_core::ports::StoreError;

/// An open database with its threads: one writes, several read.
pub(crate) struct Database {
    // Dropped in order: the writer first.
    group: Group,
    readers: Readers,
    pub(crate) shared: Arc<Shared>,
    pub(crate) installation_id: String,
    /// Held while keys are changed: one change at a time.
    rotation: Mutex<()>,
}

/// A database that is prepared for use.
pub(crate) struct Prepared {
    pub(crate) opened: Opened,
    pub(crate) location: Location,
    pub(crate) keys: SecretKeys,
    pub(crate) installation_id: String,
}

impl Database {
    /// Starts the writing thread and the reading threads.
    pub(crate) fn start(prepared: Prepared) -> Done<Self> {
        let shared = Arc::new(Shared {
            keys: RwLock::new(Arc::new(prepared.keys)),
            location: prepared.location,
            vims: VimCache::default(),
            change_counters: watch::Sender::default(),
            exclusive: Arc::default(),
        });
        Ok(Self {
            readers: Readers::start(&shared.location, &shared.exclusive)?,
            group: Group::start(shared.clone(), prepared.opened)?,
            shared,
            installation_id: prepared.installation_id,
            rotation: Mutex::new(()),
        })
    }

    /// Commits the changes of `work` with others that wait, by [`Group::execute`].
    pub(crate) async fn execute(&self, work: Work) -> Result<Answer, StoreError> {
        self.group.execute(work).await
    }

    /// Runs `task` alone on the writing thread, by [`Group::task`].
    pub(crate) async fn task<T: Send + 'static>(
        &self,
        action: &'static str,
        task: impl FnOnce(&mut Writer) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.group.task(action, task).await
    }

    /// Runs several queries on one reading thread.
    pub(crate) async fn read<T: Send + 'static>(
        &self,
        action: &str,
        read: impl FnOnce(&Connection) -> Done<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let read = self.readers.read(read).await;
        read.map_err(|fault| fault.with_action(action))
    }

    /// All rows of a query, each made into a record.
    pub(crate) async fn all<T>(
        &self,
        action: &str,
        query: Query,
        record: impl Fn(Row) -> Done<T>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self
            .readers
            .read(move |db| executor::rows(db, &query))
            .await;
        rows.and_then(|rows| rows.into_iter().map(record).collect())
            .map_err(|fault| fault.with_action(action))
    }

    /// Like [`Self::all`], for rows with sealed columns. The keys are those of after the query: one that
    /// came meanwhile is among them.
    pub(crate) async fn unsealed<T>(
        &self,
        action: &str,
        query: Query,
        record: impl Fn(Row, &SecretKeys) -> Done<T>,
    ) -> Result<Vec<T>, StoreError> {
        let rows = self.all(action, query, Ok).await?;
        let keys = self.keys();
        let records = rows.into_iter().map(|row| record(row, &keys));
        records
            .collect::<Done<_>>()
            .map_err(|fault| fault.with_action(action))
    }

    /// The current keys; a rotation replaces them.
    pub(crate) fn keys(&self) -> Arc<SecretKeys> {
        self.shared.keys()
    }

    /// Waits until no other change of keys is in progress.
    pub(crate) async fn lock_rotation(&self) -> MutexGuard<'_, ()> {
        self.rotation.lock().await
    }

    /// The path of the file; `None` in memory.
    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.shared.location {
            Location::File(path) => Some(path),
            Location::Memory(_) => None,
        }
    }

    /// Stops the threads and closes the connections; the writer's is the last, so it checkpoints the log.
    pub(crate) fn close(mut self) -> Done<()> {
        drop(self.readers);
        self.group.stop()
    }
}

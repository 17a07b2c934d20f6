//! Files that are stored with instances, counted against the quota `stored_file_bytes` of their tenant.
//!
//! ```text
//! begin ─ reservation of the size ─ the caller writes ─┬─ complete: the file has its name; its size replaces the reservation
//!                                                      └─ discard, or dropped: removed; the reservation is released
//! ```
//! Each file counts as a reservation in the database, in whose transaction the quota is checked: any number of files may
//! arrive at once. The disk is what is true: after each change the file is counted as it is there, and
//! [`StoredFiles::count`] counts all of them when a server starts.

use crate::ports::{
    Change, Code, ErrorKind, InstanceFiles, PortError, QuotaResource, Store, StoreError,
};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use uuid::Uuid;
use vnfm_types::StoredFile;

/// Files that are counted in one transaction.
const BATCH: usize = 1_000;

/// The files of all instances.
pub struct StoredFiles {
    disk: Arc<dyn InstanceFiles>,
    store: Arc<dyn Store>,
    /// Held from a look at the disk until what was seen is counted.
    counting: futures_util::lock::Mutex<()>,
    /// Files whose [`Incoming`] was dropped; the next file that is stored removes them first.
    dropped: Mutex<Vec<Arrival>>,
}

/// The instance that a file is stored with.
#[derive(Debug, Clone, Copy)]
pub struct FileOwner<'a> {
    /// The tenant whose quota counts.
    pub tenant: &'a str,
    /// `id` of the VNF instance.
    pub instance_id: &'a str,
}

/// A file that is being written. It is removed if it is dropped before it is complete.
pub struct Incoming<'a> {
    files: &'a StoredFiles,
    arrival: Arrival,
    is_settled: bool,
}

/// A file on its way, and the id of the reservation for it.
#[derive(Clone)]
struct Arrival {
    tenant: String,
    instance_id: String,
    name: String,
    local: PathBuf,
    reservation: String,
}

impl StoredFiles {
    /// Files on `disk`, counted in `store`.
    pub fn new(disk: Arc<dyn InstanceFiles>, store: Arc<dyn Store>) -> Self {
        Self {
            disk,
            store,
            counting: futures_util::lock::Mutex::default(),
            dropped: Mutex::default(),
        }
    }

    /// The files of an instance, ordered by name.
    ///
    /// # Errors
    ///
    /// Those of [`InstanceFiles::list`].
    pub async fn list(&self, instance_id: &str) -> Result<Vec<StoredFile>, PortError> {
        self.disk.list(instance_id).await
    }

    /// A file and its local path, with its content checked.
    ///
    /// # Errors
    ///
    /// Those of [`InstanceFiles::open`].
    pub async fn open(
        &self,
        instance_id: &str,
        name: &str,
    ) -> Result<(StoredFile, PathBuf), PortError> {
        self.disk.open(instance_id, name).await
    }

    /// Begins to store a file of at most `bytes` bytes, which are reserved until it is complete. A file of that name stays
    /// until then, and counts too.
    ///
    /// # Errors
    ///
    /// `file.quota` if the tenant would exceed its quota; else those of [`InstanceFiles::begin`]. Nothing is left behind.
    pub async fn begin(
        &self,
        owner: FileOwner<'_>,
        name: &str,
        bytes: u64,
    ) -> Result<Incoming<'_>, PortError> {
        self.remove_dropped().await;
        let local = self.disk.begin(owner.instance_id, name, bytes).await?;
        let mut incoming = self.incoming(Arrival {
            tenant: owner.tenant.to_owned(),
            instance_id: owner.instance_id.to_owned(),
            name: name.to_owned(),
            local,
            reservation: format!("incoming/{}", Uuid::new_v4()),
        });
        let id = incoming.arrival.reservation.clone();
        let reserved = self.store.write(None, vec![reserve(owner, id, bytes)]);
        if let Err(error) = reserved.await {
            // A quota that refuses has reserved nothing.
            incoming.is_settled = matches!(error, StoreError::QuotaExceeded { .. });
            incoming.discard().await;
            return Err(refused(error, name, bytes));
        }
        Ok(incoming)
    }

    /// Deletes a file; succeeds if it does not exist.
    ///
    /// # Errors
    ///
    /// `Unavailable` if disk or database do not respond; a second call then deletes and counts the rest.
    pub async fn remove(&self, owner: FileOwner<'_>, name: &str) -> Result<(), PortError> {
        self.disk.remove(owner.instance_id, name).await?;
        self.count_one(owner, name, None).await
    }

    /// Deletes all files of an instance; succeeds if there are none.
    ///
    /// # Errors
    ///
    /// `Unavailable` if disk or database do not respond.
    pub(crate) async fn remove_all(&self, instance_id: &str) -> Result<(), PortError> {
        let _counting = self.counting.lock().await;
        // What cannot be listed counts until the next start.
        let files = self.disk.list(instance_id).await.unwrap_or_default();
        self.disk.remove_all(instance_id).await?;
        let releases = files.iter().map(|file| Change::Release {
            id: file_id(instance_id, &file.name),
        });
        self.write(releases.collect()).await
    }

    /// Counts the files of `instances`, given with their tenants, when a server starts: before it enforces quotas.
    ///
    /// # Errors
    ///
    /// `Unavailable` if disk or database do not respond.
    pub async fn count(&self, instances: Vec<(String, String)>) -> Result<(), PortError> {
        let mut with_files: BTreeSet<_> = self.disk.instances().await?.into_iter().collect();
        let mut changes = Vec::new();
        for (tenant, id) in instances {
            if !with_files.remove(&id) {
                continue;
            }
            let owner = FileOwner {
                tenant: &tenant,
                instance_id: &id,
            };
            for file in self.disk.list(&id).await? {
                changes.push(reserve(owner, file_id(&id, &file.name), file.bytes));
                if changes.len() == BATCH {
                    self.write(std::mem::take(&mut changes)).await?;
                }
            }
        }
        for id in with_files {
            tracing::warn!(
                vnf = id,
                "files are stored with a VNF instance that does not exist"
            );
        }
        self.write(changes).await
    }

    /// Counts a file as it is on the disk now, in place of the reservation.
    async fn count_one(
        &self,
        owner: FileOwner<'_>,
        name: &str,
        reservation: Option<&str>,
    ) -> Result<(), PortError> {
        let _counting = self.counting.lock().await;
        let files = self.disk.list(owner.instance_id).await?;
        let id = file_id(owner.instance_id, name);
        let as_found = match files.iter().find(|file| file.name == name) {
            Some(file) => reserve(owner, id, file.bytes),
            None => Change::Release { id },
        };
        let release = reservation.map(|id| Change::Release { id: id.to_owned() });
        let changes = release.into_iter().chain([as_found]).collect();
        self.write(changes).await
    }

    async fn write(&self, changes: Vec<Change>) -> Result<(), PortError> {
        if !changes.is_empty() {
            self.store.write(None, changes).await?;
        }
        Ok(())
    }

    fn incoming(&self, arrival: Arrival) -> Incoming<'_> {
        Incoming {
            files: self,
            arrival,
            is_settled: false,
        }
    }

    /// Removes the files that were dropped before they were complete.
    async fn remove_dropped(&self) {
        let dropped = std::mem::take(&mut *self.dropped());
        let dropped: Vec<_> = dropped.into_iter().map(|one| self.incoming(one)).collect();
        for incoming in dropped {
            incoming.discard().await;
        }
    }

    fn dropped(&self) -> MutexGuard<'_, Vec<Arrival>> {
        self.dropped.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Incoming<'_> {
    /// Where the caller writes the file: it exists, empty, and only this process can read it.
    pub fn local(&self) -> &Path {
        &self.arrival.local
    }

    /// Stores what was written under its name, and replaces a file of that name. If `sha256` is given and is not that of
    /// the content, removes it instead.
    ///
    /// # Errors
    ///
    /// Those of [`InstanceFiles::complete`]. Nothing is left behind.
    pub async fn complete(self, sha256: Option<&str>) -> Result<StoredFile, PortError> {
        let (disk, arrival) = (&self.files.disk, &self.arrival);
        let written = (arrival.local.clone(), sha256);
        let stored = disk.complete(&arrival.instance_id, &arrival.name, written);
        let stored = stored.await;
        match stored {
            Ok(_) => self.settle().await,
            Err(_) => self.discard().await,
        }
        stored
    }

    /// Removes what was written, and releases what is reserved for it.
    pub async fn discard(self) {
        self.files.disk.discard(self.arrival.local.clone()).await;
        self.settle().await;
    }

    /// Counts what is on the disk instead of the reservation. If that fails, the reservation counts until the next attempt.
    async fn settle(mut self) {
        if self.is_settled {
            return;
        }
        let Arrival {
            tenant,
            instance_id,
            name,
            reservation,
            ..
        } = &self.arrival;
        let owner = FileOwner {
            tenant,
            instance_id,
        };
        let counted = self.files.count_one(owner, name, Some(reservation)).await;
        match counted {
            Ok(()) => self.is_settled = true,
            Err(error) => {
                tracing::warn!(vnf = instance_id, file = name, %error, "a stored file is counted later");
            }
        }
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        if !self.is_settled {
            self.files.dropped().push(self.arrival.clone());
        }
    }
}

/// The id of the reservation by which a stored file counts.
fn file_id(instance_id: &str, name: &str) -> String {
    format!("file/{instance_id}/{name}")
}

fn reserve(owner: FileOwner<'_>, id: String, amount: u64) -> Change {
    Change::Reserve {
        tenant: owner.tenant.to_owned(),
        id,
        what: QuotaResource::StoredFileBytes,
        amount,
    }
}

fn refused(error: StoreError, name: &str, bytes: u64) -> PortError {
    let StoreError::QuotaExceeded {
        tenant, used, most, ..
    } = error
    else {
        return error.into();
    };
    let what = format!(
        "the stored files of the tenant `{tenant}` have {used} bytes, and may have {most} (quota `stored_file_bytes`); this \
         file has {bytes}"
    );
    PortError::new(&QUOTA, format!("store `{name}`"), what)
}

pub(crate) const QUOTA: Code = Code {
    name: "file.quota",
    kind: ErrorKind::Refused,
    means: "a file would exceed what the tenant may store with its instances",
    next: "delete stored files that are not needed, or have the operator raise `access.quota.stored_file_bytes`, then retry",
};

//! Reserves a tenant's quota `package_bytes` while a package arrives. Reservations are stored in the database as bytes
//! come, so incoming packages count like stored ones. A reservation is released when it is dropped, when the package
//! is refused, or when it is stored and counts with its own size.

use super::Onboarding;
use crate::problem::HandlerResult;
use std::sync::Arc;
use vnfm_core::ports::{Change, PackageRecord, QuotaResource, Store, StoreError};

/// Reserved bytes, until this is dropped.
pub(super) struct QuotaReservation {
    store: Arc<dyn Store>,
    tenant: String,
    id: String,
    bytes: u64,
}

impl QuotaReservation {
    pub(super) fn new(store: &Arc<dyn Store>, tenant: &str) -> Self {
        let id = uuid::Uuid::new_v4().to_string();
        Self {
            store: store.clone(),
            tenant: tenant.to_owned(),
            id,
            bytes: 0,
        }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Changes the reservation to `bytes` in total.
    ///
    /// # Errors
    ///
    /// 403 if the quota does not allow it; the reservation is then unchanged.
    pub(super) async fn set(&mut self, bytes: u64) -> HandlerResult<()> {
        let (tenant, id) = (self.tenant.clone(), self.id.clone());
        // If this future is dropped during the write, the outcome is unknown: assume the larger value.
        let before = self.bytes;
        self.bytes = before.max(bytes);
        let reserve = Change::Reserve {
            tenant,
            id,
            what: QuotaResource::PackageBytes,
            amount: bytes,
        };
        if let Err(error) = self.store.write(None, vec![reserve]).await {
            self.bytes = before;
            return Err(error.into());
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Releases the reservation now; if that fails, dropping it tries again.
    pub(super) async fn release_now(&mut self) {
        if let Some(release) = self.release_change()
            && self.store.write(None, vec![release]).await.is_ok()
        {
            self.mark_released();
        }
    }

    /// The change that releases the reservation, if there is one; call [`Self::mark_released`] after writing it.
    pub(super) fn release_change(&self) -> Option<Change> {
        (self.bytes > 0).then(|| Change::Release {
            id: self.id.clone(),
        })
    }

    pub(super) fn mark_released(&mut self) {
        self.bytes = 0;
    }
}

impl Drop for QuotaReservation {
    fn drop(&mut self) {
        let (Some(release), Ok(runtime)) =
            (self.release_change(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let store = self.store.clone();
        runtime.spawn(async move {
            if let Err(error) = store.write(None, vec![release]).await {
                tracing::warn!(%error, "cannot release a quota reservation; the next start releases it");
            }
        });
    }
}

impl Onboarding {
    /// Writes the onboarding results of a stored package: its size replaces the reservation.
    pub(super) async fn keep(
        &self,
        record: &mut PackageRecord,
        aside: &mut QuotaReservation,
    ) -> Result<(), StoreError> {
        let bytes = self.size(&record.info.id).await;
        let _writing = self.writing.lock().await;
        let now = self
            .store
            .package_record(&record.tenant, &record.info.id)
            .await?;
        record.info.user_defined_data = now.info.user_defined_data;
        let (tenant, id) = (record.tenant.clone(), record.info.id.clone());
        let mut changes = vec![
            Change::PutPackage(Box::new(record.clone())),
            Change::PackageSize { tenant, id, bytes },
        ];
        changes.extend(aside.release_change());
        self.store.write(None, changes).await?;
        aside.mark_released();
        Ok(())
    }

    /// How many bytes the files of a package have.
    async fn size(&self, id: &str) -> u64 {
        let mut bytes = 0;
        // One that is not onboarded has no file.
        for path in self.packages.files(id).unwrap_or_default() {
            bytes += tokio::fs::metadata(path).await.map_or(0, |file| file.len());
        }
        bytes
    }

    /// Notes the sizes of packages that were onboarded before sizes were kept, each by its tenant and id.
    ///
    /// # Errors
    ///
    /// 503 where the database does not answer.
    pub(crate) async fn measure(&self, packages: Vec<(String, String)>) -> HandlerResult<()> {
        for (tenant, id) in packages {
            let bytes = self.size(&id).await;
            self.store
                .write(None, vec![Change::PackageSize { tenant, id, bytes }])
                .await?;
        }
        Ok(())
    }
}

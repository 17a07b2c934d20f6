//! What of a tenant's quota `package_bytes` is set aside for a package that is arriving. It is written to the database as
//! bytes come, so packages on their way count like those that are there, and it is released with what it is for: when
//! that is dropped, refused, or kept under its own size.

use super::Onboarding;
use crate::problem::Answer;
use std::sync::Arc;
use vnfm_core::ports::{Change, PackageRecord, QuotaResource, Store, StoreError};

/// Bytes that are set aside, until this is dropped.
pub(super) struct Aside {
    store: Arc<dyn Store>,
    tenant: String,
    id: String,
    bytes: u64,
}

impl Aside {
    /// Nothing yet.
    pub(super) fn new(store: &Arc<dyn Store>, tenant: &str) -> Self {
        let id = uuid::Uuid::new_v4().to_string();
        Self {
            store: store.clone(),
            tenant: tenant.to_owned(),
            id,
            bytes: 0,
        }
    }

    /// How many bytes are.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// So many bytes in all from now on.
    ///
    /// # Errors
    ///
    /// 403 where the tenant may not have them; then it is as it was.
    pub(super) async fn set(&mut self, bytes: u64) -> Answer<()> {
        let (tenant, id) = (self.tenant.clone(), self.id.clone());
        // Whoever is dropped while this is written does not know whether it was.
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

    /// Releases it now; where the database does not answer, once more when it is dropped.
    pub(super) async fn give_back(&mut self) {
        if let Some(release) = self.release()
            && self.store.write(None, vec![release]).await.is_ok()
        {
            self.is_released();
        }
    }

    /// What releases it; nothing where nothing is set aside. [`Self::is_released`] once that is written.
    pub(super) fn release(&self) -> Option<Change> {
        (self.bytes > 0).then(|| Change::Release {
            id: self.id.clone(),
        })
    }

    /// What releases it was written.
    pub(super) fn is_released(&mut self) {
        self.bytes = 0;
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        let (Some(release), Ok(runtime)) = (self.release(), tokio::runtime::Handle::try_current())
        else {
            return;
        };
        let store = self.store.clone();
        runtime.spawn(async move {
            if let Err(error) = store.write(None, vec![release]).await {
                tracing::warn!(%error, "what was set aside of a quota is released at the next start");
            }
        });
    }
}

impl Onboarding {
    /// Writes what onboarding has found of a package whose files are kept now: their size takes the place of what was
    /// set aside for it.
    pub(super) async fn keep(
        &self,
        record: &mut PackageRecord,
        aside: &mut Aside,
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
        changes.extend(aside.release());
        self.store.write(None, changes).await?;
        aside.is_released();
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
    pub async fn measure(&self, packages: Vec<(String, String)>) -> Answer<()> {
        for (tenant, id) in packages {
            let bytes = self.size(&id).await;
            self.store
                .write(None, vec![Change::PackageSize { tenant, id, bytes }])
                .await?;
        }
        Ok(())
    }
}

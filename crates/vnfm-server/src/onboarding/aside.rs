//! What of a tenant's quota `package_bytes` is set aside for a package that is arriving. It is written to the database as
//! bytes come, so packages on their way count like those that are there, and it is released with what it is for: when
//! that is dropped, refused, or kept under its own size.

use crate::problem::Answer;
use std::sync::Arc;
use vnfm_core::ports::{Change, Counted, Store};

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
        Self { store: store.clone(), tenant: tenant.to_owned(), id, bytes: 0 }
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
        let reserve = Change::Reserve { tenant, id, what: Counted::PackageBytes, amount: bytes };
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
        (self.bytes > 0).then(|| Change::Release { id: self.id.clone() })
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

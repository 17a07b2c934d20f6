//! Deletion of retained volumes. Operations retain them and use them ([`volume_use`](crate::lcm)).
//!
//! ```text
//! delete ── record: DELETING, unless an instance uses it ── the VIM deletes the volume ── no record
//!             │  a crash, or a VIM that does not respond: stays so; a deletion continues
//!             └─ the VIM refuses, as somebody else has attached it: record: AVAILABLE
//! ```

use crate::engine::Engine;
use crate::ports::{Change, Ownership, StoreError, VimCall, VolumeRecord};
use crate::refusal::{Refusal, Why};
use crate::vims::VimHandle;
use std::time::Duration;
use vnfm_types::VolumeState;

/// Time limit of a deletion at the VIM; a shorter limit of steps applies, too.
const TIMEOUT: Duration = Duration::from_mins(2);

impl Engine {
    /// Deletes a retained volume with what it holds: first on the VIM, then its record. If the VIM is no longer registered,
    /// only the record.
    ///
    /// # Errors
    ///
    /// `Conflict`, with the instance that uses it, or if the VIM refuses; `Unavailable` if the VIM does not respond: then the
    /// volume stays `DELETING`.
    pub async fn delete_volume(&self, tenant: &str, id: &str) -> Result<(), Refusal> {
        let record = self.store().volume(tenant, id).await?;
        self.set_volume_state(&record, VolumeState::Deleting)
            .await?;
        if let Some(refusal) = self.deleted_volume(&record).await? {
            if refusal.why == Why::Unavailable {
                return Err(refusal);
            }
            self.set_volume_state(&record, VolumeState::Available)
                .await?;
            let why = match refusal.why {
                Why::Unprocessable => Why::Conflict,
                other => other,
            };
            return Err(Refusal { why, ..refusal });
        }
        let remove = Change::RemoveVolume {
            tenant: tenant.to_owned(),
            id: id.to_owned(),
            used_by: None,
        };
        Ok(self.store().write(None, vec![remove]).await?)
    }

    async fn set_volume_state(
        &self,
        record: &VolumeRecord,
        state: VolumeState,
    ) -> Result<(), Refusal> {
        let set = Change::SetVolumeState {
            tenant: record.tenant.clone(),
            id: record.volume.id.clone(),
            state,
        };
        Ok(self.store().write(None, vec![set]).await?)
    }

    /// Deletes the volume on its VIM; the refusal of the VIM, if it refuses.
    async fn deleted_volume(&self, record: &VolumeRecord) -> Result<Option<Refusal>, Refusal> {
        let (tenant, volume) = (record.tenant.as_str(), &record.volume);
        let registered = match self.store().vim(tenant, &volume.vim_id).await {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            found => found?,
        };
        let driver = self.context.ports.drivers.driver(&registered.vim.vim_type);
        let driver = driver.map_err(Refusal::unprocessable)?;
        let Some(volumes) = driver.volumes() else {
            return Ok(None);
        };
        let vim = VimHandle::registered(&self.context, &registered, tenant, &volume.vim_id);
        let ownership = Ownership {
            installation_id: self.store().installation_id().to_owned(),
            tenant: tenant.to_owned(),
            instance_id: String::new(),
            op_id: String::new(),
        };
        let clock = &*self.context.ports.clock;
        let timeout = TIMEOUT.min(self.context.limits().step);
        let call = VimCall {
            vim: &vim,
            ownership: &ownership,
            clock,
            watcher: &(),
            deadline: clock.now().saturating_add(timeout).unwrap_or_default(),
        };
        let deleted = volumes.delete_volume(&call, volume).await;
        Ok(deleted.err().map(Refusal::unprocessable))
    }
}

//! Retained volumes as resources: creation of empty ones, deletion. Operations retain them and use them
//! ([`volume_use`](crate::lcm)).
//!
//! ```text
//! create ── record: CREATING ── the VIM creates an empty volume ── record: AVAILABLE, with its resourceId
//!              │  a crash, or a VIM that does not respond: stays so; a deletion removes it
//!              └─ the VIM refuses: what it has is deleted, then the record
//! delete ── record: DELETING, unless an instance uses it ── the VIM deletes the volume ── no record
//!              │  a crash, or a VIM that does not respond: stays so; a deletion continues
//!              └─ the VIM refuses, as somebody else has attached it: record: AVAILABLE, if the volume was
//! ```
//! The record is written before the VIM is called, and the volume is tagged with its id: nothing exists that no record or tag
//! explains. Of a creation and a deletion at the same time the deletion wins: the store accepts no end of the creation, which
//! then deletes what it has created.

use crate::engine::Engine;
use crate::lcm;
use crate::ports::Vim as _;
use crate::ports::{Change, FoundVolume, PortError, StoreError, VolumeRecord, Volumes};
use crate::refusal::{self, Refusal, Why};
use crate::tenant_vim::TenantVim;
use vnfm_types::{RetainedVolume, VolumeSpec, VolumeState};

/// Largest empty volume: 1 PiB.
const MAX_SIZE_GIB: u64 = 1 << 20;
/// Longest storage or type, in bytes.
const MAX_NAME: usize = 255;

impl Engine {
    /// Creates an empty volume, and waits until instances can use it.
    ///
    /// # Errors
    ///
    /// `Unprocessable` if the VIM cannot have it, with the VIM's message, and then nothing is left; `Unavailable` if the VIM
    /// does not respond, and then the volume stays `CREATING` until it is deleted, or if it breaks its API.
    pub async fn create_volume(
        &self,
        tenant: &str,
        spec: VolumeSpec,
    ) -> Result<VolumeRecord, Refusal> {
        check(&spec).map_err(unusable)?;
        let vim = self.requested_vim(tenant, &spec.vim_id).await?;
        let volumes = lcm::volumes_on(&vim.handle, &*vim.driver)?;
        let record = self.begin_volume(tenant, spec, &vim).await?;
        match volumes.create_volume(&vim.call(), &record.volume).await {
            Ok(found) => self.finish_volume(record, found, (&vim, volumes)).await,
            Err(error) => Err(self.not_created(&record, error, (&vim, volumes)).await?),
        }
    }

    /// The record of a volume to be created.
    async fn begin_volume(
        &self,
        tenant: &str,
        spec: VolumeSpec,
        vim: &TenantVim<'_>,
    ) -> Result<VolumeRecord, Refusal> {
        let record = VolumeRecord {
            tenant: tenant.to_owned(),
            volume: RetainedVolume {
                id: uuid::Uuid::new_v4().to_string(),
                state: VolumeState::Creating,
                vim_id: vim.id().to_owned(),
                size_gib: Some(spec.size_gib),
                volume_type: spec.volume_type,
                virtual_storage_desc_id: spec.virtual_storage_desc_id,
                created_at: self.now(),
                ..RetainedVolume::default()
            },
        };
        let add = Change::AddVolume(Box::new(record.clone()));
        self.store().write(None, vec![add]).await?;
        Ok(record)
    }

    /// Records what the VIM has created. If a deletion came first, what was created is deleted; if the VIM refuses that, too,
    /// it is an orphan.
    async fn finish_volume(
        &self,
        mut record: VolumeRecord,
        found: FoundVolume,
        (vim, volumes): (&TenantVim<'_>, &dyn Volumes),
    ) -> Result<VolumeRecord, Refusal> {
        let volume = &mut record.volume;
        volume.state = VolumeState::Available;
        volume.resource_id = Some(found.resource_id);
        volume.size_gib = found.size_gib.or(volume.size_gib);
        let finish = Change::FinishVolume(Box::new(record.clone()));
        let finished = self.store().write(None, vec![finish]).await;
        if let Err(StoreError::NotFound { .. } | StoreError::WrongState { .. }) = finished {
            let deleted = volumes.delete_volume(&vim.call(), &record.volume).await;
            if let Err(error) = deleted {
                tracing::warn!(volume = record.volume.id, %error, "a volume whose record was deleted is left");
            }
        }
        finished?;
        Ok(record)
    }

    /// Leaves neither volume nor record of a creation that the VIM refused. If the VIM may still have something, the record
    /// stays, and the refusal says how to remove both.
    async fn not_created(
        &self,
        record: &VolumeRecord,
        error: PortError,
        (vim, volumes): (&TenantVim<'_>, &dyn Volumes),
    ) -> Result<Refusal, Refusal> {
        let volume = &record.volume;
        let is_gone =
            !error.is_unavailable() && volumes.delete_volume(&vim.call(), volume).await.is_ok();
        let refusal = Refusal::of_vim(error);
        if is_gone {
            self.remove_volume(record).await?;
            return Ok(refusal);
        }
        let (id, name) = (&volume.id, vim.handle.name());
        Ok(refusal.hint(format!(
            "volume `{id}` stays CREATING; when VIM `{name}` responds, `vnfmctl volume delete {id}` removes it with what the \
             VIM has of it, and then create it again"
        )))
    }

    /// Deletes a retained volume with what it holds: first on the VIM, then its record. If the VIM is no longer registered,
    /// only the record.
    ///
    /// # Errors
    ///
    /// `Conflict`, with the instance that uses it, or if the VIM refuses; `Unavailable` if the VIM does not respond or breaks
    /// its API: then the volume stays `DELETING`.
    pub async fn delete_volume(&self, tenant: &str, id: &str) -> Result<(), Refusal> {
        let record = self.store().volume(tenant, id).await?;
        self.set_volume_state(&record, VolumeState::Deleting)
            .await?;
        let Some(refusal) = self.deleted_volume(&record).await? else {
            return self.remove_volume(&record).await;
        };
        if refusal.why != Why::Unavailable && record.volume.resource_id.is_some() {
            self.set_volume_state(&record, VolumeState::Available)
                .await?;
        }
        let why = match refusal.why {
            Why::Unprocessable => Why::Conflict,
            other => other,
        };
        Err(Refusal { why, ..refusal })
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

    async fn remove_volume(&self, record: &VolumeRecord) -> Result<(), Refusal> {
        let remove = Change::RemoveVolume {
            tenant: record.tenant.clone(),
            id: record.volume.id.clone(),
            used_by: None,
        };
        Ok(self.store().write(None, vec![remove]).await?)
    }

    /// Deletes the volume on its VIM; the refusal of the VIM, if it refuses.
    async fn deleted_volume(&self, record: &VolumeRecord) -> Result<Option<Refusal>, Refusal> {
        let volume = &record.volume;
        let Some(vim) = self.tenant_vim(&record.tenant, &volume.vim_id).await? else {
            return Ok(None);
        };
        let Some(volumes) = vim.driver.volumes() else {
            return Ok(None);
        };
        let deleted = volumes.delete_volume(&vim.call(), volume).await;
        Ok(deleted.err().map(Refusal::of_vim))
    }
}

fn unusable(what: String) -> Refusal {
    Refusal::new(Why::Unprocessable, &refusal::BAD_VOLUME, what)
}

/// Checks what does not depend on the VIM. The error names the member.
fn check(spec: &VolumeSpec) -> Result<(), String> {
    let texts = [
        ("virtualStorageDescId", Some(&spec.virtual_storage_desc_id)),
        ("volumeType", spec.volume_type.as_ref()),
    ];
    for (member, text) in texts {
        let is_bad = |text: &String| {
            text.is_empty() || text.len() > MAX_NAME || text.chars().any(char::is_control)
        };
        if text.is_some_and(is_bad) {
            return Err(format!(
                "{member}: 1 to {MAX_NAME} bytes without control characters are allowed"
            ));
        }
    }
    if !(1..=MAX_SIZE_GIB).contains(&spec.size_gib) {
        return Err(format!("sizeGib: 1 to {MAX_SIZE_GIB} are allowed"));
    }
    Ok(())
}

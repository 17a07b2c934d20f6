//! Rules about empty volumes. They hold trivially for a driver that cannot create them.

use super::apart::{Apart, Creatable};
use super::test_bed::TestBed;
use async_trait::async_trait;
use std::sync::Arc;
use vnfm_core::ports::{OwnedResource, PortError, VimCall, Volumes};
use vnfm_types::{RetainedVolume, VolumeState};

type Shared = Arc<dyn TestBed>;

/// A volume whose record never learns its id on the VIM, as after a crash.
struct Empty<'s> {
    volumes: &'s dyn Volumes,
    volume: RetainedVolume,
}

impl<'s> Empty<'s> {
    /// A volume to be created on a VIM that can have some.
    async fn on(stand: &'s Shared) -> Option<Creatable<Self>> {
        let (volumes, spec) = (stand.driver().volumes()?, stand.volume()?);
        let volume = RetainedVolume {
            id: uuid::Uuid::new_v4().to_string(),
            state: VolumeState::Creating,
            size_gib: Some(spec.size_gib),
            volume_type: spec.volume_type,
            virtual_storage_desc_id: spec.virtual_storage_desc_id,
            ..RetainedVolume::default()
        };
        Some(Creatable::new(stand, Self { volumes, volume }).await)
    }
}

#[async_trait]
impl Apart for Empty<'_> {
    async fn create(&self, cx: &VimCall<'_>) -> Result<String, PortError> {
        let found = self.volumes.create_volume(cx, &self.volume).await?;
        let size = found.size_gib.or(self.volume.size_gib);
        assert!(size >= self.volume.size_gib, "{found:?}");
        Ok(found.resource_id)
    }

    async fn delete(&self, cx: &VimCall<'_>) -> Result<(), PortError> {
        self.volumes.delete_volume(cx, &self.volume).await
    }

    fn is(&self, owned: &OwnedResource) -> bool {
        owned.volume_id.as_ref() == Some(&self.volume.id)
    }
}

pub(super) async fn an_empty_volume_is_created_once_and_deleted(stand: Shared) {
    if let (Some(it), Some(other)) = (Empty::on(&stand).await, Empty::on(&stand).await) {
        it.is_created_once_and_deleted(&other).await;
    }
}

pub(super) async fn an_interrupted_empty_volume_is_completed_or_deleted(stand: Shared) {
    if let Some(it) = Empty::on(&stand).await {
        it.is_completed_or_deleted().await;
    }
}

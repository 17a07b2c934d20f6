//! Volumes of a [`MemoryVim`]: one of each storage of a VNFC. Retained ones outlive their instance, and empty ones had none.

use crate::made::{Made, Retained};
use crate::vim::MemoryVim;
use async_trait::async_trait;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Allocation, FoundVolume, OwnedResource, PortError, VimCall, Volumes};
use vnfm_types::{RetainedVolume, VirtualStorageResourceInfo};

#[async_trait]
impl Volumes for MemoryVim {
    async fn find_volumes(
        &self,
        cx: &VimCall<'_>,
        storages: &[VirtualStorageResourceInfo],
    ) -> Result<Vec<FoundVolume>, PortError> {
        self.called(cx.vim).await?;
        let found = |storage: &VirtualStorageResourceInfo| FoundVolume {
            resource_id: storage.storage_resource.resource_id.clone(),
            size_gib: None,
        };
        Ok(storages.iter().map(found).collect())
    }

    async fn retain_volumes(
        &self,
        cx: &VimCall<'_>,
        volumes: &[RetainedVolume],
    ) -> Result<(), PortError> {
        self.called(cx.vim).await?;
        let retained = |volume: &RetainedVolume| Retained {
            installation_id: cx.ownership.installation_id.clone(),
            volume: volume.id.clone(),
        };
        let all = volumes.iter();
        let all = all.map(|volume| (volume.on_vim().to_owned(), retained(volume)));
        self.retained().extend(all);
        Ok(())
    }

    async fn unretain_volumes(
        &self,
        cx: &VimCall<'_>,
        volumes: &[RetainedVolume],
    ) -> Result<(), PortError> {
        self.called(cx.vim).await?;
        for volume in volumes {
            self.retained().remove(volume.on_vim());
        }
        Ok(())
    }

    async fn create_volume(
        &self,
        cx: &VimCall<'_>,
        volume: &RetainedVolume,
    ) -> Result<FoundVolume, PortError> {
        self.called(cx.vim).await?;
        let mut retained = self.retained();
        let existing = id_of(&retained, volume);
        let resource_id = existing.unwrap_or_else(|| uuid::Uuid::new_v4().to_string());
        let one = Retained {
            installation_id: cx.ownership.installation_id.clone(),
            volume: volume.id.clone(),
        };
        retained.insert(resource_id.clone(), one);
        Ok(FoundVolume {
            resource_id,
            size_gib: volume.size_gib,
        })
    }

    async fn delete_volume(
        &self,
        cx: &VimCall<'_>,
        volume: &RetainedVolume,
    ) -> Result<(), PortError> {
        self.called(cx.vim).await?;
        let mut retained = self.retained();
        if let Some(id) = id_of(&retained, volume) {
            retained.remove(&id);
        }
        Ok(())
    }
}

/// The id here of the volume of a record: the one that it names, or any if it names none.
fn id_of(retained: &BTreeMap<String, Retained>, volume: &RetainedVolume) -> Option<String> {
    let named = volume.resource_id.as_ref();
    let is_it = |(id, one): &(&String, &Retained)| {
        one.volume == volume.id && named.is_none_or(|named| named == *id)
    };
    retained.iter().find(is_it).map(|(id, _)| id.clone())
}

impl MemoryVim {
    /// Ids of all retained volumes.
    pub fn retained_volumes(&self) -> Vec<String> {
        self.retained().keys().cloned().collect()
    }

    /// Ids of all volumes, of instances and retained.
    pub fn volumes(&self) -> BTreeSet<String> {
        let of_instances = self.instances();
        let of_instances = of_instances.values().flat_map(|made| &made.volumes);
        let all = of_instances.map(|(id, _)| id.clone());
        all.chain(self.retained_volumes()).collect()
    }

    pub(crate) fn owned_volumes(&self, installation_id: &str) -> Vec<OwnedResource> {
        let retained = self.retained();
        let ours = retained
            .iter()
            .filter(|(_, one)| one.installation_id == installation_id);
        ours.map(|(id, one)| OwnedResource {
            kind: "Volume".to_owned(),
            id: id.clone(),
            name: id.clone(),
            instance_id: None,
            snapshot_id: None,
            link_id: None,
            volume_id: Some(one.volume.clone()),
        })
        .collect()
    }
}

impl Made {
    /// Keeps the volumes of storages that the deployment has, and adds those that are missing: retained ones first.
    pub(crate) fn set_volumes(&mut self, target: &Allocation) {
        let deployment = &target.deployment;
        let flavour = target.package.vnfd().flavour(&deployment.flavour_id);
        let mut existing = std::mem::take(&mut self.volumes);
        self.vdu_storages.clear();
        for vdu in flavour
            .into_iter()
            .flat_map(|flavour| flavour.vdus.values())
        {
            let storages = (vdu.name.clone(), vdu.storages.clone());
            self.vdu_storages.extend([storages]);
            for storage in &vdu.storages {
                let wanted = usize::try_from(deployment.instances_of(&vdu.name)).unwrap_or(0);
                let of_storage = existing.extract_if(.., |(_, of)| of == storage);
                let mut all: Vec<_> = of_storage.map(|(id, _)| id).collect();
                let reused = deployment.reused_volumes.iter();
                let reused = reused.filter(|one| one.virtual_storage_desc_id == *storage);
                for one in reused {
                    if !all.contains(&one.resource_id) {
                        all.push(one.resource_id.clone());
                    }
                }
                all.resize_with(wanted, || uuid::Uuid::new_v4().to_string());
                let all = all.into_iter().map(|id| (id, storage.clone()));
                self.volumes.extend(all);
            }
        }
    }
}

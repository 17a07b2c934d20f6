//! Retained volumes on a cloud, simulated or real: they outlive their stack, and come into another one.

use crate::support::{OneVdu, TestBed};
use std::collections::BTreeSet;
use std::sync::Arc;
use vnfm_core::ReusedVolume;
use vnfm_core::ports::{Allocation, ErrorKind, InfraDriver, Recorded, Volumes};
use vnfm_types::{RetainedVolume, VirtualStorageResourceInfo};

/// The storage of the package that is retained.
const STORAGE: &str = "data";

pub(crate) fn volumes(bed: &TestBed) -> &dyn Volumes {
    bed.driver.volumes().unwrap()
}

/// Two servers, each with a volume to boot from and a volume `data`.
pub(crate) fn two_servers(bed: &TestBed) -> Allocation {
    let package = OneVdu {
        count: 2,
        volumes: true,
        ..OneVdu::default()
    };
    package.allocation(bed)
}

pub(crate) fn storages(created: &Recorded) -> Vec<VirtualStorageResourceInfo> {
    let mut all = created.inventory.virtual_storage_resource_info.clone();
    all.retain(|one| one.virtual_storage_desc_id == STORAGE);
    all
}

/// The records of the volumes, as the engine makes them.
pub(crate) async fn found(bed: &TestBed, created: &Recorded) -> Vec<RetainedVolume> {
    let storages = storages(created);
    let found = volumes(bed).find_volumes(&bed.call(), &storages).await;
    let record = |one: vnfm_core::ports::FoundVolume| RetainedVolume {
        id: uuid::Uuid::new_v4().to_string(),
        resource_id: one.resource_id,
        size_gib: one.size_gib,
        virtual_storage_desc_id: STORAGE.into(),
        ..RetainedVolume::default()
    };
    found.unwrap().into_iter().map(record).collect()
}

/// The request of another instance that uses these volumes.
pub(crate) fn reusing(bed: &TestBed, all: &[RetainedVolume]) -> Allocation {
    let mut what = two_servers(bed);
    let reused = |one: &RetainedVolume| ReusedVolume {
        id: one.id.clone(),
        resource_id: one.resource_id.clone(),
        virtual_storage_desc_id: STORAGE.into(),
    };
    Arc::make_mut(&mut what.deployment).reused_volumes = all.iter().map(reused).collect();
    what
}

/// The ids of the retained volumes that the driver lists as ours.
pub(crate) async fn owned(bed: &TestBed) -> BTreeSet<String> {
    let call = bed.call();
    let owned = bed
        .driver
        .owned(call.vim, &call.ownership.installation_id)
        .await
        .unwrap();
    owned.into_iter().filter_map(|one| one.volume_id).collect()
}

fn ids<'a>(all: impl IntoIterator<Item = &'a RetainedVolume>) -> BTreeSet<String> {
    all.into_iter().map(|one| one.id.clone()).collect()
}

fn resources(created: &Recorded) -> BTreeSet<String> {
    let all = storages(created).into_iter();
    all.map(|one| one.storage_resource.resource_id).collect()
}

/// Retained, used by another instance, healed there, retained again by that, and deleted.
pub(crate) async fn a_volume_outlives_its_instances(bed: &TestBed) {
    let what = two_servers(bed);
    let created = bed.instantiate(&what).await.unwrap();
    let all = found(bed, &created).await;
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|one| one.size_gib == Some(1)), "{all:?}");
    volumes(bed)
        .retain_volumes(&bed.call(), &all)
        .await
        .unwrap();
    volumes(bed)
        .retain_volumes(&bed.call(), &all)
        .await
        .unwrap();
    let in_use = volumes(bed).delete_volume(&bed.call(), &all[0]).await;
    let in_use = in_use.unwrap_err();
    assert_eq!(in_use.name(), "openstack.volume-stuck", "{in_use}");
    bed.release(&what, created.handle.clone()).await.unwrap();
    assert_eq!(owned(bed).await, ids(&all));
    // Another termination finds them without the stack.
    let again = found(bed, &created).await.into_iter();
    let again: BTreeSet<_> = again.map(|one| one.resource_id).collect();
    assert_eq!(again, resources(&created));
    let retained = volumes(bed).retain_volumes(&bed.call(), &all).await;
    retained.unwrap();

    let other = bed.other_instance();
    let what = reusing(&other, &all);
    let created = other.instantiate(&what).await.unwrap();
    let expected: BTreeSet<_> = all.iter().map(|one| one.resource_id.clone()).collect();
    assert_eq!(resources(&created), expected);
    let vnfc = created.inventory.vnfc_resource_info[0].id.clone();
    let healed = other.heal(&what, &created, &[vnfc]).await.unwrap();
    assert_eq!(resources(&healed), expected);
    other.release(&what, healed.handle).await.unwrap();
    assert_eq!(owned(bed).await, ids(&all));

    // Another record of the same volume does not delete it.
    let stranger = RetainedVolume {
        id: "another".into(),
        ..all[0].clone()
    };
    let refused = volumes(bed).delete_volume(&bed.call(), &stranger).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Refused, "{refused}");
    for one in &all {
        volumes(bed).delete_volume(&bed.call(), one).await.unwrap();
        volumes(bed).delete_volume(&bed.call(), one).await.unwrap();
    }
    assert_eq!(owned(bed).await, BTreeSet::new());
}

/// What is not retained in the end goes with the stack.
pub(crate) async fn a_reversed_retention_leaves_nothing(bed: &TestBed) {
    let what = two_servers(bed);
    let created = bed.instantiate(&what).await.unwrap();
    let all = found(bed, &created).await;
    assert_eq!(all.len(), 2);
    volumes(bed)
        .retain_volumes(&bed.call(), &all)
        .await
        .unwrap();
    for _ in 0..2 {
        let unretained = volumes(bed).unretain_volumes(&bed.call(), &all).await;
        unretained.unwrap();
    }
    assert_eq!(owned(bed).await, BTreeSet::new());
    bed.release(&what, created.handle).await.unwrap();
}

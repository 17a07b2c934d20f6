//! Retained volumes on a cloud, simulated or real: they outlive their stack, and come into another one.

use crate::support::{OneVdu, TestBed};
use std::collections::BTreeSet;
use std::sync::Arc;
use vnfm_core::ReusedVolume;
use vnfm_core::ports::{
    Allocation, ErrorKind, FoundVolume, InfraDriver, PortError, Recorded, Volumes,
};
use vnfm_types::{RetainedVolume, VirtualStorageResourceInfo, VolumeState};

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
        resource_id: Some(one.resource_id),
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
        resource_id: one.on_vim().to_owned(),
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
    let again = found(bed, &created).await;
    let again: BTreeSet<_> = again.iter().map(|one| one.on_vim().to_owned()).collect();
    assert_eq!(again, resources(&created));
    let retained = volumes(bed).retain_volumes(&bed.call(), &all).await;
    retained.unwrap();

    let other = bed.other_instance();
    let what = reusing(&other, &all);
    let created = other.instantiate(&what).await.unwrap();
    let expected: BTreeSet<_> = all.iter().map(|one| one.on_vim().to_owned()).collect();
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

/// The record of a volume that is about to be created.
pub(crate) fn empty(size_gib: u64, volume_type: Option<&str>) -> RetainedVolume {
    RetainedVolume {
        id: uuid::Uuid::new_v4().to_string(),
        state: VolumeState::Creating,
        size_gib: Some(size_gib),
        volume_type: volume_type.map(Into::into),
        virtual_storage_desc_id: STORAGE.into(),
        ..RetainedVolume::default()
    }
}

pub(crate) async fn create(
    bed: &TestBed,
    volume: &RetainedVolume,
) -> Result<FoundVolume, PortError> {
    volumes(bed).create_volume(&bed.call(), volume).await
}

pub(crate) async fn delete(bed: &TestBed, volume: &RetainedVolume) {
    let deleted = volumes(bed).delete_volume(&bed.call(), volume).await;
    deleted.unwrap();
}

/// Created once, used by one instance after another, and deleted.
pub(crate) async fn an_empty_volume_serves_one_instance_after_another(bed: &TestBed) {
    let mut volume = empty(2, None);
    let found = create(bed, &volume).await.unwrap();
    assert_eq!(found.size_gib, Some(2));
    assert_eq!(create(bed, &volume).await.unwrap(), found);
    assert_eq!(owned(bed).await, ids([&volume]));
    let interrupted = empty(1, None);
    create(bed, &interrupted).await.unwrap();
    delete(bed, &interrupted).await;
    assert_eq!(owned(bed).await, ids([&volume]));
    volume.resource_id = Some(found.resource_id.clone());
    for _ in 0..2 {
        let other = bed.other_instance();
        let what = reusing(&other, std::slice::from_ref(&volume));
        let created = other.instantiate(&what).await.unwrap();
        assert!(resources(&created).contains(&found.resource_id));
        other.release(&what, created.handle).await.unwrap();
        assert_eq!(owned(bed).await, ids([&volume]));
    }
    for _ in 0..2 {
        delete(bed, &volume).await;
    }
    assert_eq!(owned(bed).await, BTreeSet::new());
}

/// What Cinder refuses is reported in its words; of a volume of the type `full`, for which no backend has room, nothing is left.
pub(crate) async fn what_cinder_refuses_is_reported_in_its_words(bed: &TestBed, full: &str) {
    for (volume, code, words) in [
        (
            empty(1, Some("no-such-type")),
            "openstack.not-found",
            "no-such-type could not be found",
        ),
        (empty(20_000, None), "openstack.quota", "quota"),
        (
            empty(1, Some(full)),
            "openstack.volume-not-created",
            "weighted backend",
        ),
    ] {
        let refused = create(bed, &volume).await.unwrap_err();
        assert_eq!(
            (refused.name(), refused.kind()),
            (code, ErrorKind::Refused),
            "{refused}"
        );
        assert!(refused.to_string().contains(words), "{refused}");
        delete(bed, &volume).await;
        assert_eq!(owned(bed).await, BTreeSet::new(), "{code}");
    }
}

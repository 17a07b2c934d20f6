//! Retained volumes on the simulated cloud, with what only a simulation can inject.

use crate::simulated::{assert_clean, bed, world};
use crate::volume_scenarios::{self, found, owned, reusing, storages, two_servers, volumes};
use serde_json::json;
use std::time::Duration;
use vnfm_core::ports::{
    Convergence, ErrorKind, InfraDriver, Release, ResourceAction, ResourceChange,
};
use vnfm_sim::faults::{Fault, Rule, When};

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_outlives_its_instances() {
    let world = world(Duration::ZERO).await;
    volume_scenarios::a_volume_outlives_its_instances(&bed(&world)).await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reversed_retention_leaves_nothing() {
    let world = world(Duration::ZERO).await;
    volume_scenarios::a_reversed_retention_leaves_nothing(&bed(&world)).await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_server_gets_the_volume_of_its_place_with_its_data() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let what = two_servers(&bed);
    let created = bed.instantiate(&what).await.unwrap();
    let all = found(&bed, &created).await;
    for (number, one) in all.iter().enumerate() {
        world
            .cloud()
            .write_disk(&one.resource_id, &format!("data {number}"));
    }
    volumes(&bed)
        .retain_volumes(&bed.call(), &all)
        .await
        .unwrap();
    let plan = plan_release(&bed, &what, &created).await;
    assert_eq!(plan.iter().filter(|kept| **kept).count(), 2, "{plan:?}");
    bed.release(&what, created.handle).await.unwrap();
    let other = bed.other_instance();
    // In the other order.
    let turned: Vec<_> = all.iter().rev().cloned().collect();
    let what = reusing(&other, &turned);
    let created = other.instantiate(&what).await.unwrap();
    for (index, one) in turned.iter().enumerate() {
        let mut vnfcs = created.inventory.vnfc_resource_info.iter();
        let name = json!(format!("server-{index}"));
        let vnfc = vnfcs
            .find(|vnfc| vnfc.metadata.get("name") == Some(&name))
            .unwrap();
        assert!(
            vnfc.storage_resource_ids.contains(&one.resource_id),
            "{vnfc:?}"
        );
    }
    for (number, one) in all.iter().enumerate() {
        let data = world.cloud().disk(&one.resource_id);
        assert_eq!(data, Some(format!("data {number}")));
    }
    other.release(&what, created.handle).await.unwrap();
    for one in &all {
        volumes(&bed).delete_volume(&bed.call(), one).await.unwrap();
    }
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_retained_is_found_without_its_stack_and_nothing_else() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let what = two_servers(&bed);
    let created = bed.instantiate(&what).await.unwrap();
    let all = found(&bed, &created).await;
    volumes(&bed)
        .retain_volumes(&bed.call(), &all[..1])
        .await
        .unwrap();
    bed.release(&what, created.handle.clone()).await.unwrap();
    let both = storages(&created);
    let kept: Vec<_> = both
        .iter()
        .filter(|one| one.storage_resource.resource_id == all[0].resource_id)
        .cloned()
        .collect();
    let again = volumes(&bed).find_volumes(&bed.call(), &kept).await;
    assert_eq!(again.unwrap()[0].resource_id, all[0].resource_id);
    volumes(&bed)
        .retain_volumes(&bed.call(), &all[..1])
        .await
        .unwrap();
    let lost = volumes(&bed).find_volumes(&bed.call(), &both).await;
    let lost = lost.unwrap_err();
    assert_eq!(lost.name(), "openstack.volume-lost", "{lost}");
    volumes(&bed)
        .delete_volume(&bed.call(), &all[0])
        .await
        .unwrap();
    assert_clean(&world);
}

/// Of each volume of the storage, whether a plan of its retention says that it stays.
async fn plan_release(
    bed: &crate::support::TestBed,
    what: &vnfm_core::ports::Allocation,
    created: &vnfm_core::ports::Recorded,
) -> Vec<bool> {
    let how = Release {
        handle: created.handle.clone(),
        grace_seconds: None,
        retained: storages(created).into_iter().map(|one| one.id).collect(),
    };
    let change = ResourceChange::Release {
        what,
        current: created,
        how: &how,
    };
    let plan = bed.driver.plan(&bed.call(), &change).await.unwrap();
    let volumes = plan.resources.into_iter();
    let volumes = volumes.filter(|row| row.kind == "OS::Cinder::Volume");
    volumes
        .map(|row| row.action == ResourceAction::Keep)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_response_is_made_up_for() {
    for call in [
        "cinder.metadata_set",
        "heat.stack_update",
        "cinder.volume_delete",
    ] {
        let world = world(Duration::ZERO).await;
        let bed = bed(&world);
        let what = two_servers(&bed);
        let created = bed.instantiate(&what).await.unwrap();
        let all = found(&bed, &created).await;
        let lost = Fault::Drop { drop: When::After };
        world.faults().add(Rule::new(call, lost).nth(1, 1));
        if let Err(error) = volumes(&bed).retain_volumes(&bed.call(), &all).await {
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{call}: {error}");
            volumes(&bed)
                .retain_volumes(&bed.call(), &all)
                .await
                .unwrap();
        }
        bed.release(&what, created.handle).await.unwrap();
        assert_eq!(owned(&bed).await.len(), 2, "{call}");
        for one in &all {
            if let Err(error) = volumes(&bed).delete_volume(&bed.call(), one).await {
                assert_eq!(error.kind(), ErrorKind::Unavailable, "{call}: {error}");
                volumes(&bed).delete_volume(&bed.call(), one).await.unwrap();
            }
        }
        assert_clean(&world);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_that_is_gone_is_named_before_anything_is_created() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let deleted = vnfm_types::RetainedVolume {
        id: "r".into(),
        resource_id: "no-such-volume".into(),
        ..vnfm_types::RetainedVolume::default()
    };
    let what = reusing(&bed, &[deleted]);
    let refused = bed
        .driver
        .preview(&bed.call(), &Convergence::create(&what))
        .await
        .unwrap_err();
    assert_eq!(
        (refused.name(), refused.resource()),
        ("openstack.volume-lost", Some("no-such-volume")),
        "{refused}"
    );
    assert_clean(&world);
}

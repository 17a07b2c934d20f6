//! Retained volumes on the simulated cloud, with what only a simulation can inject.

use crate::cloud_user::CloudUser;
use crate::simulated::{assert_clean, bed, connection, world};
use crate::volume_scenarios::{
    self, create, delete, empty, found, owned, reusing, storages, two_servers, volumes,
};
use reqwest::Method;
use serde_json::{Value, json};
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
            .write_disk(one.on_vim(), &format!("data {number}"));
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
            vnfc.storage_resource_ids
                .iter()
                .any(|id| id == one.on_vim()),
            "{vnfc:?}"
        );
    }
    for (number, one) in all.iter().enumerate() {
        let data = world.cloud().disk(one.on_vim());
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
        .filter(|one| one.storage_resource.resource_id == all[0].on_vim())
        .cloned()
        .collect();
    let again = volumes(&bed).find_volumes(&bed.call(), &kept).await;
    assert_eq!(again.unwrap()[0].resource_id, all[0].on_vim());
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
        resource_id: Some("no-such-volume".into()),
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

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_volume_serves_one_instance_after_another() {
    let world = world(Duration::ZERO).await;
    volume_scenarios::an_empty_volume_serves_one_instance_after_another(&bed(&world)).await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cinder_refuses_is_reported_in_its_words() {
    let world = world(Duration::ZERO).await;
    volume_scenarios::what_cinder_refuses_is_reported_in_its_words(&bed(&world), "full").await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_creation_goes_on_after_a_lost_response_and_a_short_outage() {
    let lost = Fault::Drop { drop: When::After };
    let fails = Fault::ErrorAfterEffect {
        error_after_effect: 500,
    };
    let outage = Fault::Status { status: 503 };
    for (fault, times) in [(lost, 1), (fails, 1), (outage, 2)] {
        let world = world(Duration::ZERO).await;
        let bed = bed(&world);
        let rule = Rule::new("cinder.volume_create", fault.clone());
        world.faults().add(rule.nth(1, times));
        let volume = empty(1, None);
        create(&bed, &volume).await.unwrap();
        assert_eq!(owned(&bed).await.len(), 1, "{fault:?}");
        assert_eq!(world.ledger().left_behind().len(), 1, "{fault:?}");
        delete(&bed, &volume).await;
        assert_clean(&world);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cinder_that_fails_or_hangs_is_unavailable_and_leaves_what_can_be_deleted() {
    for fault in [
        Fault::Status { status: 500 },
        Fault::Hang { hang: true },
        Fault::HangAfterEffect {
            hang_after_effect: true,
        },
    ] {
        let world = world(Duration::ZERO).await;
        let mut bed = bed(&world);
        bed.seconds = 2;
        let rule = Rule::new("cinder.volume_create", fault.clone());
        world.faults().add(rule.nth(1, u32::MAX));
        let volume = empty(1, None);
        let failed = create(&bed, &volume).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Unavailable, "{fault:?}: {failed}");
        let calls = world.ledger().calls_named("cinder.volume_create").len();
        assert!(calls <= 3, "{fault:?}: {calls} requests");
        world.faults().clear();
        bed.seconds = 60;
        delete(&bed, &volume).await;
        assert_eq!(owned(&bed).await.len(), 0, "{fault:?}");
        assert_clean(&world);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_volumes_of_one_record_are_both_deleted() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let mut volume = empty(1, None);
    let found = create(&bed, &volume).await.unwrap();
    // A request whose response was lost, and that Cinder has accepted after another one.
    let user = CloudUser::log_in(&connection(&world), None).await;
    let path = format!("/volumes/{}", found.resource_id);
    let first = user
        .call(Method::GET, ("volumev3", &path), Value::Null)
        .await;
    user.call(Method::POST, ("volumev3", "/volumes"), first)
        .await;
    assert_eq!(world.ledger().left_behind().len(), 2);
    volume.resource_id = Some(found.resource_id);
    delete(&bed, &volume).await;
    assert_clean(&world);
}

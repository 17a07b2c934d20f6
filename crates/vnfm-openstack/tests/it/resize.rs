//! Other sizes of an instance: generated templates and a package's own. The contract of drivers has the rules; these tests
//! show what a package can do to them.

use crate::heal::{SAMPLES, updates};
use crate::resize_scenarios::{
    a_rollback_removes_what_was_added, an_environment_holds_for_every_size, assert_kept,
    auto_scaling, each_vnfc_is_a_resource, farm, resize, the_announced_servers_go, with_webs,
    with_workers,
};
use crate::simulated::{assert_clean, bed, world};
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{Convergence, InfraDriver, compute_id};

#[tokio::test(flavor = "multi_thread")]
async fn workers_are_added_and_removed_and_the_others_stay() {
    for sample in SAMPLES {
        let world = world(Duration::ZERO).await;
        let bed = bed(&world);
        let allocation = bed.cluster(sample);
        let workers = allocation.deployment.instances_of("workerNode");
        let created = bed.instantiate(&allocation).await.unwrap();
        let large = with_workers(&allocation, workers + 2);
        let grown = resize(&bed, &created, &large).await.unwrap();
        assert_kept(&created, &grown, 2);
        assert_eq!(updates(&world), 1);
        let again = resize(&bed, &created, &large).await.unwrap();
        assert_eq!((again, updates(&world)), (grown.clone(), 1), "{sample}");
        let shrunk = resize(&bed, &grown, &allocation).await.unwrap();
        assert_kept(&shrunk, &grown, 2);
        assert_eq!(shrunk, created, "{sample}");
        bed.release(&allocation, shrunk.handle).await.unwrap();
        assert_clean(&world);
    }
}

/// The smallest fitting flavor and the image's id may be others by now; the existing servers must not be rebuilt for that.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_size_keeps_the_flavors_and_images_of_the_instance() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let allocation = bed.cluster(SAMPLES[0]);
    let workers = allocation.deployment.instances_of("workerNode");
    let created = bed.instantiate(&allocation).await.unwrap();
    let mut large = with_workers(&allocation, workers + 1);
    let image = json!({"name": "old", "id": "an id"});
    let resolved = json!({"flavors": {"workerNode": "m1.medium"}, "images": {"workerNode": image}});
    Arc::make_mut(&mut large.deployment).resolved = resolved;
    let change = Convergence::update(&created, &large);
    let preview = bed.driver.preview(&bed.call(), &change).await.unwrap();
    assert_eq!(preview["flavors"]["workerNode"], "m1.medium");
    assert_eq!(preview["images"]["workerNode"], image);
    // A new instance gets what the cloud has now.
    let change = Convergence::create(&large);
    let preview = bed.driver.preview(&bed.call(), &change).await.unwrap();
    assert_ne!(preview["flavors"]["workerNode"], "m1.medium");
    Arc::make_mut(&mut large.deployment).resolved = json!({"flavors": {"workerNode": "gone"}});
    let change = Convergence::update(&created, &large);
    let error = bed.driver.preview(&bed.call(), &change).await.unwrap_err();
    assert_eq!(error.name(), "openstack.no-flavor");
    bed.release(&allocation, Value::Null).await.unwrap();
    assert_clean(&world);
}

/// Only the additional servers count.
#[tokio::test(flavor = "multi_thread")]
async fn the_quota_has_to_suffice_for_what_is_added() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let allocation = bed.cluster(SAMPLES[0]);
    let created = bed.instantiate(&allocation).await.unwrap();
    let servers = created.inventory.vnfc_resource_info.len();
    let workers = allocation.deployment.instances_of("workerNode");
    world
        .cloud()
        .set_quota("instances", i64::try_from(servers).unwrap() + 1);
    let error = resize(&bed, &created, &with_workers(&allocation, workers + 2)).await;
    assert_eq!(error.unwrap_err().name(), "openstack.quota");
    let grown = resize(&bed, &created, &with_workers(&allocation, workers + 1)).await;
    let grown = grown.unwrap();
    assert_kept(&created, &grown, 1);
    bed.release(&allocation, grown.handle).await.unwrap();
    assert_clean(&world);
}

/// More members than digits: the tenth is not behind the second.
#[tokio::test(flavor = "multi_thread")]
async fn the_last_ones_of_the_inventory_go() {
    for sample in SAMPLES {
        let world = world(Duration::ZERO).await;
        let bed = bed(&world);
        the_announced_servers_go(&bed, &bed.cluster(sample), 12).await;
        assert_clean(&world);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_auto_scaling_group_loses_the_announced_members() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let what = auto_scaling(&bed);
    the_announced_servers_go(&bed, &what, 5).await;
    a_rollback_removes_what_was_added(&bed, &what).await;
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn vnfcs_with_resources_of_their_own_come_and_go_by_index() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let farm = farm(&bed);
    each_vnfc_is_a_resource(&bed, &farm).await;
    let mut farm = farm.clone();
    let placement = &mut Arc::make_mut(&mut farm.deployment).placement;
    placement.zones.insert(compute_id("web", 1), "edge".into());
    let before = bed.instantiate(&farm).await.unwrap();
    let vnfcs = before.inventory.vnfc_resource_info.iter();
    let zones: Vec<_> = vnfcs.map(|vnfc| vnfc.metadata["zone"].as_str()).collect();
    assert_eq!(zones, [Some("nova"), Some("nova"), Some("edge")]);
    resize(&bed, &before, &with_webs(&farm, 4)).await.unwrap();
    let after = resize(&bed, &before, &farm).await.unwrap();
    assert_eq!(after, before, "a rollback removes what was added");
    bed.release(&farm, after.handle).await.unwrap();
    assert_clean(&world);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_of_the_package_is_sent() {
    let world = world(Duration::ZERO).await;
    an_environment_holds_for_every_size(&bed(&world)).await;
    assert_clean(&world);
}

//! Empty volumes on the simulated cluster, with the faults that only a simulation can inject.

use crate::empty_volume_scenarios::{
    self, classes, create, delete, empty, make_class, what_cannot_be_provisioned_is_refused_by_name,
};
use crate::faults::faulty_cluster;
use crate::retained_volumes::{bound, owned, two_pods, with_volumes};
use serde_json::{Value, json};
use vnfm_core::ports::ErrorKind;
use vnfm_sim::faults::{Fault, Rule, When};

#[tokio::test]
async fn an_empty_volume_serves_one_instance_after_another() {
    let (world, _, _) = faulty_cluster().await;
    // As clusters have it, and a class whose volumes stay.
    for (name, policy) in [("deletes", "Delete"), ("retains", "Retain")] {
        let class = make_class(&world, name, json!({"reclaimPolicy": policy})).await;
        empty_volume_scenarios::an_empty_volume_serves_one_instance_after_another(&world, &class)
            .await;
    }
}

#[tokio::test]
async fn an_unrecorded_volume_is_deleted() {
    let (world, _, _) = faulty_cluster().await;
    let class = make_class(&world, "class", json!({})).await;
    empty_volume_scenarios::an_unrecorded_volume_is_deleted(&world, &class).await;
}

#[tokio::test]
async fn a_volume_without_a_place_is_refused_by_name() {
    let (world, _, _) = faulty_cluster().await;
    let class = make_class(&world, "class", json!({})).await;
    empty_volume_scenarios::a_volume_without_a_place_is_refused_by_name(&world, &class).await;
}

#[tokio::test]
async fn empty_volumes_get_the_places_that_others_leave_in_order() {
    let (world, _, _) = faulty_cluster().await;
    let class = make_class(&world, "class", json!({})).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        let mut volume = empty(&world, Some(&class));
        let found = create(&world, &volume, 10).await.unwrap();
        volume.resource_id = Some(found.resource_id);
        all.push(volume);
    }
    // The second one has a place since the first instance; the third one is new.
    for [of_first_pod, of_second_pod] in [[0, 1], [2, 1]] {
        let list = [all[of_first_pod].clone(), all[of_second_pod].clone()];
        let other = world.neighbour();
        let what = with_volumes(two_pods(&class), &list);
        let created = other.instantiate(&what, 10).await.unwrap();
        let bound = bound(&created);
        assert_eq!(bound["data-web-0"], list[0].on_vim());
        assert_eq!(bound["data-web-1"], list[1].on_vim());
        other.terminate(&what, created.handle).await.unwrap();
    }
    let other = world.neighbour();
    let full = with_volumes(two_pods(&class), &all);
    let refused = other.instantiate(&full, 10).await.unwrap_err();
    assert_eq!(refused.name(), "kubernetes.volume", "{refused}");
    other.terminate(&full, Value::Null).await.unwrap();
    for volume in &all {
        delete(&world, volume).await;
    }
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn what_cannot_be_provisioned_is_refused() {
    let (world, _, _) = faulty_cluster().await;
    what_cannot_be_provisioned_is_refused_by_name(&world).await;
}

#[tokio::test]
async fn without_a_type_the_default_class_is_used() {
    let (world, _, _) = faulty_cluster().await;
    let volume = empty(&world, None);
    let refused = create(&world, &volume, 10).await.unwrap_err();
    let text = refused.to_string();
    assert!(text.contains("no default StorageClass"), "{text}");
    let class = make_class(&world, "default", json!({})).await;
    let default = json!({"metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}});
    world.change(&classes(&world), &class, default).await;
    create(&world, &volume, 10).await.unwrap();
    delete(&world, &volume).await;
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_lost_response_at_any_call_is_made_up_for() {
    for (verb, kind) in [
        ("create", "persistentvolumeclaims"),
        ("get", "persistentvolumeclaims"),
        ("patch", "persistentvolumes"),
        ("delete", "persistentvolumeclaims"),
    ] {
        let (world, _, faults) = faulty_cluster().await;
        let class = make_class(&world, "class", json!({})).await;
        let lost = Fault::Drop { drop: When::After };
        let call = format!("kubernetes.{verb}");
        faults.add(Rule::new(call, lost).on(kind).nth(1, 1));
        let volume = empty(&world, Some(&class));
        create(&world, &volume, 30).await.unwrap();
        assert_eq!(owned(&world).await.len(), 1, "{verb} {kind}");
        delete(&world, &volume).await;
        world.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn a_cluster_that_hangs_is_unavailable_and_leaves_what_can_be_deleted() {
    let (world, _, faults) = faulty_cluster().await;
    let class = make_class(&world, "class", json!({})).await;
    let hangs = Fault::HangAfterEffect {
        hang_after_effect: true,
    };
    for (call, kind) in [
        ("kubernetes.create", "persistentvolumeclaims"),
        ("kubernetes.patch", "persistentvolumes"),
    ] {
        faults.add(Rule::new(call, hangs.clone()).on(kind).nth(1, u32::MAX));
        let volume = empty(&world, Some(&class));
        let failed = create(&world, &volume, 3).await.unwrap_err();
        assert_eq!(failed.kind(), ErrorKind::Unavailable, "{failed}");
        faults.clear();
        delete(&world, &volume).await;
        world.assert_nothing_left().await;
    }
}

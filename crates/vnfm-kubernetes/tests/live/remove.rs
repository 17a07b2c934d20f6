//! Termination: blocked deletions, objects of interrupted calls, and shared namespaces.

use crate::support::{CONFIG, World, deployment, package};
use serde_json::{Value, json};
use vnfm_core::ports::ErrorKind;

#[tokio::test]
async fn a_finalizer_that_blocks_a_deletion_is_named() {
    let Some(world) = World::start().await else {
        return;
    };
    let held =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [example.com/hold]}\n";
    let what = package(&[(1, held), (2, CONFIG)], "", json!({}));
    let created = world.instantiate(&what, 20).await.unwrap();
    let stuck = world
        .terminate_within(&what, created.handle.clone(), 3)
        .await
        .unwrap_err();
    assert_eq!(
        (stuck.name(), stuck.kind()),
        ("kubernetes.finalizer", ErrorKind::Refused)
    );
    assert!(
        stuck.to_string().contains("ConfigMap `held`")
            && stuck.to_string().contains("`example.com/hold`"),
        "{stuck}"
    );
    let maps = world.config_maps(&world.namespace());
    assert!(
        maps.get_opt("page").await.unwrap().is_none(),
        "the later stage went first"
    );
    world
        .change(&maps, "held", json!({"metadata": {"finalizers": null}}))
        .await;
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn objects_of_an_interrupted_call_are_deleted_without_a_handle() {
    let Some(world) = World::start().await else {
        return;
    };
    let broken = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: []}\n";
    let what = package(
        &[(1, CONFIG), (2, &deployment(1, "")), (3, broken)],
        "",
        json!({}),
    );
    let error = world.instantiate(&what, 30).await.unwrap_err();
    assert_eq!(error.name(), "kubernetes.rejected", "{error}");
    assert!(world.has_any().await);
    world.terminate(&what, Value::Null).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_namespace_of_two_instances_is_deleted_with_the_last_one() {
    let Some(first) = World::start().await else {
        return;
    };
    let second = first.neighbour();
    let namespace = format!("team-{}", first.owner.instance_id);
    let one = package(&[(1, CONFIG)], "", json!({"namespace": namespace}));
    let two = package(
        &[(1, &deployment(1, ""))],
        "",
        json!({"namespace": namespace}),
    );
    let created = first.instantiate(&one, 20).await.unwrap();
    let other = second.instantiate(&two, 30).await.unwrap();
    assert_eq!(other.inventory.vnfc_resource_info.len(), 1);
    first.terminate(&one, created.handle).await.unwrap();
    let left = first.namespaces().get(&namespace).await.unwrap();
    assert_eq!(
        left.metadata.labels.unwrap()["vnfm.dev/instance"],
        second.owner.instance_id
    );
    assert!(!first.has_any().await);
    second.terminate(&two, other.handle).await.unwrap();
    second.assert_nothing_left().await;
    assert!(
        first
            .namespaces()
            .get_opt(&namespace)
            .await
            .unwrap()
            .is_none()
    );
}

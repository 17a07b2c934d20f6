//! Making it not so: what holds an object, what is left over, and whose namespace it is.

use crate::support::{CONFIG, World, deployment, package};
use kube::api::ListParams;
use serde_json::{Value, json};
use vnfm_core::ports::ErrorKind;

#[tokio::test]
async fn a_finalizer_that_holds_an_object_is_named() {
    let Some(world) = World::live().await else { return };
    let held =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: held, finalizers: [example.com/hold]}\n";
    let what = package(&[(1, held), (2, CONFIG)], "", json!({}));
    let made = world.instantiate(&what, 20).await.unwrap();
    let stuck = world.terminate_within(&what, made.handle.clone(), 3).await.unwrap_err();
    assert_eq!((stuck.name(), stuck.kind()), ("kubernetes.finalizer", ErrorKind::Refused));
    assert!(
        stuck.to_string().contains("ConfigMap `held`")
            && stuck.to_string().contains("`example.com/hold`"),
        "{stuck}"
    );
    let maps = world.config_maps(&world.namespace());
    assert!(maps.get_opt("page").await.unwrap().is_none(), "the later stage went first");
    world.change(&maps, "held", json!({"metadata": {"finalizers": null}})).await;
    world.terminate(&what, made.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_namespace_that_somebody_else_keeps_alive_says_what_is_in_it() {
    let Some(world) = World::live().await else { return };
    let what = package(&[(1, CONFIG)], "", json!({}));
    let made = world.instantiate(&what, 20).await.unwrap();
    let maps = world.config_maps(&world.namespace());
    world.make(&maps, json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "guest", "finalizers": ["example.com/hold"]}})).await;
    let stuck = world.terminate_within(&what, made.handle.clone(), 8).await.unwrap_err();
    assert_eq!(stuck.name(), "kubernetes.finalizer", "{stuck}");
    assert!(stuck.detail().contains("example.com/hold"), "{stuck}");
    world.change(&maps, "guest", json!({"metadata": {"finalizers": null}})).await;
    world.terminate(&what, made.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn what_an_interrupted_call_made_goes_without_a_handle() {
    let Some(world) = World::live().await else { return };
    let broken = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\nspec: {ports: []}\n";
    let what = package(&[(1, CONFIG), (2, &deployment(1, "")), (3, broken)], "", json!({}));
    let error = world.instantiate(&what, 30).await.unwrap_err();
    assert_eq!(error.name(), "kubernetes.rejected", "{error}");
    assert!(world.driver.exists(&world.vim, &world.owner).await.unwrap());
    world.terminate(&what, Value::Null).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn claims_of_a_stateful_set_are_swept_from_a_shared_namespace() {
    let Some(world) = World::live().await else { return };
    let namespace = format!("shared-{}", world.owner.instance_id);
    world.make_namespace(&namespace).await;
    let set = "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {name: web}\nspec:\n  serviceName: web\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers: [{name: web, image: 'localhost/busybox:1', volumeMounts: [{name: data, mountPath: /data}]}]\n  volumeClaimTemplates:\n  - metadata: {name: data}\n    spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}\n";
    let what = package(&[(1, set)], "", json!({"namespace": namespace}));
    let late = world.instantiate(&what, 6).await.unwrap_err();
    assert_eq!(late.name(), "kubernetes.not-ready");
    let claims =
        world.api("v1", "PersistentVolumeClaim", "persistentvolumeclaims", Some(&namespace));
    assert_eq!(claims.list(&ListParams::default()).await.unwrap().items.len(), 1);
    world.terminate(&what, Value::Null).await.unwrap();
    assert_eq!(claims.list(&ListParams::default()).await.unwrap().items.len(), 0);
    world.assert_nothing_left().await;
    assert!(world.namespaces().get_opt(&namespace).await.unwrap().is_some());
    world.clean(&world.namespaces(), &namespace).await;
}

#[tokio::test]
async fn a_namespace_of_two_instances_goes_with_the_last() {
    let Some(first) = World::live().await else { return };
    let second = first.neighbour();
    let namespace = format!("team-{}", first.owner.instance_id);
    let one = package(&[(1, CONFIG)], "", json!({"namespace": namespace}));
    let two = package(&[(1, &deployment(1, ""))], "", json!({"namespace": namespace}));
    let made = first.instantiate(&one, 20).await.unwrap();
    let other = second.instantiate(&two, 30).await.unwrap();
    assert_eq!(other.inventory.vnfc_resource_info.len(), 1);
    first.terminate(&one, made.handle).await.unwrap();
    let left = first.namespaces().get(&namespace).await.unwrap();
    assert_eq!(left.metadata.labels.unwrap()["vnfm.dev/instance"], second.owner.instance_id);
    assert!(!first.driver.exists(&first.vim, &first.owner).await.unwrap());
    second.terminate(&two, other.handle).await.unwrap();
    second.assert_nothing_left().await;
    assert!(first.namespaces().get_opt(&namespace).await.unwrap().is_none());
}

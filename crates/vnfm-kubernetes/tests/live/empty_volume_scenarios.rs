//! Empty volumes on a cluster, simulated or real: provisioned once, used by one instance after another, deleted.

use crate::retained_volumes::{STORAGE, bound, driver, owned, two_pods, volumes, with_volumes};
use crate::support::World;
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_core::ports::{ErrorKind, FoundVolume, PortError};
use vnfm_types::{RetainedVolume, VolumeState};

/// The record of a volume that is about to be created.
pub(crate) fn empty(world: &World, class: Option<&str>) -> RetainedVolume {
    RetainedVolume {
        id: world.neighbour().owner.instance_id,
        state: VolumeState::Creating,
        size_gib: Some(1),
        volume_type: class.map(Into::into),
        virtual_storage_desc_id: STORAGE.into(),
        ..RetainedVolume::default()
    }
}

pub(crate) async fn create(
    world: &World,
    volume: &RetainedVolume,
    seconds: i64,
) -> Result<FoundVolume, PortError> {
    let cx = world.cx(seconds);
    driver(world).create_volume(&cx, volume).await
}

pub(crate) async fn delete(world: &World, volume: &RetainedVolume) {
    let deleted = driver(world).delete_volume(&world.cx(60), volume).await;
    deleted.unwrap();
}

/// A storage class of its own, which other tests do not use.
pub(crate) async fn make_class(world: &World, name: &str, more: Value) -> String {
    let name = format!("{name}-{}", world.owner.instance_id);
    let mut class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
        "provisioner": "empty.example.com"});
    let members = more.as_object().unwrap().clone();
    class.as_object_mut().unwrap().extend(members);
    world.make(&classes(world), class).await;
    name
}

pub(crate) fn classes(world: &World) -> Api<DynamicObject> {
    world.api("storage.k8s.io/v1", "StorageClass", "storageclasses", None)
}

pub(crate) fn claims(world: &World) -> Api<DynamicObject> {
    let namespace = Some("default");
    world.api(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        namespace,
    )
}

/// The claim that the volume is made with does not exist.
async fn assert_no_claim(world: &World, volume: &RetainedVolume) {
    let name = format!("vnfm-volume-{}", volume.id);
    let found = claims(world).get_opt(&name).await.unwrap();
    assert!(found.is_none(), "{found:?}");
}

/// Created once, the volume of the first pod of one instance and of another one, then deleted with its data.
pub(crate) async fn an_empty_volume_serves_one_instance_after_another(world: &World, class: &str) {
    let mut volume = empty(world, Some(class));
    let found = create(world, &volume, 60).await.unwrap();
    assert_eq!(found.size_gib, Some(1));
    assert_eq!(create(world, &volume, 60).await.unwrap(), found);
    let only_it = BTreeSet::from([volume.id.clone()]);
    assert_eq!(owned(world).await, only_it);
    assert_no_claim(world, &volume).await;
    volume.resource_id = Some(found.resource_id.clone());
    for _ in 0..2 {
        let other = world.neighbour();
        let what = with_volumes(two_pods(class), std::slice::from_ref(&volume));
        let created = other.instantiate(&what, 60).await.unwrap();
        let bound = bound(&created);
        assert_eq!(bound["data-web-0"], found.resource_id);
        assert_ne!(bound["data-web-1"], found.resource_id);
        other.terminate(&what, created.handle).await.unwrap();
        assert_eq!(owned(world).await, only_it);
    }
    for _ in 0..2 {
        delete(world, &volume).await;
    }
    let left = volumes(world).get_opt(&found.resource_id).await.unwrap();
    assert!(left.is_none(), "{left:?}");
    world.assert_nothing_left().await;
}

/// The deletion of a volume whose id nobody has recorded.
pub(crate) async fn an_unrecorded_volume_is_deleted(world: &World, class: &str) {
    let volume = empty(world, Some(class));
    create(world, &volume, 60).await.unwrap();
    delete(world, &volume).await;
    world.assert_nothing_left().await;
    delete(world, &volume).await;
}

/// A volume for a storage that the VNF does not mount has no place in it.
pub(crate) async fn a_volume_without_a_place_is_refused_by_name(world: &World, class: &str) {
    let mut volume = empty(world, Some(class));
    volume.resource_id = Some(create(world, &volume, 60).await.unwrap().resource_id);
    let mut what = with_volumes(two_pods(class), std::slice::from_ref(&volume));
    let deployment = std::sync::Arc::make_mut(&mut what.deployment);
    deployment.reused_volumes[0].virtual_storage_desc_id = "logs".into();
    let other = world.neighbour();
    let refused = other.instantiate(&what, 60).await.unwrap_err();
    assert_eq!(refused.name(), "kubernetes.volume", "{refused}");
    assert!(refused.to_string().contains("`logs`"), "{refused}");
    other.terminate(&what, Value::Null).await.unwrap();
    delete(world, &volume).await;
    world.assert_nothing_left().await;
}

/// What cannot be provisioned is refused by the name of its class, and leaves nothing.
pub(crate) async fn what_cannot_be_provisioned_is_refused_by_name(world: &World) {
    let waits = json!({"volumeBindingMode": "WaitForFirstConsumer"});
    let waits = make_class(world, "waits", waits).await;
    let never = json!({"parameters": {"simulated": "never"}});
    let never = make_class(world, "never", never).await;
    for (class, words) in [
        ("no-such", "the cluster has no StorageClass `no-such`"),
        (
            "../../nodes",
            "the cluster has no StorageClass `../../nodes`",
        ),
        (&waits, "only for a pod"),
        (&never, "it is not bound to a volume"),
    ] {
        let volume = empty(world, Some(class));
        let refused = create(world, &volume, 4).await.unwrap_err();
        assert_eq!(
            (refused.name(), refused.kind()),
            ("kubernetes.volume", ErrorKind::Refused),
            "{refused}"
        );
        let text = refused.to_string();
        assert!(text.contains(words) && text.contains(class), "{text}");
        delete(world, &volume).await;
        assert_no_claim(world, &volume).await;
        world.assert_nothing_left().await;
    }
    for class in [waits, never] {
        world.clean(&classes(world), &class).await;
    }
}

//! Retained volumes: they outlive the namespace of the claims, are bound by the claims of another instance, and are deleted as
//! their reclaim policy says.

use crate::support::{World, package};
use kube::api::{Api, DynamicObject};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use vnfm_core::ReusedVolume;
use vnfm_core::ports::{Allocation, ErrorKind, InfraDriver as _, Recorded, Volumes};
use vnfm_types::RetainedVolume;

pub(crate) const STORAGE: &str = "data";

/// Two volumes of the cluster on the host's disk, and a VNF with a claim for each of its two pods.
struct Disks<'w> {
    world: &'w World,
    /// The storage class, and the prefix of the volumes.
    class: String,
    folders: Vec<PathBuf>,
}

impl<'w> Disks<'w> {
    async fn new(world: &'w World, policy: &str) -> Self {
        let class = format!("disks-{}", world.owner.instance_id);
        let mut folders = Vec::new();
        for number in 0..2 {
            // The cluster deletes only paths of this form itself.
            let folder = PathBuf::from(format!("/tmp/{class}-{number}"));
            std::fs::create_dir(&folder).unwrap();
            let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume",
                "metadata": {"name": format!("{class}-{number}")},
                "spec": {"capacity": {"storage": "1536Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": class,
                    "persistentVolumeReclaimPolicy": policy, "hostPath": {"path": folder}}});
            world.make(&volumes(world), volume).await;
            folders.push(folder);
        }
        Self {
            world,
            class,
            folders,
        }
    }

    fn vnf(&self) -> Allocation {
        two_pods(&self.class)
    }

    /// The VNF that uses these volumes.
    fn reusing(&self, all: &[RetainedVolume]) -> Allocation {
        with_volumes(self.vnf(), all)
    }

    /// The names of the volumes that exist.
    async fn names(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        for number in 0..2 {
            let name = format!("{}-{number}", self.class);
            let found = volumes(self.world).get_opt(&name).await.unwrap();
            names.extend(found.map(|_| name));
        }
        names
    }
}

impl Drop for Disks<'_> {
    fn drop(&mut self) {
        for folder in &self.folders {
            let _gone = std::fs::remove_dir_all(folder);
        }
    }
}

/// A VNF with a claim of the class for each of its two pods.
pub(crate) fn two_pods(class: &str) -> Allocation {
    let set = format!(
        "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: web}}\nspec:\n  serviceName: web\n  replicas: 2\n  selector: {{matchLabels: {{app: web}}}}\n  template:\n    metadata: {{labels: {{app: web}}}}\n    spec:\n      containers: [{{name: web, image: 'localhost/busybox:1', volumeMounts: [{{name: data, mountPath: /data}}]}}]\n  volumeClaimTemplates:\n  - metadata: {{name: data}}\n    spec: {{accessModes: [ReadWriteOnce], storageClassName: {class}, resources: {{requests: {{storage: 1Gi}}}}}}\n"
    );
    package(&[(1, set.as_str())], "", json!({}))
}

/// The VNF that uses these volumes.
pub(crate) fn with_volumes(mut what: Allocation, all: &[RetainedVolume]) -> Allocation {
    let reused = |one: &RetainedVolume| ReusedVolume {
        id: one.id.clone(),
        resource_id: one.on_vim().to_owned(),
        virtual_storage_desc_id: STORAGE.into(),
    };
    Arc::make_mut(&mut what.deployment).reused_volumes = all.iter().map(reused).collect();
    what
}

pub(crate) fn volumes(world: &World) -> Api<DynamicObject> {
    world.api("v1", "PersistentVolume", "persistentvolumes", None)
}

pub(crate) fn driver(world: &World) -> &dyn Volumes {
    world.driver.volumes().unwrap()
}

/// The records of the volumes, as the engine makes them.
async fn found(world: &World, created: &Recorded) -> Vec<RetainedVolume> {
    let storages = &created.inventory.virtual_storage_resource_info;
    assert!(
        storages
            .iter()
            .all(|one| one.virtual_storage_desc_id == STORAGE)
    );
    let found = driver(world).find_volumes(&world.cx(60), storages).await;
    let record = |one: vnfm_core::ports::FoundVolume| RetainedVolume {
        id: format!("of-{}", one.resource_id),
        resource_id: Some(one.resource_id),
        size_gib: one.size_gib,
        virtual_storage_desc_id: STORAGE.into(),
        ..RetainedVolume::default()
    };
    found.unwrap().into_iter().map(record).collect()
}

/// The volume of each claim.
pub(crate) fn bound(created: &Recorded) -> BTreeMap<String, String> {
    let storages = created.inventory.virtual_storage_resource_info.iter();
    let volume = |one: &vnfm_types::VirtualStorageResourceInfo| {
        one.metadata["volumeName"].as_str().unwrap().to_owned()
    };
    storages.map(|one| (one.id.clone(), volume(one))).collect()
}

pub(crate) async fn owned(world: &World) -> BTreeSet<String> {
    let installation = &world.owner.installation_id;
    let owned = world.driver.owned(&world.vim, installation).await.unwrap();
    owned.into_iter().filter_map(|one| one.volume_id).collect()
}

/// Another instance has the volumes, a third one cannot; they outlive that, too.
async fn used_by_another(
    disks: &Disks<'_>,
    all: &[RetainedVolume],
    first: &BTreeMap<String, String>,
) {
    let other = disks.world.neighbour();
    let what = disks.reusing(all);
    let created = other.instantiate(&what, 60).await.unwrap();
    assert_eq!(
        bound(&created),
        *first,
        "each claim has the volume that it had"
    );
    let third = disks.world.neighbour();
    let refused = third.instantiate(&what, 60).await.unwrap_err();
    assert_eq!(
        (refused.name(), refused.kind()),
        ("kubernetes.volume", ErrorKind::Refused),
        "{refused}"
    );
    third.terminate(&what, Value::Null).await.unwrap();
    other.terminate(&what, created.handle).await.unwrap();
}

#[tokio::test]
async fn volumes_outlive_their_instances_and_are_deleted_with_their_data() {
    let Some(world) = World::start().await else {
        return;
    };
    let disks = Disks::new(&world, "Delete").await;
    let what = disks.vnf();
    let created = world.instantiate(&what, 60).await.unwrap();
    let all = found(&world, &created).await;
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|one| one.size_gib == Some(2)), "{all:?}");
    for folder in &disks.folders {
        std::fs::write(folder.join("page"), "kept").unwrap();
    }
    let first = bound(&created);
    for _ in 0..2 {
        driver(&world)
            .retain_volumes(&world.cx(60), &all)
            .await
            .unwrap();
    }
    let in_use = driver(&world).delete_volume(&world.cx(60), &all[0]).await;
    let in_use = in_use.unwrap_err();
    assert_eq!(in_use.name(), "kubernetes.volume", "{in_use}");
    assert!(in_use.to_string().contains("is bound to it"), "{in_use}");
    let without_handle = Recorded {
        handle: Value::Null,
        ..created.clone()
    };
    world.terminate(&what, created.handle).await.unwrap();
    let ids: BTreeSet<_> = all.iter().map(|one| one.id.clone()).collect();
    assert_eq!(owned(&world).await, ids);
    assert_eq!(
        found(&world, &without_handle).await,
        all,
        "also without their claims"
    );

    used_by_another(&disks, &all, &first).await;
    let stranger = RetainedVolume {
        id: "another".into(),
        ..all[0].clone()
    };
    let refused = driver(&world).delete_volume(&world.cx(60), &stranger).await;
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Refused);
    for folder in &disks.folders {
        assert_eq!(
            std::fs::read_to_string(folder.join("page")).unwrap(),
            "kept"
        );
    }
    for one in &all {
        for _ in 0..2 {
            driver(&world)
                .delete_volume(&world.cx(60), one)
                .await
                .unwrap();
        }
    }
    assert_eq!(disks.names().await, BTreeSet::new());
    let is_gone = |folder: &PathBuf| !folder.exists();
    assert_eq!(disks.folders.iter().all(is_gone), crate::HAS_DISKS);
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_reversed_retention_leaves_the_policy_that_was() {
    let Some(world) = World::start().await else {
        return;
    };
    let disks = Disks::new(&world, "Delete").await;
    let what = disks.vnf();
    let created = world.instantiate(&what, 60).await.unwrap();
    let all = found(&world, &created).await;
    driver(&world)
        .retain_volumes(&world.cx(60), &all)
        .await
        .unwrap();
    for _ in 0..2 {
        driver(&world)
            .unretain_volumes(&world.cx(60), &all)
            .await
            .unwrap();
    }
    assert_eq!(owned(&world).await, BTreeSet::new());
    for name in disks.names().await {
        let volume = volumes(&world).get(&name).await.unwrap();
        assert_eq!(
            volume.data["spec"]["persistentVolumeReclaimPolicy"],
            "Delete"
        );
    }
    world.terminate(&what, created.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn the_data_of_a_volume_with_another_policy_stay_where_they_are() {
    let Some(world) = World::start().await else {
        return;
    };
    let disks = Disks::new(&world, "Retain").await;
    let what = disks.vnf();
    let created = world.instantiate(&what, 60).await.unwrap();
    let all = found(&world, &created).await;
    driver(&world)
        .retain_volumes(&world.cx(60), &all)
        .await
        .unwrap();
    world.terminate(&what, created.handle).await.unwrap();
    for one in &all {
        driver(&world)
            .delete_volume(&world.cx(60), one)
            .await
            .unwrap();
    }
    assert_eq!(disks.names().await, BTreeSet::new());
    assert!(disks.folders.iter().all(|folder| folder.exists()));
}

//! Empty volumes on the real API server. A stand-in provisions them, as a CSI driver would: the volume controller binds, releases and
//! deletes them.

use crate::empty_volume_scenarios::{
    self, classes, make_class, what_cannot_be_provisioned_is_refused_by_name,
};
use crate::retained_volumes::volumes;
use crate::support::World;
use futures::StreamExt as _;
use kube::ResourceExt as _;
use kube::api::{Api, DynamicObject, ListParams};
use kube::runtime::watcher;
use serde_json::json;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Mutex;

/// What the volume controller writes on a claim for which no volume is there yet.
const NEEDS_VOLUME: &str = "volume.kubernetes.io/storage-provisioner";

/// A storage class whose volumes are folders of the host.
struct Folders<'w> {
    world: &'w World,
    class: String,
    made: Mutex<Vec<PathBuf>>,
}

impl<'w> Folders<'w> {
    async fn new(world: &'w World) -> Self {
        Self {
            world,
            class: make_class(world, "folders", json!({})).await,
            made: Mutex::default(),
        }
    }

    /// Makes the volume of each claim of the class that the volume controller wants one for, until it is dropped.
    async fn provision(&self) {
        let kind = ("v1", "PersistentVolumeClaim", "persistentvolumeclaims");
        let claims: Api<DynamicObject> = self.world.api(kind.0, kind.1, kind.2, None);
        let mut changes = pin!(watcher::watcher(claims.clone(), watcher::Config::default()));
        while changes.next().await.is_some() {
            for claim in claims.list(&ListParams::default()).await.unwrap().items {
                let is_ours = claim.data["spec"]["storageClassName"] == self.class;
                let is_new = claim.data["spec"]["volumeName"].is_null()
                    && claim.annotations().contains_key(NEEDS_VOLUME);
                if is_ours && is_new && claim.metadata.deletion_timestamp.is_none() {
                    self.make_volume(&claim).await;
                }
            }
        }
    }

    async fn make_volume(&self, claim: &DynamicObject) {
        let (metadata, spec) = (&claim.metadata, &claim.data["spec"]);
        let uid = metadata.uid.clone().unwrap();
        let name = format!("folder-{uid}");
        if volumes(self.world).get_opt(&name).await.unwrap().is_some() {
            return;
        }
        // The cluster deletes only paths of this form itself.
        let folder = PathBuf::from(format!("/tmp/{name}"));
        std::fs::create_dir(&folder).unwrap();
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"capacity": spec["resources"]["requests"], "accessModes": spec["accessModes"],
                "storageClassName": self.class, "persistentVolumeReclaimPolicy": "Delete",
                "hostPath": {"path": folder},
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": uid,
                    "namespace": metadata.namespace, "name": metadata.name}}});
        self.world.make(&volumes(self.world), volume).await;
        self.made.lock().unwrap().push(folder);
    }

    /// Waits until the cluster has deleted the volumes of the class, which it does some time after it deleted their claims.
    async fn until_deleted(&self) {
        let all = volumes(self.world);
        let mut changes = pin!(watcher::watcher(all.clone(), watcher::Config::default()));
        loop {
            let left = all.list(&ListParams::default()).await.unwrap().items;
            let is_ours =
                |volume: &DynamicObject| volume.data["spec"]["storageClassName"] == self.class;
            if !left.iter().any(is_ours) {
                return;
            }
            changes.next().await.unwrap().unwrap();
        }
    }

    /// Runs a test while claims are provisioned, and removes the class.
    async fn with(&self, test: impl Future<Output = ()>) {
        tokio::select! {
            () = self.provision() => panic!("the watch of claims has ended"),
            () = test => {}
        }
        self.until_deleted().await;
        self.world.clean(&classes(self.world), &self.class).await;
    }
}

impl Drop for Folders<'_> {
    fn drop(&mut self) {
        for folder in self.made.lock().unwrap().iter() {
            let _gone = std::fs::remove_dir_all(folder);
        }
    }
}

#[tokio::test]
async fn an_empty_volume_serves_one_instance_after_another() {
    let Some(world) = World::start().await else {
        return;
    };
    let folders = Folders::new(&world).await;
    let test = empty_volume_scenarios::an_empty_volume_serves_one_instance_after_another(
        &world,
        &folders.class,
    );
    folders.with(test).await;
    let made = folders.made.lock().unwrap().clone();
    assert!(!made.is_empty() && made.iter().all(|folder| !folder.exists()));
}

#[tokio::test]
async fn an_unrecorded_volume_is_deleted() {
    let Some(world) = World::start().await else {
        return;
    };
    let folders = Folders::new(&world).await;
    let test = empty_volume_scenarios::an_unrecorded_volume_is_deleted(&world, &folders.class);
    folders.with(test).await;
}

#[tokio::test]
async fn a_volume_without_a_place_is_refused_by_name() {
    let Some(world) = World::start().await else {
        return;
    };
    let folders = Folders::new(&world).await;
    let test =
        empty_volume_scenarios::a_volume_without_a_place_is_refused_by_name(&world, &folders.class);
    folders.with(test).await;
}

#[tokio::test]
async fn what_cannot_be_provisioned_is_refused() {
    let Some(world) = World::start().await else {
        return;
    };
    what_cannot_be_provisioned_is_refused_by_name(&world).await;
}

//! A stand-in for a provisioner and for the CSI snapshot controller, so that a real API server, scheduler and volume
//! controller handle claims and snapshots of them. It copies no data: a volume is one text, in an annotation of its
//! `PersistentVolume`, and of a snapshot's `VolumeSnapshotContent`.

use crate::snapshots::Disks;
use crate::support::World;
use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::{BoxStream, select_all};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams,
};
use kube::runtime::watcher;
use kube::{Client, Error};
use serde::Deserialize as _;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use tokio::task::JoinHandle;

const SNAPSHOTS: (&str, &str, &str) = (
    "snapshot.storage.k8s.io/v1",
    "VolumeSnapshot",
    "volumesnapshots",
);
const CONTENTS: (&str, &str, &str) = (
    "snapshot.storage.k8s.io/v1",
    "VolumeSnapshotContent",
    "volumesnapshotcontents",
);
const CLASSES: (&str, &str, &str) = (
    "snapshot.storage.k8s.io/v1",
    "VolumeSnapshotClass",
    "volumesnapshotclasses",
);
const CLAIMS: (&str, &str, &str) = ("v1", "PersistentVolumeClaim", "persistentvolumeclaims");
const VOLUMES: (&str, &str, &str) = ("v1", "PersistentVolume", "persistentvolumes");
const PODS: (&str, &str, &str) = ("v1", "Pod", "pods");
const STORAGE_CLASSES: (&str, &str, &str) = ("storage.k8s.io/v1", "StorageClass", "storageclasses");
const DEFINITIONS: (&str, &str, &str) = (
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);
/// Where the text of a volume is.
const TEXT: &str = "stand-in.example.com/text";
const FINALIZER: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";
/// The storage classes; only the first one's driver has a class of snapshots.
const DRIVERS: [(&str, &str); 2] = [
    ("disks", "disks.csi.example.com"),
    ("unsupported", "unsupported.csi.example.com"),
];

type Kind = (&'static str, &'static str, &'static str);

fn resource((api_version, kind, plural): Kind) -> ApiResource {
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
}

/// The controllers, until they are dropped; what was installed stays until [`StandIn::remove`].
pub(crate) struct StandIn {
    client: Client,
    tasks: Vec<JoinHandle<()>>,
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl StandIn {
    /// Provides volumes for claims of the storage classes; removes what an interrupted test left installed.
    pub(crate) async fn start(client: Client) -> Self {
        let cluster = Cluster(client.clone());
        cluster.remove_definitions().await;
        for (name, driver) in DRIVERS {
            let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
                "metadata": {"name": name}, "provisioner": driver});
            cluster.make(STORAGE_CLASSES, None, class).await;
        }
        let provisioner = cluster.clone().provision();
        let tasks = vec![tokio::spawn(provisioner)];
        Self { client, tasks }
    }

    /// Makes the cluster serve snapshots.
    pub(crate) async fn install_snapshots(&mut self) {
        let cluster = Cluster(self.client.clone());
        for document in serde_yaml::Deserializer::from_str(include_str!("stand_in.yaml")) {
            let definition = Value::deserialize(document).expect("it is YAML");
            cluster.make(DEFINITIONS, None, definition).await;
        }
        cluster.until_served(true).await;
        let (_, driver) = DRIVERS[0];
        let class = json!({"apiVersion": CLASSES.0, "kind": CLASSES.1, "metadata": {"name": "disks"},
            "driver": driver, "deletionPolicy": "Delete"});
        cluster.make(CLASSES, None, class).await;
        self.tasks.push(tokio::spawn(cluster.snapshot()));
    }

    /// Removes everything that was installed.
    pub(crate) async fn remove(self) {
        let cluster = Cluster(self.client.clone());
        cluster.remove_definitions().await;
        for (name, _) in DRIVERS {
            cluster.delete(STORAGE_CLASSES, None, name).await;
        }
    }
}

/// The texts on the volumes of an instance.
pub(crate) struct VolumeTexts(Cluster, String);

impl VolumeTexts {
    pub(crate) fn for_instance(world: &World) -> Self {
        Self(
            Cluster(world.client.clone()),
            world.owner.instance_id.clone(),
        )
    }

    /// Name of the volume of the first claim that a pod mounts.
    async fn volume(&self, pod: &str) -> String {
        let Self(cluster, instance) = self;
        let own = ListParams::default().labels(&format!("vnfm.dev/instance={instance}"));
        let pods = cluster.api(PODS, None).list(&own).await.expect("the pods");
        let is_it = |one: &&DynamicObject| one.metadata.name.as_deref() == Some(pod);
        let pod = pods.items.iter().find(is_it).expect("the pod");
        let volumes = pod.data["spec"]["volumes"].as_array().into_iter().flatten();
        let mut claims =
            volumes.filter_map(|one| one["persistentVolumeClaim"]["claimName"].as_str());
        let claim = claims.next().expect("it mounts a claim");
        let claims = cluster.api(CLAIMS, pod.metadata.namespace.as_deref());
        let claim = claims.get(claim).await.expect("the claim");
        claim.data["spec"]["volumeName"]
            .as_str()
            .expect("it is bound")
            .to_owned()
    }
}

#[async_trait]
impl Disks for VolumeTexts {
    async fn read(&self, pod: &str) -> Option<String> {
        let volume = self.volume(pod).await;
        let volume = self
            .0
            .api(VOLUMES, None)
            .get(&volume)
            .await
            .expect("it exists");
        text_of(&volume)
    }

    async fn write(&self, pod: &str, text: &str) {
        let volume = self.volume(pod).await;
        let change = json!({"metadata": {"annotations": {TEXT: text}}});
        self.0.change(VOLUMES, None, &volume, change).await;
    }
}

fn text_of(object: &DynamicObject) -> Option<String> {
    object.metadata.annotations.as_ref()?.get(TEXT).cloned()
}

#[derive(Clone)]
struct Cluster(Client);

impl Cluster {
    fn api(&self, kind: Kind, namespace: Option<&str>) -> Api<DynamicObject> {
        match namespace {
            Some(namespace) => Api::namespaced_with(self.0.clone(), namespace, &resource(kind)),
            None => Api::all_with(self.0.clone(), &resource(kind)),
        }
    }

    /// Creates an object unless it exists.
    async fn make(&self, kind: Kind, namespace: Option<&str>, object: Value) {
        let object: DynamicObject = serde_json::from_value(object).expect("it is an object");
        let (api, how) = (self.api(kind, namespace), PostParams::default());
        match api.create(&how, &object).await {
            Err(Error::Api(status)) if status.code == 409 => {}
            made => drop(made.expect("the cluster takes it")),
        }
    }

    /// Changes an object, unless it no longer exists or has changed.
    async fn change(&self, kind: Kind, namespace: Option<&str>, name: &str, change: Value) {
        let (api, how) = (self.api(kind, namespace), PatchParams::default());
        match api.patch(name, &how, &Patch::Merge(change)).await {
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            changed => drop(changed.expect("the cluster takes the change")),
        }
    }

    async fn delete(&self, kind: Kind, namespace: Option<&str>, name: &str) {
        match self
            .api(kind, namespace)
            .delete(name, &DeleteParams::default())
            .await
        {
            Err(Error::Api(status)) if status.code == 404 => {}
            deleted => drop(deleted.expect("the cluster deletes it")),
        }
    }

    async fn remove_definitions(&self) {
        for (.., plural) in [CLASSES, SNAPSHOTS, CONTENTS] {
            let name = format!("{plural}.snapshot.storage.k8s.io");
            self.delete(DEFINITIONS, None, &name).await;
        }
        self.until_served(false).await;
    }

    /// Returns once the cluster serves all kinds of snapshots, or none.
    async fn until_served(&self, served: bool) {
        let definitions = self.api(DEFINITIONS, None);
        let changes = watcher::watcher(definitions, watcher::Config::default());
        let mut changes = std::pin::pin!(changes);
        loop {
            let found = self.0.list_api_group_resources(SNAPSHOTS.0).await;
            let is_missing = found.is_err();
            let mut ready = found.is_ok_and(|found| {
                let kinds = found.resources.iter().filter(|one| !one.name.contains('/'));
                kinds.count() == 3
            });
            for kind in [SNAPSHOTS, CONTENTS, CLASSES] {
                let listed = self.api(kind, None).list(&ListParams::default()).await;
                ready &= listed.is_ok(); // the storage of a new kind is initialized first
            }
            let is_done = if served { ready } else { is_missing };
            if is_done {
                return;
            }
            // A definition changes when it is established; what follows within a second is looked for then.
            let change = changes.next();
            let _ = tokio::time::timeout(std::time::Duration::from_secs(1), change).await;
        }
    }

    /// Whatever changes about these kinds.
    fn changes(&self, kinds: &[Kind]) -> impl futures::Stream<Item = ()> + Unpin + use<> {
        let feeds = kinds.iter().map(|kind| -> BoxStream<'static, ()> {
            let feed = watcher::watcher(self.api(*kind, None), watcher::Config::default());
            feed.map(drop).boxed()
        });
        select_all(feeds)
    }

    async fn all(&self, kind: Kind) -> Vec<DynamicObject> {
        let listed = self.api(kind, None).list(&ListParams::default()).await;
        listed.map(|listed| listed.items).unwrap_or_default()
    }

    /// Creates the volume of each new claim, and deletes that of a claim that no longer exists.
    async fn provision(self) {
        let mut changes = self.changes(&[CLAIMS, VOLUMES]);
        while changes.next().await.is_some() {
            let claims = self.all(CLAIMS).await;
            for claim in &claims {
                let class = claim.data["spec"]["storageClassName"].as_str();
                let ours = DRIVERS.iter().any(|(name, _)| Some(*name) == class);
                let is_new = claim.data["spec"]["volumeName"].is_null();
                if ours && is_new && claim.metadata.deletion_timestamp.is_none() {
                    self.make_volume(claim).await;
                }
            }
            for volume in self.all(VOLUMES).await {
                let name = volume.metadata.name.clone().unwrap_or_default();
                let uid = volume.data["spec"]["claimRef"]["uid"].as_str();
                let exists = claims
                    .iter()
                    .any(|claim| claim.metadata.uid.as_deref() == uid);
                let is_going = volume.metadata.deletion_timestamp.is_some();
                if name.starts_with("stand-in-") && !exists && !is_going {
                    self.delete(VOLUMES, None, &name).await;
                }
            }
        }
    }

    async fn make_volume(&self, claim: &DynamicObject) {
        let (metadata, spec) = (&claim.metadata, &claim.data["spec"]);
        let uid = metadata.uid.clone().unwrap_or_default();
        let mut annotations = BTreeMap::new();
        if let Some(snapshot) = spec["dataSource"]["name"].as_str() {
            let snapshots = self.api(SNAPSHOTS, metadata.namespace.as_deref());
            let snapshot = snapshots.get(snapshot).await.expect("the source exists");
            let content = snapshot.data["status"]["boundVolumeSnapshotContentName"].as_str();
            let content = content.expect("the source is ready");
            let content = self
                .api(CONTENTS, None)
                .get(content)
                .await
                .expect("it exists");
            annotations.extend(text_of(&content).map(|text| (TEXT, text)));
        }
        let volume = json!({"apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": format!("stand-in-{uid}"), "annotations": annotations},
            "spec": {"capacity": spec["resources"]["requests"], "accessModes": spec["accessModes"],
                "storageClassName": spec["storageClassName"], "persistentVolumeReclaimPolicy": "Retain",
                "hostPath": {"path": format!("/var/lib/stand-in/{uid}")},
                "claimRef": {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "uid": uid,
                    "namespace": metadata.namespace, "name": metadata.name}}});
        self.make(VOLUMES, None, volume).await;
    }

    /// Binds each new snapshot to a content with the text of its claim's volume, and deletes that with it.
    async fn snapshot(self) {
        let mut changes = self.changes(&[SNAPSHOTS]);
        while changes.next().await.is_some() {
            for snapshot in self.all(SNAPSHOTS).await {
                let metadata = &snapshot.metadata;
                let uid = metadata.uid.clone().unwrap_or_default();
                let (namespace, name) = (metadata.namespace.clone(), metadata.name.clone());
                let (namespace, name) = (namespace.as_deref(), name.unwrap_or_default());
                let content = format!("snapcontent-{uid}");
                if metadata.deletion_timestamp.is_some() {
                    self.delete(CONTENTS, None, &content).await;
                    let change = json!({"metadata": {"finalizers": []}});
                    self.change(SNAPSHOTS, namespace, &name, change).await;
                } else if snapshot.data["status"]["readyToUse"] != true {
                    let change = json!({"metadata": {"finalizers": [FINALIZER]}});
                    self.change(SNAPSHOTS, namespace, &name, change).await;
                    self.copy(&snapshot, &content).await;
                }
            }
        }
    }

    async fn copy(&self, snapshot: &DynamicObject, content: &str) {
        let namespace = snapshot.metadata.namespace.as_deref();
        let name = snapshot.metadata.name.clone().unwrap_or_default();
        let claim = snapshot.data["spec"]["source"]["persistentVolumeClaimName"].as_str();
        let claim = self
            .api(CLAIMS, namespace)
            .get(claim.expect("a source"))
            .await;
        let claim = claim.expect("the claim exists");
        let volume = claim.data["spec"]["volumeName"]
            .as_str()
            .expect("it is bound");
        let volume = self
            .api(VOLUMES, None)
            .get(volume)
            .await
            .expect("it exists");
        let text = text_of(&volume).unwrap_or_default();
        let object = json!({"apiVersion": CONTENTS.0, "kind": CONTENTS.1,
            "metadata": {"name": content, "annotations": {TEXT: text}}, "spec": {}});
        self.make(CONTENTS, None, object).await;
        let status = json!({"status": {"readyToUse": true, "boundVolumeSnapshotContentName": content,
            "creationTime": jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "restoreSize": claim.data["spec"]["resources"]["requests"]["storage"]}});
        let how = PatchParams::default();
        let snapshots = self.api(SNAPSHOTS, namespace);
        match snapshots
            .patch_status(&name, &how, &Patch::Merge(status))
            .await
        {
            Err(Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            changed => drop(changed.expect("the cluster takes the status")),
        }
    }
}

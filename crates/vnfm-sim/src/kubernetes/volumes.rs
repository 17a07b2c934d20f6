//! Claims and volume snapshots: binding, protection, and the data of each.
//!
//! Every claim is bound at once: to a `PersistentVolume` that is reserved for it, else to a free one of its storage class, else to
//! one that the class provisions, else, without a class, to a volume without an object. A class with `WaitForFirstConsumer` binds
//! only what a pod mounts; one with `parameters: {simulated: never}` provisions nothing. A volume holds one text. The kinds of `snapshot.storage.k8s.io` are served after
//! [`Cluster::install_snapshots`], as on a real cluster with the add-on; then a snapshot controller copies the text. Its
//! class says by `parameters: {simulated: never}` or `{simulated: fails}` how a controller disappoints.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::apply::Owners;
use super::facts::{is_terminating, keys};
use super::objects::{Key, Store, array, has_finalizers};
use super::workloads::owned_by;
use super::{Cluster, lock};
use crate::time::now;

const CLAIMS: &str = "persistentvolumeclaims";
const VOLUMES: &str = "persistentvolumes";
const SNAPSHOTS: &str = "volumesnapshots.snapshot.storage.k8s.io";
const CLASSES: &str = "volumesnapshotclasses.snapshot.storage.k8s.io";
const STORAGE_CLASSES: &str = "storageclasses.storage.k8s.io";
const CLAIM_PROTECTION: &str = "kubernetes.io/pvc-protection";
const SNAPSHOT_PROTECTION: &str = "snapshot.storage.kubernetes.io/volumesnapshot-bound-protection";

/// What an administrator installs: the kinds, a class of storage and one of snapshots of it.
const ADD_ON: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: volumesnapshots.snapshot.storage.k8s.io}
spec:
  group: snapshot.storage.k8s.io
  scope: Namespaced
  names: {kind: VolumeSnapshot, plural: volumesnapshots}
  versions: [{name: v1, served: true, storage: true}]
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: volumesnapshotclasses.snapshot.storage.k8s.io}
spec:
  group: snapshot.storage.k8s.io
  scope: Cluster
  names: {kind: VolumeSnapshotClass, plural: volumesnapshotclasses}
  versions: [{name: v1, served: true, storage: true}]
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: disks}
provisioner: disks.csi.example.com
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: disks}
driver: disks.csi.example.com
deletionPolicy: Delete
";

impl Cluster {
    /// Makes the cluster serve volume snapshots of the storage class `disks`.
    ///
    /// # Errors
    ///
    /// The server's message if it refuses an object.
    pub fn install_snapshots(&self) -> anyhow::Result<()> {
        self.apply(ADD_ON).map(drop)
    }

    /// The text on the first claim that a pod mounts.
    pub fn disk(&self, pod: &str) -> Option<String> {
        let store = self.store();
        let volume = mounted_volume(&store, pod)?;
        store.disks.get(&volume).cloned()
    }

    /// Replaces the text on the first claim that a pod mounts, as what runs in the pod does.
    pub fn write_disk(&self, pod: &str, text: &str) {
        let mut store = lock(&self.store);
        if let Some(volume) = mounted_volume(&store, pod) {
            store.disks.insert(volume, text.to_owned());
        }
    }
}

/// The UID of the first claim that a pod mounts, or of its volume if that is an object.
fn mounted_volume(store: &Store, pod: &str) -> Option<String> {
    let (key, body) = store.list("pods", "").find(|(key, _)| key.name == pod)?;
    let claim = store.get(&Key::new(CLAIMS, &key.namespace, mounted(body).next()?))?;
    Some(disk_of(store, claim))
}

/// The key of a claim's data: the UID of its volume, or its own if that is no object.
fn disk_of(store: &Store, claim: &Value) -> String {
    let volume = claim["spec"]["volumeName"].as_str().unwrap_or_default();
    let volume = store.get(&Key::new(VOLUMES, "", volume));
    uid(volume.map_or(claim, |volume| &**volume))
}

fn uid(body: &Value) -> String {
    body["metadata"]["uid"]
        .as_str()
        .unwrap_or_default()
        .to_owned()
}

/// Names of the claims that a pod mounts.
fn mounted(pod: &Value) -> impl Iterator<Item = &str> {
    let volumes = pod["spec"]["volumes"].as_array().into_iter().flatten();
    volumes.filter_map(|volume| volume["persistentVolumeClaim"]["claimName"].as_str())
}

/// Why a pod cannot be scheduled: one of its claims is missing, unbound or being deleted.
pub(super) fn unschedulable(store: &Store, pod: &Key, body: &Value) -> Option<String> {
    mounted(body).find_map(|name| {
        let claim = store.get(&Key::new(CLAIMS, &pod.namespace, name));
        match claim {
            None => Some(format!("persistentvolumeclaim \"{name}\" not found")),
            Some(claim) if is_terminating(claim) => {
                Some(format!("persistentvolumeclaim \"{name}\" is being deleted"))
            }
            Some(claim) if claim["status"]["phase"] != "Bound" => {
                Some("pod has unbound immediate PersistentVolumeClaims".to_owned())
            }
            Some(_) => None,
        }
    })
}

/// Makes the claims of a stateful set's pod that do not exist, and mounts all of them.
pub(super) fn mount_claims(store: &mut Store, set: &Value, pod: &Key) {
    let templates = set["spec"]["volumeClaimTemplates"].as_array().cloned();
    let mut volumes = Vec::new();
    for template in templates.unwrap_or_default() {
        let volume = template["metadata"]["name"].as_str().unwrap_or_default();
        let key = Key::new(CLAIMS, &pod.namespace, &format!("{volume}-{}", pod.name));
        volumes.push(json!({ "name": volume, "persistentVolumeClaim": { "claimName": key.name } }));
        if store.get(&key).is_none() {
            let mut labels = template["metadata"]["labels"].clone();
            let selected = set["spec"]["selector"]["matchLabels"].as_object();
            for (label, value) in selected.into_iter().flatten() {
                labels[label] = value.clone();
            }
            let mut metadata = json!({ "labels": labels });
            if set["spec"]["persistentVolumeClaimRetentionPolicy"]["whenDeleted"] == "Delete" {
                metadata["ownerReferences"] = owned_by(set);
            }
            let body = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": template["spec"] });
            store.put(&key, body, Owners::default());
        }
    }
    if !volumes.is_empty() {
        store.update(pod, |body| {
            if let Some(all) = array(&mut body["spec"]["volumes"]) {
                all.extend(volumes);
            }
        });
    }
}

/// Binds and protects claims, and runs the snapshot controller.
pub(super) fn reconcile(store: &mut Store) {
    for key in keys(store, CLAIMS) {
        let Some(claim) = store.get(&key).cloned() else {
            continue;
        };
        if is_terminating(&claim) {
            if !in_use(store, &key) {
                release(store, &key, CLAIM_PROTECTION);
            }
            continue;
        }
        protect(store, &key, CLAIM_PROTECTION);
        if claim["status"]["phase"] != "Bound" {
            bind(store, &key, &claim);
        }
    }
    settle_volumes(store);
    for key in keys(store, SNAPSHOTS) {
        let Some(snapshot) = store.get(&key).cloned() else {
            continue;
        };
        if is_terminating(&snapshot) {
            release(store, &key, SNAPSHOT_PROTECTION);
            continue;
        }
        protect(store, &key, SNAPSHOT_PROTECTION);
        if snapshot["status"]["readyToUse"] != true {
            copy(store, &key, &snapshot);
        }
    }
    let known: BTreeSet<String> = store.all().map(|(_, body)| uid(body)).collect();
    store.disks.retain(|volume, _| known.contains(volume));
}

/// The volume that is reserved for a claim, else a free one of its class.
fn fitting(store: &Store, claim: &Key, body: &Value) -> Option<Key> {
    let all: Vec<_> = store.list(VOLUMES, "").collect();
    let is_reserved = |volume: &Value| {
        let holder = &volume["spec"]["claimRef"];
        holder["uid"].is_null()
            && holder["namespace"] == *claim.namespace
            && holder["name"] == *claim.name
    };
    let is_free = |volume: &Value| {
        let class = &volume["spec"]["storageClassName"];
        volume["spec"]["claimRef"].is_null() && *class == body["spec"]["storageClassName"]
    };
    let mut reserved = all.iter().filter(|(_, volume)| is_reserved(volume));
    let mut free = all.iter().filter(|(_, volume)| is_free(volume));
    let found = reserved.next().or_else(|| free.next());
    found.map(|(key, _)| (*key).clone())
}

/// Sets the phase of each volume; one whose claim is gone is deleted if its policy says so.
fn settle_volumes(store: &mut Store) {
    for key in keys(store, VOLUMES) {
        let Some(volume) = store.get(&key).cloned() else {
            continue;
        };
        let holder = &volume["spec"]["claimRef"];
        let text = |name: &str| holder[name].as_str().unwrap_or_default();
        let claim = store.get(&Key::new(CLAIMS, text("namespace"), text("name")));
        let phase = match &holder["uid"] {
            Value::Null => "Available",
            held if claim.is_some_and(|claim| claim["metadata"]["uid"] == *held) => "Bound",
            _ if volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete" => {
                store.remove(&key);
                continue;
            }
            _ => "Released",
        };
        if volume["status"]["phase"] != phase {
            store.update(&key, |volume| volume["status"] = json!({ "phase": phase }));
        }
    }
}

/// Whether a pod may mount the claim: one that is scheduled, and has not ended.
fn in_use(store: &Store, claim: &Key) -> bool {
    let runs = |pod: &Value| {
        let has_ended = matches!(
            pod["status"]["phase"].as_str(),
            Some("Succeeded" | "Failed")
        );
        !has_ended && !pod["spec"]["nodeName"].is_null()
    };
    let mut pods = store.list("pods", &claim.namespace);
    pods.any(|(_, pod)| runs(pod) && mounted(pod).any(|name| name == claim.name))
}

fn protect(store: &mut Store, key: &Key, finalizer: &str) {
    store.update(key, |body| {
        if let Some(all) = array(&mut body["metadata"]["finalizers"])
            && !all.iter().any(|one| one == finalizer)
        {
            all.push(json!(finalizer));
        }
    });
}

/// Removes a finalizer, and the object if that was its last one.
fn release(store: &mut Store, key: &Key, finalizer: &str) {
    store.update(key, |body| {
        if let Some(all) = array(&mut body["metadata"]["finalizers"]) {
            all.retain(|one| one != finalizer);
        }
    });
    if store.get(key).is_some_and(|body| !has_finalizers(body)) {
        store.remove(key);
    }
}

/// Binds a claim; one with a snapshot as its source waits until that is ready, and gets its data.
fn bind(store: &mut Store, key: &Key, claim: &Value) {
    let source = &claim["spec"]["dataSource"];
    let mut data = None;
    if source["kind"] == "VolumeSnapshot" {
        let name = source["name"].as_str().unwrap_or_default();
        let snapshot = store.get(&Key::new(SNAPSHOTS, &key.namespace, name));
        let Some(snapshot) = snapshot.filter(|one| one["status"]["readyToUse"] == true) else {
            return;
        };
        data = store.disks.get(&uid(snapshot)).cloned();
    }
    let volume = match fitting(store, key, claim) {
        Some(volume) => Some(volume),
        None => match provision(store, key, claim) {
            Ok(volume) => volume,
            Err(Unbound) => return,
        },
    };
    if let Some(volume) = &volume {
        let holder = json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": key.namespace, "name": key.name, "uid": uid(claim) });
        store.update(volume, |body| body["spec"]["claimRef"] = holder);
    }
    store.update(key, |claim| {
        let made = || format!("pvc-{}", uid(claim));
        let name = volume.map_or_else(made, |volume| volume.name);
        claim["spec"]["volumeName"] = json!(name);
        claim["status"] = json!({ "phase": "Bound", "accessModes": claim["spec"]["accessModes"], "capacity": claim["spec"]["resources"]["requests"] });
    });
    let bound = store.get(key).cloned();
    let disk = bound.map(|bound| disk_of(store, &bound));
    store.disks.extend(disk.zip(data));
}

/// The class provisions nothing for a claim, or not yet.
struct Unbound;

/// Makes the volume of a claim by its storage class; `None`: there is no such class.
fn provision(store: &mut Store, key: &Key, claim: &Value) -> Result<Option<Key>, Unbound> {
    let name = claim["spec"]["storageClassName"].as_str();
    let class = store.get(&Key::new(STORAGE_CLASSES, "", name.unwrap_or_default()));
    let Some(class) = class.cloned() else {
        return Ok(None);
    };
    let is_mounted = store
        .list("pods", &key.namespace)
        .any(|(_, pod)| mounted(pod).any(|name| name == key.name));
    let needs_pod = class["volumeBindingMode"] == "WaitForFirstConsumer" && !is_mounted;
    if needs_pod || class["parameters"]["simulated"] == "never" {
        return Err(Unbound);
    }
    let policy = class["reclaimPolicy"].as_str().unwrap_or("Delete");
    let volume = Key::new(VOLUMES, "", &format!("pvc-{}", uid(claim)));
    let body = json!({ "apiVersion": "v1", "kind": "PersistentVolume",
        "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": class["provisioner"] } },
        "spec": { "capacity": claim["spec"]["resources"]["requests"], "accessModes": claim["spec"]["accessModes"],
            "storageClassName": name, "persistentVolumeReclaimPolicy": policy } });
    store.put(&volume, body, Owners::default());
    Ok(Some(volume))
}

/// Copies the data of a snapshot's claim, as its class says.
fn copy(store: &mut Store, key: &Key, snapshot: &Value) {
    let class = snapshot["spec"]["volumeSnapshotClassName"].as_str();
    let class = store.get(&Key::new(CLASSES, "", class.unwrap_or_default()));
    let simulated = class.and_then(|class| class["parameters"]["simulated"].as_str());
    let source = snapshot["spec"]["source"]["persistentVolumeClaimName"].as_str();
    let claim = store.get(&Key::new(
        CLAIMS,
        &key.namespace,
        source.unwrap_or_default(),
    ));
    let claim = claim.cloned();
    let status = match (simulated, claim) {
        (Some("never"), _) => json!({ "readyToUse": false }),
        (None, Some(claim)) => {
            let data = store.disks.get(&disk_of(store, &claim)).cloned();
            store.disks.extend(data.map(|data| (uid(snapshot), data)));
            let content = format!("snapcontent-{}", uid(snapshot));
            json!({ "readyToUse": true, "boundVolumeSnapshotContentName": content, "creationTime": now(),
                "restoreSize": claim["spec"]["resources"]["requests"]["storage"] })
        }
        (_, claim) => {
            let message = match claim {
                Some(_) => "Failed to create snapshot: the driver is out of space",
                None => "Failed to create snapshot: the claim does not exist",
            };
            json!({ "readyToUse": false, "error": { "message": message } })
        }
    };
    store.update(key, |body| body["status"] = status);
}

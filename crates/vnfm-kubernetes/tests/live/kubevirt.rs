//! A stand-in for KubeVirt, through the API server alone: the same on a real cluster and on the simulated one. Its machines are
//! pods; it writes the status that KubeVirt's controllers would write.

use crate::support::World;
use futures::StreamExt as _;
use futures::stream::{BoxStream, select_all};
use kube::api::{
    Api, ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, Patch,
    PatchParams, PostParams,
};
use kube::runtime::watcher;
use kube::{Client, Error};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinHandle;

pub(crate) type Kind = (&'static str, &'static str, &'static str);

pub(crate) const MACHINES: Kind = ("kubevirt.io/v1", "VirtualMachine", "virtualmachines");
const INSTANCES: Kind = (
    "kubevirt.io/v1",
    "VirtualMachineInstance",
    "virtualmachineinstances",
);
const REPLICA_SETS: Kind = (
    "kubevirt.io/v1",
    "VirtualMachineInstanceReplicaSet",
    "virtualmachineinstancereplicasets",
);
const PODS: Kind = ("v1", "Pod", "pods");
pub(crate) const DEFINITIONS: Kind = (
    "apiextensions.k8s.io/v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
);

/// The kinds, as far as the driver and this stand-in use them. Not the definitions of KubeVirt.
fn definition((_, kind, plural): Kind) -> Value {
    let mut version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    if kind == REPLICA_SETS.1 {
        // The paths of the subresource must be in the schema.
        let number = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"replicas": {"type": "integer"}}});
        version["schema"]["openAPIV3Schema"]["properties"] =
            json!({"spec": number, "status": number});
        version["subresources"] = json!({"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}});
    }
    json!({"apiVersion": DEFINITIONS.0, "kind": DEFINITIONS.1,
        "metadata": {"name": format!("{plural}.kubevirt.io")},
        "spec": {"group": "kubevirt.io", "scope": "Namespaced", "versions": [version],
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")}}})
}

#[derive(Clone)]
pub(crate) struct Cluster {
    client: Client,
    namespace: String,
}

impl Cluster {
    pub(crate) fn new(world: &World) -> Self {
        Self {
            client: world.client.clone(),
            namespace: world.namespace(),
        }
    }

    pub(crate) fn api(&self, kind: Kind) -> Api<DynamicObject> {
        let (group, version) = kind.0.split_once('/').unwrap_or(("", kind.0));
        let gvk = GroupVersionKind::gvk(group, version, kind.1);
        let resource = ApiResource::from_gvk_with_plural(&gvk, kind.2);
        if kind == DEFINITIONS {
            return Api::all_with(self.client.clone(), &resource);
        }
        Api::namespaced_with(self.client.clone(), &self.namespace, &resource)
    }

    pub(crate) async fn all(&self, kind: Kind) -> Vec<DynamicObject> {
        let listed = self.api(kind).list(&ListParams::default()).await;
        let mut all = listed.map(|listed| listed.items).unwrap_or_default();
        all.retain(|one| one.metadata.deletion_timestamp.is_none());
        all
    }

    pub(crate) async fn make(&self, kind: Kind, object: Value) {
        let object: DynamicObject = serde_json::from_value(object).expect("an object");
        let made = self.api(kind).create(&PostParams::default(), &object).await;
        ignore_races(made.err());
    }

    pub(crate) async fn merge(&self, kind: Kind, name: &str, change: Value) {
        let how = PatchParams::default();
        let merged = self
            .api(kind)
            .patch(name, &how, &Patch::Merge(change))
            .await;
        ignore_races(merged.err());
    }

    pub(crate) async fn delete(&self, kind: Kind, name: &str) {
        let deleted = self
            .api(kind)
            .delete(name, &DeleteParams::background())
            .await;
        ignore_races(deleted.err());
    }

    /// What a template becomes: the object's own, with its labels.
    async fn start_machine(&self, owner: (&DynamicObject, Kind), name: &str) {
        let template = &owner.0.data["spec"]["template"];
        let instance = json!({"apiVersion": INSTANCES.0, "kind": INSTANCES.1, "spec": template["spec"],
            "metadata": {"name": name, "labels": template["metadata"]["labels"], "ownerReferences": owned_by(owner)}});
        self.make(INSTANCES, instance).await;
    }

    async fn machines(&self, instances: &[DynamicObject]) {
        for machine in self.all(MACHINES).await {
            let name = name(&machine);
            let spec = &machine.data["spec"];
            let runs = spec["running"] == true || spec["runStrategy"] == "Always";
            let own = instances.iter().find(|one| is_owned(one, &machine));
            match own {
                None if runs => self.start_machine((&machine, MACHINES), name).await,
                Some(own) if !runs => self.delete(INSTANCES, self::name(own)).await,
                _ => {}
            }
            let is_ready = own.is_some_and(|own| own.data["status"]["phase"] == "Running");
            let status = json!({"created": own.is_some(), "ready": is_ready,
                "printableStatus": if is_ready { "Running" } else { "Starting" },
                "conditions": [condition(is_ready)]});
            if machine.data["status"] != status {
                self.merge(MACHINES, name, json!({"status": status})).await;
            }
        }
    }

    async fn replica_sets(&self, instances: &[DynamicObject]) {
        for set in self.all(REPLICA_SETS).await {
            let name = name(&set);
            let own = instances.iter().filter(|one| is_owned(one, &set));
            let own: Vec<&DynamicObject> = own.collect();
            let desired = set.data["spec"]["replicas"].as_u64().unwrap_or(1);
            let desired = usize::try_from(desired).unwrap();
            let numbers = (0..).map(|number| format!("{name}{number:05}"));
            let free = numbers.filter(|new| own.iter().all(|one| self::name(one) != new));
            for new in free.take(desired.saturating_sub(own.len())) {
                self.start_machine((&set, REPLICA_SETS), &new).await;
            }
            for surplus in own.iter().skip(desired) {
                self.delete(INSTANCES, self::name(surplus)).await;
            }
            let ready = own
                .iter()
                .filter(|one| one.data["status"]["phase"] == "Running");
            let status = json!({"replicas": own.len(), "readyReplicas": ready.count()});
            if set.data["status"] != status {
                self.merge(REPLICA_SETS, name, json!({"status": status}))
                    .await;
            }
        }
    }

    /// A pod for each machine; a machine whose pod vanished has failed, and is started again by its owner.
    async fn instances(&self, instances: &[DynamicObject]) {
        let pods = self.all(PODS).await;
        for (number, instance) in instances.iter().enumerate() {
            let name = name(instance);
            let has_run = instance.data["status"]["phase"] == "Running";
            match pods.iter().find(|pod| is_owned(pod, instance)) {
                None if has_run => self.delete(INSTANCES, name).await,
                None => {
                    let mut labels = json!(instance.metadata.labels);
                    labels["kubevirt.io"] = json!("virt-launcher");
                    labels["kubevirt.io/domain"] = json!(name);
                    let pod = json!({"apiVersion": "v1", "kind": "Pod",
                        "metadata": {"name": format!("virt-launcher-{name}-{}", suffix(instance)), "labels": labels,
                            "ownerReferences": owned_by((instance, INSTANCES))},
                        "spec": {"terminationGracePeriodSeconds": 1, "containers": [{"name": "compute", "image": "localhost/busybox:1"}]}});
                    self.make(PODS, pod).await;
                }
                Some(pod) if !has_run && is_ready(pod) => {
                    let address = format!("10.0.2.{}", 10 + number);
                    let status = json!({"phase": "Running", "conditions": [condition(true)],
                        "interfaces": [{"name": "default", "ipAddress": address, "ipAddresses": [address], "mac": "02:00:00:00:00:01"}]});
                    self.merge(INSTANCES, name, json!({"status": status})).await;
                }
                Some(_) => {}
            }
        }
    }

    async fn run(self) {
        let kinds = [MACHINES, REPLICA_SETS, INSTANCES, PODS];
        let feeds = kinds.map(|kind| -> BoxStream<'static, ()> {
            let feed = watcher::watcher(self.api(kind), watcher::Config::default());
            feed.map(drop).boxed()
        });
        let mut changes = select_all(feeds);
        loop {
            // What the cluster refused, such as a pod before its service account exists, is tried again after a second.
            let _ = tokio::time::timeout(Duration::from_secs(1), changes.next()).await;
            let instances = self.all(INSTANCES).await;
            self.machines(&instances).await;
            self.replica_sets(&instances).await;
            self.instances(&instances).await;
        }
    }

    async fn until_served(&self, served: bool) {
        let changes = watcher::watcher(self.api(DEFINITIONS), watcher::Config::default());
        let mut changes = std::pin::pin!(changes);
        loop {
            let mut listed = 0;
            for kind in [MACHINES, REPLICA_SETS, INSTANCES] {
                listed += usize::from(self.api(kind).list(&ListParams::default()).await.is_ok());
            }
            let group = self.client.list_api_group_resources(MACHINES.0).await;
            if (served && listed == 3 && group.is_ok())
                || (!served && listed == 0 && group.is_err())
            {
                return;
            }
            // A definition changes when it is established; what follows within a second is looked for then.
            let _ = tokio::time::timeout(Duration::from_secs(1), changes.next()).await;
        }
    }
}

fn ignore_races(error: Option<Error>) {
    match error {
        None => {}
        Some(Error::Api(status)) if matches!(status.code, 403 | 404 | 409) => {}
        Some(error) => panic!("{error}"),
    }
}

pub(crate) fn name(object: &DynamicObject) -> &str {
    object.metadata.name.as_deref().expect("it has a name")
}

/// Five characters of its UID.
fn suffix(object: &DynamicObject) -> String {
    object.metadata.uid.as_deref().expect("it has a UID")[..5].to_owned()
}

pub(crate) fn owned_by((owner, kind): (&DynamicObject, Kind)) -> Value {
    json!([{"apiVersion": kind.0, "kind": kind.1, "name": owner.metadata.name, "uid": owner.metadata.uid, "controller": true}])
}

pub(crate) fn is_owned(object: &DynamicObject, owner: &DynamicObject) -> bool {
    let mut owners = object.metadata.owner_references.iter().flatten();
    owners.any(|one| Some(&one.uid) == owner.metadata.uid.as_ref())
}

fn is_ready(pod: &DynamicObject) -> bool {
    let conditions = pod.data["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|one| one["type"] == "Ready" && one["status"] == "True")
}

fn condition(holds: bool) -> Value {
    json!({"type": "Ready", "status": if holds { "True" } else { "False" }, "reason": if holds { "" } else { "GuestNotRunning" }})
}

/// Runs the machines of one instance until it is dropped.
pub(crate) struct KubeVirt(JoinHandle<()>);

impl Drop for KubeVirt {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl KubeVirt {
    pub(crate) fn runs_machines_of(world: &World) -> Self {
        Self(tokio::spawn(Cluster::new(world).run()))
    }
}

/// Makes the cluster serve the kinds.
pub(crate) async fn install(world: &World) {
    let cluster = Cluster::new(world);
    for kind in [MACHINES, REPLICA_SETS, INSTANCES] {
        cluster.make(DEFINITIONS, definition(kind)).await;
    }
    cluster.until_served(true).await;
}

/// Removes what [`install`] installed.
pub(crate) async fn remove(world: &World) {
    let cluster = Cluster::new(world);
    for (.., plural) in [MACHINES, REPLICA_SETS, INSTANCES] {
        cluster
            .delete(DEFINITIONS, &format!("{plural}.kubevirt.io"))
            .await;
    }
    cluster.until_served(false).await;
}

//! VNF-A by Cluster API on a simulated management cluster. A stand-in writes what the controllers of Cluster API would write;
//! `tests/live` runs the real ones.

use crate::heal::repair;
use crate::kubevirt::{Cluster, DEFINITIONS, Kind, is_owned, name, owned_by};
use crate::support::{World, sample_of};
use futures::StreamExt as _;
use futures::stream::{BoxStream, select_all};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use vnfm_core::ports::{Allocation, Convergence, InfraDriver as _, Recorded};

const CLUSTERS: Kind = ("cluster.x-k8s.io/v1beta2", "Cluster", "clusters");
const MACHINES: Kind = ("cluster.x-k8s.io/v1beta2", "Machine", "machines");
const DEPLOYMENTS: Kind = (
    "cluster.x-k8s.io/v1beta2",
    "MachineDeployment",
    "machinedeployments",
);
const CONTROL_PLANES: Kind = (
    "controlplane.cluster.x-k8s.io/v1beta2",
    "KubeadmControlPlane",
    "kubeadmcontrolplanes",
);
const SECRETS: Kind = ("v1", "Secret", "secrets");
/// Kinds without a controller here.
const OTHERS: [Kind; 3] = [
    (
        "bootstrap.cluster.x-k8s.io/v1beta2",
        "KubeadmConfigTemplate",
        "kubeadmconfigtemplates",
    ),
    (
        "infrastructure.cluster.x-k8s.io/v1beta2",
        "DevCluster",
        "devclusters",
    ),
    (
        "infrastructure.cluster.x-k8s.io/v1beta2",
        "DevMachineTemplate",
        "devmachinetemplates",
    ),
];
const SETS: [Kind; 2] = [DEPLOYMENTS, CONTROL_PLANES];
/// Of the next machine.
static NUMBERS: AtomicU32 = AtomicU32::new(0);
const FINALIZER: &str = "cluster.cluster.x-k8s.io";

/// The controllers of one instance, until it is dropped.
struct StandIn(JoinHandle<()>);

impl Drop for StandIn {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl StandIn {
    /// Its clusters become available unless there is a `problem`.
    fn start(world: &World, problem: Option<&'static str>) -> Self {
        Self(tokio::spawn(run(Cluster::new(world), problem)))
    }
}

async fn run(cluster: Cluster, problem: Option<&'static str>) {
    let kinds = [CLUSTERS, DEPLOYMENTS, CONTROL_PLANES, MACHINES];
    let feeds = kinds.map(|kind| -> BoxStream<'static, ()> {
        let feed = watcher::watcher(cluster.api(kind), watcher::Config::default());
        feed.map(drop).boxed()
    });
    let mut changes = select_all(feeds);
    loop {
        let _ = tokio::time::timeout(Duration::from_secs(1), changes.next()).await;
        let mut ready = true;
        for kind in SETS {
            ready &= machines_of(&cluster, kind).await;
        }
        let listed = cluster.api(CLUSTERS).list(&ListParams::default()).await;
        for one in listed.map(|listed| listed.items).unwrap_or_default() {
            if one.metadata.deletion_timestamp.is_some() {
                delete(&cluster, name(&one)).await;
            } else {
                provide(&cluster, &one, (ready, problem)).await;
            }
        }
    }
}

/// Makes and deletes machines; whether all sets have theirs.
async fn machines_of(cluster: &Cluster, kind: Kind) -> bool {
    let (sets, machines) = (cluster.all(kind).await, cluster.all(MACHINES).await);
    for set in &sets {
        let own: Vec<_> = machines.iter().filter(|one| is_owned(one, set)).collect();
        let desired = set.data["spec"]["replicas"].as_u64().unwrap_or(1);
        let desired = usize::try_from(desired).unwrap();
        let template = if kind == DEPLOYMENTS {
            "template"
        } else {
            "machineTemplate"
        };
        let labels = &set.data["spec"][template]["metadata"]["labels"];
        for _ in own.len()..desired {
            let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
            let new = format!("{}-{number:05}", name(set));
            let machine = json!({"apiVersion": MACHINES.0, "kind": MACHINES.1, "spec": {},
            "metadata": {"name": new, "labels": labels, "ownerReferences": owned_by((set, kind))},
            });
            cluster.make(MACHINES, machine).await;
        }
        let status = json!({"addresses": [{"type": "InternalIP", "address": "10.0.9.1"}],
            "conditions": [{"type": "Ready", "status": "True"}]});
        for machine in &own {
            set_status(cluster, (MACHINES, machine), status.clone()).await;
        }
        for surplus in own.iter().skip(desired) {
            cluster.delete(MACHINES, name(surplus)).await;
        }
        let count = own.len();
        let status = json!({"observedGeneration": set.metadata.generation, "replicas": count,
            "upToDateReplicas": count, "readyReplicas": count});
        set_status(cluster, (kind, set), status).await;
    }
    !sets.is_empty()
}

/// Gives a cluster its finalizer, its condition and, once it is available, its kubeconfig.
async fn provide(
    cluster: &Cluster,
    one: &DynamicObject,
    (ready, problem): (bool, Option<&'static str>),
) {
    if one.metadata.finalizers.is_none() {
        let change = json!({"metadata": {"finalizers": [FINALIZER]}});
        cluster.merge(CLUSTERS, name(one), change).await;
    }
    let is_available = ready && problem.is_none();
    let condition = json!({"type": "Available", "status": if is_available { "True" } else { "False" },
        "reason": "NotAvailable", "message": problem.unwrap_or_default()});
    let status = json!({"observedGeneration": one.metadata.generation, "conditions": [condition]});
    set_status(cluster, (CLUSTERS, one), status).await;
    if is_available {
        let metadata = json!({"name": format!("{}-kubeconfig", name(one)), "labels": {"cluster.x-k8s.io/cluster-name": name(one)}});
        // `apiVersion: v1` in base64.
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
            "metadata": metadata, "data": {"value": "YXBpVmVyc2lvbjogdjE="}});
        cluster.make(SECRETS, secret).await;
    }
}

/// Deletes what belongs to a cluster, which must be there still, and lets it go.
async fn delete(cluster: &Cluster, one: &str) {
    for kind in SETS {
        let sets = cluster.all(kind).await;
        assert!(
            !sets.is_empty(),
            "a {} was deleted before its cluster",
            kind.1
        );
    }
    for kind in [MACHINES, DEPLOYMENTS, CONTROL_PLANES] {
        for object in cluster.all(kind).await {
            cluster.delete(kind, name(&object)).await;
        }
    }
    let change = json!({"metadata": {"finalizers": null}});
    cluster.merge(CLUSTERS, one, change).await;
}

async fn set_status(cluster: &Cluster, (kind, object): (Kind, &DynamicObject), status: Value) {
    if object.data["status"] == status {
        return;
    }
    let (how, change) = (PatchParams::default(), json!({"status": status}));
    let api = cluster.api(kind);
    let _ = api
        .patch_status(name(object), &how, &Patch::Merge(change))
        .await;
}

/// The kinds, as far as the driver and the stand-in use them. Not the definitions of Cluster API.
async fn install(world: &World) {
    let kinds = [CLUSTERS, MACHINES, DEPLOYMENTS, CONTROL_PLANES];
    for (api_version, kind, plural) in kinds.into_iter().chain(OTHERS) {
        let (group, version) = api_version.split_once('/').unwrap();
        let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
        let version = json!({"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema": open},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}});
        let definition = json!({"apiVersion": DEFINITIONS.0, "kind": DEFINITIONS.1,
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": "Namespaced", "versions": [version],
                "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase(), "listKind": format!("{kind}List")}}});
        Cluster::new(world).make(DEFINITIONS, definition).await;
    }
}

/// The sample with this many workers.
fn sample(workers: u32) -> Allocation {
    let mut what = sample_of("vnf-a-cluster-api", "instantiate.json");
    let deployment = Arc::make_mut(&mut what.deployment);
    deployment.vdu_instances.insert("worker".into(), workers);
    what
}

fn vdus(recorded: &Recorded) -> Vec<&str> {
    let vnfcs = recorded.inventory.vnfc_resource_info.iter();
    vnfcs
        .map(|vnfc| {
            let kind = vnfc.compute_resource.vim_level_resource_type.as_deref();
            assert_eq!(kind, Some("Machine"));
            vnfc.vdu_id.as_str()
        })
        .collect()
}

async fn update(world: &World, current: &Recorded, workers: u32) -> Recorded {
    let target = sample(workers);
    let change = Convergence::update(current, &target);
    let cx = world.cx(60);
    let updated = world.driver.converge(&cx, &change, &Value::Null).await;
    updated.unwrap()
}

#[tokio::test]
async fn a_cluster_is_created_scaled_healed_and_deleted_first() {
    let world = &World::start().await.unwrap();
    install(world).await;
    let running = StandIn::start(world, None);
    let what = sample(2);
    world.driver.validate_request(&what).unwrap();
    let created = world.instantiate(&what, 60).await.unwrap();
    assert_eq!(vdus(&created), ["controlPlane", "worker", "worker"]);

    let larger = update(world, &created, 3).await;
    assert_eq!(
        vdus(&larger),
        ["controlPlane", "worker", "worker", "worker"]
    );
    let smaller = update(world, &larger, 1).await;
    assert_eq!(vdus(&smaller), ["controlPlane", "worker"]);

    let (repair, what) = (repair(&smaller, &[1]), sample(1));
    let change = repair.change(&what);
    let cx = world.cx(60);
    let healed = world.driver.converge(&cx, &change, &Value::Null).await;
    let healed = healed.unwrap();
    assert_eq!(vdus(&healed), ["controlPlane", "worker"]);
    let ids = |recorded: &Recorded| {
        let vnfcs = &recorded.inventory.vnfc_resource_info;
        [vnfcs[0].id.clone(), vnfcs[1].id.clone()]
    };
    let ([control_plane, lost], [same, replacement]) = (ids(&smaller), ids(&healed));
    assert!(control_plane == same && lost != replacement);

    world.terminate(&what, healed.handle).await.unwrap();
    world.assert_nothing_left().await;
    drop(running);
}

#[tokio::test]
async fn a_cluster_that_does_not_become_available_says_why() {
    let world = &World::start().await.unwrap();
    install(world).await;
    let running = StandIn::start(world, Some("the quota of machines is exceeded"));
    let what = sample(2);
    let late = world.instantiate(&what, 4).await.unwrap_err();
    assert_eq!(late.name(), "kubernetes.not-ready");
    assert!(late.detail().contains("quota of machines"), "{late}");
    world.terminate(&what, Value::Null).await.unwrap();
    world.assert_nothing_left().await;
    drop(running);
}

#[tokio::test]
async fn outputs_are_the_kubeconfigs_of_the_own_clusters_alone() {
    let world = &World::start().await.unwrap();
    let outputs = async |world: &World| world.driver.outputs(&world.cx(20)).await.unwrap();
    assert_eq!(outputs(world).await.len(), 0, "Cluster API is not served");
    install(world).await;
    let running = StandIn::start(world, None);
    let what = sample(1);
    let created = world.instantiate(&what, 60).await.unwrap();
    let kubeconfig = outputs(world).await;
    let expected = json!({"edge-kubeconfig": "apiVersion: v1"});
    assert_eq!(Value::Object(kubeconfig), expected);

    // Another instance has no cluster, and neither a Secret of that name nor a cluster without its labels helps.
    let other = &world.neighbour();
    other.make_namespace(&other.namespace()).await;
    let own = Cluster::new(other);
    let metadata = json!({"name": "edge"});
    let foreign = json!({"apiVersion": CLUSTERS.0, "kind": CLUSTERS.1, "metadata": metadata});
    own.make(CLUSTERS, foreign).await;
    let secrets = Cluster::new(world).all(SECRETS).await;
    let secret = secrets
        .iter()
        .find(|one| name(one) == "edge-kubeconfig")
        .unwrap();
    let copy = json!({"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
        "metadata": {"name": "edge-kubeconfig", "labels": secret.metadata.labels}, "data": secret.data["data"]});
    own.make(SECRETS, copy).await;
    assert_eq!(outputs(other).await.len(), 0);

    let forged = json!({"metadata": {"labels": {"cluster.x-k8s.io/cluster-name": "other"}}});
    Cluster::new(world)
        .merge(SECRETS, "edge-kubeconfig", forged)
        .await;
    assert_eq!(outputs(world).await.len(), 0);
    let logs = world.seen.logs.lock().unwrap().join("\n");
    assert!(logs.contains("`edge-kubeconfig` in namespace"), "{logs}");
    world.terminate(&what, created.handle).await.unwrap();
    drop(running);
}

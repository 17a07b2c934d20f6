//! VNF snapshots on the simulated cluster, with the faults that only a simulation can inject.

use crate::faults::faulty_cluster;
use crate::snapshots::{
    self, Disks, ID, Instance, OTHER_ID, a_claim_of_a_driver_without_a_class_is_refused_by_name,
    manifest, stateful,
};
use crate::support::{World, package};
use async_trait::async_trait;
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{ErrorKind, InfraDriver as _};
use vnfm_sim::faults::{Fault, Faults, Rule, When};
use vnfm_sim::kubernetes::Cluster;

#[async_trait]
impl Disks for Cluster {
    async fn read(&self, pod: &str) -> Option<String> {
        self.disk(pod)
    }
    async fn write(&self, pod: &str, text: &str) {
        self.write_disk(pod, text);
    }
}

const UNSUPPORTED: &str = "apiVersion: storage.k8s.io/v1\nkind: StorageClass\nmetadata: {name: unsupported}\nprovisioner: unsupported.csi.example.com\n";
const CLASS: &str = "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses/disks";

async fn cluster() -> (World, Arc<Cluster>, Arc<Faults>) {
    let (world, cluster, faults) = faulty_cluster().await;
    cluster.install_snapshots().unwrap();
    (world, cluster, faults)
}

/// Makes the snapshot controller work, or not.
fn simulate(cluster: &Cluster, how: &Value) {
    assert!(cluster.merge(CLASS, &json!({"parameters": {"simulated": how}})));
}

#[tokio::test]
async fn a_vnf_returns_to_what_its_claims_had() {
    let (world, cluster, _) = cluster().await;
    snapshots::a_vnf_returns_to_what_its_claims_had(&world, &*cluster).await;
}

#[tokio::test]
async fn a_snapshot_outlives_its_instance() {
    let (world, cluster, _) = cluster().await;
    snapshots::a_snapshot_outlives_its_instance(&world, &*cluster).await;
}

#[tokio::test]
async fn a_return_gives_the_vnf_its_size() {
    let (world, cluster, _) = cluster().await;
    snapshots::a_return_gives_the_vnf_its_size(&world, &*cluster).await;
}

#[tokio::test]
async fn a_claim_of_a_manifest_is_restored() {
    let (world, cluster, _) = cluster().await;
    snapshots::a_claim_of_a_manifest_is_restored(&world, &*cluster).await;
}

#[tokio::test]
async fn what_cannot_be_stored_is_refused_by_name() {
    let (world, cluster, _) = faulty_cluster().await;
    snapshots::a_vnf_without_claims_has_only_its_record(&world).await;
    snapshots::a_cluster_without_volume_snapshots_is_refused_by_name(&world).await;
    cluster.install_snapshots().unwrap();
    cluster.apply(UNSUPPORTED).unwrap();
    a_claim_of_a_driver_without_a_class_is_refused_by_name(&world).await;
}

#[tokio::test]
async fn a_snapshot_that_never_gets_ready_ends_at_the_deadline_and_can_be_repeated() {
    let (world, cluster, _) = cluster().await;
    let vnf = Instance::new(&world, stateful(1, "disks")).await;
    simulate(&cluster, &json!("never"));
    let late = vnf.create_within(ID, 3).await.unwrap_err();
    assert_eq!(late.name(), "kubernetes.snapshot-failed");
    assert!(late.to_string().contains("to be ready to use"), "{late}");
    simulate(&cluster, &Value::Null);
    let stored = vnf.create(ID).await.unwrap();
    assert_eq!(vnf.volume_snapshots().await.len(), 1);
    vnf.delete(ID, &stored.handle).await.unwrap();
    vnf.terminate().await;
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn what_the_snapshot_controller_reports_is_reported() {
    let (world, cluster, _) = cluster().await;
    let vnf = Instance::new(&world, stateful(1, "disks")).await;
    simulate(&cluster, &json!("fails"));
    let failed = vnf.create_within(ID, 3).await.unwrap_err();
    assert_eq!(failed.name(), "kubernetes.snapshot-failed");
    assert!(
        failed.to_string().contains("the driver is out of space"),
        "{failed}"
    );
    vnf.delete(ID, &Value::Null).await.unwrap();
    assert_eq!(vnf.volume_snapshots().await, [""; 0]);
    vnf.terminate().await;
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn an_api_server_that_fails_or_loses_responses_creates_each_object_once() {
    let (world, cluster, faults) = cluster().await;
    let vnf = Instance::new(&world, stateful(2, "disks")).await;
    for pod in vnf.pods() {
        cluster.write_disk(&pod, "old");
    }
    let fails = |call: &str, kind: &str| {
        Rule::new(call, Fault::Status { status: 500 })
            .on(kind)
            .nth(1, 2)
    };
    let lost = |call: &str, kind: &str| {
        Rule::new(call, Fault::Drop { drop: When::After })
            .on(kind)
            .nth(1, 2)
    };
    faults.add(fails("kubernetes.list", "volumesnapshots"));
    faults.add(lost("kubernetes.create", "volumesnapshots"));
    let stored = vnf.create(ID).await.unwrap();
    assert_eq!(vnf.volume_snapshots().await.len(), 2);
    faults.clear();
    faults.add(fails("kubernetes.delete", "persistentvolumeclaims"));
    faults.add(lost("kubernetes.create", "persistentvolumeclaims"));
    for pod in vnf.pods() {
        cluster.write_disk(&pod, "new");
    }
    vnf.revert(ID, &stored, 60).await.unwrap();
    for pod in vnf.pods() {
        assert_eq!(cluster.disk(&pod).as_deref(), Some("old"), "{pod}");
    }
    faults.clear();
    faults.add(lost("kubernetes.delete", "volumesnapshots"));
    vnf.delete(ID, &stored.handle).await.unwrap();
    vnf.terminate().await;
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_claim_that_another_pod_mounts_is_not_deleted() {
    let (world, cluster, _) = cluster().await;
    let vnf = Instance::new(&world, stateful(1, "disks")).await;
    cluster.write_disk("web-0", "old");
    let stored = vnf.create(ID).await.unwrap();
    let pods = world.api("v1", "Pod", "pods", Some(&world.namespace()));
    let backup = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "backup"}, "spec": {
        "containers": [{"name": "backup", "image": "localhost/busybox:1"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}]}});
    world.make(&pods, backup).await;
    let late = vnf.revert(ID, &stored, 5).await.unwrap_err();
    assert!(late.to_string().contains("pod `backup` to end"), "{late}");
    let claims = world.api(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        Some(&world.namespace()),
    );
    let claim = claims.get("data-web-0").await.unwrap();
    assert_eq!(claim.metadata.deletion_timestamp, None);
    world.clean(&pods, "backup").await;
    vnf.revert(ID, &stored, 60).await.unwrap();
    assert_eq!(cluster.disk("web-0").as_deref(), Some("old"));
    vnf.delete(ID, &stored.handle).await.unwrap();
    vnf.terminate().await;
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_claim_that_is_not_ours_is_not_touched() {
    let (world, cluster, _) = cluster().await;
    let vnf = Instance::new(&world, stateful(1, "disks")).await;
    let stored = vnf.create(ID).await.unwrap();
    let claims = world.api(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        Some(&world.namespace()),
    );
    let foreign = json!({"metadata": {"labels": {"vnfm.dev/instance": "another"}}});
    world.change(&claims, "data-web-0", foreign).await;
    let before = claims.get("data-web-0").await.unwrap().metadata.uid;
    let refused = vnf.revert(ID, &stored, 30).await.unwrap_err();
    assert_eq!(refused.name(), "kubernetes.foreign-object");
    assert_eq!(claims.get("data-web-0").await.unwrap().metadata.uid, before);
    let mut path = format!("/api/v1/namespaces/{}", world.namespace());
    path.push_str("/persistentvolumeclaims/data-web-0");
    let ours = json!({"metadata": {"labels": {"vnfm.dev/instance": world.owner.instance_id}}});
    assert!(cluster.merge(&path, &ours));
    vnf.delete(ID, &stored.handle).await.unwrap();
    vnf.terminate().await;
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_lost_volume_snapshot_is_noticed_before_anything_changes() {
    let (world, cluster, _) = cluster().await;
    let vnf = Instance::new(&world, stateful(1, "disks")).await;
    let stored = vnf.create(ID).await.unwrap();
    let name = vnf.volume_snapshots().await.remove(0);
    let path = format!(
        "/apis/snapshot.storage.k8s.io/v1/namespaces/{}/volumesnapshots/{name}",
        world.namespace()
    );
    assert!(cluster.delete(&path));
    while cluster.object(&path).is_some() {
        tokio::task::yield_now().await;
    }
    let refused = vnf.plan_revert(ID, &stored).await.unwrap_err();
    assert_eq!(refused.name(), "kubernetes.snapshot-gone");
    assert!(refused.to_string().contains(&name), "{refused}");
    let refused = vnf.revert(ID, &stored, 30).await.unwrap_err();
    assert_eq!(
        (refused.name(), refused.kind()),
        ("kubernetes.snapshot-gone", ErrorKind::Refused)
    );
    let now = world
        .driver
        .observe(&world.cx(30), &vnf.what, &vnf.current.handle)
        .await
        .unwrap();
    assert_eq!(now.inventory, vnf.current.inventory, "the VNF was changed");
    vnf.delete(ID, &stored.handle).await.unwrap();
    vnf.terminate().await;
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_namespace_is_kept_for_the_last_of_its_snapshots() {
    let (world, _cluster, _) = cluster().await;
    let vnf = Instance::new(&world, stateful(1, "disks")).await;
    let first = vnf.create(ID).await.unwrap();
    let second = vnf.create(OTHER_ID).await.unwrap();
    vnf.terminate().await;
    vnf.delete(ID, &first.handle).await.unwrap();
    let owned = world
        .driver
        .owned(&world.vim, &world.owner.installation_id)
        .await;
    let owned = owned.unwrap();
    let snapshots = owned.iter().map(|one| one.snapshot_id.as_deref());
    let snapshots: Vec<_> = snapshots.collect();
    let other = Some(OTHER_ID);
    assert_eq!(snapshots, [other, other], "namespace and VolumeSnapshot");
    vnf.delete(OTHER_ID, &second.handle).await.unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn snapshots_stay_in_a_namespace_that_is_not_ours() {
    let (world, _cluster, _) = cluster().await;
    let namespace = format!("shared-{}", world.owner.instance_id);
    world.make_namespace(&namespace).await;
    let what = package(
        &[(1, &manifest(1, "disks"))],
        "",
        json!({"namespace": namespace}),
    );
    let vnf = Instance::new(&world, what).await;
    let stored = vnf.create(ID).await.unwrap();
    vnf.terminate().await;
    let owned = world
        .driver
        .owned(&world.vim, &world.owner.installation_id)
        .await;
    let owned = owned.unwrap();
    assert_eq!(owned.len(), 1, "{owned:?}");
    assert_eq!(owned[0].snapshot_id.as_deref(), Some(ID));
    vnf.delete(ID, &stored.handle).await.unwrap();
    world.assert_nothing_left().await;
    assert!(
        world
            .namespaces()
            .get_opt(&namespace)
            .await
            .unwrap()
            .is_some()
    );
}

/// The roles of the documentation, and what the workload itself needs.
fn narrow_roles(namespace: &str) -> String {
    let page = include_str!("../../../../docs/how-to/snapshots.md");
    let (_, roles) = page
        .split_once("```yaml\n")
        .expect("the page has the roles");
    let (roles, _) = roles.split_once("```").expect("they end");
    let more = "---
apiVersion: v1
kind: ServiceAccount
metadata: {name: vnfm, namespace: NAMESPACE}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: workloads, namespace: NAMESPACE}
rules:
  - {apiGroups: [apps], resources: [statefulsets, statefulsets/scale], verbs: [get, list, watch, create, patch, delete]}
  - {apiGroups: [''], resources: [events], verbs: [list]}
";
    let bind = |kind: &str, role: &str, of: &str| {
        let place = if kind == "RoleBinding" {
            ", namespace: NAMESPACE"
        } else {
            ""
        };
        format!(
            "---
apiVersion: rbac.authorization.k8s.io/v1
kind: {kind}
metadata: {{name: {role}{place}}}
roleRef: {{apiGroup: rbac.authorization.k8s.io, kind: {of}, name: {role}}}
subjects: [{{kind: ServiceAccount, name: vnfm, namespace: NAMESPACE}}]
"
        )
    };
    let bindings = [
        bind("RoleBinding", "vnfm-snapshots", "Role"),
        bind("RoleBinding", "workloads", "Role"),
        bind("ClusterRoleBinding", "vnfm-snapshot-classes", "ClusterRole"),
    ];
    [roles, more, &bindings.concat()]
        .concat()
        .replace("NAMESPACE", namespace)
}

#[tokio::test]
async fn the_documented_roles_suffice_for_snapshots_in_one_namespace() {
    let (world, cluster, _) = cluster().await;
    let namespace = format!("shared-{}", world.owner.instance_id);
    world.make_namespace(&namespace).await;
    cluster.apply(&narrow_roles(&namespace)).unwrap();
    let token = cluster.token_for(&namespace, "vnfm");
    world.vim.update(|info| {
        info.access_info.insert("bearer_token".into(), token.into());
        info.extra
            .insert("namespace".into(), namespace.clone().into());
    });
    let what = package(
        &[(1, &manifest(1, "disks"))],
        "",
        json!({"namespace": namespace}),
    );
    let vnf = Instance::new(&world, what).await;
    cluster.write_disk("web-0", "old");
    let stored = vnf.create(ID).await.unwrap();
    cluster.write_disk("web-0", "new");
    vnf.revert(ID, &stored, 60).await.unwrap();
    assert_eq!(cluster.disk("web-0").as_deref(), Some("old"));
    vnf.delete(ID, &stored.handle).await.unwrap();
    vnf.create(OTHER_ID).await.unwrap();
    vnf.delete(OTHER_ID, &Value::Null).await.unwrap();
    let kind = "/apis/snapshot.storage.k8s.io/v1/volumesnapshots";
    assert_eq!(cluster.object(kind).unwrap()["items"], json!([]));
}

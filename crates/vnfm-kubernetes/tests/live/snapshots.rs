//! VNF snapshots of claims, on any cluster whose volumes the test can read and write: a simulated one, or a real API server
//! with the stand-in for a snapshot controller and a provisioner.

use crate::support::{World, package};
use async_trait::async_trait;
use kube::api::ListParams;
use serde_json::{Value, json};
use vnfm_core::ports::{
    Allocation, Convergence, InfraDriver as _, PortError, Recorded, ResourceAction, ResourcePlan,
    Reversion, SnapshotSource, Snapshots as _, StoredSnapshot,
};

/// The text on the first claim that a pod mounts, as what runs in the pod has it.
#[async_trait]
pub(crate) trait Disks: Send + Sync {
    async fn read(&self, pod: &str) -> Option<String>;
    async fn write(&self, pod: &str, text: &str);
}

pub(crate) const ID: &str = "6f8d1a54-3f4b-4f1e-9d3e-5d1f0a2b7c01";
pub(crate) const OTHER_ID: &str = "6f8d1a54-3f4b-4f1e-9d3e-5d1f0a2b7c02";
const SECONDS: i64 = 90;

/// A stateful set whose pods have a claim each.
pub(crate) fn stateful(replicas: u32, storage_class: &str) -> Allocation {
    package(&[(1, &manifest(replicas, storage_class))], "", json!({}))
}

pub(crate) fn manifest(replicas: u32, storage_class: &str) -> String {
    format!(
        "apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: web}}
spec:
  serviceName: web
  replicas: {replicas}
  selector: {{matchLabels: {{app: web}}}}
  template:
    metadata: {{labels: {{app: web}}}}
    spec:
      terminationGracePeriodSeconds: 1
      containers: [{{name: web, image: 'localhost/busybox:1', volumeMounts: [{{name: data, mountPath: /data}}]}}]
  volumeClaimTemplates:
  - metadata: {{name: data}}
    spec: {{accessModes: [ReadWriteOnce], storageClassName: {storage_class}, resources: {{requests: {{storage: 1Gi}}}}}}
"
    )
}

/// An instance, as the engine calls the driver about its snapshots.
pub(crate) struct Instance<'w> {
    pub(crate) world: &'w World,
    pub(crate) what: Allocation,
    pub(crate) current: Recorded,
}

impl<'w> Instance<'w> {
    pub(crate) async fn new(world: &'w World, what: Allocation) -> Self {
        let current = world.instantiate(&what, SECONDS).await.unwrap();
        Self {
            world,
            what,
            current,
        }
    }

    fn source<'a>(&'a self, id: &'a str) -> SnapshotSource<'a> {
        SnapshotSource {
            id,
            current: &self.current,
            what: &self.what,
        }
    }

    pub(crate) async fn create(&self, id: &str) -> Result<StoredSnapshot, PortError> {
        self.create_within(id, SECONDS).await
    }

    pub(crate) async fn create_within(
        &self,
        id: &str,
        seconds: i64,
    ) -> Result<StoredSnapshot, PortError> {
        let (driver, cx) = (&self.world.driver, self.world.cx(seconds));
        driver.check_source(&cx, &self.source(id)).await?;
        driver.create(&cx, &self.source(id)).await
    }

    pub(crate) async fn plan_create(&self, id: &str) -> Result<ResourcePlan, PortError> {
        let cx = self.world.cx(SECONDS);
        self.world.driver.plan_create(&cx, &self.source(id)).await
    }

    fn reversion<'a>(&'a self, id: &'a str, stored: &'a StoredSnapshot) -> Reversion<'a> {
        Reversion {
            id,
            then: &self.current.inventory,
            stored,
            current: &self.current,
            target: &self.what,
            before: &self.what,
        }
    }

    pub(crate) async fn revert(
        &self,
        id: &str,
        stored: &StoredSnapshot,
        seconds: i64,
    ) -> Result<Recorded, PortError> {
        let (driver, cx) = (&self.world.driver, self.world.cx(seconds));
        driver.revert(&cx, &self.reversion(id, stored)).await
    }

    pub(crate) async fn plan_revert(
        &self,
        id: &str,
        stored: &StoredSnapshot,
    ) -> Result<ResourcePlan, PortError> {
        let cx = self.world.cx(SECONDS);
        let reversion = self.reversion(id, stored);
        self.world.driver.plan_revert(&cx, &reversion).await
    }

    pub(crate) async fn delete(&self, id: &str, handle: &Value) -> Result<(), PortError> {
        let cx = self.world.cx(SECONDS);
        self.world.driver.delete(&cx, id, handle).await
    }

    pub(crate) async fn terminate(&self) {
        let handle = self.current.handle.clone();
        self.world.terminate(&self.what, handle).await.unwrap();
    }

    pub(crate) fn pods(&self) -> Vec<String> {
        let vnfcs = self.current.inventory.vnfc_resource_info.iter();
        let names = vnfcs.map(|vnfc| vnfc.compute_resource.resource_id.clone());
        names.collect()
    }

    async fn write(&self, disks: &dyn Disks, text: &str) {
        for pod in self.pods() {
            disks.write(&pod, &format!("{text} on {pod}")).await;
        }
    }

    async fn check(&self, disks: &dyn Disks, text: &str) {
        for pod in self.pods() {
            let expected = format!("{text} on {pod}");
            assert_eq!(disks.read(&pod).await, Some(expected), "{pod}");
        }
    }

    /// Names of the `VolumeSnapshot`s in the namespace of the instance.
    pub(crate) async fn volume_snapshots(&self) -> Vec<String> {
        let (version, namespace) = ("snapshot.storage.k8s.io/v1", self.world.namespace());
        let place = Some(namespace.as_str());
        let api = self
            .world
            .api(version, "VolumeSnapshot", "volumesnapshots", place);
        let listed = api.list(&ListParams::default()).await.unwrap();
        let names = listed.items.into_iter();
        names.filter_map(|one| one.metadata.name).collect()
    }

    async fn namespace_exists(&self) -> bool {
        let namespaces = self.world.namespaces();
        let found = namespaces.get_opt(&self.world.namespace()).await.unwrap();
        found.is_some()
    }
}

/// The kind and name of each resource that a plan would change.
fn changes(plan: &ResourcePlan, action: ResourceAction) -> Vec<String> {
    let rows = plan.resources.iter().filter(|row| row.action == action);
    rows.map(|row| format!("{} {}", row.kind, row.name))
        .collect()
}

pub(crate) async fn a_vnf_returns_to_what_its_claims_had(world: &World, disks: &dyn Disks) {
    let vnf = Instance::new(world, stateful(2, "disks")).await;
    let namespace = world.namespace();
    assert_eq!(vnf.pods(), ["web-0", "web-1"]);
    vnf.write(disks, "old").await;
    let plan = vnf.plan_create(ID).await.unwrap();
    let names = ["web-0", "web-1"].map(|pod| format!("data-{pod}-{ID}"));
    let rows = names.clone();
    let rows = rows.map(|name| format!("VolumeSnapshot {namespace}/{name}"));
    assert_eq!(changes(&plan, ResourceAction::Create), rows);
    assert_eq!(vnf.volume_snapshots().await, [""; 0]);
    let stored = vnf.create(ID).await.unwrap();
    assert_eq!(vnf.volume_snapshots().await, names);
    let vnfcs = vnf.current.inventory.vnfc_resource_info.iter();
    let ids: Vec<_> = vnfcs.map(|vnfc| &vnfc.id).collect();
    let stored_ids: Vec<_> = stored
        .vnfcs
        .iter()
        .map(|one| &one.vnfc_instance_id)
        .collect();
    assert_eq!(stored_ids, ids);
    vnf.write(disks, "new").await;
    let plan = vnf.plan_revert(ID, &stored).await.unwrap();
    let claims =
        ["web-0", "web-1"].map(|pod| format!("PersistentVolumeClaim {namespace}/data-{pod}"));
    let pods = ["web-0", "web-1"].map(|pod| format!("Pod {pod}"));
    let replaced = [pods, claims].concat();
    assert_eq!(changes(&plan, ResourceAction::Replace), replaced);
    let returned = vnf.revert(ID, &stored, SECONDS).await.unwrap();
    let vnfcs = |recorded: &Recorded| {
        let vnfcs = recorded.inventory.vnfc_resource_info.clone();
        vnfcs.into_iter().map(|vnfc| vnfc.id).collect::<Vec<_>>()
    };
    assert_eq!(vnfcs(&returned).len(), 2);
    let stays = |id: &String| vnfcs(&vnf.current).contains(id);
    assert!(!vnfcs(&returned).iter().any(stays), "pods are replaced");
    vnf.check(disks, "old").await;
    vnf.delete(ID, &stored.handle).await.unwrap();
    assert_eq!(vnf.volume_snapshots().await, [""; 0]);
    vnf.check(disks, "old").await;
    assert!(vnf.namespace_exists().await);
    vnf.terminate().await;
    world.assert_nothing_left().await;
    assert!(!vnf.namespace_exists().await);
}

pub(crate) async fn a_snapshot_outlives_its_instance(world: &World, disks: &dyn Disks) {
    let vnf = Instance::new(world, stateful(1, "disks")).await;
    vnf.write(disks, "old").await;
    let stored = vnf.create(ID).await.unwrap();
    vnf.terminate().await;
    let owned = world
        .driver
        .owned(&world.vim, &world.owner.installation_id)
        .await
        .unwrap();
    let kinds: Vec<_> = owned.iter().map(|one| one.kind.as_str()).collect();
    assert_eq!(kinds, ["Namespace", "VolumeSnapshot"]);
    let is_of_snapshot =
        |one: &vnfm_core::ports::OwnedResource| one.snapshot_id.as_deref() == Some(ID);
    assert!(owned.iter().all(is_of_snapshot), "{owned:?}");
    let again = Instance::new(world, stateful(1, "disks")).await;
    again.write(disks, "another").await;
    again.revert(ID, &stored, SECONDS).await.unwrap();
    again.check(disks, "old").await;
    let second = again.create(OTHER_ID).await.unwrap();
    again.delete(ID, &stored.handle).await.unwrap();
    assert!(again.namespace_exists().await, "its instance uses it again");
    again.terminate().await;
    assert!(again.namespace_exists().await);
    again.delete(OTHER_ID, &second.handle).await.unwrap();
    assert!(!again.namespace_exists().await);
    world.assert_nothing_left().await;
}

pub(crate) async fn a_claim_of_a_driver_without_a_class_is_refused_by_name(world: &World) {
    let vnf = Instance::new(world, stateful(1, "unsupported")).await;
    let refused = vnf.create(ID).await.unwrap_err();
    assert_eq!(refused.name(), "kubernetes.claim-not-storable");
    let text = refused.to_string();
    let expected = "no VolumeSnapshotClass has the driver `unsupported.csi.example.com`";
    assert!(
        text.contains("`data-web-0`") && text.contains(expected),
        "{text}"
    );
    assert_eq!(vnf.volume_snapshots().await, [""; 0]);
    vnf.terminate().await;
    world.assert_nothing_left().await;
}

pub(crate) async fn a_cluster_without_volume_snapshots_is_refused_by_name(world: &World) {
    let vnf = Instance::new(world, stateful(1, "disks")).await;
    let refused = vnf.create(ID).await.unwrap_err();
    assert_eq!(refused.name(), "kubernetes.snapshots-not-served");
    let text = refused.to_string();
    assert!(
        text.contains("`data-web-0`") && text.contains("`snapshot.storage.k8s.io/v1`"),
        "{text}"
    );
    vnf.delete(ID, &Value::Null).await.unwrap();
    vnf.terminate().await;
    world.assert_nothing_left().await;
}

pub(crate) async fn a_vnf_without_claims_has_only_its_record(world: &World) {
    let what = package(&[(1, crate::support::CONFIG)], "", json!({}));
    let vnf = Instance::new(world, what).await;
    let stored = vnf.create(ID).await.unwrap();
    assert_eq!(stored.vnfcs, []);
    let logs = world.seen.logs.lock().unwrap().clone();
    let says = |log: &String| log.contains("the VNF has no claims");
    assert!(logs.iter().any(says), "{logs:?}");
    let plan = vnf.plan_revert(ID, &stored).await.unwrap();
    assert!(!plan.changes(), "{plan:?}");
    vnf.revert(ID, &stored, SECONDS).await.unwrap();
    vnf.delete(ID, &stored.handle).await.unwrap();
    vnf.terminate().await;
    world.assert_nothing_left().await;
}

/// A return after a change of size: the claims of the pods that were added stay, those of the snapshot are restored.
pub(crate) async fn a_return_gives_the_vnf_its_size(world: &World, disks: &dyn Disks) {
    let mut vnf = Instance::new(world, stateful(1, "disks")).await;
    vnf.write(disks, "old").await;
    let stored = vnf.create(ID).await.unwrap();
    let larger = stateful(2, "disks");
    let change = Convergence::update(&vnf.current, &larger);
    let cx = world.cx(SECONDS);
    let grown = world.driver.converge(&cx, &change, &Value::Null).await;
    vnf.current = grown.unwrap();
    vnf.write(disks, "new").await;
    vnf.current = vnf.revert(ID, &stored, SECONDS).await.unwrap();
    assert_eq!(vnf.pods(), ["web-0"]);
    vnf.check(disks, "old").await;
    vnf.delete(ID, &stored.handle).await.unwrap();
    vnf.terminate().await;
    world.assert_nothing_left().await;
}

/// A claim that a manifest defines is made again, and applying the manifest afterwards changes nothing about it.
pub(crate) async fn a_claim_of_a_manifest_is_restored(world: &World, disks: &dyn Disks) {
    let claim = "apiVersion: v1\nkind: PersistentVolumeClaim\nmetadata: {name: data}\nspec: {accessModes: [ReadWriteOnce], storageClassName: disks, resources: {requests: {storage: 1Gi}}}\n";
    let mount = "      volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]\n";
    let web = crate::support::deployment(1, mount);
    let what = package(&[(1, claim), (2, &web)], "", json!({}));
    let mut vnf = Instance::new(world, what).await;
    disks.write(&vnf.pods()[0], "old").await;
    let stored = vnf.create(ID).await.unwrap();
    disks.write(&vnf.pods()[0], "new").await;
    let plan = vnf.plan_revert(ID, &stored).await.unwrap();
    let row = format!("PersistentVolumeClaim {}/data", world.namespace());
    assert!(
        changes(&plan, ResourceAction::Replace).contains(&row),
        "{plan:?}"
    );
    assert!(
        !changes(&plan, ResourceAction::Keep).contains(&row),
        "{plan:?}"
    );
    vnf.current = vnf.revert(ID, &stored, SECONDS).await.unwrap();
    let restored = disks.read(&vnf.pods()[0]).await;
    assert_eq!(restored.as_deref(), Some("old"));
    let plan = vnf.plan_create(OTHER_ID).await.unwrap();
    assert!(
        changes(&plan, ResourceAction::Keep).contains(&row),
        "{plan:?}"
    );
    assert_eq!(changes(&plan, ResourceAction::Update), [""; 0]);
    vnf.delete(ID, &stored.handle).await.unwrap();
    vnf.terminate().await;
    world.assert_nothing_left().await;
}

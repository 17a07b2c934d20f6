//! Snapshots of servers with volumes on the simulated cloud: what Cinder and Nova refuse, and what broke on the way.

use crate::simulated::{assert_clean, bed, world};
use crate::support::{TestBed, allocation, sample};
use serde_json::{Value, json};
use std::time::Duration;
use vnfm_core::ports::{
    Allocation, InfraDriver, PortError, Recorded, Release, ResourceChange, ResourcePlan, Reversion,
    SnapshotSource, Snapshots, StoredSnapshot,
};
use vnfm_sim::World;
use vnfm_sim::faults::{Fault, Rule};

const SNAPSHOT: &str = "5c1f8f7e-2f5b-4f0a-9a3e-0a8b6d3c1e42";

/// Two servers with a volume each.
struct Pair {
    world: World,
    bed: TestBed,
    what: Allocation,
    created: Recorded,
}

impl Pair {
    async fn new() -> Self {
        let world = world(Duration::ZERO).await;
        let bed = bed(&world);
        let folder = crate::support::sample_folder("vnf-ha-pair");
        let request = std::fs::read_to_string(folder.join("requests/instantiate.json")).unwrap();
        let request = serde_json::from_str(&world.fill_sample(&request, "vim", "")).unwrap();
        let what = allocation(sample("vnf-ha-pair"), request);
        let created = bed.instantiate(&what).await.unwrap();
        Self {
            world,
            bed,
            what,
            created,
        }
    }

    fn snapshots(&self) -> &dyn Snapshots {
        self.bed.driver.snapshots().unwrap()
    }

    async fn create(&self) -> Result<StoredSnapshot, PortError> {
        let source = SnapshotSource {
            id: SNAPSHOT,
            current: &self.created,
            what: &self.what,
        };
        self.snapshots().create(&self.bed.call(), &source).await
    }

    async fn revert(&self, stored: &StoredSnapshot) -> Result<Recorded, PortError> {
        let reversion = Reversion {
            id: SNAPSHOT,
            then: &self.created.inventory,
            stored,
            current: &self.created,
            target: &self.what,
            before: &self.what,
        };
        self.snapshots().revert(&self.bed.call(), &reversion).await
    }

    async fn delete(&self) -> Result<(), PortError> {
        let nothing = &Value::Null;
        self.snapshots()
            .delete(&self.bed.call(), SNAPSHOT, nothing)
            .await
    }

    async fn release(&self) -> Result<(), PortError> {
        let handle = self.created.handle.clone();
        self.bed.release(&self.what, handle).await
    }

    async fn plan_release(&self) -> Result<ResourcePlan, PortError> {
        let how = Release {
            handle: self.created.handle.clone(),
            grace_seconds: None,
            retained: Vec::new(),
        };
        let change = ResourceChange::Release {
            what: &self.what,
            current: &self.created,
            how: &how,
        };
        self.bed.driver.plan(&self.bed.call(), &change).await
    }

    fn calls(&self, name: &str) -> usize {
        self.world.ledger().calls_named(name).len()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_with_snapshots_are_not_deleted_and_neither_is_anything_else() {
    let it = Pair::new().await;
    it.create().await.unwrap();
    let refused = it.plan_release().await.unwrap_err();
    assert_eq!(refused.code().name, "openstack.volume-has-snapshots");
    let refused = it.release().await.unwrap_err();
    assert_eq!(refused.code().name, "openstack.volume-has-snapshots");
    assert!(refused.to_string().contains(SNAPSHOT), "{refused}");
    assert_eq!(it.calls("heat.stack_delete"), 0);
    it.delete().await.unwrap();
    it.release().await.unwrap();
    assert_clean(&it.world);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deletion_of_a_volume_snapshot_is_requested_once() {
    let it = Pair::new().await;
    it.create().await.unwrap();
    it.delete().await.unwrap();
    assert_eq!(it.calls("cinder.snapshot_delete"), 2);
    it.release().await.unwrap();
    assert_clean(&it.world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_volume_snapshot_that_cinder_cannot_delete_is_named() {
    let it = Pair::new().await;
    it.create().await.unwrap();
    it.world.cloud().set_stored("snapshot", "error_deleting");
    let stuck = it.delete().await.unwrap_err();
    assert_eq!(stuck.code().name, "openstack.snapshot-stuck");
    let stuck = it.create().await.unwrap_err();
    assert_eq!(stuck.code().name, "openstack.snapshot-stuck");
    it.world.cloud().set_stored("snapshot", "error");
    it.delete().await.unwrap();
    it.release().await.unwrap();
    assert_clean(&it.world);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_that_nova_has_abandoned_is_created_again() {
    let it = Pair::new().await;
    it.create().await.unwrap();
    it.world.cloud().set_stored("image", "queued");
    it.create().await.unwrap();
    assert_eq!(it.calls("nova.create_image"), 4);
    it.delete().await.unwrap();
    it.release().await.unwrap();
    assert_clean(&it.world);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_to_detach_a_volume_is_reported() {
    let it = Pair::new().await;
    let stored = it.create().await.unwrap();
    let busy = Fault::Status { status: 409 };
    let rule = Rule::new("nova.volume_detach", busy).nth(1, 2);
    it.world.faults().add(rule);
    it.revert(&stored).await.unwrap();
    let messages = it.bed.watcher.messages();
    let is_reported = |text: &String| text.contains("Nova does not detach volume");
    assert!(messages.iter().any(is_reported), "{messages:#?}");
    it.delete().await.unwrap();
    it.release().await.unwrap();
    assert_clean(&it.world);
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_return_to_what_was_on_them() {
    let it = Pair::new().await;
    let volumes = &it.created.inventory.virtual_storage_resource_info;
    let ids = || volumes.iter().map(|one| &one.storage_resource.resource_id);
    let write = |text: &str| ids().for_each(|id| it.world.cloud().write_disk(id, text));
    write("old");
    let stored = it.create().await.unwrap();
    write("new");
    it.revert(&stored).await.unwrap();
    let texts: Vec<_> = ids().map(|id| json!(it.world.cloud().disk(id))).collect();
    assert_eq!(texts, ["old", "old"]);
    it.delete().await.unwrap();
    it.release().await.unwrap();
    assert_clean(&it.world);
}

//! Rules about storing states and returning to them. They hold trivially for a driver that cannot.

use super::interrupted::interruption_points;
use super::test_bed::TestBed;
use super::test_instance::{TestInstance, resources_on_vim, vnfcs};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::ports::{
    Allocation, Convergence, ErrorKind, PortError, Recorded, ResourceAction, ResourcePlan,
    Reversion, SnapshotSource, Snapshots, StoredSnapshot,
};
use vnfm_types::VnfcResourceInfo;

type Shared = Arc<dyn TestBed>;

/// An instance on a VIM that can store states, and the id of a snapshot of it.
struct Storable<'s> {
    snapshots: &'s dyn Snapshots,
    instance: TestInstance,
    what: Allocation,
    created: Recorded,
    id: String,
    /// On the VIM before the instance was created.
    before: BTreeSet<String>,
}

impl<'s> Storable<'s> {
    async fn new(stand: &'s Shared) -> Option<Self> {
        let snapshots = stand.driver().snapshots()?;
        let before = resources_on_vim(stand).await;
        let (instance, what) = (TestInstance::new(stand), stand.what());
        let created = instance.converged(&Convergence::create(&what)).await;
        let it = Self {
            snapshots,
            instance,
            what,
            created: created.unwrap(),
            id: uuid::Uuid::new_v4().to_string(),
            before,
        };
        it.write("old");
        Some(it)
    }

    fn source(&self) -> SnapshotSource<'_> {
        SnapshotSource {
            id: &self.id,
            current: &self.created,
            what: &self.what,
        }
    }

    fn reversion<'a>(&'a self, stored: &'a StoredSnapshot) -> Reversion<'a> {
        Reversion {
            id: &self.id,
            then: &self.created.inventory,
            stored,
            current: &self.created,
            target: &self.what,
            before: &self.what,
        }
    }

    async fn create(&self) -> Result<StoredSnapshot, PortError> {
        let clock = self.instance.stand.clock();
        let deadline = self.instance.call(&*clock);
        let cx = self.instance.cx(&*clock, &deadline);
        self.snapshots.check_source(&cx, &self.source()).await?;
        self.snapshots.create(&cx, &self.source()).await
    }

    async fn revert(&self, stored: &StoredSnapshot) -> Result<Recorded, PortError> {
        let clock = self.instance.stand.clock();
        let deadline = self.instance.call(&*clock);
        let cx = self.instance.cx(&*clock, &deadline);
        self.snapshots.revert(&cx, &self.reversion(stored)).await
    }

    async fn delete(&self, handle: &Value) -> Result<(), PortError> {
        let clock = self.instance.stand.clock();
        let deadline = self.instance.call(&*clock);
        let cx = self.instance.cx(&*clock, &deadline);
        self.snapshots.delete(&cx, &self.id, handle).await
    }

    /// What a creation would do, or a return.
    async fn planned(&self, stored: Option<&StoredSnapshot>) -> ResourcePlan {
        let clock = self.instance.stand.clock();
        let deadline = self.instance.call(&*clock);
        let cx = self.instance.cx(&*clock, &deadline);
        let planned = match stored {
            None => self.snapshots.plan_create(&cx, &self.source()).await,
            Some(stored) => {
                let reversion = self.reversion(stored);
                self.snapshots.plan_revert(&cx, &reversion).await
            }
        };
        planned.unwrap()
    }

    /// Each storage in the snapshot is one of the inventory, and of its VNFC.
    fn check_storages(&self, stored: &StoredSnapshot) {
        let inventory = &self.created.inventory;
        for vnfc in &stored.vnfcs {
            let is_its = |one: &&VnfcResourceInfo| one.id == vnfc.vnfc_instance_id;
            let known = inventory.vnfc_resource_info.iter().find(is_its).unwrap();
            for storage in &vnfc.storage_snapshot_resources {
                let id = &storage.storage_resource_id;
                let mut all = inventory.virtual_storage_resource_info.iter();
                assert!(
                    all.any(|one| one.id == *id),
                    "`{id}` is not in {inventory:#?}"
                );
                assert!(known.storage_resource_ids.contains(id), "{known:#?}");
            }
        }
    }

    /// Ids on the VIM of the VNFCs.
    fn resource_ids(&self) -> impl Iterator<Item = &String> {
        let vnfcs = self.created.inventory.vnfc_resource_info.iter();
        vnfcs.map(|vnfc| &vnfc.compute_resource.resource_id)
    }

    /// Writes to the disk of every VNFC, as what runs inside does.
    fn write(&self, text: &str) {
        if let Some(disks) = self.instance.stand.disks() {
            self.resource_ids().for_each(|id| (disks.write)(id, text));
        }
    }

    fn check_disks(&self, text: &str) {
        if let Some(disks) = self.instance.stand.disks() {
            for id in self.resource_ids() {
                assert_eq!((disks.read)(id).as_deref(), Some(text), "disk of {id}");
            }
        }
    }

    async fn resources(&self) -> BTreeSet<String> {
        resources_on_vim(&self.instance.stand).await
    }

    /// Checks that the VNFCs are those of the snapshot: the same ones, or as many of each VDU if the VIM replaces them.
    fn check_returned(&self, returned: &Recorded, when: &str) {
        if self.instance.stand.keeps_vnfcs_on_return() {
            assert_eq!(vnfcs(returned), vnfcs(&self.created), "{when}");
        }
        let of_vdus = |recorded: &Recorded| {
            let vnfcs = recorded.inventory.vnfc_resource_info.iter();
            let mut vdus: Vec<_> = vnfcs.map(|vnfc| vnfc.vdu_id.clone()).collect();
            vdus.sort_unstable();
            vdus
        };
        assert_eq!(of_vdus(returned), of_vdus(&self.created), "{when}");
    }

    /// Checks that a snapshot has left nothing: the same resources exist, or as many of each kind if the VIM replaces some.
    async fn check_resources(&self, before: &BTreeSet<String>) {
        let now = self.resources().await;
        if self.instance.stand.keeps_vnfcs_on_return() {
            assert_eq!(now, *before);
        }
        let kinds = |all: &BTreeSet<String>| {
            let kind = |one: &String| one.split(' ').next().map(str::to_owned);
            let mut kinds: Vec<_> = all.iter().filter_map(kind).collect();
            kinds.sort_unstable();
            kinds
        };
        assert_eq!(kinds(&now), kinds(before));
    }

    /// Releases the instance, of which nothing must be left.
    async fn end(self) {
        let handle = self.created.handle.clone();
        self.instance.released(&self.what, handle).await.unwrap();
        self.instance.check_released(&self.before).await;
    }
}

pub(super) async fn an_instance_returns_to_a_stored_state(stand: Shared) {
    let Some(it) = Storable::new(&stand).await else {
        return;
    };
    let existing = it.resources().await;
    let stored = it.create().await.unwrap();
    let now = it.instance.observed(&it.created.handle).await.unwrap();
    assert_eq!(now.inventory, it.created.inventory, "the instance changed");
    it.check_disks("old");
    it.write("new");
    let returned = it.revert(&stored).await.unwrap();
    it.check_returned(&returned, "returned");
    it.check_disks("old");
    it.delete(&stored.handle).await.unwrap();
    it.check_resources(&existing).await;
    it.check_disks("old");
    it.end().await;
}

pub(super) async fn a_repeated_creation_of_a_snapshot_stores_nothing_more(stand: Shared) {
    let Some(it) = Storable::new(&stand).await else {
        return;
    };
    let stored = it.create().await.unwrap();
    let existing = it.resources().await;
    assert_eq!(it.create().await.unwrap(), stored);
    assert_eq!(it.resources().await, existing);
    it.delete(&stored.handle).await.unwrap();
    it.delete(&stored.handle).await.unwrap();
    it.end().await;
}

pub(super) async fn a_snapshot_outlives_its_instance(stand: Shared) {
    let Some(it) = Storable::new(&stand).await else {
        return;
    };
    let existing = it.resources().await;
    let stored = it.create().await.unwrap();
    it.check_storages(&stored);
    let parts: BTreeSet<_> = &it.resources().await - &existing;
    let installation = &it.instance.ownership.installation_id;
    let driver = it.instance.stand.driver();
    let owned = driver.owned(&it.instance.vim, installation).await.unwrap();
    let of_snapshot = owned.iter().filter(|one| one.snapshot_id.is_some());
    for one in of_snapshot.clone() {
        assert_eq!(one.snapshot_id.as_ref(), Some(&it.id));
        assert_eq!(
            one.instance_id.as_ref(),
            Some(&it.instance.ownership.instance_id)
        );
    }
    assert_eq!(of_snapshot.count(), parts.len(), "{owned:?} {parts:?}");
    let handle = || it.created.handle.clone();
    let existing = it.resources().await;
    let released = it.instance.released(&it.what, handle()).await;
    if it.instance.stand.snapshots_hold_volumes() {
        assert_eq!(released.unwrap_err().kind(), ErrorKind::Refused);
        let left = it.resources().await;
        assert_eq!(left, existing, "a refused release deletes nothing");
        it.delete(&stored.handle).await.unwrap();
        it.instance.released(&it.what, handle()).await.unwrap();
    } else {
        released.unwrap();
        let left: BTreeSet<_> = &it.resources().await - &it.before;
        let lost: Vec<_> = parts.difference(&left).collect();
        assert!(lost.is_empty(), "lost with the instance: {lost:?}");
        let owned = driver.owned(&it.instance.vim, installation).await.unwrap();
        let of_instance = owned.iter().find(|one| one.snapshot_id.is_none());
        assert_eq!(
            of_instance, None,
            "of a released instance, only its snapshot stays"
        );
        // A namespace that is kept has objects of the cluster in it.
        if owned.len() == parts.len() {
            assert_eq!(left, parts, "of a released instance, its snapshot stays");
        }
        it.delete(&stored.handle).await.unwrap();
    }
    it.instance.check_released(&it.before).await;
}

pub(super) async fn an_interrupted_snapshot_is_completed_or_deleted(stand: Shared) {
    let Some(first) = Storable::new(&stand).await else {
        return;
    };
    let begun = first.instance.vim.turns.load(SeqCst);
    let stored = first.create().await.unwrap();
    let calls = first.instance.vim.turns.load(SeqCst) - begun;
    first.delete(&stored.handle).await.unwrap();
    let existing = first.resources().await;
    for number in interruption_points(&stand, calls) {
        first.instance.interrupt_at(number, first.create()).await;
        first.delete(&Value::Null).await.unwrap();
        assert_eq!(
            first.resources().await,
            existing,
            "cut off at call {number}"
        );
        first.instance.interrupt_at(number, first.create()).await;
        let completed = first.create().await.unwrap();
        let vnfcs = |stored: &StoredSnapshot| -> BTreeSet<String> {
            let vnfcs = stored.vnfcs.iter();
            vnfcs.map(|vnfc| vnfc.vnfc_instance_id.clone()).collect()
        };
        assert_eq!(
            vnfcs(&completed),
            vnfcs(&stored),
            "cut off at call {number}"
        );
        first.delete(&completed.handle).await.unwrap();
        assert_eq!(
            first.resources().await,
            existing,
            "cut off at call {number}"
        );
    }
    first.end().await;
}

pub(super) async fn an_interrupted_return_is_completed(stand: Shared) {
    let Some(it) = Storable::new(&stand).await else {
        return;
    };
    let stored = it.create().await.unwrap();
    let begun = it.instance.vim.turns.load(SeqCst);
    it.revert(&stored).await.unwrap();
    let calls = it.instance.vim.turns.load(SeqCst) - begun;
    for number in interruption_points(&stand, calls) {
        it.write("new");
        it.instance.interrupt_at(number, it.revert(&stored)).await;
        let returned = it.revert(&stored).await.unwrap();
        it.check_returned(&returned, &format!("cut off at call {number}"));
        it.check_disks("old");
    }
    it.delete(&stored.handle).await.unwrap();
    it.end().await;
}

pub(super) async fn what_a_plan_says_of_a_snapshot_happens(stand: Shared) {
    let Some(it) = Storable::new(&stand).await else {
        return;
    };
    let existing = it.resources().await;
    let plan = it.planned(None).await;
    assert_eq!(it.resources().await, existing, "a plan changed something");
    let created = |plan: &ResourcePlan| {
        let rows = plan.resources.iter();
        rows.filter(|row| row.action == ResourceAction::Create)
            .count()
    };
    let stored = it.create().await.unwrap();
    let parts = it.resources().await.len() - existing.len();
    assert_eq!(created(&plan), parts, "{plan:#?}");
    let plan = it.planned(Some(&stored)).await;
    let of_stored = |id: &String| stored.vnfcs.iter().any(|one| one.vnfc_instance_id == *id);
    let vnfcs = plan.resources.iter();
    let vnfcs = vnfcs.filter(|row| row.vnfc.as_ref().is_some_and(of_stored));
    let is_overwritten = |row: &vnfm_core::ports::PlannedResource| {
        matches!(row.action, ResourceAction::Update | ResourceAction::Replace)
    };
    assert_eq!(vnfcs.clone().count(), stored.vnfcs.len(), "{plan:#?}");
    assert!(vnfcs.clone().all(is_overwritten), "{plan:#?}");
    it.delete(&stored.handle).await.unwrap();
    it.end().await;
}

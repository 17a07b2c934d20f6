//! Snapshots on a VIM in memory: what returns and what stays, refusals, failures, deletion, races.

use super::fakes::*;
use super::faults::ready_with_store;
use super::scale::{Scalable, Task, down, out};
use super::setup::*;
use futures::future::join_all;
use serde_json::json;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::ports::*;
use vnfm_core::query::VisibilityScope;
use vnfm_core::{Refusal, Why};
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp, RolledBack};
use vnfm_types::*;

fn create(id: &str) -> Task {
    let body = json!({"vnfSnapshotInfoId": id, "userDefinedData": {"before": "upgrade"}});
    (LcmOperationType::CreateSnapshot, body)
}

fn revert(id: &str) -> Task {
    let body = json!({"vnfSnapshotInfoId": id});
    (LcmOperationType::RevertToSnapshot, body)
}

impl Scalable {
    async fn snapshot(&self, id: &str) -> SnapshotRecord {
        self.store.snapshot(TENANT, id).await.unwrap()
    }

    /// Another snapshot without contents.
    async fn empty(&self) -> String {
        let scope = VisibilityScope::default();
        let request = CreateVnfSnapshotInfoRequest::default();
        let created = self.engine.create_snapshot_info(TENANT, &scope, request);
        created.await.unwrap().info.id
    }

    async fn delete_snapshot(&self, id: &str) -> Result<(), Refusal> {
        let expected = |_: &SnapshotRecord| true;
        let deleted = self.engine.delete_snapshot_info(TENANT, id, &expected);
        deleted.await
    }

    /// Writes the same text to every disk.
    async fn write_disks(&self, text: &str) {
        for vnfc in self.vnfcs().await {
            self.vim.0.write(&vnfc, text);
        }
    }

    /// The texts on all disks.
    async fn disks(&self) -> BTreeSet<Option<String>> {
        let vnfcs = self.vnfcs().await;
        vnfcs.iter().map(|vnfc| self.vim.0.disk(vnfc)).collect()
    }

    async fn modify(&self, patch: serde_json::Value) {
        let request = serde_json::from_value(patch).unwrap();
        let op = self.engine.modify(TENANT, &self.id, request, &|_| true);
        self.engine.drive(&op.await.unwrap()).await.unwrap();
    }

    async fn refused(&self, task: &Task) -> Refusal {
        let before = self.store.instance(TENANT, &self.id).await.unwrap();
        let refused = self.begin(task).await.unwrap_err();
        let after = self.store.instance(TENANT, &self.id).await.unwrap();
        assert_eq!(after, before, "{task:?}");
        refused
    }
}

#[tokio::test]
async fn a_vnf_returns_to_its_size_its_disks_and_its_record() {
    let it = Scalable::new().await;
    it.modify(json!({"metadata": {"site": "oslo"}, "vnfInstanceName": "first"}))
        .await;
    it.write_disks("old").await;
    let (vnfcs, info) = (it.vnfcs().await, it.info().await);
    let stored = it.completed(&create(SNAPSHOT)).await;
    assert_eq!(stored.vnf_snapshot_info_id.as_deref(), Some(SNAPSHOT));
    assert_eq!(
        stored.resource_changes, None,
        "the instance does not change"
    );
    assert_eq!(it.info().await, info);
    it.modify(json!({"metadata": {"site": null, "rack": 1}, "vnfInstanceName": "second"}))
        .await;
    it.completed(&out("clients", 1)).await;
    it.write_disks("new").await;

    let returned = it.completed(&revert(SNAPSHOT)).await;
    assert_eq!(it.vnfcs().await, vnfcs);
    assert_eq!(it.disks().await, BTreeSet::from([Some("old".to_owned())]));
    let record = it.store.instance(TENANT, &it.id).await.unwrap();
    assert_eq!(
        record.vnf.metadata,
        *json!({"site": "oslo"}).as_object().unwrap()
    );
    assert_eq!(record.vnf.vnf_instance_name.as_deref(), Some("second"));
    let changes = returned.resource_changes.unwrap().affected_vnfcs;
    let of_type = |wanted: ChangeType| changes.iter().filter(move |one| one.change_type == wanted);
    assert_eq!(of_type(ChangeType::Modified).count(), vnfcs.len());
    assert_eq!(of_type(ChangeType::Removed).count(), 2);
}

#[tokio::test]
async fn vnfcs_that_are_gone_come_back_with_their_disks() {
    let it = Scalable::at_level(<_>::default(), "city").await;
    it.write_disks("old").await;
    let size = it.vnfcs().await.len();
    it.completed(&create(SNAPSHOT)).await;
    it.completed(&down("clients", 1)).await;
    assert!(it.vnfcs().await.len() < size);
    it.completed(&revert(SNAPSHOT)).await;
    assert_eq!(it.vnfcs().await.len(), size);
    assert_eq!(it.disks().await, BTreeSet::from([Some("old".to_owned())]));
}

#[tokio::test]
async fn a_snapshot_has_the_record_of_its_instance() {
    let it = Scalable::new().await;
    let before = it.store.instance(TENANT, &it.id).await.unwrap().vnf;
    let op = it.completed(&create(SNAPSHOT)).await;
    let record = it.snapshot(SNAPSHOT).await;
    let contents = record.info.vnf_snapshot.unwrap();
    assert_eq!(contents.vnf_instance_id, it.id);
    assert_eq!(contents.creation_started_at, Some(op.start_time));
    assert!(contents.creation_finished_at >= contents.creation_started_at);
    assert_eq!(contents.user_defined_data["before"], "upgrade");
    let copy = contents.vnf_instance.unwrap();
    assert_eq!(copy.instantiated_vnf_info, before.instantiated_vnf_info);
    let stored: Vec<_> = contents.vnfc_snapshots.iter().collect();
    assert_eq!(stored.len(), 3);
    for vnfc in stored {
        let resource = vnfc.compute_snapshot_resource.as_ref().unwrap();
        assert!(it.vim.0.snapshots().contains(&resource.resource_id));
        assert!(vnfc.creation_finished_at.is_some());
    }
    let text = serde_json::to_string(&record.info.id).unwrap();
    assert!(!text.contains("planted"), "{text}");
}

#[tokio::test]
async fn what_does_not_fit_is_refused_and_changes_nothing() {
    let it = Scalable::new().await;
    let wrong = it.refused(&create("none")).await;
    assert_eq!(wrong.why, Why::Unprocessable, "{wrong}");
    let wrong = it.refused(&revert("none")).await;
    assert_eq!(wrong.why, Why::Unprocessable, "{wrong}");
    let empty = it.refused(&revert(SNAPSHOT)).await;
    assert_eq!(
        (empty.why, empty.code.name),
        (Why::Conflict, "snapshot.unusable")
    );
    assert!(empty.detail.ends_with("is empty"), "{empty}");
    it.completed(&create(SNAPSHOT)).await;
    let full = it.refused(&create(SNAPSHOT)).await;
    assert!(
        full.why == Why::Conflict && full.detail.contains("is not empty"),
        "{full}"
    );

    it.world.powerless.store(true, SeqCst);
    for task in [create(&it.empty().await), revert(SNAPSHOT)] {
        let unable = it.refused(&task).await;
        assert!(
            unable.why == Why::NotFound && unable.detail.contains("cannot store"),
            "{unable}"
        );
    }
}

#[tokio::test]
async fn a_snapshot_of_another_instance_is_refused() {
    let (_, engine, id, store) = ready_with_store(LcmOperationType::RevertToSnapshot).await;
    let other = instance(&engine).await;
    let op = engine
        .instantiate(TENANT, &other, on("cloud"))
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    let body = json!({"vnfSnapshotInfoId": SNAPSHOT});
    let operation = engine
        .operation(LcmOperationType::RevertToSnapshot)
        .unwrap();
    let begin = || vnfm_core::lcm::Begin::new(operation, body.clone());
    let refused = engine.begin(TENANT, &other, begin()).await.unwrap_err();
    assert_eq!(refused.why, Why::Unprocessable);
    assert!(refused.detail.contains(&id), "{refused}");
    assert_eq!(
        store.snapshot(TENANT, SNAPSHOT).await.unwrap().used_by,
        None
    );
    engine.begin(TENANT, &id, begin()).await.unwrap();
}

#[tokio::test]
async fn a_snapshot_in_use_is_neither_used_nor_changed_nor_deleted() {
    let it = Scalable::new().await;
    let op = it.begin(&create(SNAPSHOT)).await.unwrap();
    assert_eq!(it.snapshot(SNAPSHOT).await.used_by.as_ref(), Some(&op));
    let expected = |_: &SnapshotRecord| true;
    let package = CreateVnfSnapshotInfoRequest {
        vnf_snapshot_pkg_id: Some("p".into()),
        ..<_>::default()
    };
    let modified = it
        .engine
        .modify_snapshot_info(TENANT, SNAPSHOT, package, &expected);
    for refused in [
        modified.await.map(drop).unwrap_err(),
        it.delete_snapshot(SNAPSHOT).await.unwrap_err(),
    ] {
        assert_eq!(
            (refused.why, refused.code.name),
            (Why::Conflict, "snapshot.busy")
        );
        assert_eq!(refused.blocked_by, std::slice::from_ref(&op));
    }
    it.engine.drive(&op).await.unwrap();
    assert_eq!(it.snapshot(SNAPSHOT).await.used_by, None);
    it.delete_snapshot(SNAPSHOT).await.unwrap();
}

#[tokio::test]
async fn one_of_many_instances_gets_an_empty_snapshot() {
    let (_, engine, _, store) = ready_with_store(LcmOperationType::CreateSnapshot).await;
    let mut instances = Vec::new();
    for _ in 0..8 {
        let id = instance(&engine).await;
        let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
        engine.drive(&op).await.unwrap();
        instances.push(id);
    }
    let operation = engine.operation(LcmOperationType::CreateSnapshot).unwrap();
    let begin = async |id: &String| {
        let body = json!({"vnfSnapshotInfoId": SNAPSHOT});
        let begin = vnfm_core::lcm::Begin::new(operation, body);
        engine.begin(TENANT, id, begin).await
    };
    let all = join_all(instances.iter().map(begin)).await;
    let (begun, refused): (Vec<_>, Vec<_>) = all.into_iter().partition(Result::is_ok);
    assert_eq!(begun.len(), 1);
    assert!(
        refused
            .iter()
            .all(|one| one.as_ref().unwrap_err().why == Why::Conflict)
    );
    let op = begun.into_iter().next().unwrap().unwrap();
    let used_by = store.snapshot(TENANT, SNAPSHOT).await.unwrap().used_by;
    assert_eq!(used_by, Some(op));
}

#[tokio::test]
async fn a_creation_that_is_rolled_back_leaves_an_empty_snapshot() {
    for after_effect in [false, true] {
        let it = Scalable::new().await;
        *it.world.fail_after_effect.lock().unwrap() = after_effect;
        fail_at(&it, "store");
        let op = it.run(&create(SNAPSHOT)).await;
        assert_eq!(state(&it.engine, &op).await, FailedTemp);
        assert_eq!(it.vim.0.snapshots().is_empty(), !after_effect);
        it.engine.rollback(TENANT, &op).await.unwrap();
        it.engine.drive(&op).await.unwrap();
        assert_eq!(state(&it.engine, &op).await, RolledBack);
        assert!(it.vim.0.snapshots().is_empty());
        let record = it.snapshot(SNAPSHOT).await;
        assert_eq!((record.info.vnf_snapshot, record.deployment), (None, None));
        it.completed(&create(SNAPSHOT)).await;
    }
}

/// The next call of this name fails once: calls before it are those of the operation.
fn fail_at(it: &Scalable, name: &str) {
    it.world.calls.lock().unwrap().clear();
    let number = match name {
        "store" | "revert" => 3, // after `prepare` and the `…_start` hook
        "discard" => 1,
        other => panic!("{other}"),
    };
    it.world.fail_call.store(number, SeqCst);
}

#[tokio::test]
async fn a_creation_that_failed_leaves_what_only_a_deletion_ends() {
    let it = Scalable::new().await;
    *it.world.fail_after_effect.lock().unwrap() = true;
    fail_at(&it, "store");
    let op = it.run(&create(SNAPSHOT)).await;
    it.engine.fail(TENANT, &op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, Failed);
    assert!(!it.vim.0.snapshots().is_empty());
    let refused = it.refused(&revert(SNAPSHOT)).await;
    assert!(refused.detail.contains("is incomplete"), "{refused}");
    let refused = it.refused(&create(SNAPSHOT)).await;
    assert!(refused.detail.contains("is not empty"), "{refused}");
    it.delete_snapshot(SNAPSHOT).await.unwrap();
    assert!(it.vim.0.snapshots().is_empty());
    let deleted = it.store.snapshot(TENANT, SNAPSHOT).await.unwrap_err();
    assert!(matches!(deleted, StoreError::NotFound { .. }));
}

#[tokio::test]
async fn a_revert_that_failed_is_repeated() {
    for after_effect in [false, true] {
        let it = Scalable::new().await;
        it.write_disks("old").await;
        it.completed(&create(SNAPSHOT)).await;
        it.write_disks("new").await;
        *it.world.fail_after_effect.lock().unwrap() = after_effect;
        fail_at(&it, "revert");
        let op = it.run(&revert(SNAPSHOT)).await;
        let refused = it.engine.rollback(TENANT, &op).await.unwrap_err();
        assert!(refused.detail.contains("step `revert`"), "{refused}");
        it.engine.retry(TENANT, &op).await.unwrap();
        it.engine.drive(&op).await.unwrap();
        assert_eq!(state(&it.engine, &op).await, Completed);
        assert_eq!(it.disks().await, BTreeSet::from([Some("old".to_owned())]));
        it.check_consistent().await;
    }
}

#[tokio::test]
async fn a_snapshot_outlives_its_instance_and_holds_its_vim() {
    let it = Scalable::new().await;
    it.completed(&create(SNAPSHOT)).await;
    let request = TerminateVnfRequest::default();
    let op = it.engine.terminate(TENANT, &it.id, request).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    it.engine.delete(TENANT, &it.id).await.unwrap();
    let (orphans, unreachable) = it.engine.orphans(TENANT).await.unwrap();
    assert!(orphans.is_empty() && unreachable.is_empty(), "{orphans:?}");
    let held = it.engine.delete_vim(TENANT, CLOUD, None).await.unwrap_err();
    assert_eq!(held.why, Why::Conflict);
    assert_eq!(held.blocked_by, [format!("VNF snapshot ({SNAPSHOT})")]);
    let hint = held.next();
    assert!(hint.contains("delete the listed VNF snapshots"), "{hint}");
    it.delete_snapshot(SNAPSHOT).await.unwrap();
    assert!(it.vim.0.snapshots().is_empty());
    it.engine.delete_vim(TENANT, CLOUD, None).await.unwrap();
}

#[tokio::test]
async fn a_deletion_that_the_vim_does_not_complete_is_repeated() {
    let it = Scalable::new().await;
    it.completed(&create(SNAPSHOT)).await;
    fail_at(&it, "discard");
    let failed = it.delete_snapshot(SNAPSHOT).await.unwrap_err();
    assert_eq!(failed.why, Why::Unavailable, "{failed}");
    assert!(it.snapshot(SNAPSHOT).await.deleting);
    let refused = it.refused(&revert(SNAPSHOT)).await;
    assert!(refused.detail.ends_with("is being deleted"), "{refused}");
    it.delete_snapshot(SNAPSHOT).await.unwrap();
    assert!(it.vim.0.snapshots().is_empty());
}

#[tokio::test]
async fn what_a_lost_snapshot_has_stored_is_an_orphan() {
    let it = Scalable::new().await;
    it.completed(&create(SNAPSHOT)).await;
    let version = it.snapshot(SNAPSHOT).await.version;
    let remove = Change::RemoveSnapshot {
        tenant: TENANT.into(),
        id: SNAPSHOT.into(),
        version,
    };
    it.store.write(None, vec![remove]).await.unwrap();
    let (orphans, _) = it.engine.orphans(TENANT).await.unwrap();
    // The cluster that the instance registered is served by the same driver.
    let on_cloud = orphans.iter().filter(|one| one.vim_id == CLOUD);
    assert_eq!(on_cloud.count(), 3, "{orphans:?}");
    let of_snapshot = |one: &Orphan| one.vnf_snapshot_info_id.as_deref() == Some(SNAPSHOT);
    assert!(orphans.iter().all(of_snapshot), "{orphans:?}");
}

#[tokio::test]
async fn hooks_and_nfvo_learn_of_the_snapshot() {
    let world = FakeWorld::with_nfvo();
    let it = Scalable::at_level(world.clone(), "trial").await;
    it.completed(&create(SNAPSHOT)).await;
    it.completed(&revert(SNAPSHOT)).await;
    let hooks = world.hook_snapshots.lock().unwrap().clone();
    let names: Vec<_> = hooks.iter().map(|(name, _)| name.as_str()).collect();
    let expected = [
        "create_snapshot_start",
        "create_snapshot_end",
        "revert_to_snapshot_start",
        "revert_to_snapshot_end",
    ];
    assert_eq!(names, expected);
    assert!(
        hooks
            .iter()
            .all(|(_, one)| one.vnf_snapshot_info_id == SNAPSHOT)
    );
    assert_eq!(hooks[0].1.user_defined_data["before"], "upgrade");
    let grants = world.grant_requests.lock().unwrap().clone();
    assert_eq!(grants.len(), 2);
    for grant in grants {
        assert!(grant.add_resources.is_empty() && grant.remove_resources.is_empty());
        assert_eq!(grant.update_resources.len(), 3, "{grant:?}");
        let names_it = |one: &ResourceDefinition| {
            let part = one.snapshot_res_def.as_ref();
            part.is_some_and(|part| part.vnf_snapshot_id == SNAPSHOT)
        };
        assert!(grant.update_resources.iter().all(names_it));
    }
}

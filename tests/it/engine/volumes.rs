//! Retained volumes on a VIM in memory: their use by instances, refusals, failures, crashes, other tenants.

use super::fakes::*;
use super::faults::run_to_end;
use super::scale::{CountedVim, Scalable, begin_on, down, out};
use super::setup::*;
use super::stopping_store::stop_at;
use async_trait::async_trait;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::*;
use vnfm_core::query::Query;
use vnfm_core::{Engine, EngineParts, Limits, Refusal, Why};
use vnfm_descriptor::Package;
use vnfm_types::LcmOperationState::{Completed, FailedTemp, RolledBack};
use vnfm_types::*;

#[async_trait]
impl Volumes for CountedVim {
    async fn find_volumes(
        &self,
        cx: &VimCall<'_>,
        storages: &[VirtualStorageResourceInfo],
    ) -> Result<Vec<FoundVolume>, PortError> {
        self.0.find_volumes(cx, storages).await
    }
    async fn retain_volumes(
        &self,
        cx: &VimCall<'_>,
        volumes: &[RetainedVolume],
    ) -> Result<(), PortError> {
        let work = self.0.retain_volumes(cx, volumes);
        self.around("retain_volumes", work).await
    }
    async fn unretain_volumes(
        &self,
        cx: &VimCall<'_>,
        volumes: &[RetainedVolume],
    ) -> Result<(), PortError> {
        let work = self.0.unretain_volumes(cx, volumes);
        self.around("unretain_volumes", work).await
    }
    async fn create_volume(
        &self,
        cx: &VimCall<'_>,
        volume: &RetainedVolume,
    ) -> Result<FoundVolume, PortError> {
        let work = self.0.create_volume(cx, volume);
        self.around("create_volume", work).await
    }
    async fn delete_volume(
        &self,
        cx: &VimCall<'_>,
        volume: &RetainedVolume,
    ) -> Result<(), PortError> {
        let work = self.0.delete_volume(cx, volume);
        self.around("delete_volume", work).await
    }
}

/// Two VDUs, each with a volume: `activeData` and `standbyData`.
pub(super) fn package() -> Arc<Package> {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vnfd-samples/vnf-ha-pair");
    Arc::new(Package::open(&sample, &vnfm_descriptor::Limits::default()).unwrap())
}

fn request(volumes: &[String]) -> InstantiateVnfRequest {
    let mut request = InstantiateVnfRequest {
        flavour_id: "simple".into(),
        ..on("cloud")
    };
    if !volumes.is_empty() {
        let name = REUSE_PARAM.to_owned();
        request.additional_params.insert(name, json!(volumes));
    }
    request
}

pub(super) fn retaining(what: Value) -> TerminateVnfRequest {
    let mut request = TerminateVnfRequest::default();
    let name = RETAIN_PARAM.to_owned();
    request.additional_params.insert(name, what);
    request
}

/// An instance with volumes, which `Scalable` has just instantiated.
pub(super) async fn with_volumes() -> Scalable {
    Scalable::instantiated(Arc::default(), package(), request(&[])).await
}

impl Scalable {
    pub(super) async fn records(&self) -> Vec<RetainedVolume> {
        let all = self.store.volumes(TENANT, &Query::default()).await;
        all.unwrap().into_iter().map(|one| one.volume).collect()
    }

    /// Ids of the volumes on the VIM that the instance has.
    pub(super) async fn storages(&self, id: &str) -> BTreeSet<String> {
        let vnf = self.store.instance(TENANT, id).await.unwrap().vnf;
        let info = vnf.instantiated_vnf_info.unwrap();
        let all = info.virtual_storage_resource_info.into_iter();
        all.map(|one| one.storage_resource.resource_id).collect()
    }

    pub(super) async fn terminated(&self, id: &str, how: TerminateVnfRequest) -> String {
        let op = self.engine.terminate(TENANT, id, how).await.unwrap();
        self.engine.drive(&op).await.unwrap();
        op
    }

    pub(super) async fn new_instance(&self, volumes: &[String]) -> Result<String, Refusal> {
        let id = instance(&self.engine).await;
        let op = self
            .engine
            .instantiate(TENANT, &id, request(volumes))
            .await?;
        self.engine.drive(&op).await.unwrap();
        assert_eq!(state(&self.engine, &op).await, Completed);
        Ok(id)
    }

    pub(super) async fn delete_volume(&self, id: &str) -> Result<(), Refusal> {
        self.engine.delete_volume(TENANT, id).await
    }

    /// The orphans that are volumes.
    pub(super) async fn orphan_volumes(&self) -> Vec<String> {
        let (orphans, _) = self.engine.orphans(TENANT).await.unwrap();
        orphans
            .into_iter()
            .filter_map(|one| one.volume_id)
            .collect()
    }

    pub(super) fn fails(&self, call: &'static str) {
        self.world
            .failing
            .lock()
            .unwrap()
            .insert(call, (1, &INJECTED));
    }
}

#[tokio::test]
async fn a_volume_outlives_its_instance_and_comes_into_another() {
    let it = with_volumes().await;
    let before = it.storages(&it.id).await;
    assert_eq!(before.len(), 2);
    it.terminated(&it.id, retaining(json!(["activeData"])))
        .await;
    let [kept] = <[_; 1]>::try_from(it.records().await).unwrap();
    assert_eq!(
        it.vim.0.volumes(),
        BTreeSet::from([kept.on_vim().to_owned()])
    );
    assert!(before.contains(kept.on_vim()));
    assert_eq!(
        (
            &*kept.virtual_storage_desc_id,
            &kept.vnf_instance_id,
            &kept.used_by
        ),
        ("activeData", &Some(it.id.clone()), &None)
    );
    assert_eq!(it.orphan_volumes().await, Vec::<String>::new());

    let id = it
        .new_instance(std::slice::from_ref(&kept.id))
        .await
        .unwrap();
    assert!(it.storages(&id).await.contains(kept.on_vim()));
    assert_eq!(it.records().await[0].used_by, Some(id.clone()));
    let second = it.new_instance(std::slice::from_ref(&kept.id)).await;
    let second = second.unwrap_err();
    assert_eq!(
        (second.why, second.code.name, &second.blocked_by[..]),
        (Why::Conflict, "volume.in-use", std::slice::from_ref(&id))
    );
    let refused = it.delete_volume(&kept.id).await.unwrap_err();
    assert_eq!(
        (refused.why, refused.code.name, &refused.blocked_by[..]),
        (Why::Conflict, "request.in-use", std::slice::from_ref(&id))
    );
    // It stays without being named again, and only that one.
    it.terminated(&id, TerminateVnfRequest::default()).await;
    assert_eq!(it.records().await, std::slice::from_ref(&kept));
    assert_eq!(
        it.vim.0.volumes(),
        BTreeSet::from([kept.on_vim().to_owned()])
    );
    it.delete_volume(&kept.id).await.unwrap();
    assert_eq!(it.vim.0.volumes(), BTreeSet::new());
    assert_eq!(
        it.delete_volume(&kept.id).await.unwrap_err().why,
        Why::NotFound
    );
}

#[tokio::test]
async fn all_volumes_are_retained_once_also_those_that_were_before() {
    let it = with_volumes().await;
    it.terminated(&it.id, retaining(json!("all"))).await;
    let records = it.records().await;
    assert_eq!(records.len(), 2);
    let ids: Vec<_> = records.iter().map(|one| one.id.clone()).collect();
    let id = it.new_instance(&ids).await.unwrap();
    assert_eq!(it.vim.0.volumes().len(), 2);
    it.terminated(&id, retaining(json!("all"))).await;
    assert_eq!(it.records().await, records);
}

#[tokio::test]
async fn grants_list_what_comes_and_goes_but_no_volume_that_stays() {
    let world = FakeWorld::with_nfvo();
    let it = Scalable::instantiated(world, package(), request(&[])).await;
    it.terminated(&it.id, retaining(json!(["activeData"])))
        .await;
    let kept = it.records().await[0].clone();
    let id = it
        .new_instance(std::slice::from_ref(&kept.id))
        .await
        .unwrap();
    it.terminated(&id, TerminateVnfRequest::default()).await;

    let requests = it.world.grant_requests.lock().unwrap().clone();
    let storages = |all: &[ResourceDefinition]| -> Vec<String> {
        let storages = all.iter().filter(|one| one.type_ == ResourceType::Storage);
        let mut names: Vec<_> = storages
            .map(|one| one.resource_template_id.clone())
            .collect();
        names.sort();
        names
    };
    let requested: Vec<_> = requests
        .iter()
        .map(|one| {
            (
                storages(&one.add_resources),
                storages(&one.remove_resources),
            )
        })
        .collect();
    let own = || vec!["standbyData".to_owned()];
    let expected = [
        // The first termination retains the other one.
        (Vec::new(), own()),
        (own(), Vec::new()),
        (Vec::new(), own()),
    ];
    assert_eq!(requested, expected);
}

/// The resources that a grant request removes.
fn removed(request: &GrantRequest) -> Vec<(ResourceType, String)> {
    let all = request.remove_resources.iter();
    all.map(|one| (one.type_, one.resource.clone().unwrap().resource_id))
        .collect()
}

/// An instance of four nodes with a volume each; the first three volumes were retained before.
async fn with_three_volumes_from_before() -> (Scalable, BTreeSet<String>) {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../vnfd-samples/vnf-nested-groups");
    let package = Package::open(&sample, &vnfm_descriptor::Limits::default()).unwrap();
    let large = |volumes: &[String]| InstantiateVnfRequest {
        instantiation_level_id: Some("large".into()),
        ..request(volumes)
    };
    let world = FakeWorld::with_nfvo();
    let it = Scalable::instantiated(world, Arc::new(package), large(&[])).await;
    it.terminated(&it.id, retaining(json!("all"))).await;
    let kept = it.records().await;
    let used: Vec<_> = kept[..3].iter().map(|one| one.id.clone()).collect();
    let again = large(&used);
    let op = it.engine.instantiate(TENANT, &it.id, again).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, Completed);
    let reused = kept[..3].iter().map(|one| one.on_vim().to_owned());
    let reused = reused.collect();
    (it, reused)
}

#[tokio::test]
async fn grants_of_a_heal_and_a_scaling_list_no_volume_that_was_retained_before() {
    let (it, reused) = with_three_volumes_from_before().await;
    let vnf = it.store.instance(TENANT, &it.id).await.unwrap().vnf;
    let all = vnf.instantiated_vnf_info.unwrap().vnfc_resource_info;
    let nodes: Vec<_> = all.iter().filter(|one| one.vdu_id == "node").collect();
    let own = nodes[3].storage_resource_ids[0].clone();
    assert!(!reused.contains(&own));
    it.world.grant_requests.lock().unwrap().clear();

    // Its volumes too, of one node with a volume of its own, and of one without.
    let heal =
        json!({"vnfcInstanceId": [nodes[0].id, nodes[3].id], "additionalParams": {"all": true}});
    let tasks = [
        (LcmOperationType::Heal, heal),
        down("room", 1),
        out("room", 1),
    ];
    for task in &tasks {
        let op = it.run(task).await;
        assert_eq!(state(&it.engine, &op).await, Completed, "{task:?}");
    }

    let requests = it.world.grant_requests.lock().unwrap().clone();
    let [healed, scaled, grown] = <[_; 3]>::try_from(requests).unwrap();
    let volume = (ResourceType::Storage, own);
    let compute = |id: &String| (ResourceType::Compute, id.clone());
    assert_eq!(
        removed(&healed),
        [compute(&nodes[0].id), compute(&nodes[3].id), volume.clone()]
    );
    assert_eq!(healed.add_resources.len(), 3, "their successors");
    let removed_in_scaling = removed(&scaled);
    assert_eq!(
        removed_in_scaling.len(),
        3,
        "two nodes, and the volume of the last one"
    );
    assert_eq!(
        (&removed_in_scaling[0], &removed_in_scaling[2]),
        (&compute(&nodes[2].id), &volume)
    );
    let added = grown.add_resources.iter();
    let added: Vec<_> = added
        .map(|one| (one.type_, &*one.resource_template_id))
        .collect();
    let node = (ResourceType::Compute, "node");
    assert_eq!(added, [node, node, (ResourceType::Storage, "disk")]);
    assert_eq!(removed(&grown), []);
}

#[tokio::test]
async fn unusable_requests_are_refused_by_name_and_change_nothing() {
    let it = with_volumes().await;
    for (what, part) in [
        (json!(["none"]), "no storage of `none`"),
        (json!("some"), "not a list of names"),
        (json!([1]), "not a list of names"),
    ] {
        let refused = it.engine.terminate(TENANT, &it.id, retaining(what)).await;
        let refused = refused.unwrap_err();
        assert_eq!(
            (refused.why, refused.code.name),
            (Why::Unprocessable, "volume.unusable")
        );
        assert!(refused.detail.contains(part), "{}", refused.detail);
    }
    it.terminated(&it.id, retaining(json!(["activeData"])))
        .await;
    let kept = it.records().await[0].id.clone();
    for (ids, part) in [
        (vec!["none".to_owned()], "does not exist"),
        (vec![kept.clone(), kept.clone()], "one more than"),
    ] {
        let refused = it.new_instance(&ids).await.unwrap_err();
        assert_eq!(
            (refused.why, refused.code.name),
            (Why::Unprocessable, "volume.unusable")
        );
        assert!(refused.detail.contains(part), "{}", refused.detail);
    }
    assert_eq!(it.records().await[0].used_by, None);
}

#[tokio::test]
async fn a_rollback_retains_nothing() {
    let it = with_volumes().await;
    for call in ["retain_volumes", "release"] {
        let all = it.vim.0.volumes();
        it.fails(call);
        let op = it.terminated(&it.id, retaining(json!("all"))).await;
        assert_eq!(state(&it.engine, &op).await, FailedTemp);
        assert_eq!(it.records().await.len(), 2, "{call}");
        let used = it.delete_volume(&it.records().await[0].id).await;
        assert_eq!(used.unwrap_err().why, Why::Conflict);
        if call == "release" {
            // Nothing is reversed any more: what is retained stays.
            it.engine.retry(TENANT, &op).await.unwrap();
            it.engine.drive(&op).await.unwrap();
            assert_eq!(state(&it.engine, &op).await, Completed);
            assert_eq!(it.vim.0.volumes(), all);
            assert!(it.records().await.iter().all(|one| one.used_by.is_none()));
            return;
        }
        it.engine.rollback(TENANT, &op).await.unwrap();
        it.engine.drive(&op).await.unwrap();
        assert_eq!(state(&it.engine, &op).await, RolledBack);
        assert_eq!(it.records().await, []);
        assert_eq!(it.orphan_volumes().await, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_rolled_back_instantiation_gives_the_volume_back() {
    let it = with_volumes().await;
    it.terminated(&it.id, retaining(json!(["activeData"])))
        .await;
    let kept = it.records().await;
    let id = instance(&it.engine).await;
    it.fails("converge");
    let task = (
        LcmOperationType::Instantiate,
        serde_json::to_value(request(std::slice::from_ref(&kept[0].id))).unwrap(),
    );
    let op = begin_on(&it.engine, &id, &task).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, FailedTemp);
    assert_eq!(it.records().await[0].used_by, Some(id));
    it.engine.rollback(TENANT, &op).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, RolledBack);
    assert_eq!(it.records().await, kept);
    assert_eq!(it.vim.0.volumes().len(), 1);
}

#[tokio::test]
async fn a_vim_that_does_not_respond_leaves_the_deletion_to_the_next_request() {
    let it = with_volumes().await;
    it.terminated(&it.id, retaining(json!("all"))).await;
    for (after_effect, kept) in [false, true].into_iter().zip(it.records().await) {
        *it.world.fail_after_effect.lock().unwrap() = after_effect;
        it.fails("delete_volume");
        let failed = it.delete_volume(&kept.id).await.unwrap_err();
        assert_eq!(failed.why, Why::Unavailable);
        let record = it.store.volume(TENANT, &kept.id).await.unwrap().volume;
        assert_eq!(record.state, VolumeState::Deleting);
        let refused = it.new_instance(std::slice::from_ref(&kept.id)).await;
        assert_eq!(refused.unwrap_err().why, Why::Conflict);
        it.delete_volume(&kept.id).await.unwrap();
    }
    assert_eq!(it.vim.0.volumes(), BTreeSet::new());
}

#[tokio::test]
async fn volumes_of_other_tenants_do_not_exist() {
    let it = with_volumes().await;
    it.terminated(&it.id, retaining(json!(["activeData"])))
        .await;
    let kept = it.records().await[0].clone();
    let others = it.store.volumes("mallory", &Query::default()).await;
    assert_eq!(others, Ok(Vec::new()));
    let refused = it.engine.delete_volume("mallory", &kept.id).await;
    assert_eq!(refused.unwrap_err().why, Why::NotFound);
    let theft = Change::SetVolumeUses {
        tenant: "mallory".into(),
        instance_id: it.id.clone(),
        volumes: vec![kept.id.clone()],
    };
    assert!(it.store.write(None, vec![theft]).await.is_err());
    assert_eq!(it.records().await, [kept]);
}

#[tokio::test]
async fn a_crash_at_any_write_of_an_operation_leaves_the_right_volumes() {
    let it = with_volumes().await;
    for after_effect in [false, true] {
        for number in 1.. {
            let case = format!("write {number} after={after_effect}");
            let id = instance(&it.engine).await;
            let ids: Vec<_> = it.records().await.into_iter().map(|one| one.id).collect();
            let begun = it.engine.instantiate(TENANT, &id, request(&ids)).await;
            let mut has_ended = drive_until(&it, &begun.unwrap(), number, after_effect).await;
            let used = it.records().await;
            assert!(
                used.iter().all(|one| one.used_by.as_ref() == Some(&id)),
                "{case}"
            );
            let op = it
                .engine
                .terminate(TENANT, &id, retaining(json!("all")))
                .await;
            has_ended &= drive_until(&it, &op.unwrap(), number, after_effect).await;
            let records = it.records().await;
            assert_eq!(records.len(), 2, "{case}");
            assert!(records.iter().all(|one| one.used_by.is_none()), "{case}");
            let kept: BTreeSet<_> = records.iter().map(|one| one.on_vim().to_owned()).collect();
            let of_first = it.storages(&it.id).await;
            assert_eq!(it.vim.0.volumes(), &kept | &of_first, "{case}");
            // Every second round begins without volumes.
            if number % 2 == 0 || has_ended {
                for one in records {
                    it.delete_volume(&one.id).await.unwrap();
                }
            }
            if has_ended {
                assert!(number > 6, "{number} writes");
                break;
            }
        }
    }
}

/// Drives an operation by a process that ends at a write, then by another one; whether the first came to the end.
async fn drive_until(it: &Scalable, op: &str, number: usize, after_effect: bool) -> bool {
    let process = |store: Arc<dyn Store>| {
        let parts = scalable_parts(store, &it.world, it.vim.clone(), package());
        let lease = Duration::from_millis(50);
        let limits = Limits {
            lease,
            ..Limits::default()
        };
        Engine::new(EngineParts { limits, ..parts })
    };
    let stopping = stop_at(it.store.clone(), number, after_effect);
    let first = process(stopping.clone());
    let has_ended = tokio::select! {
        driven = first.drive(op) => driven.is_ok(),
        () = stopping.interceptor().stopped() => false,
    };
    let second = process(it.store.clone());
    run_to_end(&second, op).await;
    assert_eq!(state(&second, op).await, Completed);
    has_ended
}

#[tokio::test]
async fn a_rolled_back_termination_leaves_what_the_instance_had_retained_before() {
    let it = with_volumes().await;
    it.terminated(&it.id, retaining(json!(["activeData"])))
        .await;
    let kept = it.records().await;
    let again = request(std::slice::from_ref(&kept[0].id));
    let op = it.engine.instantiate(TENANT, &it.id, again).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, Completed);
    it.fails("retain_volumes");
    let op = it.terminated(&it.id, retaining(json!("all"))).await;
    assert_eq!(state(&it.engine, &op).await, FailedTemp);
    it.engine.rollback(TENANT, &op).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, RolledBack);
    let [left] = <[_; 1]>::try_from(it.records().await).unwrap();
    assert_eq!((left.id, left.used_by), (kept[0].id.clone(), Some(it.id)));
}

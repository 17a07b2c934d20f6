//! Both scalings on a VIM in memory: sizes, refusals, hooks, grants, rollback, crashes.

use super::fakes::*;
use super::faults::run_to_end;
use super::setup::*;
use super::stopping_store::stop_at;
use async_trait::async_trait;
use futures::future::join_all;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use vnfm::memory::MemoryVim;
use vnfm_core::lcm::{Begin, find};
use vnfm_core::ports::*;
use vnfm_core::{Engine, Limits, Refusal, Why};
use vnfm_descriptor::Package;
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp, RolledBack};
use vnfm_types::*;

/// A [`MemoryVim`] whose calls are counted, and can fail, in a [`FakeWorld`].
#[derive(Clone)]
pub(super) struct CountedVim(pub(super) MemoryVim, pub(super) Arc<FakeWorld>);

#[async_trait]
impl InfraDriver for CountedVim {
    fn vim_types(&self) -> &'static [&'static str] {
        &[OPENSTACK, KUBERNETES]
    }
    fn validate(&self, connection: &VimConnectionInfo) -> Result<(), PortError> {
        self.0.validate(connection)
    }
    fn validate_request(&self, allocation: &Allocation) -> Result<(), PortError> {
        self.0.validate_request(allocation)
    }
    fn permit(&self, allocation: &Allocation, policy: &VimPolicy) -> Result<(), PortError> {
        self.0.permit(allocation, policy)
    }
    async fn check(&self, vim: &dyn vnfm_core::ports::Vim) -> Result<VimReport, PortError> {
        self.1.call("check", |_| ()).await?;
        self.0.check(vim).await
    }
    async fn preview(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
    ) -> Result<Value, PortError> {
        self.1.call("prepare", |_| ()).await?;
        self.0.preview(cx, change).await
    }
    async fn plan(
        &self,
        cx: &VimCall<'_>,
        change: &ResourceChange<'_>,
    ) -> Result<ResourcePlan, PortError> {
        self.1.call("plan", |_| ()).await?;
        self.0.plan(cx, change).await
    }
    async fn converge(
        &self,
        cx: &VimCall<'_>,
        change: &Convergence<'_>,
        preview: &Value,
    ) -> Result<Recorded, PortError> {
        let takes_effect = *self.1.fail_after_effect.lock().unwrap();
        if !takes_effect {
            self.1.call("converge", |_| ()).await?;
        }
        let mut change = change.clone();
        let current = change.current.into_iter();
        let mut vnfcs = current.flat_map(|current| &current.inventory.vnfc_resource_info);
        if let Some(first) = vnfcs.next().filter(|_| self.1.replaces_first.load(SeqCst)) {
            change.replace.vnfcs.push(first.id.clone());
        }
        let recorded = self.0.converge(cx, &change, preview).await?;
        let deployment = change.target.deployment.clone();
        *self.1.last_deployment.lock().unwrap() = Some(deployment);
        if takes_effect {
            self.1.call("converge", |_| ()).await?;
        }
        Ok(recorded)
    }
    async fn release(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        how: &Release,
    ) -> Result<(), PortError> {
        self.1.call("release", |_| ()).await?;
        self.0.release(cx, what, how).await
    }
    async fn observe(
        &self,
        cx: &VimCall<'_>,
        what: &Allocation,
        handle: &Value,
    ) -> Result<Recorded, PortError> {
        self.0.observe(cx, what, handle).await
    }
    fn changes_ext_connectivity(&self) -> bool {
        true
    }
    fn rolls(&self, what: &Allocation) -> bool {
        self.0.rolls(what)
    }
    fn power(&self) -> Option<&dyn Power> {
        Some(self)
    }
    fn links(&self) -> Option<&dyn Links> {
        Some(self)
    }
    fn volumes(&self) -> Option<&dyn Volumes> {
        Some(self)
    }
    fn snapshots(&self) -> Option<&dyn Snapshots> {
        (!self.1.powerless.load(SeqCst)).then_some(self)
    }
    async fn owned(
        &self,
        vim: &dyn vnfm_core::ports::Vim,
        installation_id: &str,
    ) -> Result<Vec<OwnedResource>, PortError> {
        self.0.owned(vim, installation_id).await
    }
}

#[async_trait]
impl Power for CountedVim {
    fn is_per_vnfc(&self) -> bool {
        true
    }
    async fn operate(
        &self,
        cx: &VimCall<'_>,
        change: &PowerChange<'_>,
    ) -> Result<Recorded, PortError> {
        let takes_effect = *self.1.fail_after_effect.lock().unwrap();
        if !takes_effect {
            self.1.call("power", |_| ()).await?;
        }
        let recorded = self.0.operate(cx, change).await?;
        if takes_effect {
            self.1.call("power", |_| ()).await?;
        }
        Ok(recorded)
    }
}

impl CountedVim {
    /// A call of this name that fails before or after `work`.
    pub(super) async fn around<T>(
        &self,
        name: &str,
        work: impl Future<Output = Result<T, PortError>>,
    ) -> Result<T, PortError> {
        let takes_effect = *self.1.fail_after_effect.lock().unwrap();
        if !takes_effect {
            self.1.call(name, |_| ()).await?;
        }
        let done = work.await?;
        if takes_effect {
            self.1.call(name, |_| ()).await?;
        }
        Ok(done)
    }
}

#[async_trait]
impl Snapshots for CountedVim {
    async fn check_source(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<(), PortError> {
        self.around("prepare", self.0.check_source(cx, source))
            .await
    }
    async fn create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<StoredSnapshot, PortError> {
        self.around("store", self.0.create(cx, source)).await
    }
    async fn revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<Recorded, PortError> {
        self.around("revert", self.0.revert(cx, reversion)).await
    }
    async fn delete(&self, cx: &VimCall<'_>, id: &str, handle: &Value) -> Result<(), PortError> {
        self.around("discard", self.0.delete(cx, id, handle)).await
    }
    async fn plan_create(
        &self,
        cx: &VimCall<'_>,
        source: &SnapshotSource<'_>,
    ) -> Result<ResourcePlan, PortError> {
        self.0.plan_create(cx, source).await
    }
    async fn plan_revert(
        &self,
        cx: &VimCall<'_>,
        reversion: &Reversion<'_>,
    ) -> Result<ResourcePlan, PortError> {
        self.around("prepare", self.0.plan_revert(cx, reversion))
            .await
    }
}

/// An instance of `vnf-levels`: one `web` and two `worker` unless its level says otherwise.
pub(super) struct Scalable {
    pub(super) world: Arc<FakeWorld>,
    pub(super) vim: CountedVim,
    pub(super) store: Arc<dyn Store>,
    pub(super) engine: Engine,
    pub(super) id: String,
}

impl Scalable {
    pub(super) async fn new() -> Self {
        Self::at_level(Arc::default(), "trial").await
    }

    pub(super) async fn at_level(world: Arc<FakeWorld>, level: &str) -> Self {
        let request = InstantiateVnfRequest {
            flavour_id: "simple".into(),
            instantiation_level_id: Some(level.into()),
            ..on("cloud")
        };
        Self::instantiated(world, scalable_package(), request).await
    }

    pub(super) async fn instantiated(
        world: Arc<FakeWorld>,
        package: Arc<Package>,
        request: InstantiateVnfRequest,
    ) -> Self {
        let vim = CountedVim(MemoryVim::default(), world.clone());
        let store: Arc<dyn Store> = store().await;
        let engine = Engine::new(scalable_parts(store.clone(), &world, vim.clone(), package));
        let id = instance(&engine).await;
        let op = engine.instantiate(TENANT, &id, request).await.unwrap();
        engine.drive(&op).await.unwrap();
        let instantiated = store.op(TENANT, &op).await.unwrap().op;
        let error = instantiated.error;
        assert_eq!(instantiated.operation_state, Completed, "{error:?}");
        world.calls.lock().unwrap().clear();
        world.grant_requests.lock().unwrap().clear();
        Self {
            world,
            vim,
            store,
            engine,
            id,
        }
    }

    pub(super) async fn begin(&self, task: &Task) -> Result<String, Refusal> {
        begin_on(&self.engine, &self.id, task).await
    }

    /// Begins and drives; the operation.
    pub(super) async fn run(&self, task: &Task) -> String {
        let op = self.begin(task).await.unwrap();
        self.engine.drive(&op).await.unwrap();
        op
    }

    pub(super) async fn completed(&self, task: &Task) -> VnfLcmOpOcc {
        let op = self.run(task).await;
        assert_eq!(state(&self.engine, &op).await, Completed, "{task:?}");
        self.check_consistent().await;
        self.store.op(TENANT, &op).await.unwrap().op
    }

    pub(super) async fn info(&self) -> InstantiatedVnfInfo {
        let record = self.store.instance(TENANT, &self.id).await.unwrap();
        record.vnf.instantiated_vnf_info.unwrap()
    }

    /// Ids of the recorded VNFCs.
    pub(super) async fn vnfcs(&self) -> Vec<String> {
        let info = self.info().await.vnfc_resource_info;
        info.into_iter().map(|vnfc| vnfc.id).collect()
    }

    /// Numbers of `web` and `worker`.
    pub(super) async fn size(&self) -> (usize, usize) {
        let info = self.info().await.vnfc_resource_info;
        let count = |vdu: &str| info.iter().filter(|vnfc| vnfc.vdu_id == vdu).count();
        (count("web"), count("worker"))
    }

    pub(super) async fn scale_status(&self) -> Value {
        let status = self.info().await.scale_status.into_iter();
        let status = status.map(|info| (info.aspect_id, json!(info.scale_level)));
        Value::Object(status.collect())
    }

    /// The record has the VNFCs of the VIM, and the deployment their number.
    pub(super) async fn check_consistent(&self) {
        assert_eq!(self.vnfcs().await, self.vim.0.vnfcs());
        let record = self.store.instance(TENANT, &self.id).await.unwrap();
        assert_eq!(record.active_op, None);
        let wanted = record.deployment.unwrap();
        let wanted = ["web", "worker"].map(|vdu| wanted.instances_of(vdu) as usize);
        assert_eq!(self.size().await, wanted.into());
        let status = record.vnf.instantiated_vnf_info.unwrap().scale_status;
        let deployment = self.store.instance(TENANT, &self.id).await.unwrap();
        assert_eq!(status, deployment.deployment.unwrap().scale_status());
    }
}

pub(super) async fn begin_on(
    engine: &Engine,
    id: &str,
    (kind, body): &Task,
) -> Result<String, Refusal> {
    let operation = find(SCALABLE, *kind).unwrap();
    let begin = Begin::new(operation, body.clone());
    engine.begin(TENANT, id, begin).await
}

/// An operation and its request.
pub(super) type Task = (LcmOperationType, Value);

pub(super) fn out(aspect: &str, steps: u32) -> Task {
    let body = json!({"type": "SCALE_OUT", "aspectId": aspect, "numberOfSteps": steps});
    (LcmOperationType::Scale, body)
}

pub(super) fn down(aspect: &str, steps: u32) -> Task {
    let body = json!({"type": "SCALE_IN", "aspectId": aspect, "numberOfSteps": steps});
    (LcmOperationType::Scale, body)
}

pub(super) fn to_level(level: &str) -> Task {
    let body = json!({"instantiationLevelId": level});
    (LcmOperationType::ScaleToLevel, body)
}

pub(super) fn to(clients: u32, load: u32) -> Task {
    let body = json!({"scaleInfo": [{"aspectId": "clients", "scaleLevel": clients}, {"aspectId": "load", "scaleLevel": load}]});
    (LcmOperationType::ScaleToLevel, body)
}

pub(super) fn ids(vnfcs: &[VnfcResourceInfo]) -> BTreeSet<String> {
    vnfcs.iter().map(|vnfc| vnfc.id.clone()).collect()
}

pub(super) fn affected(occurrence: &VnfLcmOpOcc, change: ChangeType) -> BTreeSet<String> {
    let changes = occurrence.resource_changes.clone().unwrap();
    let all = changes.affected_vnfcs.into_iter();
    all.filter(|vnfc| vnfc.change_type == change)
        .map(|vnfc| vnfc.id)
        .collect()
}

#[tokio::test]
async fn steps_of_any_size_add_and_remove_vnfcs_and_keep_the_others() {
    let it = Scalable::new().await;
    assert_eq!(it.size().await, (1, 2));
    let mut before: BTreeSet<_> = it.vnfcs().await.into_iter().collect();
    for (task, size, status) in [
        (out("clients", 1), (3, 2), json!({"clients": 1, "load": 0})),
        (out("load", 2), (3, 8), json!({"clients": 1, "load": 2})),
        (down("load", 1), (3, 4), json!({"clients": 1, "load": 1})),
        (out("clients", 2), (7, 4), json!({"clients": 3, "load": 1})),
        (down("clients", 3), (1, 4), json!({"clients": 0, "load": 1})),
    ] {
        let occurrence = it.completed(&task).await;
        assert_eq!(it.size().await, size, "{task:?}");
        assert_eq!(it.scale_status().await, status, "{task:?}");
        let after: BTreeSet<_> = it.vnfcs().await.into_iter().collect();
        assert!(after.is_subset(&before) || before.is_subset(&after));
        let (came, went) = (&after - &before, &before - &after);
        assert_eq!(affected(&occurrence, ChangeType::Added), came, "{task:?}");
        assert_eq!(affected(&occurrence, ChangeType::Removed), went, "{task:?}");
        before = after;
    }
}

#[tokio::test]
async fn a_level_is_reached_by_name_or_by_aspect_in_both_directions() {
    let it = Scalable::new().await;
    for (task, size) in [
        (to_level("city"), (7, 8)),
        (to_level("town"), (3, 4)),
        (to(3, 0), (7, 2)),
        (to(0, 2), (1, 8)),
        (to(0, 2), (1, 8)),
        (to_level("trial"), (1, 2)),
    ] {
        it.completed(&task).await;
        assert_eq!(it.size().await, size, "{task:?}");
    }
}

#[tokio::test]
async fn what_is_not_possible_is_refused_with_what_would_be() {
    let it = Scalable::new().await;
    let before = it.store.instance(TENANT, &it.id).await.unwrap();
    let level = LcmOperationType::ScaleToLevel;
    for (task, expected) in [
        (
            out("users", 1),
            "no scaling aspect `users`, only `clients`, `load`",
        ),
        (
            out("clients", 4),
            "the highest level of scaling aspect `clients` is 3, not 4",
        ),
        (
            out("clients", 0),
            "0 steps is not allowed: the descriptor allows one or more",
        ),
        (
            down("load", 1),
            "at level 0 and cannot be reduced by 1, at most by 0",
        ),
        (
            to_level("huge"),
            "no instantiation level `huge`, only `city`, `town`, `trial`",
        ),
        (
            to(1, 3),
            "the highest level of scaling aspect `load` is 2, not 3",
        ),
        (
            (
                level,
                json!({"scaleInfo": [{"aspectId": "load", "scaleLevel": 1}, {"aspectId": "load", "scaleLevel": 2}]}),
            ),
            "scaleInfo names aspect `load` twice",
        ),
        (
            (level, json!({"scaleInfo": []})),
            "scaleInfo names no aspect",
        ),
        (
            (level, json!({})),
            "either instantiationLevelId or scaleInfo",
        ),
        (
            (
                level,
                json!({"instantiationLevelId": "city", "scaleInfo": []}),
            ),
            "either instantiationLevelId or scaleInfo",
        ),
    ] {
        let refusal = it.begin(&task).await.unwrap_err();
        assert_eq!(refusal.why, Why::Unprocessable, "{refusal}");
        assert!(refusal.detail.contains(expected), "{refusal}");
    }
    assert_eq!(it.store.instance(TENANT, &it.id).await.unwrap(), before);
    assert!(it.world.calls().is_empty());
}

#[tokio::test]
async fn an_instance_without_resources_is_refused() {
    let it = Scalable::new().await;
    let bare = instance(&it.engine).await;
    for task in [out("clients", 1), to_level("town")] {
        let refusal = begin_on(&it.engine, &bare, &task).await.unwrap_err();
        assert_eq!(refusal.why, Why::Conflict, "{refusal}");
        assert!(refusal.detail.contains("NOT_INSTANTIATED"), "{refusal}");
    }
    assert!(it.world.calls().is_empty());
}

#[tokio::test]
async fn hooks_learn_which_vnfcs_go_while_they_still_run() {
    let it = Scalable::at_level(Arc::default(), "town").await;
    let before: BTreeSet<_> = it.vnfcs().await.into_iter().collect();
    it.completed(&down("load", 1)).await;
    let after: BTreeSet<_> = it.vnfcs().await.into_iter().collect();
    let scales = it.world.hook_scales.lock().unwrap().clone();
    let [(start, first, present), (end, last, left)] = &scales[..] else {
        panic!("{} hooks", scales.len());
    };
    assert_eq!((start.as_str(), end.as_str()), ("scale_start", "scale_end"));
    assert_eq!(present.iter().cloned().collect::<BTreeSet<_>>(), before);
    assert_eq!(left.iter().cloned().collect::<BTreeSet<_>>(), after);
    assert_eq!(ids(&first.vnfcs_to_remove), &before - &after);
    assert_eq!(ids(&last.vnfcs_to_remove), &before - &after);
    assert_eq!(first.type_.as_deref(), Some("SCALE_IN"));
    assert_eq!(first.aspect_id.as_deref(), Some("load"));
    assert_eq!(first.number_of_steps, Some(1));
    assert_eq!((first.levels_before["load"], first.levels["load"]), (1, 0));
    assert!(first.vnfcs_to_add.is_empty(), "{first:?}");
    assert_eq!(
        it.world.calls(),
        ["prepare", "scale_start", "converge", "scale_end"]
    );
}

#[tokio::test]
async fn if_others_went_record_changes_and_hook_name_those_that_went() {
    let it = Scalable::at_level(Arc::default(), "town").await;
    let before = it.vnfcs().await;
    it.world.replaces_first.store(true, SeqCst);
    let occurrence = it.completed(&down("load", 1)).await;
    let after = it.vnfcs().await;
    let went: BTreeSet<_> = before
        .iter()
        .filter(|id| !after.contains(id))
        .cloned()
        .collect();
    assert_eq!(
        went,
        [&before[..1], &before[5..]].concat().into_iter().collect()
    );
    assert_eq!(affected(&occurrence, ChangeType::Removed), went);
    let scales = it.world.hook_scales.lock().unwrap().clone();
    let announced = before[5..].iter().cloned().collect();
    assert_eq!(ids(&scales[0].1.vnfcs_to_remove), announced);
    assert_eq!(ids(&scales[1].1.vnfcs_to_remove), went);
}

#[tokio::test]
async fn hooks_learn_which_vnfcs_came() {
    let it = Scalable::new().await;
    let before: BTreeSet<_> = it.vnfcs().await.into_iter().collect();
    it.completed(&to_level("town")).await;
    let after: BTreeSet<_> = it.vnfcs().await.into_iter().collect();
    let scales = it.world.hook_scales.lock().unwrap().clone();
    let hooks: Vec<_> = scales.iter().map(|(hook, ..)| hook.as_str()).collect();
    assert_eq!(hooks, ["scale_to_level_start", "scale_to_level_end"]);
    assert!(scales[0].1.vnfcs_added.is_empty());
    let counts = scales.iter().map(|(_, scale, _)| &scale.vnfcs_to_add);
    for counts in counts {
        let added: u32 = counts.values().sum();
        assert_eq!(added as usize, after.len() - before.len(), "{counts:?}");
    }
    assert_eq!(ids(&scales[1].1.vnfcs_added), &after - &before);
    assert!(scales.iter().all(|(_, scale, _)| scale.type_.is_none()));
}

/// Number of the call that changes the VIM, and of the hook after it.
pub(super) const CONVERGE: usize = 3;
pub(super) const END: usize = 4;

#[tokio::test]
async fn a_rollback_of_a_scale_out_removes_exactly_what_was_added() {
    for (call, after_effect) in [(CONVERGE, false), (CONVERGE, true), (END, false)] {
        let it = Scalable::new().await;
        let before = it.store.instance(TENANT, &it.id).await.unwrap();
        *it.world.fail_after_effect.lock().unwrap() = after_effect;
        it.world.fail_call.store(call, SeqCst);
        let op = it.run(&out("load", 2)).await;
        assert_eq!(state(&it.engine, &op).await, FailedTemp);
        let is_larger = (call, after_effect) != (CONVERGE, false);
        assert_eq!(it.vim.0.vnfcs().len(), if is_larger { 9 } else { 3 });
        it.engine.rollback(TENANT, &op).await.unwrap();
        it.engine.drive(&op).await.unwrap();
        assert_eq!(state(&it.engine, &op).await, RolledBack);
        let after = it.store.instance(TENANT, &it.id).await.unwrap();
        assert_eq!(after.vnf, before.vnf);
        assert_eq!(after.deployment, before.deployment);
        it.check_consistent().await;
    }
}

#[tokio::test]
async fn a_scale_in_can_be_rolled_back_until_it_removes() {
    let it = Scalable::at_level(Arc::default(), "town").await;
    let before = it.vnfcs().await;
    it.world.fail_call.store(CONVERGE - 1, SeqCst);
    let op = it.run(&down("load", 1)).await;
    it.engine.rollback(TENANT, &op).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, RolledBack);
    assert_eq!(it.vnfcs().await, before);
    let calls = it.world.calls().len();
    it.world.fail_call.store(calls + END, SeqCst);
    let op = it.run(&down("load", 1)).await;
    let refusal = it.engine.rollback(TENANT, &op).await.unwrap_err();
    assert_eq!(refusal.why, Why::Conflict, "{refusal}");
    it.engine.fail(TENANT, &op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, Failed);
    assert_eq!(it.size().await, (3, 2));
    it.check_consistent().await;
}

#[tokio::test]
async fn a_failed_scale_out_is_recorded_in_the_size_that_it_has() {
    for (call, after_effect, size) in [(CONVERGE, false, (1, 2)), (CONVERGE, true, (1, 8))] {
        let it = Scalable::new().await;
        *it.world.fail_after_effect.lock().unwrap() = after_effect;
        it.world.fail_call.store(call, SeqCst);
        let op = it.run(&out("load", 2)).await;
        it.engine.fail(TENANT, &op).await.unwrap();
        assert_eq!(it.size().await, size);
        it.check_consistent().await;
        it.completed(&to_level("town")).await;
        assert_eq!(it.size().await, (3, 4));
    }
}

/// The scalings that the generic cases cover, from level `town`.
pub(super) fn tasks() -> [Task; 4] {
    [
        out("clients", 2),
        down("load", 1),
        to_level("city"),
        to(0, 2),
    ]
}

#[tokio::test]
async fn every_call_may_fail_once_and_a_retry_completes_the_scaling() {
    let mut cases = 0;
    for task in tasks() {
        for after_effect in [false, true] {
            for number in 2.. {
                let it = Scalable::at_level(FakeWorld::with_nfvo(), "town").await;
                *it.world.fail_after_effect.lock().unwrap() = after_effect;
                it.world.fail_call.store(number, SeqCst);
                let op = it.run(&task).await;
                if it.world.calls().len() < number {
                    break;
                }
                match state(&it.engine, &op).await {
                    RolledBack => drop(it.completed(&task).await),
                    FailedTemp => {
                        it.engine.retry(TENANT, &op).await.unwrap();
                        it.engine.drive(&op).await.unwrap();
                        assert_eq!(state(&it.engine, &op).await, Completed, "{task:?} {number}");
                    }
                    other => panic!("{task:?} call {number}: {other}"),
                }
                it.check_consistent().await;
                cases += 1;
            }
        }
    }
    assert!(cases >= 30, "only {cases} cases");
}

#[tokio::test]
async fn a_crash_at_any_store_write_of_a_scaling_is_resumed_by_the_next_process() {
    let mut cases = 0;
    for task in tasks() {
        for after_effect in [false, true] {
            for number in 1.. {
                let it = Scalable::at_level(FakeWorld::with_nfvo(), "town").await;
                let op = it.begin(&task).await.unwrap();
                let stopping = stop_at(it.store.clone(), number, after_effect);
                let limits = Limits {
                    lease: Duration::from_millis(50),
                    ..Limits::default()
                };
                let first = scalable_engine(stopping.clone(), &it.world, it.vim.clone(), limits);
                tokio::select! {
                    biased;
                    () = stopping.interceptor().stopped() => {}
                    ended = first.drive(&op) => {
                        ended.unwrap();
                        break;
                    }
                }
                run_to_end(&it.engine, &op).await;
                let case = format!("{task:?} write {number} after={after_effect}");
                assert_eq!(state(&it.engine, &op).await, Completed, "{case}");
                it.check_consistent().await;
                cases += 1;
            }
        }
    }
    assert!(cases >= 30, "only {cases} cases");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_16_clients_that_scale_at_once_is_accepted() {
    let it = Scalable::new().await;
    let all = join_all((0..16).map(|number| {
        let (engine, id) = (it.engine.clone(), it.id.clone());
        let task = [out("clients", 1), to_level("city")][number % 2].clone();
        tokio::spawn(async move { begin_on(&engine, &id, &task).await })
    }));
    let mut accepted = Vec::new();
    for outcome in all.await.into_iter().map(Result::unwrap) {
        match outcome {
            Ok(op) => accepted.push(op),
            Err(refusal) => assert_eq!(refusal.why, Why::Conflict, "{refusal}"),
        }
    }
    assert_eq!(accepted.len(), 1, "{accepted:?}");
    it.engine.drive(&accepted[0]).await.unwrap();
    assert_eq!(state(&it.engine, &accepted[0]).await, Completed);
    it.check_consistent().await;
}

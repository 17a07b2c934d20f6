//! Previews of operations: the same result and the same refusals as the operation, and nothing is written.

use super::fakes::*;
use super::faults::{prepare, requests};
use super::scale::{CountedVim, Scalable, out};
use super::setup::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vnfm::memory::MemoryVim;
use vnfm_core::lcm::{Begin, Operation, Requires};
use vnfm_core::ports::{InstanceRecord, PlannedResource, ResourceAction, StepStatus, Store};
use vnfm_core::query::Query;
use vnfm_core::{Engine, Plan, Refusal, Why, to_json};
use vnfm_types::LcmOperationState::Completed;
use vnfm_types::LcmOperationType::{self, ChangeVnfpkg, Heal, Instantiate, ModifyInfo, Terminate};

async fn planned(
    engine: &Engine,
    kind: LcmOperationType,
    id: &str,
    request: &Value,
) -> Result<Vec<String>, Refusal> {
    let begin = Begin::new(engine.operation(kind).unwrap(), request.clone());
    let plan = engine.plan(TENANT, id, begin).await?;
    assert_eq!(plan.operation, kind);
    let step = |step: vnfm_core::PlannedStep| {
        let driver = step
            .driver
            .map(|driver| format!(" by {driver}"))
            .unwrap_or_default();
        let undone = if step.undone { " <" } else { "" };
        let terminate = if step.irreversible { " !" } else { "" };
        format!("{}{driver}{undone}{terminate}", step.name)
    };
    Ok(plan.steps.into_iter().map(step).collect())
}

/// Everything that a plan could have written.
async fn stored_state(store: &dyn Store, id: &str) -> String {
    let ops = store.ops(TENANT, &Query::default()).await.unwrap();
    let (outbox, instance) = (
        store.outbox(0, 1000).await.unwrap(),
        store.instance(TENANT, id).await,
    );
    let uses = store.uses(TENANT, CLOUD).await.unwrap();
    format!("{ops:?} {outbox:?} {instance:?} {uses:?}")
}

#[tokio::test]
async fn a_plan_lists_the_steps_that_run_and_writes_nothing() {
    for world in [Arc::new(FakeWorld::default()), FakeWorld::with_nfvo()] {
        let store = store().await;
        let engine = engine(store.clone(), &world);
        let id = instance(&engine).await;
        let before = stored_state(&*store, &id).await;
        let request = serde_json::to_value(on(CLOUD)).unwrap();
        let steps = planned(&engine, Instantiate, &id, &request).await.unwrap();
        assert_eq!(stored_state(&*store, &id).await, before);
        assert!(
            world.calls().is_empty(),
            "a neighbour was asked: {:?}",
            world.calls()
        );
        let asks_nfvo = world.has_nfvo.load(std::sync::atomic::Ordering::SeqCst);
        assert_eq!(
            steps.first().map(String::as_str) == Some("grant"),
            asks_nfvo
        );
        let hook = "instantiate_start by fake@1.0.0 <".to_owned();
        assert!(
            steps.contains(&hook) && steps.contains(&"allocate <".to_owned()),
            "{steps:?}"
        );
        assert!(
            steps.contains(&"instantiate_end by fake@1.0.0".to_owned()),
            "{steps:?}"
        );
        let op = engine.instantiate(TENANT, &id, on(CLOUD)).await.unwrap();
        engine.drive(&op).await.unwrap();
        let journal = store.journal(&op).await.unwrap();
        // Which networks a grant names, no plan knows.
        let done = journal.iter().map(|row| row.step.as_str());
        let skipped = ["take_links", "take_volumes"];
        let done: Vec<_> = done.filter(|step| !skipped.contains(step)).collect();
        let names: Vec<_> = steps
            .iter()
            .map(|step| step.split(' ').next().unwrap())
            .collect();
        assert_eq!(done, names, "what was done is what was planned");
    }
}

#[tokio::test]
async fn a_plan_is_refused_with_the_same_error_as_the_operation() {
    let (world, store) = (Arc::new(FakeWorld::default()), store().await);
    let engine = engine(store.clone(), &world);
    let (a, b) = (instance(&engine).await, instance(&engine).await);
    let op = engine.instantiate(TENANT, &a, on(CLOUD)).await.unwrap();
    let request = serde_json::to_value(on(CLOUD)).unwrap();
    let busy = planned(&engine, Instantiate, &a, &request)
        .await
        .unwrap_err();
    let actual = engine.instantiate(TENANT, &a, on(CLOUD)).await.unwrap_err();
    assert_eq!((busy.why, &busy.detail), (actual.why, &actual.detail));
    engine.drive(&op).await.unwrap();
    // `b` lives on the cluster that `a` registered.
    let cluster = engine
        .vim(TENANT, &format!("cluster-{a}"))
        .await
        .unwrap()
        .id;
    let op = engine.instantiate(TENANT, &b, on(&cluster)).await.unwrap();
    engine.drive(&op).await.unwrap();
    let terminate = json!({"terminationType": "FORCEFUL"});
    let carries = planned(&engine, Terminate, &a, &terminate)
        .await
        .unwrap_err();
    assert!(carries.detail.contains(&b), "{carries}");
    let steps = planned(&engine, Terminate, &b, &terminate).await.unwrap();
    assert!(steps.contains(&"release !".to_owned()), "{steps:?}");
    let steps = planned(&engine, Heal, &b, &json!({})).await.unwrap();
    // Its driver could undo it, but a step before it rules out a rollback.
    assert!(
        steps.contains(&"heal_end by fake@1.0.0".to_owned()),
        "{steps:?}"
    );
    let wrong = planned(&engine, Heal, &b, &json!({"vnfcInstanceId": ["none"]}))
        .await
        .unwrap_err();
    assert!(wrong.detail.contains("`none`"), "{wrong}");
    assert!(planned(&engine, Heal, "nobody", &json!({})).await.is_err());
}

/// Requests of any operation that change something.
fn changes(kind: LcmOperationType) -> Vec<Value> {
    match kind {
        Instantiate => vec![serde_json::to_value(on(CLOUD)).unwrap()],
        Terminate => vec![json!({"terminationType": "FORCEFUL"})],
        Heal => vec![json!({}), json!({"vnfcInstanceId": ["FIRST"]})],
        ModifyInfo => vec![
            json!({"metadata": {"site": "oslo"}, "vnfInstanceName": "web"}),
            json!({"vimConnectionInfo": {"vim1": {"extra": {"planted": "planted-extra"}}}}),
        ],
        kind => requests(kind),
    }
}

/// An instance on a VIM in memory, before an operation.
struct Planned {
    engine: Engine,
    store: Arc<dyn Store>,
    id: String,
}

impl Planned {
    async fn before(operation: &Operation) -> Self {
        let (world, store): (Arc<FakeWorld>, Arc<dyn Store>) = (Arc::default(), store().await);
        let vim = CountedVim(MemoryVim::default(), world.clone());
        let engine = engine_on(store.clone(), &world, vim);
        let id = instance(&engine).await;
        let it = Self { engine, store, id };
        if operation.requires != Requires::NotInstantiated {
            let request = serde_json::to_value(on(CLOUD)).unwrap();
            it.run(Instantiate, request).await;
        }
        prepare(&it.engine, operation.kind, &it.id).await;
        it
    }

    async fn record(&self) -> InstanceRecord {
        self.store.instance(TENANT, &self.id).await.unwrap()
    }

    fn begin(&self, kind: LcmOperationType, body: Value) -> Begin<'static> {
        Begin::new(self.engine.operation(kind).unwrap(), body)
    }

    /// Runs an operation to its end; the names of the steps that ran.
    async fn run(&self, kind: LcmOperationType, body: Value) -> Vec<String> {
        let begin = self.begin(kind, body);
        let op = self.engine.begin(TENANT, &self.id, begin).await.unwrap();
        self.engine.drive(&op).await.unwrap();
        assert_eq!(state(&self.engine, &op).await, Completed, "{kind}");
        let journal = self.store.journal(&op).await.unwrap();
        let ran = journal
            .into_iter()
            .filter(|row| row.status != StepStatus::Skipped);
        ran.map(|row| row.step).collect()
    }
}

/// VNFCs by id, with their VDU.
fn vnfcs(record: &InstanceRecord) -> BTreeMap<String, String> {
    let info = record.vnf.instantiated_vnf_info.iter();
    let all = info.flat_map(|info| &info.vnfc_resource_info);
    all.map(|vnfc| (vnfc.id.clone(), vnfc.vdu_id.clone()))
        .collect()
}

/// The VDUs, sorted.
fn sorted<'a>(vdus: impl Iterator<Item = &'a String>) -> Vec<String> {
    let mut all: Vec<_> = vdus.cloned().collect();
    all.sort();
    all
}

/// Checks that the VNFCs which went, stayed and came are those of the plan.
fn check_outcome(plan: &Plan, before: &InstanceRecord, after: &InstanceRecord) {
    use ResourceAction::{Create, Delete, Keep, Replace, Update};
    let (old, new) = (vnfcs(before), vnfcs(after));
    let rows = |actions: &'static [ResourceAction]| {
        let all = plan.resources.iter();
        all.filter(|one| one.vdu.is_some() && actions.contains(&one.action))
    };
    let ids = |actions| -> BTreeSet<&String> {
        let ids = rows(actions).filter_map(|one: &PlannedResource| one.vnfc.as_ref());
        ids.collect()
    };
    let deleted: BTreeSet<_> = old.keys().filter(|id| !new.contains_key(*id)).collect();
    let stayed: BTreeSet<_> = old.keys().filter(|id| new.contains_key(*id)).collect();
    assert_eq!(ids(&[Delete, Replace]), deleted, "{plan:#?}");
    assert_eq!(ids(&[Keep, Update]), stayed, "{plan:#?}");
    let came = new.iter().filter(|(id, _)| !old.contains_key(*id));
    let planned = rows(&[Create, Replace]).filter_map(|one| one.vdu.as_ref());
    assert_eq!(
        sorted(planned),
        sorted(came.map(|(_, vdu)| vdu)),
        "{plan:#?}"
    );
}

#[tokio::test]
async fn what_a_plan_says_of_any_operation_happens() {
    for operation in OPERATIONS {
        let kind = operation.kind;
        for mut body in changes(kind) {
            let it = Planned::before(operation).await;
            let before = it.record().await;
            if body["vnfcInstanceId"][0] == "FIRST" {
                body["vnfcInstanceId"][0] = vnfcs(&before).keys().next().unwrap().clone().into();
            }
            let begin = it.begin(kind, body.clone());
            let plan = it.engine.plan(TENANT, &it.id, begin).await.unwrap();
            assert_eq!(it.record().await, before, "{kind}");
            assert!(plan.changes, "{kind}: {plan:#?}");
            let text = to_json("the plan", &plan).unwrap().to_string();
            for value in ["planted-extra", "oslo"] {
                assert!(!text.contains(value), "{text}");
            }
            let ran = it.run(kind, body).await;
            let after = it.record().await;
            let steps: Vec<_> = plan.steps.iter().map(|step| step.name).collect();
            assert_eq!(steps, ran, "{kind}");
            if operation.uses_vim {
                check_outcome(&plan, &before, &after);
            }
            let is_untouched = vnfcs(&before) == vnfcs(&after);
            assert!(operation.uses_vim || is_untouched, "{kind}");
            let says_modified = plan.resources.iter().any(|one| one.kind == "VnfInstance");
            let changes_record = !operation.uses_vim || kind == ChangeVnfpkg;
            assert_eq!(says_modified, changes_record, "{plan:#?}");
        }
    }
}

#[tokio::test]
async fn a_plan_of_nothing_to_do_says_so() {
    let it = Planned::before(find_operation(ModifyInfo)).await;
    let same = json!({"vimConnectionInfo": {"vim1": {"vimId": CLOUD}}});
    for body in [json!({}), json!({"metadata": {"absent": null}}), same] {
        let begin = it.begin(ModifyInfo, body);
        let plan = it.engine.plan(TENANT, &it.id, begin).await.unwrap();
        assert!(!plan.changes && plan.resources.is_empty(), "{plan:#?}");
    }
    let begin = it.begin(
        ModifyInfo,
        json!({"metadata": {"site": {"rack": 1}}, "vnfInstanceName": "w"}),
    );
    let plan = it.engine.plan(TENANT, &it.id, begin).await.unwrap();
    let because = &plan.resources[0].because;
    assert_eq!(because, &["metadata.site.rack", "vnfInstanceName"]);
}

fn find_operation(kind: LcmOperationType) -> &'static Operation {
    vnfm_core::lcm::find(OPERATIONS, kind).unwrap()
}

#[tokio::test]
async fn a_plan_names_what_cannot_be_known() {
    let world = FakeWorld::with_nfvo();
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    let request = serde_json::to_value(on(CLOUD)).unwrap();
    let begin = || Begin::new(find_operation(Instantiate), request.clone());
    let plan = engine.plan(TENANT, &id, begin()).await.unwrap();
    let expected = [
        "what the NFVO decides in its grant",
        "what the hook `instantiate_start` of `fake@1.0.0` does",
        "what the hook `instantiate_end` of `fake@1.0.0` does",
        "the driver of `ETSINFV.KUBERNETES.V_1` cannot tell what happens to resources",
    ];
    assert_eq!(plan.unknown, expected);
    let anywhere = json!({"flavourId": "cluster_install"});
    let begin = Begin::new(find_operation(Instantiate), anywhere);
    let plan = engine.plan(TENANT, &id, begin).await.unwrap();
    let last = plan.unknown.last().unwrap();
    assert!(last.contains("the NFVO chooses the VIM"), "{last}");
    assert!(plan.changes && plan.resources.is_empty());
}

#[tokio::test]
async fn a_skipped_hook_is_not_planned() {
    let it = Planned::before(find_operation(Heal)).await;
    let mut begin = it.begin(Heal, json!({}));
    begin.skip = Some(vnfm_core::SkipHooks {
        hooks: vec!["heal_start".to_owned()],
        act: vnfm_core::Override::new("ann", "it hangs"),
    });
    let plan = it.engine.plan(TENANT, &it.id, begin).await.unwrap();
    let hooks = plan.steps.iter().filter(|step| step.driver.is_some());
    let hooks: Vec<_> = hooks.map(|step| step.name).collect();
    assert_eq!(hooks, ["heal_end"]);
    assert_eq!(plan.unknown.len(), 1, "{:?}", plan.unknown);
    let audit = it.engine.audit(TENANT, 0, 10).await.unwrap();
    assert!(audit.is_empty(), "a plan is no override: {audit:?}");
}

#[tokio::test]
async fn a_vim_that_breaks_its_api_is_unavailable_and_no_error_of_the_server() {
    let it = Scalable::new().await;
    let (scale, body) = out("clients", 1);
    it.world.fail("plan", 1, &BROKEN);
    let failed = planned(&it.engine, scale, &it.id, &body).await;
    assert_eq!(failed.unwrap_err().why, Why::Unavailable);
    it.world.fail("check", 1, &BROKEN);
    let failed = it.engine.check_vim(TENANT, CLOUD).await;
    assert_eq!(failed.unwrap_err().why, Why::Unavailable);
    planned(&it.engine, scale, &it.id, &body).await.unwrap();
    it.engine.check_vim(TENANT, CLOUD).await.unwrap();
}

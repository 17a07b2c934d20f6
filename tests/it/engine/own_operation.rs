//! An operation that the product does not have, defined in this file alone: its row gives it everything that the built-in
//! ones have. The generic cases of `faults.rs`, `store_faults.rs`, `repeated_crashes.rs` and `stuck.rs` (fail, retry,
//! rollback, crash at each step and write) cover it because [`setup::OPERATIONS`](super::setup::OPERATIONS) lists it.
//!
//! | step                     | state      | does                             | undo               |
//! |--------------------------|------------|----------------------------------|--------------------|
//! | grant                    | STARTING   | asks the NFVO                    | —                  |
//! | change_flavour_start     | PROCESSING | vendor hook                      | its undo, if any   |
//! | detach                   | PROCESSING | calls the VIM                    | calls it again     |
//! | swap                     | PROCESSING | calls the VIM                    | calls it again     |
//! | attach                   | PROCESSING | calls the VIM                    | calls it again     |
//! | change_flavour_end       | PROCESSING | vendor hook                      | its undo, if any   |

use super::fakes::*;
use super::faults::{begin, ready_in};
use super::setup::*;
use futures::future::join;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use vnfm_core::lcm::*;
use vnfm_core::ports::*;
use vnfm_core::{Engine, Limits, Override, Refusal, SkipHooks, Why};
use vnfm_types::LcmOperationState::{Completed, FailedTemp, Processing, RolledBack};
use vnfm_types::*;

/// The row of the operation, and all there is of it.
pub(super) const OPERATION: Operation = Operation {
    kind: LcmOperationType::ChangeFlavour,
    task: Some("change_flavour"),
    interface_operation: "change_flavour",
    body: Body::new::<FlavourRequest>("ChangeVnfFlavourRequest"),
    requires: Requires::Instantiated,
    support: Support::Always,
    uses_vim: true,
    frees_space: false,
    skippable_hooks: true,
    checks_parameters: true,
    grant: Some(GrantRule {
        needs: |op| Ok(grant_needs(op)),
        decides: GrantDecides::Parameters,
    }),
    target: |requested| Box::pin(ready(target(requested))),
    hook_request: |op, hook| {
        let request: FlavourRequest = op.request()?;
        let vnfd = json!(request.new_flavour_id);
        hook.inputs.insert("vnfd".to_owned(), vnfd);
        Ok(())
    },
    steps: &[
        Step::grant(),
        Step::hook("change_flavour_start", |op| Ok(op.inventory())),
        Step::new("detach", Processing, |op| silent(op.reach_vim()))
            .undone_by(|op| silent(op.reach_vim())),
        Step::new("swap", Processing, |op| journaled(swap(op)))
            .undone_by(|op| silent(op.reach_vim())),
        Step::new("attach", Processing, |op| silent(op.reach_vim()))
            .undone_by(|op| silent(op.reach_vim())),
        Step::hook("change_flavour_end", |op| Ok(op.inventory())),
    ],
    finish,
};

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct FlavourRequest {
    new_flavour_id: String,
    #[serde(default)]
    additional_params: KeyValuePairs,
}

/// The instance is stopped afterwards.
fn target(requested: &Requested<'_>) -> Result<Target, Refusal> {
    let request: FlavourRequest = requested.request()?;
    if request.new_flavour_id == "unknown" {
        let what = "no VNFD `unknown`";
        return Err(Refusal::new(Why::NotFound, &INJECTED, what));
    }
    let mut target = requested.unchanged();
    if let Some(deployment) = &mut target.deployment {
        Arc::make_mut(deployment).vnf_state = VnfOperationalState::Stopped;
    }
    Ok(target)
}

/// Asks for a grant that changes every VNFC.
fn grant_needs(op: &Op) -> GrantNeeds {
    let update = |vnfc: VnfcResourceInfo| ResourceDefinition {
        id: format!("compute/{}", vnfc.id),
        type_: ResourceType::Compute,
        vdu_id: Some(vnfc.vdu_id.clone()),
        resource_template_id: vnfc.vdu_id,
        resource: Some(vnfc.compute_resource),
        snapshot_res_def: None,
    };
    let vnfcs = op.inventory().vnfc_resource_info.into_iter();
    GrantNeeds {
        update_resources: vnfcs.map(update).collect(),
        ..GrantNeeds::default()
    }
}

#[derive(Serialize, Deserialize)]
struct Swapped {
    vnfd: String,
}

impl StepOutput for Swapped {
    const STEP: &'static str = "swap";
}

async fn swap(op: &Op) -> Output<Swapped> {
    op.reach_vim().await?;
    let request: FlavourRequest = op.request()?;
    Ok(Swapped {
        vnfd: request.new_flavour_id,
    })
}

fn finish(op: &Op, state: LcmOperationState) -> Result<Completion, PortError> {
    let Some(swapped) = op.output::<Swapped>()?.filter(|_| state == Completed) else {
        return Ok(Completion::default());
    };
    let mut instance = op.instance.clone();
    instance.deployment = Some(op.deployment()?.clone());
    let vnfd = json!(swapped.vnfd);
    instance.vnf.metadata.insert("vnfd".to_owned(), vnfd);
    Ok(Completion {
        instance: Some(instance),
        ..Completion::default()
    })
}

/// A request that it accepts.
pub(super) fn request() -> Value {
    json!({"newFlavourId": "s1"})
}

async fn instantiated(world: Arc<FakeWorld>) -> (Arc<FakeWorld>, Engine, String) {
    let (world, engine, id, _) = ready_in(world, OPERATION.kind).await;
    (world, engine, id)
}

async fn begun(engine: &Engine, id: &str) -> String {
    begin(engine, OPERATION.kind, id).await
}

#[tokio::test]
async fn an_operation_of_ones_own_runs_its_hooks_and_steps_and_reaches_its_target() {
    let (world, engine, id) = instantiated(Arc::default()).await;
    let op = begun(&engine, &id).await;
    let begun = engine.store().op(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    let calls = ["change_flavour_start", "check", "check", "check"];
    assert_eq!(world.calls()[..4], calls);
    assert_eq!(world.calls()[4..], ["change_flavour_end"]);
    let record = engine.store().op(TENANT, &op).await.unwrap();
    assert_eq!(record.op.operation_state, Completed);
    let instance = engine.store().instance(TENANT, &id).await.unwrap();
    assert_eq!(instance.vnf.metadata["vnfd"], "s1");
    let deployment = instance.deployment.unwrap();
    assert_eq!(deployment.vnf_state, VnfOperationalState::Stopped);
    assert_eq!(Some(&deployment), begun.target.as_ref());
    let before = begun.before.unwrap();
    assert_eq!(before.vnf_state, VnfOperationalState::Started);
    let inputs = world.hook_inputs.lock().unwrap();
    let own = &inputs[inputs.len() - 2..];
    assert!(own.iter().all(|inputs| inputs["vnfd"] == "s1"));
}

#[tokio::test]
async fn an_engine_without_its_row_does_not_know_it() {
    let world = Arc::new(FakeWorld::default());
    let others = &[&instantiate::OPERATION, &terminate::OPERATION];
    let engine = engine_of(others, store().await, &world);
    let id = instance(&engine).await;
    assert!(engine.operation(OPERATION.kind).is_none());
    let begin = Begin::new(&OPERATION, request());
    let refused = engine.begin(TENANT, &id, begin).await.unwrap_err();
    assert_eq!(refused.detail, "unknown operation CHANGE_FLAVOUR");
}

#[tokio::test]
async fn its_row_decides_when_it_begins() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let id = instance(&engine).await;
    let record = engine.store().instance(TENANT, &id).await.unwrap();
    let possible: Vec<_> = engine
        .operations()
        .iter()
        .filter(|operation| operation.can_begin(&record).is_ok())
        .filter_map(|operation| operation.task)
        .collect();
    assert_eq!(possible, ["instantiate"]);
    let refused = |body: Value| {
        let (engine, id) = (&engine, &id);
        async move {
            let begin = Begin::new(&OPERATION, body);
            engine.begin(TENANT, id, begin).await.unwrap_err()
        }
    };
    let early = refused(request()).await;
    assert_eq!(early.why, Why::Conflict, "{early}");
    assert_eq!(
        early.detail,
        format!("VNF instance `{id}` is NOT_INSTANTIATED")
    );
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();
    let malformed = refused(json!({"newFlavourId": ["hunter2"]})).await;
    assert_eq!(malformed.code.name, "request.bad-parameters");
    assert!(!format!("{malformed:?}").contains("hunter2"));
    let unknown = refused(json!({"newFlavourId": "unknown"})).await;
    assert_eq!(unknown.why, Why::NotFound);
    let stale = Begin {
        expected: Some(&|_| false),
        ..Begin::new(&OPERATION, request())
    };
    let stale = engine.begin(TENANT, &id, stale).await.unwrap_err();
    assert_eq!(stale.why, Why::Stale);
    begun(&engine, &id).await;
    assert_eq!(refused(request()).await.why, Why::Conflict, "busy");
}

#[tokio::test]
async fn its_grant_asks_for_what_its_row_needs_and_cannot_move_the_vnf() {
    let (world, engine, id) = instantiated(FakeWorld::with_nfvo()).await;
    let op = begun(&engine, &id).await;
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    let requested = world.grant_requests.lock().unwrap().last().unwrap().clone();
    assert_eq!(requested.operation, OPERATION.kind);
    let ids = |all: &[ResourceDefinition]| -> Vec<String> {
        all.iter().map(|one| one.id.clone()).collect()
    };
    assert_eq!(
        ids(&requested.update_resources),
        ["compute/c1", "compute/c2"]
    );
    assert!(requested.add_resources.is_empty() && requested.remove_resources.is_empty());
    let op = begun(&engine, &id).await;
    let elsewhere = Grant {
        vnf_lcm_op_occ_id: op.clone(),
        vim_connection_info: [("other".to_owned(), Box::default())].into_iter().collect(),
        ..granted(&requested)
    };
    let answer = Ok(GrantOutcome::Granted(Box::new(elsewhere)));
    world.grant_responses.lock().unwrap().push_back(answer);
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, RolledBack);
    let error = engine.store().op(TENANT, &op).await.unwrap().op.error;
    assert_eq!(error.unwrap().code.as_deref(), Some("grant.unusable"));
}

#[tokio::test]
async fn parameters_of_a_hook_with_a_name_of_several_words_are_validated_and_redacted() {
    let (world, engine, id) = instantiated(Arc::default()).await;
    *world.change_declaration.lock().unwrap() = Some(|declaration| {
        let hook = declaration.hooks.get_mut("change_flavour_end").unwrap();
        let key = json!({"type": "string", "writeOnly": true});
        let schema = json!({"type": "object", "required": ["key"], "properties": {"key": key}});
        hook.parameters = Some(schema);
    });
    let with = |params: Value| {
        Begin::new(
            &OPERATION,
            json!({"newFlavourId": "s1", "additionalParams": params}),
        )
    };
    let refused = engine.begin(TENANT, &id, with(json!({}))).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.why, Why::Unprocessable);
    assert!(
        refused.detail.contains("hook `change_flavour_end`"),
        "{refused}"
    );
    let params = json!({"key": "planted-key"});
    let op = engine.begin(TENANT, &id, with(params)).await.unwrap();
    let shown = engine.store().op(TENANT, &op).await.unwrap().op;
    assert_eq!(
        shown.operation_params.unwrap()["additionalParams"]["key"],
        vnfm_core::HIDDEN
    );
    engine.drive(&op).await.unwrap();
    let last = world.hook_params.lock().unwrap().last().cloned().unwrap();
    assert_eq!(last.0, "change_flavour_end");
    assert_eq!(last.1["key"], "planted-key");
    let modify = json!({"metadata": {"x": 1}});
    let modify = Begin::new(&modify_info::OPERATION, modify);
    engine.begin(TENANT, &id, modify).await.unwrap();
}

#[tokio::test]
async fn its_hooks_can_be_skipped_by_name() {
    let (world, engine, id) = instantiated(Arc::default()).await;
    let skipping = |hook: &str| Begin {
        skip: Some(SkipHooks {
            hooks: vec![hook.to_owned()],
            act: Override::new("ann", "it hangs"),
        }),
        ..Begin::new(&OPERATION, request())
    };
    let unknown = engine.begin(TENANT, &id, skipping("heal_start")).await;
    let unknown = unknown.unwrap_err();
    assert!(
        unknown
            .detail
            .ends_with("has: change_flavour_start, change_flavour_end"),
        "{unknown}"
    );
    let skip = skipping("change_flavour_start");
    let op = engine.begin(TENANT, &id, skip).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(world.calls()[0], "check");
    let audit = engine.audit(TENANT, 0, 10).await.unwrap();
    assert_eq!(
        audit[0].what,
        "vnf change-flavour --skip-hook change_flavour_start"
    );
}

#[tokio::test]
async fn its_plan_lists_its_steps_with_drivers_and_undo() {
    let (_, engine, id) = instantiated(FakeWorld::with_nfvo()).await;
    let begin = Begin::new(&OPERATION, request());
    let plan = engine.plan(TENANT, &id, begin).await.unwrap();
    assert_eq!(plan.operation, OPERATION.kind);
    let steps: Vec<_> = plan
        .steps
        .iter()
        .map(|step| (step.name, step.driver.as_deref(), step.undone))
        .collect();
    let by = Some("fake@1.0.0");
    let expected = [
        ("grant", None, false),
        ("change_flavour_start", by, true),
        ("detach", None, true),
        ("swap", None, true),
        ("attach", None, true),
        ("change_flavour_end", by, false),
    ];
    assert_eq!(steps, expected);
}

#[tokio::test]
async fn a_rollback_undoes_its_steps_last_first() {
    let (world, engine, id) = instantiated(Arc::default()).await;
    let before = engine.store().instance(TENANT, &id).await.unwrap();
    let op = begun(&engine, &id).await;
    world.fail_call.store(5, SeqCst);
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, FailedTemp);
    let progress = engine.progress(TENANT, &op).await.unwrap();
    let rollback = progress.ways_on.iter().find(|way| way.task == "rollback");
    assert_eq!(
        rollback.unwrap().what,
        "undoes attach, swap, detach, change_flavour_start"
    );
    engine.rollback(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, RolledBack);
    let undone = ["check", "check", "check", "undo change_flavour_start"];
    assert_eq!(world.calls()[5..], undone);
    let after = engine.store().instance(TENANT, &id).await.unwrap();
    assert_eq!(after.deployment, before.deployment);
}

#[tokio::test]
async fn it_waits_for_a_slot_at_its_vim() {
    let limits = Limits {
        vim_operations: 1,
        ..Limits::default()
    };
    let (world, store) = (Arc::new(FakeWorld::default()), store().await);
    let engine = engine_with(store, &world, limits);
    let mut ops = Vec::new();
    for _ in 0..2 {
        let id = instance(&engine).await;
        let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
        engine.drive(&op).await.unwrap();
        ops.push(begun(&engine, &id).await);
    }
    let opened = Arc::new(Notify::new());
    *world.gate.lock().unwrap() = Some(("check", opened.clone()));
    let both = join(engine.drive(&ops[0]), engine.drive(&ops[1]));
    let release = async {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(30) {
            let mut waiting = Vec::new();
            for op in &ops {
                waiting.extend(engine.progress(TENANT, op).await.unwrap().waiting);
            }
            let slot = |it: &Waiting| it.for_what.contains("a free slot at VIM `cloud`");
            if waiting.iter().any(slot) {
                return opened.notify_one();
            }
            tokio::task::yield_now().await;
        }
        panic!("the second operation did not wait for a slot");
    };
    let ((first, second), ()) = join(both, release).await;
    first.unwrap();
    second.unwrap();
    for op in &ops {
        assert_eq!(state(&engine, op).await, Completed);
    }
}

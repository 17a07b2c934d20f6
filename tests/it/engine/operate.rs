//! Starting and stopping a VNF in memory: states, refusals, hooks, grants, rollback, and other operations meanwhile.

use super::fakes::*;
use super::faults::ready;
use super::scale::{Scalable, Task, down, out};
use super::setup::*;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::Why;
use vnfm_core::lcm::Begin;
use vnfm_core::ports::*;
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp, RolledBack};
use vnfm_types::VnfOperationalState::{Started, Stopped};
use vnfm_types::*;

fn operate(body: Value) -> Task {
    (LcmOperationType::Operate, body)
}

fn stop() -> Task {
    operate(json!({"changeStateTo": "STOPPED"}))
}

fn start() -> Task {
    operate(json!({"changeStateTo": "STARTED"}))
}

fn only(vnfcs: &[&String], state: VnfOperationalState) -> Task {
    operate(json!({"changeStateTo": state, "vnfcInstanceId": vnfcs}))
}

impl Scalable {
    /// `vnfState`, and how many VNFCs run; record and VIM agree about which.
    async fn running(&self) -> (VnfOperationalState, usize) {
        let info = self.info().await;
        let is_shown = |vnfc: &&VnfcResourceInfo| !vnfc.metadata.contains_key("vnfcState");
        let shown = info.vnfc_resource_info.iter().filter(is_shown);
        let shown: BTreeSet<_> = shown.map(|vnfc| vnfc.id.clone()).collect();
        let running: BTreeSet<_> = self.vim.0.running_vnfcs().into_iter().collect();
        assert_eq!(shown, running);
        (info.vnf_state, running.len())
    }
}

fn modified(occurrence: &VnfLcmOpOcc) -> Vec<String> {
    let changes = occurrence.resource_changes.clone().unwrap();
    let all = changes.affected_vnfcs.into_iter();
    all.map(|vnfc| {
        assert_eq!(vnfc.change_type, ChangeType::Modified);
        assert!(vnfc.affected_vnfc_cp_ids.is_empty());
        vnfc.id
    })
    .collect()
}

#[tokio::test]
async fn a_vnf_is_stopped_and_started_with_the_same_vnfcs() {
    let it = Scalable::new().await;
    let vnfcs = it.vnfcs().await;
    for (task, state, running, changed) in [
        (stop(), Stopped, 0, 3),
        (stop(), Stopped, 0, 0),
        (start(), Started, 3, 3),
        (start(), Started, 3, 0),
    ] {
        let occurrence = it.completed(&task).await;
        assert_eq!(it.running().await, (state, running), "{task:?}");
        assert_eq!(it.vnfcs().await, vnfcs);
        assert_eq!(modified(&occurrence).len(), changed, "{task:?}");
    }
}

#[tokio::test]
async fn single_vnfcs_are_stopped_until_none_runs() {
    let it = Scalable::new().await;
    let all = it.vnfcs().await;
    let [a, b, c] = &all[..] else {
        panic!("{all:?}")
    };
    for (task, state, running, changed) in [
        (only(&[b], Stopped), Started, 2, vec![b]),
        (only(&[a, c], Stopped), Stopped, 0, vec![a, c]),
        (only(&[c], Started), Started, 1, vec![c]),
        (start(), Started, 3, vec![a, b]),
    ] {
        let occurrence = it.completed(&task).await;
        assert_eq!(it.running().await, (state, running), "{task:?}");
        assert_eq!(modified(&occurrence).iter().collect::<Vec<_>>(), changed);
    }
}

#[tokio::test]
async fn what_the_standard_or_the_vim_does_not_allow_is_refused() {
    let it = Scalable::new().await;
    let before = it.store.instance(TENANT, &it.id).await.unwrap();
    let vnfc = it.vnfcs().await.remove(0);
    for (body, expected) in [
        (json!({}), "does not have the form"),
        (json!({"changeStateTo": "PAUSED"}), "does not have the form"),
        (
            json!({"changeStateTo": "STARTED", "stopType": "FORCEFUL"}),
            "stopType requires changeStateTo STOPPED",
        ),
        (
            json!({"changeStateTo": "STARTED", "gracefulStopTimeout": 5}),
            "gracefulStopTimeout requires changeStateTo STOPPED",
        ),
        (
            json!({"changeStateTo": "STOPPED", "gracefulStopTimeout": 5}),
            "requires changeStateTo STOPPED and stopType GRACEFUL",
        ),
        (
            json!({"changeStateTo": "STOPPED", "stopType": "FORCEFUL", "gracefulStopTimeout": 5}),
            "requires changeStateTo STOPPED and stopType GRACEFUL",
        ),
        (
            json!({"changeStateTo": "STOPPED", "vnfcInstanceId": ["none"]}),
            &format!("which has: {vnfc}"),
        ),
    ] {
        let refusal = it.begin(&operate(body)).await.unwrap_err();
        assert_eq!(refusal.why, Why::Unprocessable, "{refusal}");
        assert!(refusal.detail.contains(expected), "{refusal}");
    }
    assert_eq!(it.store.instance(TENANT, &it.id).await.unwrap(), before);
    assert!(it.world.calls().is_empty());
}

#[tokio::test]
async fn a_vim_that_cannot_stop_vnfcs_does_not_support_the_task() {
    let (world, engine, id) = ready(LcmOperationType::Operate).await;
    let begin = |body: Value| {
        let operation = engine.operation(LcmOperationType::Operate).unwrap();
        engine.begin(TENANT, &id, Begin::new(operation, body))
    };
    world.stops_only_all.store(true, SeqCst);
    let one = json!({"changeStateTo": "STOPPED", "vnfcInstanceId": ["c1"]});
    let refusal = begin(one).await.unwrap_err();
    assert_eq!(refusal.why, Why::Unprocessable, "{refusal}");
    assert!(
        refusal.detail.contains("all VNFCs of a VNF at once"),
        "{refusal}"
    );
    world.powerless.store(true, SeqCst);
    let refusal = begin(stop().1).await.unwrap_err();
    assert_eq!(refusal.why, Why::NotFound, "{refusal}");
    assert_eq!(refusal.code.name, "request.not-supported");
    assert!(refusal.detail.contains("task `operate`"), "{refusal}");
    assert!(world.calls().is_empty());
}

#[tokio::test]
async fn hooks_learn_what_is_stopped_and_how() {
    let it = Scalable::new().await;
    let vnfcs = it.vnfcs().await;
    let graceful = json!({"changeStateTo": "STOPPED", "stopType": "GRACEFUL", "gracefulStopTimeout": 60,
        "vnfcInstanceId": [vnfcs[1]], "additionalParams": {"drain": true}});
    it.completed(&operate(graceful)).await;
    it.completed(&stop()).await;
    it.completed(&start()).await;
    let hooks = it.world.hook_operates.lock().unwrap().clone();
    let names: Vec<_> = hooks.iter().map(|(hook, _)| hook.as_str()).collect();
    assert_eq!(names, ["operate_start", "operate_end"].repeat(3));
    let ids = |operate: &HookOperate| {
        let all = operate.vnfcs.iter();
        all.map(|vnfc| vnfc.id.clone()).collect::<Vec<_>>()
    };
    for (_, first) in &hooks[..2] {
        assert!(first.stops());
        assert_eq!(first.stop_type.as_deref(), Some("GRACEFUL"));
        assert_eq!(first.graceful_stop_timeout, Some(60));
        assert_eq!(ids(first), vnfcs[1..2]);
    }
    assert_eq!(hooks[2].1.stop_type.as_deref(), Some("FORCEFUL"));
    assert_eq!(
        (ids(&hooks[2].1), hooks[2].1.graceful_stop_timeout),
        (vnfcs, None)
    );
    assert!(!hooks[4].1.stops() && hooks[4].1.stop_type.is_none());
    let params = it.world.hook_params.lock().unwrap().clone();
    let drains =
        |(hook, params): &&(String, Value)| hook == "operate_start" && params["drain"] == true;
    assert_eq!(params.iter().filter(drains).count(), 1);
}

#[tokio::test]
async fn a_rollback_returns_to_the_states_before() {
    for after_effect in [false, true] {
        let it = Scalable::new().await;
        let all = it.vnfcs().await;
        it.completed(&only(&[&all[0]], Stopped)).await;
        let before = it.store.instance(TENANT, &it.id).await.unwrap();
        for task in [stop(), start()] {
            it.world.calls.lock().unwrap().clear();
            *it.world.fail_after_effect.lock().unwrap() = after_effect;
            it.world.fail_call.store(3, SeqCst);
            let op = it.run(&task).await;
            assert_eq!(state(&it.engine, &op).await, FailedTemp);
            assert_eq!(it.world.calls()[2], "power");
            it.engine.rollback(TENANT, &op).await.unwrap();
            it.engine.drive(&op).await.unwrap();
            assert_eq!(state(&it.engine, &op).await, RolledBack);
            assert_eq!(it.running().await, (Started, 2));
            let after = it.store.instance(TENANT, &it.id).await.unwrap();
            assert_eq!(
                (after.vnf, after.deployment),
                (before.vnf.clone(), before.deployment.clone())
            );
        }
    }
}

#[tokio::test]
async fn a_failed_stop_is_repeated_by_the_next_request() {
    let it = Scalable::new().await;
    for (call, state_then) in [(3, Started), (4, Stopped)] {
        it.world.calls.lock().unwrap().clear();
        it.world.fail_call.store(call, SeqCst);
        let op = it.run(&stop()).await;
        it.engine.fail(TENANT, &op).await.unwrap();
        assert_eq!(state(&it.engine, &op).await, Failed);
        assert_eq!(it.info().await.vnf_state, state_then, "call {call}");
        it.world.fail_call.store(0, SeqCst);
        it.completed(&stop()).await;
        assert_eq!(it.running().await, (Stopped, 0));
        it.completed(&start()).await;
    }
}

#[tokio::test]
async fn a_stopped_vnf_is_scaled_healed_and_terminated() {
    let it = Scalable::new().await;
    it.completed(&stop()).await;
    it.completed(&out("load", 1)).await;
    assert_eq!(it.running().await, (Stopped, 0));
    let first = it.vnfcs().await;
    let heal = (
        LcmOperationType::Heal,
        json!({"vnfcInstanceId": [first[0]]}),
    );
    it.completed(&heal).await;
    assert_eq!(it.running().await, (Stopped, 0));
    assert!(!it.vnfcs().await.contains(&first[0]));
    it.completed(&down("load", 1)).await;
    assert_eq!(it.running().await, (Stopped, 0));
    it.completed(&start()).await;
    assert_eq!(it.running().await, (Started, 3));
    it.completed(&stop()).await;
    let terminate = (
        LcmOperationType::Terminate,
        json!({"terminationType": "FORCEFUL"}),
    );
    let op = it.run(&terminate).await;
    assert_eq!(state(&it.engine, &op).await, Completed);
    assert!(it.vim.0.vnfcs().is_empty());
}

#[tokio::test]
async fn a_stopped_vnfc_stays_stopped_while_others_change_and_is_forgotten_when_it_is_replaced() {
    let it = Scalable::new().await;
    let all = it.vnfcs().await;
    it.completed(&only(&[&all[0]], Stopped)).await;
    it.completed(&out("load", 1)).await;
    assert_eq!(it.running().await, (Started, 4));
    let heal = |vnfc: &String| (LcmOperationType::Heal, json!({"vnfcInstanceId": [vnfc]}));
    it.completed(&heal(&all[1])).await;
    assert_eq!(it.running().await, (Started, 4));
    it.completed(&heal(&all[0])).await;
    assert_eq!(it.running().await, (Started, 5));
    let record = it.store.instance(TENANT, &it.id).await.unwrap();
    assert!(record.deployment.unwrap().stopped_vnfcs.is_empty());
}

#[tokio::test]
async fn a_stopped_vnfc_that_scaling_removes_is_forgotten() {
    let it = Scalable::new().await;
    it.completed(&out("load", 1)).await;
    let last = it.vnfcs().await.pop().unwrap();
    it.completed(&only(&[&last], Stopped)).await;
    assert_eq!(it.running().await, (Started, 4));
    it.completed(&down("load", 1)).await;
    assert!(!it.vnfcs().await.contains(&last));
    assert_eq!(it.running().await, (Started, 3));
    let record = it.store.instance(TENANT, &it.id).await.unwrap();
    assert!(record.deployment.unwrap().stopped_vnfcs.is_empty());
}

#[tokio::test]
async fn a_vnf_of_which_scaling_leaves_only_stopped_vnfcs_is_stopped() {
    let it = Scalable::new().await;
    let stay = it.vnfcs().await;
    it.completed(&out("load", 1)).await;
    let stopped: Vec<_> = stay.iter().collect();
    it.completed(&only(&stopped, Stopped)).await;
    assert_eq!(it.running().await, (Started, 2));
    it.completed(&down("load", 1)).await;
    assert_eq!(it.vnfcs().await, stay);
    assert_eq!(it.running().await, (Stopped, 0));
    it.completed(&out("load", 1)).await;
    assert_eq!(it.running().await, (Stopped, 0));
    it.completed(&start()).await;
    assert_eq!(it.running().await, (Started, 5));
}

#[tokio::test]
async fn a_return_to_a_snapshot_starts_and_stops_what_it_has_running_and_stopped() {
    let it = Scalable::new().await;
    let [running, partly, none] = [SNAPSHOT, "partly", "none"].map(str::to_owned);
    for id in [&partly, &none] {
        let record = SnapshotRecord {
            tenant: TENANT.into(),
            info: VnfSnapshotInfo {
                id: id.clone(),
                ..VnfSnapshotInfo::default()
            },
            ..SnapshotRecord::default()
        };
        let add = vec![Change::AddSnapshot(Box::new(record))];
        it.store.write(None, add).await.unwrap();
    }
    let named = |id: &String| json!({"vnfSnapshotInfoId": id});
    let create = |id| (LcmOperationType::CreateSnapshot, named(id));
    let revert = |id| (LcmOperationType::RevertToSnapshot, named(id));
    let first = it.vnfcs().await[0].clone();
    it.completed(&create(&running)).await;
    it.completed(&only(&[&first], Stopped)).await;
    it.completed(&create(&partly)).await;
    it.completed(&stop()).await;
    it.completed(&create(&none)).await;
    for (id, states) in [
        (&running, (Started, 3)),
        (&none, (Stopped, 0)),
        (&partly, (Started, 2)),
    ] {
        it.completed(&revert(id)).await;
        assert_eq!(it.running().await, states, "{id}");
    }
    // The VNFC that the snapshot has stopped has another id now.
    it.completed(&(LcmOperationType::Heal, json!({"vnfcInstanceId": [first]})))
        .await;
    assert_eq!(it.running().await, (Started, 3));
    it.completed(&revert(&partly)).await;
    assert_eq!(it.running().await, (Started, 2));
}

#[tokio::test]
async fn the_grant_names_the_vnfcs_that_change() {
    let it = Scalable::at_level(FakeWorld::with_nfvo(), "trial").await;
    let all = it.vnfcs().await;
    it.completed(&only(&[&all[2]], Stopped)).await;
    it.completed(&start()).await;
    let requests = it.world.grant_requests.lock().unwrap().clone();
    let ids = |request: &GrantRequest| {
        let all = request.update_resources.iter();
        all.map(|one| one.id.clone()).collect::<Vec<_>>()
    };
    let compute = |id: &String| format!("compute/{id}");
    assert_eq!(ids(&requests[0]), [compute(&all[2])]);
    assert_eq!(
        ids(&requests[1]),
        all.iter().map(compute).collect::<Vec<_>>()
    );
    for request in &requests {
        assert_eq!(request.operation, LcmOperationType::Operate);
        assert!(request.add_resources.is_empty() && request.remove_resources.is_empty());
    }
}

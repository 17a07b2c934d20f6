//! Every call to a neighbour fails once, before or after its effect; every write to the store is the last one of its
//! process. Each case is recovered in every possible way; then records and environment must match.

use super::fakes::*;
use super::setup::*;
use super::stopping_store::stop_at;
use serde_json::{Value, json};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::{Duration, Instant};
use vnfm_core::lcm::Begin;
use vnfm_core::ports::Store;
use vnfm_core::{Engine, Limits};
use vnfm_types::LcmOperationState::{Completed, FailedTemp, RolledBack};
use vnfm_types::{HealVnfRequest, LcmOperationType, TerminateVnfRequest};

/// How a stopped operation is recovered.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Recovery {
    Retry,
    Rollback,
    FailAndTerminate,
}

async fn instantiate(engine: &Engine, id: &str) -> String {
    let op = engine.instantiate(TENANT, id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();
    op
}

async fn terminate(engine: &Engine, id: &str) -> String {
    let op = engine
        .terminate(TENANT, id, TerminateVnfRequest::default())
        .await
        .unwrap();
    engine.drive(&op).await.unwrap();
    op
}

/// Requests for an operation that has no method of its own; together they run every step.
pub(super) fn requests(kind: LcmOperationType) -> Vec<Value> {
    let scale = |direction: &str| json!({"type": direction, "aspectId": "workers"});
    let level = |aspect: &str, level: u32| json!({"aspectId": aspect, "scaleLevel": level});
    match kind {
        LcmOperationType::Scale => vec![scale("SCALE_OUT"), scale("SCALE_IN")],
        LcmOperationType::ScaleToLevel => {
            vec![json!({"scaleInfo": [level("masters", 2), level("workers", 0)]})]
        }
        LcmOperationType::Operate => vec![json!({"changeStateTo": "STOPPED"})],
        LcmOperationType::ChangeExtConn => {
            let cps = json!([{"cpdId": "masterNodeExternalCP", "cpConfig": {"any": {}}}]);
            vec![
                json!({"extVirtualLinks": [{"id": "external", "resourceId": "net-2", "extCps": cps}]}),
            ]
        }
        LcmOperationType::ChangeVnfpkg => vec![json!({ "vnfdId": NEXT_VNFD })],
        LcmOperationType::CreateSnapshot | LcmOperationType::RevertToSnapshot => {
            vec![json!({"vnfSnapshotInfoId": SNAPSHOT})]
        }
        _ => vec![super::own_operation::request()],
    }
}

/// Makes what an operation needs in addition to an instance: a snapshot to which it can return.
pub(super) async fn prepare(engine: &Engine, kind: LcmOperationType, id: &str) {
    if kind == LcmOperationType::RevertToSnapshot {
        let op = begin(engine, LcmOperationType::CreateSnapshot, id).await;
        engine.drive(&op).await.unwrap().completed().unwrap();
    }
}

/// Begins an operation with this request.
pub(super) async fn begin_with(
    engine: &Engine,
    kind: LcmOperationType,
    id: &str,
    request: Value,
) -> String {
    let operation = engine.operation(kind).unwrap();
    let begin = Begin::new(operation, request);
    engine.begin(TENANT, id, begin).await.unwrap()
}

/// Begins an operation on an instance that is ready for it.
pub(super) async fn begin(engine: &Engine, kind: LcmOperationType, id: &str) -> String {
    match kind {
        LcmOperationType::Instantiate => engine.instantiate(TENANT, id, on("cloud")).await.unwrap(),
        LcmOperationType::Terminate => engine
            .terminate(TENANT, id, TerminateVnfRequest::default())
            .await
            .unwrap(),
        LcmOperationType::Heal => engine
            .heal(TENANT, id, HealVnfRequest::default())
            .await
            .unwrap(),
        LcmOperationType::ModifyInfo => {
            let patch = serde_json::json!({"metadata": {"site": "oslo"}, "vimConnectionInfo": {"vim1": {"extra": {"x": 1}}}});
            let request = serde_json::from_value(patch).unwrap();
            engine.modify(TENANT, id, request, &|_| true).await.unwrap()
        }
        kind => {
            let request = requests(kind).remove(0);
            begin_with(engine, kind, id, request).await
        }
    }
}

/// A world, an engine and an instance that is ready for the operation, with an empty call log.
pub(super) async fn ready(kind: LcmOperationType) -> (Arc<FakeWorld>, Engine, String) {
    let (world, engine, id, _) = ready_with_store(kind).await;
    (world, engine, id)
}

pub(super) async fn ready_with_store(
    kind: LcmOperationType,
) -> (Arc<FakeWorld>, Engine, String, Arc<dyn Store>) {
    ready_in(Arc::default(), kind).await
}

/// The same in this world.
pub(super) async fn ready_in(
    world: Arc<FakeWorld>,
    kind: LcmOperationType,
) -> (Arc<FakeWorld>, Engine, String, Arc<dyn Store>) {
    let store: Arc<dyn Store> = store().await;
    let engine = engine(store.clone(), &world);
    let id = instance(&engine).await;
    if kind != LcmOperationType::Instantiate {
        instantiate(&engine, &id).await;
    }
    prepare(&engine, kind, &id).await;
    world.calls.lock().unwrap().clear();
    (world, engine, id, store)
}

#[tokio::test]
async fn every_operation_journals_the_steps_of_its_table() {
    for operation in OPERATIONS {
        let (world, engine, id, _) = ready_in(FakeWorld::with_nfvo(), operation.kind).await;
        let op = begin(&engine, operation.kind, &id).await;
        engine.drive(&op).await.unwrap();
        assert_eq!(state(&engine, &op).await, Completed, "{}", operation.kind);
        assert_consistent(&engine, &world, operation.kind.as_str()).await;
        let journal = engine.store().journal(&op).await.unwrap();
        let journaled: Vec<_> = journal.iter().map(|row| row.step.as_str()).collect();
        let documented: Vec<_> = operation.steps.iter().map(|step| step.name).collect();
        assert_eq!(journaled, documented, "{}", operation.kind);
    }
}

#[tokio::test]
async fn every_call_may_fail_once_and_retry_rollback_and_fail_all_recover() {
    let mut cases = 0;
    for operation in OPERATIONS {
        for recovery in [
            Recovery::Retry,
            Recovery::Rollback,
            Recovery::FailAndTerminate,
        ] {
            for after_effect in [false, true] {
                for number in 1.. {
                    let (world, engine, id, _) =
                        ready_in(FakeWorld::with_nfvo(), operation.kind).await;
                    world.fail_call.store(number, SeqCst);
                    *world.fail_after_effect.lock().unwrap() = after_effect;
                    let op = begin(&engine, operation.kind, &id).await;
                    engine.drive(&op).await.unwrap();
                    if world.calls().len() < number {
                        break;
                    }
                    let case = format!(
                        "{} call {number} after={after_effect} {recovery:?}",
                        operation.kind
                    );
                    if world.calls()[number - 1] == "grant" {
                        // It was requested again at once.
                        assert_eq!(state(&engine, &op).await, Completed, "{case}");
                    } else {
                        recover(&engine, &op, &id, recovery, &case).await;
                    }
                    assert_consistent(&engine, &world, &case).await;
                    let drained = world.drained.lock().unwrap().len();
                    assert!(
                        recovery == Recovery::FailAndTerminate || drained == 0,
                        "{case}: still drained"
                    );
                    cases += 1;
                }
            }
        }
    }
    assert!(cases >= 40, "only {cases} cases");
}

async fn recover(engine: &Engine, op: &str, id: &str, recovery: Recovery, case: &str) {
    let stopped = state(engine, op).await;
    if stopped == RolledBack {
        return;
    }
    assert_eq!(stopped, FailedTemp, "{case}");
    let error = engine
        .store()
        .op(TENANT, op)
        .await
        .unwrap()
        .op
        .error
        .unwrap();
    assert!(
        error.detail.contains("injected failure") && error.step.is_some(),
        "{case}: {error:?}"
    );
    let is_irreversible = engine
        .store()
        .op(TENANT, op)
        .await
        .unwrap()
        .point_of_no_return
        .is_some();
    match recovery {
        Recovery::Retry => engine.retry(TENANT, op).await.unwrap(),
        Recovery::Rollback if is_irreversible => {
            let refusal = engine.rollback(TENANT, op).await.unwrap_err();
            assert!(
                refusal.detail.contains("cannot be undone"),
                "{case}: {refusal}"
            );
            engine.retry(TENANT, op).await.unwrap();
        }
        Recovery::Rollback => engine.rollback(TENANT, op).await.unwrap(),
        Recovery::FailAndTerminate => {
            engine.fail(TENANT, op).await.unwrap();
            let instantiated = engine.store().instance(TENANT, id).await.unwrap();
            if instantiated.vnf.instantiated_vnf_info.is_some() {
                let op = terminate(engine, id).await;
                assert_eq!(state(engine, &op).await, Completed, "{case}");
            }
            return;
        }
    }
    engine.drive(op).await.unwrap();
    let expected = if recovery == Recovery::Rollback && !is_irreversible {
        RolledBack
    } else {
        Completed
    };
    assert_eq!(state(engine, op).await, expected, "{case}");
}

#[tokio::test]
async fn a_crash_at_any_store_write_is_resumed_by_the_next_process() {
    let mut cases = 0;
    for operation in OPERATIONS {
        for after_effect in [false, true] {
            for number in 1.. {
                let (world, engine, id, store) =
                    ready_in(FakeWorld::with_nfvo(), operation.kind).await;
                let op = begin(&engine, operation.kind, &id).await;
                let stopping = stop_at(store.clone(), number, after_effect);
                let lease = Duration::from_millis(50);
                let limits = Limits {
                    lease,
                    ..Limits::default()
                };
                let first = engine_with(stopping.clone(), &world, limits);
                tokio::select! {
                    biased;
                    () = stopping.interceptor().stopped() => {}
                    ended = first.drive(&op) => {
                        ended.unwrap();
                        break;
                    }
                }
                let case = format!("{} write {number} after={after_effect}", operation.kind);
                let second = super::setup::engine(store, &world);
                run_to_end(&second, &op).await;
                assert_eq!(state(&second, &op).await, Completed, "{case}");
                assert_consistent(&second, &world, &case).await;
                cases += 1;
            }
        }
    }
    assert!(cases >= 30, "only {cases} cases");
}

/// Drives the operation once the lease of the ended process has expired.
pub(super) async fn run_to_end(engine: &Engine, op: &str) {
    let begun = Instant::now();
    while state(engine, op).await.is_driven() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "`{op}` cannot be taken over"
        );
        engine.resume_all().await.unwrap();
        tokio::task::yield_now().await;
    }
}

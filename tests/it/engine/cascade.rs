//! Terminating an instance together with those on its clusters.

use super::fakes::*;
use super::faults::run_to_end;
use super::setup::*;
use super::stopping_store::stop_at;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::lcm::{Begin, heal, terminate};
use vnfm_core::ports::Store;
use vnfm_core::query::{Query, VisibilityScope};
use vnfm_core::{Engine, Limits, Refusal, Why};
use vnfm_types::InstantiationState::{Instantiated, NotInstantiated};
use vnfm_types::LcmOperationState::{Completed, FailedTemp, RolledBack};
use vnfm_types::{HealVnfRequest, TerminateVnfRequest, VnfLcmOpOcc};

/// Three instances: B on the cluster of A, and C on that of B.
struct Fixture {
    world: Arc<FakeWorld>,
    store: Arc<dyn Store>,
    engine: Engine,
    ids: [String; 3],
}

impl Fixture {
    async fn new() -> Self {
        let world = FakeWorld::with_nfvo();
        let store: Arc<dyn Store> = store().await;
        let engine = engine(store.clone(), &world);
        let a = instantiated(&engine, "cloud").await;
        let b = on_cluster_of(&engine, &a).await;
        let c = on_cluster_of(&engine, &b).await;
        world.calls.lock().unwrap().clear();
        Self {
            world,
            store,
            engine,
            ids: [a, b, c],
        }
    }

    async fn begin(&self, engine: &Engine) -> Result<String, Refusal> {
        let request = TerminateVnfRequest::default();
        engine
            .terminate_with_dependants(TENANT, &self.ids[0], request)
            .await
    }

    /// The terminate operations, in the order of A, B, C.
    async fn operations(&self) -> [Vec<VnfLcmOpOcc>; 3] {
        let all = self.store.ops(TENANT, &Query::default()).await.unwrap();
        let for_instance = |id: &String| {
            let of_it = all.iter().map(|record| record.op.clone());
            let of_it = of_it.filter(|op| {
                op.vnf_instance_id == *id && op.operation == terminate::OPERATION.kind
            });
            of_it.collect()
        };
        [0, 1, 2].map(|number| for_instance(&self.ids[number]))
    }

    async fn all_are(&self, expected: vnfm_types::InstantiationState, case: &str) {
        for id in &self.ids {
            let record = self.store.instance(TENANT, id).await.unwrap();
            assert_eq!(record.vnf.instantiation_state, expected, "{case}");
        }
    }
}

async fn instantiated(engine: &Engine, on_vim: &str) -> String {
    let id = instance(engine).await;
    let op = engine.instantiate(TENANT, &id, on(on_vim)).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(engine, &op).await, Completed);
    id
}

async fn on_cluster_of(engine: &Engine, id: &str) -> String {
    let cluster = engine.vim(TENANT, &format!("cluster-{id}")).await.unwrap();
    instantiated(engine, &cluster.id).await
}

#[tokio::test]
async fn dependants_are_terminated_first_each_by_an_operation_of_its_own() {
    let it = Fixture::new().await;
    let request = TerminateVnfRequest::default();
    let refused = it.engine.terminate(TENANT, &it.ids[0], request).await;
    let refused = refused.unwrap_err();
    assert_eq!(
        (refused.why, refused.code.name),
        (Why::Conflict, "request.in-use")
    );
    assert_eq!(refused.blocked_by.len(), 1, "{refused}");
    assert!(refused.next().contains("--cascade"), "{}", refused.next());

    let op = it.begin(&it.engine).await.unwrap();
    // None of the clusters takes another instance.
    let new = instance(&it.engine).await;
    for provider in &it.ids[..2] {
        let cluster = it.engine.vim(TENANT, &format!("cluster-{provider}")).await;
        let late = it
            .engine
            .instantiate(TENANT, &new, on(&cluster.unwrap().id));
        assert_eq!(late.await.unwrap_err().code.name, "request.retiring");
    }
    it.engine.drive(&op).await.unwrap();
    it.all_are(NotInstantiated, "all").await;
    assert_consistent(&it.engine, &it.world, "all").await;
    let [a, b, c] = it.operations().await.map(|all| all[0].clone());
    assert_eq!(a.id, op);
    let automatic = [&a, &b, &c].map(|op| op.is_automatic_invocation);
    assert_eq!(automatic, [false, true, true]);
    let rows = it.store.outbox(0, 1000).await.unwrap();
    let ended = rows.iter().filter(|row| {
        row.body["operation"] == "TERMINATE" && row.body["operationState"] == "COMPLETED"
    });
    let order: Vec<_> = ended.map(|row| row.instance_id.clone()).collect();
    let [of_a, of_b, of_c] = it.ids.clone();
    assert_eq!(order, [of_c, of_b, of_a]);
    let grants = it.world.calls();
    let grants = grants.iter().filter(|call| *call == "grant");
    assert_eq!(grants.count(), 3);
}

#[tokio::test]
async fn a_plan_lists_them_and_changes_nothing() {
    let it = Fixture::new().await;
    let begin = Begin {
        cascade: true,
        ..Begin::new(
            &terminate::OPERATION,
            serde_json::json!({"terminationType": "FORCEFUL"}),
        )
    };
    let plan = it.engine.plan(TENANT, &it.ids[0], begin).await.unwrap();
    let listed: Vec<_> = plan.dependants.iter().map(|one| one.id.as_str()).collect();
    assert_eq!(listed, [it.ids[2].as_str(), it.ids[1].as_str()]);
    let steps: Vec<_> = plan.steps.iter().map(|step| step.name).collect();
    assert!(steps.contains(&"terminate_dependants"), "{steps:?}");
    it.all_are(Instantiated, "planned").await;
    let none = Fixture::new().await;
    let alone = Begin::new(
        &terminate::OPERATION,
        serde_json::json!({"terminationType": "FORCEFUL"}),
    );
    let plan = none.engine.plan(TENANT, &none.ids[2], alone).await.unwrap();
    assert!(plan.dependants.is_empty());
    assert!(
        plan.steps
            .iter()
            .all(|step| step.name != "terminate_dependants")
    );
}

#[tokio::test]
async fn one_that_fails_stops_the_cascade_and_a_retry_terminates_the_rest() {
    let it = Fixture::new().await;
    it.world.fail("release", 1, &INJECTED);
    let op = it.begin(&it.engine).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    let [a, b, c] = it.operations().await.map(|all| all[0].clone());
    let states = [&a, &b, &c].map(|op| op.operation_state);
    assert_eq!(states, [FailedTemp; 3]);
    let error = a.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("op.dependant"));
    for named in [&it.ids[1], &b.id, &it.ids[2], &c.id] {
        assert!(error.detail.contains(named.as_str()), "{}", error.detail);
    }
    assert!(
        error.detail.contains("injected failure"),
        "{}",
        error.detail
    );
    it.all_are(Instantiated, "stopped").await;

    for op in [&c.id, &b.id, &op] {
        it.engine.retry(TENANT, op).await.unwrap();
        it.engine.drive(op).await.unwrap();
        assert_eq!(state(&it.engine, op).await, Completed);
    }
    it.all_are(NotInstantiated, "retried").await;
    assert_consistent(&it.engine, &it.world, "retried").await;
    let begun = it.operations().await.map(|all| all.len());
    assert_eq!(begun, [1; 3], "a retry repeats no operation");
}

#[tokio::test]
async fn a_rollback_opens_the_clusters_again() {
    let it = Fixture::new().await;
    it.world.fail("release", 1, &INJECTED);
    let op = it.begin(&it.engine).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    let [_, b, c] = it.operations().await.map(|all| all[0].clone());
    it.engine.retry(TENANT, &c.id).await.unwrap();
    it.engine.drive(&c.id).await.unwrap();
    for op in [&b.id, &op] {
        it.engine.rollback(TENANT, op).await.unwrap();
        it.engine.drive(op).await.unwrap();
        assert_eq!(state(&it.engine, op).await, RolledBack);
    }
    on_cluster_of(&it.engine, &it.ids[0]).await;
    on_cluster_of(&it.engine, &it.ids[1]).await;
    assert_consistent(&it.engine, &it.world, "rolled back").await;
}

#[tokio::test]
async fn what_the_caller_may_not_terminate_is_refused_at_once() {
    let it = Fixture::new().await;
    let scope = VisibilityScope {
        vims: vec![CLOUD.into()],
        ..VisibilityScope::default()
    };
    let begin = Begin {
        cascade: true,
        scope: Some(&scope),
        ..Begin::new(
            &terminate::OPERATION,
            serde_json::json!({"terminationType": "FORCEFUL"}),
        )
    };
    let refused = it
        .engine
        .begin(TENANT, &it.ids[0], begin)
        .await
        .unwrap_err();
    assert_eq!(
        (refused.why, refused.code.name),
        (Why::Forbidden, "access.dependant")
    );
    assert!(!refused.detail.contains(&it.ids[1]), "{refused}");

    let request = HealVnfRequest::default();
    let healing = it.engine.heal(TENANT, &it.ids[2], request).await.unwrap();
    let busy = it.begin(&it.engine).await.unwrap_err();
    assert_eq!((busy.why, busy.code.name), (Why::Conflict, "request.busy"));
    assert_eq!(busy.blocked_by, [healing.as_str()]);
    it.engine.drive(&healing).await.unwrap();

    let begin = Begin {
        cascade: true,
        ..Begin::new(&heal::OPERATION, serde_json::json!({}))
    };
    let refused = it
        .engine
        .begin(TENANT, &it.ids[0], begin)
        .await
        .unwrap_err();
    assert_eq!(refused.code.name, "request.no-cascade");
    let begun = it.operations().await.map(|all| all.len());
    assert_eq!(begun, [0; 3]);
    it.all_are(Instantiated, "refused").await;
}

#[tokio::test]
async fn a_crash_at_any_write_is_resumed() {
    let mut cases = 0;
    for number in 1.. {
        let it = Fixture::new().await;
        let op = it.begin(&it.engine).await.unwrap();
        let stopping = stop_at(it.store.clone(), number, number % 2 == 0);
        let limits = Limits {
            lease: Duration::from_millis(30),
            ..Limits::default()
        };
        let first = engine_with(stopping.clone(), &it.world, limits);
        tokio::select! {
            biased;
            () = stopping.interceptor().stopped() => {}
            ended = first.drive(&op) => {
                ended.unwrap();
                break;
            }
        }
        let case = format!("write {number}");
        let second = engine(it.store.clone(), &it.world);
        run_to_end(&second, &op).await;
        assert_eq!(state(&second, &op).await, Completed, "{case}");
        it.all_are(NotInstantiated, &case).await;
        assert_consistent(&second, &it.world, &case).await;
        let begun = it.operations().await.map(|all| all.len());
        assert_eq!(begun, [1; 3], "{case}: an operation was begun twice");
        cases += 1;
    }
    assert!(cases >= 30, "only {cases} cases");
}

//! Previews of operations: the same result and the same refusals as the operation, and nothing is written.

use super::fakes::*;
use super::setup::*;
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::lcm::Begin;
use vnfm_core::ports::Store;
use vnfm_core::query::Query;
use vnfm_core::{Engine, Refusal};
use vnfm_types::LcmOperationType::{self, Heal, Instantiate, Terminate};

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
        let done: Vec<_> = journal.iter().map(|row| row.step.as_str()).collect();
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

//! Hooks that rule out a rollback: no link, no policy and no crash leads back from there, and a retry goes forward.

use super::fakes::*;
use super::faults::{begin, ready_in, run_to_end};
use super::plugins::op_error;
use super::setup::*;
use super::stopping_store::stop_at;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::{Engine, Limits, Why};
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp, Processing, RolledBack};
use vnfm_types::LcmOperationType::{ChangeExtConn, Instantiate};
use vnfm_types::{AfterRetries, CancelMode, OnFailure};

/// The hook that rules it out: the first one that runs.
const HOOK: &str = "instantiate_start";

/// Lets every hook rule out a rollback, before its own work.
fn rule_out(world: &FakeWorld) {
    let reason = json!({"reason": "the database is converted"});
    *world.hook_service_call.lock().unwrap() = Some(("irreversible", reason));
}

/// Whether `rollback` is possible, and what it would do or why not.
async fn way_back(engine: &Engine, op: &str) -> (bool, String) {
    let ways = engine.progress(TENANT, op).await.unwrap().ways_on;
    let way = ways.into_iter().find(|way| way.task == "rollback").unwrap();
    (way.allowed, way.what)
}

/// Checks that the operation stopped, and is not rolled back.
async fn assert_no_way_back(engine: &Engine, op: &str, case: &str) {
    let record = engine.store().op(TENANT, op).await.unwrap();
    assert_eq!(record.op.operation_state, FailedTemp, "{case}");
    assert_eq!(record.point_of_no_return.as_deref(), Some(HOOK), "{case}");
    let (allowed, what) = way_back(engine, op).await;
    assert!(!allowed && what.contains(HOOK), "{case}: {what}");
    let refusal = engine.rollback(TENANT, op).await.unwrap_err();
    assert_eq!(refusal.why, Why::Conflict, "{case}: {refusal}");
    assert_eq!(refusal.code.name, "request.no-way-back", "{case}");
    assert!(refusal.detail.contains(HOOK), "{case}: {refusal}");
}

async fn assert_retried(engine: &Engine, world: &FakeWorld, op: &str, case: &str) {
    engine.retry(TENANT, op).await.unwrap();
    engine.drive(op).await.unwrap();
    assert_eq!(state(engine, op).await, Completed, "{case}");
    assert_consistent(engine, world, case).await;
}

#[tokio::test]
async fn a_failed_operation_goes_forward_only() {
    // The hook itself fails afterwards, or a later step.
    for failing in [HOOK, "allocate", "instantiate_end"] {
        let (world, engine, id, _) = ready_in(Arc::default(), Instantiate).await;
        rule_out(&world);
        world.fail(failing, 1, &INJECTED);
        let op = begin(&engine, Instantiate, &id).await;
        engine.drive(&op).await.unwrap();
        assert_no_way_back(&engine, &op, failing).await;
        let log = engine.log(TENANT, &op, 0).await.unwrap();
        let logged = log.iter().any(|line| {
            let is_info = line.level == "info" && line.source == HOOK;
            is_info && line.text.contains("the database is converted")
        });
        assert!(logged, "{failing}: {log:?}");
        assert_retried(&engine, &world, &op, failing).await;
    }
}

#[tokio::test]
async fn a_policy_does_not_roll_back() {
    for (failing, retries) in [(HOOK, 0), (HOOK, 1), ("allocate", 1)] {
        let (world, _, id, store) = ready_in(Arc::default(), Instantiate).await;
        rule_out(&world);
        let on_failure = OnFailure {
            retries,
            then: AfterRetries::Rollback,
            ..OnFailure::default()
        };
        let limits = Limits {
            lease: Duration::from_hours(1),
            on_failure,
            ..Limits::default()
        };
        let engine = engine_at(store, &world, limits, InstantClock::new());
        let times = usize::try_from(retries).unwrap() + 1;
        world.fail(failing, times, &INJECTED);
        let op = begin(&engine, Instantiate, &id).await;
        engine.drive(&op).await.unwrap();
        let case = format!("{failing}, {retries} retries");
        assert_no_way_back(&engine, &op, &case).await;
        let log = engine.log(TENANT, &op, 0).await.unwrap();
        let expected = format!("not rolled back: step `{HOOK}` has begun");
        assert!(
            log.iter().any(|line| line.text.contains(&expected)),
            "{case}: {log:?}"
        );
        assert_retried(&engine, &world, &op, &case).await;
    }
}

#[tokio::test]
async fn a_hook_that_is_dropped_has_ruled_it_out_too() {
    let (world, engine, id, _) = ready_in(Arc::default(), Instantiate).await;
    rule_out(&world);
    *world.hang_in.lock().unwrap() = Some(HOOK);
    let op = begin(&engine, Instantiate, &id).await;
    let cancelling = async {
        world.hung.notified().await;
        assert_eq!(state(&engine, &op).await, Processing);
        let (allowed, what) = way_back(&engine, &op).await;
        assert!(!allowed && what.contains(HOOK), "while it runs: {what}");
        let cancel = engine.cancel(TENANT, &op, CancelMode::Forceful);
        cancel.await.unwrap();
    };
    let (driven, ()) = tokio::join!(engine.drive(&op), cancelling);
    driven.unwrap();
    *world.hang_in.lock().unwrap() = None;
    assert_no_way_back(&engine, &op, "cancelled").await;
    assert_retried(&engine, &world, &op, "cancelled").await;
}

fn short_lease() -> Limits {
    Limits {
        lease: Duration::from_millis(50),
        ..Limits::default()
    }
}

/// The process dies after the answer of the service and before the end of the hook, which then fails in the next process.
#[tokio::test]
async fn a_death_within_the_hook_leaves_no_way_back() {
    let (world, _, id, store) = ready_in(Arc::default(), Instantiate).await;
    rule_out(&world);
    *world.hang_in.lock().unwrap() = Some(HOOK);
    let dying = engine_with(store.clone(), &world, short_lease());
    let op = begin(&dying, Instantiate, &id).await;
    tokio::select! {
        ended = dying.drive(&op) => panic!("it ended: {ended:?}"),
        () = world.hung.notified() => {}
    }
    drop(dying);
    *world.hang_in.lock().unwrap() = None;
    // The next process need not get as far as the first one.
    *world.hook_service_call.lock().unwrap() = None;
    world.fail(HOOK, 1, &INJECTED);
    let next = engine_with(store, &world, short_lease());
    run_to_end(&next, &op).await;
    assert_no_way_back(&next, &op, "after a death").await;
    assert_retried(&next, &world, &op, "after a death").await;
}

#[tokio::test]
async fn a_crash_at_any_write_does_not_bring_the_way_back() {
    let mut cases = 0;
    for after_effect in [false, true] {
        for number in 1.. {
            let (world, engine, id, store) = ready_in(Arc::default(), Instantiate).await;
            rule_out(&world);
            world.fail("instantiate_end", usize::MAX, &INJECTED);
            let op = begin(&engine, Instantiate, &id).await;
            let stopping = stop_at(store.clone(), number, after_effect);
            let first = engine_with(stopping.clone(), &world, short_lease());
            tokio::select! {
                biased;
                () = stopping.interceptor().stopped() => {}
                ended = first.drive(&op) => {
                    ended.unwrap();
                    break;
                }
            }
            let case = format!("write {number} after={after_effect}");
            let second = super::setup::engine(store, &world);
            run_to_end(&second, &op).await;
            assert_no_way_back(&second, &op, &case).await;
            world.fail("instantiate_end", 0, &INJECTED);
            assert_retried(&second, &world, &op, &case).await;
            cases += 1;
        }
    }
    assert!(cases >= 10, "only {cases} cases");
}

#[tokio::test]
async fn an_undo_cannot_rule_out_its_rollback() {
    let (world, engine, id, _) = ready_in(Arc::default(), Instantiate).await;
    world.fail("instantiate_end", 1, &INJECTED);
    let op = begin(&engine, Instantiate, &id).await;
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, FailedTemp);
    rule_out(&world);
    engine.rollback(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, FailedTemp);
    let problem = op_error(&engine, &op).await.unwrap();
    assert_eq!(problem.code.as_deref(), Some("hook.service"), "{problem:?}");
    for words in ["`irreversible`", "an undo cannot rule out the rollback"] {
        assert!(problem.detail.contains(words), "{problem:?}");
    }
    let (allowed, what) = way_back(&engine, &op).await;
    assert!(allowed, "{what}");
    *world.hook_service_call.lock().unwrap() = None;
    engine.rollback(TENANT, &op).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, RolledBack);
    assert_consistent(&engine, &world, "undo").await;
}

#[tokio::test]
async fn a_reason_that_is_too_long_rules_nothing_out() {
    let (world, engine, id, _) = ready_in(Arc::default(), Instantiate).await;
    let reason = json!({"reason": "x".repeat(1025)});
    *world.hook_service_call.lock().unwrap() = Some(("irreversible", reason));
    let op = begin(&engine, Instantiate, &id).await;
    engine.drive(&op).await.unwrap();
    let problem = op_error(&engine, &op).await.unwrap();
    assert_eq!(
        problem.code.as_deref(),
        Some("hook.too-much"),
        "{problem:?}"
    );
    let (allowed, what) = way_back(&engine, &op).await;
    assert!(allowed, "{what}");
}

/// A hook that ruled out a rollback is not the change itself: what failed before that has the deployment from before.
#[tokio::test]
async fn an_operation_that_ends_as_failed_knows_whether_its_own_step_had_begun() {
    let (world, engine, id, store) = ready_in(Arc::default(), ChangeExtConn).await;
    let links = async || {
        let record = store.instance(TENANT, &id).await.unwrap();
        record.deployment.unwrap().ext_virtual_links.clone()
    };
    let before = links().await;
    rule_out(&world);
    world.fail("heal", 1, &INJECTED);
    let op = begin(&engine, ChangeExtConn, &id).await;
    engine.drive(&op).await.unwrap();
    let record = store.op(TENANT, &op).await.unwrap();
    let hook = record.point_of_no_return.as_deref();
    assert_eq!(hook, Some("change_external_connectivity_start"));
    assert_eq!(record.op.error.unwrap().step.as_deref(), Some("adapt"));
    engine.fail(TENANT, &op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Failed);
    assert_eq!(links().await, before);
}

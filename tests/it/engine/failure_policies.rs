//! A step that fails is retried, and then the operation stops or is rolled back, as the policy says.

use super::fakes::*;
use super::faults::{begin, ready_in};
use super::setup::*;
use super::stopping_store::stop_at;
use futures::future::BoxFuture;
use jiff::Timestamp;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use vnfm_core::ports::*;
use vnfm_core::{Engine, Limits, Why};
use vnfm_types::AfterRetries::{Rollback, Stop};
use vnfm_types::LcmOperationState::{Completed, FailedTemp, RolledBack};
use vnfm_types::LcmOperationType::{Instantiate, Terminate};
use vnfm_types::{AfterRetries, CancelMode, LcmOperationType, OnFailure, PolicySource};

const REFUSED: Code = Code {
    name: "test.refused",
    kind: ErrorKind::Refused,
    means: "the test refused",
    next: "nothing",
};

fn policy(retries: u32, then: AfterRetries) -> OnFailure {
    OnFailure {
        retries,
        then,
        ..OnFailure::default()
    }
}

/// Limits with this policy, and a lease that the instant clock never renews.
fn limits(on_failure: OnFailure) -> Limits {
    Limits {
        lease: Duration::from_hours(1),
        grant_call: Duration::from_mins(3),
        on_failure,
        ..Limits::default()
    }
}

struct Fixture {
    world: Arc<FakeWorld>,
    store: Arc<dyn Store>,
    engine: Engine,
    clock: Arc<InstantClock>,
    id: String,
}

impl Fixture {
    /// An instance that is ready for the operation, and an engine with this policy.
    async fn new(kind: LcmOperationType, on_failure: OnFailure) -> Self {
        let (world, _, id, store) = ready_in(FakeWorld::with_nfvo(), kind).await;
        let clock = InstantClock::new();
        let engine = engine_at(store.clone(), &world, limits(on_failure), clock.clone());
        Self {
            world,
            store,
            engine,
            clock,
            id,
        }
    }

    /// Lets the next calls of this name fail.
    fn fail(&self, call: &'static str, times: usize, code: &'static Code) {
        self.world.fail(call, times, code);
    }

    fn calls_of(&self, name: &str) -> usize {
        let calls = self.world.calls();
        calls.iter().filter(|call| *call == name).count()
    }

    async fn drive(&self, kind: LcmOperationType) -> String {
        let op = begin(&self.engine, kind, &self.id).await;
        self.engine.drive(&op).await.unwrap();
        op
    }

    /// The states of the operation that were reported, in order.
    async fn reported(&self, op: &str) -> Vec<String> {
        let rows = self.store.outbox(0, 1000).await.unwrap();
        let of_op = rows
            .into_iter()
            .filter(|row| row.body["vnfLcmOpOccId"] == *op);
        let states = of_op.map(|row| row.body["operationState"].as_str().unwrap().to_owned());
        states.collect()
    }

    async fn error(&self, op: &str) -> vnfm_types::ProblemDetails {
        let record = self.store.op(TENANT, op).await.unwrap();
        record.op.error.unwrap()
    }
}

const STATES: [&str; 2] = ["STARTING", "PROCESSING"];

#[tokio::test]
async fn a_step_that_fails_twice_and_then_works_completes_the_operation() {
    let it = Fixture::new(Instantiate, policy(2, Stop)).await;
    it.fail("allocate", 2, &INJECTED);
    let began = it.clock.now();
    let op = it.drive(Instantiate).await;
    assert_eq!(
        it.reported(&op).await,
        [&STATES[..], &["COMPLETED"]].concat()
    );
    assert_eq!(it.calls_of("allocate"), 3);
    let row = it.store.journal(&op).await.unwrap();
    let row = row.into_iter().find(|row| row.step == "allocate").unwrap();
    assert_eq!((row.attempt, row.retry), (3, None));
    let record = it.store.op(TENANT, &op).await.unwrap();
    assert_eq!(record.op.error, None);
    let took = it.clock.now().duration_since(began).as_secs();
    assert_eq!(took, 3, "pauses of one and two seconds");
    let log = it.engine.log(TENANT, &op, 0).await.unwrap();
    let retried = log.iter().filter(|line| line.text.contains("starts again"));
    assert_eq!(retried.count(), 2, "{log:?}");
    assert_consistent(&it.engine, &it.world, "retried").await;
}

#[tokio::test]
async fn a_step_that_always_fails_stops_the_operation_and_a_retry_counts_from_the_beginning() {
    let it = Fixture::new(Instantiate, policy(2, Stop)).await;
    it.fail("allocate", usize::MAX, &INJECTED);
    let op = it.drive(Instantiate).await;
    let stopped = [&STATES[..], &["FAILED_TEMP"]].concat();
    assert_eq!(it.reported(&op).await, stopped);
    assert_eq!(it.calls_of("allocate"), 3);
    assert_eq!(it.error(&op).await.step.as_deref(), Some("allocate"));
    let shown = it.engine.progress(TENANT, &op).await.unwrap();
    assert_eq!(shown.retry, None);

    it.engine.retry(TENANT, &op).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, FailedTemp);
    assert_eq!(it.calls_of("allocate"), 6);
    it.fail("allocate", 0, &INJECTED);
    it.engine.rollback(TENANT, &op).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, RolledBack);
    assert_consistent(&it.engine, &it.world, "stopped").await;
}

#[tokio::test]
async fn a_step_that_always_fails_rolls_the_operation_back() {
    let it = Fixture::new(Instantiate, policy(1, Rollback)).await;
    it.fail("instantiate_end", usize::MAX, &INJECTED);
    let op = it.drive(Instantiate).await;
    let back = [&STATES[..], &["FAILED_TEMP", "ROLLING_BACK", "ROLLED_BACK"]].concat();
    assert_eq!(it.reported(&op).await, back);
    assert_eq!(it.calls_of("instantiate_end"), 2);
    assert_eq!(it.error(&op).await.step.as_deref(), Some("instantiate_end"));
    assert!(it.world.resource_ids().is_empty());
    assert_consistent(&it.engine, &it.world, "rolled back").await;
}

#[tokio::test]
async fn an_undo_that_fails_is_retried_and_then_stops() {
    let it = Fixture::new(Instantiate, policy(1, Rollback)).await;
    it.fail("instantiate_end", 2, &INJECTED);
    it.fail("release", 2, &INJECTED);
    let op = it.drive(Instantiate).await;
    assert_eq!(state(&it.engine, &op).await, FailedTemp);
    assert_eq!(it.calls_of("release"), 2);
    it.engine.rollback(TENANT, &op).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, RolledBack);
    assert_consistent(&it.engine, &it.world, "undo").await;
}

#[tokio::test]
async fn only_what_is_unavailable_is_retried() {
    for code in [&REFUSED, &BROKEN] {
        for (then, ends) in [(Stop, FailedTemp), (Rollback, RolledBack)] {
            let it = Fixture::new(Instantiate, policy(5, then)).await;
            it.fail("allocate", usize::MAX, code);
            let op = it.drive(Instantiate).await;
            assert_eq!(state(&it.engine, &op).await, ends, "{}", code.name);
            assert_eq!(it.calls_of("allocate"), 1, "{}", code.name);
        }
    }
}

#[tokio::test]
async fn no_rollback_past_the_point_of_no_return() {
    let it = Fixture::new(Terminate, policy(1, Rollback)).await;
    it.fail("release", 2, &INJECTED);
    let op = it.drive(Terminate).await;
    assert_eq!(state(&it.engine, &op).await, FailedTemp);
    assert_eq!(it.calls_of("release"), 2);
    let log = it.engine.log(TENANT, &op, 0).await.unwrap();
    let expected = "not rolled back: step `release` has begun";
    assert!(
        log.iter().any(|line| line.text.contains(expected)),
        "{log:?}"
    );
    it.engine.retry(TENANT, &op).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, Completed);
}

#[tokio::test]
async fn no_attempt_begins_after_the_time_of_the_policy() {
    let short = OnFailure {
        retry_within_seconds: 5,
        ..policy(100, Stop)
    };
    let it = Fixture::new(Instantiate, short).await;
    it.fail("allocate", usize::MAX, &INJECTED);
    let op = it.drive(Instantiate).await;
    assert_eq!(state(&it.engine, &op).await, FailedTemp);
    // After 0, 1 and 3 seconds; the next attempt would begin after 7.
    assert_eq!(it.calls_of("allocate"), 3);
}

/// A clock that stands still: what waits, waits forever.
struct StoppedClock(Timestamp);

impl Clock for StoppedClock {
    fn now(&self) -> Timestamp {
        self.0
    }
    fn sleep(&self, _: Duration) -> BoxFuture<'static, ()> {
        Box::pin(std::future::pending())
    }
}

/// Drives an operation until it waits for its second attempt at `allocate`; returns the engine that waits, with `then`.
async fn waiting<T>(it: &Fixture, op: &str, then: impl AsyncFnOnce(&Engine) -> T) -> T {
    let clock = Arc::new(StoppedClock(it.clock.now()));
    let limits = limits(policy(2, Stop));
    let engine = engine_at(it.store.clone(), &it.world, limits, clock);
    let reached = async {
        loop {
            let shown = engine.progress(TENANT, op).await.unwrap();
            if let (Some(retry), Some(waiting)) = (shown.retry, shown.waiting) {
                assert_eq!(
                    (shown.step.as_deref(), shown.attempt),
                    (Some("allocate"), 1)
                );
                assert_eq!(retry.failures, 1);
                assert_eq!(retry.next_at, Some(it.clock.now() + Duration::from_secs(1)));
                assert_eq!(waiting.until, retry.next_at);
                assert!(retry.last_error.contains("injected failure"), "{retry:?}");
                return then(&engine).await;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        ended = engine.drive(op) => panic!("{ended:?}"),
        after = reached => after,
    }
}

/// Ends the lease of a process that is gone.
async fn end_lease(it: &Fixture, op: &str) {
    let revoke = Change::RevokeLease {
        instance_id: it.id.clone(),
        op_id: op.to_owned(),
        force: true,
    };
    it.store.write(None, vec![revoke]).await.unwrap();
}

#[tokio::test]
async fn a_crash_in_the_wait_does_not_reset_the_count() {
    let it = Fixture::new(Instantiate, policy(2, Stop)).await;
    it.fail("allocate", usize::MAX, &INJECTED);
    let op = begin(&it.engine, Instantiate, &it.id).await;
    waiting(&it, &op, async |_| ()).await;
    end_lease(&it, &op).await;
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, FailedTemp);
    assert_eq!(it.calls_of("allocate"), 3, "of both processes");
}

#[tokio::test]
async fn a_cancel_request_ends_the_wait_and_what_exists_is_recorded() {
    let it = Fixture::new(Instantiate, policy(2, Rollback)).await;
    it.fail("allocate", 1, &INJECTED);
    let op = begin(&it.engine, Instantiate, &it.id).await;
    waiting(&it, &op, async |engine| {
        let mode = CancelMode::Graceful;
        engine.cancel(TENANT, &op, mode).await.unwrap();
    })
    .await;
    end_lease(&it, &op).await;
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, FailedTemp, "not rolled back");
    assert_eq!(it.error(&op).await.code.as_deref(), Some("op.cancelled"));
    it.engine.retry(TENANT, &op).await.unwrap();
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, Completed);
    assert_consistent(&it.engine, &it.world, "cancelled").await;
}

#[tokio::test]
async fn the_policy_of_the_instance_precedes_that_of_the_tenant_and_of_the_server() {
    let it = Fixture::new(Instantiate, policy(1, Stop)).await;
    let engine = &it.engine;
    let shown = async || engine.policy(TENANT, &it.id).await.unwrap();
    assert_eq!(shown().await.source, PolicySource::Server);
    let mut limits = engine.limits();
    limits.on_failure_of.insert(TENANT.into(), policy(2, Stop));
    engine.set_limits(limits);
    let of_tenant = shown().await;
    assert_eq!(
        (of_tenant.on_failure.retries, of_tenant.source),
        (2, PolicySource::Tenant)
    );
    let own = policy(3, Rollback);
    let set = engine.set_on_failure(TENANT, &it.id, Some(own)).await;
    assert_eq!(set.unwrap(), shown().await);
    assert_eq!(shown().await.source, PolicySource::Instance);

    it.fail("allocate", usize::MAX, &INJECTED);
    let op = it.drive(Instantiate).await;
    assert_eq!(state(engine, &op).await, RolledBack);
    assert_eq!(it.calls_of("allocate"), 4);
    let kept = shown().await;
    assert_eq!(kept.on_failure, own, "operations do not change it");

    engine.set_on_failure(TENANT, &it.id, None).await.unwrap();
    assert_eq!(shown().await, of_tenant);
    let too_often = Some(policy(1_001, Stop));
    let refused = engine.set_on_failure(TENANT, &it.id, too_often).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.why, Why::Unprocessable);
    assert!(refused.detail.contains("at most 1000"), "{refused}");
    let absent = engine.set_on_failure("other", &it.id, Some(own)).await;
    assert_eq!(absent.unwrap_err().why, Why::NotFound);
}

#[tokio::test]
async fn every_call_of_every_operation_may_fail_once_without_failed_temp() {
    let mut cases = 0;
    for operation in OPERATIONS {
        for after_effect in [false, true] {
            for number in 1.. {
                let it = Fixture::new(operation.kind, policy(1, Stop)).await;
                it.world.fail_call.store(number, SeqCst);
                *it.world.fail_after_effect.lock().unwrap() = after_effect;
                let op = it.drive(operation.kind).await;
                let case = format!("{} call {number} after={after_effect}", operation.kind);
                assert_eq!(state(&it.engine, &op).await, Completed, "{case}");
                let reported = it.reported(&op).await;
                assert!(!reported.contains(&"FAILED_TEMP".to_owned()), "{case}");
                assert_consistent(&it.engine, &it.world, &case).await;
                cases += 1;
                if it.world.calls().len() < number {
                    break;
                }
            }
        }
    }
    assert!(cases >= 60, "only {cases} cases");
}

#[tokio::test]
async fn every_call_of_every_operation_that_fails_rolls_back_what_can_be() {
    let mut cases = 0;
    for operation in OPERATIONS {
        for number in 1.. {
            let it = Fixture::new(operation.kind, policy(0, Rollback)).await;
            it.world.fail_call.store(number, SeqCst);
            *it.world.fail_after_effect.lock().unwrap() = true;
            let op = it.drive(operation.kind).await;
            if it.world.calls().len() < number {
                break;
            }
            let case = format!("{} call {number}", operation.kind);
            let record = it.store.op(TENANT, &op).await.unwrap();
            let expected = match record.point_of_no_return {
                // It was requested again at once.
                _ if it.world.calls()[number - 1] == "grant" => Completed,
                Some(_) => FailedTemp,
                None => RolledBack,
            };
            assert_eq!(record.op.operation_state, expected, "{case}");
            if expected == FailedTemp {
                it.engine.retry(TENANT, &op).await.unwrap();
                it.engine.drive(&op).await.unwrap();
            }
            assert_consistent(&it.engine, &it.world, &case).await;
            assert!(it.world.drained.lock().unwrap().is_empty(), "{case}");
            cases += 1;
        }
    }
    assert!(cases >= 25, "only {cases} cases");
}

#[tokio::test]
async fn a_crash_at_any_write_of_a_retried_or_rolled_back_operation_is_resumed() {
    let mut cases = 0;
    for (on_failure, failures) in [(policy(1, Stop), 1), (policy(1, Rollback), 2)] {
        for after_effect in [false, true] {
            for number in 1.. {
                let it = Fixture::new(Instantiate, on_failure).await;
                it.fail("instantiate_end", failures, &INJECTED);
                let op = begin(&it.engine, Instantiate, &it.id).await;
                let stopping = stop_at(it.store.clone(), number, after_effect);
                let clock = it.clock.clone();
                let first = engine_at(stopping.clone(), &it.world, limits(on_failure), clock);
                tokio::select! {
                    biased;
                    () = stopping.interceptor().stopped() => {}
                    ended = first.drive(&op) => {
                        ended.unwrap();
                        break;
                    }
                }
                let case = format!("{on_failure:?} write {number} after={after_effect}");
                let now = state(&it.engine, &op).await;
                if now.is_driven() {
                    end_lease(&it, &op).await;
                    it.engine.drive(&op).await.unwrap();
                }
                // A crash between the failure and its row leaves one attempt more.
                let calls = it.calls_of("instantiate_end");
                assert!((2..=3).contains(&calls), "{case}: {calls} calls");
                let ended = state(&it.engine, &op).await;
                let may_end = if failures == 1 || calls == 3 {
                    [Completed, Completed]
                } else {
                    [RolledBack, Completed]
                };
                assert!(may_end.contains(&ended), "{case}: {ended}");
                assert_consistent(&it.engine, &it.world, &case).await;
                cases += 1;
            }
        }
    }
    assert!(cases >= 40, "only {cases} cases");
}

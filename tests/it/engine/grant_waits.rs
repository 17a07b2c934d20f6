//! Waiting for a grant: polling, retries, timeouts, cancels and crashes.

use super::fakes::*;
use super::faults::{begin, ready_in, run_to_end};
use super::grants::{REJECTED, later, nfvo_calls, record, respond_with};
use super::setup::*;
use super::stopping_store::stop_at;
use futures::future::{Either, select};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::Limits;
use vnfm_core::ports::*;
use vnfm_types::LcmOperationState::{Completed, RolledBack, Starting};
use vnfm_types::LcmOperationType::{Instantiate, Terminate};
use vnfm_types::*;

const BUSY: Code = Code {
    name: "test.busy",
    kind: ErrorKind::Unavailable,
    means: "it is busy",
    next: "wait",
};

fn busy() -> Result<GrantOutcome, PortError> {
    Err(PortError::new(&BUSY, "ask the NFVO", "503"))
}

#[tokio::test]
async fn grant_retries_honour_retry_after() {
    let world = FakeWorld::with_nfvo();
    let clock = InstantClock::new();
    // A long call timeout, so that the clock does not count it for each call.
    let call = Duration::from_mins(3);
    let limits = Limits {
        lease: Duration::from_hours(1),
        grant_call: call,
        ..Limits::default()
    };
    let engine = engine_at(store().await, &world, limits, clock.clone());
    let id = instance(&engine).await;
    world.calls.lock().unwrap().clear();
    let alone = |seconds| Some(Duration::from_secs(seconds));
    let busy = busy().map_err(|error| error.after(alone(40)));
    respond_with(
        &world,
        [busy, Ok(GrantOutcome::Pending("place".into(), alone(50)))],
    );
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    let before = clock.now();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(
        nfvo_calls(&world),
        ["grant", "grant", "look"],
        "and not asked in between"
    );
    let took = clock.now().duration_since(before).as_secs();
    assert!((90..120).contains(&took), "{took} s");
}

#[tokio::test]
async fn pending_grants_are_polled_and_transient_failures_retried() {
    let (world, engine, id, _) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
    respond_with(&world, [busy(), later(), later(), busy(), later()]);
    let op = begin(&engine, Instantiate, &id).await;
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(
        nfvo_calls(&world),
        ["grant", "grant", "look", "look", "look", "look"]
    );
    let forgotten = [later(), Ok(GrantOutcome::UnknownLocation)];
    respond_with(&world, forgotten);
    world.calls.lock().unwrap().clear();
    let op = begin(&engine, Terminate, &id).await;
    engine.drive(&op).await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(nfvo_calls(&world), ["grant", "look", "grant"]);
    let requests = world.grant_requests.lock().unwrap();
    assert!(
        requests[2..]
            .iter()
            .all(|request| request.vnf_lcm_op_occ_id == op),
        "the same operation"
    );
}

#[tokio::test]
async fn a_grant_that_is_never_decided_times_out() {
    for (answer, expected) in [(later as fn() -> _, "the NFVO's decision"), (busy, "503")] {
        let world = FakeWorld::with_nfvo();
        let clock = InstantClock::new();
        let limits = Limits {
            lease: Duration::from_hours(1),
            ..Limits::default()
        };
        let engine = engine_at(store().await, &world, limits, clock.clone());
        let id = instance(&engine).await;
        respond_with(&world, std::iter::repeat_with(answer).take(1000));
        let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
        let begun = clock.now();
        engine.drive(&op).await.unwrap();
        let error = record(&engine, &op).await.error.unwrap();
        assert_eq!(error.code.as_deref(), Some("grant.late"), "{error:?}");
        assert!(
            error.detail.contains("600 s") && error.detail.contains(expected),
            "{error:?}"
        );
        assert_eq!(state(&engine, &op).await, RolledBack);
        let took = clock.now().duration_since(begun).as_secs();
        assert!((600..720).contains(&took), "{took} s");
        let calls = nfvo_calls(&world).len();
        assert!(
            (10..200).contains(&calls),
            "{calls} calls: the backoff must grow, but not too much"
        );
    }
}

#[tokio::test]
async fn a_grant_request_without_response_times_out() {
    let world = FakeWorld::with_nfvo();
    *world.hang_in.lock().unwrap() = Some("grant");
    let clock = InstantClock::new();
    let limits = Limits {
        lease: Duration::from_hours(1),
        ..Limits::default()
    };
    let engine = engine_at(store().await, &world, limits, clock);
    let id = instance(&engine).await;
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();
    let error = record(&engine, &op).await.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("grant.late"), "{error:?}");
    assert!(
        error.detail.contains("no response within 30 s"),
        "{error:?}"
    );
}

/// A response of the NFVO.
type GrantResult = Result<GrantOutcome, PortError>;

/// Cancels an instantiation while its grant request waits for `what`; the operation at its end, and the number of calls
/// at the NFVO when the cancel was accepted.
async fn cancel_while_waiting(
    mode: CancelMode,
    (first, then): (fn() -> GrantResult, Option<GrantResult>),
    what: &str,
) -> (Arc<FakeWorld>, VnfLcmOpOcc, usize) {
    let (world, engine, id, _) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
    respond_with(&world, std::iter::repeat_with(first).take(10_000));
    let op = begin(&engine, Instantiate, &id).await;
    let mut driving = pin!(engine.drive(&op));
    let waits = async {
        loop {
            let progress = engine.progress(TENANT, &op).await.unwrap();
            if let Some(waiting) = progress.waiting {
                assert_eq!(progress.step.as_deref(), Some("grant"));
                assert_eq!(progress.operation_state, Starting);
                break waiting.for_what;
            }
            engine.changed(&op).await;
        }
    };
    let Either::Right((visible, _)) = select(driving.as_mut(), pin!(waits)).await else {
        panic!("the operation ended without waiting");
    };
    assert!(visible.contains(what), "{visible}");
    // The operation is not driven until its record is read: it may end at once.
    engine.cancel(TENANT, &op, mode).await.unwrap();
    let calls_so_far = nfvo_calls(&world).len();
    let pending = record(&engine, &op).await;
    assert_eq!(
        (pending.is_cancel_pending, pending.cancel_mode),
        (true, Some(mode))
    );
    if let Some(then) = then {
        respond_with(&world, [then]);
    }
    let driven = driving.await;
    driven.unwrap();
    assert!(
        !world.calls().contains(&"check".to_owned()),
        "nothing else was called"
    );
    assert_consistent(&engine, &world, "cancelled").await;
    let record = record(&engine, &op).await;
    assert_eq!(record.operation_state, RolledBack);
    (world, record, calls_so_far)
}

#[tokio::test]
async fn a_forceful_cancel_ends_the_wait_for_a_grant() {
    let waits = cancel_while_waiting(CancelMode::Forceful, (later, None), "the NFVO's decision");
    let (_, op, _) = waits.await;
    let error = op.error.unwrap();
    assert_eq!(error.code.as_deref(), Some("op.cancelled"), "{error:?}");
}

/// SOL003 5.5.4.6: it waits for the granting request to finish; then the operation is ROLLED_BACK.
#[tokio::test]
async fn a_graceful_cancel_waits_for_the_grant_decision() {
    let rejected = Err(PortError::new(
        &REJECTED,
        "ask the NFVO",
        "it is not wanted",
    ));
    let waits = cancel_while_waiting(
        CancelMode::Graceful,
        (later, Some(rejected)),
        "the NFVO's decision",
    );
    let (world, op, _) = waits.await;
    let error = op.error.unwrap();
    assert_eq!(
        error.code.as_deref(),
        Some("test.no"),
        "the decision was heard: {error:?}"
    );
    assert_eq!(nfvo_calls(&world)[0], "grant");
    assert_eq!(nfvo_calls(&world).last().unwrap(), "look");
}

#[tokio::test]
async fn a_grant_for_a_cancelled_operation_is_not_used() {
    let (world, engine, id, _) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
    let op = begin(&engine, Instantiate, &id).await;
    respond_with(&world, [later()]);
    let opened = Arc::new(tokio::sync::Notify::new());
    *world.gate.lock().unwrap() = Some(("look", opened.clone()));
    let cancels = async {
        while !nfvo_calls(&world).contains(&"look".to_owned()) {
            tokio::task::yield_now().await;
        }
        engine
            .cancel(TENANT, &op, CancelMode::Graceful)
            .await
            .unwrap();
        assert_eq!(
            state(&engine, &op).await,
            Starting,
            "the NFVO has not decided yet"
        );
        opened.notify_one();
    };
    let (driven, ()) = futures::future::join(engine.drive(&op), cancels).await;
    driven.unwrap();
    let record = record(&engine, &op).await;
    assert_eq!(record.operation_state, RolledBack);
    assert_eq!(record.error.unwrap().code.as_deref(), Some("op.cancelled"));
    assert!(
        !world.calls().contains(&"check".to_owned()),
        "nothing else was called"
    );
    assert_consistent(&engine, &world, "cancelled").await;
}

#[tokio::test]
async fn a_graceful_cancel_does_not_retry_a_failed_grant_request() {
    let waits = cancel_while_waiting(CancelMode::Graceful, (busy, None), "503");
    let (world, op, calls_so_far) = waits.await;
    assert_eq!(op.error.unwrap().code.as_deref(), Some("op.cancelled"));
    let calls = nfvo_calls(&world);
    assert_eq!(calls.len(), calls_so_far, "no request after the cancel");
    assert!(calls.iter().all(|call| call == "grant"), "{calls:?}");
}

#[tokio::test]
async fn a_crash_while_waiting_for_a_grant_resumes_polling_the_same_location() {
    let (world, engine, id, store) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
    let op = begin(&engine, Instantiate, &id).await;
    respond_with(&world, [later()]);
    *world.hang_in.lock().unwrap() = Some("look");
    let limits = Limits {
        lease: Duration::from_millis(50),
        ..Limits::default()
    };
    let first = engine_with(store.clone(), &world, limits);
    tokio::select! {
        () = world.hung.notified() => {}
        ended = first.drive(&op) => panic!("{ended:?}"),
    }
    *world.hang_in.lock().unwrap() = None;
    run_to_end(&engine, &op).await;
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(
        nfvo_calls(&world),
        ["grant", "look", "look"],
        "it is not requested twice"
    );
}

#[tokio::test]
async fn a_grant_request_of_unknown_outcome_is_repeated_for_the_same_operation() {
    let mut doubtful = 0;
    for number in 1.. {
        let (world, engine, id, store) = ready_in(FakeWorld::with_nfvo(), Instantiate).await;
        let op = begin(&engine, Instantiate, &id).await;
        let stopping = stop_at(store.clone(), number, false);
        let limits = Limits {
            lease: Duration::from_millis(50),
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
        run_to_end(&engine, &op).await;
        assert_eq!(state(&engine, &op).await, Completed, "write {number}");
        let requests = world.grant_requests.lock().unwrap();
        assert!(
            requests
                .iter()
                .all(|request| request.vnf_lcm_op_occ_id == op),
            "write {number}"
        );
        assert!(
            requests.iter().all(|request| request == &requests[0]),
            "write {number}"
        );
        doubtful += usize::from(requests.len() > 1);
    }
    assert!(doubtful > 0, "no request was ever in doubt");
}

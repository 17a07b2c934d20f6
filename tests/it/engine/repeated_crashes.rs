//! A server that crashes repeatedly in the same step: for every operation and call, alone and with other
//! operations, killed and shut down.

use super::fakes::*;
use super::faults::{begin, ready_in, run_to_end};
use super::setup::*;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use vnfm_core::ports::{Change, Clock, JournalRow, Store};
use vnfm_core::query::Query;
use vnfm_core::{Engine, Limits};
use vnfm_types::LcmOperationState::{Completed, FailedTemp, RolledBack, Starting};
use vnfm_types::{LcmOperationType, ProblemDetails};

/// Real time, except that a sleep of 30 seconds ends on request, and a longer one never.
#[derive(Clone, Default)]
struct ManualClock(Arc<ManualTime>);

#[derive(Default)]
struct ManualTime {
    ahead: AtomicI64,
    passed: AtomicBool,
    changed: Notify,
}

const ISOLATION_TIME: Duration = Duration::from_secs(30);

impl ManualClock {
    fn end_isolation(&self) {
        if !self.0.passed.swap(true, SeqCst) {
            self.0.ahead.fetch_add(30, SeqCst);
            self.0.changed.notify_waiters();
        }
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        Timestamp::now() + SignedDuration::from_secs(self.0.ahead.load(SeqCst))
    }
    fn sleep(&self, duration: Duration) -> futures::future::BoxFuture<'static, ()> {
        if duration < ISOLATION_TIME {
            return vnfm::SystemClock.sleep(duration);
        }
        let hand = self.0.clone();
        Box::pin(async move {
            loop {
                let changed = hand.changed.notified();
                if duration == ISOLATION_TIME && hand.passed.load(SeqCst) {
                    return;
                }
                changed.await;
            }
        })
    }
}

/// How often a call of this name was made.
fn calls(world: &FakeWorld, name: &str) -> usize {
    world.calls().iter().filter(|call| *call == name).count()
}

async fn drive_until<F: Future<Output = bool>>(engine: &Engine, done: impl Fn() -> F) {
    // Each in its own task: a blocked one could hold what another needs.
    let mut driven = JoinSet::new();
    let driving = async {
        loop {
            while let Some(operation) = engine.take_over().await.unwrap() {
                driven.spawn(operation);
            }
            tokio::task::yield_now().await;
        }
    };
    let begun = Instant::now();
    let looking = async {
        while !done().await {
            assert!(
                begun.elapsed() < Duration::from_secs(30),
                "the expected state was not reached"
            );
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        never = driving => never,
        () = looking => {}
    }
    driven.shutdown().await;
}

/// A process that dies once the call of this name was made for the `number`th time.
async fn crash_at(engine: &Engine, world: &FakeWorld, (name, number): (&str, usize)) {
    drive_until(engine, || async { calls(world, name) >= number }).await;
    expire_leases(engine.store()).await;
}

/// Expires the leases of a dead process.
async fn expire_leases(store: &dyn Store) {
    for record in store.instances(TENANT, &Query::default()).await.unwrap() {
        let Some(op_id) = record.active_op else {
            continue;
        };
        let revoke = Change::RevokeLease {
            instance_id: record.vnf.id,
            op_id,
            force: true,
        };
        store.write(None, vec![revoke]).await.unwrap();
    }
}

async fn error(engine: &Engine, op: &str) -> ProblemDetails {
    engine
        .store()
        .op(TENANT, op)
        .await
        .unwrap()
        .op
        .error
        .unwrap()
}

/// The journal row of the running step.
async fn open_journal_row(store: &dyn Store, op: &str) -> JournalRow {
    let journal = store.journal(op).await.unwrap();
    journal
        .into_iter()
        .find(|row| row.ended_at.is_none())
        .unwrap()
}

/// The names of the calls that an operation makes.
async fn calls_of(kind: LcmOperationType) -> BTreeSet<&'static str> {
    let (world, engine, id, _) = ready_in(FakeWorld::with_nfvo(), kind).await;
    let op = begin(&engine, kind, &id).await;
    engine.drive(&op).await.unwrap();
    world
        .calls()
        .into_iter()
        .map(|name| &*name.leak())
        .collect()
}

#[tokio::test]
async fn two_crashes_in_a_step_are_tolerated_and_a_third_while_running_alone_stops_it() {
    let mut cases = 0;
    for operation in OPERATIONS {
        for name in calls_of(operation.kind).await {
            for kills in [2, 3] {
                let case = format!("{} {name} {kills} kills", operation.kind);
                let (world, first, id, store) =
                    ready_in(FakeWorld::with_nfvo(), operation.kind).await;
                let op = begin(&first, operation.kind, &id).await;
                *world.hang_in.lock().unwrap() = Some(name);
                for number in 1..=kills {
                    let engine = engine_with(store.clone(), &world, Limits::default());
                    crash_at(&engine, &world, (name, number)).await;
                    let row = open_journal_row(&*store, &op).await;
                    assert_eq!(row.lives.alone, number == 3, "{case}: {row:?}");
                    assert_eq!(row.lives.died.len(), number - 1, "{case}: {row:?}");
                }
                *world.hang_in.lock().unwrap() = None;
                let last = engine(store.clone(), &world);
                run_to_end(&last, &op).await;
                if kills == 3 {
                    assert_eq!(calls(&world, name), 3, "{case}: it was begun again");
                    stopped(&last, &op, &case).await;
                }
                assert!(
                    kills == 3 || state(&last, &op).await == Completed,
                    "{case}: {:?}",
                    last.store().op(TENANT, &op).await.unwrap().op
                );
                assert_consistent(&last, &world, &case).await;
                cases += 1;
            }
        }
    }
    assert!(cases >= 20, "only {cases} cases");
}

/// The operation stopped because of the crashes, and continues on retry.
async fn stopped(engine: &Engine, op: &str, case: &str) {
    let problem = error(engine, op).await;
    let code = problem.code.as_deref().unwrap();
    assert!(
        ["op.server-died", "hook.server-died"].contains(&code),
        "{case}: {problem:?}"
    );
    assert!(
        problem.detail.contains("died 3 times") && problem.step.is_some(),
        "{case}: {problem:?}"
    );
    let log = format!("{:?}", engine.log(TENANT, op, 0).await.unwrap());
    assert!(
        log.contains("runs exclusively for up to 30 s"),
        "{case}: {log}"
    );
    match state(engine, op).await {
        RolledBack => {}
        FailedTemp => {
            engine.retry(TENANT, op).await.unwrap();
            engine.drive(op).await.unwrap();
            assert_eq!(
                state(engine, op).await,
                Completed,
                "{case}: a retry is honoured"
            );
        }
        other => panic!("{case}: {other}"),
    }
}

/// An instantiation whose `allocate` has crashed two processes, and another operation that has not begun.
async fn suspect_and_other() -> (Arc<FakeWorld>, Arc<dyn Store>, String, String) {
    let world = Arc::new(FakeWorld::default());
    let store: Arc<dyn Store> = store().await;
    let first = engine_with(store.clone(), &world, Limits::default());
    let id = instance(&first).await;
    let suspect = first.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    *world.hang_in.lock().unwrap() = Some("allocate");
    crash_at(&first, &world, ("allocate", 1)).await;
    let second = engine_with(store.clone(), &world, Limits::default());
    crash_at(&second, &world, ("allocate", 2)).await;
    let id = instance(&second).await;
    let another = second.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    (world, store, suspect, another)
}

#[tokio::test]
async fn other_operations_wait_while_a_suspect_runs_alone_and_continue_afterwards() {
    let (world, store, suspect, another) = suspect_and_other().await;
    let third = engine_with(store.clone(), &world, Limits::default());
    let waits = || async {
        let waiting = third.progress(TENANT, &another).await.unwrap().waiting;
        calls(&world, "allocate") == 3 && waiting.is_some()
    };
    drive_until(&third, waits).await;
    let waiting = third
        .progress(TENANT, &another)
        .await
        .unwrap()
        .waiting
        .unwrap();
    assert!(waiting.for_what.contains("runs exclusively"), "{waiting:?}");
    assert!(
        !waiting.for_what.contains(&suspect),
        "the suspect may belong to another tenant: {waiting:?}"
    );
    assert_eq!(
        store.journal(&another).await.unwrap(),
        [],
        "it has not begun"
    );
    assert!(open_journal_row(&*store, &suspect).await.lives.alone);
    expire_leases(&*store).await;

    *world.hang_in.lock().unwrap() = None;
    let last = engine_with(store, &world, Limits::default());
    let ended = || async {
        !state(&last, &another).await.is_driven() && !state(&last, &suspect).await.is_driven()
    };
    drive_until(&last, ended).await;
    assert_eq!(state(&last, &another).await, Completed);
    assert_eq!(state(&last, &suspect).await, FailedTemp);
}

#[tokio::test]
async fn after_the_isolation_period_other_operations_run_and_a_crash_is_not_blamed_on_the_suspect()
{
    let (world, store, suspect, another) = suspect_and_other().await;
    *world.hang_in.lock().unwrap() = None;
    *world.gate.lock().unwrap() = Some(("allocate", Arc::default()));
    let clock = ManualClock::default();
    let third = engine_at(
        store.clone(),
        &world,
        Limits::default(),
        Arc::new(clock.clone()),
    );
    let other_ended = || async {
        if calls(&world, "allocate") == 3 {
            clock.end_isolation();
        }
        state(&third, &another).await == Completed
    };
    drive_until(&third, other_ended).await;
    let row = open_journal_row(&*store, &suspect).await;
    assert_eq!((row.lives.alone, row.lives.outlived), (false, 1), "{row:?}");
    expire_leases(&*store).await;

    let last = engine_with(store, &world, Limits::default());
    run_to_end(&last, &suspect).await;
    assert_eq!(
        state(&last, &suspect).await,
        Completed,
        "others were running: the crash is not attributed"
    );
}

#[tokio::test]
async fn a_kill_during_shutdown_does_not_count_as_a_crash() {
    for name in ["check", "allocate", "instantiate_end"] {
        let kind = LcmOperationType::Instantiate;
        let (world, first, id, store) = ready_in(Arc::default(), kind).await;
        let op = begin(&first, kind, &id).await;
        *world.hang_in.lock().unwrap() = Some(name);
        for number in 1..=5 {
            let engine = engine_with(store.clone(), &world, Limits::default());
            crash_at(&engine, &world, (name, number)).await;
            engine.announce_shutdown().await;
        }
        assert_eq!(
            open_journal_row(&*store, &op).await.lives.died,
            [""; 0],
            "{name}"
        );
        *world.hang_in.lock().unwrap() = None;
        let last = engine(store, &world);
        run_to_end(&last, &op).await;
        assert_eq!(state(&last, &op).await, Completed, "{name}");
    }
}

#[tokio::test]
async fn losing_the_lease_in_a_step_does_not_count_as_a_crash() {
    let kind = LcmOperationType::Instantiate;
    let (world, first, id, store) = ready_in(Arc::default(), kind).await;
    let op = begin(&first, kind, &id).await;
    *world.hang_in.lock().unwrap() = Some("check");
    for number in 1..=4 {
        let engine = engine_with(store.clone(), &world, Limits::default());
        let losing = async {
            while calls(&world, "check") < number {
                tokio::task::yield_now().await;
            }
            let (instance_id, op_id) = (id.clone(), op.clone());
            let revoke = Change::RevokeLease {
                instance_id,
                op_id,
                force: true,
            };
            store.write(None, vec![revoke]).await.unwrap();
        };
        let (driven, ()) = tokio::join!(engine.drive(&op), losing);
        driven.unwrap();
        assert_eq!(state(&engine, &op).await, Starting);
        assert_eq!(store.orderly_exits(&op).await.unwrap().len(), number);
    }
    *world.hang_in.lock().unwrap() = None;
    let last = engine(store.clone(), &world);
    last.drive(&op).await.unwrap();
    assert_eq!(state(&last, &op).await, Completed);
}

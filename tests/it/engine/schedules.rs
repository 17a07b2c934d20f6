//! Operations that begin at an interval: turns, what skips one, what a failure leaves.

use super::fakes::*;
use super::faults::ready_in;
use super::setup::*;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::lcm::{Begin, operate};
use vnfm_core::ports::*;
use vnfm_core::{Engine, Limits, Refusal, Why};
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp, Starting};
use vnfm_types::LcmOperationType::{Instantiate, Operate};
use vnfm_types::Schedule;

const HOUR: u32 = 3_600;

struct Fixture {
    world: Arc<FakeWorld>,
    store: Arc<dyn Store>,
    engine: Engine,
    clock: Arc<InstantClock>,
    id: String,
}

impl Fixture {
    async fn new() -> Self {
        let (world, _, id, store) = ready_in(Arc::default(), Operate).await;
        let clock = InstantClock::new();
        let limits = Limits {
            lease: Duration::from_hours(24),
            ..Limits::default()
        };
        let engine = engine_at(store.clone(), &world, limits, clock.clone());
        Self {
            world,
            store,
            engine,
            clock,
            id,
        }
    }

    async fn set(&self, seconds: u32, request: Value) -> Result<Schedule, Refusal> {
        let set = (seconds, request);
        self.engine.set_schedule(TENANT, &self.id, set).await
    }

    async fn shown(&self) -> Schedule {
        self.engine.schedule(TENANT, &self.id).await.unwrap()
    }

    async fn due(&self) -> Vec<String> {
        self.engine.begin_due().await.unwrap()
    }

    /// Lets this time pass.
    async fn pass(&self, seconds: u32) {
        for _ in 0..seconds.div_ceil(60) {
            self.clock.sleep(Duration::from_mins(1)).await;
        }
    }
}

fn start() -> Value {
    json!({"changeStateTo": "STARTED"})
}

#[tokio::test]
async fn an_operation_begins_at_once_and_then_at_its_interval() {
    let it = Fixture::new().await;
    it.set(HOUR, start()).await.unwrap();
    let [op] = &it.due().await[..] else {
        panic!("nothing began")
    };
    assert_eq!(state(&it.engine, op).await, Starting);
    let record = it.store.op(TENANT, op).await.unwrap();
    assert!(record.op.is_automatic_invocation);
    assert!(it.due().await.is_empty(), "its first is not driven yet");
    it.engine.drive(op).await.unwrap();
    assert!(it.due().await.is_empty());
    let shown = it.shown().await;
    assert_eq!(shown.last_op_occ_id.as_ref(), Some(op));
    assert_eq!(shown.last_result.as_deref(), Some("COMPLETED"));
    it.pass(HOUR - 60).await;
    assert!(it.due().await.is_empty(), "{:?}", it.shown().await);
    it.pass(60).await;
    assert_eq!(it.due().await.len(), 1);
}

#[tokio::test]
async fn two_are_never_in_progress_and_two_processes_begin_one() {
    let it = Fixture::new().await;
    it.set(60, start()).await.unwrap();
    let other = engine_at(
        it.store.clone(),
        &it.world,
        Limits::default(),
        it.clock.clone(),
    );
    let (one, two) = tokio::join!(it.engine.begin_due(), other.begin_due());
    let begun = [one.unwrap(), two.unwrap()].concat();
    assert_eq!(begun.len(), 1, "{begun:?}");
    it.pass(600).await;
    assert!(it.due().await.is_empty(), "the first has not ended");
    it.engine.drive(&begun[0]).await.unwrap();
    let next = it.due().await;
    assert!(next.len() == 1 && next != begun, "{next:?}");
}

#[tokio::test]
async fn a_turn_is_skipped_while_another_operation_holds_the_instance() {
    let it = Fixture::new().await;
    let begin = Begin::new(&operate::OPERATION, start());
    let held = it.engine.begin(TENANT, &it.id, begin).await.unwrap();
    it.set(HOUR, start()).await.unwrap();
    assert!(it.due().await.is_empty());
    let shown = it.shown().await;
    let why = shown.last_result.unwrap();
    assert!(why.starts_with("skipped: ") && why.contains(&held), "{why}");
    assert!(shown.next_at > it.clock.now(), "it waits for the next turn");
    it.engine.drive(&held).await.unwrap();
    assert!(it.due().await.is_empty());
    it.pass(HOUR).await;
    assert_eq!(it.due().await.len(), 1);
}

#[tokio::test]
async fn a_failed_one_does_not_block_the_instance() {
    let it = Fixture::new().await;
    it.set(HOUR, start()).await.unwrap();
    it.world.fail("power", usize::MAX, &INJECTED);
    let op = it.due().await.remove(0);
    it.engine.drive(&op).await.unwrap();
    assert_eq!(state(&it.engine, &op).await, FailedTemp);
    assert!(it.due().await.is_empty());
    assert_eq!(state(&it.engine, &op).await, Failed);
    let why = it.shown().await.last_result.unwrap();
    assert!(
        why.starts_with("FAILED: ") && why.contains("injected"),
        "{why}"
    );
    it.world.fail("power", 0, &INJECTED);
    it.pass(HOUR).await;
    let next = it.due().await.remove(0);
    it.engine.drive(&next).await.unwrap();
    assert_eq!(state(&it.engine, &next).await, Completed);
}

#[tokio::test]
async fn what_could_never_begin_is_refused_and_a_schedule_ends_with_its_instance() {
    let it = Fixture::new().await;
    for (seconds, request, words) in [
        (59, start(), "everySeconds must be 60 to 2678400"),
        (2_678_401, start(), "everySeconds must be 60"),
        (
            HOUR,
            json!({"changeStateTo": "PAUSED"}),
            "does not have the form",
        ),
    ] {
        let refused = it.set(seconds, request).await.unwrap_err();
        assert_eq!(refused.why, Why::Unprocessable, "{refused}");
        assert!(refused.detail.contains(words), "{refused}");
    }
    let missing = it
        .engine
        .set_schedule(TENANT, "none", (HOUR, start()))
        .await;
    assert_eq!(missing.unwrap_err().why, Why::NotFound);
    let none = it.engine.schedule(TENANT, &it.id).await.unwrap_err();
    assert_eq!(none.why, Why::NotFound);

    it.set(HOUR, start()).await.unwrap();
    let elsewhere = it.engine.schedule("another", &it.id).await;
    assert_eq!(elsewhere.unwrap_err().why, Why::NotFound);
    it.engine.remove_schedule(TENANT, &it.id).await.unwrap();
    assert!(it.due().await.is_empty());

    let (_, engine, id, store) = ready_in(Arc::default(), Instantiate).await;
    let not_instantiated = engine.set_schedule(TENANT, &id, (HOUR, start())).await;
    assert_eq!(not_instantiated.unwrap_err().why, Why::Conflict);
    assert!(
        store
            .due_schedules(engine.now(), 9)
            .await
            .unwrap()
            .is_empty()
    );
}

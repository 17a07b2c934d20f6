//! This machine has no descriptor left for a while: no operation fails for that.

use super::fakes::*;
use super::faults::ready_in;
use super::setup::*;
use futures::future::BoxFuture;
use jiff::Timestamp;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;
use vnfm_core::Limits;
use vnfm_core::ports::Clock;
use vnfm_types::LcmOperationState::Completed;
use vnfm_types::LcmOperationType;

/// Short pauses take no time, and what is longer never ends.
struct ShortSleepClock;

impl Clock for ShortSleepClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        if duration > Duration::from_secs(1) {
            return Box::pin(std::future::pending());
        }
        Box::pin(tokio::task::yield_now())
    }
}

#[tokio::test]
async fn a_step_waits_when_file_descriptors_run_out() {
    let (world, engine, id, _) = ready_in(Arc::default(), LcmOperationType::Instantiate).await;
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    world.calls.lock().unwrap().clear();
    engine.drive(&op).await.unwrap();
    let calls = world.calls();
    let numbers = calls
        .iter()
        .zip(1..)
        .filter(|(name, _)| ["prepare", "allocate"].contains(&name.as_str()));
    let numbers: Vec<usize> = numbers.map(|(_, number)| number).collect();
    assert!(!numbers.is_empty(), "{calls:?}");
    for number in numbers {
        let (world, engine, id, store) =
            ready_in(Arc::default(), LcmOperationType::Instantiate).await;
        let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
        world.calls.lock().unwrap().clear();
        world.descriptor_failures.store(3, SeqCst);
        world.fail_call.store(number, SeqCst);
        let engine = engine_at(store, &world, Limits::default(), Arc::new(ShortSleepClock));
        engine.drive(&op).await.unwrap();
        assert_eq!(
            state(&engine, &op).await,
            Completed,
            "call {number} of {calls:?}"
        );
        assert_eq!(world.descriptor_failures.load(SeqCst), 0);
        assert_consistent(&engine, &world, "after there was no descriptor").await;
    }
}

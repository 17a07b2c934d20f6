//! Events as an embedder hears them: in order, without a gap, from any number on, also after a restart.

use super::fakes::*;
use super::setup::*;
use futures::StreamExt as _;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use vnfm_core::{Engine, Event};
use vnfm_memory::MemoryStore;
use vnfm_types::LcmOperationState::{Completed, RolledBack};
use vnfm_types::LcmOperationType;

/// The next `count` events above `after`.
async fn next_events(engine: &Engine, after: u64, count: usize) -> Vec<(u64, String)> {
    let events = pin!(engine.events(after).take(count));
    let events: Vec<_> = events.collect().await;
    let state_of = |event: vnfm_core::ports::OutboxRow| {
        (
            event.seq,
            event.body["operationState"]
                .as_str()
                .unwrap_or("made")
                .to_owned(),
        )
    };
    events
        .into_iter()
        .map(|event| state_of(event.unwrap()))
        .collect()
}

async fn check_events(store: Arc<dyn vnfm_core::ports::Store>) {
    add_package_and_vim(&*store).await;
    let world = Arc::new(FakeWorld::default());
    let first = engine(store.clone(), &world);
    // A listener that starts first receives every event.
    let (listener, (ready, started)) = (first.clone(), tokio::sync::oneshot::channel());
    let listening = tokio::spawn(async move {
        let _ = ready.send(()); // the test waits for it
        next_events(&listener, 0, 4).await
    });
    started.await.unwrap();
    let id = instance(&first).await;
    let op = first.instantiate(TENANT, &id, on(CLOUD)).await.unwrap();
    first.drive(&op).await.unwrap();
    let all = listening.await.unwrap();
    let states: Vec<_> = all.iter().map(|(_, state)| state.as_str()).collect();
    assert_eq!(states, ["made", "STARTING", "PROCESSING", "COMPLETED"]);
    assert!(all.windows(2).all(|pair| pair[0].0 < pair[1].0), "{all:?}");
    // A new engine on the same store continues after the last event of the old one.
    let second = engine(store, &world);
    assert_eq!(next_events(&second, all[1].0, 2).await, all[2..]);
    // More than is read at once.
    let mut ids = Vec::new();
    for _ in 0..250 {
        ids.push(instance(&second).await);
    }
    let many = next_events(&second, all[3].0, 250).await;
    assert_eq!(many.len(), 250);
    assert!(
        many.windows(2).all(|pair| pair[0].0 + 1 == pair[1].0),
        "a gap"
    );
}

#[tokio::test]
async fn events_arrive_in_order_and_resume_after_a_restart() {
    let sqlite = vnfm_store::SqliteStore::in_memory().await.unwrap();
    check_events(Arc::new(sqlite)).await;
    check_events(Arc::new(MemoryStore::new(Arc::new(vnfm::SystemClock)))).await;
}

#[tokio::test]
async fn drive_and_the_events_have_state_and_cause() {
    let world = Arc::new(FakeWorld::default());
    let engine = engine(store().await, &world);
    let tenant = engine.tenant(TENANT);
    let id = instance(&engine).await;
    world.vim_unavailable.store(true, SeqCst);
    let op = tenant.instantiate(&id, on(CLOUD)).await.unwrap();
    let driven = engine.drive(&op).await.unwrap();
    assert_eq!(driven.state, Some(RolledBack), "nothing was created");
    let error = driven.clone().completed().unwrap_err().to_string();
    assert!(error.contains(&format!("operation `{op}` is ROLLED_BACK: ")));
    assert!(error.contains("the VIM is unavailable"), "{error}");
    let rows: Vec<_> = pin!(engine.events(0).take(3)).collect().await;
    let events = rows.into_iter().map(|row| row.unwrap().event().unwrap());
    let events: Vec<_> = events.collect();
    let ended = Event::Operation {
        op_id: op.clone(),
        operation: LcmOperationType::Instantiate,
        state: RolledBack,
        error: driven.error,
    };
    assert_eq!((&events[0], &events[2]), (&Event::Created, &ended));
    // It has ended, so there is nothing to drive.
    let again = engine.drive(&op).await.unwrap();
    assert_eq!((again.state, again.error.as_ref()), (None, None));
    let error = again.completed().unwrap_err().to_string();
    assert!(error.contains("not driven by this process"), "{error}");

    world.vim_unavailable.store(false, SeqCst);
    let op = tenant.instantiate(&id, on(CLOUD)).await.unwrap();
    engine.drive(&op).await.unwrap().completed().unwrap();
    let state = tenant.progress(&op).await.unwrap().operation_state;
    assert_eq!(state, Completed);
}

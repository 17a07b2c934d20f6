//! The database fails once, at every write of every operation: before it, after its commit, or by being slow. The
//! operation is then driven again, and books and records agree.

use super::fakes::*;
use super::faults::{begin, prepare};
use super::setup::*;
use std::sync::Arc;
use std::time::{Duration, Instant};
use vnfm_core::{Engine, Limits};
use vnfm_tests::faulty_store::{FaultyStore, StoreFault};
use vnfm_types::LcmOperationState::{Completed, FailedTemp};
use vnfm_types::LcmOperationType;

const LEASE: Duration = Duration::from_millis(50);
/// Longer than the lease: another process could have taken the operation over.
const SLOW: StoreFault = StoreFault::Slow(Duration::from_millis(70));

#[tokio::test]
async fn a_single_database_fault_fails_no_operation() {
    let mut cases = 0;
    for operation in OPERATIONS {
        for fault in [StoreFault::Before, StoreFault::AfterCommit, SLOW] {
            for number in 1.. {
                let world = Arc::new(FakeWorld::default());
                let clock = Arc::new(vnfm::SystemClock);
                let store = Arc::new(FaultyStore::without_faults(store().await, clock));
                let engine = engine_with(
                    store.clone(),
                    &world,
                    Limits {
                        lease: LEASE,
                        ..Limits::default()
                    },
                );
                let id = instance(&engine).await;
                if operation.kind != LcmOperationType::Instantiate {
                    let op = begin(&engine, LcmOperationType::Instantiate, &id).await;
                    drive_to_end(&engine, &op).await;
                }
                prepare(&engine, operation.kind, &id).await;
                let op = begin(&engine, operation.kind, &id).await;
                let before = store.interceptor().writes();
                store.interceptor().fail_at(number, fault);
                drive_to_end(&engine, &op).await;
                if store.interceptor().writes() - before < number {
                    break;
                }
                let case = format!("{} write {number} {fault:?}", operation.kind);
                if state(&engine, &op).await == FailedTemp {
                    // A hook whose checkpoint could not be stored gets an error and may fail.
                    let error = engine
                        .store()
                        .op(TENANT, &op)
                        .await
                        .unwrap()
                        .op
                        .error
                        .unwrap();
                    assert_eq!(
                        error.code.as_deref(),
                        Some("store.unavailable"),
                        "{case}: {error:?}"
                    );
                    assert_eq!(error.retryable, Some(true), "{case}");
                    engine.retry(TENANT, &op).await.unwrap();
                    drive_to_end(&engine, &op).await;
                }
                assert_eq!(state(&engine, &op).await, Completed, "{case}");
                assert_consistent(&engine, &world, &case).await;
                cases += 1;
            }
        }
    }
    assert!(cases >= 60, "only {cases} cases");
}

/// The log of an instantiation during which this many writes fail.
async fn log_with_failed_writes(times: usize) -> Vec<(String, String)> {
    let world = Arc::new(FakeWorld::default());
    let store = Arc::new(FaultyStore::without_faults(
        store().await,
        Arc::new(vnfm::SystemClock),
    ));
    let engine = engine_with(store.clone(), &world, Limits::default());
    let id = instance(&engine).await;
    let op = begin(&engine, LcmOperationType::Instantiate, &id).await;
    store.interceptor().fail_log_writes(times);
    engine.drive(&op).await.unwrap();
    assert_eq!(
        state(&engine, &op).await,
        Completed,
        "{times} writes of the log fail"
    );
    let lines = engine.store().log(&op, 0).await.unwrap();
    lines
        .into_iter()
        .map(|line| (line.source, line.text))
        .collect()
}

#[tokio::test]
async fn unsaved_log_lines_do_not_block_an_operation_and_are_saved_later() {
    let complete = log_with_failed_writes(0).await;
    assert!(complete.len() > 2, "{complete:?}");
    assert_eq!(log_with_failed_writes(1).await, complete);
    assert_eq!(
        log_with_failed_writes(usize::MAX).await,
        [],
        "it is lost, and the operation is not"
    );
}

/// Drives it repeatedly, as a server does, until it has ended.
async fn drive_to_end(engine: &Engine, op: &str) {
    let begun = Instant::now();
    while state(engine, op).await.is_driven() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "nobody brings `{op}` to its end"
        );
        // An error means: not driven any further for now.
        let _ = engine.drive(op).await;
        tokio::task::yield_now().await;
    }
}

//! Rules about leases: which process drives an operation.

use super::records::{TENANT, not_found, notification, op, seed, transition, write};
use futures_util::future::join_all;
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{Change, Fence, Store, StoreError};
use vnfm_types::CancelMode;
use vnfm_types::LcmOperationState::{Completed, FailedTemp, Processing};

type Shared = Arc<dyn Store>;

const LONG: Duration = Duration::from_hours(1);

pub(super) async fn a_cancel_request_reaches_the_driving_process(store: Shared) {
    seed(&*store, &["i1"]).await;
    let mut record = op("o1", "i1");
    write(&*store, vec![Change::AddOp(record.clone())]).await;
    let fence = store
        .claim("me", LONG, Some("o1"))
        .await
        .unwrap()
        .unwrap()
        .fence;
    assert_eq!(store.renew(&fence, LONG).await, Ok(None));
    let cancel = |mode| {
        vec![Change::Cancel {
            op_id: "o1".into(),
            mode,
        }]
    };
    write(&*store, cancel(CancelMode::Graceful)).await;
    assert_eq!(
        store.renew(&fence, LONG).await,
        Ok(Some(CancelMode::Graceful))
    );
    write(&*store, cancel(CancelMode::Forceful)).await;
    write(&*store, cancel(CancelMode::Graceful)).await;
    // The driving process writes the operation before it learns of the cancel request.
    store
        .write(Some(&fence), vec![transition(&record, Processing)])
        .await
        .unwrap();
    assert_eq!(
        store.renew(&fence, LONG).await,
        Ok(Some(CancelMode::Forceful))
    );
    let observed = store.op(TENANT, "o1").await.unwrap().op;
    assert_eq!(
        (observed.is_cancel_pending, observed.cancel_mode),
        (true, Some(CancelMode::Forceful))
    );
    record.op.operation_state = Processing;
    store
        .write(Some(&fence), vec![transition(&record, FailedTemp)])
        .await
        .unwrap();
    let observed = store.op(TENANT, "o1").await.unwrap().op;
    assert_eq!(
        (observed.is_cancel_pending, observed.cancel_mode),
        (false, None)
    );
    let found = "FAILED_TEMP".into();
    let error = StoreError::WrongState {
        what: "operation",
        id: "o1".into(),
        found,
    };
    assert_eq!(
        store.write(None, cancel(CancelMode::Graceful)).await,
        Err(error)
    );
}

pub(super) async fn a_held_operation_is_not_claimed(store: Shared) {
    seed(&*store, &["i1", "i2"]).await;
    let mut later = op("o1", "i1");
    later.op.start_time += Duration::from_secs(1);
    let changes = vec![Change::AddOp(later), Change::AddOp(op("o2", "i2"))];
    store.write(None, changes).await.unwrap();
    let first = store.claim("me", LONG, None).await.unwrap().unwrap();
    assert_eq!(
        (first.tenant.as_str(), first.fence.op_id.as_str()),
        (TENANT, "o2"),
        "oldest first"
    );
    assert_eq!(first.fence.epoch, 1);
    assert_eq!(store.claim("you", LONG, Some("o2")).await, Ok(None));
    let second = store.claim("you", LONG, None).await.unwrap().unwrap();
    assert_eq!(second.fence.op_id, "o1");
    assert_eq!(store.claim("you", LONG, None).await, Ok(None));
    store.release(&first.fence).await.unwrap();
    let third = store.claim("you", LONG, None).await.unwrap().unwrap();
    assert_eq!(
        third.fence,
        Fence {
            op_id: "o2".into(),
            epoch: 2
        }
    );
    store.release(&first.fence).await.unwrap();
    assert_eq!(
        store.claim("me", LONG, Some("o2")).await,
        Ok(None),
        "a stale release has no effect"
    );
}

pub(super) async fn of_eight_claims_of_one_operation_one_wins(store: Shared) {
    seed(&*store, &["i1"]).await;
    store
        .write(None, vec![Change::AddOp(op("o1", "i1"))])
        .await
        .unwrap();
    let claims = join_all((0..8).map(|n| {
        let store = store.clone();
        let one = (n % 2 == 0).then_some("o1");
        tokio::spawn(async move { store.claim(&format!("p{n}"), LONG, one).await.unwrap() })
    }));
    let won = claims.await.into_iter().filter_map(Result::unwrap).count();
    assert_eq!(won, 1);
}

pub(super) async fn a_lease_that_is_not_renewed_ends(store: Shared) {
    seed(&*store, &["i1"]).await;
    store
        .write(None, vec![Change::AddOp(op("o1", "i1"))])
        .await
        .unwrap();
    let short = Duration::from_millis(50);
    let begun = std::time::Instant::now();
    let first = store.claim("me", short, Some("o1")).await.unwrap().unwrap();
    let second = loop {
        if let Some(claim) = store.claim("you", LONG, Some("o1")).await.unwrap() {
            break claim;
        }
        tokio::task::yield_now().await;
    };
    assert!(
        begun.elapsed() >= Duration::from_millis(49),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(second.fence.epoch, first.fence.epoch + 1);
    let lost = StoreError::LeaseLost { op_id: "o1".into() };
    assert_eq!(store.renew(&first.fence, LONG).await, Err(lost));
    assert_eq!(store.renew(&second.fence, LONG).await, Ok(None));
}

pub(super) async fn a_lost_lease_allows_no_writes(store: Shared) {
    seed(&*store, &["i1"]).await;
    let record = op("o1", "i1");
    store
        .write(None, vec![Change::AddOp(record.clone())])
        .await
        .unwrap();
    let old = store
        .claim("me", LONG, Some("o1"))
        .await
        .unwrap()
        .unwrap()
        .fence;
    store
        .write(Some(&old), vec![notification("i1", json!(1))])
        .await
        .unwrap();
    store.release(&old).await.unwrap();
    let new = store
        .claim("you", LONG, Some("o1"))
        .await
        .unwrap()
        .unwrap()
        .fence;
    let lost = StoreError::LeaseLost { op_id: "o1".into() };
    let changes = vec![
        notification("i1", json!(2)),
        transition(&record, Processing),
    ];
    assert_eq!(
        store.write(Some(&old), changes.clone()).await,
        Err(lost.clone())
    );
    assert_eq!(store.outbox(0, 10).await.unwrap().len(), 1);
    store.write(Some(&new), changes).await.unwrap();
    let unknown = Fence {
        op_id: "o9".into(),
        epoch: 1,
    };
    assert!(matches!(
        store.write(Some(&unknown), vec![]).await,
        Err(StoreError::LeaseLost { op_id }) if op_id == "o9"
    ));
}

pub(super) async fn an_operation_that_waits_for_a_decision_is_not_claimed(store: Shared) {
    seed(&*store, &["i1"]).await;
    let mut record = op("o1", "i1");
    store
        .write(None, vec![Change::AddOp(record.clone())])
        .await
        .unwrap();
    let fence = store.claim("me", LONG, None).await.unwrap().unwrap().fence;
    store
        .write(Some(&fence), vec![transition(&record, FailedTemp)])
        .await
        .unwrap();
    assert_eq!(store.claim("me", LONG, None).await, Ok(None));
    record.op.operation_state = FailedTemp;
    store
        .write(None, vec![transition(&record, Processing)])
        .await
        .unwrap();
    let again = store.claim("you", LONG, None).await.unwrap().unwrap().fence;
    assert_eq!(
        again.epoch,
        fence.epoch + 1,
        "without waiting for the former lease to expire"
    );
    record.op.operation_state = Processing;
    store
        .write(Some(&again), vec![transition(&record, Completed)])
        .await
        .unwrap();
    store.release(&again).await.unwrap();
    assert_eq!(store.claim("me", LONG, None).await, Ok(None));
    assert_eq!(store.op(TENANT, "o1").await.unwrap().epoch, again.epoch);
}

pub(super) async fn a_revoked_lease_allows_no_writes(store: Shared) {
    seed(&*store, &["i1"]).await;
    let record = op("o1", "i1");
    write(&*store, vec![Change::AddOp(record.clone())]).await;
    let fence_off = |op_id: &str, force| {
        let (instance_id, op_id) = ("i1".to_owned(), op_id.to_owned());
        vec![Change::RevokeLease {
            instance_id,
            op_id,
            force,
        }]
    };
    let old = store
        .claim("me", LONG, Some("o1"))
        .await
        .unwrap()
        .unwrap()
        .fence;
    let busy = StoreError::Busy {
        instance_id: "i1".into(),
        op_id: "o1".into(),
    };
    assert_eq!(store.write(None, fence_off("o1", false)).await, Err(busy));
    store.write(None, fence_off("o1", true)).await.unwrap();
    let lost = StoreError::LeaseLost { op_id: "o1".into() };
    assert_eq!(
        store
            .write(Some(&old), vec![notification("i1", json!(1))])
            .await,
        Err(lost.clone())
    );
    assert_eq!(store.renew(&old, LONG).await, Err(lost));
    store.write(None, fence_off("o1", false)).await.unwrap();
    let new = store
        .claim("you", LONG, Some("o1"))
        .await
        .unwrap()
        .unwrap()
        .fence;
    assert!(
        new.epoch > old.epoch + 1,
        "each revocation raises the epoch: {}",
        new.epoch
    );
    store
        .write(Some(&new), vec![transition(&record, Completed)])
        .await
        .unwrap();
    let ended = store.write(None, fence_off("o1", true)).await;
    assert_eq!(
        ended,
        Err(StoreError::Changed {
            what: "operation",
            id: "o1".into()
        })
    );
    let absent = store.write(None, fence_off("o9", true)).await;
    assert_eq!(absent, Err(not_found("operation", "o9")));
}

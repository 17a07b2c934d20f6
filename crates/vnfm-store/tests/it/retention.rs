//! Removal of old rows: only what has ended and is past its retention time.

use crate::records::{Home, TENANT, at, instance, notification, op, seed, step, transition};
use serde_json::json;
use std::time::Duration;
use vnfm_core::ports::StoreAdmin as _;
use vnfm_core::ports::{Change, StepStatus, Store as _};
use vnfm_store::{Pruned, Retention, SqliteStore};
use vnfm_types::LcmOperationState::{Completed, FailedTemp};
use vnfm_types::{LcmOperationState, LogLine};

const DAY: Duration = Duration::from_hours(24);

/// Adds an operation with a row of each kind, started `days` days after the base time, in the final state `end`.
async fn operation(store: &SqliteStore, instance_id: &str, days: u32, end: LcmOperationState) {
    let id = format!("{instance_id}-{days:03}");
    let mut record = op(&id, instance_id);
    record.op.start_time += days * DAY;
    let note = notification(instance_id, json!(days));
    let Change::Outbox(mut row) = note else {
        panic!("no row of the outbox")
    };
    row.at += days * DAY;
    let remembered = Change::Checkpoint {
        op_id: id.clone(),
        step: "allocate".into(),
        key: "k".into(),
        value: <_>::default(),
    };
    let changes = vec![
        Change::AddOp(record.clone()),
        step(&id, "allocate", StepStatus::Done, json!(1)),
        remembered,
        transition(&record, end),
        Change::Outbox(row),
    ];
    store.write(None, changes).await.unwrap();
    let line = LogLine {
        seq: 0,
        at: at(),
        level: "info".into(),
        source: "test".into(),
        text: "x".into(),
    };
    store
        .append_log(&id, vec![line.clone(), line])
        .await
        .unwrap();
}

async fn ids(store: &SqliteStore) -> Vec<String> {
    store
        .ops(TENANT, &<_>::default())
        .await
        .unwrap()
        .into_iter()
        .map(|record| record.op.id)
        .collect()
}

async fn rows_of(store: &SqliteStore, op_id: &str) -> (usize, usize, bool) {
    let journal = store.journal(op_id).await.unwrap().len();
    let log = store.log(op_id, 0).await.unwrap().len();
    (
        journal,
        log,
        store
            .checkpoint(op_id, "allocate", "k")
            .await
            .unwrap()
            .is_some(),
    )
}

/// Three instances: `a` with three ended operations, `b` with one, `c` with one in FAILED_TEMP;
/// and `d`, which was deleted.
async fn history(store: &SqliteStore) {
    seed(store, &["a", "b", "c", "d"]).await;
    for days in [0, 100, 390] {
        operation(store, "a", days, Completed).await;
    }
    operation(store, "b", 1, Completed).await;
    operation(store, "c", 2, FailedTemp).await;
    operation(store, "d", 3, Completed).await;
    let removed = Change::RemoveInstance {
        tenant: TENANT.into(),
        id: "d".into(),
    };
    store.write(None, vec![removed]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn only_ended_and_old_rows_are_removed() {
    let home = Home::new();
    let store = home.open().await;
    history(&store).await;
    let now = at() + 400 * DAY;
    let expected = Pruned {
        op_occs: 2,
        journal: 8,
        log_lines: 8,
        notifications: 5,
        audit: 0,
    };
    let retention = Retention::default();
    assert_eq!(
        store.prune(&retention, now, true).await.unwrap(),
        expected,
        "dry"
    );
    assert_eq!(ids(&store).await.len(), 6, "a dry run removes nothing");
    assert_eq!(store.prune(&retention, now, false).await.unwrap(), expected);
    assert_eq!(ids(&store).await, ["a-100", "a-390", "b-001", "c-002"]);
    assert_eq!(
        rows_of(&store, "a-390").await,
        (1, 2, true),
        "its rows are recent"
    );
    assert_eq!(
        rows_of(&store, "a-100").await,
        (0, 0, false),
        "its journal is old"
    );
    assert_eq!(
        rows_of(&store, "b-001").await,
        (0, 0, false),
        "the last one of its instance stays"
    );
    assert_eq!(
        rows_of(&store, "c-002").await,
        (1, 2, true),
        "it is not ended"
    );
    assert_eq!(
        store.prune(&retention, now, false).await.unwrap(),
        Pruned::default(),
        "again"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn notification_numbers_are_never_reused() {
    let home = Home::new();
    let store = home.open().await;
    for n in 0..1_200 {
        store
            .write(None, vec![notification("i", json!(n))])
            .await
            .unwrap();
    }
    let everything = Retention {
        outbox: Duration::ZERO,
        ..Retention::default()
    };
    let removed = store.prune(&everything, at() + DAY, false).await.unwrap();
    assert_eq!(removed.notifications, 1_200);
    assert_eq!(store.outbox(0, 10).await.unwrap(), []);
    drop(store);
    let store = home.open().await;
    store
        .write(
            None,
            vec![
                notification("i", json!("next")),
                notification("i", json!("one more")),
            ],
        )
        .await
        .unwrap();
    let numbers: Vec<_> = store
        .outbox(0, 10)
        .await
        .unwrap()
        .iter()
        .map(|row| row.seq)
        .collect();
    assert_eq!(numbers, [1_201, 1_202]);
}

#[tokio::test(flavor = "multi_thread")]
async fn old_audit_entries_are_removed_and_numbers_never_reused() {
    let home = Home::new();
    let store = home.open().await;
    let noted = |days: u32| {
        let entry = json!({"seq": 0, "at": at() + days * DAY, "who": "w", "what": "POST /x", "target": "t"});
        let entry = serde_json::from_value(entry).unwrap();
        Change::Audit {
            tenant: TENANT.into(),
            entry: Box::new(entry),
        }
    };
    for day in 0..1_200 {
        store.write(None, vec![noted(day)]).await.unwrap();
    }
    let now = at() + 1_200 * DAY;
    let retention = Retention::default();
    assert_eq!(
        store.prune(&retention, now, true).await.unwrap().audit,
        835,
        "dry"
    );
    assert_eq!(
        store.prune(&retention, now, false).await.unwrap().audit,
        835
    );
    let left = store.audit(TENANT, 0, 1_000).await.unwrap();
    assert_eq!((left.len(), left[0].seq), (365, 836));
    let all = Retention {
        audit: Duration::ZERO,
        ..retention
    };
    assert_eq!(store.prune(&all, now, false).await.unwrap().audit, 365);
    store.write(None, vec![noted(1_200)]).await.unwrap();
    assert_eq!(store.audit(TENANT, 0, 10).await.unwrap()[0].seq, 1_201);
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_removed_in_batches_while_others_write() {
    let home = Home::new();
    let store = home.open().await;
    seed(&store, &["i"]).await;
    for n in 0..1_100 {
        let record = op(&format!("o{n:05}"), "i");
        let changes = vec![
            Change::AddOp(record.clone()),
            transition(&record, Completed),
        ];
        store.write(None, changes).await.unwrap();
    }
    let retention = Retention::default();
    let writes = async {
        for n in 0..20 {
            store
                .write(
                    None,
                    vec![Change::AddInstance(instance(&format!("new{n}")))],
                )
                .await
                .unwrap();
        }
    };
    let (pruned, ()) = futures::join!(store.prune(&retention, at() + 400 * DAY, false), writes);
    assert_eq!(pruned.unwrap().op_occs, 1_099);
    assert_eq!(
        ids(&store).await,
        ["o01099"],
        "the last by its id, where all began at once"
    );
}

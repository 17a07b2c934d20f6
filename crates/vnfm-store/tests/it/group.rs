//! Group commit: many callers share a transaction, and each gets its own result.

use crate::log::Crashed;
use crate::records::{Home, TENANT, at, instance, notification, op, seed, vim};
use futures::future::join_all;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use vnfm_core::ports::{Change, Store as _, StoreError};
use vnfm_types::LogLine;

#[tokio::test(flavor = "multi_thread")]
async fn many_writers_share_an_fsync() {
    let home = Home::new();
    let store = Arc::new(home.open().await);
    seed(&*store, &[]).await;
    let before = Crashed::now(home.folder.path()).transactions();
    let clients = (0..16).map(|client| {
        let store = store.clone();
        tokio::spawn(async move {
            for turn in 0..10 {
                let id = format!("i{client}-{turn}");
                let changes = vec![
                    Change::AddInstance(instance(&id)),
                    notification(&id, json!(turn)),
                ];
                store.write(None, changes).await.unwrap();
                assert_eq!(
                    store.instance(TENANT, &id).await.unwrap().vnf.id,
                    id,
                    "it is there"
                );
            }
        })
    });
    join_all(clients).await.into_iter().for_each(Result::unwrap);
    let transactions = Crashed::now(home.folder.path()).transactions() - before;
    assert!(
        transactions <= 40,
        "{transactions} transactions for 160 writes"
    );
    let numbers: Vec<_> = store
        .outbox(0, 1_000)
        .await
        .unwrap()
        .iter()
        .map(|row| row.seq)
        .collect();
    assert_eq!(numbers, (1..=160).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_write_rolls_back_only_itself() {
    let home = Home::new();
    let store = home.open().await;
    seed(&store, &["i0"]).await;
    // The second kind writes a notification and an instance before it is refused.
    let lists = (0..30).map(|n| match n % 3 {
        0 => vec![
            Change::AddInstance(instance(&format!("good{n}"))),
            notification("good", json!(n)),
        ],
        1 => {
            let new = Change::AddInstance(instance(&format!("bad{n}")));
            vec![
                notification("bad", json!(n)),
                new,
                Change::AddInstance(instance("i0")),
            ]
        }
        _ => vec![Change::AddOp(op(&format!("o{n}"), "i0"))],
    });
    let outcomes = join_all(lists.map(|changes| store.write(None, changes))).await;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        match n {
            _ if n % 3 == 0 => assert_eq!(outcome, Ok(()), "{n}"),
            _ if n % 3 == 1 => {
                assert_eq!(
                    outcome,
                    Err(StoreError::Exists {
                        what: "VNF instance",
                        id: "i0".into()
                    })
                );
            }
            2 => assert_eq!(outcome, Ok(()), "the first operation"),
            _ => assert!(
                matches!(outcome, Err(StoreError::Busy { .. })),
                "{n}: {outcome:?}"
            ),
        }
    }
    let ids: Vec<_> = store.instances(TENANT, &<_>::default()).await.unwrap();
    assert!(ids.iter().all(|record| !record.vnf.id.starts_with("bad")));
    assert_eq!(ids.len(), 11);
    let rows = store.outbox(0, 100).await.unwrap();
    assert_eq!(rows.len(), 10);
    assert!(rows.iter().all(|row| row.instance_id == "good"));
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_database_failure_each_write_is_retried_alone() {
    let home = Home::new();
    let store = home.open().await;
    seed(&store, &[]).await;
    // As on a full disk, SQLite itself ends the transaction midway.
    let fails = "CREATE TRIGGER fails BEFORE INSERT ON instances WHEN NEW.id LIKE 'bad%'
                 BEGIN SELECT RAISE(ROLLBACK, 'the disk is gone'); END";
    rusqlite::Connection::open(home.database())
        .unwrap()
        .execute_batch(fails)
        .unwrap();
    let name = |n: usize| {
        if n.is_multiple_of(3) {
            format!("bad{n}")
        } else {
            format!("good{n}")
        }
    };
    let lists = (0..30).map(|n| {
        vec![
            notification(&name(n), json!(n)),
            Change::AddInstance(instance(&name(n))),
        ]
    });
    let before = Crashed::now(home.folder.path()).transactions();
    let outcomes = join_all(lists.map(|changes| store.write(None, changes))).await;
    for (n, outcome) in outcomes.into_iter().enumerate() {
        match outcome {
            Ok(()) => assert!(!n.is_multiple_of(3), "{n}"),
            Err(StoreError::Broken(why)) => {
                assert!(
                    n.is_multiple_of(3) && why.contains("the disk is gone"),
                    "{n}: {why}"
                );
            }
            Err(other) => panic!("{n}: {other}"),
        }
    }
    let there = store.instances(TENANT, &<_>::default()).await.unwrap();
    assert_eq!(there.len(), 20, "each once");
    let rows = store.outbox(0, 100).await.unwrap();
    assert!(rows.iter().all(|row| row.instance_id.starts_with("good")));
    let numbers: Vec<_> = rows.iter().map(|row| row.seq).collect();
    assert_eq!(
        numbers,
        (1..=20).collect::<Vec<_>>(),
        "failed writes use no number"
    );
    let transactions = Crashed::now(home.folder.path()).transactions() - before;
    assert!(
        transactions > 10,
        "{transactions} transactions: the writes were not retried alone"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_and_logs_share_transactions_too() {
    let home = Home::new();
    let store = home.open().await;
    let names: Vec<_> = (0..12).map(|n| format!("i{n}")).collect();
    seed(
        &store,
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    )
    .await;
    let added = names
        .iter()
        .map(|id| Change::AddOp(op(&format!("o-{id}"), id)))
        .collect();
    store.write(None, added).await.unwrap();
    let before = Crashed::now(home.folder.path()).transactions();
    let lease = Duration::from_mins(1);
    let claims = join_all((0..12).map(|_| store.claim("me", lease, None))).await;
    let mut fences: Vec<_> = claims
        .into_iter()
        .map(|claim| claim.unwrap().unwrap().fence)
        .collect();
    let line = LogLine {
        seq: 0,
        at: at(),
        level: "info".into(),
        source: "test".into(),
        text: "x".into(),
    };
    let logged = join_all(
        fences
            .iter()
            .map(|fence| store.append_log(&fence.op_id, vec![line.clone()])),
    );
    assert!(logged.await.iter().all(Result::is_ok));
    assert!(
        join_all(fences.iter().map(|fence| store.renew(fence, lease)))
            .await
            .iter()
            .all(Result::is_ok)
    );
    assert!(
        join_all(fences.iter().map(|fence| store.release(fence)))
            .await
            .iter()
            .all(Result::is_ok)
    );
    fences.sort_by(|a, b| a.op_id.cmp(&b.op_id));
    fences.dedup();
    assert_eq!(fences.len(), 12, "each was claimed once");
    let transactions = Crashed::now(home.folder.path()).transactions() - before;
    assert!(
        transactions <= 12,
        "{transactions} transactions for 48 calls"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_vim_read_never_returns_an_older_version_than_acknowledged() {
    let home = Home::new();
    let store = Arc::new(home.open().await);
    store
        .write(None, vec![Change::AddVim(vim("v1", "one"))])
        .await
        .unwrap();
    let acknowledged = Arc::new(AtomicU64::new(
        store.vim(TENANT, "v1").await.unwrap().version,
    ));
    let readers = ["v1", "one", "v1"].map(|name| {
        let (store, acknowledged) = (store.clone(), acknowledged.clone());
        tokio::spawn(async move {
            let mut last = 0;
            while last < 100 {
                let at_least = acknowledged.load(Ordering::SeqCst);
                last = store.vim(TENANT, name).await.unwrap().version;
                assert!(last >= at_least, "{last} after {at_least}");
            }
        })
    });
    for _ in 0..100 {
        let now = store.vim(TENANT, "v1").await.unwrap();
        store
            .write(None, vec![Change::PutVim(Box::new(now.clone()))])
            .await
            .unwrap();
        acknowledged.store(now.version + 1, Ordering::SeqCst);
    }
    join_all(readers).await.into_iter().for_each(Result::unwrap);
}

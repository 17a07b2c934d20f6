//! Rules about notifications, subscriptions, audit entries, tombstones and quotas.

use super::records::{
    TENANT, at, exists, instance, lives, not_found, notification, op, package, seed, transition,
    write,
};
use futures_util::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{
    Change, ChangeCounters, Fence, QuotaResource, SecretJson, Store, StoreError,
    SubscriptionRecord, Usage,
};
use vnfm_core::query::{Query, VisibilityScope};
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp};
use vnfm_types::{AuditEntry, Tombstone};

type Shared = Arc<dyn Store>;

pub(super) async fn notifications_are_numbered_in_the_order_of_their_transactions(store: Shared) {
    let writing = join_all((0..8).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..10 {
                let changes = vec![
                    notification("i", json!([writer, n, 0])),
                    notification("i", json!([writer, n, 1])),
                ];
                store.write(None, changes).await.unwrap();
            }
        })
    }));
    for written in writing.await {
        written.unwrap();
    }
    let rows = store.outbox(0, 1_000).await.unwrap();
    assert_eq!(
        rows.iter().map(|row| row.seq).collect::<Vec<_>>(),
        (1..=160).collect::<Vec<_>>()
    );
    for pair in rows.chunks(2) {
        assert_eq!(
            (&pair[0].body[0], &pair[0].body[1]),
            (&pair[1].body[0], &pair[1].body[1])
        );
        assert_eq!((&pair[0].body[2], &pair[1].body[2]), (&json!(0), &json!(1)));
    }
    for writer in 0..8 {
        let its: Vec<_> = rows
            .iter()
            .filter(|r| r.body[0] == json!(writer))
            .map(|r| r.body[1].clone())
            .collect();
        assert!(its.is_sorted_by_key(Value::as_u64), "{its:?}");
    }
    let page: Vec<_> = store
        .outbox(150, 3)
        .await
        .unwrap()
        .iter()
        .map(|row| row.seq)
        .collect();
    assert_eq!(page, [151, 152, 153]);
    assert_eq!(rows[0].at, at());
}

pub(super) async fn waiting_for_news_is_woken(store: Shared) {
    seed(&*store, &["i1"]).await;
    store
        .write(None, vec![notification("i1", json!(0))])
        .await
        .unwrap();
    let now = store.wait_for_changes(ChangeCounters::default()).await;
    let waiting = store.clone();
    let waiting = tokio::spawn(async move { waiting.wait_for_changes(now).await });
    store
        .write(None, vec![notification("i1", json!(1))])
        .await
        .unwrap();
    let next = waiting.await.unwrap();
    assert!(
        next.outbox != now.outbox && next.subscriptions == now.subscriptions,
        "{next:?}"
    );
    store
        .write(None, vec![Change::AddSubscription(subscription("s1"))])
        .await
        .unwrap();
    let last = store.wait_for_changes(next).await;
    assert_ne!(last.subscriptions, next.subscriptions);
}

pub(super) async fn a_tenant_sees_numbers_of_its_own_notifications(store: Shared) {
    seed(&*store, &["i1"]).await;
    let numbered = |tenant: &str, n: u64| match notification("i1", json!(n)) {
        Change::Outbox(mut row) => {
            row.tenant = tenant.into();
            Change::Outbox(row)
        }
        other => other,
    };
    for (tenant, n) in [
        ("other", 0),
        (TENANT, 1),
        ("other", 2),
        ("other", 3),
        (TENANT, 4),
    ] {
        store.write(None, vec![numbered(tenant, n)]).await.unwrap();
    }
    let observed = |rows: Vec<vnfm_core::ports::OutboxRow>| -> Vec<_> {
        rows.into_iter().map(|row| (row.seq, row.body)).collect()
    };
    let own = observed(store.events(TENANT, 0, 10).await.unwrap());
    assert_eq!(own, [(1, json!(1)), (2, json!(4))]);
    assert_eq!(
        observed(store.events(TENANT, 1, 10).await.unwrap()),
        own[1..]
    );
    assert_eq!(
        observed(store.events("other", 1, 1).await.unwrap()),
        [(2, json!(2))]
    );
    assert_eq!(observed(store.events("nobody", 0, 10).await.unwrap()), []);
}

pub(super) async fn a_quota_covers_usage_and_reservations(store: Shared) {
    seed(&*store, &["i1"]).await;
    let what = QuotaResource::PackageBytes;
    let reserve = |id: &str, amount| {
        vec![
            Change::Reserve {
                tenant: TENANT.into(),
                id: id.into(),
                what,
                amount,
            },
            Change::CheckQuota {
                tenant: TENANT.into(),
                what,
                most: 100,
                adds: amount,
            },
        ]
    };
    store.write(None, reserve("r1", 60)).await.unwrap();
    let refused = store.write(None, reserve("r2", 41)).await;
    let used_up = StoreError::QuotaExceeded {
        tenant: TENANT.into(),
        what,
        used: 60,
        most: 100,
    };
    assert_eq!(refused, Err(used_up));
    store.write(None, reserve("r1", 10)).await.unwrap();
    store.write(None, reserve("r2", 41)).await.unwrap();
    let size = |bytes| Change::PackageSize {
        tenant: TENANT.into(),
        id: "package".into(),
        bytes,
    };
    let settled = vec![Change::Release { id: "r1".into() }, size(59)];
    store.write(None, settled).await.unwrap();
    assert_eq!(store.usage(TENANT).await.unwrap().package_bytes, 100);
    assert!(store.write(None, reserve("r3", 1)).await.is_err());
    let within = |most| Change::CheckQuota {
        tenant: TENANT.into(),
        what: QuotaResource::Instances,
        most,
        adds: 1,
    };
    let two = |most| vec![Change::AddInstance(instance("i2")), within(most)];
    assert!(store.write(None, two(1)).await.is_err());
    assert_eq!(
        store.usage(TENANT).await.unwrap().instances,
        1,
        "nothing of it was stored"
    );
    store.write(None, two(2)).await.unwrap();
}

fn subscription(id: &str) -> Box<SubscriptionRecord> {
    let subscription =
        json!({"id": id, "callbackUri": format!("http://{id}"), "verbosity": "FULL"});
    Box::new(SubscriptionRecord {
        tenant: TENANT.into(),
        subscription: serde_json::from_value(subscription).unwrap(),
        authentication: SecretJson::from(json!({"password": "hunter2"})),
        root: "http://root".into(),
        sent: 0,
        lost: 0,
        scope: VisibilityScope::default(),
    })
}

pub(super) async fn a_subscription_gets_only_later_notifications(store: Shared) {
    write(
        &*store,
        vec![notification("i1", json!(1)), notification("i1", json!(2))],
    )
    .await;
    write(&*store, vec![Change::AddSubscription(subscription("s1"))]).await;
    let read = store.subscription(TENANT, "s1").await.unwrap();
    assert_eq!(
        read,
        SubscriptionRecord {
            sent: 2,
            ..*subscription("s1")
        }
    );
    let again = store
        .write(None, vec![Change::AddSubscription(subscription("s1"))])
        .await;
    assert_eq!(again, Err(exists("subscription", "s1")));
    let sent = |seq, lost| {
        let (tenant, id) = (TENANT.to_owned(), "s1".to_owned());
        vec![Change::AdvanceSubscription {
            tenant,
            id,
            seq,
            lost,
        }]
    };
    store.write(None, sent(5, 1)).await.unwrap();
    store.write(None, sent(4, 7)).await.unwrap();
    let read = store.subscription(TENANT, "s1").await.unwrap();
    assert_eq!((read.sent, read.lost), (5, 1), "progress never goes back");
    let listed = store
        .subscriptions(TENANT, &Query::default())
        .await
        .unwrap();
    assert_eq!(listed[0].authentication, SecretJson::default());
    let by_callback = Query::only("callbackUri", "http://s2");
    assert_eq!(store.subscriptions(TENANT, &by_callback).await, Ok(vec![]));
    let all = store.subscribers().await.unwrap();
    assert_eq!(all[0].authentication["password"], "hunter2");
    assert!(matches!(
        store.subscription("other", "s1").await,
        Err(StoreError::NotFound { .. })
    ));
    let remove = || {
        vec![Change::RemoveSubscription {
            tenant: TENANT.into(),
            id: "s1".into(),
        }]
    };
    store.write(None, remove()).await.unwrap();
    store.write(None, sent(9, 0)).await.unwrap();
    let absent = not_found("subscription", "s1");
    assert_eq!(store.write(None, remove()).await, Err(absent));
}

pub(super) async fn an_abandoned_instance_leaves_a_tombstone(store: Shared) {
    seed(&*store, &["i1"]).await;
    let record = op("o1", "i1");
    let changes = vec![
        Change::AddOp(record.clone()),
        lives("i1", None, Some("uid")),
    ];
    store.write(None, changes).await.unwrap();
    let abandon = || Change::Abandon {
        tenant: TENANT.into(),
        id: "i1".into(),
        force: false,
    };
    let busy = StoreError::Busy {
        instance_id: "i1".into(),
        op_id: "o1".into(),
    };
    assert_eq!(store.write(None, vec![abandon()]).await, Err(busy));
    let tombstone = Tombstone {
        vnf_instance_id: "i1".into(),
        vnf_instance_name: Some("name of i1".into()),
        vims: Vec::new(),
        at: at(),
        who: "somebody".into(),
        reason: "because".into(),
    };
    let bury = Change::AddTombstone {
        tenant: TENANT.into(),
        tombstone: Box::new(tombstone.clone()),
    };
    let changes = vec![transition(&record, FailedTemp)];
    store.write(None, changes).await.unwrap();
    let mut failed = record.clone();
    failed.op.operation_state = FailedTemp;
    let changes = vec![transition(&failed, Failed), abandon(), bury];
    store.write(None, changes).await.unwrap();
    assert!(matches!(
        store.instance(TENANT, "i1").await,
        Err(StoreError::NotFound { .. })
    ));
    assert_eq!(store.tombstones(TENANT).await, Ok(vec![tombstone]));
    assert_eq!(store.tombstones("other").await, Ok(vec![]));
    let forget = || {
        vec![Change::RemoveTombstone {
            tenant: TENANT.into(),
            instance_id: "i1".into(),
        }]
    };
    store.write(None, forget()).await.unwrap();
    assert!(matches!(
        store.write(None, forget()).await,
        Err(StoreError::NotFound { .. })
    ));
    let (op_id, epoch) = ("o1".to_owned(), 9);
    let late = store.write(Some(&Fence { op_id, epoch }), vec![]).await;
    assert!(matches!(late, Err(StoreError::LeaseLost { .. })));
}

pub(super) async fn the_audit_is_numbered(store: Shared) {
    let entry = |what: &str| -> AuditEntry {
        let entry = json!({"seq": 0, "at": at(), "who": "w", "what": what, "target": "i1"});
        serde_json::from_value(entry).unwrap()
    };
    for (tenant, what) in [(TENANT, "a"), ("other", "b"), (TENANT, "c"), (TENANT, "d")] {
        let entry = Box::new(entry(what));
        store
            .write(
                None,
                vec![Change::Audit {
                    tenant: tenant.into(),
                    entry,
                }],
            )
            .await
            .unwrap();
    }
    let own = store.audit(TENANT, 0, 10).await.unwrap();
    let observed: Vec<_> = own.iter().map(|entry| entry.what.as_str()).collect();
    assert_eq!(observed, ["a", "c", "d"]);
    assert!(own.is_sorted_by(|a, b| a.seq < b.seq), "{own:?}");
    let page = store.audit(TENANT, own[0].seq, 1).await.unwrap();
    assert_eq!(page, own[1..2]);
}

pub(super) async fn usage_is_counted_per_tenant(store: Shared) {
    seed(&*store, &["i1", "i2"]).await;
    let (one, two) = (op("o1", "i1"), op("o2", "i2"));
    let changes = vec![
        Change::AddOp(one.clone()),
        transition(&one, Completed),
        Change::AddOp(two.clone()),
        transition(&two, FailedTemp),
    ];
    store.write(None, changes).await.unwrap();
    let has = Usage {
        instances: 2,
        operations: 1,
        packages: 1,
        ..Usage::default()
    };
    assert_eq!(store.usage(TENANT).await, Ok(has));
    assert_eq!(store.usage("other").await, Ok(Usage::default()));
    let mut theirs = package("p2", None);
    theirs.tenant = "other".into();
    store
        .write(None, vec![Change::AddPackage(theirs)])
        .await
        .unwrap();
    assert_eq!(
        store.tenants().await,
        Ok(vec![TENANT.to_owned(), "other".to_owned()])
    );
}

//! Rules about limited visibility scopes: in every list, with any filter.

use super::records::{TENANT, instance, op, package, transition, vim};
use super::snapshots::snapshot;
use serde_json::json;
use std::sync::Arc;
use vnfm_core::ports::{Change, SecretJson, SnapshotRecord, Store, SubscriptionRecord, VimUse};
use vnfm_core::query::{Query, VisibilityScope};
use vnfm_types::LcmOperationState;

type Shared = Arc<dyn Store>;

/// A scope limited to these.
fn scope(vims: &[&str], namespaces: &[&str], vendors: &[&str]) -> VisibilityScope {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    VisibilityScope {
        vims: names(vims),
        namespaces: names(namespaces),
        vendors: names(vendors),
    }
}

fn lives(instance_id: &str, vim_id: Option<&str>, namespace: Option<&str>) -> Change {
    Change::AddUse(VimUse {
        tenant: TENANT.into(),
        instance_id: instance_id.into(),
        vim_id: vim_id.map(Into::into),
        identity: None,
        namespace: namespace.map(Into::into),
    })
}

/// Vendor Acme: one instance on `v1` in `web`, one on `v2`, one that lives nowhere; vendor Other: one inline. Each has an
/// operation with the same number.
async fn inhabited(store: &Shared) {
    let mut of_acme = package("p-acme", Some("of-acme"));
    of_acme.info.vnf_provider = Some("Acme".into());
    let mut changes = vec![
        Change::AddPackage(package("package", Some("vnfd"))),
        Change::AddPackage(of_acme),
        Change::AddVim(vim("v1", "one")),
        Change::AddVim(vim("v2", "two")),
    ];
    for (id, vendor) in [
        ("i1", "Acme"),
        ("i2", "Acme"),
        ("i3", "Acme"),
        ("i4", "Other"),
    ] {
        let mut record = instance(id);
        record.vnf.vnf_provider = vendor.into();
        changes.push(Change::AddInstance(record));
    }
    changes.extend([
        lives("i1", Some("v1"), Some("web")),
        lives("i2", Some("v2"), None),
        lives("i4", None, Some("web")),
    ]);
    for number in 1..=4 {
        changes.push(Change::AddOp(op(
            &format!("o{number}"),
            &format!("i{number}"),
        )));
    }
    store.write(None, changes).await.unwrap();
}

async fn instances(store: &Shared, query: Query) -> String {
    let found = store.instances(TENANT, &query).await.unwrap();
    found
        .into_iter()
        .map(|record| record.vnf.id)
        .collect::<Vec<_>>()
        .join(" ")
}

async fn ops(store: &Shared, query: Query) -> String {
    let found = store.ops(TENANT, &query).await.unwrap();
    found
        .into_iter()
        .map(|record| record.op.id)
        .collect::<Vec<_>>()
        .join(" ")
}

pub(super) async fn instances_and_their_operations_are_seen_by_vendor_vim_and_namespace(
    store: Shared,
) {
    inhabited(&store).await;
    for (scope, seen) in [
        (VisibilityScope::default(), "1 2 3 4"),
        (scope(&[], &[], &["Acme"]), "1 2 3"),
        (scope(&[], &[], &["Acme", "Other"]), "1 2 3 4"),
        (scope(&[], &[], &["Nobody"]), ""),
        (scope(&["v1"], &[], &[]), "1 3"),
        (scope(&["v1", "v2"], &[], &[]), "1 2 3"),
        (scope(&[], &["web"], &[]), "1 3 4"),
        (scope(&[], &["db"], &[]), "3"),
        (scope(&["v2"], &["web"], &["Acme"]), "3"),
    ] {
        let id_with = |letter: char| {
            let ids: Vec<_> = seen
                .split_whitespace()
                .map(|id| format!("{letter}{id}"))
                .collect();
            ids.join(" ")
        };
        let query = || Query {
            scope: scope.clone(),
            ..Query::default()
        };
        assert_eq!(instances(&store, query()).await, id_with('i'), "{scope:?}");
        assert_eq!(ops(&store, query()).await, id_with('o'), "{scope:?}");
        let second = Query {
            scope: scope.clone(),
            ..Query::only("id", "i2")
        };
        let is_seen = if seen.contains('2') { "i2" } else { "" };
        assert_eq!(instances(&store, second).await, is_seen, "{scope:?}");
    }
    pages_follow_visibility(&store).await;
}

/// Pages contain only visible instances, and those that live nowhere any more.
async fn pages_follow_visibility(store: &Shared) {
    let narrow = scope(&["v1"], &[], &[]);
    let page = Query {
        after: Some("i1".into()),
        limit: 1,
        scope: narrow.clone(),
        ..Query::default()
    };
    assert_eq!(
        instances(store, page).await,
        "i3",
        "pages contain only visible entries"
    );
    // It no longer lives anywhere.
    store
        .write(
            None,
            vec![Change::RemoveUses {
                instance_id: "i2".into(),
            }],
        )
        .await
        .unwrap();
    assert_eq!(
        instances(
            store,
            Query {
                scope: narrow,
                ..Query::default()
            }
        )
        .await,
        "i1 i2 i3"
    );
}

pub(super) async fn operations_that_ran_elsewhere_stay_out_of_sight(store: Shared) {
    inhabited(&store).await;
    // One operation ends before its instance leaves its VIM, the other one after that.
    let remove = |id: &str| Change::RemoveUses {
        instance_id: id.into(),
    };
    let ends = |op_id: &str, id: &str| transition(&op(op_id, id), LcmOperationState::Completed);
    store
        .write(None, vec![ends("o2", "i2"), remove("i2"), remove("i1")])
        .await
        .unwrap();
    store.write(None, vec![ends("o1", "i1")]).await.unwrap();
    store
        .write(None, vec![Change::AddOp(op("o5", "i2"))])
        .await
        .unwrap();
    for (scope, seen) in [
        (VisibilityScope::default(), "o1 o2 o3 o4 o5"),
        (scope(&["v1"], &[], &[]), "o1 o3 o5"),
        (scope(&["v2"], &[], &[]), "o2 o3 o5"),
        (scope(&[], &["web"], &[]), "o1 o3 o4 o5"),
        (scope(&["v2"], &["web"], &[]), "o3 o5"),
    ] {
        assert_eq!(
            ops(
                &store,
                Query {
                    scope: scope.clone(),
                    ..Query::default()
                }
            )
            .await,
            seen
        );
        let one = Query {
            scope,
            ..Query::only("id", "o2")
        };
        assert_eq!(ops(&store, one).await == "o2", seen.contains("o2"));
    }
}

pub(super) async fn packages_and_subscriptions_are_scoped(store: Shared) {
    inhabited(&store).await;
    let packages = async |scope: &VisibilityScope| {
        let query = Query {
            scope: scope.clone(),
            ..Query::default()
        };
        let found = store.package_records(TENANT, &query).await.unwrap();
        found
            .into_iter()
            .map(|record| record.info.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(packages(&scope(&[], &[], &["Acme"])).await, ["p-acme"]);
    assert_eq!(
        packages(&scope(&["v1"], &[], &[])).await,
        ["p-acme", "package"]
    );
    let narrow = scope(&["v1"], &[], &[]);
    for (id, scope) in [("s1", VisibilityScope::default()), ("s2", narrow.clone())] {
        let subscription =
            json!({"id": id, "callbackUri": format!("http://{id}"), "verbosity": "FULL"});
        let record = SubscriptionRecord {
            tenant: TENANT.into(),
            subscription: serde_json::from_value(subscription).unwrap(),
            authentication: SecretJson::default(),
            root: "http://root".into(),
            sent: 0,
            lost: 0,
            scope,
        };
        store
            .write(None, vec![Change::AddSubscription(Box::new(record))])
            .await
            .unwrap();
    }
    let seen = async |scope: &VisibilityScope| {
        let query = Query {
            scope: scope.clone(),
            ..Query::default()
        };
        let found = store.subscriptions(TENANT, &query).await.unwrap();
        found
            .into_iter()
            .map(|record| record.subscription.id)
            .collect::<Vec<_>>()
    };
    assert_eq!(seen(&VisibilityScope::default()).await, ["s1", "s2"]);
    assert_eq!(
        seen(&narrow).await,
        ["s2"],
        "those created in the same scope"
    );
    assert_eq!(seen(&scope(&["v2"], &[], &[])).await, [""; 0]);
    assert_eq!(
        store.subscription(TENANT, "s2").await.unwrap().scope,
        narrow
    );
    assert_eq!(store.subscribers().await.unwrap()[1].scope, narrow);
}

pub(super) async fn snapshots_are_scoped(store: Shared) {
    let narrow = scope(&["v1"], &[], &[]);
    for (id, scope) in [("s1", VisibilityScope::default()), ("s2", narrow.clone())] {
        let record = SnapshotRecord {
            scope,
            ..snapshot(id)
        };
        let add = Change::AddSnapshot(Box::new(record));
        store.write(None, vec![add]).await.unwrap();
    }
    let other = scope(&["v2"], &[], &[]);
    let all = VisibilityScope::default();
    let expected: [(&VisibilityScope, &[&str]); 3] =
        [(&all, &["s1", "s2"]), (&narrow, &["s2"]), (&other, &[])];
    for (scope, expected) in expected {
        let query = Query {
            scope: scope.clone(),
            ..Query::default()
        };
        let found = store.snapshots(TENANT, &query).await.unwrap();
        let ids: Vec<_> = found.iter().map(|record| record.info.id.as_str()).collect();
        assert_eq!(ids, expected);
    }
}

//! Rules about instances, their packages and their host keys.

use super::records::{
    TENANT, exists, instance, instantiated, not_found, notification, op, package, seed, step,
    transition, vim, write,
};
use serde_json::{Value, json};
use std::sync::Arc;
use vnfm_core::ports::{
    Change, HostPin, InstanceRecord, PinnedHost, SecretJson, StepStatus, Store, StoreError,
};
use vnfm_core::query::Query;
use vnfm_types::LcmOperationState::{Completed, RolledBack};
use vnfm_types::{OnFailure, PackageUsageState};

type Shared = Arc<dyn Store>;

pub(super) async fn an_instance_is_read_as_it_was_written(store: Shared) {
    seed(&*store, &["i1"]).await;
    let read = store.instance(TENANT, "i1").await.unwrap();
    assert!(
        read.changed_at.is_some(),
        "the store sets the time of the write"
    );
    assert_eq!(
        InstanceRecord {
            changed_at: None,
            ..read
        },
        *instance("i1")
    );
    let taken = store
        .write(None, vec![Change::AddInstance(instance("i1"))])
        .await;
    assert_eq!(
        taken,
        Err(StoreError::Exists {
            what: "VNF instance",
            id: "i1".into()
        })
    );
}

pub(super) async fn another_tenant_sees_nothing(store: Shared) {
    seed(&*store, &["i1"]).await;
    let changes = vec![
        Change::AddOp(op("o1", "i1")),
        Change::AddVim(vim("v1", "one")),
    ];
    store.write(None, changes).await.unwrap();
    let everything = Query::default();
    assert!(matches!(
        store.instance("other", "i1").await,
        Err(StoreError::NotFound { .. })
    ));
    assert!(matches!(
        store.op("other", "o1").await,
        Err(StoreError::NotFound { .. })
    ));
    assert!(matches!(
        store.vim("other", "v1").await,
        Err(StoreError::NotFound { .. })
    ));
    assert!(matches!(
        store.package_record("other", "package").await,
        Err(StoreError::NotFound { .. })
    ));
    assert_eq!(store.instances("other", &everything).await, Ok(vec![]));
    assert_eq!(store.ops("other", &everything).await, Ok(vec![]));
    assert_eq!(store.vims("other").await, Ok(vec![]));
    assert_eq!(
        store.package_records("other", &everything).await,
        Ok(vec![])
    );
    let remove = Change::RemoveInstance {
        tenant: "other".into(),
        id: "i1".into(),
    };
    assert!(matches!(
        store.write(None, vec![remove]).await,
        Err(StoreError::NotFound { .. })
    ));
}

pub(super) async fn an_instance_written_from_an_old_version_is_refused(store: Shared) {
    seed(&*store, &["i1"]).await;
    let old = store.instance(TENANT, "i1").await.unwrap();
    let mut new = old.clone();
    new.vnf.vnf_instance_name = None;
    new.active_op = Some("not written".into());
    store
        .write(None, vec![Change::PutInstance(Box::new(new.clone()))])
        .await
        .unwrap();
    let again = store
        .write(None, vec![Change::PutInstance(Box::new(old.clone()))])
        .await;
    assert_eq!(
        again,
        Err(StoreError::Changed {
            what: "VNF instance",
            id: "i1".into()
        })
    );
    let read = store.instance(TENANT, "i1").await.unwrap();
    assert!(read.changed_at >= old.changed_at);
    let changed_at = read.changed_at;
    assert_eq!(
        read,
        InstanceRecord {
            version: old.version + 1,
            active_op: None,
            changed_at,
            ..new
        }
    );
    let absent = store
        .write(None, vec![Change::PutInstance(instance("i2"))])
        .await;
    assert_eq!(
        absent,
        Err(StoreError::NotFound {
            what: "VNF instance",
            id: "i2".into()
        })
    );
}

pub(super) async fn only_its_own_change_sets_what_happens_on_failure(store: Shared) {
    seed(&*store, &["i1"]).await;
    let on_failure = Some(OnFailure {
        retries: 3,
        ..OnFailure::default()
    });
    let set = |id: &str, on_failure| {
        vec![Change::SetOnFailure {
            tenant: TENANT.into(),
            id: id.into(),
            on_failure,
        }]
    };
    let before = store.instance(TENANT, "i1").await.unwrap();
    write(&*store, vec![Change::AddOp(op("o1", "i1"))]).await;
    write(&*store, set("i1", on_failure)).await;
    // What was read before can still be written, and does not reset it.
    write(&*store, vec![Change::PutInstance(Box::new(before.clone()))]).await;
    let read = store.instance(TENANT, "i1").await.unwrap();
    assert_eq!(
        (read.on_failure, read.version),
        (on_failure, before.version + 1)
    );
    let listed = store.instances(TENANT, &Query::default()).await.unwrap();
    assert_eq!(listed[0].on_failure, on_failure);
    write(&*store, set("i1", None)).await;
    let read = store.instance(TENANT, "i1").await.unwrap();
    assert_eq!(read.on_failure, None);
    let absent = store.write(None, set("i2", on_failure)).await;
    assert_eq!(absent, Err(not_found("VNF instance", "i2")));
}

pub(super) async fn an_instance_needs_its_package(store: Shared) {
    let added = store
        .write(None, vec![Change::AddInstance(instance("i1"))])
        .await;
    assert_eq!(
        added,
        Err(StoreError::NotFound {
            what: "VNF package",
            id: "package".into()
        })
    );
}

pub(super) async fn an_instance_with_resources_or_an_operation_is_not_removed(store: Shared) {
    seed(&*store, &["i1"]).await;
    let remove = || {
        vec![Change::RemoveInstance {
            tenant: TENANT.into(),
            id: "i1".into(),
        }]
    };
    let record = op("o1", "i1");
    store
        .write(None, vec![Change::AddOp(record.clone())])
        .await
        .unwrap();
    let busy = StoreError::Busy {
        instance_id: "i1".into(),
        op_id: "o1".into(),
    };
    assert_eq!(store.write(None, remove()).await, Err(busy));
    store
        .write(None, vec![transition(&record, Completed)])
        .await
        .unwrap();
    instantiated(&*store, "i1").await;
    let found = "INSTANTIATED".into();
    let error = StoreError::WrongState {
        what: "VNF instance",
        id: "i1".into(),
        found,
    };
    assert_eq!(store.write(None, remove()).await, Err(error));
    let mut record = store.instance(TENANT, "i1").await.unwrap();
    record.vnf.instantiation_state = vnfm_types::InstantiationState::NotInstantiated;
    store
        .write(None, vec![Change::PutInstance(Box::new(record))])
        .await
        .unwrap();
    store.write(None, remove()).await.unwrap();
    let error = StoreError::NotFound {
        what: "VNF instance",
        id: "i1".into(),
    };
    assert_eq!(store.write(None, remove()).await, Err(error));
    assert_eq!(
        store.op(TENANT, "o1").await.unwrap().op.id,
        "o1",
        "the history of its operations stays"
    );
}

pub(super) async fn a_list_of_changes_is_written_completely_or_not_at_all(store: Shared) {
    seed(&*store, &["i1"]).await;
    let before = store.instance(TENANT, "i1").await.unwrap();
    let mut changed = before.clone();
    changed.vnf.vnf_instance_name = Some("changed".into());
    let changes = vec![
        Change::PutInstance(Box::new(changed)),
        Change::AddOp(op("o1", "i1")),
        step("o1", "grant", StepStatus::Started, Value::Null),
        notification("i1", json!({})),
        Change::AddVim(vim("v1", "one")),
        Change::AddInstance(instance("i1")),
    ];
    assert!(matches!(
        store.write(None, changes).await,
        Err(StoreError::Exists { .. })
    ));
    assert_eq!(store.instance(TENANT, "i1").await.unwrap(), before);
    assert!(store.op(TENANT, "o1").await.is_err());
    assert_eq!(store.journal("o1").await, Ok(vec![]));
    assert_eq!(store.outbox(0, 10).await, Ok(vec![]));
    assert_eq!(store.vims(TENANT).await, Ok(vec![]));
}

pub(super) async fn a_vnfd_belongs_to_one_package(store: Shared) {
    let changes = vec![
        Change::AddPackage(package("p1", None)),
        Change::AddPackage(package("p2", None)),
        Change::PutPackage(package("p1", Some("vnfd"))),
    ];
    store.write(None, changes).await.unwrap();
    let error = exists("VNF package with VNFD", "vnfd");
    let put = store
        .write(None, vec![Change::PutPackage(package("p2", Some("vnfd")))])
        .await;
    assert_eq!(put, Err(error.clone()));
    let add = store
        .write(None, vec![Change::AddPackage(package("p3", Some("vnfd")))])
        .await;
    assert_eq!(add, Err(error));
    let add = store
        .write(None, vec![Change::AddPackage(package("p1", None))])
        .await;
    assert_eq!(add, Err(exists("VNF package", "p1")));
    let mut theirs = package("p4", Some("vnfd"));
    theirs.tenant = "other".into();
    write(&*store, vec![Change::AddPackage(theirs)]).await;
    let records = store
        .package_records(TENANT, &Query::default())
        .await
        .unwrap();
    assert_eq!(
        records,
        [*package("p1", Some("vnfd")), *package("p2", None)]
    );
    let mut fetched = package("p2", None);
    fetched.fetching = SecretJson::from(json!({"password": "planted"}));
    write(&*store, vec![Change::PutPackage(fetched.clone())]).await;
    assert_eq!(store.package_record(TENANT, "p2").await, Ok(*fetched));
    let records = store
        .package_records(TENANT, &Query::default())
        .await
        .unwrap();
    assert_eq!(records[1], *package("p2", None), "lists omit secrets");
    let absent = store
        .write(None, vec![Change::PutPackage(package("p9", None))])
        .await;
    assert_eq!(absent, Err(not_found("VNF package", "p9")));
}

pub(super) async fn a_package_in_use_is_not_removed(store: Shared) {
    seed(&*store, &["i1"]).await;
    let remove = || {
        vec![Change::RemovePackage {
            tenant: TENANT.into(),
            id: "package".into(),
        }]
    };
    let used = store.package_record(TENANT, "package").await.unwrap();
    assert_eq!(used.info.usage_state, PackageUsageState::InUse);
    let by = vec!["name of i1 (i1)".into()];
    let error = StoreError::InUse {
        what: "VNF package",
        id: "package".into(),
        by,
    };
    assert_eq!(store.write(None, remove()).await, Err(error));
    let remove_instance = Change::RemoveInstance {
        tenant: TENANT.into(),
        id: "i1".into(),
    };
    store.write(None, vec![remove_instance]).await.unwrap();
    let unused = store.package_record(TENANT, "package").await.unwrap();
    assert_eq!(unused.info.usage_state, PackageUsageState::NotInUse);
    store.write(None, remove()).await.unwrap();
    assert!(matches!(
        store.write(None, remove()).await,
        Err(StoreError::NotFound { .. })
    ));
}

pub(super) async fn the_next_package_of_an_operation_is_in_use(store: Shared) {
    seed(&*store, &["i1"]).await;
    let change = |next: &str| {
        let mut record = op("o1", "i1");
        for (deployment, package) in [(&mut record.before, "package"), (&mut record.target, next)] {
            Arc::make_mut(deployment.as_mut().unwrap()).vnf_pkg_id = package.into();
        }
        record
    };
    let absent = store.write(None, vec![Change::AddOp(change("next"))]).await;
    assert_eq!(absent, Err(not_found("VNF package", "next")));
    write(
        &*store,
        vec![Change::AddPackage(package("next", Some("vnfd 2")))],
    )
    .await;
    let usage = async |id: &str| {
        let record = store.package_record(TENANT, id).await.unwrap();
        record.info.usage_state
    };
    assert_eq!(usage("next").await, PackageUsageState::NotInUse);
    let began = change("next");
    write(&*store, vec![Change::AddOp(began.clone())]).await;
    assert_eq!(usage("next").await, PackageUsageState::InUse);
    let remove = |id: &str| {
        vec![Change::RemovePackage {
            tenant: TENANT.into(),
            id: id.into(),
        }]
    };
    let by = vec!["name of i1 (i1)".into()];
    let error = StoreError::InUse {
        what: "VNF package",
        id: "next".into(),
        by,
    };
    assert_eq!(store.write(None, remove("next")).await, Err(error));
    write(&*store, vec![transition(&began, RolledBack)]).await;
    assert_eq!(usage("next").await, PackageUsageState::NotInUse);
    let mut changed = store.instance(TENANT, "i1").await.unwrap();
    changed.vnf_pkg_id = "next".into();
    write(&*store, vec![Change::PutInstance(Box::new(changed))]).await;
    assert_eq!(usage("next").await, PackageUsageState::InUse);
    store.write(None, remove("package")).await.unwrap();
    assert!(store.write(None, remove("next")).await.is_err());
}

/// The pin of host `server` of a tenant on a VIM.
fn host(tenant: &str, vim_id: &str) -> HostPin {
    let at = PinnedHost {
        tenant: tenant.into(),
        vim_id: vim_id.into(),
        host: "server".into(),
    };
    HostPin {
        at,
        instance_id: "i1".into(),
        legacy_host: "server".into(),
    }
}

async fn key_of(store: &Shared, pin: &HostPin) -> Option<String> {
    store.host_key(pin).await.unwrap().map(|pinned| pinned.key)
}

fn pinning(pin: &HostPin, key: &str) -> Vec<Change> {
    vec![Change::PinHostKey {
        pin: Box::new(pin.clone()),
        key: key.into(),
    }]
}

pub(super) async fn the_first_host_key_stays_until_its_instance_goes(store: Shared) {
    seed(&*store, &["i1"]).await;
    let pin = host(TENANT, "vim");
    assert_eq!(key_of(&store, &pin).await, None);
    store
        .write(None, pinning(&pin, "ssh-ed25519 AAAA"))
        .await
        .unwrap();
    store
        .write(None, pinning(&pin, "ssh-ed25519 AAAA"))
        .await
        .unwrap();
    let other = store.write(None, pinning(&pin, "ssh-ed25519 BBBB")).await;
    assert!(matches!(other, Err(StoreError::Exists { id, .. }) if id == "server"));
    assert_eq!(key_of(&store, &pin).await, Some("ssh-ed25519 AAAA".into()));
    let remove = Change::RemoveInstance {
        tenant: TENANT.into(),
        id: "i1".into(),
    };
    store.write(None, vec![remove]).await.unwrap();
    assert_eq!(key_of(&store, &pin).await, None);
}

pub(super) async fn a_host_key_is_of_one_tenant_and_vim(store: Shared) {
    let hosts = [host(TENANT, "a"), host(TENANT, "b"), host("other", "a")];
    for (pin, key) in hosts.iter().zip(["AAAA", "BBBB", "CCCC"]) {
        store.write(None, pinning(pin, key)).await.unwrap();
    }
    for (pin, key) in hosts.iter().zip(["AAAA", "BBBB", "CCCC"]) {
        assert_eq!(key_of(&store, pin).await.as_deref(), Some(key));
    }
    let listed = store.host_keys(TENANT).await.unwrap();
    let listed: Vec<_> = listed
        .iter()
        .map(|one| (one.at.vim_id.as_str(), &*one.key))
        .collect();
    assert_eq!(listed, [("a", "AAAA"), ("b", "BBBB")]);
}

pub(super) async fn a_forgotten_host_key_makes_room_for_the_next_one(store: Shared) {
    let (pin, other) = (host(TENANT, "a"), host("other", "a"));
    for pin in [&pin, &other] {
        store.write(None, pinning(pin, "AAAA")).await.unwrap();
    }
    let forget = || vec![Change::RemoveHostKey(pin.at.clone())];
    store.write(None, forget()).await.unwrap();
    assert_eq!(key_of(&store, &pin).await, None);
    assert_eq!(store.host_keys(TENANT).await.unwrap(), []);
    let again = store.write(None, forget()).await;
    assert!(matches!(again, Err(StoreError::NotFound { id, .. }) if id == pin.at.id()));
    store.write(None, pinning(&pin, "BBBB")).await.unwrap();
    assert_eq!(key_of(&store, &pin).await.as_deref(), Some("BBBB"));
    assert_eq!(key_of(&store, &other).await.as_deref(), Some("AAAA"));
}

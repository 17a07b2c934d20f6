//! Rules about VNF snapshots.

use super::records::{
    TENANT, at, deployment, exists, not_found, op, retire, seed, transition, vim, vim_of, write,
};
use serde_json::json;
use std::sync::Arc;
use vnfm_core::Deployment;
use vnfm_core::ports::{Change, OpRecord, SnapshotContents, SnapshotRecord, Store, StoreError};
use vnfm_core::query::{Filter, Query};
use vnfm_types::LcmOperationState::{Completed, Processing};
use vnfm_types::shape::VNF_SNAPSHOTS;
use vnfm_types::{VimConnectionInfo, VnfSnapshot, VnfSnapshotInfo, VnfcSnapshotInfo};

type Shared = Arc<dyn Store>;

const KIND: &str = "VNF snapshot";

pub(super) fn snapshot(id: &str) -> SnapshotRecord {
    SnapshotRecord {
        tenant: TENANT.into(),
        info: VnfSnapshotInfo {
            id: id.into(),
            vnf_snapshot_pkg_id: Some("p".into()),
            ..VnfSnapshotInfo::default()
        },
        ..SnapshotRecord::default()
    }
}

/// The contents of an instance on a VIM.
fn filled(id: &str, instance_id: &str, vim_id: &str) -> SnapshotRecord {
    let mut record = snapshot(id);
    record.info.vnf_snapshot = Some(Box::new(VnfSnapshot {
        id: id.into(),
        vnf_instance_id: instance_id.into(),
        creation_started_at: Some(at()),
        vnfd_id: "vnfd".into(),
        vnfc_snapshots: vec![VnfcSnapshotInfo {
            id: "1".into(),
            vnfc_instance_id: "c1".into(),
            ..VnfcSnapshotInfo::default()
        }],
        ..VnfSnapshot::default()
    }));
    let on = VimConnectionInfo {
        vim_id: Some(vim_id.into()),
        ..VimConnectionInfo::default()
    };
    record.deployment = Some(Arc::new(Deployment {
        vim_connection_info: [("vim1".to_owned(), Box::new(on))].into(),
        ..Deployment::clone(&deployment("hunter2"))
    }));
    record.handle = json!({"stored": id});
    record
}

async fn read(store: &Shared, id: &str) -> SnapshotRecord {
    store.snapshot(TENANT, id).await.unwrap()
}

async fn ids(store: &Shared, query: &Query) -> Vec<String> {
    let found = store.snapshots(TENANT, query).await.unwrap();
    found.into_iter().map(|record| record.info.id).collect()
}

pub(super) async fn a_snapshot_is_read_as_it_was_written(store: Shared) {
    for record in [snapshot("s1"), filled("s2", "i2", "v1")] {
        let add = || vec![Change::AddSnapshot(Box::new(record.clone()))];
        write(&*store, add()).await;
        let again = store.write(None, add()).await;
        assert_eq!(again, Err(exists(KIND, &record.info.id)));
        let found = read(&store, &record.info.id).await;
        assert!(found.changed_at.is_some());
        let expected = SnapshotRecord {
            changed_at: found.changed_at,
            ..record
        };
        assert_eq!(found, expected);
    }
    let other = store.snapshot("other", "s1").await;
    assert_eq!(other, Err(not_found(KIND, "s1")));
    let listed = store.snapshots(TENANT, &Query::default()).await.unwrap();
    assert!(listed.iter().all(|record| record.deployment.is_none()));
    let filter = "(eq,vnfSnapshot/vnfInstanceId,i2);(eq,vnfSnapshot/vnfcSnapshots/id,1)";
    let filter = Filter::parse(&VNF_SNAPSHOTS, filter).unwrap();
    let query = Query {
        filter,
        ..Query::default()
    };
    assert_eq!(ids(&store, &query).await, ["s2"]);
    assert_eq!(store.usage(TENANT).await.unwrap().snapshots, 2);
    assert_eq!(store.tenants().await, Ok(vec![TENANT.to_owned()]));
}

pub(super) async fn a_snapshot_written_from_an_old_version_is_refused(store: Shared) {
    write(&*store, vec![Change::AddSnapshot(Box::new(snapshot("s1")))]).await;
    let first = read(&store, "s1").await;
    let put = || Change::PutSnapshot(Box::new(first.clone()));
    write(&*store, vec![put()]).await;
    let remove = |version| Change::RemoveSnapshot {
        tenant: TENANT.into(),
        id: "s1".into(),
        version,
    };
    let changed = || StoreError::Changed {
        what: KIND,
        id: "s1".into(),
    };
    for change in [put(), remove(first.version)] {
        assert_eq!(store.write(None, vec![change]).await, Err(changed()));
    }
    let version = read(&store, "s1").await.version;
    write(&*store, vec![remove(version)]).await;
    for change in [put(), remove(version)] {
        let absent = store.write(None, vec![change]).await;
        assert_eq!(absent, Err(not_found(KIND, "s1")));
    }
}

/// Two operations in STARTING, of which the first uses the snapshot `s1`; the first one.
async fn used(store: &Shared) -> OpRecord {
    seed(&**store, &["i1", "i2"]).await;
    let (one, two) = (op("o1", "i1"), op("o2", "i2"));
    let changes = vec![
        Change::AddSnapshot(Box::new(snapshot("s1"))),
        Change::AddOp(one.clone()),
        Change::AddOp(two),
    ];
    write(&**store, changes).await;
    use_by(store, Some("o1")).await.unwrap();
    *one
}

/// Writes which operation uses the snapshot.
async fn use_by(store: &Shared, op_id: Option<&str>) -> Result<(), StoreError> {
    let mut record = read(store, "s1").await;
    record.used_by = op_id.map(Into::into);
    let put = Change::PutSnapshot(Box::new(record));
    store.write(None, vec![put]).await
}

/// The refusal while the first operation uses it.
fn in_use() -> StoreError {
    StoreError::WrongState {
        what: KIND,
        id: "s1".into(),
        found: "used by operation `o1`, which has not ended".into(),
    }
}

/// The changes that bring an operation to its end.
fn to_end(record: &OpRecord) -> [Change; 2] {
    let mut driven = record.clone();
    driven.op.operation_state = Processing;
    [
        transition(record, Processing),
        transition(&driven, Completed),
    ]
}

pub(super) async fn a_snapshot_is_used_by_one_operation(store: Shared) {
    let one = used(&store).await;
    use_by(&store, Some("o1")).await.unwrap();
    assert_eq!(read(&store, "s1").await.used_by.as_deref(), Some("o1"));
    assert_eq!(use_by(&store, Some("o2")).await, Err(in_use()));
    assert_eq!(use_by(&store, None).await, Err(in_use()));
    let remove = Change::RemoveSnapshot {
        tenant: TENANT.into(),
        id: "s1".into(),
        version: read(&store, "s1").await.version,
    };
    assert_eq!(store.write(None, vec![remove]).await, Err(in_use()));
    write(&*store, to_end(&one).into()).await;
    assert_eq!(read(&store, "s1").await.used_by, None);
    let listed = store.snapshots(TENANT, &Query::default()).await.unwrap();
    assert_eq!(listed[0].used_by, None);
    use_by(&store, Some("o2")).await.unwrap();
}

pub(super) async fn only_its_operation_fills_a_snapshot(store: Shared) {
    let one = used(&store).await;
    let with = filled("s1", "i1", "v1");
    let fill = |op_id: &str, with: &SnapshotRecord| {
        Change::FillSnapshot(Box::new(SnapshotContents {
            tenant: TENANT.into(),
            id: "s1".into(),
            op_id: op_id.into(),
            snapshot: with.info.vnf_snapshot.clone(),
            deployment: with.deployment.clone(),
            handle: with.handle.clone(),
        }))
    };
    let refused = store.write(None, vec![fill("o2", &with)]).await;
    assert_eq!(refused, Err(in_use()));
    write(&*store, vec![fill("o1", &with)]).await;
    let found = read(&store, "s1").await;
    assert_eq!(found.info, with.info);
    assert_eq!(
        (found.deployment, found.handle),
        (with.deployment.clone(), with.handle.clone())
    );
    write(&*store, vec![fill("o1", &snapshot("s1"))]).await;
    let found = read(&store, "s1").await;
    assert_eq!((found.info, found.deployment), (snapshot("s1").info, None));
    // In the transaction that ends the operation.
    let [starts, ends] = to_end(&one);
    write(&*store, vec![starts, fill("o1", &with), ends]).await;
    let found = read(&store, "s1").await;
    assert_eq!((found.used_by, found.info), (None, with.info));
}

pub(super) async fn a_vim_with_snapshots_is_kept(store: Shared) {
    seed(&*store, &["i1"]).await;
    write(
        &*store,
        vec![
            Change::AddVim(vim("v1", "one")),
            Change::AddVim(vim_of("i1", "v2", None)),
            Change::AddOp(op("o1", "i1")),
            Change::AddSnapshot(Box::new(filled("s1", "gone", "v1"))),
            Change::AddSnapshot(Box::new(filled("s2", "gone", "v2"))),
        ],
    )
    .await;
    let remove = || Change::RemoveVim {
        tenant: TENANT.into(),
        id: "v1".into(),
        force: false,
    };
    let in_use = |what, id: &str, by: &str| StoreError::InUse {
        what,
        id: id.into(),
        by: vec![format!("VNF snapshot ({by})")],
    };
    let kept = store.write(None, vec![remove()]).await;
    assert_eq!(kept, Err(in_use("VIM", "v1", "s1")));
    // A cluster that an instance registered is not deleted with it.
    let kept = store.write(None, vec![retire("i1", "o1")]).await;
    assert_eq!(kept, Err(in_use("VNF instance", "i1", "s2")));
    for id in ["s1", "s2"] {
        let delete = Change::RemoveSnapshot {
            tenant: TENANT.into(),
            id: id.into(),
            version: 0,
        };
        write(&*store, vec![delete]).await;
    }
    write(&*store, vec![remove(), retire("i1", "o1")]).await;
}

//! The rules of the port, one named test each, on a file and in memory; a further kind of database is a further
//! line below.

use crate::lists::{
    a_filter_finds_by_every_operator_in_every_kind_of_value, a_filter_finds_what_is_computed,
    what_is_filtered_comes_in_pages_that_changes_do_not_shift,
    what_is_found_is_what_the_filter_says,
};
use crate::records::{
    Home, TENANT, at, becomes, instance, instantiated, lives, op, package, retire, seed, step,
    told, vim, vim_of,
};
use futures::future::join_all;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{
    Change, Fence, InstanceRecord, SecretJson, StepStatus, Store, StoreError, Use,
};
use vnfm_core::query::Query;
use vnfm_store::SqliteStore;
use vnfm_types::LcmOperationState::{Completed, FailedTemp, Processing, RollingBack};
use vnfm_types::{CancelMode, LogLine, PackageUsageState};

type Shared = Arc<dyn Store>;

const LONG: Duration = Duration::from_hours(1);

macro_rules! rules {
    ($($rule:ident)+) => {
        mod in_memory {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $rule() {
                let store = super::SqliteStore::in_memory().await.unwrap();
                super::$rule(std::sync::Arc::new(store)).await;
            })+
        }
        mod file {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $rule() {
                let home = super::Home::new();
                super::$rule(std::sync::Arc::new(home.open().await)).await;
            })+
        }
    };
}

rules! {
    an_instance_is_read_as_it_was_written
    another_tenant_sees_nothing
    an_instance_written_from_an_old_version_is_refused
    an_instance_needs_its_package
    an_instance_with_resources_or_an_operation_is_not_removed
    of_sixteen_operations_at_once_one_begins
    an_operation_is_written_from_the_state_that_it_was_in
    of_two_ways_on_that_race_one_is_taken
    an_ended_operation_frees_its_instance
    a_list_of_changes_is_written_as_a_whole_or_not_at_all
    the_journal_keeps_its_order_and_its_outputs
    a_checkpoint_is_remembered_by_operation_step_and_key
    a_wish_to_cancel_reaches_whoever_drives
    a_held_operation_is_not_claimed
    of_eight_claims_of_one_operation_one_wins
    a_lease_that_is_not_renewed_ends
    who_lost_the_lease_writes_nothing
    an_operation_that_waits_for_a_decision_is_not_claimed
    a_cluster_that_is_used_is_not_retired
    a_cluster_that_is_retired_is_not_used
    the_same_cluster_under_another_name_counts
    a_user_of_another_tenant_counts_and_is_not_named
    of_use_and_retirement_that_race_one_is_accepted
    an_identity_that_is_learned_later_is_kept
    ids_and_names_of_vims_are_unique
    a_vim_written_from_an_old_version_is_refused
    a_vim_that_is_used_is_removed_by_force_alone
    a_vnfd_belongs_to_one_package
    a_package_that_is_used_is_not_removed
    notifications_are_numbered_in_the_order_of_their_transactions
    a_log_keeps_its_newest_lines
    the_first_host_key_stays_until_its_instance_goes
    lists_come_in_pages_in_order_of_id
    a_filter_finds_by_every_operator_in_every_kind_of_value
    a_filter_finds_what_is_computed
    what_is_filtered_comes_in_pages_that_changes_do_not_shift
    what_is_found_is_what_the_filter_says
}

async fn an_instance_is_read_as_it_was_written(store: Shared) {
    seed(&*store, &["i1"]).await;
    let read = store.instance(TENANT, "i1").await.unwrap();
    assert!(read.changed_at.is_some(), "the store notes when it was written");
    assert_eq!(InstanceRecord { changed_at: None, ..read }, *instance("i1"));
    let taken = store.write(None, vec![Change::AddInstance(instance("i1"))]).await;
    assert_eq!(taken, Err(StoreError::Exists { what: "VNF instance", id: "i1".into() }));
}

async fn another_tenant_sees_nothing(store: Shared) {
    seed(&*store, &["i1"]).await;
    let changes = vec![Change::AddOp(op("o1", "i1")), Change::AddVim(vim("v1", "one"))];
    store.write(None, changes).await.unwrap();
    let everything = Query::default();
    assert!(matches!(store.instance("other", "i1").await, Err(StoreError::NotFound { .. })));
    assert!(matches!(store.op("other", "o1").await, Err(StoreError::NotFound { .. })));
    assert!(matches!(store.vim("other", "v1").await, Err(StoreError::NotFound { .. })));
    assert!(matches!(
        store.package_record("other", "package").await,
        Err(StoreError::NotFound { .. })
    ));
    assert_eq!(store.instances("other", &everything).await, Ok(vec![]));
    assert_eq!(store.ops("other", &everything).await, Ok(vec![]));
    assert_eq!(store.vims("other").await, Ok(vec![]));
    assert_eq!(store.package_records("other", &everything).await, Ok(vec![]));
    let gone = Change::RemoveInstance { tenant: "other".into(), id: "i1".into() };
    assert!(matches!(store.write(None, vec![gone]).await, Err(StoreError::NotFound { .. })));
}

async fn an_instance_written_from_an_old_version_is_refused(store: Shared) {
    seed(&*store, &["i1"]).await;
    let old = store.instance(TENANT, "i1").await.unwrap();
    let mut new = old.clone();
    new.vnf.vnf_instance_name = None;
    new.active_op = Some("not written".into());
    store.write(None, vec![Change::PutInstance(Box::new(new.clone()))]).await.unwrap();
    let again = store.write(None, vec![Change::PutInstance(Box::new(old.clone()))]).await;
    assert_eq!(again, Err(StoreError::Changed { what: "VNF instance", id: "i1".into() }));
    let read = store.instance(TENANT, "i1").await.unwrap();
    assert!(read.changed_at >= old.changed_at);
    let changed_at = read.changed_at;
    assert_eq!(
        read,
        InstanceRecord { version: old.version + 1, active_op: None, changed_at, ..new }
    );
    let absent = store.write(None, vec![Change::PutInstance(instance("i2"))]).await;
    assert_eq!(absent, Err(StoreError::NotFound { what: "VNF instance", id: "i2".into() }));
}

async fn an_instance_needs_its_package(store: Shared) {
    let added = store.write(None, vec![Change::AddInstance(instance("i1"))]).await;
    assert_eq!(added, Err(StoreError::NotFound { what: "VNF package", id: "package".into() }));
}

async fn an_instance_with_resources_or_an_operation_is_not_removed(store: Shared) {
    seed(&*store, &["i1"]).await;
    let remove = || vec![Change::RemoveInstance { tenant: TENANT.into(), id: "i1".into() }];
    let record = op("o1", "i1");
    store.write(None, vec![Change::AddOp(record.clone())]).await.unwrap();
    let busy = StoreError::Busy { instance_id: "i1".into(), op_id: "o1".into() };
    assert_eq!(store.write(None, remove()).await, Err(busy));
    store.write(None, vec![becomes(&record, Completed)]).await.unwrap();
    instantiated(&*store, "i1").await;
    let found = "INSTANTIATED".into();
    let error = StoreError::WrongState { what: "VNF instance", id: "i1".into(), found };
    assert_eq!(store.write(None, remove()).await, Err(error));
    let mut record = store.instance(TENANT, "i1").await.unwrap();
    record.vnf.instantiation_state = vnfm_types::InstantiationState::NotInstantiated;
    store.write(None, vec![Change::PutInstance(Box::new(record))]).await.unwrap();
    store.write(None, remove()).await.unwrap();
    let error = StoreError::NotFound { what: "VNF instance", id: "i1".into() };
    assert_eq!(store.write(None, remove()).await, Err(error));
    assert_eq!(store.op(TENANT, "o1").await.unwrap().op.id, "o1", "its history stays");
}

async fn of_sixteen_operations_at_once_one_begins(store: Shared) {
    seed(&*store, &["i1"]).await;
    let begun = join_all((0..16).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            store.write(None, vec![Change::AddOp(op(&format!("o{n}"), "i1"))]).await
        })
    }));
    let outcomes: Vec<_> = begun.await.into_iter().map(Result::unwrap).collect();
    let active = store.instance(TENANT, "i1").await.unwrap().active_op.unwrap();
    let busy = StoreError::Busy { instance_id: "i1".into(), op_id: active.clone() };
    for (n, outcome) in outcomes.into_iter().enumerate() {
        let expected = if active == format!("o{n}") { Ok(()) } else { Err(busy.clone()) };
        assert_eq!(outcome, expected, "o{n}");
    }
    assert_eq!(store.ops(TENANT, &Query::default()).await.unwrap().len(), 1);
}

async fn an_operation_is_written_from_the_state_that_it_was_in(store: Shared) {
    seed(&*store, &["i1"]).await;
    let mut record = op("o1", "i1");
    store.write(None, vec![Change::AddOp(record.clone())]).await.unwrap();
    assert_eq!(store.op(TENANT, "o1").await.unwrap(), *record);
    record.point_of_no_return = Some("release".into());
    store.write(None, vec![becomes(&record, Processing)]).await.unwrap();
    let again = store.write(None, vec![becomes(&record, Processing)]).await;
    let found = "PROCESSING".to_owned();
    assert_eq!(again, Err(StoreError::WrongState { what: "operation", id: "o1".into(), found }));
    record.op.operation_state = Processing;
    assert_eq!(store.op(TENANT, "o1").await.unwrap(), *record);
    let absent = store.write(None, vec![becomes(&op("o2", "i1"), Processing)]).await;
    assert_eq!(absent, Err(StoreError::NotFound { what: "operation", id: "o2".into() }));
}

async fn of_two_ways_on_that_race_one_is_taken(store: Shared) {
    for round in 0..20 {
        let (instance_id, op_id) = (format!("i{round}"), format!("o{round}"));
        if round == 0 {
            seed(&*store, &[&instance_id]).await;
        } else {
            store.write(None, vec![Change::AddInstance(instance(&instance_id))]).await.unwrap();
        }
        let mut record = op(&op_id, &instance_id);
        store.write(None, vec![Change::AddOp(record.clone())]).await.unwrap();
        store.write(None, vec![becomes(&record, FailedTemp)]).await.unwrap();
        record.op.operation_state = FailedTemp;
        let retry = store.write(None, vec![becomes(&record, Processing)]);
        let rollback = store.write(None, vec![becomes(&record, RollingBack)]);
        let (retried, rolled_back) = tokio::join!(retry, rollback);
        assert!(retried.is_ok() != rolled_back.is_ok(), "{retried:?} {rolled_back:?}");
        let state = store.op(TENANT, &op_id).await.unwrap().op.operation_state;
        assert_eq!(state, if retried.is_ok() { Processing } else { RollingBack });
    }
}

async fn an_ended_operation_frees_its_instance(store: Shared) {
    seed(&*store, &["i1"]).await;
    let record = op("o1", "i1");
    store.write(None, vec![Change::AddOp(record.clone())]).await.unwrap();
    assert_eq!(store.instance(TENANT, "i1").await.unwrap().active_op.as_deref(), Some("o1"));
    store.write(None, vec![becomes(&record, Completed)]).await.unwrap();
    assert_eq!(store.instance(TENANT, "i1").await.unwrap().active_op, None);
    store.write(None, vec![Change::AddOp(op("o2", "i1"))]).await.unwrap();
    let of_nothing = store.write(None, vec![Change::AddOp(op("o3", "i9"))]).await;
    assert_eq!(of_nothing, Err(StoreError::NotFound { what: "VNF instance", id: "i9".into() }));
}

async fn a_list_of_changes_is_written_as_a_whole_or_not_at_all(store: Shared) {
    seed(&*store, &["i1"]).await;
    let before = store.instance(TENANT, "i1").await.unwrap();
    let mut changed = before.clone();
    changed.vnf.vnf_instance_name = Some("changed".into());
    let changes = vec![
        Change::PutInstance(Box::new(changed)),
        Change::AddOp(op("o1", "i1")),
        step("o1", "grant", StepStatus::Started, Value::Null),
        told("i1", json!({})),
        Change::AddVim(vim("v1", "one")),
        Change::AddInstance(instance("i1")),
    ];
    assert!(matches!(store.write(None, changes).await, Err(StoreError::Exists { .. })));
    assert_eq!(store.instance(TENANT, "i1").await.unwrap(), before);
    assert!(store.op(TENANT, "o1").await.is_err());
    assert_eq!(store.journal("o1").await, Ok(vec![]));
    assert_eq!(store.outbox(0, 10).await, Ok(vec![]));
    assert_eq!(store.vims(TENANT).await, Ok(vec![]));
}

async fn the_journal_keeps_its_order_and_its_outputs(store: Shared) {
    seed(&*store, &["i1"]).await;
    let changes = vec![
        Change::AddOp(op("o1", "i1")),
        step("o1", "grant", StepStatus::Started, Value::Null),
        step("o1", "allocate", StepStatus::Started, Value::Null),
        step("o1", "grant", StepStatus::Done, json!({"v": 1, "data": {"token": "hunter2"}})),
    ];
    store.write(None, changes).await.unwrap();
    let rows = store.journal("o1").await.unwrap();
    let shown: Vec<_> = rows.iter().map(|row| (row.step.as_str(), row.status)).collect();
    assert_eq!(shown, [("grant", StepStatus::Done), ("allocate", StepStatus::Started)]);
    assert_eq!(rows[0].output.0, json!({"v": 1, "data": {"token": "hunter2"}}));
    assert_eq!((rows[0].started_at, rows[0].ended_at, rows[1].ended_at), (at(), Some(at()), None));
    for status in [StepStatus::Skipped, StepStatus::Undoing, StepStatus::Undone] {
        store.write(None, vec![step("o1", "grant", status, Value::Null)]).await.unwrap();
        assert_eq!(store.journal("o1").await.unwrap()[0].status, status);
    }
    let of_nothing = vec![step("o9", "grant", StepStatus::Started, Value::Null)];
    assert!(matches!(store.write(None, of_nothing).await, Err(StoreError::NotFound { .. })));
}

async fn a_checkpoint_is_remembered_by_operation_step_and_key(store: Shared) {
    seed(&*store, &["i1"]).await;
    store.write(None, vec![Change::AddOp(op("o1", "i1"))]).await.unwrap();
    let remember = |step: &str, value: Value| Change::Checkpoint {
        op_id: "o1".into(),
        step: step.into(),
        key: "token".into(),
        value: SecretJson(value),
    };
    let changes = vec![
        remember("a", json!("old")),
        remember("b", json!({"x": [1]})),
        remember("a", json!("new")),
    ];
    store.write(None, changes).await.unwrap();
    assert_eq!(store.checkpoint("o1", "a", "token").await, Ok(Some(SecretJson(json!("new")))));
    assert_eq!(store.checkpoint("o1", "b", "token").await, Ok(Some(SecretJson(json!({"x": [1]})))));
    assert_eq!(store.checkpoint("o1", "a", "other").await, Ok(None));
    store.write(None, vec![remember("a", Value::Null)]).await.unwrap();
    assert_eq!(store.checkpoint("o1", "a", "token").await, Ok(Some(SecretJson(Value::Null))));
}

async fn a_wish_to_cancel_reaches_whoever_drives(store: Shared) {
    seed(&*store, &["i1"]).await;
    let mut record = op("o1", "i1");
    store.write(None, vec![Change::AddOp(record.clone())]).await.unwrap();
    let fence = store.claim("me", LONG, Some("o1")).await.unwrap().unwrap().fence;
    assert_eq!(store.renew(&fence, LONG).await, Ok(None));
    let cancel = |mode| vec![Change::Cancel { op_id: "o1".into(), mode }];
    store.write(None, cancel(CancelMode::Graceful)).await.unwrap();
    assert_eq!(store.renew(&fence, LONG).await, Ok(Some(CancelMode::Graceful)));
    store.write(None, cancel(CancelMode::Forceful)).await.unwrap();
    store.write(None, cancel(CancelMode::Graceful)).await.unwrap();
    // The process that drives it wrote the operation before it heard of the wish.
    store.write(Some(&fence), vec![becomes(&record, Processing)]).await.unwrap();
    assert_eq!(store.renew(&fence, LONG).await, Ok(Some(CancelMode::Forceful)));
    let shown = store.op(TENANT, "o1").await.unwrap().op;
    assert_eq!((shown.is_cancel_pending, shown.cancel_mode), (true, Some(CancelMode::Forceful)));
    record.op.operation_state = Processing;
    store.write(Some(&fence), vec![becomes(&record, FailedTemp)]).await.unwrap();
    let shown = store.op(TENANT, "o1").await.unwrap().op;
    assert_eq!((shown.is_cancel_pending, shown.cancel_mode), (false, None));
    let found = "FAILED_TEMP".into();
    let error = StoreError::WrongState { what: "operation", id: "o1".into(), found };
    assert_eq!(store.write(None, cancel(CancelMode::Graceful)).await, Err(error));
}

async fn a_held_operation_is_not_claimed(store: Shared) {
    seed(&*store, &["i1", "i2"]).await;
    let mut later = op("o1", "i1");
    later.op.start_time += Duration::from_secs(1);
    let changes = vec![Change::AddOp(later), Change::AddOp(op("o2", "i2"))];
    store.write(None, changes).await.unwrap();
    let first = store.claim("me", LONG, None).await.unwrap().unwrap();
    assert_eq!((first.tenant.as_str(), first.fence.op_id.as_str()), (TENANT, "o2"), "oldest first");
    assert_eq!(first.fence.epoch, 1);
    assert_eq!(store.claim("you", LONG, Some("o2")).await, Ok(None));
    let second = store.claim("you", LONG, None).await.unwrap().unwrap();
    assert_eq!(second.fence.op_id, "o1");
    assert_eq!(store.claim("you", LONG, None).await, Ok(None));
    store.release(&first.fence).await.unwrap();
    let third = store.claim("you", LONG, None).await.unwrap().unwrap();
    assert_eq!(third.fence, Fence { op_id: "o2".into(), epoch: 2 });
    store.release(&first.fence).await.unwrap();
    assert_eq!(store.claim("me", LONG, Some("o2")).await, Ok(None), "an old release frees nothing");
}

async fn of_eight_claims_of_one_operation_one_wins(store: Shared) {
    seed(&*store, &["i1"]).await;
    store.write(None, vec![Change::AddOp(op("o1", "i1"))]).await.unwrap();
    let claims = join_all((0..8).map(|n| {
        let store = store.clone();
        let one = (n % 2 == 0).then_some("o1");
        tokio::spawn(async move { store.claim(&format!("p{n}"), LONG, one).await.unwrap() })
    }));
    let won = claims.await.into_iter().filter_map(Result::unwrap).count();
    assert_eq!(won, 1);
}

async fn a_lease_that_is_not_renewed_ends(store: Shared) {
    seed(&*store, &["i1"]).await;
    store.write(None, vec![Change::AddOp(op("o1", "i1"))]).await.unwrap();
    let short = Duration::from_millis(50);
    let begun = std::time::Instant::now();
    let first = store.claim("me", short, Some("o1")).await.unwrap().unwrap();
    let second = loop {
        if let Some(claim) = store.claim("you", LONG, Some("o1")).await.unwrap() {
            break claim;
        }
        tokio::task::yield_now().await;
    };
    assert!(begun.elapsed() >= Duration::from_millis(49), "{:?}", begun.elapsed());
    assert_eq!(second.fence.epoch, first.fence.epoch + 1);
    let lost = StoreError::LeaseLost { op_id: "o1".into() };
    assert_eq!(store.renew(&first.fence, LONG).await, Err(lost));
    assert_eq!(store.renew(&second.fence, LONG).await, Ok(None));
}

async fn who_lost_the_lease_writes_nothing(store: Shared) {
    seed(&*store, &["i1"]).await;
    let record = op("o1", "i1");
    store.write(None, vec![Change::AddOp(record.clone())]).await.unwrap();
    let old = store.claim("me", LONG, Some("o1")).await.unwrap().unwrap().fence;
    store.write(Some(&old), vec![told("i1", json!(1))]).await.unwrap();
    store.release(&old).await.unwrap();
    let new = store.claim("you", LONG, Some("o1")).await.unwrap().unwrap().fence;
    let lost = StoreError::LeaseLost { op_id: "o1".into() };
    let changes = vec![told("i1", json!(2)), becomes(&record, Processing)];
    assert_eq!(store.write(Some(&old), changes.clone()).await, Err(lost.clone()));
    assert_eq!(store.outbox(0, 10).await.unwrap().len(), 1);
    store.write(Some(&new), changes).await.unwrap();
    let unknown = Fence { op_id: "o9".into(), epoch: 1 };
    assert!(matches!(
        store.write(Some(&unknown), vec![]).await,
        Err(StoreError::LeaseLost { op_id }) if op_id == "o9"
    ));
}

async fn an_operation_that_waits_for_a_decision_is_not_claimed(store: Shared) {
    seed(&*store, &["i1"]).await;
    let mut record = op("o1", "i1");
    store.write(None, vec![Change::AddOp(record.clone())]).await.unwrap();
    let fence = store.claim("me", LONG, None).await.unwrap().unwrap().fence;
    store.write(Some(&fence), vec![becomes(&record, FailedTemp)]).await.unwrap();
    assert_eq!(store.claim("me", LONG, None).await, Ok(None));
    record.op.operation_state = FailedTemp;
    store.write(None, vec![becomes(&record, Processing)]).await.unwrap();
    let again = store.claim("you", LONG, None).await.unwrap().unwrap().fence;
    assert_eq!(again.epoch, fence.epoch + 1, "without waiting for the lease of who had it");
    record.op.operation_state = Processing;
    store.write(Some(&again), vec![becomes(&record, Completed)]).await.unwrap();
    store.release(&again).await.unwrap();
    assert_eq!(store.claim("me", LONG, None).await, Ok(None));
    assert_eq!(store.op(TENANT, "o1").await.unwrap().epoch, again.epoch);
}

/// `a` registered `cluster`; `b` and `c` are further instances.
async fn with_cluster(store: &dyn Store, identity: Option<&str>) {
    seed(store, &["a", "b", "c"]).await;
    store.write(None, vec![Change::AddVim(vim_of("a", "cluster", identity))]).await.unwrap();
}

fn in_use(by: &[&str]) -> StoreError {
    let by = by.iter().map(ToString::to_string).collect();
    StoreError::InUse { what: "VNF instance", id: "a".into(), by }
}

async fn a_cluster_that_is_used_is_not_retired(store: Shared) {
    with_cluster(&*store, None).await;
    let changes = vec![
        lives("a", Some("cluster"), None),
        lives("b", Some("cluster"), None),
        lives("c", Some("cluster"), None),
    ];
    store.write(None, changes).await.unwrap();
    let retired = store.write(None, vec![retire("a", "o1")]).await;
    assert_eq!(retired, Err(in_use(&["name of b (b)", "name of c (c)"])));
    for instance_id in ["b", "c"] {
        let gone = Change::RemoveUses { instance_id: instance_id.into() };
        store.write(None, vec![gone]).await.unwrap();
    }
    store.write(None, vec![retire("a", "o1")]).await.unwrap();
}

async fn a_cluster_that_is_retired_is_not_used(store: Shared) {
    with_cluster(&*store, Some("uid")).await;
    store.write(None, vec![retire("a", "o1"), retire("a", "o1")]).await.unwrap();
    let used = store.write(None, vec![lives("b", Some("cluster"), None)]).await;
    let error = StoreError::Retiring { vim: "cluster".into(), op_id: "o1".into() };
    assert_eq!(used, Err(error));
    let inline = store.write(None, vec![lives("b", None, Some("uid"))]).await;
    assert!(matches!(inline, Err(StoreError::Retiring { op_id, .. }) if op_id == "o1"));
    store.write(None, vec![lives("b", None, Some("another"))]).await.unwrap();
    store.write(None, vec![lives("c", None, None)]).await.unwrap();
    assert_eq!(store.uses(TENANT, "cluster").await, Ok(vec![]));
    store.write(None, vec![Change::Unretire { op_id: "o1".into() }]).await.unwrap();
    store.write(None, vec![lives("b", Some("cluster"), None)]).await.unwrap();
    let unknown = store.write(None, vec![lives("b", Some("nowhere"), None)]).await;
    assert_eq!(unknown, Err(StoreError::NotFound { what: "VIM", id: "nowhere".into() }));
}

async fn the_same_cluster_under_another_name_counts(store: Shared) {
    with_cluster(&*store, Some("uid")).await;
    let mut by_hand = vim("hand", "by hand");
    by_hand.vim.identity = Some("uid".into());
    let changes = vec![Change::AddVim(by_hand), lives("b", Some("hand"), None)];
    store.write(None, changes).await.unwrap();
    assert_eq!(store.write(None, vec![retire("a", "o1")]).await, Err(in_use(&["name of b (b)"])));
    let gone = Change::RemoveUses { instance_id: "b".into() };
    store.write(None, vec![gone, lives("b", None, Some("uid"))]).await.unwrap();
    assert_eq!(store.write(None, vec![retire("a", "o1")]).await, Err(in_use(&["name of b (b)"])));
    let gone = Change::RemoveUses { instance_id: "b".into() };
    store.write(None, vec![gone, retire("a", "o1")]).await.unwrap();
    let used = store.write(None, vec![lives("c", Some("hand"), None)]).await;
    assert!(matches!(used, Err(StoreError::Retiring { vim, .. }) if vim == "hand"));
}

async fn a_user_of_another_tenant_counts_and_is_not_named(store: Shared) {
    with_cluster(&*store, Some("uid")).await;
    let theirs = Change::AddUse(Use {
        tenant: "other".into(),
        instance_id: "x".into(),
        vim_id: None,
        identity: Some("uid".into()),
    });
    store.write(None, vec![theirs]).await.unwrap();
    let retired = store.write(None, vec![retire("a", "o1")]).await;
    assert_eq!(retired, Err(in_use(&["an instance of another tenant"])));
    assert_eq!(store.uses(TENANT, "cluster").await, Ok(vec![]));
}

async fn of_use_and_retirement_that_race_one_is_accepted(store: Shared) {
    with_cluster(&*store, Some("uid")).await;
    let mut used = 0;
    for round in 0..100 {
        let op_id = format!("o{round}");
        let by_name = (round % 2 == 0).then_some("cluster");
        let lives_on = lives("b", by_name, (by_name.is_none()).then_some("uid"));
        let (one, two) = (store.clone(), store.clone());
        let retirement = retire("a", &op_id);
        let use_ = async move { one.write(None, vec![lives_on]).await };
        let retirement = async move { two.write(None, vec![retirement]).await };
        // Whoever sets out first has a better chance: they take turns.
        let (use_, retirement) = if round % 4 < 2 {
            let (first, second) = (tokio::spawn(use_), tokio::spawn(retirement));
            (first.await.unwrap(), second.await.unwrap())
        } else {
            let (first, second) = (tokio::spawn(retirement), tokio::spawn(use_));
            (second.await.unwrap(), first.await.unwrap())
        };
        match (&use_, &retirement) {
            (Ok(()), Err(error)) => {
                assert_eq!(error, &in_use(&["name of b (b)"]));
                used += 1;
            }
            (Err(StoreError::Retiring { op_id: by, .. }), Ok(())) => assert_eq!(by, &op_id),
            both => panic!("round {round}: {both:?}"),
        }
        let undo = vec![Change::RemoveUses { instance_id: "b".into() }, Change::Unretire { op_id }];
        store.write(None, undo).await.unwrap();
    }
    println!("the use won {used} of 100 rounds");
}

async fn an_identity_that_is_learned_later_is_kept(store: Shared) {
    with_cluster(&*store, None).await;
    store.write(None, vec![lives("b", Some("cluster"), None)]).await.unwrap();
    store.write(None, vec![lives("b", Some("cluster"), Some("uid"))]).await.unwrap();
    let expected = Use {
        tenant: TENANT.into(),
        instance_id: "b".into(),
        vim_id: Some("cluster".into()),
        identity: Some("uid".into()),
    };
    assert_eq!(store.uses(TENANT, "cluster").await, Ok(vec![expected]));
    store.write(None, vec![lives("c", None, Some("uid"))]).await.unwrap();
    let mut known = store.vim(TENANT, "cluster").await.unwrap();
    known.vim.identity = Some("uid".into());
    store.write(None, vec![Change::PutVim(Box::new(known))]).await.unwrap();
    let users: Vec<_> = store.uses(TENANT, "cluster").await.unwrap();
    assert_eq!(users.iter().map(|u| u.instance_id.as_str()).collect::<Vec<_>>(), ["b", "c"]);
}

async fn ids_and_names_of_vims_are_unique(store: Shared) {
    let changes = vec![Change::AddVim(vim("v1", "one")), Change::AddVim(vim("v2", "two"))];
    store.write(None, changes).await.unwrap();
    let exists = |id: &str| Err(StoreError::Exists { what: "VIM", id: id.into() });
    assert_eq!(store.write(None, vec![Change::AddVim(vim("v1", "x"))]).await, exists("v1"));
    assert_eq!(store.write(None, vec![Change::AddVim(vim("v3", "one"))]).await, exists("one"));
    assert_eq!(store.write(None, vec![Change::PutVim(vim("v2", "one"))]).await, exists("one"));
    let mut theirs = vim("v1", "one");
    theirs.tenant = "other".into();
    store.write(None, vec![Change::AddVim(theirs)]).await.unwrap();
    for id_or_name in ["v2", "two"] {
        assert_eq!(store.vim(TENANT, id_or_name).await.unwrap(), *vim("v2", "two"));
    }
    let names: Vec<_> = store.vims(TENANT).await.unwrap().into_iter().map(|v| v.vim.name).collect();
    assert_eq!(names, ["one", "two"]);
}

async fn a_vim_written_from_an_old_version_is_refused(store: Shared) {
    store.write(None, vec![Change::AddVim(vim("v1", "one"))]).await.unwrap();
    let mut new = store.vim(TENANT, "v1").await.unwrap();
    new.access_info = SecretJson(json!({"bearer_token": "new"}));
    store.write(None, vec![Change::PutVim(Box::new(new.clone()))]).await.unwrap();
    let again = store.write(None, vec![Change::PutVim(vim("v1", "one"))]).await;
    assert_eq!(again, Err(StoreError::Changed { what: "VIM", id: "v1".into() }));
    new.version += 1;
    assert_eq!(store.vim(TENANT, "v1").await.unwrap(), new);
    let absent = store.write(None, vec![Change::PutVim(vim("v9", "nine"))]).await;
    assert_eq!(absent, Err(StoreError::NotFound { what: "VIM", id: "v9".into() }));
}

async fn a_vim_that_is_used_is_removed_by_force_alone(store: Shared) {
    with_cluster(&*store, None).await;
    store.write(None, vec![lives("b", Some("cluster"), None)]).await.unwrap();
    let remove =
        |force| vec![Change::RemoveVim { tenant: TENANT.into(), id: "cluster".into(), force }];
    let by = vec!["name of b (b)".into()];
    let error = StoreError::InUse { what: "VIM", id: "cluster".into(), by };
    assert_eq!(store.write(None, remove(false)).await, Err(error));
    store.write(None, remove(true)).await.unwrap();
    assert!(store.vim(TENANT, "cluster").await.is_err());
    store.write(None, remove(false)).await.unwrap();
}

async fn a_vnfd_belongs_to_one_package(store: Shared) {
    let changes = vec![
        Change::AddPackage(package("p1", None)),
        Change::AddPackage(package("p2", None)),
        Change::PutPackage(package("p1", Some("vnfd"))),
    ];
    store.write(None, changes).await.unwrap();
    let error = StoreError::Exists { what: "VNF package with VNFD", id: "vnfd".into() };
    let put = store.write(None, vec![Change::PutPackage(package("p2", Some("vnfd")))]).await;
    assert_eq!(put, Err(error.clone()));
    let add = store.write(None, vec![Change::AddPackage(package("p3", Some("vnfd")))]).await;
    assert_eq!(add, Err(error));
    let add = store.write(None, vec![Change::AddPackage(package("p1", None))]).await;
    assert_eq!(add, Err(StoreError::Exists { what: "VNF package", id: "p1".into() }));
    let mut theirs = package("p4", Some("vnfd"));
    theirs.tenant = "other".into();
    store.write(None, vec![Change::AddPackage(theirs)]).await.unwrap();
    let records = store.package_records(TENANT, &Query::default()).await.unwrap();
    assert_eq!(records, [*package("p1", Some("vnfd")), *package("p2", None)]);
    let absent = store.write(None, vec![Change::PutPackage(package("p9", None))]).await;
    assert_eq!(absent, Err(StoreError::NotFound { what: "VNF package", id: "p9".into() }));
}

async fn a_package_that_is_used_is_not_removed(store: Shared) {
    seed(&*store, &["i1"]).await;
    let remove = || vec![Change::RemovePackage { tenant: TENANT.into(), id: "package".into() }];
    let used = store.package_record(TENANT, "package").await.unwrap();
    assert_eq!(used.info.usage_state, PackageUsageState::InUse);
    let by = vec!["name of i1 (i1)".into()];
    let error = StoreError::InUse { what: "VNF package", id: "package".into(), by };
    assert_eq!(store.write(None, remove()).await, Err(error));
    let gone = Change::RemoveInstance { tenant: TENANT.into(), id: "i1".into() };
    store.write(None, vec![gone]).await.unwrap();
    let unused = store.package_record(TENANT, "package").await.unwrap();
    assert_eq!(unused.info.usage_state, PackageUsageState::NotInUse);
    store.write(None, remove()).await.unwrap();
    assert!(matches!(store.write(None, remove()).await, Err(StoreError::NotFound { .. })));
}

async fn notifications_are_numbered_in_the_order_of_their_transactions(store: Shared) {
    let writing = join_all((0..8).map(|writer| {
        let store = store.clone();
        tokio::spawn(async move {
            for n in 0..10 {
                let changes =
                    vec![told("i", json!([writer, n, 0])), told("i", json!([writer, n, 1]))];
                store.write(None, changes).await.unwrap();
            }
        })
    }));
    for written in writing.await {
        written.unwrap();
    }
    let rows = store.outbox(0, 1_000).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), (1..=160).collect::<Vec<_>>());
    for pair in rows.chunks(2) {
        assert_eq!((&pair[0].body[0], &pair[0].body[1]), (&pair[1].body[0], &pair[1].body[1]));
        assert_eq!((&pair[0].body[2], &pair[1].body[2]), (&json!(0), &json!(1)));
    }
    for writer in 0..8 {
        let its: Vec<_> =
            rows.iter().filter(|r| r.body[0] == json!(writer)).map(|r| r.body[1].clone()).collect();
        assert!(its.is_sorted_by_key(Value::as_u64), "{its:?}");
    }
    let page: Vec<_> = store.outbox(150, 3).await.unwrap().iter().map(|row| row.seq).collect();
    assert_eq!(page, [151, 152, 153]);
    assert_eq!(rows[0].at, at());
}

async fn a_log_keeps_its_newest_lines(store: Shared) {
    seed(&*store, &["i1"]).await;
    store.write(None, vec![Change::AddOp(op("o1", "i1"))]).await.unwrap();
    let line = |text: String| LogLine {
        seq: 0,
        at: at(),
        level: "info".into(),
        source: "worker1".into(),
        text,
    };
    let lines = |from: usize, to: usize| (from..to).map(|n| line(n.to_string())).collect();
    store.append_log("o1", lines(0, 1_500)).await.unwrap();
    store.append_log("o1", lines(1_500, 2_500)).await.unwrap();
    let kept = store.log("o1", 0).await.unwrap();
    assert_eq!(kept.len(), 2_000);
    assert_eq!((kept[0].seq, kept[0].text.as_str()), (501, "500"));
    let newest = store.log("o1", 2_499).await.unwrap();
    assert_eq!(newest, [LogLine { seq: 2_500, ..line("2499".into()) }]);
    store.append_log("o1", vec![line("ä".repeat(4_000))]).await.unwrap();
    assert_eq!(store.log("o1", 2_500).await.unwrap()[0].text, "ä".repeat(2_048));
    assert!(matches!(
        store.append_log("o9", lines(0, 1)).await,
        Err(StoreError::NotFound { what: "operation", .. })
    ));
    assert_eq!(store.log("o9", 0).await, Ok(vec![]));
}

async fn the_first_host_key_stays_until_its_instance_goes(store: Shared) {
    seed(&*store, &["i1"]).await;
    let pin = |key: &str| {
        let (instance_id, server_id) = ("i1".to_owned(), "server".to_owned());
        vec![Change::PinHostKey { instance_id, server_id, key: key.into() }]
    };
    assert_eq!(store.host_key("server").await, Ok(None));
    store.write(None, pin("ssh-ed25519 AAAA")).await.unwrap();
    store.write(None, pin("ssh-ed25519 AAAA")).await.unwrap();
    let other = store.write(None, pin("ssh-ed25519 BBBB")).await;
    assert!(matches!(other, Err(StoreError::Exists { id, .. }) if id == "server"));
    assert_eq!(store.host_key("server").await, Ok(Some("ssh-ed25519 AAAA".into())));
    let gone = Change::RemoveInstance { tenant: TENANT.into(), id: "i1".into() };
    store.write(None, vec![gone]).await.unwrap();
    assert_eq!(store.host_key("server").await, Ok(None));
}

async fn lists_come_in_pages_in_order_of_id(store: Shared) {
    seed(&*store, &["i3", "i1", "i2"]).await;
    for (op_id, instance_id) in [("o2", "i1"), ("o1", "i2"), ("o3", "i1")] {
        let record = op(op_id, instance_id);
        let changes = vec![Change::AddOp(record.clone()), becomes(&record, Completed)];
        store.write(None, changes).await.unwrap();
    }
    let page = Query { after: Some("i1".into()), limit: 1, ..Query::default() };
    let all = Query::default();
    let ids = |list: Vec<InstanceRecord>| list.into_iter().map(|r| r.vnf.id).collect::<Vec<_>>();
    assert_eq!(ids(store.instances(TENANT, &all).await.unwrap()), ["i1", "i2", "i3"]);
    assert_eq!(ids(store.instances(TENANT, &page).await.unwrap()), ["i2"]);
    let one = Query::only("id", "i1");
    assert_eq!(ids(store.instances(TENANT, &one).await.unwrap()), ["i1"]);
    let of_one = Query::of_instance("i1");
    let ops = store.ops(TENANT, &of_one).await.unwrap();
    assert_eq!(ops.iter().map(|r| r.op.id.as_str()).collect::<Vec<_>>(), ["o2", "o3"]);
    let page = Query { after: Some("o1".into()), limit: 1, ..Query::default() };
    assert_eq!(store.ops(TENANT, &page).await.unwrap()[0].op.id, "o2");
    assert_eq!(store.ops(TENANT, &all).await.unwrap().len(), 3);
    assert_eq!(store.op(TENANT, "o2").await.unwrap().op.operation_state, Completed);
    let whole = store.instance(TENANT, "i1").await.unwrap();
    assert_eq!(whole.request.0["password"], "hunter2");
    let listed = store.instances(TENANT, &all).await.unwrap();
    assert!(listed.iter().all(|record| record.request == SecretJson::default()));
}

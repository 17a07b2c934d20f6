//! Rules about schedules.

use super::records::{TENANT, at, not_found, seed};
use serde_json::json;
use std::sync::Arc;
use std::time::Duration;
use vnfm_core::ports::{Change, ScheduleRecord, Store, StoreError};
use vnfm_types::Schedule;

type Shared = Arc<dyn Store>;

const KIND: &str = "schedule of VNF instance";

fn schedule(instance_id: &str) -> ScheduleRecord {
    ScheduleRecord {
        tenant: TENANT.into(),
        instance_id: instance_id.into(),
        version: 0,
        schedule: Schedule {
            every_seconds: 600,
            next_at: at(),
            last_at: None,
            last_op_occ_id: None,
            last_result: None,
        },
        running: false,
        request: json!({"additionalParams": {"passphrase": "hunter2"}}).into(),
    }
}

/// Writes one change in a transaction that no operation owns.
async fn write(store: &Shared, change: Change) -> Result<(), StoreError> {
    store.write(None, vec![change]).await
}

fn set(record: ScheduleRecord) -> Change {
    Change::SetSchedule(Box::new(record))
}

fn put(record: ScheduleRecord) -> Change {
    Change::PutSchedule(Box::new(record))
}

pub(super) async fn a_schedule_is_read_as_it_was_written(store: Shared) {
    seed(&*store, &["a"]).await;
    let missing = write(&store, set(schedule("other"))).await;
    assert_eq!(missing, Err(not_found("VNF instance", "other")));
    write(&store, set(schedule("a"))).await.unwrap();
    assert_eq!(store.schedule(TENANT, "a").await.unwrap(), schedule("a"));
    let hidden = store.schedule("another", "a").await.unwrap_err();
    assert_eq!(hidden, not_found(KIND, "a"));
    let (before, due) = (at() - Duration::from_secs(1), at());
    assert!(store.due_schedules(before, 9).await.unwrap().is_empty());
    assert_eq!(store.due_schedules(due, 9).await.unwrap(), [schedule("a")]);
    let running = ScheduleRecord {
        running: true,
        ..schedule("a")
    };
    write(&store, put(running)).await.unwrap();
    assert_eq!(store.due_schedules(before, 9).await.unwrap().len(), 1);
}

pub(super) async fn of_two_turns_of_a_schedule_one_is_written(store: Shared) {
    seed(&*store, &["a"]).await;
    write(&store, set(schedule("a"))).await.unwrap();
    write(&store, put(schedule("a"))).await.unwrap();
    let late = write(&store, put(schedule("a"))).await;
    let changed = StoreError::Changed {
        what: KIND,
        id: "a".into(),
    };
    assert_eq!(late, Err(changed));
    // A new schedule ends a turn that is in progress.
    write(&store, set(schedule("a"))).await.unwrap();
    assert_eq!(store.schedule(TENANT, "a").await.unwrap().version, 2);
}

pub(super) async fn a_schedule_ends_with_its_instance(store: Shared) {
    seed(&*store, &["a", "b"]).await;
    for id in ["a", "b"] {
        write(&store, set(schedule(id))).await.unwrap();
    }
    let remove = |instance_id: &str| Change::RemoveSchedule {
        tenant: TENANT.into(),
        instance_id: instance_id.into(),
    };
    write(&store, remove("a")).await.unwrap();
    let again = write(&store, remove("a")).await;
    assert_eq!(again, Err(not_found(KIND, "a")));
    let instance = Change::RemoveInstance {
        tenant: TENANT.into(),
        id: "b".into(),
    };
    write(&store, instance).await.unwrap();
    assert!(store.due_schedules(at(), 9).await.unwrap().is_empty());
}

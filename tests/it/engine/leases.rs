//! Clock jumps, two engines on one database, and an engine that misses the end of its lease.
//!
//! A lease ends by the database's clock only; then another process may take the operation over, after a jump ahead at
//! once. The old owner, unaware of that, changes nothing: its first write names the old epoch and is refused. A jump
//! back extends the lease of a dead process by that much, until the database is opened again. The time of a step is
//! measured by waiting, so no jump ends it.

use super::fakes::*;
use super::setup::*;
use jiff::{SignedDuration, Timestamp};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::Notify;
use vnfm_core::ports::{Clock, Store, StoreError};
use vnfm_core::query::Query;
use vnfm_core::{Driven, Engine, Limits};
use vnfm_store::{SecretKeys, SqliteStore};
use vnfm_types::LcmOperationState::Completed;

const LEASE: Duration = Duration::from_mins(5);
const HOUR: i64 = 3_600_000;

/// The time of this machine with an offset, in milliseconds.
#[derive(Default)]
struct OffsetClock(AtomicI64);

impl Clock for OffsetClock {
    fn now(&self) -> Timestamp {
        Timestamp::now() + SignedDuration::from_millis(self.0.load(SeqCst))
    }
    fn sleep(&self, duration: Duration) -> futures::future::BoxFuture<'static, ()> {
        vnfm::SystemClock.sleep(duration)
    }
}

/// A database file whose clock can be set.
struct Fixture {
    folder: TempDir,
    store: Arc<SqliteStore>,
    clock: Arc<OffsetClock>,
    world: Arc<FakeWorld>,
}

impl Fixture {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let keys = SecretKeys::open(&folder.path().join("secrets.key")).unwrap();
        let store = SqliteStore::open(&folder.path().join("vnfm.db"), keys)
            .await
            .unwrap();
        add_package_and_vim(&store).await;
        let store = Arc::new(store);
        Self {
            folder,
            store,
            clock: Arc::default(),
            world: Arc::default(),
        }
    }

    fn engine(&self) -> Engine {
        let limits = Limits {
            lease: LEASE,
            ..Limits::default()
        };
        engine_at(self.store.clone(), &self.world, limits, self.clock.clone())
    }

    /// Shifts every clock by this.
    fn jump(&self, millis: i64) {
        self.clock.0.store(millis, SeqCst);
        let file = self.folder.path().join("vnfm.db");
        let db = rusqlite::Connection::open(file).unwrap();
        db.busy_timeout(Duration::from_secs(5)).unwrap();
        let view = format!(
            "DROP VIEW clock; CREATE VIEW clock AS \
             SELECT CAST(unixepoch('subsec') * 1000 AS BIGINT) + {millis} AS now_ms"
        );
        db.execute_batch(&view).unwrap();
    }

    /// Begins an operation and holds it in `allocate` until the notification.
    async fn hold_in_allocate<'a>(
        &self,
        engine: &'a Engine,
    ) -> (String, DriveFuture<'a>, Arc<Notify>) {
        let id = instance(engine).await;
        let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
        let opened = Arc::new(Notify::new());
        *self.world.gate.lock().unwrap() = Some(("allocate", opened.clone()));
        let op_id = op.clone();
        let mut driving: DriveFuture<'a> = Box::pin(async move { engine.drive(&op_id).await });
        while !self.world.calls().iter().any(|call| call == "allocate") {
            tokio::select! {
                biased;
                ended = &mut driving => panic!("it ended before the gate: {ended:?}"),
                () = tokio::task::yield_now() => {}
            }
        }
        (op, driving, opened)
    }

    /// Everything stored about an operation.
    async fn stored_state(&self, op: &str) -> String {
        let store = &self.store;
        let record = store.op(TENANT, op).await.unwrap();
        let journal = store.journal(op).await.unwrap();
        let outbox = store.outbox(0, 1000).await.unwrap();
        let instances = store.instances(TENANT, &Query::default()).await.unwrap();
        format!("{record:?} {journal:?} {outbox:?} {instances:?}")
    }

    /// The notified states, in order.
    async fn notified_states(&self) -> Vec<String> {
        let outbox = self.store.outbox(0, 1000).await.unwrap();
        let states = outbox
            .iter()
            .filter_map(|row| row.body["operationState"].as_str());
        states.map(ToOwned::to_owned).collect()
    }
}

type DriveFuture<'a> = Pin<Box<dyn Future<Output = Result<Driven, StoreError>> + 'a>>;

#[tokio::test]
async fn an_operation_is_taken_over_only_after_its_lease_and_the_old_owner_writes_nothing() {
    let fixture = Fixture::new().await;
    let (first, second) = (fixture.engine(), fixture.engine());
    let (op, driving, opened) = fixture.hold_in_allocate(&first).await;
    assert!(
        second.take_over().await.unwrap().is_none(),
        "the lease has not ended"
    );
    second.drive(&op).await.unwrap();
    assert!(
        state(&second, &op).await.is_driven(),
        "the second engine has driven it"
    );
    fixture.jump(i64::try_from(LEASE.as_millis()).unwrap() + 1);
    second.resume_all().await.unwrap();
    assert_eq!(state(&second, &op).await, Completed);
    let stored_state = fixture.stored_state(&op).await;
    opened.notify_one();
    driving.await.unwrap();
    assert_eq!(
        fixture.stored_state(&op).await,
        stored_state,
        "the old owner of the lease has written"
    );
    assert_eq!(
        fixture.notified_states().await,
        ["STARTING", "PROCESSING", "COMPLETED"]
    );
    assert_consistent(&second, &fixture.world, "a lease slept through").await;
}

#[tokio::test]
async fn a_clock_jump_back_neither_ends_an_operation_nor_hands_it_over() {
    let fixture = Fixture::new().await;
    let (first, second) = (fixture.engine(), fixture.engine());
    let (op, driving, opened) = fixture.hold_in_allocate(&first).await;
    fixture.jump(-HOUR);
    assert!(second.take_over().await.unwrap().is_none());
    opened.notify_one();
    driving.await.unwrap();
    assert_eq!(state(&first, &op).await, Completed);
    assert_eq!(
        fixture.notified_states().await,
        ["STARTING", "PROCESSING", "COMPLETED"]
    );
    assert_consistent(&first, &fixture.world, "an hour back").await;
}

#[tokio::test]
async fn after_a_clock_jump_ahead_one_of_two_drivers_writes_and_notifies_once() {
    let fixture = Fixture::new().await;
    let engine = fixture.engine();
    let (op, driving, opened) = fixture.hold_in_allocate(&engine).await;
    fixture.jump(HOUR);
    // As the server's loop does: it finds an expired lease, its own.
    let again = engine
        .take_over()
        .await
        .unwrap()
        .expect("the lease has expired by the clock");
    opened.notify_one();
    let (first, second) = tokio::join!(driving, again);
    first.unwrap();
    second.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(
        fixture.notified_states().await,
        ["STARTING", "PROCESSING", "COMPLETED"]
    );
    assert_consistent(&engine, &fixture.world, "an hour ahead").await;
}

#[tokio::test]
async fn an_operation_that_its_own_process_claims_again_stays_visible() {
    let fixture = Fixture::new().await;
    let engine = fixture.engine();
    let (op, driving, opened) = fixture.hold_in_allocate(&engine).await;
    fixture.jump(HOUR);
    let again = engine.take_over().await.unwrap();
    let mut again = Box::pin(again.expect("the lease has expired by the clock"));
    let held = Arc::new(Notify::new());
    *fixture.world.gate.lock().unwrap() = Some(("allocate", held.clone()));
    let allocates = || {
        let calls = fixture.world.calls();
        calls.iter().filter(|call| *call == "allocate").count()
    };
    while allocates() < 2 {
        tokio::select! {
            biased;
            ended = &mut again => panic!("it ended before the gate: {ended:?}"),
            () = tokio::task::yield_now() => {}
        }
    }
    opened.notify_one();
    driving.await.unwrap();
    assert_eq!(engine.driven(), 1);
    let progress = engine.progress(TENANT, &op).await.unwrap();
    assert_eq!(progress.step.as_deref(), Some("allocate"));
    held.notify_one();
    again.await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_eq!(engine.driven(), 0);
}

#[tokio::test]
async fn a_clock_jump_ahead_does_not_end_a_step() {
    let fixture = Fixture::new().await;
    let engine = fixture.engine();
    let (op, driving, opened) = fixture.hold_in_allocate(&engine).await;
    fixture.jump(HOUR);
    opened.notify_one();
    driving.await.unwrap();
    assert_eq!(state(&engine, &op).await, Completed);
    assert_consistent(&engine, &fixture.world, "an hour ahead").await;
}

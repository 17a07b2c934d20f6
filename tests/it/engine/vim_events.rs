//! Records follow what a VIM reports, while nothing operates on their instances.

use super::fakes::*;
use super::setup::*;
use futures::channel::mpsc::{UnboundedSender, unbounded};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Notify;
use vnfm_core::ports::*;
use vnfm_core::{Engine, Event, Limits};
use vnfm_store::SqliteStore;
use vnfm_types::LcmOperationState::Completed;
use vnfm_types::{VnfInfoModificationRequest, VnfcResourceInfo};

/// A clock whose sleeps end at once, and let that time pass.
#[derive(Default)]
struct QuickClock(Arc<AtomicI64>);

impl Clock for QuickClock {
    fn now(&self) -> Timestamp {
        Timestamp::now() + SignedDuration::from_millis(self.0.load(SeqCst))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let (passed, millis) = (self.0.clone(), i64::try_from(duration.as_millis()).unwrap());
        Box::pin(async move {
            // A little while, so that events have a chance to come first.
            vnfm::SystemClock.sleep(Duration::from_millis(2)).await;
            passed.fetch_add(millis, SeqCst);
        })
    }
}

/// When the engine heard of a VIM; `None`: it does not follow it any more.
#[derive(Default)]
struct Heard(Mutex<Vec<Option<Timestamp>>>);

impl Observer for Heard {
    fn vim_heard(&self, vim: &str, at: Option<Timestamp>) {
        assert_eq!(vim, CLOUD);
        self.0.lock().unwrap().push(at);
    }
}

/// Two instances on a VIM that reports what changes.
struct Fixture {
    world: Arc<FakeWorld>,
    store: Arc<SqliteStore>,
    /// Follows the VIM.
    engine: Engine,
    heard: Arc<Heard>,
    sender: UnboundedSender<Result<VimEvent, PortError>>,
    ids: [String; 2],
}

impl Fixture {
    async fn new() -> Self {
        let (world, store) = (Arc::new(FakeWorld::default()), store().await);
        let (sender, receiver) = unbounded();
        let receiver = Arc::new(futures::lock::Mutex::new(receiver));
        *world.events.lock().unwrap() = Some(receiver);
        let operating = engine(store.clone(), &world);
        let (a, b) = (
            instantiated(&operating).await,
            instantiated(&operating).await,
        );
        let (clock, heard) = (Arc::new(QuickClock::default()), Arc::new(Heard::default()));
        let engine = engine_at(store.clone(), &world, Limits::default(), clock);
        Self {
            engine: engine.observed_by(heard.clone()),
            world,
            store,
            heard,
            sender,
            ids: [a, b],
        }
    }

    /// Replaces the VNFCs of an instance on the VIM, and does not report it.
    fn move_vnfcs(&self, id: &str) {
        let mut all = self.world.inventories.lock().unwrap();
        for vnfc in &mut all.get_mut(id).unwrap().vnfc_resource_info {
            vnfc.id = format!("{}-moved", vnfc.id);
        }
    }

    async fn terminate(&self, id: &str) {
        let operating = engine(self.store.clone(), &self.world);
        let request = vnfm_types::TerminateVnfRequest::default();
        let op = operating.terminate(TENANT, id, request).await.unwrap();
        operating.drive(&op).await.unwrap();
    }

    fn report(&self, id: &str) {
        let event = Ok(VimEvent::Changed(id.to_owned()));
        self.sender.unbounded_send(event).unwrap();
    }

    fn existing(&self, id: &str) -> Vec<VnfcResourceInfo> {
        self.world.inventories.lock().unwrap()[id]
            .vnfc_resource_info
            .clone()
    }

    async fn recorded(&self, id: &str) -> Vec<VnfcResourceInfo> {
        let record = self.store.instance(TENANT, id).await.unwrap();
        record.vnf.instantiated_vnf_info.unwrap().vnfc_resource_info
    }

    fn observations(&self, id: &str) -> usize {
        let all = self.world.observations.lock().unwrap();
        all.get(id).copied().unwrap_or_default()
    }

    /// Follows the VIM until `done`.
    async fn follow_until(&self, done: impl AsyncFn() -> bool) {
        let until = async {
            while !done().await {
                vnfm::SystemClock.sleep(Duration::from_millis(1)).await;
            }
        };
        let following = async {
            tokio::select! {
                () = self.engine.follow_vims() => {}
                () = until => {}
            }
        };
        let limit = Duration::from_secs(30);
        let ended = tokio::time::timeout(limit, following).await;
        assert!(ended.is_ok(), "not within {limit:?}");
    }

    async fn is_up_to_date(&self, id: &str) -> bool {
        self.recorded(id).await == self.existing(id)
    }
}

async fn instantiated(engine: &Engine) -> String {
    let id = instance(engine).await;
    let op = engine.instantiate(TENANT, &id, on("cloud")).await.unwrap();
    engine.drive(&op).await.unwrap();
    assert_eq!(state(engine, &op).await, Completed);
    id
}

#[tokio::test]
async fn what_was_missed_before_the_start_is_found() {
    let it = Fixture::new().await;
    for id in &it.ids {
        it.move_vnfcs(id);
    }
    it.follow_until(async || {
        it.is_up_to_date(&it.ids[0]).await && it.is_up_to_date(&it.ids[1]).await
    })
    .await;
    assert!(it.heard.0.lock().unwrap()[0].is_some());
}

#[tokio::test]
async fn a_reported_change_reaches_the_record_and_the_events_but_no_subscriber() {
    let it = Fixture::new().await;
    let before = it.store.events(TENANT, 0, 1000).await.unwrap().len() as u64;
    it.follow_until(async || it.observations(&it.ids[1]) > 0)
        .await;
    it.move_vnfcs(&it.ids[0]);
    it.report(&it.ids[0]);
    it.follow_until(async || it.is_up_to_date(&it.ids[0]).await)
        .await;
    let events = it.store.events(TENANT, before, 10).await.unwrap();
    assert_eq!(events.len(), 1, "{events:?}");
    let moved = it.existing(&it.ids[0]).len();
    let expected = Event::VnfcResources {
        added_vnfcs: moved,
        removed_vnfcs: moved,
    };
    assert_eq!(
        (&events[0].instance_id, events[0].event().unwrap()),
        (&it.ids[0], expected)
    );
}

#[tokio::test]
async fn a_burst_leads_to_few_observations_and_strange_ids_to_none() {
    let it = Fixture::new().await;
    for number in 0..5000 {
        it.report(&it.ids[0]);
        it.report(&format!("of-nobody-{number}"));
    }
    it.move_vnfcs(&it.ids[0]);
    it.move_vnfcs(&it.ids[1]);
    it.report(&it.ids[1]);
    it.follow_until(async || {
        it.is_up_to_date(&it.ids[0]).await && it.is_up_to_date(&it.ids[1]).await
    })
    .await;
    let observed = it.world.observations.lock().unwrap().clone();
    assert_eq!(observed.keys().collect::<Vec<_>>(), {
        let mut ids: Vec<_> = it.ids.iter().collect();
        ids.sort();
        ids
    });
    assert!(observed.values().all(|count| *count <= 3), "{observed:?}");
}

#[tokio::test]
async fn an_instance_with_an_operation_is_observed_after_it() {
    let it = Fixture::new().await;
    let [id, other] = &it.ids;
    let operating = engine(it.store.clone(), &it.world);
    let op = operating
        .heal(TENANT, id, vnfm_types::HealVnfRequest::default())
        .await
        .unwrap();
    it.move_vnfcs(id);
    it.move_vnfcs(other);
    it.report(id);
    it.follow_until(async || it.is_up_to_date(other).await)
        .await;
    assert!(!it.is_up_to_date(id).await, "it is left to the operation");
    operating.drive(&op).await.unwrap();
    it.move_vnfcs(id);
    it.follow_until(async || it.is_up_to_date(id).await).await;
}

#[tokio::test]
async fn a_record_that_changes_meanwhile_is_read_again() {
    let it = Fixture::new().await;
    let [id, other] = &it.ids;
    // Only one instance is observed, so that it is the one at the gate.
    it.terminate(other).await;
    it.follow_until(async || it.observations(id) > 0).await;
    it.move_vnfcs(id);
    let opened = Arc::new(Notify::new());
    *it.world.gate.lock().unwrap() = Some(("observe", opened.clone()));
    it.report(id);
    let renaming = async {
        it.world.hung.notified().await;
        let operating = engine(it.store.clone(), &it.world);
        let request = VnfInfoModificationRequest {
            vnf_instance_name: Some(Some("renamed".into())),
            ..VnfInfoModificationRequest::default()
        };
        let op = operating.modify(TENANT, id, request, &|_| true).await;
        operating.drive(&op.unwrap()).await.unwrap();
        opened.notify_one();
    };
    let following = it.follow_until(async || it.is_up_to_date(id).await);
    tokio::join!(renaming, following);
    let record = it.store.instance(TENANT, id).await.unwrap();
    assert_eq!(record.vnf.vnf_instance_name.as_deref(), Some("renamed"));
}

#[tokio::test]
async fn a_vim_that_fails_is_observed_again_later() {
    let it = Fixture::new().await;
    it.move_vnfcs(&it.ids[0]);
    it.world.vim_unavailable.store(true, SeqCst);
    let failed = Err(PortError::new(&INJECTED, "watch", "the VIM is unavailable"));
    it.sender.unbounded_send(failed).unwrap();
    it.follow_until(async || it.observations(&it.ids[0]) > 1)
        .await;
    it.world.vim_unavailable.store(false, SeqCst);
    it.follow_until(async || it.is_up_to_date(&it.ids[0]).await)
        .await;
}

#[tokio::test]
async fn a_vim_without_instances_is_not_followed() {
    let it = Fixture::new().await;
    it.follow_until(async || !it.heard.0.lock().unwrap().is_empty())
        .await;
    let terminate = async {
        for id in &it.ids {
            it.terminate(id).await;
        }
    };
    let ended = || it.heard.0.lock().unwrap().last() == Some(&None);
    let following = it.follow_until(async || ended());
    tokio::join!(terminate, following);
}

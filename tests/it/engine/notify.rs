//! Fast, slow, dead and deleted subscribers: each receives the matching notifications in order, at least once.

use super::fakes::*;
use super::setup::*;
use super::stopping_store::counting;
use async_trait::async_trait;
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::watch;
use vnfm_core::ports::*;
use vnfm_core::query::Query;
use vnfm_core::{DeliveryTimeouts, Engine, Notifier, SubscribeOutcome};
use vnfm_store::SqliteStore;

const UNREACHABLE: Code = Code {
    name: "test.not-there",
    kind: ErrorKind::Unavailable,
    means: "it cannot be reached",
    next: "wait",
};

const REFUSED: Code = Code {
    name: "test.indigestible",
    kind: ErrorKind::Refused,
    means: "it refuses the notification",
    next: "none",
};

/// A clock that advances at once when something sleeps.
struct InstantClock(AtomicI64);

impl Clock for InstantClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(SeqCst)).unwrap()
    }
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0
            .fetch_add(i64::try_from(duration.as_millis()).unwrap(), SeqCst);
        Box::pin(tokio::task::yield_now())
    }
}

/// Callbacks by name: those in `dead` cannot be reached, `hangs…` never return, `picky` refuses STARTING, others accept.
#[derive(Default)]
struct Callbacks {
    received: Mutex<Vec<(String, Value)>>,
    dead: Mutex<BTreeSet<String>>,
    count: watch::Sender<usize>,
}

#[async_trait]
impl Subscribers for Callbacks {
    async fn test(&self, _: &Callback<'_>) -> Result<(), PortError> {
        Ok(())
    }

    async fn notify(&self, callback: &Callback<'_>, notification: &Value) -> Result<(), PortError> {
        let Callback {
            uri: callback,
            login,
            api_version: edition,
        } = *callback;
        let links = notification["_links"]["subscription"]["href"]
            .as_str()
            .unwrap();
        assert!(links.contains(edition.prefix()), "{links}");
        let password = login.and_then(|login| login.params_basic.as_ref()).unwrap();
        assert_eq!(password.password.reveal(), "planted-callback");
        if self.dead.lock().unwrap().contains(callback) {
            return Err(PortError::new(&UNREACHABLE, "tell", "nobody there"));
        }
        if callback == "picky" && notification["operationState"] == "STARTING" {
            return Err(PortError::new(&REFUSED, "tell", "422"));
        }
        if callback.starts_with("hangs") {
            std::future::pending::<()>().await;
        }
        self.received
            .lock()
            .unwrap()
            .push((callback.to_owned(), notification.clone()));
        self.count.send_modify(|count| *count += 1);
        Ok(())
    }
}

impl Callbacks {
    /// Distinct notifications to a callback: the operation state, or the kind.
    fn received(&self, callback: &str) -> Vec<String> {
        let received = self.received.lock().unwrap();
        let mut known = BTreeSet::new();
        let distinct = received.iter().filter(|(name, body)| {
            name == callback && known.insert(body["id"].as_str().unwrap().to_owned())
        });
        let kind = |body: &Value| {
            let what = body["operationState"]
                .as_str()
                .or(body["notificationType"].as_str());
            what.unwrap()
                .replace("VnfIdentifier", "")
                .replace("Notification", "")
        };
        distinct.map(|(_, body)| kind(body)).collect()
    }
}

struct Fixture {
    store: Arc<SqliteStore>,
    engine: Engine,
    callbacks: Arc<Callbacks>,
    clock: Arc<InstantClock>,
    patience: DeliveryTimeouts,
}

impl Fixture {
    async fn new() -> Self {
        let world = Arc::new(FakeWorld::default());
        let store = store().await;
        let engine = engine(store.clone(), &world);
        let now = Timestamp::now().as_millisecond();
        let unlimited = Duration::from_hours(24 * 365 * 100);
        let patience = DeliveryTimeouts {
            unanswered: unlimited,
            refused: unlimited,
        };
        let clock = Arc::new(InstantClock(now.into()));
        Self {
            store,
            engine,
            callbacks: Arc::default(),
            clock,
            patience,
        }
    }

    fn notifier(&self) -> Notifier {
        Notifier {
            store: self.store.clone(),
            clock: self.clock.clone(),
            subscribers: self.callbacks.clone(),
            patience: self.patience,
        }
    }

    async fn subscribe(&self, callback: &str, filter: Value) -> String {
        let request = json!({"callbackUri": callback, "filter": filter,
            "authentication": {"authType": ["BASIC"], "paramsBasic": {"userName": "u", "password": "planted-callback"}}});
        let request = serde_json::from_value(request).unwrap();
        let root = "http://vnfm.example.com";
        match self
            .engine
            .subscribe(
                TENANT,
                request,
                (root, &vnfm_core::query::VisibilityScope::default()),
                &*self.callbacks,
            )
            .await
            .unwrap()
        {
            SubscribeOutcome::New(record) => record.subscription.id,
            SubscribeOutcome::Known(id) => id,
        }
    }

    /// Creates, instantiates, terminates and deletes an instance.
    async fn life(&self) {
        let id = instance(&self.engine).await;
        let op = self
            .engine
            .instantiate(TENANT, &id, on("cloud"))
            .await
            .unwrap();
        self.engine.drive(&op).await.unwrap();
        let op = super::faults::begin(&self.engine, vnfm_types::LcmOperationType::Terminate, &id);
        let op = op.await;
        self.engine.drive(&op).await.unwrap();
        self.engine.delete(TENANT, &id).await.unwrap();
    }

    /// Waits until a callback has received this many.
    async fn wait_received(&self, callback: &str, many: usize) {
        let mut count = self.callbacks.count.subscribe();
        count
            .wait_for(|_| self.callbacks.received(callback).len() >= many)
            .await
            .unwrap();
    }

    /// Delivers notifications until `wanted` completes.
    async fn send_until(&self, wanted: impl Future<Output = ()>) {
        let notifier = self.notifier();
        tokio::select! {
            () = notifier.run() => unreachable!(),
            () = wanted => {}
        }
    }

    async fn record(&self, id: &str) -> SubscriptionRecord {
        self.store.subscription(TENANT, id).await.unwrap()
    }
}

const LIFE: [&str; 8] = [
    "Creation",
    "STARTING",
    "PROCESSING",
    "COMPLETED",
    "STARTING",
    "PROCESSING",
    "COMPLETED",
    "Deletion",
];

#[tokio::test]
async fn subscribers_receive_matching_notifications_in_order() {
    let fixture = Fixture::new().await;
    fixture.life().await;
    fixture.subscribe("all", json!({})).await;
    let ends = json!({"notificationTypes": ["VnfLcmOperationOccurrenceNotification"],
        "operationStates": ["COMPLETED"], "operationTypes": ["INSTANTIATE"]});
    fixture.subscribe("ends", ends).await;
    fixture.life().await;
    fixture
        .send_until(async {
            tokio::join!(
                fixture.wait_received("all", 8),
                fixture.wait_received("ends", 1)
            );
        })
        .await;
    assert_eq!(
        fixture.callbacks.received("all"),
        LIFE,
        "nothing from before the subscription"
    );
    assert_eq!(fixture.callbacks.received("ends"), ["COMPLETED"]);
    let received = fixture.callbacks.received.lock().unwrap();
    let to = |name: &'static str| {
        received
            .iter()
            .filter(move |(callback, _)| callback == name)
            .map(|(_, body)| body)
    };
    let end = to("ends").next().unwrap();
    let same = to("all").find(|body| body["id"] == end["id"]).unwrap();
    assert_ne!(same["subscriptionId"], end["subscriptionId"]);
    assert_eq!(same["operationState"], "COMPLETED");
    assert!(end["affectedVnfcs"].is_array(), "{end:#}");
    let ids: BTreeSet<_> = to("all").map(|body| body["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), LIFE.len(), "each has its own id");
}

#[tokio::test]
async fn a_dead_or_hanging_subscriber_does_not_delay_others() {
    let fixture = Fixture::new().await;
    fixture.callbacks.dead.lock().unwrap().insert("dead".into());
    for callback in ["dead", "hangs", "quick"] {
        fixture.subscribe(callback, json!({})).await;
    }
    fixture.life().await;
    fixture.send_until(fixture.wait_received("quick", 8)).await;
    assert_eq!(fixture.callbacks.received("quick"), LIFE);
    assert_eq!(fixture.callbacks.received("dead"), [""; 0]);
}

#[tokio::test]
async fn undelivered_notifications_are_resent_after_a_restart() {
    let fixture = Fixture::new().await;
    let id = fixture.subscribe("later", json!({})).await;
    fixture.subscribe("quick", json!({})).await;
    fixture
        .callbacks
        .dead
        .lock()
        .unwrap()
        .insert("later".into());
    fixture.life().await;
    fixture.send_until(fixture.wait_received("quick", 8)).await;
    assert_eq!(fixture.record(&id).await.sent, 0);
    fixture.callbacks.dead.lock().unwrap().clear();
    let progress_saved = async {
        while fixture.record(&id).await.sent == 0 {
            tokio::task::yield_now().await;
        }
    };
    fixture.send_until(progress_saved).await;
    assert_eq!(fixture.callbacks.received("later"), LIFE);
    let before = fixture.callbacks.received.lock().unwrap().len();
    fixture.life().await;
    fixture.send_until(fixture.wait_received("later", 16)).await;
    assert_eq!(fixture.callbacks.received("later"), [LIFE, LIFE].concat());
    let received = fixture.callbacks.received.lock().unwrap();
    let resent = received[before..]
        .iter()
        .filter(|(name, _)| name == "later");
    assert_eq!(
        resent.count(),
        LIFE.len(),
        "recorded deliveries are not repeated"
    );
}

#[tokio::test]
async fn undeliverable_notifications_are_dropped_and_counted() {
    let mut fixture = Fixture::new().await;
    fixture.patience = DeliveryTimeouts::default();
    let id = fixture.subscribe("dead", json!({})).await;
    fixture.callbacks.dead.lock().unwrap().insert("dead".into());
    fixture.life().await;
    let given_up = async {
        while fixture.record(&id).await.lost < 8 {
            tokio::task::yield_now().await;
        }
    };
    fixture.send_until(given_up).await;
    fixture.callbacks.dead.lock().unwrap().clear();
    fixture.life().await;
    fixture.send_until(fixture.wait_received("dead", 8)).await;
    assert_eq!(
        fixture.callbacks.received("dead"),
        LIFE,
        "later notifications are delivered"
    );
    assert_eq!(fixture.record(&id).await.lost, 8);
}

#[tokio::test]
async fn a_refused_notification_is_skipped_after_its_timeout() {
    let mut fixture = Fixture::new().await;
    fixture.patience = DeliveryTimeouts::default();
    let id = fixture.subscribe("picky", json!({})).await;
    fixture.life().await;
    let begun = fixture.clock.now();
    fixture.send_until(fixture.wait_received("picky", 6)).await;
    let accepted: Vec<_> = LIFE
        .into_iter()
        .filter(|state| *state != "STARTING")
        .collect();
    assert_eq!(fixture.callbacks.received("picky"), accepted);
    let took = fixture.clock.now().duration_since(begun).unsigned_abs();
    let each = DeliveryTimeouts::default().refused;
    assert!((2 * each..3 * each).contains(&took), "{took:?}");
    let counted = async {
        while fixture.record(&id).await.lost < 2 {
            tokio::task::yield_now().await;
        }
    };
    fixture.send_until(counted).await;
}

#[tokio::test]
async fn deleted_subscriptions_stop_and_new_ones_start_at_once() {
    let fixture = Fixture::new().await;
    let id = fixture.subscribe("gone", json!({})).await;
    fixture.callbacks.dead.lock().unwrap().insert("gone".into());
    fixture.life().await;
    let change = async {
        fixture.engine.unsubscribe(TENANT, &id).await.unwrap();
        fixture.callbacks.dead.lock().unwrap().clear();
        fixture.subscribe("new", json!({})).await;
        fixture.life().await;
        fixture.wait_received("new", 8).await;
    };
    Box::pin(fixture.send_until(change)).await;
    assert_eq!(fixture.callbacks.received("new"), LIFE);
    assert!(
        fixture.callbacks.received("gone").len() <= 1,
        "except for one in flight"
    );
    assert!(
        fixture
            .store
            .subscriptions(TENANT, &Query::default())
            .await
            .unwrap()
            .len()
            == 1
    );
}

/// Outbox reads for one lifecycle with one matching subscription and `strangers` of another tenant.
async fn outbox_reads_with(strangers: usize) -> usize {
    let fixture = Fixture::new().await;
    for number in 0..strangers {
        let request = json!({"callbackUri": format!("stranger-{number}"), "authentication": {
            "authType": ["BASIC"],
            "paramsBasic": {"userName": "u", "password": "planted-callback"}}});
        let request = serde_json::from_value(request).unwrap();
        let scope = vnfm_core::query::VisibilityScope::default();
        let root = ("http://vnfm.example.com", &scope);
        fixture
            .engine
            .subscribe("stranger", request, root, &*fixture.callbacks)
            .await
            .unwrap();
    }
    fixture.subscribe("own", json!({})).await;
    fixture.life().await;
    let counting = counting(fixture.store.clone());
    let notifier = Notifier {
        store: counting.clone(),
        ..fixture.notifier()
    };
    tokio::select! {
        () = notifier.run() => unreachable!(),
        () = fixture.wait_received("own", LIFE.len()) => {}
    }
    assert_eq!(fixture.callbacks.received("own"), LIFE);
    assert!((0..strangers).all(|n| {
        fixture
            .callbacks
            .received(&format!("stranger-{n}"))
            .is_empty()
    }));
    counting.interceptor().outbox_reads()
}

#[tokio::test]
async fn subscriptions_of_other_tenants_cause_no_outbox_reads() {
    let alone = outbox_reads_with(0).await;
    let with_others = outbox_reads_with(300).await;
    assert!(
        with_others <= alone + 1,
        "{with_others} reads instead of {alone}"
    );
}

/// A dead subscriber gets one batch at a time, and the rest once it responds; others do not wait for it.
#[tokio::test]
async fn a_slow_subscriber_does_not_delay_others_and_receives_everything() {
    let fixture = Fixture::new().await;
    fixture.subscribe("dead", json!({})).await;
    fixture.subscribe("quick", json!({})).await;
    fixture
        .callbacks
        .dead
        .lock()
        .unwrap()
        .insert("dead".to_owned());
    let lives = 20;
    let all = lives * LIFE.len();
    fixture
        .send_until(async {
            for _ in 0..lives {
                Box::pin(fixture.life()).await;
            }
            fixture.wait_received("quick", all).await;
            assert!(fixture.callbacks.received("dead").is_empty());
            fixture.callbacks.dead.lock().unwrap().clear();
            fixture.wait_received("dead", all).await;
        })
        .await;
    let (quick, dead) = (
        fixture.callbacks.received("quick"),
        fixture.callbacks.received("dead"),
    );
    assert_eq!(quick, LIFE.repeat(lives));
    assert_eq!(dead, quick);
}

//! Subscribers that are quick, slow, dead or gone: each hears what it wants, in order, at least once.

use super::fakes::*;
use super::stopping_store::Stopping;
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
use vnfm_core::{Engine, Notifier, Patience, Subscribed};
use vnfm_store::SqliteStore;

const NOT_THERE: Code = Code {
    name: "test.not-there",
    kind: ErrorKind::Unavailable,
    means: "it is not there",
    next: "wait",
};

const INDIGESTIBLE: Code = Code {
    name: "test.indigestible",
    kind: ErrorKind::Refused,
    means: "it does not like it",
    next: "none",
};

/// Time passes as soon as somebody waits for it.
struct Quick(AtomicI64);

impl Clock for Quick {
    fn now(&self) -> Timestamp {
        Timestamp::from_millisecond(self.0.load(SeqCst)).unwrap()
    }
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        self.0
            .fetch_add(i64::try_from(duration.as_millis()).unwrap(), SeqCst);
        Box::pin(tokio::task::yield_now())
    }
}

/// Callbacks by name: `dead…` never answers, `hangs…` never ends, `picky` refuses beginnings, all others take what they get.
#[derive(Default)]
struct Callbacks {
    heard: Mutex<Vec<(String, Value)>>,
    dead: Mutex<BTreeSet<String>>,
    count: watch::Sender<usize>,
}

#[async_trait]
impl Subscribers for Callbacks {
    async fn test(&self, _: &Callback<'_>) -> Result<(), PortError> {
        Ok(())
    }

    async fn tell(&self, callback: &Callback<'_>, notification: &Value) -> Result<(), PortError> {
        let Callback {
            uri: callback,
            login,
            edition,
        } = *callback;
        let links = notification["_links"]["subscription"]["href"]
            .as_str()
            .unwrap();
        assert!(links.contains(edition.prefix()), "{links}");
        let password = login.and_then(|login| login.params_basic.as_ref()).unwrap();
        assert_eq!(password.password.reveal(), "planted-callback");
        if self.dead.lock().unwrap().contains(callback) {
            return Err(PortError::new(&NOT_THERE, "tell", "nobody there"));
        }
        if callback == "picky" && notification["operationState"] == "STARTING" {
            return Err(PortError::new(&INDIGESTIBLE, "tell", "422"));
        }
        if callback.starts_with("hangs") {
            std::future::pending::<()>().await;
        }
        self.heard
            .lock()
            .unwrap()
            .push((callback.to_owned(), notification.clone()));
        self.count.send_modify(|count| *count += 1);
        Ok(())
    }
}

impl Callbacks {
    /// What a callback heard, each once: the operation's state, or the kind of the notification.
    fn heard(&self, callback: &str) -> Vec<String> {
        let heard = self.heard.lock().unwrap();
        let mut known = BTreeSet::new();
        let of = heard.iter().filter(|(name, body)| {
            name == callback && known.insert(body["id"].as_str().unwrap().to_owned())
        });
        let said = |body: &Value| {
            let what = body["operationState"]
                .as_str()
                .or(body["notificationType"].as_str());
            what.unwrap()
                .replace("VnfIdentifier", "")
                .replace("Notification", "")
        };
        of.map(|(_, body)| said(body)).collect()
    }
}

struct Scene {
    store: Arc<SqliteStore>,
    engine: Engine,
    callbacks: Arc<Callbacks>,
    clock: Arc<Quick>,
    patience: Patience,
}

impl Scene {
    async fn new() -> Self {
        let world = Arc::new(World::default());
        let store = store().await;
        let engine = engine(store.clone(), &world);
        let now = Timestamp::now().as_millisecond();
        let for_ever = Duration::from_hours(24 * 365 * 100);
        let patience = Patience {
            unanswered: for_ever,
            refused: for_ever,
        };
        let clock = Arc::new(Quick(now.into()));
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
                (root, &vnfm_core::query::Sight::default()),
                &*self.callbacks,
            )
            .await
            .unwrap()
        {
            Subscribed::New(record) => record.subscription.id,
            Subscribed::Known(id) => id,
        }
    }

    /// An instance from its creation to its deletion.
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

    /// Completes once a callback has heard so many.
    async fn told(&self, callback: &str, many: usize) {
        let mut count = self.callbacks.count.subscribe();
        count
            .wait_for(|_| self.callbacks.heard(callback).len() >= many)
            .await
            .unwrap();
    }

    /// Sends until `wanted` completes.
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
    let scene = Scene::new().await;
    scene.life().await;
    scene.subscribe("all", json!({})).await;
    let ends = json!({"notificationTypes": ["VnfLcmOperationOccurrenceNotification"],
        "operationStates": ["COMPLETED"], "operationTypes": ["INSTANTIATE"]});
    scene.subscribe("ends", ends).await;
    scene.life().await;
    scene
        .send_until(async {
            tokio::join!(scene.told("all", 8), scene.told("ends", 1));
        })
        .await;
    assert_eq!(scene.callbacks.heard("all"), LIFE, "nothing of before");
    assert_eq!(scene.callbacks.heard("ends"), ["COMPLETED"]);
    let heard = scene.callbacks.heard.lock().unwrap();
    let of = |name: &'static str| {
        heard
            .iter()
            .filter(move |(of, _)| of == name)
            .map(|(_, body)| body)
    };
    let end = of("ends").next().unwrap();
    let same = of("all").find(|body| body["id"] == end["id"]).unwrap();
    assert_ne!(same["subscriptionId"], end["subscriptionId"]);
    assert_eq!(same["operationState"], "COMPLETED");
    assert!(end["affectedVnfcs"].is_array(), "{end:#}");
    let ids: BTreeSet<_> = of("all").map(|body| body["id"].as_str().unwrap()).collect();
    assert_eq!(ids.len(), LIFE.len(), "each has its own id");
}

#[tokio::test]
async fn a_dead_or_hanging_subscriber_does_not_delay_others() {
    let scene = Scene::new().await;
    scene.callbacks.dead.lock().unwrap().insert("dead".into());
    for callback in ["dead", "hangs", "quick"] {
        scene.subscribe(callback, json!({})).await;
    }
    scene.life().await;
    scene.send_until(scene.told("quick", 8)).await;
    assert_eq!(scene.callbacks.heard("quick"), LIFE);
    assert_eq!(scene.callbacks.heard("dead"), [""; 0]);
}

#[tokio::test]
async fn undelivered_notifications_are_resent_after_a_restart() {
    let scene = Scene::new().await;
    let id = scene.subscribe("later", json!({})).await;
    scene.subscribe("quick", json!({})).await;
    scene.callbacks.dead.lock().unwrap().insert("later".into());
    scene.life().await;
    scene.send_until(scene.told("quick", 8)).await;
    assert_eq!(scene.record(&id).await.sent, 0);
    scene.callbacks.dead.lock().unwrap().clear();
    let noted = async {
        while scene.record(&id).await.sent == 0 {
            tokio::task::yield_now().await;
        }
    };
    scene.send_until(noted).await;
    assert_eq!(scene.callbacks.heard("later"), LIFE);
    let before = scene.callbacks.heard.lock().unwrap().len();
    scene.life().await;
    scene.send_until(scene.told("later", 16)).await;
    assert_eq!(scene.callbacks.heard("later"), [LIFE, LIFE].concat());
    let heard = scene.callbacks.heard.lock().unwrap();
    let anew = heard[before..].iter().filter(|(name, _)| name == "later");
    assert_eq!(anew.count(), LIFE.len(), "what was noted is not sent again");
}

#[tokio::test]
async fn undeliverable_notifications_are_dropped_and_counted() {
    let mut scene = Scene::new().await;
    scene.patience = Patience::default();
    let id = scene.subscribe("dead", json!({})).await;
    scene.callbacks.dead.lock().unwrap().insert("dead".into());
    scene.life().await;
    let given_up = async {
        while scene.record(&id).await.lost < 8 {
            tokio::task::yield_now().await;
        }
    };
    scene.send_until(given_up).await;
    scene.callbacks.dead.lock().unwrap().clear();
    scene.life().await;
    scene.send_until(scene.told("dead", 8)).await;
    assert_eq!(
        scene.callbacks.heard("dead"),
        LIFE,
        "what came after it is told"
    );
    assert_eq!(scene.record(&id).await.lost, 8);
}

#[tokio::test]
async fn a_refused_notification_is_skipped_after_its_timeout() {
    let mut scene = Scene::new().await;
    scene.patience = Patience::default();
    let id = scene.subscribe("picky", json!({})).await;
    scene.life().await;
    let begun = scene.clock.now();
    scene.send_until(scene.told("picky", 6)).await;
    let digested: Vec<_> = LIFE
        .into_iter()
        .filter(|state| *state != "STARTING")
        .collect();
    assert_eq!(scene.callbacks.heard("picky"), digested);
    let took = scene.clock.now().duration_since(begun).unsigned_abs();
    let each = Patience::default().refused;
    assert!((2 * each..3 * each).contains(&took), "{took:?}");
    let counted = async {
        while scene.record(&id).await.lost < 2 {
            tokio::task::yield_now().await;
        }
    };
    scene.send_until(counted).await;
}

#[tokio::test]
async fn deleted_subscriptions_stop_and_new_ones_start_at_once() {
    let scene = Scene::new().await;
    let id = scene.subscribe("gone", json!({})).await;
    scene.callbacks.dead.lock().unwrap().insert("gone".into());
    scene.life().await;
    let change = async {
        scene.engine.unsubscribe(TENANT, &id).await.unwrap();
        scene.callbacks.dead.lock().unwrap().clear();
        scene.subscribe("new", json!({})).await;
        scene.life().await;
        scene.told("new", 8).await;
    };
    Box::pin(scene.send_until(change)).await;
    assert_eq!(scene.callbacks.heard("new"), LIFE);
    assert!(
        scene.callbacks.heard("gone").len() <= 1,
        "but for one that was on its way"
    );
    assert!(
        scene
            .store
            .subscriptions(TENANT, &Query::default())
            .await
            .unwrap()
            .len()
            == 1
    );
}

/// How often the outbox is read for a life that one subscription hears of, beside so many of another tenant.
async fn reads_beside(strangers: usize) -> usize {
    let scene = Scene::new().await;
    for number in 0..strangers {
        let request = json!({"callbackUri": format!("stranger-{number}"), "authentication": {
            "authType": ["BASIC"],
            "paramsBasic": {"userName": "u", "password": "planted-callback"}}});
        let request = serde_json::from_value(request).unwrap();
        let sight = vnfm_core::query::Sight::default();
        let whose = ("http://vnfm.example.com", &sight);
        scene
            .engine
            .subscribe("stranger", request, whose, &*scene.callbacks)
            .await
            .unwrap();
    }
    scene.subscribe("own", json!({})).await;
    scene.life().await;
    let counting = Arc::new(Stopping::new(scene.store.clone(), usize::MAX, false));
    let notifier = Notifier {
        store: counting.clone(),
        ..scene.notifier()
    };
    tokio::select! {
        () = notifier.run() => unreachable!(),
        () = scene.told("own", LIFE.len()) => {}
    }
    assert_eq!(scene.callbacks.heard("own"), LIFE);
    assert!((0..strangers).all(|n| scene.callbacks.heard(&format!("stranger-{n}")).is_empty()));
    counting.reads()
}

#[tokio::test]
async fn subscriptions_of_other_tenants_cause_no_outbox_reads() {
    let alone = reads_beside(0).await;
    let beside = reads_beside(300).await;
    assert!(beside <= alone + 1, "{beside} reads instead of {alone}");
}

/// One that hangs has a handful handed to it, and hears the rest once it answers; nobody waits for it.
#[tokio::test]
async fn a_slow_subscriber_does_not_delay_others_and_receives_everything() {
    let scene = Scene::new().await;
    scene.subscribe("dead", json!({})).await;
    scene.subscribe("quick", json!({})).await;
    scene
        .callbacks
        .dead
        .lock()
        .unwrap()
        .insert("dead".to_owned());
    let lives = 20;
    let all = lives * LIFE.len();
    scene
        .send_until(async {
            for _ in 0..lives {
                Box::pin(scene.life()).await;
            }
            scene.told("quick", all).await;
            assert!(scene.callbacks.heard("dead").is_empty());
            scene.callbacks.dead.lock().unwrap().clear();
            scene.told("dead", all).await;
        })
        .await;
    let (quick, dead) = (
        scene.callbacks.heard("quick"),
        scene.callbacks.heard("dead"),
    );
    assert_eq!(quick, LIFE.repeat(lives));
    assert_eq!(dead, quick);
}

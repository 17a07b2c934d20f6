//! Packages of the NFVO: fetched when an instance is created or when they are on-boarded there, and
//! kept in step with it.

use crate::bench::{Bench, INSTANCES, PACKAGES, Response, Setup, packed};
use crate::tenants::users;
use axum::Router;
use axum::extract::Request;
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use vnfm_descriptor::{Limits, Package};
use vnfm_server::{Nfvo, NfvoPackageSource};
use vnfm_sim::faults::{Fault, Rule};
use vnfm_sim::nfvo::Policy;
use vnfm_sim::{Options, World};

const NOTIFICATIONS: &str = "/vnfm/v1/nfvo_notifications";

/// An NFVO with VNF-B, and a server that gets its packages from it.
struct Scene {
    world: World,
    bench: Bench,
    vnfd: String,
}

impl Scene {
    async fn new(more: &str) -> Self {
        Self::with(more, Setup::default()).await
    }

    async fn with(more: &str, setup: Setup) -> Self {
        let world = World::start(Options::default()).await.unwrap();
        let at = world.nfvo().url().to_owned();
        Self::at(&at, world, more, setup).await
    }

    /// A server that calls the NFVO of this world at this address.
    async fn at(url: &str, world: World, more: &str, setup: Setup) -> Self {
        let nfvo = format!("{{endpoint: '{url}', packages: {{{more}}}}}");
        let bench = Bench::with(Setup {
            nfvo: Some(nfvo),
            ..setup
        })
        .await;
        let package = Package::from_bytes(packed("vnf-b-cnf"), &Limits::default()).unwrap();
        Self {
            world,
            bench,
            vnfd: package.vnfd().descriptor_id.clone(),
        }
    }

    fn offer(&self) {
        self.world
            .nfvo()
            .onboard("at-nfvo", &self.vnfd, packed("vnf-b-cnf"));
    }

    async fn create(&self) -> Response {
        self.bench
            .post(INSTANCES, &json!({"vnfdId": self.vnfd}))
            .await
    }

    /// Asserts that the creation is refused, and leaves no package.
    async fn refuses(&self, status: u16, code: &str, says: &str) {
        let refused = self.create().await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (status, &json!(code)),
            "{refused:?}"
        );
        assert!(
            refused.detail().contains(says),
            "`{}` lacks `{says}`",
            refused.detail()
        );
        assert_eq!(refused.headers.contains_key("retry-after"), status == 503);
        assert_eq!(self.packages().await, json!([]), "{code}");
    }

    async fn packages(&self) -> Value {
        self.bench.get(&format!("{PACKAGES}?all_fields")).await.body
    }

    fn calls(&self, call: &str) -> usize {
        self.world.ledger().calls_named(call).len()
    }

    /// Waits until the packages fulfil the condition.
    async fn until(&self, what: &str, holds: impl Fn(&[Value]) -> bool) {
        for _ in 0..10_000 {
            if holds(self.packages().await.as_array().unwrap()) {
                return;
            }
        }
        panic!("{what}: {:#}", self.packages().await);
    }

    /// Waits until the NFVO has a subscription; returns all.
    async fn subscribed(&self) -> Value {
        loop {
            let page = self.world.nfvo().report();
            if page["subscriptions"]
                .as_array()
                .is_some_and(|all| !all.is_empty())
            {
                return page["subscriptions"].clone();
            }
            tokio::task::yield_now().await;
        }
    }
}

fn is(state: &'static str) -> impl Fn(&[Value]) -> bool {
    move |all| all.iter().any(|one| one["operationalState"] == state)
}

#[tokio::test]
async fn a_missing_package_is_fetched_from_the_nfvo_on_creation_of_an_instance() {
    let scene = Scene::new("subscribe: false").await;
    scene.refuses(422, "nfvo.no-package", &scene.vnfd).await;
    scene.offer();
    scene.world.faults().add(Rule::new(
        "nfvo.package_content",
        Fault::CutAfter { cut_after: 1000 },
    ));
    let created = scene.create().await;
    assert_eq!(
        (created.status, &created.body["vnfdId"]),
        (201, &json!(scene.vnfd)),
        "{created:?}"
    );
    let ranges: Vec<_> = scene.world.ledger().calls_named("nfvo.package_content");
    let ranges: Vec<_> = ranges.iter().map(|call| call.subject.as_str()).collect();
    assert_eq!(ranges, ["at-nfvo ", "at-nfvo bytes=1000-"]);
    let package = &scene.packages().await[0];
    assert_eq!(
        package["nfvo"],
        json!({"vnfPkgId": "at-nfvo", "operationalState": "ENABLED"})
    );
    assert_eq!(
        (&package["onboardingState"], &package["usageState"]),
        (&json!("ONBOARDED"), &json!("IN_USE"))
    );
    assert_eq!(scene.create().await.status, 201);
    assert_eq!(
        scene.calls("nfvo.packages"),
        2,
        "a local package is not requested"
    );
    // It can be used like any other package.
    let request = scene.bench.request_b().await;
    let path = format!("{INSTANCES}/{}/instantiate", created.id());
    let begun = scene.bench.post(&path, &request).await;
    assert_eq!(
        scene.bench.ended(&begun.created_id()).await["operationState"],
        "COMPLETED"
    );
    assert_eq!(scene.world.ledger().violations(), [""; 0]);
}

#[tokio::test]
async fn concurrent_creations_fetch_a_package_once() {
    let scene = Scene::new("subscribe: false").await;
    scene.offer();
    let all = futures::future::join_all((0..8).map(|_| scene.create())).await;
    assert!(all.iter().all(|created| created.status == 201), "{all:?}");
    assert_eq!(scene.calls("nfvo.package_content"), 1);
    assert_eq!(scene.packages().await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn each_tenant_gets_its_own_package_from_one_download() {
    let setup = users("");
    let scene = Scene::with("subscribe: false, tenants: [acme, other]", setup).await;
    scene.offer();
    for user in ["acme-admin", "other-admin"] {
        scene.bench.log_in(user);
        assert_eq!(scene.create().await.status, 201, "{user}");
        assert_eq!(
            scene.packages().await.as_array().unwrap().len(),
            1,
            "{user}"
        );
    }
    assert_eq!(
        scene.calls("nfvo.package_content"),
        1,
        "the second package has the same hash"
    );
    scene.bench.log_in("root");
    let refused = scene.create().await;
    assert_eq!(
        refused.body["code"], "request.no-package",
        "this tenant gets no packages from the NFVO"
    );
}

#[tokio::test]
async fn a_failed_fetch_from_the_nfvo_is_reported_and_leaves_nothing() {
    let scene = Scene::new("subscribe: false").await;
    let faults = scene.world.faults();
    scene.offer();
    let says = |package: Value| {
        scene.world.nfvo().set_policy(Policy {
            package,
            ..Policy::default()
        });
    };
    faults.add(Rule::new("nfvo.packages", Fault::Status { status: 503 }));
    scene.refuses(503, "nfvo.failing", "503").await;
    faults.add(Rule::new(
        "nfvo.package_content",
        Fault::Status { status: 404 },
    ));
    scene.refuses(422, "download.refused", "404").await;
    says(json!({"checksum": {"hash": "0".repeat(64)}}));
    scene
        .refuses(422, "nfvo.package-checksum", "the stated one 000")
        .await;
    says(json!({"operationalState": 7}));
    scene
        .refuses(422, "nfvo.package-malformed", "operationalState")
        .await;
    says(json!({"operationalState": "DISABLED"}));
    scene
        .refuses(422, "nfvo.package-disabled", "DISABLED")
        .await;
    says(json!({"onboardingState": "UPLOADING"}));
    scene
        .refuses(503, "nfvo.package-not-onboarded", "UPLOADING")
        .await;
    says(Value::Null);
    // The NFVO offers the VNFD, but the content is not a package.
    scene
        .world
        .nfvo()
        .onboard("at-nfvo", &scene.vnfd, b"no package at all".to_vec());
    scene.refuses(422, "package.refused", "zip").await;
    scene.offer();
    assert_eq!(scene.create().await.status, 201);
}

#[tokio::test]
async fn a_slow_fetch_gets_503_and_continues_in_the_background() {
    let scene = Scene::new("subscribe: false, wait_seconds: 1").await;
    scene.offer();
    let slow = Fault::Delay { delay_ms: 1500 };
    scene
        .world
        .faults()
        .add(Rule::new("nfvo.package_content", slow));
    let refused = scene.create().await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (503, &json!("package.on-its-way"))
    );
    let created = loop {
        let created = scene.create().await;
        if created.status != 503 {
            break created;
        }
    };
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(
        scene.calls("nfvo.package_content"),
        1,
        "the download is not repeated"
    );
}

#[tokio::test]
async fn packages_onboarded_at_the_nfvo_are_fetched_and_followed() {
    let scene = Scene::new("").await;
    let subscriptions = scene.subscribed().await;
    let callback = format!("{}{NOTIFICATIONS}", scene.bench.url);
    assert_eq!(
        subscriptions[0]["callbackUri"], callback,
        "{subscriptions:#}"
    );
    scene.offer();
    scene
        .until("it is fetched before it is used", is("ENABLED"))
        .await;
    let id = scene.packages().await[0]["id"].as_str().unwrap().to_owned();
    let path = format!("{PACKAGES}/{id}");

    scene.world.nfvo().set_package("at-nfvo", "DISABLED");
    scene.until("it is disabled there", is("DISABLED")).await;
    let refused = scene.create().await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (422, &json!("request.no-package"))
    );
    scene.world.nfvo().set_package("at-nfvo", "ENABLED");
    scene.until("it is enabled there", is("ENABLED")).await;

    // A package in use is only disabled; an unused one is deleted.
    let instance = scene.create().await.id();
    scene.world.nfvo().delete_package("at-nfvo");
    scene
        .until("it is deleted there and in use here", is("DISABLED"))
        .await;
    let instance = format!("{INSTANCES}/{instance}");
    assert_eq!(scene.bench.delete(&instance).await.status, 204);
    assert_eq!(scene.bench.delete(&path).await.status, 204);
    scene.offer();
    scene.until("it is on-boarded again", is("ENABLED")).await;
    scene.world.nfvo().delete_package("at-nfvo");
    scene
        .until("it is deleted there and unused here", <[Value]>::is_empty)
        .await;
    for sent in scene.world.nfvo().report()["told"].as_array().unwrap() {
        assert_eq!(sent["status"], 204, "{sent:#}");
        let kind = sent["notification"]["notificationType"].as_str().unwrap();
        crate::oracle::check(kind, &sent["notification"]);
    }
}

#[tokio::test]
async fn a_subscription_lost_by_the_nfvo_is_recreated_and_missed_changes_are_found() {
    let scene = Scene::new("look_seconds: 1").await;
    scene.subscribed().await;
    scene.offer();
    scene.until("it is fetched", is("ENABLED")).await;
    scene.world.nfvo().forget_subscriptions();
    scene.world.nfvo().set_package("at-nfvo", "DISABLED");
    scene
        .until("the change is found without a notification", is("DISABLED"))
        .await;
    assert_eq!(scene.subscribed().await.as_array().unwrap().len(), 1);
    // A local decision stays until the NFVO changes the state.
    let id = scene.packages().await[0]["id"].as_str().unwrap().to_owned();
    let patch = scene
        .bench
        .request(Method::PATCH, &format!("{PACKAGES}/{id}"));
    let patch = patch.json(&json!({"operationalState": "ENABLED"}));
    assert_eq!(scene.bench.send(patch).await.status, 200);
    let looks = scene.calls("nfvo.package");
    while scene.calls("nfvo.package") < looks + 2 {
        tokio::task::yield_now().await;
    }
    assert!(is("ENABLED")(scene.packages().await.as_array().unwrap()));
}

#[tokio::test]
async fn a_restarted_server_has_one_subscription_at_the_nfvo() {
    let first = Scene::new("").await;
    let before = first.subscribed().await;
    let endpoint = first.world.nfvo().url();
    let nfvo = format!("{{endpoint: '{endpoint}', packages: {{}}}}");
    let nfvo: Nfvo = serde_yaml::from_str(&nfvo).unwrap();
    // A second process at the same address.
    let clock = Arc::new(vnfm::SystemClock);
    let connection = Arc::new(nfvo.connect(&first.bench.url, clock).unwrap());
    let second = NfvoPackageSource::new(&connection, first.bench.app.intake()).unwrap();
    let mut standing = tokio::task::JoinSet::new();
    standing.spawn(async move { second.follow().await });
    loop {
        let now = first.world.nfvo().report()["subscriptions"].clone();
        if now != before && now.as_array().is_some_and(|all| all.len() == 1) {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn only_the_nfvo_can_send_package_notifications() {
    let scene = Scene::new("").await;
    scene.subscribed().await;
    let body = json!({"notificationType": "VnfPackageOnboardingNotification", "vnfPkgId": "x", "vnfdId": "y"});
    let tell = |login: Option<(&str, &str)>| {
        let request = scene.bench.request(Method::POST, NOTIFICATIONS).json(&body);
        match login {
            Some((user, password)) => request.basic_auth(user, Some(password)),
            None => request,
        }
    };
    for login in [
        None,
        Some(("nfvo", "")),
        Some(("nfvo", "guessed")),
        Some(("", "")),
    ] {
        let refused = scene.bench.send(tell(login)).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (401, &json!("request.unauthorized"))
        );
    }
    assert_eq!(scene.bench.get(NOTIFICATIONS).await.status, 401);
    assert_eq!(
        scene.calls("nfvo.packages"),
        0,
        "the notifications were ignored"
    );
    let none = Bench::new().await;
    assert_eq!(
        none.send(none.request(Method::POST, NOTIFICATIONS).json(&body))
            .await
            .status,
        401
    );
}

/// A proxy before the NFVO that holds downloads of archives until it is opened; a fault in the
/// simulator would never respond instead.
struct Gate {
    url: String,
    opened: watch::Sender<bool>,
    _task: JoinSet<()>,
}

impl Gate {
    async fn before(world: &World) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (nfvo, opened) = (world.nfvo().url().to_owned(), watch::Sender::new(false));
        let client = reqwest::Client::builder().no_proxy().build().unwrap();
        let waits = opened.subscribe();
        let router = Router::new().fallback(move |request: Request| {
            let (client, mut waits) = (client.clone(), waits.clone());
            let to = format!("{nfvo}{}", request.uri());
            async move {
                if request.uri().path().ends_with("/package_content") {
                    let _ = waits.wait_for(|opened| *opened).await;
                }
                let passed = client.get(to).headers(request.headers().clone());
                let response = passed.send().await.unwrap();
                let (status, headers) = (response.status(), response.headers().clone());
                (status, headers, response.bytes().await.unwrap())
            }
        });
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            opened,
            _task: task,
        }
    }
}

#[tokio::test]
async fn a_pending_fetch_does_not_block_other_creations_of_the_tenant() {
    let world = World::start(Options::default()).await.unwrap();
    let gate = Gate::before(&world).await;
    let (more, setup) = (
        "subscribe: false, tenants: [acme]",
        users("quota: {instances: 2}"),
    );
    let scene = Scene::at(&gate.url, world, more, setup).await;
    scene.bench.log_in("acme-admin");
    let (_, here) = scene.bench.onboard("cnf-chart").await;
    scene.offer();
    let mut slow = Box::pin(scene.create());
    let is_on_its_way = |all: &[Value]| all.iter().any(|one| one["onboardingState"] == "UPLOADING");
    tokio::select! {
        created = &mut slow => panic!("the creation did not wait for the package: {created:?}"),
        () = scene.until("it is on its way", is_on_its_way) => {}
    }
    tokio::select! {
        created = &mut slow => panic!("the other creation was blocked: {created:?}"),
        _ = scene.bench.create(&here) => {}
    }
    gate.opened.send_replace(true);
    assert_eq!(slow.await.status, 201);
    let refused = scene.create().await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("access.quota"))
    );
}

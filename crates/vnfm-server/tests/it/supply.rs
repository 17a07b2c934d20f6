//! Packages that come from the NFVO: fetched when an instance is made, fetched when they are on-boarded there, and followed.

use crate::bench::{Answer, Bench, INSTANCES, PACKAGES, Setup, packed};
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
use vnfm_sim::faults::{Fault, Rule};
use vnfm_sim::nfvo::{CLIENT, PASSWORD, Policy, Wanted};
use vnfm_sim::{Options, World};

const NOTIFICATIONS: &str = "/vnfm/v1/nfvo_notifications";

/// An NFVO that has VNF-B, and a server that gets its packages from there.
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

    /// The server finds the NFVO of this world at this address.
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
            .offer("at-nfvo", &self.vnfd, packed("vnf-b-cnf"));
    }

    async fn create(&self) -> Answer {
        self.bench
            .post(INSTANCES, &json!({"vnfdId": self.vnfd}))
            .await
    }

    /// It is refused with this, and no package is here afterwards.
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
        self.world.books().calls_of(call).len()
    }

    /// Completes once there is a package for which this holds.
    async fn until(&self, what: &str, holds: impl Fn(&[Value]) -> bool) {
        for _ in 0..10_000 {
            if holds(self.packages().await.as_array().unwrap()) {
                return;
            }
        }
        panic!("{what}: {:#}", self.packages().await);
    }

    /// Completes once the NFVO has so many subscriptions, and not only for a moment.
    async fn subscribed(&self) -> Value {
        loop {
            let page = self.world.nfvo().page();
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
async fn what_is_not_here_is_fetched_when_an_instance_is_made_of_it() {
    let scene = Scene::new("subscribe: false").await;
    scene.refuses(422, "nfvo.no-package", &scene.vnfd).await;
    scene.offer();
    scene.world.faults().arm(Rule::new(
        "nfvo.package_content",
        Fault::CutAfter { cut_after: 1000 },
    ));
    let made = scene.create().await;
    assert_eq!(
        (made.status, &made.body["vnfdId"]),
        (201, &json!(scene.vnfd)),
        "{made:?}"
    );
    let ranges: Vec<_> = scene.world.books().calls_of("nfvo.package_content");
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
        "what is here is not asked for"
    );
    // It is a package like any other.
    let request = scene.bench.request_b().await;
    let path = format!("{INSTANCES}/{}/instantiate", made.id());
    let begun = scene.bench.post(&path, &request).await;
    assert_eq!(
        scene.bench.ended(&begun.made()).await["operationState"],
        "COMPLETED"
    );
    assert_eq!(scene.world.books().violations(), [""; 0]);
}

#[tokio::test]
async fn of_many_who_want_it_at_once_one_fetches_it() {
    let scene = Scene::new("subscribe: false").await;
    scene.offer();
    let all = futures::future::join_all((0..8).map(|_| scene.create())).await;
    assert!(all.iter().all(|made| made.status == 201), "{all:?}");
    assert_eq!(scene.calls("nfvo.package_content"), 1);
    assert_eq!(scene.packages().await.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn each_tenant_gets_its_own_and_the_archive_is_fetched_once() {
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
        "the second one has the same hash"
    );
    scene.bench.log_in("root");
    let refused = scene.create().await;
    assert_eq!(
        refused.body["code"], "request.no-package",
        "it gets nothing of the NFVO"
    );
}

#[tokio::test]
async fn whatever_goes_wrong_is_told_and_leaves_nothing() {
    let scene = Scene::new("subscribe: false").await;
    let faults = scene.world.faults();
    scene.offer();
    let says = |package: Value| {
        scene.world.nfvo().set_policy(Policy {
            package,
            ..Policy::default()
        });
    };
    faults.arm(Rule::new("nfvo.packages", Fault::Status { status: 503 }));
    scene.refuses(503, "nfvo.failing", "503").await;
    faults.arm(Rule::new(
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
    // It says that this is the VNFD; it is none.
    scene
        .world
        .nfvo()
        .offer("at-nfvo", &scene.vnfd, b"no package at all".to_vec());
    scene.refuses(422, "package.refused", "zip").await;
    scene.offer();
    assert_eq!(scene.create().await.status, 201);
}

#[tokio::test]
async fn whoever_waits_too_long_is_told_to_ask_again_and_it_comes_meanwhile() {
    let scene = Scene::new("subscribe: false, wait_seconds: 1").await;
    scene.offer();
    let slow = Fault::Delay { delay_ms: 1500 };
    scene
        .world
        .faults()
        .arm(Rule::new("nfvo.package_content", slow));
    let refused = scene.create().await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (503, &json!("package.on-its-way"))
    );
    let made = loop {
        let made = scene.create().await;
        if made.status != 503 {
            break made;
        }
    };
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(
        scene.calls("nfvo.package_content"),
        1,
        "it was not begun anew"
    );
}

#[tokio::test]
async fn what_is_onboarded_there_is_fetched_and_then_followed() {
    let scene = Scene::new("").await;
    let subscriptions = scene.subscribed().await;
    let callback = format!("{}{NOTIFICATIONS}", scene.bench.url);
    assert_eq!(
        subscriptions[0]["callbackUri"], callback,
        "{subscriptions:#}"
    );
    scene.offer();
    scene
        .until("it is fetched before anybody wants it", is("ENABLED"))
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

    // In use, it is disabled and stays; unused, it goes.
    let instance = scene.create().await.id();
    scene.world.nfvo().withdraw("at-nfvo");
    scene
        .until("it is gone there, and in use here", is("DISABLED"))
        .await;
    let instance = format!("{INSTANCES}/{instance}");
    assert_eq!(scene.bench.delete(&instance).await.status, 204);
    assert_eq!(scene.bench.delete(&path).await.status, 204);
    scene.offer();
    scene.until("it is there again", is("ENABLED")).await;
    scene.world.nfvo().withdraw("at-nfvo");
    scene
        .until("it is gone there, and not in use here", <[Value]>::is_empty)
        .await;
    for told in scene.world.nfvo().page()["told"].as_array().unwrap() {
        assert_eq!(told["status"], 204, "{told:#}");
        let kind = told["notification"]["notificationType"].as_str().unwrap();
        crate::oracle::check(kind, &told["notification"]);
    }
}

#[tokio::test]
async fn a_subscription_that_the_nfvo_forgot_is_made_anew_and_what_was_missed_is_seen() {
    let scene = Scene::new("look_seconds: 1").await;
    scene.subscribed().await;
    scene.offer();
    scene.until("it is fetched", is("ENABLED")).await;
    scene.world.nfvo().forget_subscriptions();
    scene.world.nfvo().set_package("at-nfvo", "DISABLED");
    scene
        .until("nobody told, and it is seen all the same", is("DISABLED"))
        .await;
    assert_eq!(scene.subscribed().await.as_array().unwrap().len(), 1);
    // What somebody here decides stays until the NFVO changes its mind.
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
async fn a_server_that_starts_again_has_one_subscription() {
    let first = Scene::new("").await;
    let before = first.subscribed().await;
    let nfvo = vnfm_server::nfvo::Nfvo {
        endpoint: first.world.nfvo().url().to_owned(),
        packages: Some(vnfm_server::supply::NfvoPackages::default()),
        ..vnfm_server::nfvo::Nfvo::default()
    };
    // The same address, another process.
    let clock = Arc::new(vnfm::SystemClock);
    let second = Arc::new(nfvo.connect(&first.bench.url, clock).unwrap())
        .supply()
        .unwrap();
    let app = first.bench.app.clone();
    let mut standing = tokio::task::JoinSet::new();
    standing.spawn(async move { second.follow(&app).await });
    loop {
        let now = first.world.nfvo().page()["subscriptions"].clone();
        if now != before && now.as_array().is_some_and(|all| all.len() == 1) {
            break;
        }
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn only_the_nfvo_tells_of_its_packages() {
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
    assert_eq!(scene.calls("nfvo.packages"), 0, "nothing was done of it");
    let none = Bench::new().await;
    assert_eq!(
        none.send(none.request(Method::POST, NOTIFICATIONS).json(&body))
            .await
            .status,
        401
    );
}

/// A server whose `nfvo` is this beside its packages.
async fn at_nfvo(world: &World, more: &str) -> Bench {
    let package = Package::from_bytes(packed("vnf-b-cnf"), &Limits::default()).unwrap();
    let vnfd = &package.vnfd().descriptor_id;
    world.nfvo().offer("at-nfvo", vnfd, packed("vnf-b-cnf"));
    let nfvo = Some(format!("{{{more}, packages: {{subscribe: false}}}}"));
    Bench::with(Setup {
        nfvo,
        ..Setup::default()
    })
    .await
}

async fn made_of_b(bench: &Bench) -> Answer {
    let package = Package::from_bytes(packed("vnf-b-cnf"), &Limits::default()).unwrap();
    bench
        .post(INSTANCES, &json!({"vnfdId": package.vnfd().descriptor_id}))
        .await
}

#[tokio::test]
async fn a_password_that_is_renewed_counts_for_packages_at_once() {
    let world = World::start(Options::default()).await.unwrap();
    world.nfvo().set_policy(Policy {
        login: Wanted::Basic,
        ..Policy::default()
    });
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("password");
    std::fs::write(&file, "planted-old-password").unwrap();
    let login = format!(
        "basic: {{user: {CLIENT}, password_file: '{}'}}",
        file.display()
    );
    let bench = at_nfvo(
        &world,
        &format!("endpoint: '{}', {login}", world.nfvo().url()),
    )
    .await;
    let refused = made_of_b(&bench).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (422, &json!("nfvo.packages-refused"))
    );
    std::fs::write(&file, PASSWORD).unwrap();
    assert_eq!(made_of_b(&bench).await.status, 201);
}

#[tokio::test]
async fn a_certificate_that_is_renewed_counts_for_packages_at_once() {
    let world = World::start(Options::default()).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let at = folder.path().display();
    std::fs::write(file("ca"), world.nfvo().authority()).unwrap();
    let strange = rcgen::generate_simple_self_signed(vec!["vnfm.example.com".into()]).unwrap();
    std::fs::write(file("cert"), strange.cert.pem()).unwrap();
    std::fs::write(file("key"), strange.signing_key.serialize_pem()).unwrap();
    let tls = format!("authorities_file: {at}/ca, certificate: {{cert: {at}/cert, key: {at}/key}}");
    let secure = world.nfvo().secure_url();
    let bench = at_nfvo(&world, &format!("endpoint: '{secure}', {tls}")).await;
    let refused = made_of_b(&bench).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (503, &json!("nfvo.unreachable"))
    );
    let pair = world.nfvo().certificate();
    let (cert, key) = pair.split_at(pair.find("-----BEGIN PRIVATE KEY").unwrap());
    std::fs::write(file("cert"), cert).unwrap();
    std::fs::write(file("key"), key).unwrap();
    assert_eq!(made_of_b(&bench).await.status, 201);
}

/// A way to the NFVO on which those who fetch an archive wait until it is opened; a call that the script of faults lets
/// hang is never answered.
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
                let answer = passed.send().await.unwrap();
                let (status, headers) = (answer.status(), answer.headers().clone());
                (status, headers, answer.bytes().await.unwrap())
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
async fn who_waits_for_a_package_keeps_nobody_of_its_tenant_from_the_quota() {
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
        made = &mut slow => panic!("it did not wait: {made:?}"),
        () = scene.until("it is on its way", is_on_its_way) => {}
    }
    tokio::select! {
        made = &mut slow => panic!("the other one waited for this one: {made:?}"),
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

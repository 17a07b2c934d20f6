//! Subscriptions over HTTP, and what arrives at a callback: as the standard says, with a login, from allowed networks.

use crate::bench::{Bench, INSTANCES};
use crate::oracle;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, Method as Verb, StatusCode};
use reqwest::Method;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use tokio::sync::watch;
use tokio::task::JoinSet;

const SUBSCRIPTIONS: &str = "/vnflcm/v2/subscriptions";
/// `vnfm:planted-password`.
const LOGIN: &str = "Basic dm5mbTpwbGFudGVkLXBhc3N3b3Jk";

/// What came, with which login.
type Heard = Vec<(Verb, Option<String>, Value)>;

/// A subscriber on a free port.
pub(crate) struct Sink {
    pub(crate) url: String,
    heard: Arc<Mutex<Heard>>,
    versions: Arc<Mutex<Vec<String>>>,
    count: Arc<watch::Sender<usize>>,
    _task: JoinSet<()>,
}

#[derive(Clone)]
struct Shared {
    heard: Arc<Mutex<Heard>>,
    versions: Arc<Mutex<Vec<String>>>,
    count: Arc<watch::Sender<usize>>,
    answer: StatusCode,
}

async fn take(
    State(shared): State<Shared>,
    verb: Verb,
    headers: HeaderMap,
    body: String,
) -> StatusCode {
    let login = headers
        .get("authorization")
        .map(|login| login.to_str().unwrap().to_owned());
    let version = headers["version"].to_str().unwrap().to_owned();
    shared.versions.lock().unwrap().push(version);
    let body = serde_json::from_str(&body).unwrap_or(Value::Null);
    shared.heard.lock().unwrap().push((verb, login, body));
    shared.count.send_modify(|count| *count += 1);
    shared.answer
}

impl Sink {
    pub(crate) async fn answering(answer: StatusCode) -> Self {
        let (heard, count) = (
            Arc::new(Mutex::default()),
            Arc::new(watch::Sender::default()),
        );
        let versions = Arc::new(Mutex::default());
        let shared = Shared {
            heard: heard.clone(),
            versions: versions.clone(),
            count: count.clone(),
            answer,
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/callback", listener.local_addr().unwrap());
        let router = Router::new().fallback(take).with_state(shared);
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            heard,
            versions,
            count,
            _task: task,
        }
    }

    /// What the header `Version` of each request said.
    pub(crate) fn versions(&self) -> Vec<String> {
        self.versions.lock().unwrap().clone()
    }

    /// The notifications, once there are so many.
    pub(crate) async fn told(&self, many: usize) -> Vec<Value> {
        let posts = |heard: &Heard| heard.iter().filter(|(verb, ..)| verb == Verb::POST).count();
        let mut count = self.count.subscribe();
        count
            .wait_for(|_| posts(&self.heard.lock().unwrap()) >= many)
            .await
            .unwrap();
        let heard = self.heard.lock().unwrap();
        heard
            .iter()
            .filter(|(verb, ..)| verb == Verb::POST)
            .map(|(.., body)| body.clone())
            .collect()
    }
}

#[tokio::test]
async fn a_subscription_is_made_found_and_ended() {
    let bench = Bench::new().await;
    let sink = Sink::answering(StatusCode::NO_CONTENT).await;
    let filter = json!({"vnfInstanceSubscriptionFilter": {"vnfInstanceNames": ["web"]}});
    let login = json!({"authType": ["BASIC"], "paramsBasic": {"userName": "vnfm", "password": "planted-password"}});
    let body = json!({"callbackUri": sink.url, "filter": filter, "authentication": login});
    let made = bench.post(SUBSCRIPTIONS, &body).await;
    assert_eq!(made.status, 201, "{made:?}");
    assert_eq!(
        (&made.body["filter"], &made.body["verbosity"]),
        (&filter, &json!("FULL"))
    );
    assert_eq!(made.location(), made.body["_links"]["self"]["href"]);
    let asked = sink.heard.lock().unwrap().clone();
    assert_eq!(
        asked,
        [(Verb::GET, Some(LOGIN.to_owned()), Value::Null)],
        "it was tested"
    );
    let again = bench.post(SUBSCRIPTIONS, &body).await;
    assert_eq!((again.status, again.location()), (303, made.location()));
    let short = json!({"callbackUri": sink.url, "filter": filter, "verbosity": "SHORT"});
    assert_eq!(
        bench.post(SUBSCRIPTIONS, &short).await.status,
        201,
        "it says something else"
    );
    let all = bench.get(SUBSCRIPTIONS).await.body;
    assert_eq!(all.as_array().unwrap().len(), 2);
    for (filter, many) in [
        ("(eq,verbosity,SHORT)", 1),
        (
            "(eq,filter/vnfInstanceSubscriptionFilter/vnfInstanceNames,web)",
            2,
        ),
        ("(eq,callbackUri,http://other)", 0),
    ] {
        let found = bench.get(&format!("{SUBSCRIPTIONS}?filter={filter}")).await;
        assert_eq!(
            found.body.as_array().map(Vec::len),
            Some(many),
            "{filter}: {found:?}"
        );
    }
    let path = format!("{SUBSCRIPTIONS}/{}", made.id());
    assert_eq!(bench.get(&path).await.body, made.body);
    assert_eq!(bench.delete(&path).await.status, 204);
    assert_eq!(bench.get(&path).await.status, 404);
    assert_eq!(bench.delete(&path).await.status, 404);
}

#[tokio::test]
async fn what_cannot_be_told_is_refused() {
    let bench = Bench::new().await;
    let redirects = Sink::answering(StatusCode::FOUND).await;
    let refuses = Sink::answering(StatusCode::UNAUTHORIZED).await;
    let nobody = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    for (callback, why) in [
        (redirects.url.as_str(), "302"),
        (refuses.url.as_str(), "401"),
        (nobody.as_str(), "refused"),
        ("http://10.0.0.1/", "not allowed"),
        ("ftp://127.0.0.1/", "neither http nor https"),
    ] {
        let answer = bench
            .post(SUBSCRIPTIONS, &json!({"callbackUri": callback}))
            .await;
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (422, &json!("request.callback"))
        );
        assert!(
            answer.detail().contains(why),
            "{callback}: {}",
            answer.detail()
        );
    }
    let callback = "http://127.0.0.1:9/";
    for (body, status, code) in [
        (
            json!({"callbackUri": callback, "authentication": {"authType": ["TLS_CERT"]}}),
            422,
            "request.bad-subscription",
        ),
        (
            json!({"callbackUri": callback, "filter": {"operationTypes": ["HEAL"]}}),
            422,
            "request.bad-subscription",
        ),
        (
            json!({"callbackUri": callback, "filter": {"operationTypes": ["HEEL"]}}),
            422,
            "request.schema",
        ),
        (
            json!({"callbackUri": callback, "verbosity": "LOUD"}),
            422,
            "request.schema",
        ),
        (json!({}), 422, "request.schema"),
    ] {
        let answer = bench.post(SUBSCRIPTIONS, &body).await;
        assert_eq!(
            (answer.status, &answer.body["code"]),
            (status, &json!(code)),
            "{body}: {answer:?}"
        );
    }
    assert_eq!(
        bench.get(SUBSCRIPTIONS).await.body,
        json!([]),
        "nothing was kept"
    );
    let wrong = bench
        .get(&format!("{SUBSCRIPTIONS}?filter=(eq,nmae,x)"))
        .await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test]
async fn notifications_are_as_the_standard_says() {
    let bench = Bench::new().await;
    let (full, short) = (
        Sink::answering(StatusCode::NO_CONTENT).await,
        Sink::answering(StatusCode::NO_CONTENT).await,
    );
    let made = bench
        .post(SUBSCRIPTIONS, &json!({"callbackUri": full.url}))
        .await;
    let body = json!({"callbackUri": short.url, "verbosity": "SHORT"});
    bench.post(SUBSCRIPTIONS, &body).await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let request = bench.request_b().await;
    let op = bench
        .post(&format!("{INSTANCES}/{id}/instantiate"), &request)
        .await
        .made();
    bench.ended(&op).await;
    let patch = bench.request(Method::PATCH, &format!("{INSTANCES}/{id}"));
    let modified = bench
        .send(patch.json(&json!({"vnfInstanceName": "web"})))
        .await
        .made();
    bench.ended(&modified).await;
    let told = full.told(6).await;
    let kinds: Vec<_> = told
        .iter()
        .map(|one| {
            (
                one["operationState"].as_str(),
                one["notificationStatus"].as_str(),
            )
        })
        .collect();
    let of_instantiation = [
        (Some("STARTING"), Some("START")),
        (Some("PROCESSING"), Some("RESULT")),
        (Some("COMPLETED"), Some("RESULT")),
    ];
    // A modification begins in PROCESSING (SOL003 5.6.2.2).
    let of_modification = [
        (Some("PROCESSING"), Some("START")),
        (Some("COMPLETED"), Some("RESULT")),
    ];
    assert_eq!(
        kinds,
        [&[(None, None)][..], &of_instantiation, &of_modification].concat()
    );
    for one in &told {
        oracle::check(one["notificationType"].as_str().unwrap(), one);
        assert_eq!(one["subscriptionId"], made.body["id"]);
        assert_eq!(one["_links"]["subscription"]["href"], made.location());
        let link = |name: &str| one["_links"][name]["href"].as_str().unwrap().to_owned();
        assert_eq!(
            link("vnfInstance"),
            format!("{}{INSTANCES}/{id}", bench.url)
        );
    }
    assert_eq!(
        told[1]["_links"]["vnfLcmOpOcc"]["href"]
            .as_str()
            .map(|l| l.ends_with(&op)),
        Some(true)
    );
    assert!(
        told[3]["affectedVnfcs"]
            .as_array()
            .is_some_and(|all| !all.is_empty()),
        "{:#}",
        told[3]
    );
    assert_eq!(told[5]["changedInfo"], json!({"vnfInstanceName": "web"}));
    for (one, same) in short.told(6).await.iter().zip(&told) {
        oracle::check(one["notificationType"].as_str().unwrap(), one);
        assert_eq!(one["id"], same["id"]);
        assert!(one.get("affectedVnfcs").is_none() && one.get("changedInfo").is_none());
    }
}

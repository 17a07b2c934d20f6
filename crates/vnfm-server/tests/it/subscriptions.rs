//! Subscriptions over HTTP, and the notifications at a callback: their content, login and allowed networks.

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
/// The header for `vnfm:planted-password`, in base64.
const LOGIN: &str = "Basic dm5mbTpwbGFudGVkLXBhc3N3b3Jk";

/// Received requests: method, `Authorization` and body.
type Requests = Vec<(Verb, Option<String>, Value)>;

/// A subscriber on a free port.
pub(crate) struct Sink {
    pub(crate) url: String,
    requests: Arc<Mutex<Requests>>,
    versions: Arc<Mutex<Vec<String>>>,
    count: Arc<watch::Sender<usize>>,
    _task: JoinSet<()>,
}

#[derive(Clone)]
struct Shared {
    requests: Arc<Mutex<Requests>>,
    versions: Arc<Mutex<Vec<String>>>,
    count: Arc<watch::Sender<usize>>,
    response: StatusCode,
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
    shared.requests.lock().unwrap().push((verb, login, body));
    shared.count.send_modify(|count| *count += 1);
    shared.response
}

impl Sink {
    pub(crate) async fn answering(response: StatusCode) -> Self {
        let (requests, count) = (
            Arc::new(Mutex::default()),
            Arc::new(watch::Sender::default()),
        );
        let versions = Arc::new(Mutex::default());
        let shared = Shared {
            requests: requests.clone(),
            versions: versions.clone(),
            count: count.clone(),
            response,
        };
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/callback", listener.local_addr().unwrap());
        let router = Router::new().fallback(take).with_state(shared);
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, router).await.unwrap() });
        Self {
            url,
            requests,
            versions,
            count,
            _task: task,
        }
    }

    /// The `Version` header of each request.
    pub(crate) fn versions(&self) -> Vec<String> {
        self.versions.lock().unwrap().clone()
    }

    /// Waits for this many notifications; returns all.
    pub(crate) async fn notifications(&self, many: usize) -> Vec<Value> {
        let posts = |requests: &Requests| {
            requests
                .iter()
                .filter(|(verb, ..)| verb == Verb::POST)
                .count()
        };
        let mut count = self.count.subscribe();
        count
            .wait_for(|_| posts(&self.requests.lock().unwrap()) >= many)
            .await
            .unwrap();
        let requests = self.requests.lock().unwrap();
        requests
            .iter()
            .filter(|(verb, ..)| verb == Verb::POST)
            .map(|(.., body)| body.clone())
            .collect()
    }
}

#[tokio::test]
async fn a_subscription_is_created_listed_and_deleted() {
    let bench = Bench::new().await;
    let sink = Sink::answering(StatusCode::NO_CONTENT).await;
    let filter = json!({"vnfInstanceSubscriptionFilter": {"vnfInstanceNames": ["web"]}});
    let login = json!({"authType": ["BASIC"], "paramsBasic": {"userName": "vnfm", "password": "planted-password"}});
    let body = json!({"callbackUri": sink.url, "filter": filter, "authentication": login});
    let created = bench.post(SUBSCRIPTIONS, &body).await;
    assert_eq!(created.status, 201, "{created:?}");
    assert_eq!(
        (&created.body["filter"], &created.body["verbosity"]),
        (&filter, &json!("FULL"))
    );
    assert_eq!(created.location(), created.body["_links"]["self"]["href"]);
    let test_request = sink.requests.lock().unwrap().clone();
    assert_eq!(
        test_request,
        [(Verb::GET, Some(LOGIN.to_owned()), Value::Null)],
        "the callback was tested"
    );
    let again = bench.post(SUBSCRIPTIONS, &body).await;
    assert_eq!((again.status, again.location()), (303, created.location()));
    let short = json!({"callbackUri": sink.url, "filter": filter, "verbosity": "SHORT"});
    assert_eq!(
        bench.post(SUBSCRIPTIONS, &short).await.status,
        201,
        "another verbosity makes another subscription"
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
    let path = format!("{SUBSCRIPTIONS}/{}", created.id());
    assert_eq!(bench.get(&path).await.body, created.body);
    assert_eq!(bench.delete(&path).await.status, 204);
    assert_eq!(bench.get(&path).await.status, 404);
    assert_eq!(bench.delete(&path).await.status, 404);
}

#[tokio::test]
async fn an_unusable_callback_or_filter_is_refused() {
    let bench = Bench::new().await;
    let redirects = Sink::answering(StatusCode::FOUND).await;
    let refuses = Sink::answering(StatusCode::UNAUTHORIZED).await;
    let unused = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        format!("http://{}/", listener.local_addr().unwrap())
    };
    for (callback, why) in [
        (redirects.url.as_str(), "302"),
        (refuses.url.as_str(), "401"),
        (unused.as_str(), "refused"),
        ("http://10.0.0.1/", "not allowed"),
        ("ftp://127.0.0.1/", "neither http nor https"),
    ] {
        let response = bench
            .post(SUBSCRIPTIONS, &json!({"callbackUri": callback}))
            .await;
        assert_eq!(
            (response.status, &response.body["code"]),
            (422, &json!("request.callback"))
        );
        assert!(
            response.detail().contains(why),
            "{callback}: {}",
            response.detail()
        );
    }
    refuses_bodies(&bench).await;
}

/// Bodies that cannot be subscriptions are refused, and none is stored.
async fn refuses_bodies(bench: &Bench) {
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
        let response = bench.post(SUBSCRIPTIONS, &body).await;
        assert_eq!(
            (response.status, &response.body["code"]),
            (status, &json!(code)),
            "{body}: {response:?}"
        );
    }
    assert_eq!(
        bench.get(SUBSCRIPTIONS).await.body,
        json!([]),
        "no subscription was stored"
    );
    let wrong = bench
        .get(&format!("{SUBSCRIPTIONS}?filter=(eq,nmae,x)"))
        .await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test]
async fn notifications_conform_to_the_standard() {
    let bench = Bench::new().await;
    let (full, short) = (
        Sink::answering(StatusCode::NO_CONTENT).await,
        Sink::answering(StatusCode::NO_CONTENT).await,
    );
    let created = bench
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
        .created_id();
    bench.ended(&op).await;
    let patch = bench.request(Method::PATCH, &format!("{INSTANCES}/{id}"));
    let modified = bench
        .send(patch.json(&json!({"vnfInstanceName": "web"})))
        .await
        .created_id();
    bench.ended(&modified).await;
    let received = full.notifications(6).await;
    let kinds: Vec<_> = received
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
    assert_complete(
        &received,
        &created,
        &format!("{}{INSTANCES}/{id}", bench.url),
        &op,
    );
    assert_shortened(&short.notifications(6).await, &received);
}

/// Links and changes of notifications with verbosity FULL.
fn assert_complete(received: &[Value], created: &crate::bench::Response, instance: &str, op: &str) {
    for one in received {
        oracle::check(one["notificationType"].as_str().unwrap(), one);
        assert_eq!(one["subscriptionId"], created.body["id"]);
        assert_eq!(one["_links"]["subscription"]["href"], created.location());
        let link = |name: &str| one["_links"][name]["href"].as_str().unwrap().to_owned();
        assert_eq!(link("vnfInstance"), instance);
    }
    assert_eq!(
        received[1]["_links"]["vnfLcmOpOcc"]["href"]
            .as_str()
            .map(|l| l.ends_with(op)),
        Some(true)
    );
    assert!(
        received[3]["affectedVnfcs"]
            .as_array()
            .is_some_and(|all| !all.is_empty()),
        "{:#}",
        received[3]
    );
    assert_eq!(
        received[5]["changedInfo"],
        json!({"vnfInstanceName": "web"})
    );
}

/// Notifications with verbosity SHORT have the same ids and no changes.
fn assert_shortened(short: &[Value], full: &[Value]) {
    for (one, same) in short.iter().zip(full) {
        oracle::check(one["notificationType"].as_str().unwrap(), one);
        assert_eq!(one["id"], same["id"]);
        assert!(one.get("affectedVnfcs").is_none() && one.get("changedInfo").is_none());
    }
}

//! Rate limits of a login, and quotas of a tenant.

use crate::bench::{Bench, INSTANCES, PACKAGES, packed};
use crate::tenants::users;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;

#[tokio::test]
async fn the_rate_limit_applies_per_login() {
    let bench = Bench::with(users("rate: {per_second: 1, burst: 3}")).await;
    bench.log_in("acme-reader");
    let mut statuses = Vec::new();
    for _ in 0..3 {
        statuses.push(bench.get(INSTANCES).await.status);
    }
    assert_eq!(statuses, [200, 200, 200]);
    let refused = bench.get(INSTANCES).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (429, &json!("access.rate")),
        "{refused:?}"
    );
    let wait: u64 = refused.headers["retry-after"]
        .to_str()
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(wait, 1);
    bench.log_in("acme-operator");
    assert_eq!(bench.get(INSTANCES).await.status, 200);
}

#[tokio::test]
async fn concurrent_creations_do_not_exceed_the_instance_quota() {
    let more = "quota: {instances: 3}\ntenants: {other: {quota: {instances: 1}}}";
    let bench = Bench::with(users(more)).await;
    for (user, most) in [("acme-admin", 3), ("other-admin", 1)] {
        bench.log_in(user);
        let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
        let body = json!({"vnfdId": vnfd});
        let responses =
            futures::future::join_all((0..8).map(|_| bench.post(INSTANCES, &body))).await;
        let created = responses
            .iter()
            .filter(|response| response.status == 201)
            .count();
        assert_eq!(created, most, "{user}");
        let refused = responses
            .iter()
            .find(|response| response.status == 403)
            .unwrap();
        assert_eq!(refused.body["code"], "access.quota", "{refused:?}");
        let expected = format!(
            "`instances` of the tenant `{}` is {most}; {most} are used",
            user.split('-').next().unwrap()
        );
        assert!(refused.detail().contains(&expected), "{refused:?}");
    }
}

#[tokio::test]
async fn operations_count_against_the_quota_until_they_end() {
    let bench = Bench::with(users("quota: {operations: 1}")).await;
    bench.log_in("acme-admin");
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let (one, two) = (bench.create(&vnfd).await, bench.create(&vnfd).await);
    let request = bench.request_b().await;
    bench.world.held.send_replace(true);
    let first = bench
        .post(&format!("{INSTANCES}/{one}/instantiate"), &request)
        .await;
    assert_eq!(first.status, 202);
    let refused = bench
        .post(&format!("{INSTANCES}/{two}/instantiate"), &request)
        .await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("access.quota")),
        "{refused:?}"
    );
    bench.world.held.send_replace(false);
    bench.ended(&first.created_id()).await;
    let second = bench
        .post(&format!("{INSTANCES}/{two}/instantiate"), &request)
        .await;
    assert_eq!(second.status, 202, "{second:?}");
}

#[tokio::test]
async fn the_total_size_of_packages_stays_within_the_quota() {
    let size = packed("vnf-b-cnf").len();
    let bench = Bench::with(users(&format!(
        "quota: {{package_bytes: {}}}",
        size + size / 2
    )))
    .await;
    bench.log_in("acme-admin");
    let (first, _) = bench.onboard("vnf-b-cnf").await;
    let id = bench.post(PACKAGES, &json!({})).await.id();
    let path = format!("{PACKAGES}/{id}/package_content");
    let upload = |content: Vec<u8>| {
        bench
            .request(Method::PUT, &path)
            .header(CONTENT_TYPE, "application/zip")
            .body(content)
    };
    let refused = bench.send(upload(packed("vnf-b-cnf"))).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("access.quota")),
        "{refused:?}"
    );
    assert!(
        refused.detail().contains(&format!("{size} are used")),
        "{refused:?}"
    );
    bench.drop_package(&first).await;
    assert_eq!(
        bench.send(upload(packed("vnf-b-cnf"))).await.status,
        202,
        "the quota has room again"
    );
}

/// The quota holds for any number of concurrent uploads.
#[tokio::test]
async fn concurrent_uploads_do_not_exceed_the_quota() {
    let size = packed("vnf-b-cnf").len();
    let bench = Bench::with(users(&format!(
        "quota: {{package_bytes: {}}}",
        2 * size + size / 2
    )))
    .await;
    bench.log_in("acme-admin");
    let mut records = Vec::new();
    for _ in 0..8 {
        records.push(bench.post(PACKAGES, &json!({})).await.id());
    }
    // All of them check the quota before any is complete; the size counts on completion.
    let (send, bodies): (Vec<_>, Vec<_>) = records
        .iter()
        .map(|_| futures::channel::mpsc::channel::<Result<Vec<u8>, std::io::Error>>(1))
        .unzip();
    let uploads = records.iter().zip(bodies).map(|(id, body)| {
        let path = format!("{PACKAGES}/{id}/package_content");
        let request = bench
            .request(Method::PUT, &path)
            .header(CONTENT_TYPE, "application/zip");
        bench.send(request.body(reqwest::Body::wrap_stream(body)))
    });
    let sending = async {
        for id in &records {
            let path = format!("{PACKAGES}/{id}");
            while bench.get(&path).await.body["onboardingState"] == "CREATED" {
                tokio::task::yield_now().await;
            }
        }
        for mut send in send {
            use futures::SinkExt as _;
            send.send(Ok(packed("vnf-b-cnf"))).await.unwrap();
        }
    };
    let (responses, ()) = tokio::join!(futures::future::join_all(uploads), sending);
    let refused = responses
        .iter()
        .filter(|response| response.status == 403)
        .count();
    assert!(refused >= 6, "{responses:?}");
    let used = bench
        .app
        .engine()
        .store()
        .usage("acme")
        .await
        .unwrap()
        .package_bytes;
    assert!(
        used <= 2 * size as u64 + size as u64 / 2,
        "{used} of {size} each"
    );
}

/// A body that never arrives does not block other requests of its tenant.
#[tokio::test]
async fn a_pending_body_holds_no_shared_resource() {
    let more = "quota: {operations: 5, package_bytes: 10000000, instances: 5}";
    let bench = Bench::with(users(more)).await;
    bench.log_in("acme-admin");
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let record = bench.post(PACKAGES, &json!({})).await.id();
    let never = || {
        reqwest::Body::wrap_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>())
    };
    let upload = bench
        .request(Method::PUT, &format!("{PACKAGES}/{record}/package_content"))
        .header(CONTENT_TYPE, "application/zip")
        .body(never());
    let operation = bench
        .request(Method::POST, &format!("{INSTANCES}/{id}/instantiate"))
        .header(CONTENT_TYPE, "application/json")
        .body(never());
    let others = async {
        let path = format!("{PACKAGES}/{record}");
        while bench.get(&path).await.body["onboardingState"] == "CREATED" {
            tokio::task::yield_now().await;
        }
        let request = bench.request_b().await;
        let started = bench
            .post(&format!("{INSTANCES}/{id}/instantiate"), &request)
            .await;
        assert_eq!(started.status, 202, "{started:?}");
        let (_, other) = bench.upload(packed("vnf-b-cnf")).await;
        assert_eq!(other.status, 202, "{other:?}");
    };
    tokio::select! {
        () = others => {}
        response = bench.send(upload) => panic!("{response:?}"),
        response = bench.send(operation) => panic!("{response:?}"),
    }
}

#[tokio::test]
async fn subscriptions_and_waiting_event_requests_have_a_quota() {
    let bench = Bench::with(users("quota: {subscriptions: 1, watchers: 1}")).await;
    bench.log_in("acme-admin");
    let (callback, _task) = crate::tenants::callback().await;
    let subscribe = |name: &str| {
        let filter = json!({"notificationTypes": ["VnfIdentifierCreationNotification"]});
        json!({"callbackUri": format!("{callback}/{name}"), "filter": filter})
    };
    let path = crate::tenants::SUBSCRIPTIONS;
    assert_eq!(bench.post(path, &subscribe("a")).await.status, 201);
    let refused = bench.post(path, &subscribe("b")).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("access.quota")),
        "{refused:?}"
    );
    let waits = || bench.get("/vnfm/v1/events?wait_seconds=60");
    let second = async {
        loop {
            let response = bench.get("/vnfm/v1/events?wait_seconds=1").await;
            if response.status != 200 {
                return response;
            }
        }
    };
    tokio::select! {
        refused = second => assert_eq!(refused.status, 403, "{refused:?}"),
        response = waits() => assert_eq!(response.status, 403, "{response:?}"),
    }
}

/// A flood of requests without a login gets short responses without further checks; known users are served.
#[tokio::test]
async fn failed_logins_are_limited_per_address() {
    let bench = Bench::with(crate::bench::Setup {
        wrong_logins: 5,
        ..users("")
    })
    .await;
    bench.log_in("acme-reader");
    assert_eq!(bench.get(INSTANCES).await.status, 200);
    let mut statuses = std::collections::BTreeMap::<u16, u32>::new();
    for _ in 0..40 {
        let bare = bench
            .bare(Method::GET, INSTANCES)
            .bearer_auth("planted-nobody");
        let response = bench.send(bare).await;
        if response.status == 429 {
            assert!(response.headers.contains_key("retry-after"));
        }
        *statuses.entry(response.status).or_default() += 1;
    }
    assert!(statuses[&429] >= 20, "{statuses:?}");
    assert_eq!(
        bench.get(INSTANCES).await.status,
        200,
        "known users are not locked out"
    );
}

#[tokio::test]
async fn the_html_page_loads_no_script_and_no_resource() {
    let bench = Bench::new().await;
    let page = bench.get("/").await;
    let policy = page.headers["content-security-policy"].to_str().unwrap();
    assert!(
        policy.starts_with("default-src 'none'; style-src 'sha256-"),
        "{policy}"
    );
    assert!(
        !policy.contains("unsafe") && !page.text.contains("<script"),
        "{policy}"
    );
}

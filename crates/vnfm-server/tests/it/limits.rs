//! How much is too much: requests of one login, and what a tenant may have.

use crate::bench::{Bench, INSTANCES, PACKAGES, packed};
use crate::tenants::users;
use reqwest::Method;
use reqwest::header::CONTENT_TYPE;
use serde_json::json;

#[tokio::test]
async fn one_login_that_comes_too_often_waits_and_no_other() {
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
    let wait: u64 = refused.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert_eq!(wait, 1);
    bench.log_in("acme-operator");
    assert_eq!(bench.get(INSTANCES).await.status, 200);
}

#[tokio::test]
async fn a_tenant_has_no_more_instances_than_its_quota_however_many_are_made_at_once() {
    let more = "quota: {instances: 3}\ntenants: {other: {quota: {instances: 1}}}";
    let bench = Bench::with(users(more)).await;
    for (user, most) in [("acme-admin", 3), ("other-admin", 1)] {
        bench.log_in(user);
        let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
        let body = json!({"vnfdId": vnfd});
        let answers = futures::future::join_all((0..8).map(|_| bench.post(INSTANCES, &body))).await;
        let made = answers.iter().filter(|answer| answer.status == 201).count();
        assert_eq!(made, most, "{user}");
        let refused = answers.iter().find(|answer| answer.status == 403).unwrap();
        assert_eq!(refused.body["code"], "access.quota", "{refused:?}");
        let says = format!(
            "`instances` of the tenant `{}` is {most}, {most} are used",
            user.split('-').next().unwrap()
        );
        assert!(refused.detail().contains(&says), "{refused:?}");
    }
}

#[tokio::test]
async fn operations_in_flight_count_until_they_end() {
    let bench = Bench::with(users("quota: {operations: 1}")).await;
    bench.log_in("acme-admin");
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let (one, two) = (bench.create(&vnfd).await, bench.create(&vnfd).await);
    let request = bench.request_b().await;
    bench.world.held.send_replace(true);
    let first = bench.post(&format!("{INSTANCES}/{one}/instantiate"), &request).await;
    assert_eq!(first.status, 202);
    let refused = bench.post(&format!("{INSTANCES}/{two}/instantiate"), &request).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("access.quota")),
        "{refused:?}"
    );
    bench.world.held.send_replace(false);
    bench.ended(&first.made()).await;
    let second = bench.post(&format!("{INSTANCES}/{two}/instantiate"), &request).await;
    assert_eq!(second.status, 202, "{second:?}");
}

#[tokio::test]
async fn packages_are_no_larger_together_than_the_quota() {
    let size = packed("vnf-b-cnf").len();
    let bench = Bench::with(users(&format!("quota: {{package_bytes: {}}}", size + size / 2))).await;
    bench.log_in("acme-admin");
    let (first, _) = bench.onboard("vnf-b-cnf").await;
    let id = bench.post(PACKAGES, &json!({})).await.id();
    let path = format!("{PACKAGES}/{id}/package_content");
    let upload = |content: Vec<u8>| {
        bench.request(Method::PUT, &path).header(CONTENT_TYPE, "application/zip").body(content)
    };
    let refused = bench.send(upload(packed("vnf-b-cnf"))).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("access.quota")),
        "{refused:?}"
    );
    assert!(refused.detail().contains(&format!("{size} are used")), "{refused:?}");
    bench.drop_package(&first).await;
    assert_eq!(bench.send(upload(packed("vnf-b-cnf"))).await.status, 202, "there is room again");
}

//! The audit log of changes: caller, request, address and status.

use crate::bench::{Bench, INSTANCES, Setup};
use crate::tenants::users;
use serde_json::json;

const AUDIT: &str = "/vnfm/v1/audit";

#[tokio::test]
async fn every_change_is_audited_with_caller_address_and_status_and_reads_are_not() {
    let bench = Bench::with(users("")).await;
    bench.log_in("acme-operator");
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    bench.get(INSTANCES).await;
    bench.delete(&format!("{INSTANCES}/none")).await;
    let register = bench.post("/vnfm/v1/vims", &json!({"name": "n"})).await;
    assert_eq!(register.status, 403);
    assert_eq!(
        bench.get(AUDIT).await.status,
        403,
        "the audit log requires the role `admin`"
    );

    bench.log_in("acme-admin");
    let noted = bench.get(AUDIT).await.body;
    let noted: Vec<_> = noted.as_array().unwrap().iter().collect();
    let entry = |what: &str| *noted.iter().find(|entry| entry["what"] == what).unwrap();
    let created = entry(&format!("POST {INSTANCES}"));
    assert_eq!(created["who"], "acme-operator (basic)");
    assert_eq!(
        (&created["from"], &created["status"]),
        (&json!("127.0.0.1"), &json!(201))
    );
    assert_eq!(created["target"], id.as_str());
    assert_eq!(entry(&format!("DELETE {INSTANCES}/none"))["status"], 404);
    assert_eq!(entry("POST /vnfm/v1/vims")["status"], 403);
    assert!(
        noted
            .iter()
            .all(|entry| !entry["what"].as_str().unwrap().starts_with("GET")),
        "{noted:?}"
    );

    bench.log_in("other-admin");
    assert_eq!(
        bench.get(AUDIT).await.body,
        json!([]),
        "entries of another tenant are hidden"
    );
}

#[tokio::test]
async fn an_override_records_the_login_and_the_stated_operator() {
    let bench = Bench::with(users("")).await;
    bench.log_in("acme-admin");
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let abandon = bench.request(
        reqwest::Method::POST,
        &format!("/vnfm/v1/vnf_instances/{id}/abandon"),
    );
    let abandon = abandon
        .header("x-vnfm-operator", "bob")
        .header("x-vnfm-reason", "its cloud burnt");
    assert_eq!(bench.send(abandon).await.status, 204);
    let noted = bench.get(AUDIT).await.body;
    let act = noted
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["what"] == "vnf abandon")
        .unwrap();
    assert_eq!(act["who"], "acme-admin (basic) as bob");
    assert_eq!(act["reason"], "its cloud burnt");
}

#[tokio::test]
async fn without_logins_only_overrides_are_audited() {
    let bench = Bench::with(Setup::default()).await;
    bench.onboard("vnf-b-cnf").await;
    assert_eq!(bench.get(AUDIT).await.body, json!([]));
}

/// A path of 60 000 characters that no route matches, and one that a route matches.
#[tokio::test]
async fn unrouted_requests_are_not_audited_and_entries_are_truncated() {
    let bench = Bench::with(users("")).await;
    bench.log_in("acme-reader");
    let long = "x".repeat(60_000);
    let request = |path: &str| bench.request(reqwest::Method::POST, path);
    assert_eq!(bench.send(request(&format!("/{long}"))).await.status, 404);
    assert_eq!(
        bench
            .send(request(&format!("{INSTANCES}/{long}/heal")))
            .await
            .status,
        403
    );
    bench.log_in("acme-admin");
    let noted = bench.get(AUDIT).await;
    assert!(noted.text.len() < 2_000, "{} bytes", noted.text.len());
    let noted: Vec<_> = noted
        .body
        .as_array()
        .unwrap()
        .iter()
        .map(|e| e["what"].clone())
        .collect();
    assert!(
        noted
            .iter()
            .all(|what| !what.as_str().unwrap().starts_with("POST /xxx")),
        "{noted:?}"
    );
    assert!(
        noted
            .iter()
            .any(|what| what.as_str().unwrap().starts_with("POST /vnflcm")),
        "{noted:?}"
    );
    bench.log_in("root");
    let put = bench.request(reqwest::Method::PUT, INSTANCES);
    assert_eq!(bench.send(put).await.status, 405);
    assert_eq!(
        bench.get(AUDIT).await.body,
        json!([]),
        "an unsupported method is not audited"
    );
}

/// Refused requests fill at most half of the quota; changes are audited until all of it is used, and then refused.
#[tokio::test]
async fn reads_do_not_fill_the_audit_log_and_a_change_that_cannot_be_audited_is_refused() {
    let bench = Bench::with(users("quota: {audit_bytes: 4000}")).await;
    bench.log_in("acme-reader");
    for _ in 0..40 {
        assert_eq!(
            bench
                .post("/vnfpkgm/v2/vnf_packages", &json!({}))
                .await
                .status,
            403
        );
    }
    bench.log_in("acme-admin");
    let noted = bench.get(AUDIT).await.body.as_array().unwrap().len();
    assert!((1..30).contains(&noted), "{noted} of 40");
    let mut created = 0;
    let full = loop {
        let response = bench.post("/vnfpkgm/v2/vnf_packages", &json!({})).await;
        if response.status != 201 {
            break response;
        }
        created += 1;
    };
    assert!((1..40).contains(&created), "{created}");
    assert_eq!(
        (full.status, &full.body["code"]),
        (403, &json!("access.quota")),
        "{full:?}"
    );
    assert!(full.detail().contains("`audit_bytes`"), "{full:?}");
    let noted_now = bench.get(AUDIT).await.body.as_array().unwrap().len();
    assert_eq!(noted_now, noted + created, "every change is audited");
    bench.log_in("root");
    let other = bench.post("/vnfpkgm/v2/vnf_packages", &json!({})).await;
    assert_eq!(other.status, 201, "{other:?}");
}

//! The audit of changes: who, what, from where, and what was answered.

use crate::bench::{Bench, INSTANCES, Setup};
use crate::tenants::users;
use serde_json::json;

const AUDIT: &str = "/vnfm/v1/audit";

#[tokio::test]
async fn every_change_is_noted_with_who_from_where_and_the_answer_and_nothing_that_is_only_seen() {
    let bench = Bench::with(users("")).await;
    bench.log_in("acme-operator");
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    bench.get(INSTANCES).await;
    bench.delete(&format!("{INSTANCES}/none")).await;
    let register = bench.post("/vnfm/v1/vims", &json!({"name": "n"})).await;
    assert_eq!(register.status, 403);
    assert_eq!(bench.get(AUDIT).await.status, 403, "the audit is for admins");

    bench.log_in("acme-admin");
    let noted = bench.get(AUDIT).await.body;
    let noted: Vec<_> = noted.as_array().unwrap().iter().collect();
    let of = |what: &str| *noted.iter().find(|entry| entry["what"] == what).unwrap();
    let made = of(&format!("POST {INSTANCES}"));
    assert_eq!(made["who"], "acme-operator (basic)");
    assert_eq!((&made["from"], &made["status"]), (&json!("127.0.0.1"), &json!(201)));
    assert_eq!(made["target"], id.as_str());
    assert_eq!(of(&format!("DELETE {INSTANCES}/none"))["status"], 404);
    assert_eq!(of("POST /vnfm/v1/vims")["status"], 403);
    assert!(
        noted.iter().all(|entry| !entry["what"].as_str().unwrap().starts_with("GET")),
        "{noted:?}"
    );

    bench.log_in("other-admin");
    assert_eq!(bench.get(AUDIT).await.body, json!([]), "another tenant's");
}

#[tokio::test]
async fn an_act_on_ones_own_authority_says_who_logged_in_and_for_whom_they_say_they_act() {
    let bench = Bench::with(users("")).await;
    bench.log_in("acme-admin");
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let abandon =
        bench.request(reqwest::Method::POST, &format!("/vnfm/v1/vnf_instances/{id}/abandon"));
    let abandon =
        abandon.header("x-vnfm-operator", "bob").header("x-vnfm-reason", "its cloud burnt");
    assert_eq!(bench.send(abandon).await.status, 204);
    let noted = bench.get(AUDIT).await.body;
    let act =
        noted.as_array().unwrap().iter().find(|entry| entry["what"] == "vnf abandon").unwrap();
    assert_eq!(act["who"], "acme-admin (basic) as bob");
    assert_eq!(act["reason"], "its cloud burnt");
}

#[tokio::test]
async fn without_logins_only_acts_on_ones_own_authority_are_noted() {
    let bench = Bench::with(Setup::default()).await;
    bench.onboard("vnf-b-cnf").await;
    assert_eq!(bench.get(AUDIT).await.body, json!([]));
}

//! An operation that the product does not have, defined in this file alone: its row gives it a route in both versions of
//! VNF LCM, a role, a quota, a scope, an audit entry, and a link while it may begin.

use crate::bench::{Bench, HASHED, INSTANCES, Setup};
use crate::tenants::{callback, furnished, users};
use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::future::ready;
use vnfm_core::lcm::{
    Body, Completion, OPERATIONS, Operation, Requires, Step, Support, heal, instantiate,
    modify_info, silent, terminate,
};
use vnfm_types::LcmOperationState::Processing;
use vnfm_types::LcmOperationType;

const REHEARSE: Operation = Operation {
    kind: LcmOperationType::Operate,
    task: Some("rehearse"),
    interface_operation: "rehearse",
    body: Body::new::<Rehearsal>("RehearsalRequest"),
    requires: Requires::Instantiated,
    support: Support::Always,
    uses_vim: true,
    frees_space: false,
    skippable_hooks: false,
    checks_parameters: false,
    grant: None,
    target: |requested| Box::pin(ready(Ok(requested.unchanged()))),
    hook_request: |_, _| Ok(()),
    steps: &[Step::new("rehearse", Processing, |_| silent(ready(Ok(()))))],
    finish: |_, _| Ok(Completion::default()),
};

#[derive(Serialize, Deserialize)]
struct Rehearsal {
    acts: u32,
}

const ALL: &[&Operation] = &[
    &instantiate::OPERATION,
    &heal::OPERATION,
    &modify_info::OPERATION,
    &terminate::OPERATION,
    &REHEARSE,
];

/// A server with the operation, the instance of the tenant `acme`, and the listener for its notifications.
async fn rehearsing(access: &str) -> (Bench, String, tokio::task::JoinSet<()>) {
    let bench = Bench::with(Setup {
        operations: ALL,
        ..users(access)
    })
    .await;
    let (callback, task) = callback().await;
    bench.log_in("acme-admin");
    let has = furnished(&bench, &callback).await;
    let instance = format!("{INSTANCES}/{}", has.ids[0].1);
    (bench, instance, task)
}

fn request() -> Value {
    json!({"acts": 3})
}

#[tokio::test]
async fn its_route_begins_it_in_both_versions() {
    let (bench, instance, _task) = rehearsing("").await;
    bench.log_in("acme-operator");
    for path in [instance.clone(), instance.replace("/v2/", "/v1/")] {
        let post = bench.bare(Method::POST, &format!("{path}/rehearse"));
        let version = if path.contains("/v1/") {
            "1.3.0"
        } else {
            "2.3.0"
        };
        let post = post.header("version", version).json(&request());
        let login = bench.request(Method::GET, "/").build().unwrap();
        let login = login.headers()["authorization"].clone();
        let accepted = bench.send(post.header("authorization", login)).await;
        assert_eq!(accepted.status, 202, "{accepted:?}");
        let base = path.split("/vnf_instances").next().unwrap();
        let op_id = accepted.created_id();
        let expected = format!("{}{base}/vnf_lcm_op_occs/{op_id}", bench.url);
        assert_eq!(accepted.location(), expected);
        let ended = bench.ended(&op_id).await;
        assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
        assert_eq!(ended["operationParams"], request());
    }
    let path = format!("{instance}/rehearse");
    assert_eq!(
        bench.get(&path).await.status,
        403,
        "another method: 405 for the operator"
    );
    bench.log_in("root");
    let other_method = bench.get(&path).await;
    assert_eq!(
        (other_method.status, &other_method.headers["allow"]),
        (405, &"POST".parse().unwrap())
    );
}

#[tokio::test]
async fn its_body_is_checked_by_its_data_type() {
    let (bench, instance, _task) = rehearsing("").await;
    let path = format!("{instance}/rehearse");
    for (body, status, detail) in [
        (
            json!({"acts": "three"}),
            422,
            "`acts`: invalid type: string, expected u32",
        ),
        (json!({}), 422, "missing field `acts`"),
        (json!([3]), 422, "a list instead of an object"),
    ] {
        let refused = bench.post(&path, &body).await;
        assert_eq!(refused.status, status, "{refused:?}");
        assert!(refused.detail().contains(detail), "{refused:?}");
    }
    let truncated = bench.request(Method::POST, &path).body(r#"{"acts": "#);
    assert_eq!(bench.send(truncated).await.status, 400);
}

#[tokio::test]
async fn it_is_linked_while_it_may_begin() {
    let (bench, instance, _task) = rehearsing("").await;
    let linked = bench.get(&instance).await.body["_links"]["rehearse"]["href"].clone();
    assert_eq!(linked, format!("{}{instance}/rehearse", bench.url));
    let id = bench.get(&instance).await.body["vnfdId"].clone();
    let fresh = bench.create(id.as_str().unwrap()).await;
    let fresh = format!("{INSTANCES}/{fresh}");
    assert!(bench.get(&fresh).await.body["_links"]["rehearse"].is_null());
    let refused = bench.post(&format!("{fresh}/rehearse"), &request()).await;
    assert_eq!(refused.status, 409, "{refused:?}");
}

#[tokio::test]
async fn it_needs_the_role_the_scope_and_the_quota_of_an_operation_and_is_audited() {
    let limited = format!(
        "- {{name: elsewhere, password_hash: '{HASHED}', gets: {{tenant: acme, role: admin, vendors: [Nobody]}}}}\n\
         tenants: {{other: {{quota: {{operations: 0}}}}}}\n"
    );
    let (bench, instance, _task) = rehearsing(&limited).await;
    let path = format!("{instance}/rehearse");
    for (user, status, code) in [
        ("acme-reader", 403, "access.forbidden"),
        ("elsewhere", 404, "request.not-found"),
        ("other-admin", 403, "access.quota"),
    ] {
        bench.log_in(user);
        let refused = bench.post(&path, &request()).await;
        assert_eq!(refused.status, status, "{user}: {refused:?}");
        assert_eq!(refused.body["code"], code, "{user}");
    }
    bench.log_in("acme-admin");
    let audit = bench.get("/vnfm/v1/audit").await.body;
    let entries: Vec<_> = audit
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["what"] == format!("POST {path}"))
        .map(|entry| entry["status"].clone())
        .collect();
    assert_eq!(entries, [403, 404]);
}

#[tokio::test]
async fn hooks_are_skipped_only_where_the_row_allows_it() {
    let (bench, instance, _task) = rehearsing("").await;
    let skipping = |task: &str| {
        let post = bench.request(Method::POST, &format!("{instance}/{task}"));
        post.header("x-vnfm-skip-hooks", "rehearse_start")
            .header("x-vnfm-reason", "a test")
            .json(&request())
    };
    let ignored = bench.send(skipping("rehearse")).await;
    assert_eq!(ignored.status, 202, "it has no hooks: {ignored:?}");
    bench.ended(&ignored.created_id()).await;
    let refused = bench.send(skipping("heal")).await;
    assert_eq!(refused.status, 422, "{refused:?}");
}

#[tokio::test]
async fn the_product_does_not_have_it() {
    let bench = Bench::with(Setup {
        operations: OPERATIONS,
        ..users("")
    })
    .await;
    bench.log_in("root");
    let missing = bench
        .post(&format!("{INSTANCES}/none/rehearse"), &request())
        .await;
    assert_eq!(missing.status, 404);
    assert!(missing.detail().contains("no resource at"), "{missing:?}");
    let unsupported = bench
        .post(
            &format!("{INSTANCES}/none/create_snapshot"),
            &json!({"vnfSnapshotInfoId": "none"}),
        )
        .await;
    assert_eq!(unsupported.status, 404);
    assert!(
        unsupported.detail().contains("VNF instance"),
        "{unsupported:?}"
    );
}

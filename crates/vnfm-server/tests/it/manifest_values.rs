//! Values in manifests: they stay text, have the declared type, and are limited in what they create.

use crate::bench::{INSTANCES, Response};
use crate::policies::{BINDING, IN_THE_SYSTEM, Stage};
use serde_json::json;

#[tokio::test]
async fn a_parameter_cannot_inject_objects() {
    let stage = Stage::new().await;
    stage.bench.log_in("acme-admin");
    let vim = stage.vim(json!({})).await;
    let vnfd = stage.onboard("").await;
    let instance = stage.bench.create(&vnfd).await;
    stage.bench.log_in("narrow");
    let evil = format!("x\n---\n{BINDING}---\n{IN_THE_SYSTEM}#");
    stage
        .completes(
            &instance,
            &vim,
            json!({"namespace": "web", "greeting": evil}),
        )
        .await;
    stage.nothing_is_there();
    let page = stage
        .cluster
        .object("/api/v1/namespaces/web/configmaps/page")
        .unwrap();
    assert_eq!(
        page["data"]["index.html"],
        json!(format!("{evil}\n")),
        "the value stays text"
    );
}

#[tokio::test]
async fn a_parameter_of_the_wrong_type_is_refused_by_name() {
    let stage = Stage::new().await;
    stage.bench.log_in("acme-admin");
    let vim = stage.vim(json!({})).await;
    let vnfd = stage.onboard("").await;
    let instance = stage.bench.create(&vnfd).await;
    for value in [json!([1]), json!({"a": 1}), json!("two"), json!(true)] {
        let refused = stage
            .instantiate(&instance, &vim, json!({"replicas": value}))
            .await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (422, &json!("kubernetes.value-unfit"))
        );
        assert!(
            refused
                .detail()
                .contains("variable `replicas` must be a number"),
            "{refused:?}"
        );
    }
    // A number written as a string is accepted.
    stage
        .completes(&instance, &vim, json!({"replicas": "1"}))
        .await;
}

#[tokio::test]
async fn a_request_is_limited_in_resources_and_bytes() {
    let stage = Stage::new().await;
    stage.bench.log_in("acme-admin");
    let vim = stage.vim(json!({})).await;
    let vnfd = stage.onboard("").await;
    let instance = stage.bench.create(&vnfd).await;
    let refused = |response: Response, setting: &str| {
        assert_eq!(
            (response.status, &response.body["code"]),
            (422, &json!("plan.too-large")),
            "{response:?}"
        );
        assert!(response.detail().contains(setting), "{}", response.detail());
    };
    let many = stage
        .instantiate(&instance, &vim, json!({"replicas": 100_000_000}))
        .await;
    refused(many, "`limits.resources` is 10000");
    let engine = stage.bench.app.engine();
    let (before, mut limits) = (engine.limits(), engine.limits());
    limits.plan.bytes = 700;
    engine.set_limits(limits);
    let large = stage
        .instantiate(&instance, &vim, json!({"greeting": "g".repeat(100)}))
        .await;
    refused(large, "`limits.plan_bytes` is 700");
    engine.set_limits(before);
    stage
        .completes(&instance, &vim, json!({"replicas": 1}))
        .await;
}

#[tokio::test]
async fn an_invalid_object_name_is_refused_with_file_and_object() {
    let stage = Stage::new().await;
    stage.bench.log_in("acme-admin");
    let vim = stage.vim(json!({})).await;
    let odd = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '{{ 7 * 7 }}{% x %}'}\n";
    let vnfd = stage.onboard(odd).await;
    let instance = stage.bench.create(&vnfd).await;
    let refused = stage.instantiate(&instance, &vim, json!({})).await;
    let code = &refused.body["code"];
    assert_eq!(
        (refused.status, code),
        (422, &json!("kubernetes.manifest-invalid")),
        "{refused:?}"
    );
    for part in [
        "service.yaml:",
        "ConfigMap `{{ 7 * 7 }}{% x %}`",
        "`metadata.name`",
    ] {
        assert!(
            refused.detail().contains(part),
            "{part} in {}",
            refused.detail()
        );
    }
    let deleted = stage.bench.delete(&format!("{INSTANCES}/{instance}")).await;
    assert_eq!(deleted.status, 204, "{deleted:?}");
}

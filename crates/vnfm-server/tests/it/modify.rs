//! PATCH of an instance: `MODIFY_INFO` as an operation, merge patches, what cannot be changed, and conditional requests.

use crate::bench::{Bench, INSTANCES, OPS, Response};
use reqwest::Method;
use serde_json::{Value, json};

async fn patch(bench: &Bench, id: &str, body: &Value, headers: &[(&str, &str)]) -> Response {
    let mut request = bench.request(Method::PATCH, &format!("{INSTANCES}/{id}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.header("content-type", "application/merge-patch+json");
    bench.send(request.body(body.to_string())).await
}

/// Patches an instance, waits for the end, and returns the occurrence.
async fn patched(bench: &Bench, id: &str, body: &Value) -> Value {
    let response = patch(bench, id, body, &[]).await;
    assert_eq!(
        (response.status, response.text.as_str()),
        (202, ""),
        "{response:?}"
    );
    bench.ended(&response.created_id()).await
}

async fn instantiated(bench: &Bench) -> String {
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let request = bench.request_b().await;
    let op = bench
        .post(&format!("{INSTANCES}/{id}/instantiate"), &request)
        .await
        .created_id();
    assert_eq!(bench.ended(&op).await["operationState"], "COMPLETED");
    id
}

#[tokio::test]
async fn a_modification_is_an_operation_with_a_merge_patch() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let body = json!({"vnfInstanceName": "web", "vnfInstanceDescription": "d", "metadata": {"a": {"b": 1, "c": 2}, "d": 3}});
    let op = patched(&bench, &id, &body).await;
    assert_eq!(
        (&op["operation"], &op["operationState"]),
        (&json!("MODIFY_INFO"), &json!("COMPLETED"))
    );
    assert_eq!((&op["operationParams"], &op["changedInfo"]), (&body, &body));
    assert!(op.get("resourceChanges").is_none(), "{op:#}");
    let second = json!({"vnfInstanceDescription": null, "metadata": {"a": {"b": null}, "d": null, "e": [1]}});
    let op = patched(&bench, &id, &second).await;
    assert_eq!(
        op["changedInfo"],
        json!({"vnfInstanceDescription": "", "metadata": {"a": {"c": 2}, "e": [1]}})
    );
    let current = bench.get(&format!("{INSTANCES}/{id}")).await.body;
    assert_eq!(
        (&current["vnfInstanceName"], &current["metadata"]),
        (&json!("web"), &json!({"a": {"c": 2}, "e": [1]}))
    );
    assert!(
        current.get("vnfInstanceDescription").is_none(),
        "{current:#}"
    );
    assert_eq!(current["instantiationState"], "NOT_INSTANTIATED");
    assert_eq!(
        patched(&bench, &id, &json!({})).await["changedInfo"],
        json!({})
    );
    assert_eq!(
        patched(&bench, &id, &json!({"metadata": null})).await["operationState"],
        "COMPLETED"
    );
    assert!(
        bench
            .get(&format!("{INSTANCES}/{id}"))
            .await
            .body
            .get("metadata")
            .is_none()
    );
    let found = bench
        .get(&format!(
            "{OPS}?filter=(eq,changedInfo/vnfInstanceName,web)"
        ))
        .await;
    assert_eq!(found.body.as_array().unwrap().len(), 1);
}

#[tokio::test]
async fn vim_connections_are_patched_by_key() {
    let bench = Bench::new().await;
    let id = instantiated(&bench).await;
    let path = format!("{INSTANCES}/{id}");
    let body = json!({"vimConnectionInfo": {"vim1": {"extra": {"zone": "z"}}, "other": {"vimId": "cluster"}}});
    let op = patched(&bench, &id, &body).await;
    assert_eq!(op["operationState"], "COMPLETED", "{op:#}");
    let current = bench.get(&path).await.body;
    let connections = &current["vimConnectionInfo"];
    assert_eq!(connections["vim1"]["extra"], json!({"zone": "z"}));
    assert_eq!(
        connections["other"]["vimId"], connections["vim1"]["vimId"],
        "the id of the registry"
    );
    assert_eq!(connections["other"]["vimType"], "ETSINFV.KUBERNETES.V_1");
    assert!(
        connections["vim1"]["vimId"].is_string(),
        "omitted members stay: {connections:#}"
    );
    patched(&bench, &id, &json!({"vimConnectionInfo": {"other": null}})).await;
    assert!(
        bench.get(&path).await.body["vimConnectionInfo"]
            .get("other")
            .is_none()
    );
    refuses_patches(&bench, &id).await;
    let terminate = json!({"terminationType": "FORCEFUL"});
    let op = bench
        .post(&format!("{path}/terminate"), &terminate)
        .await
        .created_id();
    assert_eq!(
        bench.ended(&op).await["operationState"],
        "COMPLETED",
        "the VIM of the instance is still known"
    );
}

/// Patches that an instance refuses.
async fn refuses_patches(bench: &Bench, id: &str) {
    for (body, status, code) in [
        (
            json!({"vimConnectionInfo": {"vim1": null}}),
            422,
            "request.bad-vim",
        ),
        (
            json!({"vimConnectionInfo": {"vim1": {"vimId": "x"}}}),
            422,
            "request.bad-vim",
        ),
        (
            json!({"vimConnectionInfo": {"x": {"vimId": "x"}}}),
            422,
            "request.unknown-vim",
        ),
        (
            json!({"vimConnectionInfo": {"vim1": {"accessInfo": {"bearer_token": "planted"}}}}),
            422,
            "request.bad-vim",
        ),
        (
            json!({"vimConnectionInfo": {"vim1": {"extra": 1}}}),
            422,
            "request.bad-vim",
        ),
        (
            json!({"extensions": {"none": 1}}),
            422,
            "request.undeclared",
        ),
        (
            json!({"vnfConfigurableProperties": {"isAutohealEnabled": "yes"}}),
            422,
            "request.undeclared",
        ),
        (json!({"vnfdId": "another"}), 422, "request.undeclared"),
        (json!({"metadata": 1}), 422, "request.schema"),
        (json!([]), 422, "request.schema"),
    ] {
        let response = patch(bench, id, &body, &[]).await;
        assert_eq!(
            (response.status, &response.body["code"]),
            (status, &json!(code)),
            "{body}: {response:?}"
        );
    }
}

#[tokio::test]
async fn of_two_changes_with_the_same_etag_one_succeeds() {
    let bench = Bench::new().await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let path = format!("{INSTANCES}/{id}");
    let read = bench.get(&path).await;
    let tag = read.headers["etag"].to_str().unwrap().to_owned();
    let date = read.headers["last-modified"].to_str().unwrap().to_owned();
    assert!(date.ends_with(" GMT"), "{date}");
    let body = json!({"vnfInstanceName": "mine"});
    let same = [("if-match", tag.as_str())];
    let (one, other) = tokio::join!(
        patch(&bench, &id, &body, &same),
        patch(&bench, &id, &body, &same)
    );
    let mut statuses = [one.status, other.status];
    statuses.sort_unstable();
    assert!(matches!(statuses, [202, 409 | 412]), "{statuses:?}");
    let accepted = if one.status == 202 { one } else { other };
    bench.ended(&accepted.created_id()).await;
    let stale = patch(&bench, &id, &body, &[("if-match", &tag)]).await;
    assert_eq!(
        (stale.status, &stale.body["code"]),
        (412, &json!("request.stale")),
        "{stale:?}"
    );
    let old = [("if-unmodified-since", "Wed, 04 Mar 2020 05:06:07 GMT")];
    assert_eq!(patch(&bench, &id, &body, &old).await.status, 412);
    assert_eq!(
        patch(&bench, &id, &body, &[("if-match", "mine")])
            .await
            .status,
        400
    );
    let delete = |tag: &str| bench.request(Method::DELETE, &path).header("if-match", tag);
    assert_eq!(bench.send(delete(&tag)).await.status, 412);
    let now = bench.get(&path).await.headers["etag"]
        .to_str()
        .unwrap()
        .to_owned();
    assert_ne!(now, tag);
    assert_eq!(bench.send(delete(&now)).await.status, 204);
}

#[tokio::test]
async fn an_etag_changes_with_the_representation() {
    let bench = Bench::new().await;
    let id = instantiated(&bench).await;
    let ops = bench.get(OPS).await.body;
    let op = format!("{OPS}/{}", ops[0]["id"].as_str().unwrap());
    let package = bench.get(crate::bench::PACKAGES).await.body;
    let package = format!(
        "{}/{}",
        crate::bench::PACKAGES,
        package[0]["id"].as_str().unwrap()
    );
    for path in [&op, &package, &format!("{INSTANCES}/{id}")] {
        let (one, same) = (bench.get(path).await, bench.get(path).await);
        assert_eq!(one.headers["etag"], same.headers["etag"], "{path}");
    }
    let before = bench.get(&format!("{INSTANCES}/{id}")).await;
    bench.world.held.send_replace(true);
    let heal = bench
        .post(&format!("{INSTANCES}/{id}/heal"), &json!({}))
        .await
        .created_id();
    let busy = bench.get(&format!("{INSTANCES}/{id}")).await;
    bench.world.held.send_replace(false);
    bench.ended(&heal).await;
    let after = bench.get(&format!("{INSTANCES}/{id}")).await;
    let tags = [before, busy, after].map(|response| response.headers["etag"].clone());
    assert!(
        tags[0] != tags[1] && tags[1] != tags[2] && tags[0] != tags[2],
        "{tags:?}"
    );
}

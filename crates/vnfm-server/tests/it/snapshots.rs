//! VNF snapshots over HTTP: what conforms, lists, conditions, roles, quota, what is refused.

use crate::bench::{Bench, INSTANCES, OPS};
use crate::tenants::users;
use reqwest::Method;
use serde_json::{Value, json};

const SNAPSHOTS: &str = "/vnflcm/v2/vnf_snapshots";

/// An instance of the sample with containers; its path.
async fn instantiated(bench: &Bench) -> String {
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let instance = format!("{INSTANCES}/{}", bench.create(&vnfd).await);
    let request = bench.request_b().await;
    done(bench, &format!("{instance}/instantiate"), &request).await;
    instance
}

/// Requests a task; the occurrence once it is COMPLETED.
async fn done(bench: &Bench, task: &str, body: &Value) -> Value {
    let accepted = bench.post(task, body).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let ended = bench.ended(&accepted.created_id()).await;
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    ended
}

/// A snapshot without contents; its id and its path.
async fn empty(bench: &Bench) -> (String, String) {
    let created = bench.post(SNAPSHOTS, &json!({})).await;
    assert_eq!(created.status, 201, "{created:?}");
    let id = created.body["id"].as_str().unwrap().to_owned();
    let path = format!("{SNAPSHOTS}/{id}");
    assert_eq!(created.location(), format!("{}{path}", bench.url));
    (id, path)
}

#[tokio::test]
async fn a_snapshot_is_created_filled_reverted_to_and_deleted() {
    let bench = Bench::new().await;
    let instance = instantiated(&bench).await;
    let (id, path) = empty(&bench).await;
    let created = bench.get(&path).await;
    assert!(created.headers.contains_key("etag") && created.headers.contains_key("last-modified"));
    let links = json!({"self": {"href": format!("{}{path}", bench.url)}});
    assert_eq!(created.body, json!({"id": id, "_links": links}));
    let linked = bench.get(&instance).await.body["_links"].clone();
    for (link, task) in [
        ("createSnapshot", "create"),
        ("revertToSnapshot", "revert_to"),
    ] {
        let task = format!("{}{instance}/{task}_snapshot", bench.url);
        assert_eq!(linked[link]["href"], task);
    }

    let body = json!({"vnfSnapshotInfoId": id, "userDefinedData": {"note": "before"}});
    let op = done(&bench, &format!("{instance}/create_snapshot"), &body).await;
    assert_eq!(
        (&op["operation"], &op["operationParams"]),
        (&json!("CREATE_SNAPSHOT"), &body)
    );
    assert_eq!(op["vnfSnapshotInfoId"], id);
    assert_eq!(op["_links"]["vnfSnapshot"]["href"], links["self"]["href"]);
    let shown = bench.get(&path).await.body;
    let contents = &shown["vnfSnapshot"];
    assert_eq!(contents["userDefinedData"], json!({"note": "before"}));
    let from = format!("{}{instance}", bench.url);
    assert_eq!(shown["_links"]["takenFrom"]["href"], from);
    assert_eq!(contents["creationStartedAt"], op["startTime"]);
    assert!(contents["creationFinishedAt"].is_string());
    let now = bench.get(&instance).await.body;
    let copy = &contents["vnfInstance"];
    assert_eq!(copy["instantiatedVnfInfo"], now["instantiatedVnfInfo"]);
    assert_eq!(copy.get("_links"), None);
    assert!(!shown.to_string().contains("accessInfo"), "{shown:#}");

    let body = json!({"vnfSnapshotInfoId": id});
    let op = done(&bench, &format!("{instance}/revert_to_snapshot"), &body).await;
    assert_eq!(
        (&op["operation"], &op["vnfSnapshotInfoId"]),
        (&json!("REVERT_TO_SNAPSHOT"), &json!(id))
    );
    assert_eq!(bench.delete(&path).await.status, 204);
    assert_eq!(bench.get(&path).await.status, 404);
    assert_eq!(bench.delete(&path).await.status, 404);
    assert_eq!(
        bench
            .get(&format!("{OPS}/{}", op["id"].as_str().unwrap()))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn snapshots_are_listed_by_filter_and_without_the_copy_of_the_instance() {
    let bench = Bench::new().await;
    let instance = instantiated(&bench).await;
    let (id, _) = empty(&bench).await;
    let (other, _) = empty(&bench).await;
    let body = json!({"vnfSnapshotInfoId": id});
    done(&bench, &format!("{instance}/create_snapshot"), &body).await;
    let listed = bench.get(SNAPSHOTS).await.body;
    assert_eq!(listed.as_array().unwrap().len(), 2);
    let vnf = instance.rsplit('/').next().unwrap();
    let of_vnf = format!("{SNAPSHOTS}?filter=(eq,vnfSnapshot/vnfInstanceId,{vnf})");
    let found = bench.get(&of_vnf).await.body;
    assert_eq!(
        (found[0]["id"].as_str(), found.as_array().unwrap().len()),
        (Some(&*id), 1)
    );
    let contents = &found[0]["vnfSnapshot"];
    assert_eq!(contents.get("vnfInstance"), None);
    assert!(!contents["vnfcSnapshots"].as_array().unwrap().is_empty());
    for selector in [
        "all_fields",
        "exclude_default&fields=vnfSnapshot/vnfInstance",
    ] {
        let found = bench.get(&format!("{of_vnf}&{selector}")).await.body;
        assert!(
            found[0]["vnfSnapshot"]["vnfInstance"].is_object(),
            "{selector}"
        );
    }
    let empty_only = bench
        .get(&format!("{SNAPSHOTS}?filter=(eq,id,{other})"))
        .await;
    assert_eq!(empty_only.body[0]["id"], other);
    let wrong = bench
        .get(&format!("{SNAPSHOTS}?filter=(eq,nobody,1)"))
        .await;
    assert_eq!(wrong.status, 400);
}

#[tokio::test]
async fn a_modification_is_conditional_and_changes_only_the_package() {
    let bench = Bench::new().await;
    let (_, path) = empty(&bench).await;
    let tag = bench.get(&path).await.headers["etag"].clone();
    let patch = async |tag: Option<&reqwest::header::HeaderValue>, body: Value| {
        let mut request = bench.request(Method::PATCH, &path).json(&body);
        if let Some(tag) = tag {
            request = request.header("if-match", tag);
        }
        bench.send(request).await
    };
    let body = json!({"vnfSnapshotPkgId": "package-1"});
    let modified = patch(Some(&tag), body.clone()).await;
    assert_eq!((modified.status, &modified.body), (200, &body));
    assert_ne!(modified.headers["etag"], tag);
    assert_eq!(patch(Some(&tag), body.clone()).await.status, 412);
    assert_eq!(bench.get(&path).await.body["vnfSnapshotPkgId"], "package-1");
    let refused = patch(None, json!({"vnfSnapshot": {"id": "s"}})).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (422, &json!("snapshot.unusable"))
    );
    let contents = json!({"vnfSnapshot": {"id": "s"}});
    assert_eq!(bench.post(SNAPSHOTS, &contents).await.status, 422);
    let request = bench
        .request(Method::DELETE, &path)
        .header("if-match", &tag);
    assert_eq!(bench.send(request).await.status, 412);
    assert_eq!(bench.delete(&path).await.status, 204);
}

#[tokio::test]
async fn tasks_on_a_snapshot_that_does_not_fit_are_refused() {
    let bench = Bench::new().await;
    let instance = instantiated(&bench).await;
    let (id, path) = empty(&bench).await;
    let task = |name: &str| format!("{instance}/{name}_snapshot");
    for (name, body, status) in [
        ("create", json!({}), 422),
        ("create", json!({"vnfSnapshotInfoId": "none"}), 422),
        ("revert_to", json!({}), 422),
        ("revert_to", json!({"vnfSnapshotInfoId": "none"}), 422),
        ("revert_to", json!({"vnfSnapshotInfoId": id}), 409),
    ] {
        let refused = bench.post(&task(name), &body).await;
        assert_eq!(refused.status, status, "{name} {body}: {refused:?}");
    }
    bench.world.held.send_replace(true);
    let body = json!({"vnfSnapshotInfoId": id});
    let accepted = bench.post(&task("create"), &body).await;
    assert_eq!(accepted.status, 202);
    for refused in [
        bench.delete(&path).await,
        bench
            .send(
                bench
                    .request(Method::PATCH, &path)
                    .json(&json!({"vnfSnapshotPkgId": "p"})),
            )
            .await,
    ] {
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (409, &json!("snapshot.busy"))
        );
    }
    bench.world.held.send_replace(false);
    bench.ended(&accepted.created_id()).await;
    assert_eq!(bench.post(&task("create"), &body).await.status, 409);
    let state = format!("{path}/vnf_state_snapshot");
    let none = bench.get(&state).await;
    assert!(
        none.status == 404 && none.detail().contains("no VNF-specific state data"),
        "{none:?}"
    );
}

#[tokio::test]
async fn a_snapshot_belongs_to_its_tenant_and_counts_against_its_quota() {
    let bench = Bench::with(users("quota: {snapshots: 1}")).await;
    bench.log_in("acme-reader");
    assert_eq!(bench.post(SNAPSHOTS, &json!({})).await.status, 403);
    bench.log_in("acme-admin");
    let (_, path) = empty(&bench).await;
    let refused = bench.post(SNAPSHOTS, &json!({})).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("access.quota"))
    );
    bench.log_in("other-admin");
    for response in [bench.get(&path).await, bench.delete(&path).await] {
        assert_eq!(response.status, 404, "{response:?}");
    }
    assert_eq!(bench.get(SNAPSHOTS).await.body, json!([]));
}

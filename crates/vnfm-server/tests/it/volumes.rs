//! Retained volumes over HTTP: retention by a termination, lists, deletion, roles, quota, other tenants.

use crate::bench::{Bench, INSTANCES, Response, VIMS};
use crate::tenants::users;
use serde_json::{Value, json};

pub(crate) const VOLUMES: &str = "/vnfm/v1/volumes";

/// Onboards, registers the VIM, and instantiates a VNF with a storage `data`.
async fn with_storage(bench: &Bench) -> String {
    let vim = with_vim(bench).await;
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let accepted = instantiate(bench, &id, &vim, json!({"with_storage": true})).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let ended = bench.ended(&accepted.created_id()).await;
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    id
}

async fn instantiate(bench: &Bench, id: &str, vim: &str, params: Value) -> Response {
    let request = json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": vim}}, "additionalParams": params});
    let path = format!("{INSTANCES}/{id}/instantiate");
    bench.post(&path, &request).await
}

async fn terminate(bench: &Bench, id: &str, retain: Value) -> Response {
    let request =
        json!({"terminationType": "FORCEFUL", "additionalParams": {"vnfm_retain_volumes": retain}});
    let path = format!("{INSTANCES}/{id}/terminate");
    bench.post(&path, &request).await
}

#[tokio::test]
async fn a_termination_retains_a_volume_until_it_is_deleted() {
    let bench = Bench::new().await;
    let instance = with_storage(&bench).await;
    let refused = terminate(&bench, &instance, json!(["none"])).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (422, &json!("volume.unusable"))
    );
    let accepted = terminate(&bench, &instance, json!("all")).await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let ended = bench.ended(&accepted.created_id()).await;
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    bench.world.until("retain_volumes").await;
    let listed = bench.get(VOLUMES).await.body;
    let [volume] = &listed.as_array().unwrap()[..] else {
        panic!("{listed:#}");
    };
    let id = volume["id"].as_str().unwrap();
    let expected = json!({"id": id, "state": "AVAILABLE", "vimId": volume["vimId"], "resourceId": "volume-1", "sizeGib": 5,
        "virtualStorageDescId": "data", "vnfdId": volume["vnfdId"], "vnfInstanceId": instance,
        "createdAt": volume["createdAt"]});
    assert_eq!(*volume, expected);
    let path = format!("{VOLUMES}/{id}");
    assert_eq!(bench.get(&path).await.body, expected);
    for (filter, count) in [("(eq,virtualStorageDescId,data)", 1), ("(gt,sizeGib,9)", 0)] {
        let found = bench.get(&format!("{VOLUMES}?filter={filter}")).await.body;
        assert_eq!(found.as_array().unwrap().len(), count, "{filter}");
    }
    // Its VIM is kept with it.
    let vim = format!("{VIMS}/{}", volume["vimId"].as_str().unwrap());
    assert_eq!(bench.delete(&vim).await.status, 409);
    assert_eq!(bench.delete(&path).await.status, 204);
    bench.world.until("delete_volume").await;
    for missing in [bench.get(&path).await, bench.delete(&path).await] {
        assert_eq!(missing.status, 404, "{missing:?}");
    }
    assert_eq!(bench.delete(&vim).await.status, 204);
}

async fn with_vim(bench: &Bench) -> String {
    let connection = json!({"vimType": "ETSINFV.KUBERNETES.V_1",
        "interfaceInfo": {"endpoint": "https://192.0.2.9:6443"}, "accessInfo": {"bearer_token": "planted-token"}});
    let body = json!({"name": "cloud", "connection": connection});
    bench.post(VIMS, &body).await.id()
}

#[tokio::test]
async fn an_empty_volume_is_created_shown_and_deleted() {
    let bench = Bench::new().await;
    let vim = with_vim(&bench).await;
    let body = json!({"vimId": "cloud", "virtualStorageDescId": "data", "sizeGib": 7, "volumeType": "fast"});
    let created = bench.post(VOLUMES, &body).await;
    assert_eq!(created.status, 201, "{created:?}");
    let path = format!("{VOLUMES}/{}", created.id());
    let location = created.location();
    assert!(location.ends_with(&path), "{location}");
    let expected = json!({"id": created.id(), "state": "AVAILABLE", "vimId": vim, "resourceId": "volume-2", "sizeGib": 7,
        "volumeType": "fast", "virtualStorageDescId": "data", "createdAt": created.body["createdAt"]});
    assert_eq!(created.body, expected);
    assert_eq!(bench.get(&path).await.body, expected);
    assert_eq!(bench.get(VOLUMES).await.body, json!([expected]));
    assert_eq!(bench.delete(&path).await.status, 204);
    assert_eq!(bench.get(VOLUMES).await.body, json!([]));
}

#[tokio::test]
async fn what_cannot_be_created_is_refused_and_leaves_no_record() {
    let bench = Bench::with(users("quota: {volumes: 1}")).await;
    bench.log_in("acme-admin");
    with_vim(&bench).await;
    let body = |member: &str, value: Value| {
        let mut body = json!({"vimId": "cloud", "virtualStorageDescId": "data", "sizeGib": 1});
        body[member] = value;
        body
    };
    for (member, value, status, code) in [
        ("sizeGib", json!(0), 422, "volume.unusable"),
        (
            "sizeGib",
            json!(9_000_000_000_000_000_000_u64),
            422,
            "volume.unusable",
        ),
        ("sizeGib", json!(-1), 422, "request.schema"),
        ("sizeGib", json!("1; rm -rf /"), 422, "request.schema"),
        ("vimId", json!("none"), 422, "request.unknown-vim"),
        (
            "volumeType",
            json!("a\nkind: Secret"),
            422,
            "volume.unusable",
        ),
        ("volumeType", json!("unknown"), 422, "test.told-to"),
    ] {
        let refused = bench.post(VOLUMES, &body(member, value)).await;
        assert_eq!(
            (refused.status, &refused.body["code"]),
            (status, &json!(code)),
            "{member}: {refused:?}"
        );
        assert_eq!(bench.get(VOLUMES).await.body, json!([]), "{member}");
    }
    bench.log_in("acme-reader");
    let body = body("sizeGib", json!(1));
    assert_eq!(bench.post(VOLUMES, &body).await.status, 403);
    bench.log_in("other-admin");
    let foreign = bench.post(VOLUMES, &body).await;
    assert_eq!(foreign.body["code"], "request.unknown-vim", "{foreign:?}");
    bench.log_in("acme-operator");
    assert_eq!(bench.post(VOLUMES, &body).await.status, 201);
    let beyond = bench.post(VOLUMES, &body).await;
    assert_eq!(
        (beyond.status, &beyond.body["code"]),
        (403, &json!("access.quota")),
        "{beyond:?}"
    );
}

#[tokio::test]
async fn a_volume_belongs_to_its_tenant() {
    let bench = Bench::with(users("")).await;
    bench.log_in("acme-admin");
    let instance = with_storage(&bench).await;
    let accepted = terminate(&bench, &instance, json!(["data"])).await;
    bench.ended(&accepted.created_id()).await;
    let id = bench.get(VOLUMES).await.body[0]["id"].clone();
    let id = id.as_str().unwrap();
    let path = format!("{VOLUMES}/{id}");
    bench.log_in("acme-reader");
    assert_eq!(bench.get(&path).await.status, 200);
    assert_eq!(bench.delete(&path).await.status, 403);
    bench.log_in("other-admin");
    for response in [bench.get(&path).await, bench.delete(&path).await] {
        assert_eq!(response.status, 404, "{response:?}");
    }
    assert_eq!(bench.get(VOLUMES).await.body, json!([]));
    // It cannot come into an instance of another tenant: for that one it does not exist.
    let own = with_storage(&bench).await;
    let accepted = terminate(&bench, &own, json!([])).await;
    bench.ended(&accepted.created_id()).await;
    let vim = bench.get(VIMS).await.body[0]["id"].clone();
    let params = json!({"vnfm_reuse_volumes": [id]});
    let theft = instantiate(&bench, &own, vim.as_str().unwrap(), params).await;
    assert_eq!(
        (theft.status, &theft.body["code"]),
        (422, &json!("volume.unusable"))
    );
    assert!(theft.detail().contains("does not exist"), "{theft:?}");
    bench.log_in("acme-operator");
    assert_eq!(bench.delete(&path).await.status, 204);
}

#[tokio::test]
async fn a_volume_counts_against_the_quota() {
    let bench = Bench::with(users("quota: {volumes: 0}")).await;
    bench.log_in("acme-admin");
    let instance = with_storage(&bench).await;
    let accepted = terminate(&bench, &instance, json!("all")).await;
    let ended = bench.ended(&accepted.created_id()).await;
    assert_eq!(ended["operationState"], "FAILED_TEMP", "{ended:#}");
    assert!(ended["error"].to_string().contains("volumes"), "{ended:#}");
    assert_eq!(bench.get(VOLUMES).await.body, json!([]));
    let calls = bench.world.calls.borrow().clone();
    assert!(!calls.contains(&"release"), "{calls:?}");
}

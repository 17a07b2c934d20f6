//! Shared virtual links over HTTP: creation, lists in pages, use by instances, roles, quota, other tenants.

use crate::bench::{Bench, INSTANCES, Response, VIMS};
use crate::tenants::users;
use serde_json::{Value, json};

pub(crate) const LINKS: &str = "/vnfm/v1/links";

async fn vim(bench: &Bench) -> String {
    let connection = json!({"vimType": "ETSINFV.KUBERNETES.V_1",
        "interfaceInfo": {"endpoint": "https://192.0.2.9:6443"}, "accessInfo": {"bearer_token": "planted-token"}});
    let body = json!({"name": "cloud", "connection": connection});
    bench.post(VIMS, &body).await.id()
}

fn body(name: &str) -> Value {
    json!({"name": name, "vimId": "cloud", "subnets": [{"cidr": "10.10.0.0/24", "dhcpEnabled": false}]})
}

async fn created(bench: &Bench, name: &str) -> Response {
    let created = bench.post(LINKS, &body(name)).await;
    assert_eq!(created.status, 201, "{created:?}");
    created
}

/// An instance whose only VIM has this network as an external link.
async fn on_network(bench: &Bench, vim: &str, network: &str) -> String {
    let (_, vnfd) = bench.onboard("vnf-b-cnf").await;
    let id = bench.create(&vnfd).await;
    let request = json!({"flavourId": "simple", "vimConnectionInfo": {"vim1": {"vimId": vim}},
        "extVirtualLinks": [{"id": "external", "resourceId": network, "extCps": []}]});
    let instance = format!("{INSTANCES}/{id}");
    let accepted = bench
        .post(&format!("{instance}/instantiate"), &request)
        .await;
    assert_eq!(accepted.status, 202, "{accepted:?}");
    let ended = bench.ended(&accepted.created_id()).await;
    assert_eq!(ended["operationState"], "COMPLETED", "{ended:#}");
    id
}

#[tokio::test]
async fn a_link_is_created_used_and_deleted() {
    let bench = Bench::new().await;
    let vim = vim(&bench).await;
    let link = created(&bench, "shared").await;
    let id = link.body["id"].as_str().unwrap().to_owned();
    assert_eq!(link.location(), format!("{}{LINKS}/{id}", bench.url));
    let mut expected = body("shared");
    expected["vimId"] = json!(vim);
    expected["id"] = json!(id);
    expected["state"] = json!("AVAILABLE");
    expected["resourceId"] = json!("network-shared");
    expected["usedBy"] = json!([]);
    expected["createdAt"] = link.body["createdAt"].clone();
    assert_eq!(link.body, expected);
    let again = bench.post(LINKS, &body("shared")).await;
    assert_eq!((again.status, &again.body), (200, &expected));
    let instance = on_network(&bench, &vim, "network-shared").await;
    for key in [&*id, "shared"] {
        let shown = bench.get(&format!("{LINKS}/{key}")).await;
        assert_eq!(shown.body["usedBy"], json!([instance]));
    }
    let path = format!("{LINKS}/{id}");
    let refused = bench.delete(&path).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (409, &json!("request.in-use"))
    );
    assert!(refused.detail().contains(&instance), "{refused:?}");
    let terminate = format!("{INSTANCES}/{instance}/terminate");
    let accepted = bench
        .post(&terminate, &json!({"terminationType": "FORCEFUL"}))
        .await;
    bench.ended(&accepted.created_id()).await;
    assert_eq!(bench.delete(&path).await.status, 204);
    for missing in [bench.get(&path).await, bench.delete(&path).await] {
        assert_eq!(missing.status, 404, "{missing:?}");
    }
    bench.world.until("delete_link").await;
}

#[tokio::test]
async fn links_are_listed_in_pages_and_by_filter() {
    let bench = Bench::new().await;
    let vim = vim(&bench).await;
    for number in 0..3 {
        created(&bench, &format!("link-{number}")).await;
    }
    let listed = bench.get(LINKS).await;
    assert_eq!(listed.body.as_array().unwrap().len(), 3);
    let filter =
        format!("{LINKS}?filter=(eq,name,link-1);(eq,vimId,{vim});(cont,subnets/cidr,10.10)");
    let found = bench.get(&filter).await.body;
    assert_eq!(found.as_array().unwrap().len(), 1, "{found:#}");
    assert_eq!(found[0]["name"], "link-1");
    let unknown = bench.get(&format!("{LINKS}?filter=(eq,nobody,1)")).await;
    assert_eq!(unknown.status, 400);
}

#[tokio::test]
async fn what_a_vim_cannot_have_is_refused() {
    let bench = Bench::new().await;
    vim(&bench).await;
    let mut without = body("shared");
    without["subnets"] = json!([]);
    let mut nowhere = body("shared");
    nowhere["vimId"] = json!("none");
    let mut nameless = body("");
    nameless["name"] = json!("");
    for (body, part) in [(without, "subnets"), (nowhere, "none"), (nameless, "name")] {
        let refused = bench.post(LINKS, &body).await;
        assert_eq!(refused.status, 422, "{refused:?}");
        assert!(refused.detail().contains(part), "{refused:?}");
    }
    assert_eq!(bench.post(LINKS, &json!({"name": "x"})).await.status, 422);
    bench
        .world
        .limited
        .store(true, std::sync::atomic::Ordering::SeqCst);
    let refused = bench.post(LINKS, &body("shared")).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (422, &json!("link.unusable"))
    );
    assert_eq!(bench.get(LINKS).await.body, json!([]));
}

#[tokio::test]
async fn a_link_belongs_to_its_tenant_and_counts_against_its_quota() {
    let bench = Bench::with(users("quota: {links: 1}")).await;
    bench.log_in("acme-admin");
    vim(&bench).await;
    bench.log_in("acme-reader");
    assert_eq!(bench.post(LINKS, &body("shared")).await.status, 403);
    bench.log_in("acme-operator");
    let id = created(&bench, "shared").await.body["id"].clone();
    let refused = bench.post(LINKS, &body("more")).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (403, &json!("access.quota"))
    );
    bench.log_in("other-admin");
    for key in [id.as_str().unwrap(), "shared"] {
        let path = format!("{LINKS}/{key}");
        for response in [bench.get(&path).await, bench.delete(&path).await] {
            assert_eq!(response.status, 404, "{response:?}");
        }
    }
    assert_eq!(bench.get(LINKS).await.body, json!([]));
    // The VIM is not the other tenant's, so it cannot have a link there either.
    assert_eq!(bench.post(LINKS, &body("shared")).await.status, 422);
    bench.log_in("acme-operator");
    assert_eq!(bench.delete(&format!("{LINKS}/shared")).await.status, 204);
}

#[tokio::test]
async fn a_tenant_creates_no_network_on_a_shared_vim() {
    let bench = Bench::with(users("")).await;
    bench.log_in("root");
    let vim = vim(&bench).await;
    let shared = bench.request(reqwest::Method::PATCH, &format!("{VIMS}/{vim}"));
    let shared = bench.send(shared.json(&json!({"shared": true}))).await;
    assert_eq!(shared.status, 200, "{shared:?}");
    bench.log_in("acme-admin");
    let refused = bench.post(LINKS, &body("shared")).await;
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (422, &json!("link.unusable"))
    );
    let calls = bench.world.calls.borrow().clone();
    assert!(!calls.contains(&"create_link"), "{calls:?}");
}

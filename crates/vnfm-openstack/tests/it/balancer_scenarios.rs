//! Load balancers as cloud-provider-openstack leaves them in Octavia, on a cloud that is simulated or real.

use crate::cloud_user::CloudUser;
use crate::credential_scenarios::{SECRET, create, wanted};
use crate::support::{OneVdu, TestBed};
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;

const SERVICE: &str = "load-balancer";

/// Creates a load balancer with its address on the network `nfv-net`, and waits until it is active; its id.
pub(crate) async fn create_balancer(user: &CloudUser, provider: &str, wanted: &Value) -> String {
    let path = "/v2.0/networks?name=nfv-net";
    let found = user.call(Method::GET, ("network", path), Value::Null).await;
    let mut body = wanted.clone();
    body["provider"] = json!(provider);
    body["vip_subnet_id"] = found["networks"][0]["subnets"][0].clone();
    let body = json!({"loadbalancer": body});
    let path = "/v2.0/lbaas/loadbalancers";
    let created = user.call(Method::POST, (SERVICE, path), body).await;
    let id = created["loadbalancer"]["id"].as_str().unwrap().to_owned();
    shown(user, &id).await;
    id
}

/// The load balancer once it is active; null if it does not exist.
pub(crate) async fn shown(user: &CloudUser, id: &str) -> Value {
    let path = format!("/v2.0/lbaas/loadbalancers/{id}");
    let settled = async {
        loop {
            let reply = user.call(Method::GET, (SERVICE, &path), Value::Null).await;
            let shown = reply["loadbalancer"].clone();
            if shown.is_null() || shown["provisioning_status"] == "ACTIVE" {
                return shown;
            }
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_mins(1), settled)
        .await
        .unwrap()
}

/// Creates a listener or pool of the load balancer `balancer`, and waits until that is active; its id.
async fn create_part(user: &CloudUser, balancer: &str, kind: &str, wanted: &Value) -> String {
    let path = format!("/v2.0/lbaas/{kind}s");
    let body = json!({ kind: wanted });
    let created = user.call(Method::POST, (SERVICE, &path), body).await;
    shown(user, balancer).await;
    created[kind]["id"].as_str().unwrap().to_owned()
}

async fn create_listener(
    user: &CloudUser,
    at: (&str, u16),
    (name, tags): (&str, &[&str]),
) -> String {
    let (balancer, port) = at;
    let wanted = json!({
        "name": name, "tags": tags, "loadbalancer_id": balancer, "protocol": "TCP", "protocol_port": port});
    create_part(user, balancer, "listener", &wanted).await
}

async fn create_pool(user: &CloudUser, balancer: &str, (name, listener): (&str, &str)) -> String {
    let wanted = json!({
        "name": name, "listener_id": listener, "protocol": "TCP", "lb_algorithm": "ROUND_ROBIN"});
    create_part(user, balancer, "pool", &wanted).await
}

/// The names of the listeners or pools of a load balancer.
async fn names(user: &CloudUser, list: &str, balancer: &str) -> Vec<String> {
    let path = format!("/v2.0/lbaas/{list}");
    let all = user.call(Method::GET, (SERVICE, &path), Value::Null).await;
    let all = all[list].as_array().unwrap().iter();
    let there = all.filter(|one| one["loadbalancers"][0]["id"] == balancer);
    there
        .map(|one| one["name"].as_str().unwrap().to_owned())
        .collect()
}

/// A load balancer that a user supplied to a Service stays, with everything that is not of the cluster.
pub(crate) async fn what_a_user_supplied_stays(bed: &TestBed, user: &CloudUser, provider: &str) {
    let made = create(bed, &wanted(), SECRET).await.unwrap();
    let service = format!("kube_service_{}_default_web", made.tag);
    let service = service.as_str();
    let wanted = json!({"name": "supplied", "tags": ["supplied", service]});
    let id = create_balancer(user, provider, &wanted).await;
    let theirs = create_listener(user, (&id, 80), ("theirs", &[])).await;
    create_pool(user, &id, ("theirs", &theirs)).await;
    let named = format!("listener_0_{service}");
    let named = create_listener(user, (&id, 81), (&named, &[])).await;
    create_pool(user, &id, (&format!("pool_0_{service}"), &named)).await;
    let tagged = create_listener(user, (&id, 82), ("renamed", &[service])).await;
    // As an update of the Service names a pool that it creates again.
    create_pool(user, &id, ("pool_1_supplied", &tagged)).await;
    let own = json!({"name": service, "tags": [service]});
    let own = create_balancer(user, provider, &own).await;

    let allocation = OneVdu::default().allocation(bed);
    bed.release(&allocation, Value::Null).await.unwrap();
    let left = shown(user, &id).await;
    assert_eq!(left["tags"], json!(["supplied"]), "{left}");
    assert_eq!(names(user, "listeners", &id).await, ["theirs"]);
    assert_eq!(names(user, "pools", &id).await, ["theirs"]);
    assert_eq!(shown(user, &own).await, Value::Null);
    delete_balancer(user, &id).await;
}

/// Deletes a load balancer with all its parts, and waits until it does not exist.
pub(crate) async fn delete_balancer(user: &CloudUser, id: &str) {
    shown(user, id).await;
    let path = format!("/v2.0/lbaas/loadbalancers/{id}?cascade=true");
    user.call(Method::DELETE, (SERVICE, &path), Value::Null)
        .await;
    assert_eq!(shown(user, id).await, Value::Null);
}

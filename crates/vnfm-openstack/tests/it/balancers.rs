//! Load balancers and floating IPs that clusters leave behind, on the simulated cloud.

use crate::balancer_scenarios::{self, create_balancer, shown};
use crate::cloud_user::CloudUser;
use crate::credential_scenarios::{SECRET, create, wanted};
use crate::credentials::with_known_login;
use crate::simulated::{assert_clean, bed, connection, world};
use crate::support::OneVdu;
use reqwest::Method;
use serde_json::{Value, json};
use std::time::Duration;
use vnfm_sim::faults::{Fault, Rule};

const PROVIDER: &str = "amphora";

#[tokio::test(flavor = "multi_thread")]
async fn a_load_balancer_that_a_user_supplied_stays() {
    let world = world(Duration::ZERO).await;
    let user = CloudUser::log_in(&connection(&world), None).await;
    balancer_scenarios::what_a_user_supplied_stays(&bed(&world), &user, PROVIDER).await;
    assert_clean(&world);
}

/// Attempts that end before, between and after its steps are continued: the tag by which it is found goes last.
#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_removal_from_a_supplied_load_balancer_is_continued() {
    for call in ["pool_delete", "listener_delete", "loadbalancer_update"] {
        let world = world(Duration::ZERO).await;
        let bed = bed(&world);
        let user = CloudUser::log_in(&connection(&world), None).await;
        let refused = Fault::Status { status: 403 };
        let rule = Rule::new(format!("octavia.{call}"), refused).nth(1, 1);
        world.faults().add(rule);
        let made = create(&bed, &wanted(), SECRET).await.unwrap();
        let service = format!("kube_service_{}_default_web", made.tag);
        let supplied = json!({"name": "supplied", "tags": [service]});
        let id = create_balancer(&user, PROVIDER, &supplied).await;
        for (list, kind) in [("listeners", "listener"), ("pools", "pool")] {
            let part = json!({"name": format!("{kind}_0_{service}"), "loadbalancer_id": id, "protocol": "TCP"});
            let path = format!("/v2.0/lbaas/{list}");
            let at = ("load-balancer", path.as_str());
            user.call(Method::POST, at, json!({ kind: part })).await;
            shown(&user, &id).await;
        }
        let allocation = with_known_login(OneVdu::default().allocation(&bed));
        let error = bed.release(&allocation, Value::Null).await.unwrap_err();
        assert_eq!(error.name(), "openstack.forbidden", "{call}: {error}");
        bed.release(&allocation, Value::Null).await.unwrap();
        assert_eq!(shown(&user, &id).await["tags"], json!([]), "{call}");
        balancer_scenarios::delete_balancer(&user, &id).await;
        assert_clean(&world);
    }
}

/// Those that a cluster created go with its load balancers; those that a user attached stay, detached.
#[tokio::test(flavor = "multi_thread")]
async fn only_floating_ips_of_the_cluster_go_with_its_load_balancers() {
    let world = world(Duration::ZERO).await;
    let bed = bed(&world);
    let user = CloudUser::log_in(&connection(&world), None).await;
    let made = create(&bed, &wanted(), SECRET).await.unwrap();
    let tag = made.tag.as_str();
    let providers = |name: &str| json!({"name": format!("kube_service_{tag}_default_{name}")});
    let kuryrs = |name: &str| json!({"name": format!("default/{name}"), "tags": [tag]});
    let by_provider =
        format!("Floating IP for Kubernetes external service default/a from cluster {tag}");
    let mut kept = Vec::new();
    for (balancer, description, tags, is_kept) in [
        (providers("a"), by_provider.as_str(), json!([]), false),
        (providers("b"), "of a user", json!([]), true),
        (kuryrs("c"), "kuryr_lb", json!([tag]), false),
        (kuryrs("d"), "kuryr_lb", json!([]), false),
        (kuryrs("e"), "", json!([]), true),
    ] {
        let id = create_balancer(&user, PROVIDER, &balancer).await;
        let port = shown(&user, &id).await["vip_port_id"].take();
        let address = attach_address(&user, &port, (description, &tags)).await;
        if is_kept {
            kept.push(address);
        }
    }
    let allocation = OneVdu::default().allocation(&bed);
    bed.release(&allocation, Value::Null).await.unwrap();

    let path = "/v2.0/floatingips";
    let left = user.call(Method::GET, ("network", path), Value::Null).await;
    let left = left["floatingips"].as_array().unwrap();
    assert!(left.iter().all(|one| one["port_id"].is_null()), "{left:?}");
    let mut ids: Vec<&str> = left.iter().filter_map(|one| one["id"].as_str()).collect();
    ids.sort_unstable();
    kept.sort_unstable();
    assert_eq!(ids, kept);
    for id in &kept {
        let path = format!("/v2.0/floatingips/{id}");
        user.call(Method::DELETE, ("network", &path), Value::Null)
            .await;
    }
    assert_clean(&world);
}

/// Creates a floating IP at a port; its id.
async fn attach_address(
    user: &CloudUser,
    port: &Value,
    (description, tags): (&str, &Value),
) -> String {
    let path = "/v2.0/networks?name=provider";
    let found = user.call(Method::GET, ("network", path), Value::Null).await;
    let network = &found["networks"][0]["id"];
    let body = json!({"floatingip": {
        "floating_network_id": network, "port_id": port, "description": description}});
    let path = "/v2.0/floatingips";
    let created = user.call(Method::POST, ("network", path), body).await;
    let id = created["floatingip"]["id"].as_str().unwrap().to_owned();
    let path = format!("/v2.0/floatingips/{id}/tags");
    let body = json!({"tags": tags});
    user.call(Method::PUT, ("network", &path), body).await;
    id
}

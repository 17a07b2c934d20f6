//! Logins for programs inside an instance on a real cloud, and the removal of what such programs created there.

use crate::balancer_scenarios;
use crate::bed::{bed, connection};
use crate::cloud_user::CloudUser;
use crate::credential_scenarios::{self, SECRET, create, credentials, wanted};
use crate::support::{OneVdu, TestBed};
use jiff::{SignedDuration, Timestamp};
use reqwest::{Client, Method};
use serde_json::{Value, json};
use std::time::Duration;
use vnfm_core::ports::{AccessRule, Clock as _, Credential};

#[tokio::test(flavor = "multi_thread")]
async fn a_login_exists_as_long_as_its_instance() {
    let Some(bed) = bed() else { return };
    credential_scenarios::a_login_exists_as_long_as_its_instance(&bed).await;
    credential_scenarios::a_role_that_the_user_lacks_is_refused(&bed).await;
    credential_scenarios::a_foreign_login_is_not_touched(&bed).await;
}

/// Keystone keeps access rules apart from the credentials that use them.
#[tokio::test(flavor = "multi_thread")]
async fn access_rules_and_expiry_reach_keystone_and_leave_nothing() {
    let Some(bed) = bed() else { return };
    let mut limited = wanted();
    limited.access_rules = vec![AccessRule::new("network", "GET", "/v2.0/networks")];
    limited.expires_at = Some("2036-01-01T00:00:00Z".into());
    let made = create(&bed, &limited, SECRET).await.unwrap();
    let again = create(&bed, &limited, SECRET).await.unwrap();
    assert_eq!(again.id, made.id, "Keystone shows what was requested");
    let owner = Inside::password(&made).await;
    let rules = format!("/users/{}/access_rules", owner.user);
    let listed = owner.get("identity", &rules).await;
    assert!(listed.to_string().contains("/v2.0/networks"), "{listed}");
    let credentials = credentials(&bed);
    credentials
        .revoke_credentials(&bed.call(), &[])
        .await
        .unwrap();
    let listed = owner.get("identity", &rules).await;
    assert_eq!(listed["access_rules"], json!([]));
}

/// What a cluster creates with its login: a load balancer with a floating IP on a network of pods at the router of the stack,
/// a port, a security group and a volume.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_cluster_created_goes_with_its_instance() {
    let Some(bed) = bed() else { return };
    let made = create(&bed, &wanted(), SECRET).await.unwrap();
    let inside = Inside::credential(&made).await;
    if !has_octavia(&inside) {
        return;
    }
    let router = cluster_resources(&bed, &inside, &made.tag).await;
    let allocation = OneVdu::default().allocation(&bed);
    bed.release(&allocation, Value::Null).await.unwrap();

    let owner = Inside::password(&made).await;
    let deleted = owner
        .send(
            Method::DELETE,
            "network",
            &format!("/v2.0/routers/{router}"),
            &Value::Null,
        )
        .await;
    assert_eq!(deleted, Value::Null, "a router with interfaces would stay");
    let tag = &made.tag;
    for (service, path, list) in [
        (
            "load-balancer",
            "/v2.0/lbaas/loadbalancers".to_owned(),
            "loadbalancers",
        ),
        (
            "load-balancer",
            "/v2.0/lbaas/listeners".to_owned(),
            "listeners",
        ),
        ("network", format!("/v2.0/networks?tags={tag}"), "networks"),
        ("network", format!("/v2.0/ports?tags={tag}"), "ports"),
        ("network", "/v2.0/floatingips".to_owned(), "floatingips"),
        (
            "network",
            format!("/v2.0/security-groups?name=lb-{tag}"),
            "security_groups",
        ),
        ("volumev3", "/volumes/detail".to_owned(), "volumes"),
    ] {
        let left = owner.get(service, &path).await[list].take();
        let ours: Vec<&Value> = left
            .as_array()
            .unwrap()
            .iter()
            .filter(|one| one.to_string().contains(tag.as_str()))
            .collect();
        assert!(ours.is_empty(), "{list}: {ours:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_load_balancer_that_a_user_supplied_stays() {
    let (Some(bed), Some(info)) = (bed(), connection()) else {
        return;
    };
    let made = create(&bed, &wanted(), SECRET).await.unwrap();
    if !has_octavia(&Inside::credential(&made).await) {
        credentials(&bed)
            .revoke_credentials(&bed.call(), &[])
            .await
            .unwrap();
        return;
    }
    let user = CloudUser::log_in(&info, None).await;
    balancer_scenarios::what_a_user_supplied_stays(&bed, &user, "nfvtest").await;
}

/// Prints why and returns `false` if the cloud has none.
fn has_octavia(inside: &Inside) -> bool {
    let has = inside.has("load-balancer");
    if !has {
        let why = "the cloud has no Octavia; OPENSTACK_OCTAVIA=1 starts one with it";
        assert!(
            std::env::var("VNFM_REQUIRE_LIVE").as_deref() != Ok("1"),
            "{why}"
        );
        eprintln!("skipped: {why}");
    }
    has
}

/// Creates them as the cluster would; returns the router, which belongs to the stack.
async fn cluster_resources(bed: &TestBed, inside: &Inside, tag: &str) -> String {
    let provider = inside.get("network", "/v2.0/networks?name=provider").await;
    let provider = &provider["networks"][0]["id"];
    let body = json!({"router": {"external_gateway_info": {"network_id": provider}}});
    let router = inside.create("network", "/v2.0/routers", body).await;
    let body = json!({"network": {"name": "pods"}});
    let pods = inside.create("network", "/v2.0/networks", body).await;
    let tags = json!({"tags": [tag]});
    let path = format!("/v2.0/networks/{pods}/tags");
    inside.send(Method::PUT, "network", &path, &tags).await;
    let body = json!({"subnet": {"network_id": pods, "ip_version": 4, "cidr": "10.83.0.0/24"}});
    let subnet = inside.create("network", "/v2.0/subnets", body).await;
    let path = format!("/v2.0/routers/{router}/add_router_interface");
    let body = json!({"subnet_id": subnet});
    inside.send(Method::PUT, "network", &path, &body).await;
    let body = json!({"port": {"network_id": pods}});
    let port = inside.create("network", "/v2.0/ports", body).await;
    let path = format!("/v2.0/ports/{port}/tags");
    inside.send(Method::PUT, "network", &path, &tags).await;
    let text = format!("Security Group for default/web Service LoadBalancer in cluster {tag}");
    let body = json!({"security_group": {"name": format!("lb-{tag}"), "description": text}});
    inside
        .create("network", "/v2.0/security-groups", body)
        .await;
    let metadata = json!({"cinder.csi.openstack.org/cluster": tag});
    let body = json!({"volume": {"size": 1, "name": format!("pvc-{tag}"), "metadata": metadata}});
    inside.create("volumev3", "/volumes", body).await;
    let body = json!({"loadbalancer": {
        "name": format!("kube_service_{tag}_default_web"), "vip_subnet_id": subnet, "provider": "nfvtest",
        "listeners": [{"name": tag, "protocol": "TCP", "protocol_port": 80}]}});
    let balancer = inside
        .create("load-balancer", "/v2.0/lbaas/loadbalancers", body)
        .await;
    let path = format!("/v2.0/lbaas/loadbalancers/{balancer}");
    let vip = loop {
        let shown = inside.get("load-balancer", &path).await["loadbalancer"].take();
        if shown["provisioning_status"] == "ACTIVE" {
            break shown["vip_port_id"].clone();
        }
        assert!(Timestamp::now() < inside.deadline, "{shown}");
        bed.clock.sleep(Duration::from_millis(200)).await;
    };
    let text =
        format!("Floating IP for Kubernetes external service default/web from cluster {tag}");
    let body = json!({"floatingip": {
        "floating_network_id": provider, "port_id": vip, "description": text}});
    inside.create("network", "/v2.0/floatingips", body).await;
    router
}

/// A client of the cloud's services.
struct Inside {
    client: Client,
    token: String,
    user: String,
    auth_url: String,
    catalog: Value,
    deadline: Timestamp,
}

impl Inside {
    /// As a program inside the instance.
    async fn credential(made: &Credential) -> Self {
        let identity = json!({"methods": ["application_credential"], "application_credential": {
            "id": made.id, "secret": made.secret.reveal()}});
        Self::new(&made.auth_url, json!({"auth": {"identity": identity}})).await
    }

    /// As the user of the VIM.
    async fn password(made: &Credential) -> Self {
        let (name, password) = crate::bed::login("nfv");
        let domain = json!({"id": "default"});
        let login = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": name, "password": password, "domain": domain}}},
            "scope": {"project": {"name": name, "domain": domain}},
        }});
        Self::new(&made.auth_url, login).await
    }

    async fn new(auth_url: &str, login: Value) -> Self {
        let client = Client::builder().no_proxy().build().unwrap();
        let call = client.post(format!("{auth_url}/auth/tokens")).json(&login);
        let reply = call.send().await.unwrap();
        let token = reply.headers()["x-subject-token"]
            .to_str()
            .unwrap()
            .to_owned();
        let body: Value = reply.json().await.unwrap();
        Self {
            client,
            token,
            user: body["token"]["user"]["id"].as_str().unwrap().to_owned(),
            auth_url: auth_url.to_owned(),
            catalog: body["token"]["catalog"].clone(),
            deadline: Timestamp::now() + SignedDuration::from_secs(60),
        }
    }

    fn entry(&self, service: &str) -> Option<&Value> {
        let mut all = self.catalog.as_array()?.iter();
        all.find(|entry| entry["type"] == service)
    }

    fn has(&self, service: &str) -> bool {
        self.entry(service).is_some()
    }

    async fn get(&self, service: &str, path: &str) -> Value {
        self.send(Method::GET, service, path, &Value::Null).await
    }

    /// Creates a resource; returns its id.
    async fn create(&self, service: &str, path: &str, body: Value) -> String {
        let created = self.send(Method::POST, service, path, &body).await;
        let member = created.as_object().unwrap().values().next().unwrap();
        member["id"].as_str().unwrap().to_owned()
    }

    async fn send(&self, method: Method, service: &str, path: &str, body: &Value) -> Value {
        let base = match service {
            "identity" => self.auth_url.clone(),
            service => {
                let mut endpoints = self.entry(service).unwrap()["endpoints"]
                    .as_array()
                    .unwrap()
                    .iter();
                let public = endpoints.find(|one| one["interface"] == "public").unwrap();
                public["url"]
                    .as_str()
                    .unwrap()
                    .trim_end_matches('/')
                    .to_owned()
            }
        };
        let call = self.client.request(method, format!("{base}{path}"));
        let call = call.header("X-Auth-Token", &self.token);
        let call = if body.is_null() {
            call
        } else {
            call.json(body)
        };
        let reply = call.send().await.unwrap();
        let status = reply.status();
        let text = reply.text().await.unwrap();
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }
}

//! Hostile API servers (endless responses, internal proxies), and packages with invalid manifests.

use crate::faults::faulty_cluster;
use crate::support::{CONFIG, deployment, package};
use async_trait::async_trait;
use serde_json::{Value, json};
use vnfm_core::ports::{Allocation, InfraDriver as _, PortError, SecretConnection, Vim, VimLogin};
use vnfm_kubernetes::KubernetesDriver;
use vnfm_outbound::{Destinations, Networks};
use vnfm_sim::hostile_server::{HostileResponse, HostileServer};
use vnfm_types::VimConnectionInfo;

/// A connection that came with a request, or that was stored earlier.
struct Given {
    info: VimConnectionInfo,
    exposes_responses: bool,
    keeps_address: bool,
}

impl Given {
    fn at(endpoint: &str) -> Self {
        let info = json!({"vimType": "kubernetes", "interfaceInfo": {"endpoint": endpoint},
            "accessInfo": {"bearer_token": "planted-token"}});
        Self {
            info: serde_json::from_value(info).unwrap(),
            exposes_responses: false,
            keeps_address: false,
        }
    }
}

#[async_trait]
impl Vim for Given {
    fn name(&self) -> &'static str {
        "given"
    }
    fn connection_id(&self) -> &'static str {
        "given"
    }
    async fn connection(&self) -> Result<VimLogin, PortError> {
        Ok(VimLogin {
            info: SecretConnection(self.info.clone()),
            version: 0,
        })
    }
    fn exposes_responses(&self) -> bool {
        self.exposes_responses
    }
    fn keeps_unchecked_address(&self, _: &VimConnectionInfo) -> bool {
        self.keeps_address
    }
}

async fn check(networks: &[&str], vim: &Given) -> PortError {
    let networks: Vec<_> = networks.iter().map(|&text| text.to_owned()).collect();
    let to = Destinations::within(Networks::parse(&networks).unwrap());
    KubernetesDriver::new(to).check(vim).await.unwrap_err()
}

#[tokio::test]
async fn an_endless_response_is_a_permanent_error() {
    for lie in [
        HostileResponse::Endless,
        HostileResponse::Huge,
        HostileResponse::Values(1_000_000),
    ] {
        let cluster = HostileServer::start("127.0.0.1", lie.clone())
            .await
            .unwrap();
        let error = check(&["127.0.0.1"], &Given::at(&cluster.url())).await;
        assert_eq!(
            error.name(),
            "kubernetes.answer-too-large",
            "{lie:?}: {error}"
        );
        assert!(
            !error.is_unavailable(),
            "{lie:?}: tried again it would be the same"
        );
        assert!(
            cluster.sent() < 64 << 20,
            "{lie:?}: {} bytes were sent",
            cluster.sent()
        );
    }
}

#[tokio::test]
async fn loopback_is_refused_by_default_as_endpoint_and_as_proxy() {
    let inner = HostileServer::start("127.0.0.1", HostileResponse::Plain(404, "inner".into()))
        .await
        .unwrap();
    let error = check(&[], &Given::at(&inner.url())).await;
    assert_eq!(error.name(), "kubernetes.address", "{error}");
    assert!(error.next().contains("vims.networks"), "{}", error.next());
    let mut through = Given::at("https://192.0.2.9:6443");
    through
        .info
        .extra
        .insert("proxy".into(), json!(inner.url()));
    let error = check(&[], &through).await;
    assert_eq!(error.name(), "kubernetes.address", "{error}");
    let named = check(&[], &Given::at("https://localhost:6443")).await;
    assert_eq!(named.name(), "kubernetes.address", "{named}");
    assert!(inner.seen().is_empty(), "{:?}", inner.seen());
}

#[tokio::test]
async fn responses_are_exposed_for_registered_vims_only() {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "AKIA password=inner", "reason": "NotFound", "code": 404});
    let inner = HostileServer::start("127.0.0.1", HostileResponse::Plain(404, status.to_string()))
        .await
        .unwrap();
    let given = Given::at(&inner.url());
    let error = check(&["127.0.0.1"], &given).await.to_string();
    assert!(
        error.contains("it responds with status 404") && !error.contains("AKIA"),
        "{error}"
    );
    let registered = Given {
        exposes_responses: true,
        ..given
    };
    let error = check(&["127.0.0.1"], &registered).await.to_string();
    assert!(error.contains("AKIA password=inner"), "{error}");
}

#[tokio::test]
async fn a_cluster_registered_earlier_keeps_its_address() {
    let cluster = HostileServer::start("127.0.0.1", HostileResponse::Plain(404, String::new()))
        .await
        .unwrap();
    let keeps_address = Given {
        keeps_address: true,
        ..Given::at(&cluster.url())
    };
    let error = check(&[], &keeps_address).await;
    assert_ne!(error.name(), "kubernetes.address", "{error}");
    assert!(!cluster.seen().is_empty());
}

/// A ConfigMap with this metadata between two valid ones.
fn with_metadata(metadata: &str) -> Allocation {
    let odd = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\n");
    let last = CONFIG.replace("page", "last");
    package(&[(1, CONFIG), (2, &odd), (3, &last)], "", json!({}))
}

#[tokio::test]
async fn an_invalid_name_is_refused_before_anything_is_created() {
    let (world, cluster, _) = faulty_cluster().await;
    for (metadata, object) in [
        (
            "{name: '{{ 7 * 7 }}{% x %}'}",
            "ConfigMap `{{ 7 * 7 }}{% x %}`",
        ),
        ("{name: '../../secrets/a'}", "ConfigMap `../../secrets/a`"),
        ("{name: a, namespace: '{% x %}'}", "ConfigMap `a`"),
        ("{name: a, labels: {'{{ k }}': v}}", "ConfigMap `a`"),
    ] {
        let what = with_metadata(metadata);
        let refused = world.driver.validate_request(&what).unwrap_err();
        let planned = world.instantiate(&what, 20).await.unwrap_err();
        for refusal in [refused, planned] {
            assert_eq!(refusal.name(), "kubernetes.manifest-invalid", "{refusal}");
            assert!(
                refusal.to_string().contains("Files/kubernetes/1.yaml:1"),
                "{refusal}"
            );
            assert_eq!(refusal.resource(), Some(object), "{refusal}");
        }
    }
    assert!(
        cluster
            .object(&format!("/api/v1/namespaces/{}", world.namespace()))
            .is_none()
    );
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn an_instance_with_an_invalid_object_name_can_be_released() {
    for metadata in [
        "{name: '{{ 7 * 7 }}{% x %}'}",
        "{name: '{{ 7 * 7 }}'}",
        "{name: a, namespace: '{{ ns }}'}",
    ] {
        let (world, _, _) = faulty_cluster().await;
        let created = world
            .instantiate(&with_metadata("{name: odd}"), 20)
            .await
            .unwrap();
        // An earlier version was interrupted: the handle is missing, or contains the name.
        let what = with_metadata(metadata);
        world.terminate(&what, Value::Null).await.unwrap();
        let mut handle = created.handle;
        handle["objects"][1]["name"] = "{{ 7 * 7 }}{% x %}".into();
        handle["objects"][1]["namespace"] = "{{ ns }}".into();
        world
            .driver
            .observe(&world.cx(20), &what, &handle)
            .await
            .unwrap();
        world.terminate(&what, handle).await.unwrap();
        world.assert_nothing_left().await;
    }
}

#[tokio::test]
async fn resources_that_a_cluster_would_create_are_counted_before_anything_is_created() {
    let (world, cluster, _) = faulty_cluster().await;
    let many = deployment(100_000_000, "");
    let what = package(&[(1, CONFIG), (2, &many)], "", json!({}));
    let refused = world.driver.validate_request(&what).unwrap_err();
    let planned = world.instantiate(&what, 20).await.unwrap_err();
    for refusal in [refused, planned] {
        assert_eq!(refusal.name(), "plan.too-large", "{refusal}");
        assert!(
            refusal.to_string().contains("`limits.resources` is 10000"),
            "{refusal}"
        );
    }
    assert!(
        cluster
            .object(&format!("/api/v1/namespaces/{}", world.namespace()))
            .is_none()
    );
}

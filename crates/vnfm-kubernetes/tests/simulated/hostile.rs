//! API servers that lie: endless answers, and a proxy inside. Packages whose manifests no cluster can take.

use crate::faults::faulty_cluster;
use crate::support::{CONFIG, deployment, package};
use async_trait::async_trait;
use serde_json::{Value, json};
use vnfm_core::ports::{Allocation, InfraDriver as _, PortError, SecretConnection, Vim, VimLogin};
use vnfm_kubernetes::KubernetesDriver;
use vnfm_outbound::{Destinations, Networks};
use vnfm_sim::liar::{Liar, Lie};
use vnfm_types::VimConnectionInfo;

/// A connection that came with a request, or is kept from before.
struct Given {
    info: VimConnectionInfo,
    shown: bool,
    kept: bool,
}

impl Given {
    fn at(endpoint: &str) -> Self {
        let info = json!({"vimType": "kubernetes", "interfaceInfo": {"endpoint": endpoint},
            "accessInfo": {"bearer_token": "planted-token"}});
        Self {
            info: serde_json::from_value(info).unwrap(),
            shown: false,
            kept: false,
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
        self.shown
    }
    fn keeps_unchecked_address(&self, _: &VimConnectionInfo) -> bool {
        self.kept
    }
}

async fn check(networks: &[&str], vim: &Given) -> PortError {
    let networks: Vec<_> = networks.iter().map(|&text| text.to_owned()).collect();
    let to = Destinations::within(Networks::parse(&networks).unwrap());
    KubernetesDriver::new(to).check(vim).await.unwrap_err()
}

#[tokio::test]
async fn an_answer_without_an_end_is_an_error_that_lasts() {
    for lie in [Lie::Endless, Lie::Huge, Lie::Values(1_000_000)] {
        let cluster = Liar::start("127.0.0.1", lie.clone()).await.unwrap();
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
async fn loopback_is_refused_by_default_also_as_a_proxy() {
    let inner = Liar::start("127.0.0.1", Lie::Plain(404, "inner".into()))
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
async fn what_answers_is_shown_for_registered_vims_alone() {
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "AKIA password=inner", "reason": "NotFound", "code": 404});
    let inner = Liar::start("127.0.0.1", Lie::Plain(404, status.to_string()))
        .await
        .unwrap();
    let given = Given::at(&inner.url());
    let error = check(&["127.0.0.1"], &given).await.to_string();
    assert!(
        error.contains("it answers 404") && !error.contains("AKIA"),
        "{error}"
    );
    let registered = Given {
        shown: true,
        ..given
    };
    let error = check(&["127.0.0.1"], &registered).await.to_string();
    assert!(error.contains("AKIA password=inner"), "{error}");
}

#[tokio::test]
async fn a_cluster_from_before_keeps_its_address() {
    let cluster = Liar::start("127.0.0.1", Lie::Plain(404, String::new()))
        .await
        .unwrap();
    let kept = Given {
        kept: true,
        ..Given::at(&cluster.url())
    };
    let error = check(&[], &kept).await;
    assert_ne!(error.name(), "kubernetes.address", "{error}");
    assert!(!cluster.seen().is_empty());
}

/// A ConfigMap whose metadata are these, between two that are well.
fn with_metadata(metadata: &str) -> Allocation {
    let odd = format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {metadata}\n");
    let last = CONFIG.replace("page", "last");
    package(&[(1, CONFIG), (2, &odd), (3, &last)], "", json!({}))
}

#[tokio::test]
async fn a_name_that_no_cluster_stores_is_refused_before_anything_is_made() {
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
        let asked = world.driver.validate_request(&what).unwrap_err();
        let planned = world.instantiate(&what, 20).await.unwrap_err();
        for refusal in [asked, planned] {
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
            .get_json(&format!("/api/v1/namespaces/{}", world.namespace()))
            .is_none()
    );
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn what_was_begun_under_a_name_that_no_cluster_stores_is_released() {
    for metadata in [
        "{name: '{{ 7 * 7 }}{% x %}'}",
        "{name: '{{ 7 * 7 }}'}",
        "{name: a, namespace: '{{ ns }}'}",
    ] {
        let (world, _, _) = faulty_cluster().await;
        let made = world
            .instantiate(&with_metadata("{name: odd}"), 20)
            .await
            .unwrap();
        // An earlier version stopped in the middle: there is no handle, or one with the name in it.
        let what = with_metadata(metadata);
        world.terminate(&what, Value::Null).await.unwrap();
        let mut handle = made.handle;
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
async fn what_a_cluster_would_make_of_a_manifest_is_counted_before_anything_is_made() {
    let (world, cluster, _) = faulty_cluster().await;
    let many = deployment(100_000_000, "");
    let what = package(&[(1, CONFIG), (2, &many)], "", json!({}));
    let asked = world.driver.validate_request(&what).unwrap_err();
    let planned = world.instantiate(&what, 20).await.unwrap_err();
    for refusal in [asked, planned] {
        assert_eq!(refusal.name(), "plan.too-large", "{refusal}");
        assert!(
            refusal.to_string().contains("`limits.resources` is 10000"),
            "{refusal}"
        );
    }
    assert!(
        cluster
            .get_json(&format!("/api/v1/namespaces/{}", world.namespace()))
            .is_none()
    );
}

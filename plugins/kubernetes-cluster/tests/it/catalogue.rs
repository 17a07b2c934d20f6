//! Add-ons of the catalogue, the network plugin and `CoreDNS`: installed in order, upgraded with the cluster, and named if they are
//! not healthy.

use crate::engine_side::Kill;
use crate::lab::{CNI, Lab};
use serde_json::{Value, json};
use vnfm_core::ports::{Effects, HookRequest, PortError};

/// What the image of a network plugin or an add-on may not contain on simulated hosts.
const BAD_IMAGE: &str = "localhost/no-such:2";
const METRICS: &str = "/apis/apps/v1/namespaces/kube-system/deployments/metrics-server";
const TRAEFIK: &str = "/apis/apps/v1/namespaces/ingress-controller/deployments/traefik";
const NETWORK: &str = "/apis/apps/v1/namespaces/kube-system/daemonsets/cni";
const COREDNS: &str = "/apis/apps/v1/namespaces/kube-system/deployments/coredns";

impl Lab {
    /// A request for a hook whose parameters have these add-ons.
    fn with_addons(&self, hook: &str, (action, addons): (Option<&str>, Value)) -> HookRequest {
        let mut params = json!({ "k8s_cluster_installation_param": {} });
        if let Some(action) = action {
            params["cluster_action"] = json!(action);
        }
        let mut all = self.params()["k8s_cluster_installation_param"].clone();
        all["addons"] = addons;
        params["k8s_cluster_installation_param"] = all;
        self.hook_request(hook, &params)
    }

    async fn run_with_addons(
        &self,
        hook: &str,
        what: (Option<&str>, Value),
    ) -> Result<Effects, PortError> {
        self.run(self.with_addons(hook, what), None).await.unwrap()
    }

    async fn install_addons(&self, addons: Value) -> Result<Effects, PortError> {
        self.run_with_addons("instantiate_end", (None, addons))
            .await
    }

    fn image(&self, path: &str) -> Value {
        let workload = self.cluster().object(path).unwrap();
        workload["spec"]["template"]["spec"]["containers"][0]["image"].clone()
    }

    fn set_cni_image(&mut self, image: &str) {
        let cni = CNI.replace("localhost/cni:1", image);
        self.package
            .insert("Files/kubernetes/cni.yaml".into(), cni.into());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_installed_in_the_order_of_the_catalogue_and_shown_with_their_versions() {
    let lab = Lab::new().await;
    let addons = json!([
        { "name": "ingress", "values": { "REPLICAS": 1, "CLASS": "site" } },
        { "name": "multus" },
        { "name": "coredns", "values": { "REPLICAS": 3 } },
    ]);
    let effects = lab.install_addons(addons).await.unwrap();
    let expected = json!({ "cni": "1", "coredns": "v1", "ingress": "3.7.13", "multus": "4.2.2" });
    assert_eq!(effects.metadata["addons"], expected);
    let cluster = lab.cluster();
    assert_eq!(
        cluster.object(COREDNS).unwrap()["status"]["availableReplicas"],
        3
    );
    assert_eq!(lab.image(TRAEFIK), "docker.io/library/traefik:v3.7.13");
    let class = "/apis/networking.k8s.io/v1/ingressclasses/site";
    assert_eq!(
        cluster.object(class).unwrap()["spec"]["controller"],
        "traefik.io/ingress-controller"
    );
    let texts = lab.texts();
    let at = |name: &str| texts.find(&format!("addon-{name}.yaml")).unwrap();
    assert!(
        at("coredns") < at("multus") && at("multus") < at("ingress"),
        "{texts}"
    );
    assert_eq!(lab.books.violations(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_catalogue_lacks_is_refused_before_anything_is_installed() {
    let lab = Lab::new().await;
    for (addon, words) in [
        (json!({ "name": "prometheus" }), "`metrics-server`"),
        (
            json!({ "name": "metrics-server", "version": "7" }),
            "`0.9.0`",
        ),
    ] {
        let error = lab.install_addons(json!([addon])).await.unwrap_err();
        assert_eq!(error.name(), "bad-parameters");
        assert!(error.to_string().contains(words), "{error}");
    }
    assert_eq!(lab.count("m1", "kubeadm"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_package_applies_its_network_plugin_and_the_versions_of_its_add_ons() {
    let mut lab = Lab::new().await;
    let at = |version: &str| json!([{ "name": "metrics-server", "version": version }]);
    lab.install_addons(at("0.8.0")).await.unwrap();
    lab.set_cni_image("localhost/cni:2");
    let changed = lab.run_with_addons("change_current_package_end", (None, at("0.9.0")));
    let changed = changed.await.unwrap();
    assert_eq!(lab.image(NETWORK), "localhost/cni:2");
    assert_eq!(
        lab.image(METRICS),
        "registry.k8s.io/metrics-server/metrics-server:v0.9.0"
    );
    let expected = json!({ "cni": "2", "coredns": "v1", "metrics-server": "0.9.0" });
    assert_eq!(changed.metadata["addons"], expected);
    assert_eq!(lab.books.violations(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_of_kubernetes_applies_the_catalogue_again() {
    let lab = Lab::with_archives().await;
    let upgrade = || (Some("upgrade"), json!([{ "name": "metrics-server" }]));
    lab.run_with_addons("operate_start", upgrade())
        .await
        .unwrap();
    let effects = lab.run_with_addons("operate_end", upgrade()).await.unwrap();
    lab.assert_upgraded();
    assert_eq!(effects.metadata["kubernetesVersion"], crate::upgrade::NEW);
    assert_eq!(effects.metadata["addons"]["metrics-server"], "0.9.0");
    let words = "Kubernetes v1.37.0 runs on";
    assert!(
        effects.message.unwrap().starts_with(words),
        "the upgrade is what the message tells"
    );
    assert!(lab.cluster().object(METRICS).is_some());
}

/// A wait that tells the operator what it waits for: the hook is killed at that moment, for it would last minutes.
async fn assert_waits(lab: &Lab, request: HookRequest, words: &'static str) {
    let killed = lab.run(request, Some(Kill::Asking(words))).await;
    assert!(killed.is_none(), "{killed:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_network_plugin_that_is_not_healthy_is_named() {
    let mut lab = Lab::new().await;
    lab.install().await.unwrap();
    let agent = CNI
        .replace("name: cni", "name: agent")
        .replace("app: cni", "app: agent");
    let agent = agent.replace("localhost/cni:1", BAD_IMAGE);
    let cni = format!("{CNI}---\n{agent}");
    lab.package
        .insert("Files/kubernetes/cni.yaml".into(), cni.into());
    let request = lab.with_addons("change_current_package_end", (None, json!([])));
    let words = "`cni`: DaemonSet `agent`: 0 of 3 pods are ready";
    assert_waits(&lab, request, words).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_add_on_that_is_not_healthy_is_named() {
    let lab = Lab::new().await;
    lab.install().await.unwrap();
    let addons = json!([{ "name": "metrics-server", "values": { "IMAGE": BAD_IMAGE } }]);
    let request = lab.with_addons("change_current_package_end", (None, addons.clone()));
    let words = "`metrics-server` 2: Deployment `metrics-server`: 0 of 1 pods are ready";
    assert_waits(&lab, request, words).await;
    let check = lab.run_with_addons("operate_end", (Some("check"), addons));
    let checked = check.await.unwrap();
    let problem = "Deployment `metrics-server`: 0 of 1 pods are ready";
    let not_healthy = json!({ "metrics-server": problem });
    assert_eq!(checked.metadata["addonsNotHealthy"], not_healthy);
    let message = checked.message.unwrap();
    let named = format!("; add-on `metrics-server` is not healthy: {problem}");
    assert!(message.ends_with(&named), "{message}");
    let scaled = json!({ "spec": { "replicas": 0 } });
    lab.cluster().merge(METRICS, &scaled);
    let checked = lab
        .run_with_addons("operate_end", (Some("check"), json!([])))
        .await;
    assert_eq!(checked.unwrap().metadata["addonsNotHealthy"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_add_on_waits_for_dns() {
    let lab = Lab::new().await;
    lab.install().await.unwrap();
    let image = json!({ "spec": { "template": { "spec": { "containers": [{ "name": "coredns", "image": BAD_IMAGE }] } } } });
    lab.cluster().merge(COREDNS, &image);
    let request = lab.with_addons(
        "operate_end",
        (Some("apply_addons"), json!([{ "name": "metrics-server" }])),
    );
    assert_waits(&lab, request, "`coredns`: Deployment `coredns`: ").await;
    assert!(lab.cluster().object(METRICS).is_none());
}

//! Add-ons and the smoke test of a new cluster.

use crate::engine_side::CLOUD_SECRET;
use crate::lab::Lab;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use vnfm_core::ports::{Effects, PortError};

const METRICS: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: metrics}\n---\napiVersion: apps/v1\nkind: Deployment\n\
metadata: {name: server, namespace: metrics}\nspec:\n  replicas: '${REPLICAS}'\n  selector: {matchLabels: {app: server}}\n  \
template:\n    metadata: {labels: {app: server}}\n    spec: {containers: [{name: server, image: localhost/busybox:1}]}\n";
const SETTINGS: &str = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: kube-system}\ndata: {zone: '${ZONE}'}\n";

/// A lab whose package has both manifests.
async fn lab() -> Lab {
    let mut lab = Lab::empty().await;
    for (path, text) in [
        ("addons/metrics.yaml", METRICS),
        ("addons/settings.yaml", SETTINGS),
    ] {
        lab.package.insert(path.to_owned(), text.into());
    }
    lab.boot_all().await;
    lab
}

fn both() -> Value {
    json!([
        { "name": "metrics", "version": "0.9.0", "manifest": "addons/metrics.yaml", "values": { "REPLICAS": 2 } },
        { "name": "settings", "manifest": "addons/settings.yaml", "values": { "ZONE": "a: b\n---\nkind: Pod" } },
    ])
}

async fn install(lab: &Lab, members: &Value) -> Result<Effects, PortError> {
    let mut params = lab.params();
    let installation = params["k8s_cluster_installation_param"]
        .as_object_mut()
        .unwrap();
    installation.extend(members.as_object().unwrap().clone());
    let request = lab.request("instantiate_end", &params);
    lab.run(request, None).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn add_ons_are_installed_in_order_and_are_healthy() {
    let lab = lab().await;
    let effects = install(&lab, &json!({ "addons": both() })).await.unwrap();
    lab.check(&effects);
    assert_eq!(
        effects.metadata["addons"],
        json!({ "cni": "1", "coredns": "v1", "metrics": "0.9.0", "settings": "" })
    );
    let cluster = lab.cluster();
    let server = cluster
        .object("/apis/apps/v1/namespaces/metrics/deployments/server")
        .unwrap();
    assert_eq!(server["spec"]["replicas"], 2);
    assert_eq!(server["metadata"]["labels"]["vnfm.dev/addon"], "metrics");
    assert_eq!(
        server["status"]["availableReplicas"], 2,
        "{:#}",
        server["status"]
    );
    let settings = cluster
        .object("/api/v1/namespaces/kube-system/configmaps/settings")
        .unwrap();
    assert_eq!(
        settings["data"]["zone"], "a: b\n---\nkind: Pod",
        "a value stays a value"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_add_on_whose_manifest_is_missing_is_refused_before_anything_is_installed() {
    let lab = lab().await;
    let addons = json!([{ "name": "ingress", "manifest": "addons/ingress.yaml" }]);
    let error = install(&lab, &json!({ "addons": addons }))
        .await
        .unwrap_err();
    assert_eq!(error.name(), "bad-parameters");
    assert!(
        error.to_string().contains("`addons/ingress.yaml`"),
        "{error}"
    );
    assert_eq!(lab.count("m1", "kubeadm"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_smoke_test_leaves_nothing() {
    let lab = lab().await;
    let test = json!({ "image": "localhost/busybox:1" });
    let effects = install(&lab, &json!({ "smoke_test": test })).await.unwrap();
    lab.check(&effects);
    let applied = lab.count(
        "m1",
        "kubectl --kubeconfig=/etc/kubernetes/admin.conf apply",
    );
    assert!(applied >= 2, "network plugin and smoke test: {applied}");
    lab.assert_smoke_test_left_nothing();
}

impl Lab {
    /// Runs the action `apply_addons` with these members of the installation's parameters.
    pub(crate) async fn apply_addons(&self, members: &Value) -> Result<Effects, PortError> {
        let mut request =
            self.hook_request("operate_end", &json!({ "cluster_action": "apply_addons" }));
        let all = &mut request.additional_params["k8s_cluster_installation_param"];
        let all = all.as_object_mut().unwrap();
        all.extend(members.as_object().unwrap().clone());
        self.run(request, None).await.unwrap()
    }

    /// The namespace of the smoke test is gone, or goes: a simulated `kubectl delete` does not wait for its end.
    fn assert_smoke_test_left_nothing(&self) {
        let found = self.cluster().object("/api/v1/namespaces/vnfm-smoke-test");
        let ends = |found: &Value| found["metadata"]["deletionTimestamp"].is_string();
        assert!(found.as_ref().is_none_or(ends), "{found:#?}");
    }

    fn replicas(&self) -> Value {
        let path = "/apis/apps/v1/namespaces/metrics/deployments/server";
        self.cluster().object(path).unwrap()["spec"]["replicas"].clone()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_action_applies_add_ons_again_with_other_values() {
    let lab = lab().await;
    install(&lab, &json!({ "addons": both() })).await.unwrap();
    assert_eq!(lab.replicas(), 2);
    let mut addons = both();
    addons[0]["version"] = json!("0.9.1");
    addons[0]["values"]["REPLICAS"] = json!(3);
    let test = json!({ "image": "localhost/busybox:1" });
    let members = json!({ "addons": addons, "smoke_test": test });
    let effects = lab.apply_addons(&members).await.unwrap();
    assert_eq!(lab.replicas(), 3);
    assert_eq!(effects.metadata["addons"]["metrics"], "0.9.1");
    assert!(effects.register_vims.is_empty(), "the login stays");
    lab.assert_smoke_test_left_nothing();
    assert_eq!(lab.books.violations(), [""; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_action_refuses_add_ons_that_the_package_lacks_and_needs_a_cluster() {
    let lab = lab().await;
    let nothing = lab.apply_addons(&json!({ "addons": both() })).await;
    assert_eq!(
        nothing.unwrap().metadata.get("addons"),
        None,
        "there is no cluster"
    );
    install(&lab, &json!({ "addons": both() })).await.unwrap();
    let addons = json!([{ "name": "ingress", "manifest": "addons/ingress.yaml" }]);
    let error = lab.apply_addons(&json!({ "addons": addons })).await;
    let error = error.unwrap_err().to_string();
    assert!(error.contains("`addons/ingress.yaml`"), "{error}");
    assert_eq!(lab.replicas(), 2);
}

const CLOUD: &str = "apiVersion: v1\nkind: Secret\nmetadata: {name: cloud-config, namespace: kube-system}\nstringData: {cloud.conf: '${CLOUD_CONFIG}'}\n\
---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: cluster, namespace: kube-system}\ndata: {name: '${CLOUD_TAG}'}\n";

/// The program gets a login of its own, in a Secret; neither a file of a host nor a command line has it.
#[tokio::test(flavor = "multi_thread")]
async fn an_add_on_for_the_cloud_gets_a_login_that_no_host_keeps() {
    let mut lab = Lab::empty().await;
    lab.package
        .insert("addons/cloud.yaml".to_owned(), CLOUD.into());
    lab.boot_all().await;
    let cloud = json!({
        "format": "cloud-provider-openstack", "roles": ["member", "load-balancer_member"],
        "sections": { "LoadBalancer": { "subnet-id": "${output.service_subnet}" } },
    });
    let addons =
        json!([{ "name": "cloud-provider", "manifest": "addons/cloud.yaml", "cloud": cloud }]);
    install(&lab, &json!({ "addons": addons })).await.unwrap();
    let cluster = lab.cluster();
    let secret = cluster
        .object("/api/v1/namespaces/kube-system/secrets/cloud-config")
        .unwrap();
    let config = STANDARD.decode(secret["data"]["cloud.conf"].as_str().unwrap());
    let config = String::from_utf8(config.unwrap()).unwrap();
    assert!(
        config.contains("application-credential-id = \"id-of-cloud-provider\""),
        "{config}"
    );
    assert!(
        config.contains("[LoadBalancer]\nsubnet-id = \"subnet-1\""),
        "{config}"
    );
    let settings = cluster
        .object("/api/v1/namespaces/kube-system/configmaps/cluster")
        .unwrap();
    assert_eq!(settings["data"]["name"], "vnf-1");
    for call in lab.books.calls_named("host.exec") {
        assert!(!call.subject.contains(CLOUD_SECRET), "{}", call.subject);
    }
    let files = lab.hosts.all_files();
    assert!(!files.is_empty());
    for file in files {
        let content = STANDARD.decode(file["content"].as_str().unwrap()).unwrap();
        let content = String::from_utf8_lossy(&content).into_owned();
        assert!(!content.contains(CLOUD_SECRET), "{}", file["path"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_output_that_the_stack_lacks_is_named() {
    let mut lab = Lab::empty().await;
    lab.package
        .insert("addons/cloud.yaml".to_owned(), CLOUD.into());
    lab.boot_all().await;
    let cloud = json!({ "format": "kuryr-kubernetes", "sections": { "neutron_defaults": { "pod_subnet": "${output.pod_subnet}" } } });
    let addons = json!([{ "name": "kuryr", "manifest": "addons/cloud.yaml", "cloud": cloud }]);
    let error = install(&lab, &json!({ "addons": addons }))
        .await
        .unwrap_err();
    assert_eq!(error.name(), "addon-invalid");
    assert!(
        error.to_string().contains("no output `pod_subnet`"),
        "{error}"
    );
}

//! The Kubernetes driver meets the contract of infrastructure drivers on a real control plane too; the tier `long` tests the
//! OpenStack driver on a real cloud.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;

use serde_json::Value;
use vnfm::SystemClock;
use vnfm_conformance::infra_driver::{OnVim, RULES, TestBed};
use vnfm_kubernetes::KubernetesDriver;
use vnfm_outbound::Destinations;
use vnfm_tests::cloud_contract::{MAX_INTERRUPTIONS, check};
use vnfm_tests::contracts::{connections_from_kubeconfig, sample, sizes, with_image};
use vnfm_tests::live::neighbour;

/// A cluster, queried with kubectl.
#[derive(Clone)]
struct Cluster {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
}

/// The kinds that a driver creates, and those that controllers create from them.
const KINDS: &str = "namespaces,deployments,services,configmaps,pods";

impl Cluster {
    fn kubectl(&self, words: &[&str]) -> Vec<u8> {
        let mut command = Command::new(&self.kubectl);
        let output = command
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(words)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        output.stdout
    }

    /// All objects that are not being deleted, except those that the cluster adds to each namespace.
    fn things(&self) -> Vec<String> {
        let listed = self.kubectl(&["get", KINDS, "--all-namespaces", "--output=json"]);
        let listed: Value = serde_json::from_slice(&listed).unwrap();
        let named = |item: &Value| {
            let (metadata, kind) = (&item["metadata"], item["kind"].as_str()?);
            let stays =
                metadata["deletionTimestamp"].is_null() && metadata["name"] != "kube-root-ca.crt";
            stays.then(|| {
                format!(
                    "{kind} {} {} {}",
                    metadata["namespace"], metadata["name"], metadata["uid"]
                )
            })
        };
        listed["items"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(named)
            .collect()
    }

    /// Names of the pods that are not being deleted.
    fn pods(&self) -> Vec<String> {
        let listed = self.kubectl(&["get", "pods", "--all-namespaces", "--output=json"]);
        let listed: Value = serde_json::from_slice(&listed).unwrap();
        let all = listed["items"].as_array().unwrap().iter();
        let stays = all.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
        let names = stays.filter_map(|pod| pod["metadata"]["name"].as_str());
        names.map(ToOwned::to_owned).collect()
    }

    fn namespaces(&self) -> BTreeSet<String> {
        let names = self.kubectl(&["get", "namespaces", "--output=name"]);
        let names = String::from_utf8(names).unwrap();
        let ours = names
            .lines()
            .filter(|name| name.starts_with("namespace/vnf-"));
        ours.map(ToOwned::to_owned).collect()
    }
}

fn kubernetes(cluster: &Cluster) -> Arc<dyn TestBed> {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let kubeconfig = std::fs::read_to_string(&cluster.kubeconfig).unwrap();
    let [right, wrong] = connections_from_kubeconfig(&kubeconfig);
    let what = sample("vnf-b-cnf", |request| request.replace("@VIM_ID@", "vim"));
    let vdu = what.package.vnfd().flavours["simple"]
        .vdus
        .keys()
        .next()
        .unwrap()
        .clone();
    let (past, running) = (cluster.clone(), cluster.clone());
    let driver = KubernetesDriver::new(Destinations::anywhere());
    Arc::new(OnVim {
        wrong_login: Some(wrong),
        infeasible: Some(with_image(&what, &vdu)),
        sizes: Some(sizes(&what, &vdu)),
        removes_last_vnfcs: false,
        max_interruptions: MAX_INTERRUPTIONS,
        running: Box::new(move || running.pods()),
        ..OnVim::new((driver, Arc::new(SystemClock)), right, what, move || {
            past.things()
        })
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn kubernetes_driver_meets_the_contract_on_a_real_control_plane() {
    let (Some(kubeconfig), Some(assets)) = (
        neighbour("VNFM_LIVE_KUBECONFIG"),
        neighbour("VNFM_LIVE_ASSETS"),
    ) else {
        return;
    };
    let cluster = Cluster {
        kubectl: assets.join("kubectl"),
        kubeconfig,
    };
    let before = cluster.namespaces();
    let outcome = check(RULES.iter(), |_| async { kubernetes(&cluster) }).await;
    if outcome.is_err() {
        for name in cluster.namespaces().difference(&before) {
            cluster.kubectl(&["delete", "--wait=false", name]);
        }
    }
    outcome.unwrap();
}

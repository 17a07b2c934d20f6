//! Records follow what others do on a real cluster: a pod is deleted, a Deployment is scaled.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;
use vnfm_tests::helm_cluster::{GENERATIONS, HelmCluster};
use vnfm_tests::programs::until;
use vnfm_tests::testbed::{Testbed, VIM, VNF_B};

/// How long a change may take to the record.
const PATIENCE: Duration = Duration::from_mins(2);

/// A cluster, and a running VNF-B on it.
struct Scene {
    cluster: HelmCluster,
    testbed: Testbed,
    namespace: String,
}

fn scene() -> Option<Scene> {
    let cluster = HelmCluster::find(GENERATIONS[0])?;
    let folder = tempfile::tempdir().unwrap();
    let testbed = Testbed::on_cluster(folder, &cluster.kubeconfig);
    let package = testbed.onboard("vnf-b-cnf");
    let words = ["vnf", "create", "--package", &package, "--name", VNF_B];
    let created = testbed.server.ctl(&words);
    let namespace = format!("vnf-{}", created["id"].as_str().unwrap());
    let vim = testbed.server.ctl(&["vim", "show", VIM]);
    let request = testbed.request("vnf-b-cnf", vim["id"].as_str().unwrap());
    let op = testbed.instantiate(VNF_B, &request);
    testbed.wait_for_state(&op, "COMPLETED");
    Some(Scene {
        cluster,
        testbed,
        namespace,
    })
}

impl Scene {
    fn recorded(&self) -> BTreeSet<String> {
        self.testbed.recorded_b_pods().into_iter().collect()
    }

    fn kubectl(&self, words: &[&str]) -> String {
        let namespace = ["--namespace", &self.namespace];
        self.cluster.kubectl(&[words, &namespace].concat())
    }

    /// Waits until the record has the pods of the cluster, this number of them.
    fn wait_for(&self, pods: usize) -> BTreeSet<String> {
        until("the record of the pods", PATIENCE, || {
            let (recorded, existing) = (self.recorded(), self.cluster.web_pods(&self.namespace));
            (recorded.len() == pods && recorded == existing).then_some(recorded)
        })
    }
}

#[test]
fn a_deleted_pod_and_a_manual_scale_reach_the_record() {
    let Some(scene) = scene() else {
        return;
    };
    let before = scene.recorded();
    let lost = before.first().unwrap();
    scene.kubectl(&["delete", "pod", lost, "--grace-period=0", "--force"]);
    until("the lost pod to leave the record", PATIENCE, || {
        (!scene.recorded().contains(lost)).then_some(())
    });
    scene.kubectl(&["scale", "deployment/web", "--replicas=4"]);
    scene.wait_for(4);
    let replicas = format!("--replicas={}", before.len());
    scene.kubectl(&["scale", "deployment/web", &replicas]);
    scene.wait_for(before.len());
    let events = scene.testbed.server.ctl(&["events"]);
    let own = |event: &&Value| event["notificationType"] == "VnfcResourcesChanged";
    assert!(events.as_array().unwrap().iter().any(|event| own(&event)));
    let url = format!("{}/metrics", scene.testbed.server.url());
    let mut response = ureq::get(url).call().unwrap();
    let metrics = response.body_mut().read_to_string().unwrap();
    assert!(
        metrics.contains("vnfm_vim_event_age_seconds{vim="),
        "{metrics}"
    );
    scene.testbed.terminate_and_delete(VNF_B);
}

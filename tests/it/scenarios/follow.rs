//! Records of containers follow what happens on their cluster while nothing operates on them, and operators see it.

use std::time::Duration;

use serde_json::{Value, json};
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{Testbed, VNF_B};

use super::testbed_in;

const VIM: &str = "containers";
const CLUSTER: &str = "standalone";
/// How long a change may take to the record.
const PATIENCE: Duration = Duration::from_mins(1);

struct Scene {
    sim: Simulator,
    testbed: Testbed,
}

/// A running VNF-B on a standalone cluster, under a server with this configuration.
fn scene(configuration: &str) -> Scene {
    let (sim, testbed) = testbed_in(&["--cluster"], configuration);
    let file = sim.endpoint("kubeconfig");
    let server = &testbed.server;
    let vim = server.ctl(&["vim", "register", "--name", VIM, "--config-file", file]);
    let package = testbed.onboard("vnf-b-cnf");
    server.ctl(&["vnf", "create", "--package", &package, "--name", VNF_B]);
    let request = testbed.request("vnf-b-cnf", vim["id"].as_str().unwrap());
    let op = testbed.instantiate(VNF_B, &request);
    testbed.wait_for_state(&op, "COMPLETED");
    Scene { sim, testbed }
}

impl Scene {
    fn instance(&self) -> Value {
        self.testbed.server.ctl(&["vnf", "show", VNF_B])
    }

    fn object(&self, kind: &str, name: &str) -> String {
        let id = self.instance()["id"].as_str().unwrap().to_owned();
        let group = if kind == "pods" {
            "api/v1"
        } else {
            "apis/apps/v1"
        };
        format!("/{group}/namespaces/vnf-{id}/{kind}/{name}")
    }

    fn lose(&self, pod: &str) {
        let path = self.object("pods", pod);
        let what = json!({"cluster": CLUSTER, "path": path});
        self.sim.act("delete-object", &what);
    }

    fn scale(&self, replicas: u32) {
        let path = self.object("deployments", "web");
        let patch = json!({"spec": {"replicas": replicas}});
        let what = json!({"cluster": CLUSTER, "path": path, "patch": patch});
        self.sim.act("edit-object", &what);
    }

    /// Waits until the pods in the record are as expected.
    fn recorded(&self, expected: impl Fn(&[String]) -> bool) -> Vec<String> {
        until("the record of the pods", PATIENCE, || {
            let pods = self.testbed.recorded_b_pods();
            expected(&pods).then_some(pods)
        })
    }

    fn events(&self) -> Vec<Value> {
        let events = self.testbed.server.ctl(&["events"]);
        let all = events.as_array().unwrap().clone();
        let own = |event: &Value| event["notificationType"] == "VnfcResourcesChanged";
        all.into_iter().filter(own).collect()
    }

    fn finish(&self) {
        self.testbed.terminate_and_delete(VNF_B);
        self.testbed.server.ctl(&["vim", "delete", VIM]);
        self.testbed.finish();
        self.sim.assert_clean();
    }
}

#[test]
fn lost_pods_and_a_manual_scale_reach_the_record_and_the_events() {
    let scene = scene("limits: {lease_seconds: 2}");
    let before = scene.testbed.recorded_b_pods();
    scene.lose(&before[0]);
    scene.recorded(|pods| pods.len() == before.len() && !pods.contains(&before[0]));
    scene.scale(4);
    let after = scene.recorded(|pods| pods.len() == 4);
    let events = scene.events();
    assert!(!events.is_empty());
    let summary = events.last().unwrap()["what"].as_str().unwrap_or_default();
    assert!(summary.starts_with("VNFCs changed"), "{events:?}");
    scene.scale(u32::try_from(before.len()).unwrap());
    scene.recorded(|pods| pods.len() == before.len());
    assert!(after.len() > before.len());
    scene.finish();
}

/// The taint by which a node that fails loses its pods.
fn lost(is_lost: bool) -> Value {
    let taint = json!([{"key": "example.com/lost", "effect": "NoExecute"}]);
    let taints = if is_lost { taint } else { Value::Null };
    let patch = json!({"spec": {"taints": taints}});
    json!({"cluster": CLUSTER, "path": "/api/v1/nodes/worker", "patch": patch})
}

#[test]
fn pods_that_a_lost_node_takes_along_leave_the_record() {
    let scene = scene("limits: {lease_seconds: 2}");
    let before = scene.testbed.recorded_b_pods();
    scene.sim.act("edit-object", &lost(true));
    scene.recorded(|pods| before.iter().all(|pod| !pods.contains(pod)));
    scene.sim.act("edit-object", &lost(false));
    scene.recorded(|pods| pods.len() == before.len());
    scene.finish();
}

#[test]
fn a_server_that_does_not_follow_leaves_the_record_until_the_next_operation() {
    let scene = scene("{limits: {lease_seconds: 2}, vims: {follow: false}}");
    let before = scene.testbed.recorded_b_pods();
    scene.lose(&before[0]);
    let healed = ["vnf", "heal", VNF_B, "--watch"];
    assert_eq!(scene.testbed.server.run(&healed).code, 0);
    scene.recorded(|pods| !pods.contains(&before[0]));
    assert!(scene.events().is_empty());
    scene.finish();
}

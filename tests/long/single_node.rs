//! VNF-A on one server, a real one: VNF-B runs on the node of the control plane. An upgrade evicts its pods, which start again on the
//! same node; a budget that would keep them is not waited for without end.

use serde_json::{Value, json};
use vnfm_tests::cluster_access::{ClusterShell, Pod};
use vnfm_tests::real::Real;
use vnfm_tests::sources::b_with_budget;
use vnfm_tests::testbed::{CLUSTER, Testbed, VNF_A};

use crate::cluster_actions::{
    PASSPHRASE, Scenario, action_request, next_release, next_release_request, next_version,
};
use crate::control_planes::completes;

const SAMPLE: &str = "vnf-a-single-node";
const HOSTS: [&str; 1] = ["masterNode"];

/// The cluster, and VNF-B with a budget that lets one of its two pods go at a time.
fn begin(real: Real, testbed: Testbed) -> Scenario {
    let (_, request) = testbed.create_a(SAMPLE);
    let took = completes(&testbed, &testbed.instantiate(VNF_A, &request));
    println!("one node in {:.1} s", took.as_secs_f64());
    let cluster = testbed.assert_a_up(1);
    let folder = tempfile::tempdir().unwrap();
    testbed.instantiate_b_from(&b_with_budget(folder.path(), 1), &cluster);
    let inside = ClusterShell::connect(&testbed);
    Scenario {
        hosts: &HOSTS,
        real,
        testbed,
        inside,
    }
}

impl Scenario {
    /// Both pods of VNF-B run on the only node, which accepts pods.
    fn assert_b_on_the_node(&self) -> Vec<Pod> {
        let nodes = self.inside.wait_for_b_pods(&self.testbed, 2);
        assert_eq!(nodes, ["masternode"; 2]);
        self.inside.assert_b_recorded(&self.testbed, 2);
        let node = self.inside.kubectl("get node masternode -o json").unwrap();
        let node: Value = serde_json::from_str(&node).unwrap();
        assert!(node["spec"]["taints"].is_null(), "{:#}", node["spec"]);
        self.inside.b_pods(&self.testbed)
    }
}

#[test]
fn one_node_runs_control_plane_and_pods_and_is_upgraded() {
    let (Some(next), Some(real)) = (next_version(), Real::find()) else {
        return;
    };
    let testbed = real.testbed();
    let scenario = begin(real, testbed);
    let pods = scenario.assert_b_on_the_node();
    let params = json!({ "etcd_passphrase": PASSPHRASE });
    for (action, params) in [
        ("check", json!({})),
        ("renew_certificates", json!({})),
        ("backup", params),
    ] {
        let request = action_request(action, &params);
        let op = scenario.testbed.begin(VNF_A, "operate", &request);
        let took = completes(&scenario.testbed, &op);
        println!("{action}: {:.1} s", took.as_secs_f64());
    }
    assert_eq!(
        scenario.assert_b_on_the_node(),
        pods,
        "no pod has restarted"
    );

    let folder = tempfile::tempdir().unwrap();
    let package = next_release(SAMPLE, &next, folder.path());
    scenario.testbed.onboard(&package);
    scenario.give_images(HOSTS[0], &next);
    let mut request = next_release_request();
    let params = json!({ "drain_timeout_seconds": 10, "on_drain_timeout": "force" });
    request["additionalParams"] = params;
    let op = scenario.testbed.begin(VNF_A, "change_vnfpkg", &request);
    let took = completes(&scenario.testbed, &op);
    println!("upgrade: {:.1} s", took.as_secs_f64());
    let version = std::fs::read_to_string(next.join("version")).unwrap();
    let shown = scenario.testbed.server.ctl(&["vnf", "show", VNF_A]);
    assert_eq!(shown["metadata"]["kubernetesVersion"], version.trim());
    let kubelet = "get node masternode -o jsonpath='{.status.nodeInfo.kubeletVersion}'";
    let kubelet = scenario.inside.kubectl(kubelet).unwrap();
    assert_eq!(kubelet.trim(), version.trim());
    scenario.assert_b_on_the_node();
    scenario.testbed.server.ctl(&["vim", "check", CLUSTER]);
    scenario.end();
}

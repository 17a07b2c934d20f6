//! Software of VNF-A's nodes: installed with the cluster, patched by a new package while VNF-B runs, shown by `vnfmctl`.

use std::path::Path;

use serde_json::{Value, json};
use vnfm_tests::cluster_access::ClusterShell;
use vnfm_tests::node_software::{agent, package, params};
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{LONG, Testbed, VNF_A, VNF_B};
use vnfm_tests::upgrades::{change, shown};

const HOSTS: [&str; 3] = ["masterNode", "workerNode-0", "workerNode-1"];
const INSTALLATION: &str = "/var/lib/vnfm/software/edge-agent/1.1/installer";
const NODES: [&str; 3] = ["masternode", "workernode-0", "workernode-1"];

/// VNF-A with agent 1.0 on its nodes, VNF-B on it, and the next release of VNF-A, with agent 1.1, onboarded.
fn with_agent(folder: &Path) -> (Simulator, Testbed) {
    let (sim, testbed) = super::testbed(&[], "info");
    let (_, mut request) = testbed.create_a(&package("vnf-a-k8s-cluster", folder, "1.0"));
    let installation = &mut request["additionalParams"]["k8s_cluster_installation_param"];
    installation["node_software"] = json!([agent("1.0")]);
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = testbed.assert_a_up(3);
    testbed.instantiate_b(&cluster);
    testbed.onboard(&package("vnf-a-k8s-cluster-2", folder, "1.1"));
    (sim, testbed)
}

fn begin(testbed: &Testbed) -> String {
    let mut body = change("vnf-a-k8s-cluster");
    let own = params(&[agent("1.1")]).as_object().unwrap().clone();
    body["additionalParams"]
        .as_object_mut()
        .unwrap()
        .extend(own);
    testbed.begin(VNF_A, "change_vnfpkg", &body)
}

/// The instance shows this version on all nodes, and their hosts have it.
fn assert_agents(sim: &Simulator, testbed: &Testbed, version: &str) {
    let metadata = shown(testbed, VNF_A)["metadata"].clone();
    let on_all = NODES.map(|node| (node.to_owned(), json!({ "edge-agent": version })));
    let on_all: serde_json::Map<String, Value> = on_all.into_iter().collect();
    assert_eq!(metadata["nodeSoftware"], Value::Object(on_all));
    assert_eq!(metadata["nodeSoftwareDiffers"], Value::Null);
    let printed = testbed
        .server
        .run(&["-o", "table", "cluster", "show", VNF_A]);
    assert!(
        printed
            .stdout
            .contains(&format!("\"edge-agent\":\"{version}\"")),
        "{printed:?}"
    );
    let files = sim.files();
    let programs = files
        .iter()
        .filter(|(_, path, _)| path == "/usr/local/bin/edge-agent");
    let expected = format!("#!/bin/sh\necho {version}\n");
    let programs: Vec<_> = programs
        .map(|(_, _, content)| String::from_utf8_lossy(content))
        .collect();
    assert_eq!(programs, [expected.as_str(); 3]);
    let inside = ClusterShell::connect(testbed);
    assert!(inside.nodes().values().all(|ready| *ready));
    inside.assert_b_recorded(testbed, 2);
    sim.assert_no_violations();
}

fn end(sim: &Simulator, testbed: &Testbed) {
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn a_new_package_patches_the_nodes_and_the_list_holds_for_later_operations() {
    let folder = tempfile::tempdir().unwrap();
    let (sim, testbed) = with_agent(folder.path());
    assert_agents(&sim, &testbed, "1.0");
    testbed.wait_for_state(&begin(&testbed), "COMPLETED");
    assert_agents(&sim, &testbed, "1.1");
    let patched = testbed
        .server
        .run(&["cluster", "patch", VNF_A, "--parallel", "2", "--watch"]);
    assert_eq!(patched.code, 0, "{patched:?}");
    assert_eq!(sim.hosts_that_ran(INSTALLATION), HOSTS, "nothing differs");
    end(&sim, &testbed);
}

#[test]
fn a_failed_patch_is_explained_and_rolled_back() {
    let folder = tempfile::tempdir().unwrap();
    let (sim, testbed) = with_agent(folder.path());
    let full = json!({ "exit": 1, "stderr": "no space left on device\n" });
    let script = "workerNode-1: /var/lib/vnfm/software/edge-agent/1.1/installer";
    sim.arm(&json!({ "call": "host.exec", "subject": script, "times": 9, "fault": full }));
    let op = begin(&testbed);
    let stopped = testbed.wait_for_state(&op, "FAILED_TEMP");
    testbed.assert_explains(
        &op,
        &stopped["error"],
        &["workernode-1", "no space left on device"],
    );
    sim.disarm();
    testbed.server.run(&["op", "rollback", &op, "--watch"]);
    testbed.wait_for_state(&op, "ROLLED_BACK");
    assert_agents(&sim, &testbed, "1.0");
    end(&sim, &testbed);
}

#[test]
fn a_crash_during_a_patch_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let (sim, mut testbed) = with_agent(folder.path());
    let script = "workerNode-0: /var/lib/vnfm/software/edge-agent/1.1/installer";
    let slow = json!({ "delayMs": 3000 });
    sim.arm(&json!({ "call": "host.exec", "subject": script, "fault": slow }));
    let op = begin(&testbed);
    until("the patch of the first worker", LONG, || {
        (sim.seen() > 0).then_some(())
    });
    testbed.server.kill();
    testbed.server.begin();
    testbed.wait_for_state(&op, "COMPLETED");
    assert_agents(&sim, &testbed, "1.1");
    assert_eq!(
        sim.hosts_that_ran(INSTALLATION),
        HOSTS,
        "what ran was awaited"
    );
    end(&sim, &testbed);
}

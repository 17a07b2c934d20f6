//! Scaling the workers of VNF-A while VNF-B runs on it: workers join and leave, pods move, VNF-B's record follows.

use std::path::Path;

use serde_json::json;
use vnfm_tests::cluster_access::{ClusterShell, vnfcs};
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::sources::{b_with_budget, copy};
use vnfm_tests::testbed::{LONG, Testbed, VNF_A, VNF_B};

use super::cluster_heal::vnf_b_on_vnf_a;
use super::testbed;

/// VNF-A has this many servers, and each is a Ready node; VNF-B's record is right.
fn assert_size(testbed: &Testbed, servers: usize) {
    testbed.assert_a_up(servers);
    let inside = ClusterShell::connect(testbed);
    let nodes = inside.nodes();
    assert!(nodes.values().all(|ready| *ready), "{nodes:?}");
    let names = vnfcs(testbed).into_keys().map(|name| name.to_lowercase());
    assert_eq!(
        nodes.into_keys().collect::<Vec<_>>(),
        names.collect::<Vec<_>>()
    );
    inside.assert_b_recorded(testbed, 2);
}

fn end(sim: &Simulator, testbed: &Testbed) {
    sim.assert_no_violations();
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

/// Moves VNF-B's pods to the workers that a scaling to `small` removes.
fn move_b_to_new_workers(testbed: &Testbed) {
    let inside = ClusterShell::connect(testbed);
    let nodes = inside.move_b_pods_from(&["workernode-0", "workernode-1"], testbed);
    assert_eq!(nodes, ["workernode-2", "workernode-3"]);
}

#[test]
fn workers_join_and_leave_and_vnf_b_follows() {
    let folder = tempfile::tempdir().unwrap();
    let (sim, testbed, cluster) = vnf_b_on_vnf_a(&b_with_budget(folder.path(), 1));
    let before = vnfcs(&testbed);
    testbed.wait_for_state(&testbed.scale_to_level("large", &[]), "COMPLETED");
    assert_size(&testbed, 5);
    move_b_to_new_workers(&testbed);
    testbed.wait_for_state(&testbed.scale_to_level("small", &[]), "COMPLETED");
    assert_size(&testbed, 3);
    assert_eq!(vnfcs(&testbed), before, "the others were not touched");
    assert_eq!(testbed.assert_a_up(3), cluster, "the VIM keeps its id");
    let resets = sim.hosts_that_ran("kubeadm reset");
    assert_eq!(resets, ["workerNode-2", "workerNode-3"]);
    end(&sim, &testbed);
}

#[test]
fn a_blocking_disruption_budget_is_named_and_a_rollback_uncordons() {
    let folder = tempfile::tempdir().unwrap();
    let (sim, testbed, _) = vnf_b_on_vnf_a(&b_with_budget(folder.path(), 2));
    testbed.wait_for_state(&testbed.scale_to_level("large", &[]), "COMPLETED");
    move_b_to_new_workers(&testbed);
    let op = testbed.scale_to_level("small", &["drain_timeout_seconds=1"]);
    let end_state = testbed.wait_for_state(&op, "FAILED_TEMP");
    let expected = ["web-stays", "needs 2 healthy pods", "on_drain_timeout"];
    testbed.assert_explains(&op, &end_state["error"], &expected);
    let rolled = testbed.server.run(&["op", "rollback", &op, "--watch"]);
    assert_eq!(rolled.code, 0, "{rolled:?}");
    assert_size(&testbed, 5);
    end(&sim, &testbed);
}

/// VNF-A whose aspect also adds control-plane nodes.
fn package_that_scales_the_control_plane(folder: &Path) -> String {
    let package = copy("vnf-a-k8s-cluster", folder);
    let vnfd = package.join("Definitions/vnf-a.yaml");
    let text = std::fs::read_to_string(&vnfd).unwrap();
    let changes = [
        (
            "targets: [workerNode]\n    - master_initial",
            "targets: [workerNode, masterNode]\n    - master_initial",
        ),
        (
            "min_number_of_instances: 1, max_number_of_instances: 1}",
            "min_number_of_instances: 1, max_number_of_instances: 5}",
        ),
        (
            "levels: {small: {number_of_instances: 1}, large: {number_of_instances: 1}}",
            "levels: {small: {number_of_instances: 1}, large: {number_of_instances: 3}}",
        ),
    ];
    let text = changes.iter().fold(text, |text, (old, new)| {
        assert!(text.contains(old), "no `{old}`");
        text.replace(old, new)
    });
    std::fs::write(&vnfd, text).unwrap();
    package.to_string_lossy().into_owned()
}

#[test]
fn the_control_plane_is_not_scaled() {
    let folder = tempfile::tempdir().unwrap();
    let (sim, testbed) = testbed(&[], "info");
    let package = package_that_scales_the_control_plane(folder.path());
    let (_, request) = testbed.create_a(&package);
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let before = (vnfcs(&testbed), sim.calls("heat.", "").len());
    let op = testbed.scale_to_level("large", &[]);
    let end_state = testbed.wait_for_state(&op, "FAILED_TEMP");
    testbed.assert_explains(
        &op,
        &end_state["error"],
        &["control-plane nodes", "control_plane_endpoint"],
    );
    let rolled = testbed.server.run(&["op", "rollback", &op, "--watch"]);
    assert_eq!(rolled.code, 0, "{rolled:?}");
    assert_eq!(vnfcs(&testbed), before.0, "no server was added");
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn a_crash_while_workers_join_is_resumed() {
    let (sim, mut testbed, _) = vnf_b_on_vnf_a("vnf-b-cnf");
    sim.arm(&json!({"call": "host.exec", "subject": "workerNode-3: kubeadm join", "fault": {"delayMs": 3000}}));
    let op = testbed.scale_to_level("large", &[]);
    until("the join", LONG, || (sim.seen() > 0).then_some(()));
    testbed.server.kill();
    testbed.server.begin();
    testbed.wait_for_state(&op, "COMPLETED");
    let joins = sim.hosts_that_ran("kubeadm join");
    let workers = [0, 1, 2, 3].map(|n| format!("workerNode-{n}"));
    assert_eq!(joins, workers, "each once");
    assert_size(&testbed, 5);
    end(&sim, &testbed);
}

//! A worker that cannot join: the error explains it, the other worker stays joined, and retry, rollback and fail work.

use serde_json::{Value, json};
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{Testbed, VNF_A};

use super::testbed;

/// Output of the real kubeadm.
const WHY: &str = "couldn't validate the identity of the API Server";

/// VNF-A's instantiation stopped because one worker did not join, and cannot until the fault is removed.
fn stopped() -> (Simulator, Testbed, String, Value) {
    let (sim, testbed) = testbed(&[], "info");
    let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
    let output =
        format!("[preflight] Running pre-flight checks\nerror execution phase preflight: {WHY}\n");
    sim.arm(
        &json!({"call": "host.exec", "subject": "workerNode-1: kubeadm join", "times": 99,
        "fault": {"exit": 3, "stderr": output}}),
    );
    let op = testbed.instantiate(VNF_A, &request);
    let end = testbed.wait_for_state(&op, "FAILED_TEMP");
    assert_eq!(
        sim.hosts_that_ran("kubeadm join"),
        ["workerNode-0"],
        "the other one has joined"
    );
    let vims = testbed.server.ctl(&["vim", "list"]);
    assert_eq!(
        vims.as_array().unwrap().len(),
        1,
        "no cluster is registered: {vims:#}"
    );
    (sim, testbed, op, end)
}

fn state_of_a(testbed: &Testbed) -> Value {
    testbed.server.ctl(&["vnf", "show", VNF_A])["instantiationState"].clone()
}

#[test]
fn a_join_error_names_host_phase_exit_code_and_last_lines() {
    let (_sim, testbed, op, end) = stopped();
    let expected = [
        "workernode-1",
        "`join`",
        "exit code 3",
        "Running pre-flight checks",
        WHY,
    ];
    let visible = testbed.server.ctl(&["op", "show", &op]);
    for error in [&end["error"], &visible["error"]] {
        let detail = error["detail"].as_str().unwrap();
        assert!(
            expected.iter().all(|part| detail.contains(part)),
            "{detail}"
        );
        assert_eq!(detail.matches("exit code").count(), 1, "{detail}");
    }
    assert_eq!(end["error"]["resource"], "workernode-1");
    let explained = testbed.server.run(&["op", "explain", &op]);
    for part in [
        WHY,
        "can retry",
        "can rollback",
        "can fail",
        "cannot cancel",
    ] {
        assert!(
            explained.stdout.contains(part),
            "no `{part}` in {}",
            explained.stdout
        );
    }
    let watched = testbed.server.run(&["op", "watch", &op]);
    assert_eq!(watched.code, 1);
    assert!(
        watched.stderr.contains(&format!("vnfmctl op retry {op}")),
        "{}",
        watched.stderr
    );
}

#[test]
fn retry_completes_the_missing_join_without_calling_heat() {
    let (sim, testbed, op, _) = stopped();
    sim.disarm();
    let before = sim.calls("heat.", "").len();
    let retried = testbed.server.run(&["op", "retry", &op, "--watch"]);
    assert_eq!(retried.code, 0, "{retried:?}");
    assert_eq!(sim.calls("heat.", "").len(), before);
    assert_eq!(sim.touched_stacks(), 1);
    assert_eq!(sim.hosts_that_ran("kubeadm init").len(), 1);
    assert_eq!(
        sim.hosts_that_ran("kubeadm join"),
        ["workerNode-0", "workerNode-1"]
    );
    assert_eq!(
        sim.hosts_that_ran("kubeadm reset"),
        ["workerNode-1"],
        "what was half done"
    );
    sim.assert_no_violations();
    testbed.assert_a_up(3);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn a_retry_that_fails_again_stops_again() {
    let (sim, testbed, op, _) = stopped();
    let retried = testbed.server.run(&["op", "retry", &op, "--watch"]);
    assert_eq!(retried.code, 1, "{retried:?}");
    assert!(retried.stderr.contains(WHY), "{retried:?}");
    testbed.wait_for_state(&op, "FAILED_TEMP");
    assert_eq!(sim.hosts_that_ran("kubeadm join"), ["workerNode-0"]);
    sim.assert_no_violations();
}

#[test]
fn rollback_leaves_nothing() {
    let (sim, testbed, op, _) = stopped();
    let rolled = testbed.server.run(&["op", "rollback", &op, "--watch"]);
    assert_eq!(rolled.code, 0, "{rolled:?}");
    testbed.wait_for_state(&op, "ROLLED_BACK");
    assert_eq!(state_of_a(&testbed), "NOT_INSTANTIATED");
    sim.assert_clean();
    testbed.server.ctl(&["vnf", "delete", VNF_A]);
    testbed.finish();
}

#[test]
fn fail_ends_the_operation_and_a_later_terminate_cleans_up() {
    let (sim, testbed, op, _) = stopped();
    testbed.server.ctl(&["op", "fail", &op]);
    testbed.wait_for_state(&op, "FAILED");
    assert_eq!(
        state_of_a(&testbed),
        "INSTANTIATED",
        "something exists, so it can be terminated"
    );
    testbed.server.refused(&["op", "retry", &op]);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

//! A worker whose join fails: the error tells, the other worker's join stays, and each way on ends well.

use serde_json::{Value, json};
use vnfm_tests::simulator::Simulated;
use vnfm_tests::testbed::{Stage, VNF_A};

use super::stage;

/// What the real one says.
const WHY: &str = "couldn't validate the identity of the API Server";

/// VNF-A's instantiate has stopped because one worker did not join, and will not before the fault is taken away.
fn stopped() -> (Simulated, Stage, String, Value) {
    let (sim, stage) = stage(&[], "info");
    let (_, request) = stage.create_a("vnf-a-k8s-cluster");
    let said =
        format!("[preflight] Running pre-flight checks\nerror execution phase preflight: {WHY}\n");
    sim.arm(
        &json!({"call": "host.exec", "subject": "workerNode-1: kubeadm join", "times": 99,
        "fault": {"exit": 3, "stderr": said}}),
    );
    let op = stage.instantiate(VNF_A, &request);
    let end = stage.ends_as(&op, "FAILED_TEMP");
    assert_eq!(
        sim.hosts_that_ran("kubeadm join"),
        ["workerNode-0"],
        "the other one has joined"
    );
    let vims = stage.server.ctl(&["vim", "list"]);
    assert_eq!(
        vims.as_array().unwrap().len(),
        1,
        "no cluster is registered: {vims:#}"
    );
    (sim, stage, op, end)
}

fn state_of_a(stage: &Stage) -> Value {
    stage.server.ctl(&["vnf", "show", VNF_A])["instantiationState"].clone()
}

#[test]
fn a_join_error_names_host_phase_exit_code_and_last_lines() {
    let (_sim, stage, op, end) = stopped();
    let told = [
        "workernode-1",
        "`join`",
        "exit code 3",
        "Running pre-flight checks",
        WHY,
    ];
    let shown = stage.server.ctl(&["op", "show", &op]);
    for error in [&end["error"], &shown["error"]] {
        let detail = error["detail"].as_str().unwrap();
        assert!(told.iter().all(|part| detail.contains(part)), "{detail}");
        assert_eq!(detail.matches("exit code").count(), 1, "{detail}");
    }
    assert_eq!(end["error"]["resource"], "workernode-1");
    let explained = stage.server.run(&["op", "explain", &op]);
    for part in [
        WHY,
        "can retry",
        "can rollback",
        "can fail",
        "cannot cancel",
    ] {
        assert!(
            explained.data.contains(part),
            "no `{part}` in {}",
            explained.data
        );
    }
    let watched = stage.server.run(&["op", "watch", &op]);
    assert_eq!(watched.code, 1);
    assert!(
        watched.words.contains(&format!("vnfmctl op retry {op}")),
        "{}",
        watched.words
    );
}

#[test]
fn retry_completes_the_missing_join_without_calling_heat() {
    let (sim, stage, op, _) = stopped();
    sim.disarm();
    let before = sim.calls("heat.", "").len();
    let retried = stage.server.run(&["op", "retry", &op, "--watch"]);
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
    sim.is_lawful();
    stage.a_is_up(3);
    stage.bring_down(VNF_A);
    stage.ends();
    sim.is_clean();
}

#[test]
fn a_retry_that_fails_again_stops_again() {
    let (sim, stage, op, _) = stopped();
    let retried = stage.server.run(&["op", "retry", &op, "--watch"]);
    assert_eq!(retried.code, 1, "{retried:?}");
    assert!(retried.words.contains(WHY), "{retried:?}");
    stage.ends_as(&op, "FAILED_TEMP");
    assert_eq!(sim.hosts_that_ran("kubeadm join"), ["workerNode-0"]);
    sim.is_lawful();
}

#[test]
fn rollback_leaves_nothing() {
    let (sim, stage, op, _) = stopped();
    let rolled = stage.server.run(&["op", "rollback", &op, "--watch"]);
    assert_eq!(rolled.code, 0, "{rolled:?}");
    stage.ends_as(&op, "ROLLED_BACK");
    assert_eq!(state_of_a(&stage), "NOT_INSTANTIATED");
    sim.is_clean();
    stage.server.ctl(&["vnf", "delete", VNF_A]);
    stage.ends();
}

#[test]
fn fail_ends_the_operation_and_a_later_terminate_cleans_up() {
    let (sim, stage, op, _) = stopped();
    stage.server.ctl(&["op", "fail", &op]);
    stage.ends_as(&op, "FAILED");
    assert_eq!(
        state_of_a(&stage),
        "INSTANTIATED",
        "something exists, so it can be terminated"
    );
    stage.server.refused(&["op", "retry", &op]);
    stage.bring_down(VNF_A);
    stage.ends();
    sim.is_clean();
}

//! `kill -9` of the server: restarted on its data, it resumes by itself and ends as without the crash.

use serde_json::{Value, json};
use vnfm_tests::crash_points::CrashPlan;
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{LONG, VNF_A, VNF_B};

use super::testbed;

const SAMPLE: &str = "vnf-a-k8s-cluster";

/// Starts to instantiate VNF-A, kills the server once `look` returns true, restarts it, and completes the scenario.
fn crash_when(flags: &[&str], rule: Option<&Value>, look: impl Fn(&Simulator) -> bool) {
    let (sim, mut testbed) = testbed(flags, "info");
    let (_, request) = testbed.create_a(SAMPLE);
    if let Some(rule) = rule {
        sim.arm(rule);
    }
    let op = testbed.instantiate(VNF_A, &request);
    until("the moment of the crash", LONG, || look(&sim).then_some(()));
    testbed.server.kill();
    testbed.server.begin();
    testbed.wait_for_state(&op, "COMPLETED");
    assert_created_once(&sim);
    let cluster = testbed.assert_a_up(3);
    testbed.instantiate_b(&cluster);
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn a_crash_during_a_cascade_is_resumed() {
    let (sim, mut testbed) = testbed(&[], "info");
    let (_, request) = testbed.create_a(SAMPLE);
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = testbed.assert_a_up(3);
    testbed.instantiate_b(&cluster);
    let op = testbed.terminate_with_dependants();
    let filter = ["op", "list", "--filter", "(eq,operation,TERMINATE)"];
    until("the operation of VNF-B", LONG, || {
        let begun = testbed.server.ctl(&filter);
        (begun.as_array().unwrap().len() == 2).then_some(())
    });
    testbed.server.kill();
    testbed.server.begin();
    testbed.wait_for_state(&op, "COMPLETED");
    let begun = testbed.server.ctl(&filter);
    let completed = |op: &Value| op["operationState"] == "COMPLETED";
    let begun = begun.as_array().unwrap();
    assert!(
        begun.len() == 2 && begun.iter().all(completed),
        "{begun:#?}"
    );
    testbed.delete_both();
    testbed.finish();
    sim.assert_clean();
}

/// One stack, and one cluster on it.
fn assert_created_once(sim: &Simulator) {
    assert_eq!(sim.touched_stacks(), 1, "{:#?}", sim.calls("heat.", ""));
    let masters = sim.hosts_that_ran("kubeadm init");
    let mut workers = sim.hosts_that_ran("kubeadm join");
    assert_eq!(
        (masters.len(), workers.len()),
        (1, 2),
        "{masters:?} {workers:?}"
    );
    workers.dedup();
    assert_eq!(workers.len(), 2, "one host joined twice");
    let resets = sim.calls("host.exec", ": kubeadm reset");
    assert!(resets.is_empty(), "what ran was thrown away: {resets:#?}");
    sim.assert_no_violations();
}

#[test]
fn a_crash_during_stack_creation_is_resumed() {
    crash_when(&["--server-build", "1500"], None, |sim| {
        sim.calls("heat.stack_create", "")
            .iter()
            .any(|call| call["status"] == 201)
    });
}

#[test]
fn a_crash_during_kubeadm_init_is_resumed() {
    let slow =
        json!({"call": "host.exec", "subject": ": kubeadm init", "fault": {"delayMs": 3000}});
    crash_when(&[], Some(&slow), |sim| sim.seen() > 0);
}

#[test]
fn a_crash_during_a_join_is_resumed() {
    let slow = json!({"call": "host.exec", "subject": ": kubeadm join", "times": 2, "fault": {"delayMs": 3000}});
    crash_when(&[], Some(&slow), |sim| sim.seen() > 0);
}

#[test]
fn a_crash_during_stack_deletion_is_resumed() {
    let (sim, mut testbed) = testbed(&[], "info");
    let (_, request) = testbed.create_a(SAMPLE);
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    sim.arm(&json!({"call": "heat.resource_delete", "fault": {"delayMs": 2000}}));
    let begin_op = testbed.server.ctl(&["vnf", "terminate", VNF_A]);
    let op = begin_op["vnfLcmOpOccId"].as_str().unwrap();
    until("the stack's deletion", LONG, || {
        (sim.seen() > 0).then_some(())
    });
    testbed.server.kill();
    testbed.server.begin();
    testbed.wait_for_state(op, "COMPLETED");
    testbed.server.ctl(&["vnf", "delete", VNF_A]);
    testbed.finish();
    sim.assert_clean();
}

/// The minimum number of crash points of the scenario in the simulated world.
const COURSE: [usize; 4] = [12, 5, 3, 3];

#[test]
fn ten_crashes_across_the_scenario_are_resumed() {
    // Deletions take a moment, as they do in the real world.
    let (sim, mut testbed) = testbed(&["--server-build", "500"], "info");
    let mut crashes = CrashPlan::draw_for(10, &COURSE);
    let (_, request) = testbed.create_a(SAMPLE);
    crashes.run_operation(&mut testbed, |testbed| testbed.instantiate(VNF_A, &request));
    assert_created_once(&sim);
    let cluster = testbed.assert_a_up(3);
    let request = testbed.create_b("vnf-b-cnf", &cluster);
    crashes.run_operation(&mut testbed, |testbed| testbed.instantiate(VNF_B, &request));
    testbed.assert_b_up();
    for name in [VNF_B, VNF_A] {
        crashes.run_operation(&mut testbed, |testbed| testbed.terminate(name));
        testbed.server.ctl(&["vnf", "delete", name]);
    }
    crashes.run_remaining(&mut testbed, |testbed| testbed.create_a(SAMPLE).1);
    println!(
        "{} retries; died at\n{}",
        crashes.retried,
        crashes.crashed_at.join("\n")
    );
    assert_eq!(crashes.crashed_at.len(), 10);
    testbed.finish();
    sim.assert_clean();
}

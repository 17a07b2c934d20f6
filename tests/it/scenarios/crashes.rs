//! `kill -9` of the server: started again on its data, it goes on by itself and ends as if nothing had happened.

use serde_json::{Value, json};
use vnfm_tests::crash_points::Deaths;
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulated;
use vnfm_tests::testbed::{LONG, VNF_A, VNF_B};

use super::stage;

const SAMPLE: &str = "vnf-a-k8s-cluster";

/// Begins to instantiate VNF-A, kills the server once `look` says so, starts it again, and plays to the end.
fn killed_when(flags: &[&str], rule: Option<&Value>, look: impl Fn(&Simulated) -> bool) {
    let (sim, mut stage) = stage(flags, "info");
    let (_, request) = stage.create_a(SAMPLE);
    if let Some(rule) = rule {
        sim.arm(rule);
    }
    let op = stage.instantiate(VNF_A, &request);
    until("the moment of the crash", LONG, || look(&sim).then_some(()));
    stage.server.kill();
    stage.server.begin();
    stage.ends_as(&op, "COMPLETED");
    was_made_once(&sim);
    let cluster = stage.a_is_up(3);
    stage.b_lives_on(&cluster);
    stage.bring_down(VNF_B);
    stage.bring_down(VNF_A);
    stage.ends();
    sim.is_clean();
}

/// One stack, and one cluster on it.
fn was_made_once(sim: &Simulated) {
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
    sim.is_lawful();
}

#[test]
fn a_crash_during_stack_creation_is_resumed() {
    killed_when(&["--server-build", "1500"], None, |sim| {
        sim.calls("heat.stack_create", "")
            .iter()
            .any(|call| call["status"] == 201)
    });
}

#[test]
fn a_crash_during_kubeadm_init_is_resumed() {
    let slow =
        json!({"call": "host.exec", "subject": ": kubeadm init", "fault": {"delayMs": 3000}});
    killed_when(&[], Some(&slow), |sim| sim.seen() > 0);
}

#[test]
fn a_crash_during_a_join_is_resumed() {
    let slow = json!({"call": "host.exec", "subject": ": kubeadm join", "times": 2, "fault": {"delayMs": 3000}});
    killed_when(&[], Some(&slow), |sim| sim.seen() > 0);
}

#[test]
fn a_crash_during_stack_deletion_is_resumed() {
    let (sim, mut stage) = stage(&[], "info");
    let (_, request) = stage.create_a(SAMPLE);
    stage.ends_as(&stage.instantiate(VNF_A, &request), "COMPLETED");
    sim.arm(&json!({"call": "heat.resource_delete", "fault": {"delayMs": 2000}}));
    let begun = stage.server.ctl(&["vnf", "terminate", VNF_A]);
    let op = begun["vnfLcmOpOccId"].as_str().unwrap();
    until("the stack's deletion", LONG, || {
        (sim.seen() > 0).then_some(())
    });
    stage.server.kill();
    stage.server.begin();
    stage.ends_as(op, "COMPLETED");
    stage.server.ctl(&["vnf", "delete", VNF_A]);
    stage.ends();
    sim.is_clean();
}

/// The moments that the story's operations have at least in the simulated world.
const COURSE: [usize; 4] = [12, 5, 3, 3];

#[test]
fn ten_crashes_across_the_scenario_are_resumed() {
    // Deletions take a moment, as they do in the real world.
    let (sim, mut stage) = stage(&["--server-build", "500"], "info");
    let mut deaths = Deaths::drawn(10, &COURSE);
    let (_, request) = stage.create_a(SAMPLE);
    deaths.over(&mut stage, |stage| stage.instantiate(VNF_A, &request));
    was_made_once(&sim);
    let cluster = stage.a_is_up(3);
    let request = stage.create_b("vnf-b-cnf", &cluster);
    deaths.over(&mut stage, |stage| stage.instantiate(VNF_B, &request));
    stage.b_is_up();
    for name in [VNF_B, VNF_A] {
        deaths.over(&mut stage, |stage| stage.terminate(name));
        stage.server.ctl(&["vnf", "delete", name]);
    }
    deaths.in_further_lives(&mut stage, |stage| stage.create_a(SAMPLE).1);
    println!(
        "{} retries; died at\n{}",
        deaths.retried,
        deaths.died.join("\n")
    );
    assert_eq!(deaths.died.len(), 10);
    stage.ends();
    sim.is_clean();
}

//! The scenario on real OpenStack, real hosts with kubeadm and real Kubernetes: complete, and with a killed server. At the
//! end the cloud must be as empty as before.

use std::process::Command;

use vnfm_tests::demo::assert_demo_passes;
use vnfm_tests::process_watch::ProcessWatch;
use vnfm_tests::programs::until;
use vnfm_tests::real::Real;
use vnfm_tests::testbed::{LONG, Testbed, VNF_A, VNF_B};

#[test]
fn vnf_b_runs_on_vnf_a_from_tosca_and_both_are_removed_completely() {
    assert_demo_passes("tosca");
}

#[test]
fn crashes_during_stack_creation_and_a_join_are_resumed() {
    let Some(real) = Real::find() else { return };
    let mut testbed = real.testbed();
    let watch = ProcessWatch::begin(&real.hosts, &[]);
    let (id, request) = testbed.create_a("vnf-a-k8s-cluster");
    let op = testbed.instantiate(VNF_A, &request);
    let in_progress = || {
        real.cloud()
            .stack_states(&id)
            .contains(&"CREATE_IN_PROGRESS".to_owned())
    };
    crash_when(&mut testbed, &op, in_progress);
    crash_when(&mut testbed, &op, || !kubeadms("join").is_empty());
    testbed.wait_for_state(&op, "COMPLETED");
    watch.end().assert_each_joined_once();
    let stacks = real.cloud().stack_states(&id);
    assert_eq!(stacks, ["CREATE_COMPLETE"]);
    let cluster = testbed.assert_a_up(3);
    testbed.instantiate_b(&cluster);
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    real.wait_until_clean();
}

/// Kills the server once `is_due`, and starts it again.
fn crash_when(testbed: &mut Testbed, op: &str, is_due: impl Fn() -> bool) {
    let path = format!("/vnfm/v1/op_occs/{op}/progress");
    until("the moment of the crash", LONG, || {
        let now = testbed.server.get(&path);
        assert!(now["error"].is_null(), "{now:#}");
        is_due().then_some(())
    });
    testbed.server.kill();
    testbed.server.begin();
}

/// Process ids of the running `kubeadm` of this name; hosts are namespaces of this machine.
fn kubeadms(command: &str) -> Vec<String> {
    let output = Command::new("pgrep")
        .args(["-f", &format!("^kubeadm {command} ")])
        .output();
    let output = output.unwrap();
    String::from_utf8_lossy(&output.stdout)
        .lines()
        .map(str::to_owned)
        .collect()
}

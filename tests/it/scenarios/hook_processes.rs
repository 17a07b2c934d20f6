//! The cluster's hooks in separate processes: the scenario is the same, and they end with a killed server.

use std::path::Path;

use serde_json::json;
use vnfm_tests::programs::{Server, until};
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{LONG, Testbed, VNF_A, VNF_B};

fn testbed() -> (Simulator, Testbed) {
    let folder = tempfile::tempdir().unwrap();
    let sim = Simulator::start(folder.path(), &[]);
    let server = Server::start_with(folder.path(), "info", Some("process"));
    let testbed = Testbed::with(server, folder, &sim.clouds(), sim.ssh_port());
    (sim, testbed)
}

#[test]
fn killing_the_server_kills_its_hook_processes_and_the_operation_is_resumed() {
    let (sim, mut testbed) = testbed();
    let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
    let slow =
        json!({"call": "host.exec", "subject": ": kubeadm init", "fault": {"delayMs": 3000}});
    sim.arm(&slow);
    let op = testbed.instantiate(VNF_A, &request);
    until("the hook", LONG, || (sim.seen() > 0).then_some(()));
    let hooks = testbed.server.hook_processes();
    assert!(
        !hooks.is_empty(),
        "no process of a hook: {}",
        testbed.server.logged()
    );
    testbed.server.kill();
    until("the end of the hook's process", LONG, || {
        hooks
            .iter()
            .all(|hook| !Path::new("/proc").join(hook).exists())
            .then_some(())
    });
    testbed.server.begin();
    testbed.wait_for_state(&op, "COMPLETED");
    let cluster = testbed.assert_a_up(3);
    testbed.instantiate_b(&cluster);
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

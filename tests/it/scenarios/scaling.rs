//! Scaling with the built programs: servers of a generated template, pods of a Deployment.

use super::testbed;
use vnfm_tests::scaling::{pods_scale_and_the_others_stay, servers_scale_and_the_others_stay};
use vnfm_tests::testbed::VNF_B;

#[test]
fn servers_are_added_and_removed_and_the_others_stay() {
    let (sim, testbed) = testbed(&[], "info");
    servers_scale_and_the_others_stay(&testbed);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn pods_are_added_and_removed_and_the_others_stay() {
    let (sim, testbed) = testbed(&["--cluster"], "info");
    let file = sim.endpoint("kubeconfig");
    let words = [
        "vim",
        "register",
        "--name",
        "containers",
        "--config-file",
        file,
    ];
    let vim = testbed.server.ctl(&words);
    let request = testbed.create_b("vnf-b-cnf", vim["id"].as_str().unwrap());
    testbed.wait_for_state(&testbed.instantiate(VNF_B, &request), "COMPLETED");
    pods_scale_and_the_others_stay(&testbed, VNF_B);
    testbed.terminate_and_delete(VNF_B);
    testbed.server.ctl(&["vim", "delete", "containers"]);
    testbed.finish();
    sim.assert_clean();
}

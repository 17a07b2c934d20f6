//! Scaling on a real OpenStack and a real Kubernetes: a generated template, and pods of a Deployment.

use vnfm_tests::live::neighbour;
use vnfm_tests::scaling::{pods_scale_and_the_others_stay, servers_scale_and_the_others_stay};
use vnfm_tests::testbed::{Testbed, VIM, VNF_B};

use vnfm_tests::real::Real;

#[test]
fn servers_are_added_and_removed_and_the_others_stay() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    servers_scale_and_the_others_stay(&testbed);
    testbed.finish();
    real.wait_until_clean();
}

#[test]
fn pods_are_added_and_removed_and_the_others_stay() {
    let Some(kubeconfig) = neighbour("VNFM_LIVE_KUBECONFIG") else {
        return;
    };
    let testbed = Testbed::on_cluster(tempfile::tempdir().unwrap(), &kubeconfig);
    let vim = testbed.server.ctl(&["vim", "show", VIM]);
    let request = testbed.create_b("vnf-b-cnf", vim["id"].as_str().unwrap());
    testbed.wait_for_state(&testbed.instantiate(VNF_B, &request), "COMPLETED");
    pods_scale_and_the_others_stay(&testbed, VNF_B);
    testbed.terminate_and_delete(VNF_B);
    testbed.finish();
}

//! Scaling on a real Kubernetes: pods of a Deployment.

use vnfm_tests::live::neighbour;
use vnfm_tests::scaling::pods_scale_and_the_others_stay;
use vnfm_tests::testbed::{Testbed, VIM, VNF_B};

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

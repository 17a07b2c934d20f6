//! A change of VNF-B's package on a real cluster: a client of its Service sees no failure.

use std::time::Instant;

use vnfm_tests::cluster_access::ClusterShell;
use vnfm_tests::testbed::{VNF_A, VNF_B};
use vnfm_tests::upgrades::{begin, shown};

use vnfm_tests::real::Real;
use vnfm_tests::service_client::Client;

#[test]
fn a_client_of_the_service_sees_no_failure_while_vnf_b_changes_its_package() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = testbed.assert_a_up(3);
    testbed.instantiate_b(&cluster);
    testbed.onboard("vnf-b-cnf-2");
    let inside = ClusterShell::connect(&testbed);
    for (sample, version) in [("vnf-b-cnf", "2.0"), ("vnf-b-cnf-2", "1.0")] {
        let client = Client::start(&real, &testbed, &inside);
        let began = Instant::now();
        let op = begin(&testbed, VNF_B, sample);
        testbed.wait_for_state(&op, "COMPLETED");
        let seconds = began.elapsed().as_secs_f64();
        inside.assert_b_recorded(&testbed, 2);
        let (served, failed) = client.end();
        println!("{served} requests during the change to {version}, in {seconds:.1} s");
        assert_eq!(failed, "", "failed requests during the change to {version}");
        assert_eq!(shown(&testbed, VNF_B)["vnfSoftwareVersion"], version);
    }
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    real.wait_until_clean();
}

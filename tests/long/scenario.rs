//! The scenario on the real systems with a base HOT, and with the vendor's script as its management driver.

use vnfm_tests::demo::assert_demo_passes;
use vnfm_tests::real::Real;
use vnfm_tests::testbed::VNF_A;

use crate::secrets::assert_join_secrets_removed;

#[test]
fn vnf_b_runs_on_vnf_a_from_base_hot_and_both_are_removed_completely() {
    assert_demo_passes("base-hot");
}

#[test]
fn the_vendor_script_installs_the_cluster() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    let (_, request) = testbed.create_a("vnf-a-vendor-script");
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = testbed.assert_a_up(3);
    assert_join_secrets_removed(&real);
    testbed.instantiate_b(&cluster);
    let op = testbed.terminate_with_dependants();
    testbed.wait_for_state(&op, "COMPLETED");
    testbed.delete_both();
    testbed.finish();
    real.wait_until_clean();
}

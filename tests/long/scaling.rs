//! Scaling on a real OpenStack: servers of a generated template.

use vnfm_tests::real::Real;
use vnfm_tests::scaling::servers_scale_and_the_others_stay;

#[test]
fn servers_are_added_and_removed_and_the_others_stay() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    servers_scale_and_the_others_stay(&testbed);
    testbed.finish();
    real.wait_until_clean();
}

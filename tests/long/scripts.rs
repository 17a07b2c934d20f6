//! A hook written for Tacker, on a real cloud.

use vnfm_tests::real::Real;
use vnfm_tests::tacker_hooks;

#[test]
fn a_script_for_tacker_runs_on_a_real_cloud() {
    let Some(real) = Real::find() else { return };
    tacker_hooks::run(&real.testbed());
    real.wait_until_clean();
}

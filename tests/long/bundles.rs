//! VNF-A and VNF-B from a bundle, on a real cloud whose hosts have no network but the site's.

use vnfm_tests::bundles::Site;
use vnfm_tests::real::Real;

#[test]
fn vnf_a_and_vnf_b_run_from_a_bundle() {
    let Some(real) = Real::find() else { return };
    let site = Site::install(tempfile::tempdir().unwrap(), &real.clouds, 22);
    site.run_scenario();
    real.wait_until_clean();
}

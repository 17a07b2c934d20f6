//! A site without internet access installs server, plugin, image and packages from one bundle.

use vnfm_tests::bundles::Site;
use vnfm_tests::simulator::Simulator;

#[test]
fn vnf_a_and_vnf_b_run_from_a_bundle() {
    let folder = tempfile::tempdir().unwrap();
    let sim = Simulator::start(folder.path(), &[]);
    let site = Site::install(folder, &sim.clouds(), sim.ssh_port());
    let again = site.install_packages();
    assert!(
        again.iter().all(|row| row["state"] == "present"),
        "{again:?}"
    );
    site.run_scenario();
    sim.assert_clean();
}

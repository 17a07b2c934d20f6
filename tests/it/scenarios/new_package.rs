//! Packages from `vnfmctl new vnfd` can be onboarded unchanged, run in the simulated world, and leave nothing behind.

use std::path::Path;

use serde_json::Value;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{Testbed, VIM};

use super::{testbed, testbed_in};

/// Creates a package, and instantiates and terminates an instance of it on this VIM.
fn assert_instantiates((sim, testbed): (Simulator, Testbed), kind: &str, vim: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web");
    let path = path.to_str().unwrap();
    let created = testbed
        .server
        .ctl(&["new", "vnfd", "web", "--kind", kind, "--dir", path]);
    let package = testbed.onboard(path);
    let known: Value = testbed.server.ctl(&["package", "show", &package]);
    assert_eq!(known["vnfdId"], created["vnfdId"]);
    testbed
        .server
        .ctl(&["vnf", "create", "--package", &package, "--name", "web"]);
    let request = testbed.request(path, vim);
    testbed.wait_for_state(&testbed.instantiate("web", &request), "COMPLETED");
    let instance = testbed.server.ctl(&["vnf", "show", "web"]);
    let vnfcs = instance["instantiatedVnfInfo"]["vnfcResourceInfo"]
        .as_array()
        .unwrap();
    assert_eq!(vnfcs.len(), 1, "{instance:#}");
    testbed.terminate_and_delete("web");
    if kind == "cnf" {
        testbed.server.ctl(&["vim", "delete", "containers"]);
    }
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn a_generated_vm_package_can_be_instantiated() {
    let (sim, testbed) = testbed(&[], "info");
    let vim = testbed.server.ctl(&["vim", "show", VIM]);
    assert_instantiates((sim, testbed), "vm", vim["id"].as_str().unwrap());
}

#[test]
fn a_generated_container_package_can_be_instantiated() {
    let (sim, testbed) = testbed_in(&["--cluster"], "");
    let file = sim.endpoint("kubeconfig").to_owned();
    assert!(Path::new(&file).is_file());
    let words = [
        "vim",
        "register",
        "--name",
        "containers",
        "--config-file",
        &file,
    ];
    let vim = testbed.server.ctl(&words);
    assert_instantiates((sim, testbed), "cnf", vim["id"].as_str().unwrap());
}

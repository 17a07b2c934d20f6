//! What `vnfmctl new vnfd` makes is onboarded as it is, runs in the simulated world and goes without a trace.

use std::path::Path;

use serde_json::Value;
use vnfm_tests::simulator::Simulated;
use vnfm_tests::testbed::{Stage, VIM};

use super::{stage, stage_in};

/// Makes a package, and an instance of it on this VIM that comes up and goes.
fn lives((sim, stage): (Simulated, Stage), kind: &str, vim: &str) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("web");
    let path = path.to_str().unwrap();
    let made = stage
        .server
        .ctl(&["new", "vnfd", "web", "--kind", kind, "--dir", path]);
    let package = stage.onboard(path);
    let known: Value = stage.server.ctl(&["package", "show", &package]);
    assert_eq!(known["vnfdId"], made["vnfdId"]);
    stage
        .server
        .ctl(&["vnf", "create", "--package", &package, "--name", "web"]);
    let request = stage.request(path, vim);
    stage.ends_as(&stage.instantiate("web", &request), "COMPLETED");
    let instance = stage.server.ctl(&["vnf", "show", "web"]);
    let vnfcs = instance["instantiatedVnfInfo"]["vnfcResourceInfo"]
        .as_array()
        .unwrap();
    assert_eq!(vnfcs.len(), 1, "{instance:#}");
    stage.bring_down("web");
    if kind == "cnf" {
        stage.server.ctl(&["vim", "delete", "containers"]);
    }
    stage.ends();
    sim.is_clean();
}

#[test]
fn a_generated_vm_package_can_be_instantiated() {
    let (sim, stage) = stage(&[], "info");
    let vim = stage.server.ctl(&["vim", "show", VIM]);
    lives((sim, stage), "vm", vim["id"].as_str().unwrap());
}

#[test]
fn a_generated_container_package_can_be_instantiated() {
    let (sim, stage) = stage_in(&["--cluster"], "");
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
    let vim = stage.server.ctl(&words);
    lives((sim, stage), "cnf", vim["id"].as_str().unwrap());
}

//! Hooks that are scripts, on real machines: Python configures two of them, one is healed, and Ansible of Debian
//! configures both again.

use serde_json::{Value, json};
use vnfm_tests::live;
use vnfm_tests::programs::program;

use crate::hosts::Host;
use crate::scenario::Real;

const SAMPLE: &str = "vnf-script-hooks";
const VNF: &str = "scripted";

#[test]
fn a_python_script_and_a_playbook_configure_two_real_hosts() {
    if live::program("/usr/bin/ansible-playbook", "ansible-core").is_none() {
        return;
    }
    let Some(real) = Real::find() else { return };
    let stage = real.stage();
    let plugins = stage
        .server
        .folder()
        .join("data/plugins")
        .to_string_lossy()
        .into_owned();
    let library = program("libmgmt_script.so").to_string_lossy().into_owned();
    stage
        .server
        .ctl(&["plugin", "allow", &library, "--dir", &plugins]);
    let package = stage.onboard(SAMPLE);
    stage
        .server
        .ctl(&["plugin", "allow", "--package", &package, "--dir", &plugins]);
    stage
        .server
        .ctl(&["vnf", "create", "--package", &package, "--name", VNF]);
    let vim = stage.server.ctl(&["vim", "show", "cloud"]);
    let request = stage.request(SAMPLE, vim["id"].as_str().unwrap());
    stage.ends_as(&stage.instantiate(VNF, &request), "COMPLETED");

    let before = servers(&stage.server.ctl(&["vnf", "show", VNF]));
    let names: Vec<_> = before.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let page = |name: &str| Host::new(&real, name).inside("cat /tmp/vnf-page");
    assert_eq!(page(&names[0]), "served by the VNF");

    // The playbook finds one host as it was, with another page, and one that is new.
    Host::new(&real, &names[0]).inside("echo changed >/tmp/vnf-page");
    let heal = ["vnf", "heal", VNF, "--vnfc", &before[1].1];
    let op = stage.server.ctl(&heal)["vnfLcmOpOccId"]
        .as_str()
        .unwrap()
        .to_owned();
    let began = std::time::Instant::now();
    stage.ends_as(&op, "COMPLETED");
    println!(
        "healed, with the playbook, in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    for name in &names {
        assert_eq!(page(name), "served by the VNF", "{name}");
    }
    let healed = stage.server.ctl(&["vnf", "show", VNF]);
    assert_eq!(
        healed["metadata"]["pages"].as_array().unwrap().len(),
        2,
        "{healed:#}"
    );
    let log = stage.server.run(&["op", "log", &op]);
    assert!(format!("{log:?}").contains("putting the page"), "{log:?}");

    stage.bring_down(VNF);
    stage.ends();
    real.is_as_before();
}

/// Names and ids of the VNFCs, in order of their names.
fn servers(instance: &Value) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let vnfcs = instance["instantiatedVnfInfo"]["vnfcResourceInfo"]
        .as_array()
        .cloned();
    let mut found: Vec<_> = vnfcs
        .unwrap_or_else(|| panic!("no VNFC in {}", json!(instance)))
        .iter()
        .map(|vnfc| (text(&vnfc["metadata"]["name"]), text(&vnfc["id"])))
        .collect();
    found.sort();
    found
}

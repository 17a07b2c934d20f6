//! Hooks that are scripts, on real machines: Python configures two of them, one is healed, and Ansible
//! of Debian configures both again.

use serde_json::{Value, json};
use vnfm_tests::live;
use vnfm_tests::programs::program;

use vnfm_tests::host::Host;
use vnfm_tests::real::Real;

const SAMPLE: &str = "vnf-script-hooks";
const VNF: &str = "scripted";

#[test]
fn a_python_script_and_a_playbook_configure_two_real_hosts() {
    if live::program("/usr/bin/ansible-playbook", "ansible-core").is_none() {
        return;
    }
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    let plugins = testbed
        .server
        .folder()
        .join("data/plugins")
        .to_string_lossy()
        .into_owned();
    let library = program("libmgmt_script.so").to_string_lossy().into_owned();
    testbed
        .server
        .ctl(&["plugin", "allow", &library, "--dir", &plugins]);
    let package = testbed.onboard(SAMPLE);
    testbed
        .server
        .ctl(&["plugin", "allow", "--package", &package, "--dir", &plugins]);
    testbed
        .server
        .ctl(&["vnf", "create", "--package", &package, "--name", VNF]);
    let vim = testbed.server.ctl(&["vim", "show", "cloud"]);
    let request = testbed.request(SAMPLE, vim["id"].as_str().unwrap());
    testbed.wait_for_state(&testbed.instantiate(VNF, &request), "COMPLETED");

    let before = servers(&testbed.server.ctl(&["vnf", "show", VNF]));
    let names: Vec<_> = before.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
    let page = |name: &str| Host::new(&real, name).inside("cat /tmp/vnf-page");
    assert_eq!(page(&names[0]), "served by the VNF");

    // The playbook finds one unchanged host, with another page, and one new host.
    Host::new(&real, &names[0]).inside("echo changed >/tmp/vnf-page");
    let heal = ["vnf", "heal", VNF, "--vnfc", &before[1].1];
    let op = testbed.server.ctl(&heal)["vnfLcmOpOccId"]
        .as_str()
        .unwrap()
        .to_owned();
    let began = std::time::Instant::now();
    testbed.wait_for_state(&op, "COMPLETED");
    println!(
        "healed, with the playbook, in {:.1} s",
        began.elapsed().as_secs_f64()
    );
    for name in &names {
        assert_eq!(page(name), "served by the VNF", "{name}");
    }
    let healed = testbed.server.ctl(&["vnf", "show", VNF]);
    assert_eq!(
        healed["metadata"]["pages"].as_array().unwrap().len(),
        2,
        "{healed:#}"
    );
    let log = testbed.server.run(&["op", "log", &op]);
    assert!(format!("{log:?}").contains("putting the page"), "{log:?}");

    testbed.terminate_and_delete(VNF);
    testbed.finish();
    real.wait_until_clean();
}

/// Names and ids of the VNFCs, ordered by name.
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

//! Hooks that are scripts of the package: an administrator allows the package by its id, its Python script configures
//! the servers, and output for operators contains no secret.

use serde_json::json;
use vnfm_tests::programs::program;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::tacker_hooks;
use vnfm_tests::testbed::Testbed;

const SAMPLE: &str = "vnf-script-hooks";
const VNF: &str = "scripted";

/// Allows the plugin that runs scripts; returns the plugin folder.
fn allow_script_plugin(testbed: &Testbed) -> String {
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
    plugins
}

/// `plugin list` names the instance and the package that use scripts.
fn assert_plugin_lists(testbed: &Testbed, instance: &serde_json::Value, package: &str) {
    let listed = testbed.server.ctl(&["plugin", "list"]);
    let script = listed
        .as_array()
        .unwrap()
        .iter()
        .find(|plugin| plugin["name"] == "mgmt-script");
    let script = script.unwrap();
    assert_eq!(script["instances"][0]["id"], *instance);
    assert_eq!(script["usedBy"][0]["vnfPkgId"], package);
}

#[test]
fn package_scripts_run_only_after_an_administrator_allows_them() {
    let folder = tempfile::tempdir().unwrap();
    let world = Simulator::start(folder.path(), &[]);
    let testbed = Testbed::new(folder, &world.clouds(), world.ssh_port(), "info");
    let plugins = allow_script_plugin(&testbed);

    let package = testbed.onboard(SAMPLE);
    let created = testbed
        .server
        .ctl(&["vnf", "create", "--package", &package, "--name", VNF]);
    let vim = testbed.server.ctl(&["vim", "show", "cloud"]);
    let request = testbed.request(SAMPLE, vim["id"].as_str().unwrap());
    let file = testbed.server.folder().join("request.json");
    std::fs::write(&file, request.to_string()).unwrap();
    let file = file.to_string_lossy();
    let why = testbed
        .server
        .refused(&["vnf", "instantiate", VNF, "--request", &file]);
    assert!(
        why.contains("Scripts/configure.py") && why.contains("plugin allow --package"),
        "{why}"
    );

    let pinned = testbed
        .server
        .ctl(&["plugin", "allow", "--package", &package, "--dir", &plugins]);
    assert_eq!(
        pinned["scripts"],
        json!(["Scripts/configure.py", "Scripts/site.yml"])
    );
    let visible = testbed.server.ctl(&["package", "show", &package]);
    assert_eq!(pinned["sha256"], visible["checksum"]["hash"]);

    testbed.wait_for_state(&testbed.instantiate(VNF, &request), "COMPLETED");
    let instance = testbed.server.ctl(&["vnf", "show", VNF]);
    assert_eq!(
        instance["metadata"]["pages"].as_array().unwrap().len(),
        2,
        "{instance:#}"
    );
    let drivers = &instance["instantiatedVnfInfo"]["metadata"]["mgmtDrivers"];
    assert!(
        drivers["configure"]
            .as_str()
            .unwrap()
            .starts_with("mgmt-script@"),
        "{drivers}"
    );
    let pages = world
        .files()
        .into_iter()
        .filter(|(_, path, _)| path == "/tmp/vnf-page");
    assert_eq!(
        pages.map(|(_, _, page)| page).collect::<Vec<_>>(),
        [b"served by the VNF", b"served by the VNF"]
    );

    assert_plugin_lists(&testbed, &created["id"], &package);
    testbed.terminate_and_delete(VNF);
    testbed.finish();
    world.assert_clean();
    assert!(
        !testbed.server.logged().contains("\"secret\""),
        "a password can be read"
    );
}

#[test]
fn plugin_run_runs_a_script_without_a_server() {
    let sample = vnfm_tests::sources::root()
        .join("vnfd-samples")
        .join(SAMPLE);
    let output = std::process::Command::new(program("vnfmctl"))
        .args(["plugin", "run"])
        .arg(program("libmgmt_script.so"))
        .arg("instantiate_end")
        .arg("--package")
        .arg(&sample)
        .arg("--hosts")
        .arg(sample.join("requests/hosts.yaml"))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    let effects: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(effects["metadata"]["pages"], json!(["web-1", "web-2"]));
    assert!(
        words.contains("ssh.put         web-2  /tmp/vnf-page 0644"),
        "{words}"
    );
    assert!(words.contains("info: web-2 has the page"), "{words}");
}

#[test]
fn a_script_for_tacker_runs_once_an_administrator_allows_its_protocol() {
    let folder = tempfile::tempdir().unwrap();
    let world = Simulator::start(folder.path(), &[]);
    let testbed = Testbed::new(folder, &world.clouds(), world.ssh_port(), "info");
    tacker_hooks::run(&testbed);
    world.assert_clean();
}

#[test]
fn plugin_run_runs_a_script_for_tacker() {
    let sample = vnfm_tests::sources::root().join("vnfd-samples/vnf-tacker-script");
    let output = std::process::Command::new(program("vnfmctl"))
        .args(["plugin", "run"])
        .arg(program("libmgmt_script.so"))
        .arg("instantiate_end")
        .arg("--package")
        .arg(&sample)
        .arg("--hosts")
        .arg(sample.join("requests/hosts.yaml"))
        .arg("--request")
        .arg(sample.join("requests/hook.yaml"))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}");
    let effects: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(effects["metadata"], json!({"site": "north", "servers": 1}));
}

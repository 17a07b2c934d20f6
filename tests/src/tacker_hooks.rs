//! The sample whose hooks are written for OpenStack Tacker, on any cloud: refused, allowed, retried, healed, terminated.

#![expect(clippy::unwrap_used, reason = "tests fail by panicking")]
#![expect(clippy::missing_panics_doc, reason = "tests fail by panicking")]

use serde_json::{Value, json};

use crate::programs::program;
use crate::testbed::{Testbed, VIM};

const SAMPLE: &str = "vnf-tacker-script";
const VNF: &str = "pickled";

/// Runs all of it, and leaves nothing behind.
pub fn run(testbed: &Testbed) {
    let server = &testbed.server;
    let plugins = server.folder().join("data/plugins");
    let plugins = plugins.to_string_lossy();
    let library = program("libmgmt_script.so");
    server.ctl(&[
        "plugin",
        "allow",
        &library.to_string_lossy(),
        "--dir",
        &plugins,
    ]);
    let package = testbed.onboard(SAMPLE);
    let allow = ["plugin", "allow", "--package", &package, "--dir", &plugins];
    server.ctl(&allow);
    server.ctl(&["vnf", "create", "--package", &package, "--name", VNF]);
    let vim = server.ctl(&["vim", "show", VIM]);
    let request = testbed.request(SAMPLE, vim["id"].as_str().unwrap());

    let op = testbed.instantiate(VNF, &request);
    let failed = testbed.wait_for_state(&op, "FAILED_TEMP");
    let words = [
        "reads a pickled request",
        "--protocol tacker",
        "Scripts/hooks.py",
    ];
    testbed.assert_explains(&op, &failed["error"], &words);

    let pin = server.ctl(&[&allow[..], &["--protocol", "tacker"]].concat());
    assert_eq!(pin["protocol"], "tacker");
    server.ctl(&["op", "retry", &op]);
    testbed.wait_for_state(&op, "COMPLETED");
    assert_eq!(metadata(testbed), json!({"site": "north", "servers": 1}));

    let instance = server.ctl(&["vnf", "show", VNF]);
    let vnfc = &instance["instantiatedVnfInfo"]["vnfcResourceInfo"][0]["id"];
    let heal = server.ctl(&["vnf", "heal", VNF, "--vnfc", vnfc.as_str().unwrap()]);
    let heal = heal["vnfLcmOpOccId"].as_str().unwrap();
    testbed.wait_for_state(heal, "COMPLETED");
    let log = server.run(&["op", "log", heal]).stdout;
    assert!(log.contains("1 servers will be replaced"), "{log}");
    assert_eq!(metadata(testbed)["heals"], 1);

    testbed.terminate_and_delete(VNF);
    testbed.finish();
}

fn metadata(testbed: &Testbed) -> Value {
    testbed.server.ctl(&["vnf", "show", VNF])["metadata"].clone()
}

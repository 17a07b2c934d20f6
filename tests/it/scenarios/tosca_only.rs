//! A package without manifests and charts, through the server: every operation that a CNF has, and the command that prints its
//! objects.

use serde_json::{Value, json};
use vnfm_tests::sources::copy;
use vnfm_tests::upgrades::shown;

use super::testbed_in;

const SAMPLE: &str = "cnf-tosca-only";
const NAME: &str = "web";
const FIRST: &str = "c787b4e9-1960-41c0-b1bf-21ebc625743a";
const SECOND: &str = "c787b4e9-1960-41c0-b1bf-21ebc625743f";

fn ids(instance: &Value) -> Vec<String> {
    let all = instance["instantiatedVnfInfo"]["vnfcResourceInfo"].as_array();
    let id = |vnfc: &Value| vnfc["id"].as_str().unwrap().to_owned();
    all.unwrap().iter().map(id).collect()
}

/// The sample's next release: another command, and a path to it.
fn next_release(folder: &std::path::Path) -> String {
    let package = copy(SAMPLE, folder);
    let path = package.join("Definitions/cnf-tosca-only.yaml");
    let text = std::fs::read_to_string(&path).unwrap();
    let policy = format!(
        "  policies:
    - upgrade:
        type: tosca.policies.nfv.VnfPackageChange
        properties:
          selector: [{{source_descriptor_id: {FIRST}, destination_descriptor_id: {SECOND}, source_flavour_id: simple}}]
          modification_qualifier: up
          destination_flavour_id: simple
        targets: [VNF]
"
    );
    let text = text
        .replace(FIRST, SECOND)
        .replace("-h /tmp/www'", "-h /tmp/www -v'")
        .replacen("  policies:\n", &policy, 1);
    std::fs::write(&path, text).unwrap();
    package.to_str().unwrap().to_owned()
}

#[test]
fn a_cnf_that_tosca_alone_describes_has_every_operation() {
    let (sim, testbed) = testbed_in(&["--cluster"], "limits: {lease_seconds: 2}");
    let file = sim.endpoint("kubeconfig");
    let words = [
        "vim",
        "register",
        "--name",
        "cluster",
        "--config-file",
        file,
    ];
    let vim = testbed.server.ctl(&words)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let package = testbed.onboard(SAMPLE);
    let words = ["vnf", "create", "--package", &package, "--name", NAME];
    testbed.server.ctl(&words);
    let request = testbed.request(SAMPLE, &vim);
    testbed.wait_for_state(&testbed.instantiate(NAME, &request), "COMPLETED");
    let first = ids(&shown(&testbed, NAME));
    assert_eq!(first.len(), 2);

    let scale = |direction| {
        let words = [
            "vnf", "scale", NAME, "--aspect", "web", direction, "--watch",
        ];
        testbed.server.ctl(&words);
        ids(&shown(&testbed, NAME))
    };
    let three = scale("--out");
    assert!(three.len() == 3 && first.iter().all(|id| three.contains(id)));
    let two = scale("--in");
    assert_eq!(two.len(), 2);

    let words = ["vnf", "heal", NAME, "--vnfc", &two[0], "--watch"];
    testbed.server.ctl(&words);
    let healed = ids(&shown(&testbed, NAME));
    assert!(healed.len() == 2 && healed.contains(&two[1]) && !healed.contains(&two[0]));

    let folder = tempfile::tempdir().unwrap();
    testbed.onboard(&next_release(folder.path()));
    let op = testbed.begin(NAME, "change_vnfpkg", &json!({"vnfdId": SECOND}));
    testbed.wait_for_state(&op, "COMPLETED");
    let changed = shown(&testbed, NAME);
    assert_eq!(changed["vnfdId"], SECOND);
    assert!(ids(&changed).len() == 2 && ids(&changed).iter().all(|id| !healed.contains(id)));

    testbed.terminate_and_delete(NAME);
    testbed.server.ctl(&["vim", "delete", "cluster"]);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn the_environment_of_a_request_is_checked_when_it_is_accepted() {
    let (sim, testbed) = testbed_in(&["--cluster"], "limits: {lease_seconds: 2}");
    let file = sim.endpoint("kubeconfig");
    let words = [
        "vim",
        "register",
        "--name",
        "cluster",
        "--config-file",
        file,
    ];
    let vim = testbed.server.ctl(&words)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let package = testbed.onboard(SAMPLE);
    let words = ["vnf", "create", "--package", &package, "--name", NAME];
    let id = testbed.server.ctl(&words)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let mut request = testbed.request(SAMPLE, &vim);
    request["additionalParams"]["greeting"] = json!({"a": 1});
    let path = format!("/vnflcm/v2/vnf_instances/{id}/instantiate");
    let (status, problem) = testbed.server.http("POST", &path, &request.to_string());
    assert_eq!(
        (status, &problem["code"]),
        (422, &json!("kubernetes.parameter-invalid")),
        "{problem:#}"
    );
    testbed.server.ctl(&["vnf", "delete", NAME]);
    testbed.server.ctl(&["vim", "delete", "cluster"]);
    testbed.finish();
    sim.assert_clean();
}

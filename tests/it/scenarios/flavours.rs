//! `vnfmctl vnf change_flavour` and `change_ext_conn`: the sample `vnf-flavours` on the simulated cloud, there and back.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_tests::sources::root;
use vnfm_tests::testbed::Testbed;

use super::testbed;

const VNF: &str = "web";

fn info(testbed: &Testbed) -> Value {
    testbed.server.ctl(&["vnf", "show", VNF])["instantiatedVnfInfo"].clone()
}

/// Names of the servers, with the networks and addresses of their CPs.
fn servers(info: &Value) -> BTreeSet<String> {
    let vnfcs = info["vnfcResourceInfo"].as_array().unwrap().iter();
    vnfcs
        .map(|vnfc| vnfc["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

fn ids(info: &Value) -> Vec<String> {
    let vnfcs = info["vnfcResourceInfo"].as_array().unwrap().iter();
    vnfcs
        .map(|vnfc| vnfc["id"].as_str().unwrap().to_owned())
        .collect()
}

/// Ids and protocol information of all CPs of one CPD.
fn cps(info: &Value, cpd: &str) -> Vec<Value> {
    let vnfcs = info["vnfcResourceInfo"].as_array().unwrap().iter();
    let cps = vnfcs.flat_map(|vnfc| vnfc["vnfcCpInfo"].as_array().unwrap());
    let of_cpd = cps.filter(|cp| cp["cpdId"] == cpd);
    of_cpd
        .map(|cp| json!([cp["id"], cp["cpProtocolInfo"]]))
        .collect()
}

/// Requests a task with this body, and waits until it is COMPLETED.
fn run(testbed: &Testbed, task: &str, body: &Value) -> Value {
    let op = testbed.begin(VNF, task, body);
    testbed.wait_for_state(&op, "COMPLETED");
    testbed
        .server
        .get(&format!("/vnflcm/v2/vnf_lcm_op_occs/{op}"))
}

fn sample_request(sample: &str, name: &str) -> Value {
    let path = root().join(format!("vnfd-samples/{sample}/requests/{name}.json"));
    let text = std::fs::read_to_string(path).unwrap();
    serde_json::from_str(&text.replace("@NETWORK_ID@", "provider")).unwrap()
}

fn affected(op: &Value, list: &str, change: &str) -> usize {
    let all = op["resourceChanges"][list]
        .as_array()
        .cloned()
        .unwrap_or_default();
    all.iter().filter(|one| one["changeType"] == change).count()
}

#[test]
fn the_sample_changes_its_flavour_and_its_links_there_and_back() {
    let (sim, testbed) = testbed(&[], "info");
    let package = testbed.onboard("vnf-flavours");
    testbed
        .server
        .ctl(&["vnf", "create", "--package", &package, "--name", VNF]);
    let vim = testbed.server.ctl(&["vim", "list"])[0]["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let request = testbed.request("vnf-flavours", &vim);
    testbed.wait_for_state(&testbed.instantiate(VNF, &request), "COMPLETED");
    let redundant = servers(&info(&testbed));
    assert_eq!(redundant.len(), 4, "{redundant:?}");

    let op = run(
        &testbed,
        "change_flavour",
        &sample_request("vnf-flavours", "change_flavour"),
    );
    assert_eq!(
        (
            affected(&op, "affectedVnfcs", "REMOVED"),
            affected(&op, "affectedVnfcs", "ADDED")
        ),
        (4, 1)
    );
    assert_eq!(affected(&op, "affectedVirtualLinks", "REMOVED"), 1);
    let simple = info(&testbed);
    assert_eq!(
        (servers(&simple).len(), &simple["flavourId"]),
        (1, &json!("simple"))
    );
    let op = run(
        &testbed,
        "change_flavour",
        &sample_request("vnf-flavours", "change_flavour_back"),
    );
    assert_eq!(affected(&op, "affectedVirtualLinks", "ADDED"), 1);
    let back = info(&testbed);
    assert_eq!(servers(&back), redundant);
    change_links_there_and_back(&testbed, &back);
    testbed.terminate_and_delete(VNF);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn a_plan_names_the_pods_of_a_workload_that_goes_with_the_flavour() {
    let (sim, testbed) = testbed(&["--cluster"], "info");
    let file = sim.endpoint("kubeconfig");
    let register = ["vim", "register", "--name", "pods", "--config-file", file];
    let vim = testbed.server.ctl(&register);
    let sample = "cnf-flavours";
    let package = testbed.onboard(sample);
    let create = ["vnf", "create", "--package", &package, "--name", VNF];
    let id = testbed.server.ctl(&create)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let request = testbed.request(sample, vim["id"].as_str().unwrap());
    testbed.wait_for_state(&testbed.instantiate(VNF, &request), "COMPLETED");
    let small = ids(&info(&testbed));
    let op = run(
        &testbed,
        "change_flavour",
        &sample_request(sample, "change_flavour"),
    );
    assert_eq!(affected(&op, "affectedVnfcs", "ADDED"), 1);
    let cache = ids(&info(&testbed))
        .into_iter()
        .find(|id| !small.contains(id));

    let back = sample_request(sample, "change_flavour_back");
    let body = json!({"operation": "CHANGE_FLAVOUR", "request": back});
    let path = format!("/vnfm/v1/vnf_instances/{id}/plan");
    let (_, plan) = testbed.server.http("POST", &path, &body.to_string());
    let deleted = plan["resources"].as_array().unwrap().iter();
    let deleted = deleted.filter(|row| row["action"] == "DELETE" && row["vdu"] == "cache");
    let deleted: Vec<_> = deleted.map(|row| row["vnfc"].clone()).collect();
    assert_eq!(deleted, [json!(cache)], "{plan:#}");
    run(&testbed, "change_flavour", &back);
    assert_eq!(ids(&info(&testbed)), small, "the other pods stay");
    testbed.terminate_and_delete(VNF);
    testbed.server.ctl(&["vim", "delete", "pods"]);
    testbed.finish();
    sim.assert_clean();
}

/// Connects the VDU `back` to another network and back; `before` is the instance until then.
fn change_links_there_and_back(testbed: &Testbed, before: &Value) {
    let elsewhere = json!({"extVirtualLinks": [{"id": "other", "resourceId": "nfv-net",
        "extCps": [{"cpdId": "backService", "cpConfig": {"any": {}}}]}]});
    let op = run(testbed, "change_ext_conn", &elsewhere);
    let moved = info(testbed);
    assert_eq!(ids(&moved), ids(before), "the servers stay");
    assert_eq!(
        cps(&moved, "frontService"),
        cps(before, "frontService"),
        "other ports stay"
    );
    assert_eq!(
        cps(&moved, "backInside"),
        cps(before, "backInside"),
        "other ports stay"
    );
    assert_ne!(cps(&moved, "backService"), cps(before, "backService"));
    assert_eq!(affected(&op, "affectedVnfcs", "MODIFIED"), 2);
    assert_eq!(affected(&op, "affectedExtLinkPorts", "ADDED"), 2);
    assert_eq!(affected(&op, "affectedExtLinkPorts", "REMOVED"), 2);
    assert_eq!(op["changedExtConnectivity"].as_array().unwrap().len(), 2);

    let home = json!({"extVirtualLinks": [{"id": "external", "resourceId": "provider",
        "extCps": [{"cpdId": "backService", "cpConfig": {"any": {}}}]}]});
    run(testbed, "change_ext_conn", &home);
    let again = info(testbed);
    assert_eq!(ids(&again), ids(before));
    assert_eq!(again["extVirtualLinkInfo"].as_array().unwrap().len(), 1);
    let repeated = run(testbed, "change_ext_conn", &home);
    assert_eq!(repeated["resourceChanges"], json!({}), "nothing to change");
}

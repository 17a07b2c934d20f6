//! `vnfmctl vnf change_ext_conn` for pods: the sample `cnf-networks` on a simulated cluster with networks, there, rolled back,
//! and back.

use serde_json::{Value, json};
use vnfm_tests::sources::root;
use vnfm_tests::testbed::Testbed;

use super::testbed;

const SAMPLE: &str = "cnf-networks";
const VNF: &str = "router";
/// Name of the simulated cluster of `--cluster`.
const CLUSTER: &str = "standalone";
const KIND: &str = "NetworkAttachmentDefinition";
const PLURAL: &str = "network-attachment-definitions";

/// What the administrator of the cluster applies.
fn networks() -> String {
    let network = |name: &str| {
        format!(
            "---\napiVersion: k8s.cni.cncf.io/v1\nkind: {KIND}\nmetadata: {{name: {name}, namespace: networks}}\nspec: {{config: '{{}}'}}\n"
        )
    };
    format!(
        "apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {{name: {PLURAL}.k8s.cni.cncf.io}}
spec:
  group: k8s.cni.cncf.io
  scope: Namespaced
  names: {{kind: {KIND}, plural: {PLURAL}}}
  versions: [{{name: v1, served: true, storage: true}}]
---
apiVersion: v1
kind: Namespace
metadata: {{name: networks}}
{}{}",
        network("data-1"),
        network("data-2")
    )
}

fn info(testbed: &Testbed) -> Value {
    testbed.server.ctl(&["vnf", "show", VNF])["instantiatedVnfInfo"].clone()
}

/// The network of the external link, and the number of its ports.
fn link(info: &Value) -> (&str, usize) {
    let link = &info["extVirtualLinkInfo"][0];
    let ports = link["extLinkPorts"].as_array().map_or(0, Vec::len);
    (
        link["resourceHandle"]["resourceId"].as_str().unwrap(),
        ports,
    )
}

fn addresses(info: &Value) -> usize {
    let cps = info["extCpInfo"].as_array().unwrap().iter();
    let path = "/cpProtocolInfo/0/ipOverEthernet/ipAddresses/0/addresses/0";
    cps.filter(|cp| cp.pointer(path).is_some_and(Value::is_string))
        .count()
}

fn sample_request(name: &str) -> Value {
    let path = root().join(format!("vnfd-samples/{SAMPLE}/requests/{name}.json"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Plan and request name what the VNF does not have.
fn refuses_unknown_connection_points(testbed: &Testbed, id: &str) {
    for (cps, says) in [
        (json!([{"cpdId": "noCP"}]), "no connection point `noCP`"),
        (
            json!([{"cpdId": "noCP", "cpConfig": {"1": {}}}, {"cpdId": "other"}]),
            "no connection point `noCP`, `other`",
        ),
        (json!([]), "`strange` is not a link of the instance"),
    ] {
        let link = json!({"id": "strange", "resourceId": "networks/data-2", "extCps": cps});
        let request = json!({"extVirtualLinks": [link]});
        let planned = json!({"operation": "CHANGE_EXT_CONN", "request": request});
        let plan = format!("/vnfm/v1/vnf_instances/{id}/plan");
        let task = format!("/vnflcm/v2/vnf_instances/{id}/change_ext_conn");
        for (path, body) in [(plan, planned), (task, request)] {
            let (status, problem) = testbed.server.http("POST", &path, &body.to_string());
            let text = problem.to_string();
            assert_eq!((status, text.contains(says)), (422, true), "{text}");
        }
    }
}

/// The plan replaces both pods; the change connects them to the second network and says so.
fn connects_both_pods_to_the_other(testbed: &Testbed, id: &str, change: &Value) {
    let body = json!({"operation": "CHANGE_EXT_CONN", "request": change});
    let path = format!("/vnfm/v1/vnf_instances/{id}/plan");
    let (status, plan) = testbed.server.http("POST", &path, &body.to_string());
    let rows = plan["resources"].as_array().cloned().unwrap_or_default();
    let replaced = rows
        .iter()
        .filter(|row| row["kind"] == "Pod" && row["action"] == "REPLACE");
    assert_eq!((status, replaced.count()), (200, 2), "{plan:#}");

    let op = testbed.begin(VNF, "change_ext_conn", change);
    testbed.wait_for_state(&op, "COMPLETED");
    let second = info(testbed);
    assert_eq!(
        (link(&second), addresses(&second)),
        (("networks/data-2", 2), 2),
        "{second:#}"
    );
    let op = testbed
        .server
        .get(&format!("/vnflcm/v2/vnf_lcm_op_occs/{op}"));
    let changed = &op["changedExtConnectivity"][0];
    assert_eq!(
        changed["resourceHandle"]["resourceId"], "networks/data-2",
        "{op:#}"
    );
}

#[test]
fn pods_are_connected_to_another_network_and_back() {
    let (sim, testbed) = testbed(&["--cluster"], "info");
    let manifests = networks();
    sim.act(
        "apply",
        &json!({"cluster": CLUSTER, "manifests": manifests}),
    );
    let file = sim.endpoint("kubeconfig");
    let register = ["vim", "register", "--name", "pods", "--config-file", file];
    let vim = testbed.server.ctl(&register)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let package = testbed.onboard(SAMPLE);
    let create = ["vnf", "create", "--package", &package, "--name", VNF];
    let id = testbed.server.ctl(&create)["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let request = testbed.request(SAMPLE, &vim);
    testbed.wait_for_state(&testbed.instantiate(VNF, &request), "COMPLETED");
    let first = info(&testbed);
    assert_eq!(
        (link(&first), addresses(&first)),
        (("networks/data-1", 2), 2),
        "{first:#}"
    );

    let change = sample_request("change_ext_conn");
    refuses_unknown_connection_points(&testbed, &id);
    connects_both_pods_to_the_other(&testbed, &id, &change);

    // The network of the next change vanishes; its rollback connects the pods as they were.
    let mut other = change.clone();
    other["extVirtualLinks"][0]["resourceId"] = json!("networks/none");
    let op = testbed.begin(VNF, "change_ext_conn", &other);
    testbed.wait_for_state(&op, "ROLLED_BACK");
    assert_eq!(link(&info(&testbed)), ("networks/data-2", 2));

    let mut back = change.clone();
    back["extVirtualLinks"][0]["resourceId"] = json!("networks/data-1");
    let op = testbed.begin(VNF, "change_ext_conn", &back);
    testbed.wait_for_state(&op, "COMPLETED");
    assert_eq!(link(&info(&testbed)), ("networks/data-1", 2));

    testbed.terminate_and_delete(VNF);
    for path in [
        "/api/v1/namespaces/networks".to_owned(),
        format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{PLURAL}.k8s.cni.cncf.io"),
    ] {
        sim.act("delete-object", &json!({"cluster": CLUSTER, "path": path}));
    }
    testbed.server.ctl(&["vim", "delete", "pods"]);
    testbed.finish();
    sim.assert_clean();
}

//! A VNF of containers on a registered cluster: deleted and edited objects are healed; what the cluster refuses is reported
//! with a hint for the operator, and works on retry.

use serde_json::{Value, json};
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{Testbed, VNF_B};

use super::testbed;

const VIM: &str = "containers";
const CLUSTER: &str = "standalone";

/// A world with a registered cluster, and VNF-B's package; returns the request that instantiates VNF-B on it.
pub(super) fn containers() -> (Simulator, Testbed, Value) {
    let (sim, testbed) = testbed(&["--cluster"], "info");
    let file = sim.endpoint("kubeconfig");
    let vim = testbed
        .server
        .ctl(&["vim", "register", "--name", VIM, "--config-file", file]);
    let package = testbed.onboard("vnf-b-cnf");
    testbed
        .server
        .ctl(&["vnf", "create", "--package", &package, "--name", VNF_B]);
    let request = testbed.request("vnf-b-cnf", vim["id"].as_str().unwrap());
    (sim, testbed, request)
}

/// Terminates and deletes VNF-B; nothing is left.
pub(super) fn ends(sim: &Simulator, testbed: &Testbed) {
    testbed.terminate_and_delete(VNF_B);
    testbed.server.ctl(&["vim", "delete", VIM]);
    testbed.finish();
    sim.assert_clean();
}

fn ids(list: &Value) -> Vec<String> {
    let list = list.as_array().unwrap().iter();
    list.map(|one| one["id"].as_str().unwrap().to_owned())
        .collect()
}

#[test]
fn healing_replaces_the_named_pods_and_restores_deleted_objects() {
    let (sim, testbed, request) = containers();
    testbed.wait_for_state(&testbed.instantiate(VNF_B, &request), "COMPLETED");
    let before = testbed.server.ctl(&["vnf", "show", VNF_B])["instantiatedVnfInfo"].clone();
    assert_eq!(before["extCpInfo"][0]["cpdId"], "webService", "{before:#}");
    let namespace = before["metadata"]["namespace"].as_str().unwrap();
    let at = |kind: &str, name: &str| format!("/api/v1/namespaces/{namespace}/{kind}/{name}");
    let page = json!({"cluster": CLUSTER, "path": at("configmaps", "page")});
    sim.act("delete-object", &page);
    let patch = json!({"spec": {"selector": {"app": "another"}}});
    sim.act(
        "edit-object",
        &json!({"cluster": CLUSTER, "path": at("services", "web"), "patch": patch}),
    );

    let pods = ids(&before["vnfcResourceInfo"]);
    let words = [
        "vnf",
        "heal",
        VNF_B,
        "--vnfc",
        &pods[0],
        "--cause",
        "the page is gone",
    ];
    let begin_op = testbed.server.ctl(&words);
    let op = begin_op["vnfLcmOpOccId"].as_str().unwrap();
    testbed.wait_for_state(op, "COMPLETED");
    let op = testbed
        .server
        .get(&format!("/vnflcm/v2/vnf_lcm_op_occs/{op}"));
    let after = testbed.server.ctl(&["vnf", "show", VNF_B])["instantiatedVnfInfo"].clone();
    let now = ids(&after["vnfcResourceInfo"]);
    assert!(
        now.len() == 2 && now.contains(&pods[1]) && !now.contains(&pods[0]),
        "{now:?}"
    );
    let affected: Vec<(&Value, &Value)> = (op["resourceChanges"]["affectedVnfcs"].as_array())
        .unwrap()
        .iter()
        .map(|vnfc| (&vnfc["id"], &vnfc["changeType"]))
        .collect();
    let new = now.iter().find(|id| **id != pods[1]).unwrap();
    let (removed, added) = (json!(pods[0]), json!(new));
    assert_eq!(
        affected,
        [(&removed, &json!("REMOVED")), (&added, &json!("ADDED"))],
        "{op:#}"
    );
    assert_eq!(
        ids(&after["extCpInfo"]),
        ids(&before["extCpInfo"]),
        "the Service stays"
    );
    // It was recreated, so it can be deleted once more.
    sim.act("delete-object", &page);
    ends(&sim, &testbed);
}

#[test]
fn kubernetes_refusals_are_reported_and_succeed_on_retry() {
    for (status, code, word) in [
        (401, "kubernetes.login-refused", "vnfmctl vim update"),
        (403, "kubernetes.forbidden", "Role"),
        (409, "kubernetes.conflict", "field"),
        (422, "kubernetes.rejected", "manifest"),
    ] {
        let (sim, testbed, request) = containers();
        sim.arm(&json!({"call": "kubernetes.apply", "subject": "configmaps", "fault": {"status": status}}));
        let op = testbed.instantiate(VNF_B, &request);
        let end = testbed.wait_for_state(&op, "FAILED_TEMP");
        let error = &end["error"];
        assert_eq!(
            (&error["code"], &error["step"]),
            (&json!(code), &json!("allocate")),
            "{end:#}"
        );
        assert_eq!(error["retryable"], false);
        assert!(
            error["resource"]
                .as_str()
                .unwrap()
                .starts_with("ConfigMap `page`"),
            "{end:#}"
        );
        let output = ["detail", "next"].map(|member| error[member].as_str().unwrap());
        assert!(output.iter().any(|output| output.contains(word)), "{end:#}");
        let retried = testbed.server.run(&["op", "retry", &op, "--watch"]);
        assert_eq!(retried.code, 0, "{retried:?}");
        ends(&sim, &testbed);
    }
}

//! `vnfmctl vnf operate`: a VNF of servers, and one of containers, is stopped and started again.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{Testbed, VNF_A, VNF_B};

use super::heal_containers::{containers, ends};
use super::{package_without_hooks, testbed};

fn info(testbed: &Testbed, vnf: &str) -> Value {
    testbed.server.ctl(&["vnf", "show", vnf])["instantiatedVnfInfo"].clone()
}

/// Runs `vnf operate` with these options; the changed VNFCs by the kind of their change.
fn operate(testbed: &Testbed, vnf: &str, options: &[&str]) -> Vec<(String, usize)> {
    let words: Vec<&str> = ["vnf", "operate", vnf]
        .iter()
        .chain(options)
        .copied()
        .collect();
    let op = testbed.server.ctl(&words)["vnfLcmOpOccId"]
        .as_str()
        .unwrap()
        .to_owned();
    testbed.wait_for_state(&op, "COMPLETED");
    let op = testbed
        .server
        .get(&format!("/vnflcm/v2/vnf_lcm_op_occs/{op}"));
    let all = op["resourceChanges"]["affectedVnfcs"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let mut counts = std::collections::BTreeMap::new();
    for one in &all {
        *counts
            .entry(one["changeType"].as_str().unwrap().to_owned())
            .or_insert(0) += 1;
    }
    counts.into_iter().collect()
}

/// Names of the servers in this status, according to the cloud.
fn servers(sim: &Simulator, status: &str) -> usize {
    let all = sim.page("left-behind");
    let is_in = |one: &&Value| one["kind"] == "server" && one["detail"]["status"] == status;
    all.iter().filter(is_in).count()
}

#[test]
fn servers_are_stopped_and_started_and_keep_what_they_have() {
    let (sim, testbed) = testbed(&[], "info");
    let folder = tempfile::tempdir().unwrap();
    let package = package_without_hooks("vnf-a-k8s-cluster", folder.path());
    let (_, request) = testbed.create_a(&package);
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let before = info(&testbed, VNF_A);
    let modified = |count: usize| vec![("MODIFIED".to_owned(), count)];
    assert_eq!(
        operate(&testbed, VNF_A, &["--stop", "--graceful", "30"]),
        modified(3)
    );
    assert_eq!((servers(&sim, "SHUTOFF"), servers(&sim, "ACTIVE")), (3, 0));
    let stopped = info(&testbed, VNF_A);
    assert_eq!(stopped["vnfState"], "STOPPED");
    assert_eq!(
        stopped["vnfcResourceInfo"][0]["metadata"]["vnfcState"],
        "STOPPED"
    );
    let master = before["vnfcResourceInfo"][0]["metadata"]["name"]
        .as_str()
        .unwrap();
    assert_eq!(
        operate(&testbed, VNF_A, &["--start", "--vnfc", master]),
        modified(1)
    );
    assert_eq!((servers(&sim, "SHUTOFF"), servers(&sim, "ACTIVE")), (2, 1));
    assert_eq!(info(&testbed, VNF_A)["vnfState"], "STARTED");
    assert_eq!(operate(&testbed, VNF_A, &["--start"]), modified(2));
    assert_eq!(info(&testbed, VNF_A), before, "nothing else has changed");
    operate(&testbed, VNF_A, &["--stop"]);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn containers_are_stopped_without_pods_and_started_with_new_ones() {
    let (sim, testbed, request) = containers();
    testbed.wait_for_state(&testbed.instantiate(VNF_B, &request), "COMPLETED");
    let before = info(&testbed, VNF_B);
    let pods = before["vnfcResourceInfo"].as_array().unwrap().len();
    for options in [&["--stop"][..], &["--stop", "--graceful", "60"]] {
        let removed = operate(&testbed, VNF_B, options);
        assert_eq!(removed, [("REMOVED".to_owned(), pods)]);
        let stopped = info(&testbed, VNF_B);
        assert_eq!(stopped["vnfState"], "STOPPED");
        assert_eq!(stopped["vnfcResourceInfo"], Value::Null, "{stopped:#}");
        let back = operate(&testbed, VNF_B, &["--start"]);
        assert_eq!(back, [("ADDED".to_owned(), pods)]);
        let started = info(&testbed, VNF_B);
        assert_eq!(started["vnfState"], "STARTED");
        assert_eq!(started["vnfcResourceInfo"].as_array().unwrap().len(), pods);
    }
    operate(&testbed, VNF_B, &["--stop"]);
    let one = json!({"changeStateTo": "STARTED", "vnfcInstanceId": ["any"]});
    let id = testbed.server.ctl(&["vnf", "show", VNF_B])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let path = format!("/vnflcm/v2/vnf_instances/{id}/operate");
    let (status, refused) = testbed.server.http("POST", &path, &one.to_string());
    assert_eq!(status, 422, "{refused:#}");
    assert!(
        refused["detail"]
            .as_str()
            .unwrap()
            .contains("all VNFCs of a VNF at once")
    );
    ends(&sim, &testbed);
}

/// Names of the pods that the cluster has.
fn pods(sim: &Simulator) -> BTreeSet<String> {
    let all = sim.page("left-behind").into_iter();
    let pods = all.filter(|one| one["kind"] == "object:pods");
    let name = |pod: Value| pod["name"].as_str()?.rsplit('/').next().map(str::to_owned);
    pods.filter_map(name).collect()
}

#[test]
fn after_a_stop_was_rolled_back_the_record_has_the_new_pods() {
    let (sim, testbed, request) = containers();
    testbed.wait_for_state(&testbed.instantiate(VNF_B, &request), "COMPLETED");
    let first = pods(&sim);
    sim.arm(&json!({"call": "kubernetes.list", "subject": "pods/", "fault": {"status": 403}}));
    let accepted = testbed.server.ctl(&["vnf", "operate", VNF_B, "--stop"]);
    let op = accepted["vnfLcmOpOccId"].as_str().unwrap();
    testbed.wait_for_state(op, "FAILED_TEMP");
    testbed.server.ctl(&["op", "rollback", op]);
    testbed.wait_for_state(op, "ROLLED_BACK");
    let recorded: BTreeSet<_> = testbed.recorded_b_pods().into_iter().collect();
    assert_eq!(recorded, pods(&sim));
    assert!(recorded.is_disjoint(&first), "the pods were not stopped");
    ends(&sim, &testbed);
}

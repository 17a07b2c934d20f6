//! `vnfmctl vnf heal` of a VNF without hooks: the selected servers are replaced, all others are unchanged.

use serde_json::{Value, json};
use vnfm_tests::testbed::{Testbed, VNF_A};

use super::{package_without_hooks, testbed};

fn vnfcs(testbed: &Testbed) -> Vec<Value> {
    let instance = testbed.server.ctl(&["vnf", "show", VNF_A]);
    instance["instantiatedVnfInfo"]["vnfcResourceInfo"]
        .as_array()
        .unwrap()
        .clone()
}

fn heal(testbed: &Testbed, vnfcs: &[&str]) -> String {
    let named = vnfcs.iter().flat_map(|id| ["--vnfc", id]);
    let words: Vec<&str> = ["vnf", "heal", VNF_A].into_iter().chain(named).collect();
    testbed.server.ctl(&words)["vnfLcmOpOccId"]
        .as_str()
        .unwrap()
        .to_owned()
}

/// The resources that the operation reports as changed in this way.
fn affected(testbed: &Testbed, op: &str, change: &str) -> Vec<String> {
    let op = testbed
        .server
        .get(&format!("/vnflcm/v2/vnf_lcm_op_occs/{op}"));
    let all = op["resourceChanges"]["affectedVnfcs"].as_array().unwrap();
    let of_kind = all.iter().filter(|one| one["changeType"] == change);
    of_kind
        .map(|one| {
            one["computeResource"]["resourceId"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

#[test]
fn healing_replaces_only_the_deleted_worker() {
    for sample in ["vnf-a-k8s-cluster", "vnf-a-k8s-cluster-base-hot"] {
        let (sim, testbed) = testbed(&[], "info");
        let folder = tempfile::tempdir().unwrap();
        let (_, request) = testbed.create_a(&package_without_hooks(sample, folder.path()));
        testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
        let before = vnfcs(&testbed);
        let lost = before
            .iter()
            .rfind(|one| one["vduId"] == "workerNode")
            .unwrap();
        let lost = lost["id"].as_str().unwrap();
        sim.act("delete-server", &json!({ "server": lost }));
        let op = heal(&testbed, &[lost]);
        testbed.wait_for_state(&op, "COMPLETED");
        let after = vnfcs(&testbed);
        assert_eq!(after.len(), 3);
        let same = before.iter().filter(|one| after.contains(one)).count();
        assert_eq!(
            same, 2,
            "the others are as before, to the last member: {after:#?}"
        );
        assert_eq!(affected(&testbed, &op, "REMOVED"), [lost]);
        let created = affected(&testbed, &op, "ADDED");
        let known: Vec<&str> = before
            .iter()
            .map(|one| one["id"].as_str().unwrap())
            .collect();
        assert!(
            created.len() == 1 && !known.contains(&created[0].as_str()),
            "{created:?}"
        );
        let ports = |all: &[Value]| -> Vec<Value> {
            let cps = all
                .iter()
                .flat_map(|one| one["vnfcCpInfo"].as_array().unwrap());
            let mut ids: Vec<Value> = cps
                .map(|cp| json!([cp["id"], cp["cpProtocolInfo"]]))
                .collect();
            ids.sort_by_key(Value::to_string);
            ids
        };
        assert_eq!(ports(&before), ports(&after), "ports and addresses stay");
        testbed.wait_for_state(&heal(&testbed, &[]), "COMPLETED");
        let renewed = vnfcs(&testbed);
        assert!(
            renewed
                .iter()
                .all(|one| after.iter().all(|old| old["id"] != one["id"]))
        );
        testbed.terminate_and_delete(VNF_A);
        testbed.finish();
        sim.assert_clean();
    }
}

/// `kill -9` while Heat replaces the server: after a restart the operation resumes and replaces no server twice.
#[test]
fn a_crash_during_a_heal_is_resumed() {
    let (sim, mut testbed) = testbed(&["--server-build", "1500"], "info");
    let folder = tempfile::tempdir().unwrap();
    let (_, request) = testbed.create_a(&package_without_hooks("vnf-a-k8s-cluster", folder.path()));
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let before = vnfcs(&testbed);
    let target = before[0]["id"].as_str().unwrap();
    let op = heal(&testbed, &[target]);
    vnfm_tests::programs::until("the update", vnfm_tests::testbed::LONG, || {
        (!sim.calls("heat.stack_update", "").is_empty()).then_some(())
    });
    testbed.server.kill();
    testbed.server.begin();
    testbed.wait_for_state(&op, "COMPLETED");
    assert_eq!(affected(&testbed, &op, "REMOVED"), [target]);
    assert_eq!(
        vnfcs(&testbed)
            .iter()
            .filter(|one| before.contains(one))
            .count(),
        2
    );
    assert_eq!(sim.calls("heat.stack_update", "").len(), 1);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

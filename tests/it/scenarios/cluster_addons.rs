//! `vnfmctl cluster addons` and `vnfmctl cluster upgrade`: the add-ons of the catalogue, and of Kubernetes a version from the
//! hosts' repository.

use serde_json::{Value, json};
use vnfm_tests::cluster_access::ClusterShell;
use vnfm_tests::programs::CliOutput;
use vnfm_tests::testbed::{Testbed, VNF_A};

use super::testbed;

const METRICS: &str = "deployment metrics-server -n kube-system";

/// Runs `vnfmctl cluster …` to the end of its operation.
fn cluster(testbed: &Testbed, args: &[&str]) -> CliOutput {
    let done = testbed
        .server
        .run(&[&["cluster"], args, &["--watch"]].concat());
    assert_eq!(done.code, 0, "{args:?}: {done:?}");
    done
}

fn shown(testbed: &Testbed) -> Value {
    testbed.server.ctl(&["cluster", "show", VNF_A])
}

fn replicas(inside: &ClusterShell) -> Value {
    let found = inside.kubectl(&format!("get {METRICS} -o json")).unwrap();
    let found: Value = serde_json::from_str(&found).unwrap();
    found["spec"]["replicas"].clone()
}

#[test]
fn add_ons_are_applied_again_and_kubernetes_is_upgraded() {
    let (sim, testbed) = testbed(&[], "info");
    let (_, mut request) = testbed.create_a("vnf-a-k8s-cluster");
    let installation = &mut request["additionalParams"]["k8s_cluster_installation_param"];
    installation["addons"] = json!([{ "name": "metrics-server", "values": { "REPLICAS": 2 } }]);
    sim.arm(&json!({"call": "host.repository", "times": 9, "fault": {"exit": 1}}));
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let expected = json!({ "cni": "1", "coredns": "v1", "metrics-server": "0.9.0" });
    assert_eq!(shown(&testbed)["metadata"]["addons"], expected);

    // Somebody has deleted the add-on: the next command brings it back.
    let inside = ClusterShell::connect(&testbed);
    assert_eq!(replicas(&inside), 2);
    inside.kubectl(&format!("delete {METRICS}")).unwrap();
    cluster(&testbed, &["check", VNF_A]);
    let table = testbed
        .server
        .run(&["-o", "table", "cluster", "show", VNF_A]);
    for words in ["not healthy", "Deployment `metrics-server`"] {
        assert!(table.stdout.contains(words), "{words}: {table:?}");
    }
    cluster(&testbed, &["addons", VNF_A]);
    assert_eq!(replicas(&inside), 2);

    inside.kubectl(&format!("delete {METRICS}")).unwrap();
    let words = [
        "upgrade",
        VNF_A,
        "--to",
        "v1.36.3",
        "--parallel",
        "2",
        "--drain-timeout",
        "60",
    ];
    cluster(&testbed, &words);
    let metadata = shown(&testbed)["metadata"].clone();
    assert_eq!(metadata["kubernetesVersion"], "v1.36.3");
    let kubelets = metadata["kubeletVersions"].as_object().unwrap();
    assert_eq!(kubelets.len(), 3);
    assert!(
        kubelets.values().all(|version| version == "v1.36.3"),
        "{metadata:#}"
    );
    assert_eq!(replicas(&inside), 2, "an upgrade applies the add-ons again");
    let operations = testbed.server.get("/vnflcm/v2/vnf_lcm_op_occs?all_fields");
    let parameters = operations.to_string();
    for words in ["\"parallel_upgrades\":2", "\"drain_timeout_seconds\":60"] {
        assert!(parameters.contains(words), "{operations:#}");
    }
    cluster(&testbed, &["check", VNF_A]);
    assert_eq!(shown(&testbed)["metadata"]["addonsNotHealthy"], Value::Null);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn a_version_that_the_catalogue_lacks_and_one_that_skips_are_refused() {
    let (sim, testbed) = testbed(&[], "info");
    let (_, mut request) = testbed.create_a("vnf-a-k8s-cluster");
    let good = request.clone();
    let installation = &mut request["additionalParams"]["k8s_cluster_installation_param"];
    installation["addons"] = json!([{ "name": "metrics-server", "version": "7.0" }]);
    let op = testbed.instantiate(VNF_A, &request);
    let refused = testbed.wait_for_state(&op, "FAILED_TEMP");
    testbed.assert_explains(&op, &refused["error"], &["`metrics-server` 7.0", "`0.9.0`"]);
    testbed.server.run(&["op", "rollback", &op, "--watch"]);
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &good), "COMPLETED");
    let words = ["cluster", "upgrade", VNF_A, "--to", "v1.38.0", "--watch"];
    let skips = testbed.server.run(&words);
    assert_ne!(skips.code, 0, "{skips:?}");
    let operations = testbed.server.get("/vnflcm/v2/vnf_lcm_op_occs?all_fields");
    let mut all = operations.as_array().unwrap().iter();
    let upgrade = all.find(|one| one["operation"] == "OPERATE").unwrap();
    let error = upgrade["error"]["detail"].as_str().unwrap();
    assert!(error.contains("would skip a minor version"), "{error}");
    let id = upgrade["id"].as_str().unwrap();
    testbed.server.run(&["op", "rollback", id, "--watch"]);
    testbed.wait_for_state(id, "ROLLED_BACK");
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

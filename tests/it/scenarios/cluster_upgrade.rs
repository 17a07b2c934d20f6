//! VNF-A changes to a package with other Kubernetes programs while VNF-B runs on it, and actions on its cluster.

use std::path::Path;

use serde_json::{Value, json};
use vnfm_tests::cluster_access::{ClusterShell, vnfcs};
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::sources::copy;
use vnfm_tests::testbed::{CLUSTER, LONG, Testbed, VIM, VNF_A, VNF_B};
use vnfm_tests::upgrades::{change, shown};

use super::cluster_heal::vnf_b_on_vnf_a;

/// Onboards the next release of VNF-A, with archives.
fn onboard_next(testbed: &Testbed, folder: &Path) {
    let package = copy("vnf-a-k8s-cluster-2", folder);
    let archives = package.join("Files/kubernetes/packages");
    std::fs::create_dir_all(&archives).unwrap();
    for name in ["kubeadm", "kubectl", "kubelet"] {
        std::fs::write(archives.join(format!("{name}_1.37.0-1.1_amd64.deb")), name).unwrap();
    }
    testbed.onboard(package.to_str().unwrap());
}

fn begin(testbed: &Testbed) -> String {
    testbed.begin(VNF_A, "change_vnfpkg", &change("vnf-a-k8s-cluster"))
}

fn assert_upgraded(sim: &Simulator, testbed: &Testbed) {
    let instance = shown(testbed, VNF_A);
    assert_eq!(instance["vnfSoftwareVersion"], "2.0");
    let metadata = &instance["metadata"];
    assert_eq!(metadata["kubernetesVersion"], "v1.37.0", "{metadata:#}");
    let kubelets = metadata["kubeletVersions"].as_object().unwrap();
    assert!(
        kubelets.len() == 3 && kubelets.values().all(|version| version == "v1.37.0"),
        "{metadata:#}"
    );
    assert_eq!(sim.hosts_that_ran("kubeadm upgrade apply"), ["masterNode"]);
    let inside = ClusterShell::connect(testbed);
    assert!(inside.nodes().values().all(|ready| *ready));
    inside.assert_b_recorded(testbed, 2);
    sim.assert_no_violations();
}

fn end(sim: &Simulator, testbed: &Testbed) {
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn a_new_package_upgrades_the_cluster_and_the_servers_stay() {
    let folder = tempfile::tempdir().unwrap();
    let (sim, testbed, cluster) = vnf_b_on_vnf_a("vnf-b-cnf");
    onboard_next(&testbed, folder.path());
    let before = vnfcs(&testbed);
    testbed.wait_for_state(&begin(&testbed), "COMPLETED");
    assert_upgraded(&sim, &testbed);
    assert_eq!(vnfcs(&testbed), before);
    assert_eq!(testbed.assert_a_up(3), cluster);
    end(&sim, &testbed);
}

#[test]
fn an_upgrade_that_is_applied_is_not_rolled_back_and_a_retry_completes_it() {
    let folder = tempfile::tempdir().unwrap();
    let (sim, testbed, _) = vnf_b_on_vnf_a("vnf-b-cnf");
    onboard_next(&testbed, folder.path());
    let full = json!({ "exit": 1, "stderr": "no space left on device\n" });
    sim.arm(&json!({ "call": "host.exec", "subject": "workerNode-1: kubeadm upgrade node", "times": 9, "fault": full }));
    let op = begin(&testbed);
    let stopped = testbed.wait_for_state(&op, "FAILED_TEMP");
    testbed.assert_explains(
        &op,
        &stopped["error"],
        &["workernode-1", "no space left on device"],
    );
    sim.disarm();
    let path = format!("/vnflcm/v2/vnf_lcm_op_occs/{op}");
    let links = &testbed.server.get(&path)["_links"];
    assert!(
        links["retry"].is_object() && links["rollback"].is_null(),
        "{links:#}"
    );
    let refused = testbed.server.refused(&["op", "rollback", &op]);
    assert!(
        refused.contains("has begun step `change_current_package_end`"),
        "{refused}"
    );
    testbed.wait_for_state(&op, "FAILED_TEMP");
    let retried = testbed.server.run(&["op", "retry", &op, "--watch"]);
    assert_eq!(retried.code, 0, "{retried:?}");
    assert_upgraded(&sim, &testbed);
    end(&sim, &testbed);
}

#[test]
fn a_crash_during_an_upgrade_is_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let (sim, mut testbed, _) = vnf_b_on_vnf_a("vnf-b-cnf");
    onboard_next(&testbed, folder.path());
    let slow = json!({ "delayMs": 3000 });
    sim.arm(&json!({ "call": "host.exec", "subject": "masterNode: kubeadm upgrade apply", "fault": slow }));
    let op = begin(&testbed);
    until("the upgrade of the control plane", LONG, || {
        (sim.seen() > 0).then_some(())
    });
    testbed.server.kill();
    testbed.server.begin();
    testbed.wait_for_state(&op, "COMPLETED");
    assert_upgraded(&sim, &testbed);
    end(&sim, &testbed);
}

/// Runs an action on the cluster; VNF-A afterwards.
fn act(testbed: &Testbed, params: &Value) -> Value {
    let body = json!({ "changeStateTo": "STARTED", "additionalParams": params });
    let op = testbed.begin(VNF_A, "operate", &body);
    testbed.wait_for_state(&op, "COMPLETED");
    let path = format!("/vnflcm/v2/vnf_lcm_op_occs/{op}");
    let changed = &testbed.server.get(&path)["resourceChanges"];
    assert!(
        !changed.to_string().contains("MODIFIED"),
        "no server changes: {changed:#}"
    );
    shown(testbed, VNF_A)
}

#[test]
fn actions_change_the_cluster_and_no_server() {
    let (sim, testbed, cluster) = vnf_b_on_vnf_a("vnf-b-cnf");
    let before = vnfcs(&testbed);
    let checked = act(&testbed, &json!({ "cluster_action": "check" }));
    assert_eq!(checked["metadata"]["kubernetesVersion"], "v1.36.2");
    let renewed = act(&testbed, &json!({ "cluster_action": "renew_certificates" }));
    let expiry = |instance: &Value| instance["metadata"]["certificateExpiry"].to_string();
    assert_ne!(expiry(&checked), expiry(&renewed));
    act(&testbed, &json!({ "cluster_action": "renew_login" }));
    let logins = act(&testbed, &json!({ "cluster_action": "check" }));
    assert_eq!(logins["metadata"]["kubernetesLogin"], "vnfm-token-2");
    testbed.server.ctl(&["vim", "check", CLUSTER]);
    let passphrase = "planted passphrase";
    let saved = act(
        &testbed,
        &json!({ "cluster_action": "backup", "etcd_passphrase": passphrase }),
    );
    let snapshots = saved["metadata"]["etcdSnapshots"].as_object().unwrap();
    let name = snapshots
        .values()
        .next()
        .unwrap()
        .as_object()
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    act(
        &testbed,
        &json!({ "cluster_action": "restore", "etcd_passphrase": passphrase, "etcd_snapshot": name }),
    );
    let operations = testbed.server.get("/vnflcm/v2/vnf_lcm_op_occs").to_string();
    assert!(
        !operations.contains(passphrase),
        "the passphrase can be read"
    );
    assert_eq!(vnfcs(&testbed), before);
    assert_eq!(testbed.assert_a_up(3), cluster);
    ClusterShell::connect(&testbed).assert_b_recorded(&testbed, 2);
    sim.assert_no_violations();
    end(&sim, &testbed);
}

#[test]
fn a_kubeconfig_works_expires_and_is_in_the_audit_log() {
    let (sim, testbed) = super::testbed(&[], "debug");
    let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let token = &testbed.use_kubeconfig();
    let audit = testbed.server.get("/vnfm/v1/audit");
    let entries = audit.as_array().unwrap().iter();
    let entries: Vec<_> = entries
        .filter(|one| one["what"] == "cluster kubeconfig")
        .collect();
    let [entry] = entries[..] else {
        panic!("{audit:#}")
    };
    assert_eq!(
        (&entry["name"], &entry["reason"]),
        (&json!(CLUSTER), &json!("a look"))
    );
    assert!(!testbed.server.logged().contains(token) && !audit.to_string().contains(token));

    let short = testbed
        .server
        .run(&["cluster", "kubeconfig", VNF_A, "--expires", "9m"]);
    assert!(short.code != 0 && short.stderr.contains("10m"), "{short:?}");
    for (vim, seconds, code) in [
        (CLUSTER, 599, "vim.kubeconfig-lifetime"),
        (VIM, 3600, "vim.not-installed"),
    ] {
        let path = format!("/vnfm/v1/vims/{vim}/kubeconfig");
        let body = json!({ "expirationSeconds": seconds }).to_string();
        let (status, problem) = testbed.server.http("POST", &path, &body);
        assert_eq!(
            (status, &problem["code"]),
            (422, &json!(code)),
            "{problem:#}"
        );
    }
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

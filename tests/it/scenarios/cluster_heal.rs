//! Healing VNF-A while VNF-B runs on it: pods move, the VIM stays, nothing else changes; obstacles are reported.

use serde_json::{Value, json};
use vnfm_tests::cluster_access::{ClusterShell, b_namespace, vnfcs};
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::sources::b_with_budget;
use vnfm_tests::testbed::{LONG, Testbed, VNF_A, VNF_B};

use super::testbed;

const SAMPLE: &str = "vnf-a-k8s-cluster";

/// VNF-A is up with VNF-B on it; the id of the cluster as a VIM.
pub(super) fn vnf_b_on_vnf_a(package_of_b: &str) -> (Simulator, Testbed, String) {
    let (sim, testbed) = testbed(&[], "info");
    let (_, request) = testbed.create_a(SAMPLE);
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = testbed.assert_a_up(3);
    testbed.instantiate_b_from(package_of_b, &cluster);
    (sim, testbed, cluster)
}

/// Only the server of `workerNode-0` was replaced, the cluster is complete and the same, VNF-B runs on
/// it; then both are terminated.
fn assert_one_worker_replaced(sim: &Simulator, testbed: &Testbed, cluster: &str, before: &Before) {
    let now = vnfcs(testbed);
    for (name, old) in &before.vnfcs {
        let new = &now[name];
        let replaced = name == "workerNode-0";
        assert_eq!(
            (old.server != new.server, old.id != new.id),
            (replaced, replaced),
            "{name}"
        );
    }
    assert_eq!(testbed.assert_a_up(3), cluster, "the VIM keeps its id");
    let vim = testbed.server.ctl(&["vim", "show", cluster]);
    assert_eq!(vim["interfaceInfo"], before.vim["interfaceInfo"]);
    assert_eq!(vim["identity"], before.vim["identity"]);
    let inside = ClusterShell::connect(testbed);
    assert!(
        inside.nodes().values().all(|ready| *ready),
        "{:?}",
        inside.nodes()
    );
    assert_eq!(inside.nodes().len(), 3);
    inside.assert_b_recorded(testbed, 2);
    sim.assert_no_violations();
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

struct Before {
    vnfcs: std::collections::BTreeMap<String, vnfm_tests::cluster_access::Vnfc>,
    vim: Value,
}

impl Before {
    fn heal(testbed: &Testbed, cluster: &str) -> Self {
        Self {
            vnfcs: vnfcs(testbed),
            vim: testbed.server.ctl(&["vim", "show", cluster]),
        }
    }

    fn id_of(&self, name: &str) -> &str {
        &self.vnfcs[name].id
    }
}

#[test]
fn healing_a_worker_drains_replaces_and_rejoins_it() {
    let (sim, testbed, cluster) = vnf_b_on_vnf_a("vnf-b-cnf");
    let before = Before::heal(&testbed, &cluster);
    assert_eq!(
        ClusterShell::connect(&testbed).wait_for_b_pods(&testbed, 2),
        ["workernode-0", "workernode-1"]
    );
    let end = testbed.wait_for_state(
        &testbed.heal(&[before.id_of("workerNode-0")], &[]),
        "COMPLETED",
    );
    assert!(end["error"].is_null(), "{end:#}");
    assert_eq!(
        sim.hosts_that_ran("kubeadm reset"),
        ["workerNode-0"],
        "it left before it went"
    );
    assert_one_worker_replaced(&sim, &testbed, &cluster, &before);
}

#[test]
fn a_powered_off_worker_is_healed() {
    let (sim, testbed, cluster) = vnf_b_on_vnf_a("vnf-b-cnf");
    let before = Before::heal(&testbed, &cluster);
    sim.act("power-off", &json!({ "server": "workerNode-0" }));
    testbed.wait_for_state(
        &testbed.heal(&[before.id_of("workerNode-0")], &[]),
        "COMPLETED",
    );
    assert_eq!(sim.hosts_that_ran("kubeadm reset"), [""; 0]);
    assert_one_worker_replaced(&sim, &testbed, &cluster, &before);
}

#[test]
fn a_blocking_disruption_budget_is_named_and_a_retry_succeeds_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let (sim, testbed, cluster) = vnf_b_on_vnf_a(&b_with_budget(folder.path(), 2));
    let before = Before::heal(&testbed, &cluster);
    let op = testbed.heal(
        &[before.id_of("workerNode-0")],
        &["drain_timeout_seconds=1"],
    );
    let end = testbed.wait_for_state(&op, "FAILED_TEMP");
    let why = end["error"]["detail"].as_str().unwrap();
    let namespace = b_namespace(&testbed);
    for part in [
        "drain",
        &namespace,
        "web-stays",
        "needs 2 healthy pods",
        "on_drain_timeout",
    ] {
        assert!(why.contains(part), "no `{part}` in {why}");
    }
    assert_eq!(vnfcs(&testbed), before.vnfcs, "no server was touched");
    assert_eq!(
        ClusterShell::connect(&testbed).wait_for_b_pods(&testbed, 2),
        ["workernode-0", "workernode-1"]
    );
    let plane = before.vim["interfaceInfo"]["endpoint"].as_str().unwrap();
    let path = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web-stays");
    let plane = plane.trim_start_matches("https://");
    sim.act("delete-object", &json!({ "cluster": plane, "path": path }));
    let retried = testbed.server.run(&["op", "retry", &op, "--watch"]);
    assert_eq!(retried.code, 0, "{retried:?}");
    assert_one_worker_replaced(&sim, &testbed, &cluster, &before);
}

#[test]
fn healing_the_control_plane_is_refused_while_a_vnf_runs_on_the_cluster() {
    let (sim, testbed, cluster) = vnf_b_on_vnf_a("vnf-b-cnf");
    let before = Before::heal(&testbed, &cluster);
    let op = testbed.heal(&[before.id_of("masterNode")], &[]);
    let end = testbed.wait_for_state(&op, "FAILED_TEMP");
    let why = end["error"]["detail"].as_str().unwrap();
    for part in ["control-plane", VNF_B, "accept_cluster_loss"] {
        assert!(why.contains(part), "no `{part}` in {why}");
    }
    let rolled = testbed.server.run(&["op", "rollback", &op, "--watch"]);
    assert_eq!(rolled.code, 0, "{rolled:?}");
    testbed.wait_for_state(&op, "ROLLED_BACK");
    assert_eq!(vnfcs(&testbed), before.vnfcs);
    assert_eq!(testbed.assert_a_up(3), cluster);
    ClusterShell::connect(&testbed).wait_for_b_pods(&testbed, 2);
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn healing_the_entire_vnf_creates_a_new_cluster_under_the_same_vim_id() {
    let (sim, testbed) = testbed(&[], "info");
    let (_, request) = testbed.create_a(SAMPLE);
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = testbed.assert_a_up(3);
    let before = Before::heal(&testbed, &cluster);
    testbed.wait_for_state(&testbed.heal(&[], &[]), "COMPLETED");
    assert_eq!(testbed.assert_a_up(3), cluster, "the VIM keeps its id");
    let vim = testbed.server.ctl(&["vim", "show", &cluster]);
    assert_ne!(
        vim["identity"], before.vim["identity"],
        "it is another cluster"
    );
    let now = vnfcs(&testbed);
    assert!(
        before
            .vnfcs
            .iter()
            .all(|(name, old)| now[name].server != old.server)
    );
    testbed.instantiate_b(&cluster);
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn a_crash_while_the_replacement_joins_is_resumed() {
    let (sim, mut testbed, cluster) = vnf_b_on_vnf_a("vnf-b-cnf");
    let before = Before::heal(&testbed, &cluster);
    sim.arm(&json!({"call": "host.exec", "subject": "workerNode-0: kubeadm join", "fault": {"delayMs": 3000}}));
    let op = testbed.heal(&[before.id_of("workerNode-0")], &[]);
    until("the join", LONG, || (sim.seen() > 0).then_some(()));
    testbed.server.kill();
    testbed.server.begin();
    testbed.wait_for_state(&op, "COMPLETED");
    let joins = sim.hosts_that_ran("kubeadm join");
    assert_eq!(
        joins,
        ["workerNode-0", "workerNode-0", "workerNode-1"],
        "once in each life"
    );
    assert_one_worker_replaced(&sim, &testbed, &cluster, &before);
}

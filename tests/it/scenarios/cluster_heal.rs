//! Healing VNF-A while VNF-B lives on it: pods move, the VIM stays, nothing else is touched; and what keeps it from
//! that is said.

use std::path::Path;

use serde_json::{Value, json};
use vnfm_tests::cluster_access::{Inside, namespace_of_b, vnfcs};
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulated;
use vnfm_tests::testbed::{LONG, Stage, VNF_A, VNF_B};

use super::{copy, stage};

const SAMPLE: &str = "vnf-a-k8s-cluster";

/// VNF-A is up with VNF-B on it; the id of the cluster as a VIM.
fn both(package_of_b: &str) -> (Simulated, Stage, String) {
    let (sim, stage) = stage(&[], "info");
    let (_, request) = stage.create_a(SAMPLE);
    stage.ends_as(&stage.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = stage.a_is_up(3);
    stage.b_of(package_of_b, &cluster);
    (sim, stage, cluster)
}

/// Only the server of `workerNode-0` is another one, the cluster is whole and the same, VNF-B runs on it; then both go.
fn one_worker_is_new(sim: &Simulated, stage: &Stage, cluster: &str, before: &Before) {
    let now = vnfcs(stage);
    for (name, old) in &before.vnfcs {
        let new = &now[name];
        let replaced = name == "workerNode-0";
        assert_eq!(
            (old.server != new.server, old.id != new.id),
            (replaced, replaced),
            "{name}"
        );
    }
    assert_eq!(stage.a_is_up(3), cluster, "the VIM keeps its id");
    let vim = stage.server.ctl(&["vim", "show", cluster]);
    assert_eq!(vim["interfaceInfo"], before.vim["interfaceInfo"]);
    assert_eq!(vim["identity"], before.vim["identity"]);
    let inside = Inside::of(stage);
    assert!(
        inside.nodes().values().all(|ready| *ready),
        "{:?}",
        inside.nodes()
    );
    assert_eq!(inside.nodes().len(), 3);
    inside.b_runs(stage, 2);
    sim.is_lawful();
    stage.bring_down(VNF_B);
    stage.bring_down(VNF_A);
    stage.ends();
    sim.is_clean();
}

struct Before {
    vnfcs: std::collections::BTreeMap<String, vnfm_tests::cluster_access::Vnfc>,
    vim: Value,
}

impl Before {
    fn of(stage: &Stage, cluster: &str) -> Self {
        Self {
            vnfcs: vnfcs(stage),
            vim: stage.server.ctl(&["vim", "show", cluster]),
        }
    }

    fn id_of(&self, name: &str) -> &str {
        &self.vnfcs[name].id
    }
}

#[test]
fn healing_a_worker_drains_replaces_and_rejoins_it() {
    let (sim, stage, cluster) = both("vnf-b-cnf");
    let before = Before::of(&stage, &cluster);
    assert_eq!(
        Inside::of(&stage).b_runs(&stage, 2),
        ["workernode-0", "workernode-1"]
    );
    let end = stage.ends_as(
        &stage.heal(&[before.id_of("workerNode-0")], &[]),
        "COMPLETED",
    );
    assert!(end["error"].is_null(), "{end:#}");
    assert_eq!(
        sim.hosts_that_ran("kubeadm reset"),
        ["workerNode-0"],
        "it left before it went"
    );
    one_worker_is_new(&sim, &stage, &cluster, &before);
}

#[test]
fn a_powered_off_worker_is_healed() {
    let (sim, stage, cluster) = both("vnf-b-cnf");
    let before = Before::of(&stage, &cluster);
    sim.act("power-off", &json!({ "server": "workerNode-0" }));
    stage.ends_as(
        &stage.heal(&[before.id_of("workerNode-0")], &[]),
        "COMPLETED",
    );
    assert_eq!(sim.hosts_that_ran("kubeadm reset"), [""; 0]);
    one_worker_is_new(&sim, &stage, &cluster, &before);
}

/// VNF-B with a budget that lets none of its pods go.
fn with_a_budget(folder: &Path) -> String {
    let package = copy("vnf-b-cnf", folder);
    let append = |file: &str, text: &str| {
        let path = package.join(file);
        let old = std::fs::read_to_string(&path).unwrap();
        std::fs::write(path, old + text).unwrap();
    };
    let budget = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: web-stays}\n\
                  spec: {minAvailable: 2, selector: {matchLabels: {app: web}}}\n";
    std::fs::write(package.join("Files/kubernetes/budget.yaml"), budget).unwrap();
    append(
        "Files/kubernetes/order.yaml",
        "  - {path: Files/kubernetes/budget.yaml, order: 1}\n",
    );
    append("vnf-b.mf", "Source: Files/kubernetes/budget.yaml\n");
    package.to_string_lossy().into_owned()
}

#[test]
fn a_blocking_disruption_budget_is_named_and_a_retry_succeeds_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let (sim, stage, cluster) = both(&with_a_budget(folder.path()));
    let before = Before::of(&stage, &cluster);
    let op = stage.heal(
        &[before.id_of("workerNode-0")],
        &["drain_timeout_seconds=1"],
    );
    let end = stage.ends_as(&op, "FAILED_TEMP");
    let why = end["error"]["detail"].as_str().unwrap();
    let namespace = namespace_of_b(&stage);
    for part in [
        "drain",
        &namespace,
        "web-stays",
        "needs 2 healthy pods",
        "on_drain_timeout",
    ] {
        assert!(why.contains(part), "no `{part}` in {why}");
    }
    assert_eq!(vnfcs(&stage), before.vnfcs, "no server was touched");
    assert_eq!(
        Inside::of(&stage).b_runs(&stage, 2),
        ["workernode-0", "workernode-1"]
    );
    let plane = before.vim["interfaceInfo"]["endpoint"].as_str().unwrap();
    let path = format!("/apis/policy/v1/namespaces/{namespace}/poddisruptionbudgets/web-stays");
    let plane = plane.trim_start_matches("https://");
    sim.act("delete-object", &json!({ "cluster": plane, "path": path }));
    let retried = stage.server.run(&["op", "retry", &op, "--watch"]);
    assert_eq!(retried.code, 0, "{retried:?}");
    one_worker_is_new(&sim, &stage, &cluster, &before);
}

#[test]
fn healing_the_control_plane_is_refused_while_a_vnf_runs_on_the_cluster() {
    let (sim, stage, cluster) = both("vnf-b-cnf");
    let before = Before::of(&stage, &cluster);
    let op = stage.heal(&[before.id_of("masterNode")], &[]);
    let end = stage.ends_as(&op, "FAILED_TEMP");
    let why = end["error"]["detail"].as_str().unwrap();
    for part in ["control-plane", VNF_B, "accept_cluster_loss"] {
        assert!(why.contains(part), "no `{part}` in {why}");
    }
    let rolled = stage.server.run(&["op", "rollback", &op, "--watch"]);
    assert_eq!(rolled.code, 0, "{rolled:?}");
    stage.ends_as(&op, "ROLLED_BACK");
    assert_eq!(vnfcs(&stage), before.vnfcs);
    assert_eq!(stage.a_is_up(3), cluster);
    Inside::of(&stage).b_runs(&stage, 2);
    stage.bring_down(VNF_B);
    stage.bring_down(VNF_A);
    stage.ends();
    sim.is_clean();
}

#[test]
fn healing_the_entire_vnf_creates_a_new_cluster_under_the_same_vim_id() {
    let (sim, stage) = stage(&[], "info");
    let (_, request) = stage.create_a(SAMPLE);
    stage.ends_as(&stage.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = stage.a_is_up(3);
    let before = Before::of(&stage, &cluster);
    stage.ends_as(&stage.heal(&[], &[]), "COMPLETED");
    assert_eq!(stage.a_is_up(3), cluster, "the VIM keeps its id");
    let vim = stage.server.ctl(&["vim", "show", &cluster]);
    assert_ne!(
        vim["identity"], before.vim["identity"],
        "it is another cluster"
    );
    let now = vnfcs(&stage);
    assert!(
        before
            .vnfcs
            .iter()
            .all(|(name, old)| now[name].server != old.server)
    );
    stage.b_lives_on(&cluster);
    stage.bring_down(VNF_B);
    stage.bring_down(VNF_A);
    stage.ends();
    sim.is_clean();
}

#[test]
fn a_crash_while_the_replacement_joins_is_resumed() {
    let (sim, mut stage, cluster) = both("vnf-b-cnf");
    let before = Before::of(&stage, &cluster);
    sim.arm(&json!({"call": "host.exec", "subject": "workerNode-0: kubeadm join", "fault": {"delayMs": 3000}}));
    let op = stage.heal(&[before.id_of("workerNode-0")], &[]);
    until("the join", LONG, || (sim.seen() > 0).then_some(()));
    stage.server.kill();
    stage.server.begin();
    stage.ends_as(&op, "COMPLETED");
    let joins = sim.hosts_that_ran("kubeadm join");
    assert_eq!(
        joins,
        ["workerNode-0", "workerNode-0", "workerNode-1"],
        "once in each life"
    );
    one_worker_is_new(&sim, &stage, &cluster, &before);
}

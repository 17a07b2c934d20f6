//! VNF-A with three control-plane nodes, on real hosts with HAProxy and keepalived: one of them loses power while VNF-B runs,
//! the API server is served again by the others, and a heal replaces the node. Workers come and go, and the CA is replaced.
//! When two control-plane nodes have no power, and etcd no quorum, a snapshot is restored and the two are healed.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vnfm_tests::cluster_access::{ClusterShell, vnfcs};
use vnfm_tests::programs::until;
use vnfm_tests::testbed::{CLUSTER, Testbed, VNF_A, VNF_B};

use vnfm_tests::host::Host;
use vnfm_tests::real::Real;

use crate::cluster_actions::action_request;

pub(crate) const SAMPLE: &str = "vnf-a-ha-cluster";
/// An address of the provider network outside its allocation pool.
const ADDRESS: &str = "10.77.0.252";
/// How long the API server may be unavailable after a power cut.
const OUTAGE: Duration = Duration::from_mins(1);
/// Limit for an operation on five hosts; each restart of a static pod takes most of a minute.
const OPERATION: Duration = Duration::from_mins(20);

pub(crate) fn completes(testbed: &Testbed, op: &str) -> Duration {
    let began = Instant::now();
    let end = testbed.server.ended(op, OPERATION);
    assert_eq!(end["operationState"], "COMPLETED", "{end:#}");
    began.elapsed()
}

/// Whether the API server is Ready at the cluster's address.
pub(crate) fn is_served() -> bool {
    let url = format!("https://{ADDRESS}:16443/readyz");
    let words = ["-ksS", "-m", "1", "--noproxy", "*", &url];
    let output = Command::new("curl").args(words).output().unwrap();
    output.stdout == b"ok"
}

/// The host that has the cluster's address.
fn owner(real: &Real, names: &[&'static str]) -> &'static str {
    let has_address = |name: &&&'static str| {
        let shown = Host::new(real, name).inside(&format!("ip -o addr show to {ADDRESS}"));
        !shown.is_empty()
    };
    names.iter().find(has_address).unwrap()
}

/// Powers off the host that has the cluster's address, and waits until another serves; the host's name.
fn cut_power_of_the_owner(real: &Real) -> &'static str {
    let names = ["masternode-0", "masternode-1", "masternode-2"];
    let lost = owner(real, &names);
    let cut = Instant::now();
    Host::new(real, lost).command("power-off");
    until("the API server is served again", OUTAGE, || {
        is_served().then_some(())
    });
    println!(
        "served again {:.1} s after the power cut of `{lost}`",
        cut.elapsed().as_secs_f64()
    );
    lost
}

/// VNF-A with three control-plane nodes and two workers, and VNF-B on it; the id of its VIM.
fn begin(testbed: &Testbed) -> String {
    begin_with(testbed, |_| {})
}

/// As [`begin`], with other parameters of the installation.
pub(crate) fn begin_with(testbed: &Testbed, change: impl FnOnce(&mut Value)) -> String {
    let cluster = begin_a(testbed, change);
    testbed.instantiate_b(&cluster);
    cluster
}

/// VNF-A alone.
pub(crate) fn begin_a(testbed: &Testbed, change: impl FnOnce(&mut Value)) -> String {
    let (_, mut request) = testbed.create_a(SAMPLE);
    let installation = &mut request["additionalParams"]["k8s_cluster_installation_param"];
    installation["control_plane_endpoint"] = json!({ "address": ADDRESS });
    change(installation);
    let took = completes(testbed, &testbed.instantiate(VNF_A, &request));
    let took = took.as_secs_f64();
    println!("three control planes and two workers in {took:.1} s");
    testbed.assert_a_up(5)
}

pub(crate) fn end(real: &Real, testbed: &Testbed) {
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    real.wait_until_clean();
}

#[test]
fn a_power_cut_of_a_control_plane_is_survived_and_healed() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    let cluster = begin(&testbed);
    let before = ClusterShell::connect(&testbed).wait_for_b_pods(&testbed, 2);
    assert_eq!(before, ["workernode-0", "workernode-1"]);

    let lost = cut_power_of_the_owner(&real);
    let old = vnfcs(&testbed);
    let (name, vnfc) = old
        .iter()
        .find(|(name, _)| name.eq_ignore_ascii_case(lost))
        .unwrap();
    let took = completes(&testbed, &testbed.heal(&[&vnfc.id], &[]));
    println!("`{name}` healed in {:.1} s", took.as_secs_f64());
    assert_eq!(
        testbed.assert_a_up(5),
        cluster,
        "the VIM keeps its id, and works"
    );
    let now = vnfcs(&testbed);
    for (other, vnfc) in &old {
        assert_eq!(now[other].server != vnfc.server, other == name, "{other}");
    }
    let inside = ClusterShell::connect(&testbed);
    inside.wait_until_ready(lost, true, Duration::from_secs(10));
    assert_eq!(inside.nodes().len(), 5);
    assert_eq!(members(&inside), 3);
    inside.assert_b_recorded(&testbed, 2);
    assert_eq!(
        inside.wait_for_b_pods(&testbed, 2),
        before,
        "no pod has moved"
    );
    let secrets = inside
        .kubectl("-n kube-system get secrets -o name")
        .unwrap();
    for left in ["kubeadm-certs", "bootstrap-token-"] {
        assert!(!secrets.contains(left), "{secrets}");
    }

    end(&real, &testbed);
}

/// The members of etcd, by their pods.
fn members(inside: &ClusterShell) -> usize {
    let pods = inside.kubectl("-n kube-system get pods -l component=etcd -o name");
    pods.unwrap().lines().count()
}

#[test]
fn a_control_plane_that_works_is_replaced() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    begin(&testbed);
    let old = vnfcs(&testbed);
    let name = "masterNode-0";
    let took = completes(&testbed, &testbed.heal(&[&old[name].id], &[]));
    println!("`{name}` healed in {:.1} s", took.as_secs_f64());
    testbed.assert_a_up(5);
    assert_ne!(vnfcs(&testbed)[name].server, old[name].server);
    let inside = ClusterShell::connect(&testbed);
    assert_eq!(inside.nodes().len(), 5);
    assert_eq!(members(&inside), 3);
    inside.assert_b_recorded(&testbed, 2);
    end(&real, &testbed);
}

/// Writes a text to the cluster.
fn note(inside: &ClusterShell, text: &str) {
    let metadata = json!({ "name": "note", "namespace": "default" });
    inside.apply(
        &json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": { "text": text } }),
    );
}

/// Runs an action on the cluster.
fn act(testbed: &Testbed, action: &str, params: &Value) -> Value {
    let body = action_request(action, params);
    let took = completes(testbed, &testbed.begin(VNF_A, "operate", &body));
    println!("{action}: {:.1} s", took.as_secs_f64());
    testbed.server.ctl(&["vim", "check", CLUSTER]);
    testbed.server.ctl(&["vnf", "show", VNF_A])
}

/// Scales the workers from two to four, and back.
fn scale(testbed: &Testbed) {
    for (way, nodes) in [("--out", 7), ("--in", 5)] {
        let took = completes(testbed, &testbed.scale_workers(way, 2));
        println!("{nodes} nodes: {:.1} s", took.as_secs_f64());
        testbed.assert_a_up(nodes);
        let inside = ClusterShell::connect(testbed);
        assert_eq!(inside.nodes().len(), nodes);
        inside.assert_b_recorded(testbed, 2);
    }
}

#[test]
fn three_control_planes_are_scaled_rotated_and_restored() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    begin(&testbed);
    scale(&testbed);
    act(&testbed, "rotate_ca", &json!({}));
    let inside = ClusterShell::connect(&testbed);
    note(&inside, "before the backup");
    let passphrase = json!({ "etcd_passphrase": "a passphrase for the test" });
    let shown = act(&testbed, "backup", &passphrase);
    let snapshots = shown["metadata"]["etcdSnapshots"].as_object().unwrap();
    assert_eq!(snapshots.len(), 3, "{snapshots:#?}");
    let one = snapshots.values().next().unwrap().as_object().unwrap();
    let mut restore = passphrase.clone();
    restore["etcd_snapshot"] = one.keys().next().unwrap().as_str().into();
    note(&inside, "after the backup");
    let all = vnfcs(&testbed);
    let masters = all.values().filter(|vnfc| vnfc.vdu == "masterNode");
    let dead: Vec<_> = masters.skip(1).collect();
    for name in ["masternode-1", "masternode-2"] {
        Host::new(&real, name).command("power-off");
    }
    act(&testbed, "restore", &restore);
    for lost in dead {
        let took = completes(&testbed, &testbed.heal(&[&lost.id], &[]));
        println!("`{}` healed in {:.1} s", lost.name, took.as_secs_f64());
    }
    let inside = ClusterShell::connect(&testbed);
    for node in inside.nodes().keys() {
        inside.wait_until_ready(node, true, Duration::from_mins(1));
    }
    assert_eq!(inside.nodes().len(), 5);
    let healthy = act(&testbed, "check", &json!({}))["metadata"]["etcdMembers"].clone();
    let members = ["masternode-0", "masternode-1", "masternode-2"];
    let expected: serde_json::Map<_, _> = members
        .map(|name| (name.to_owned(), "healthy".into()))
        .into_iter()
        .collect();
    assert_eq!(healthy, Value::Object(expected));
    let read = inside.kubectl("get configmap note -o jsonpath='{.data.text}'");
    assert_eq!(read.unwrap().trim(), "before the backup");
    inside.assert_b_recorded(&testbed, 2);
    end(&real, &testbed);
}

//! A control plane behind a load balancer of the cloud, by the Base HOT of a package, on real hosts: the cluster has the address
//! that the stack outputs, and Octavia has the control-plane nodes as members through a power cut, a heal and scalings.
//!
//! Octavia runs without a data plane here: an HAProxy forwards in its place, to the members that Octavia's API lists.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vnfm_tests::cluster_access::{ClusterShell, vnfcs};
use vnfm_tests::forwarder::{Balancer, Forwarder};
use vnfm_tests::host::Host;
use vnfm_tests::live::{program, skip};
use vnfm_tests::programs::until;
use vnfm_tests::real::Real;
use vnfm_tests::testbed::{CLUSTER, LONG, Testbed, VNF_A, VNF_B};

use crate::control_planes::completes;

const SAMPLE: &str = "vnf-a-cloud-integration";
/// How long the API server may be unavailable after a power cut.
const OUTAGE: Duration = Duration::from_mins(1);

#[test]
fn a_control_plane_behind_octavia_is_healed_and_scaled() {
    let Some(real) = Real::find() else { return };
    if program("/usr/sbin/haproxy", "haproxy").is_none() {
        return;
    }
    if !real.cloud().has("load-balancer") {
        skip("the cloud has no Octavia; `cargo xtask stack up` starts it");
        return;
    }
    let testbed = real.testbed();
    let (_, request) = testbed.create_a(SAMPLE);
    let op = testbed.instantiate(VNF_A, &without_addons(&request));
    let balancer = until("the load balancer has a member", LONG, || {
        let path = format!("/vnflcm/v2/vnf_lcm_op_occs/{op}");
        let occurrence = testbed.server.get(&path);
        let runs = ["STARTING", "PROCESSING"].map(Value::from);
        assert!(
            runs.contains(&occurrence["operationState"]),
            "{occurrence:#}"
        );
        Balancer::find(&real.cloud())
    });
    let forwarder = Forwarder::follow(real.cloud(), &balancer);
    let took = completes(&testbed, &op).as_secs_f64();
    println!("three control planes and two workers in {took:.1} s");
    let cluster = testbed.assert_a_up(5);
    assert_balanced(&real, &testbed, 3);
    testbed.instantiate_b(&cluster);

    heal_after_a_power_cut(&real, &testbed);
    assert_eq!(testbed.assert_a_up(5), cluster, "the VIM keeps its id");
    assert_balanced(&real, &testbed, 3);
    for (way, masters) in [("--out", 5), ("--in", 3)] {
        let scale = ["vnf", "scale", VNF_A, "--aspect", "control_planes", way];
        let begun = testbed.server.ctl(&scale);
        let took = completes(&testbed, begun["vnfLcmOpOccId"].as_str().unwrap());
        println!("{masters} control planes: {:.1} s", took.as_secs_f64());
        testbed.assert_a_up(masters + 2);
        assert_balanced(&real, &testbed, masters);
        let inside = ClusterShell::connect(&testbed);
        assert_eq!(inside.nodes().len(), masters + 2);
        inside.assert_b_recorded(&testbed, 2);
    }

    testbed.terminate_and_delete(VNF_B);
    drop(forwarder);
    testbed.terminate_and_delete(VNF_A);
    for kind in ["loadbalancers", "listeners", "pools", "healthmonitors"] {
        let path = format!("/v2.0/lbaas/{kind}");
        let left = real.cloud().list("load-balancer", &path, kind);
        assert_eq!(left, Vec::<Value>::new(), "{kind}");
    }
    testbed.finish();
    real.wait_until_clean();
}

/// The sample's request; the images of its add-on are not on the hosts.
fn without_addons(request: &Value) -> Value {
    let text = request.to_string().replace("@LB_PROVIDER@", "nfvtest");
    let mut request: Value = serde_json::from_str(&text).unwrap();
    request["additionalParams"]["k8s_cluster_installation_param"]["addons"] = json!([]);
    request
}

/// Octavia has a load balancer for the cluster, with exactly the control-plane nodes as members, and the VIM has its address.
fn assert_balanced(real: &Real, testbed: &Testbed, masters: usize) {
    let balancer = Balancer::find(&real.cloud()).unwrap();
    let (listener, pool, monitor) = (&balancer.listener, &balancer.pool, &balancer.monitor);
    let shown = [
        [&listener["protocol"], &listener["protocol_port"]],
        [&pool["protocol"], &pool["lb_algorithm"]],
        [&monitor["type"], &monitor["url_path"]],
    ];
    let expected = json!([["TCP", 6443], ["TCP", "ROUND_ROBIN"], ["HTTPS", "/readyz"]]);
    assert_eq!(json!(shown), expected);
    let members = balancer.members.iter().map(|member| {
        assert_eq!(member["provisioning_status"], "ACTIVE", "{member:#}");
        (member["address"].clone(), member["protocol_port"].clone())
    });
    let members: BTreeSet<_> = members.map(|member| json!(member).to_string()).collect();
    let nodes = vnfcs(testbed).into_values();
    let nodes = nodes.filter(|vnfc| vnfc.vdu == "masterNode");
    let nodes: BTreeSet<_> = nodes
        .map(|vnfc| json!([vnfc.address, 6443]).to_string())
        .collect();
    assert_eq!(nodes.len(), masters);
    assert_eq!(members, nodes);
    assert_eq!(balancer.members.len(), masters, "none twice");
    let vim = testbed.server.ctl(&["vim", "show", CLUSTER]);
    let endpoint = format!("https://{}:6443", balancer.address());
    assert_eq!(vim["interfaceInfo"]["endpoint"], endpoint, "{vim:#}");
}

/// Powers a control-plane node off, waits until the others serve at the load balancer's address, and heals it.
fn heal_after_a_power_cut(real: &Real, testbed: &Testbed) {
    let old = vnfcs(testbed);
    let lost = old.values().find(|vnfc| vnfc.vdu == "masterNode").unwrap();
    let address = Balancer::find(&real.cloud()).unwrap();
    let url = format!("https://{}:6443/readyz", address.address());
    Host::new(real, &lost.name).command("power-off");
    let cut = Instant::now();
    let mut served = 0;
    until("the API server is served again", OUTAGE, || {
        let words = ["-ksS", "-m", "1", "--noproxy", "*", &url];
        let answer = Command::new("curl").args(words).output().unwrap();
        served = if answer.stdout == b"ok" {
            served + 1
        } else {
            0
        };
        // Each member once and more: the lost one is no longer among those that get requests.
        (served >= 6).then_some(())
    });
    println!(
        "served again {:.1} s after the power cut of `{}`",
        cut.elapsed().as_secs_f64(),
        lost.name
    );
    let took = completes(testbed, &testbed.heal(&[&lost.id], &[]));
    println!("`{}` healed in {:.1} s", lost.name, took.as_secs_f64());
    let now = vnfcs(testbed);
    for (name, vnfc) in &old {
        let is_new = now.values().all(|one| one.server != vnfc.server);
        assert_eq!(is_new, vnfc.id == lost.id, "{name}");
    }
    let inside = ClusterShell::connect(testbed);
    for node in inside.nodes().keys() {
        inside.wait_until_ready(node, true, OUTAGE);
    }
    assert_eq!(inside.nodes().len(), 5);
    inside.assert_b_recorded(testbed, 2);
}

//! VNF-A with three control-plane nodes, on real hosts with HAProxy and keepalived: one of them loses power while VNF-B runs,
//! the API server is served again by the others, and a heal replaces the node.

use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;
use vnfm_tests::cluster_access::{ClusterShell, vnfcs};
use vnfm_tests::programs::until;
use vnfm_tests::testbed::{Testbed, VNF_A, VNF_B};

use vnfm_tests::host::Host;
use vnfm_tests::real::Real;

const SAMPLE: &str = "vnf-a-ha-cluster";
/// An address of the provider network outside its allocation pool.
const ADDRESS: &str = "10.77.0.252";
/// How long the API server may be unavailable after a power cut.
const OUTAGE: Duration = Duration::from_mins(1);
/// Limit for an operation on five hosts.
const OPERATION: Duration = Duration::from_mins(8);

fn completes(testbed: &Testbed, op: &str) -> Duration {
    let began = Instant::now();
    let end = testbed.server.ended(op, OPERATION);
    assert_eq!(end["operationState"], "COMPLETED", "{end:#}");
    began.elapsed()
}

/// Whether the API server is Ready at the cluster's address.
fn is_served() -> bool {
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
    Host::new(real, lost).command("power-off");
    let cut = Instant::now();
    until("the API server is served again", OUTAGE, || {
        is_served().then_some(())
    });
    println!(
        "served again {:.1} s after the power cut of `{lost}`",
        cut.elapsed().as_secs_f64()
    );
    lost
}

#[test]
fn a_power_cut_of_a_control_plane_is_survived_and_healed() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    let (_, mut request) = testbed.create_a(SAMPLE);
    let installation = &mut request["additionalParams"]["k8s_cluster_installation_param"];
    installation["control_plane_endpoint"] = json!({ "address": ADDRESS });
    let took = completes(&testbed, &testbed.instantiate(VNF_A, &request));
    println!(
        "three control planes and two workers in {:.1} s",
        took.as_secs_f64()
    );
    let cluster = testbed.assert_a_up(5);
    testbed.instantiate_b(&cluster);
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
    let members = "-n kube-system get pods -l component=etcd -o name";
    let members = inside.kubectl(members).unwrap();
    assert_eq!(members.lines().count(), 3, "{members}");
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

    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    real.wait_until_clean();
}

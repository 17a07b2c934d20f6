//! A real cluster of which something is broken, and the way forward: the certificates of its three control-plane nodes have expired,
//! so that neither the API server nor etcd accepts anybody; a network plugin that lets no pod reach another node.

use serde_json::json;
use std::time::Duration;
use vnfm_tests::cluster_access::ClusterShell;
use vnfm_tests::host::Host;
use vnfm_tests::programs::until;
use vnfm_tests::real::Real;
use vnfm_tests::testbed::{CLUSTER, VNF_A};

use crate::cluster_actions::{HOSTS, LIMIT, Scenario, action_request};
use crate::control_planes::{begin_with, completes, end};

const CONTROL_PLANES: [&str; 3] = ["masternode-0", "masternode-1", "masternode-2"];
/// Gives a control-plane node certificates that are valid for 75 s, as kubeadm makes them, and restarts who presents them.
const SHORT_LIVED: &str = "printf '%s\\n' 'apiVersion: kubeadm.k8s.io/v1beta4' 'kind: ClusterConfiguration' \
    \"kubernetesVersion: $(kubeadm version -o short)\" 'certificateValidityPeriod: 75s' >/run/short.yaml
    kubeadm certs renew all --config /run/short.yaml && pkill -x 'etcd|kube-apiserver'";
/// What the administrator gets from the API server.
const ASK: &str = "kubectl --kubeconfig=/etc/kubernetes/admin.conf get --raw /readyz --request-timeout=5s 2>&1 || true";

#[test]
fn certificates_that_have_expired_are_renewed() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    begin_with(&testbed, |_| {});
    let inside = ClusterShell::connect(&testbed);
    inside.wait_for_b_pods(&testbed, 2);
    let pods = inside.b_pods(&testbed);
    for host in CONTROL_PLANES {
        Host::new(&real, host).inside(SHORT_LIVED);
    }
    let expired = Duration::from_mins(5);
    for name in CONTROL_PLANES {
        let host = Host::new(&real, name);
        until("the certificates have expired", expired, || {
            let answer = host.inside(ASK);
            let is_refused = answer.contains("expired") || answer.contains("Unauthorized");
            is_refused.then(|| println!("{name}: {}", answer.trim()))
        });
    }
    let renew = action_request("renew_certificates", &json!({}));
    let took = completes(&testbed, &testbed.begin(VNF_A, "operate", &renew));
    println!("renewed in {:.1} s", took.as_secs_f64());
    for name in CONTROL_PLANES {
        assert_eq!(Host::new(&real, name).inside(ASK).trim(), "ok", "{name}");
    }
    testbed.server.ctl(&["vim", "check", CLUSTER]);
    let check = action_request("check", &json!({}));
    completes(&testbed, &testbed.begin(VNF_A, "operate", &check));
    let shown = testbed.server.ctl(&["cluster", "show", VNF_A]);
    let members =
        json!({ "masternode-0": "healthy", "masternode-1": "healthy", "masternode-2": "healthy" });
    assert_eq!(shown["metadata"]["etcdMembers"], members, "{shown:#}");
    assert_eq!(inside.b_pods(&testbed), pods, "no pod has restarted");
    end(&real, &testbed);
}

#[test]
fn a_smoke_test_says_that_pods_do_not_reach_other_nodes() {
    let Some(scenario) = Scenario::begin() else {
        return;
    };
    let worker = Host::new(&scenario.real, HOSTS[1]);
    let (cut, repair) = (
        "-I FORWARD -i eth0 -o cni0 -j DROP",
        "-D FORWARD -i eth0 -o cni0 -j DROP",
    );
    worker.inside(&format!("iptables {cut}"));
    let mut request = action_request("apply_addons", &json!({}));
    request["additionalParams"]["k8s_cluster_installation_param"] =
        json!({ "smoke_test": { "image": "localhost/busybox:1" } });
    let op = scenario.testbed.begin(VNF_A, "operate", &request);
    let failed = scenario.testbed.server.ended(&op, LIMIT);
    assert_eq!(failed["operationState"], "FAILED_TEMP", "{failed:#}");
    let error = &failed["error"];
    assert_eq!(error["code"], "smoke-test-failed", "{error:#}");
    let detail = error["detail"].as_str().unwrap();
    println!("{detail}");
    let reasons = ["does not respond", "DNS does not resolve"];
    assert!(
        reasons.iter().any(|reason| detail.contains(reason)),
        "{detail}"
    );
    worker.inside(&format!("iptables {repair}"));
    let retried = scenario
        .testbed
        .server
        .run(&["op", "retry", &op, "--watch"]);
    assert_eq!(retried.code, 0, "{}{}", retried.stdout, retried.stderr);
    let left = scenario.inside.kubectl("get namespaces -o name").unwrap();
    assert!(!left.contains("smoke-test"), "{left}");
    scenario.end();
}

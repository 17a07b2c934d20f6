//! The smoke test of a cluster: what its checks find in the machine's own shell, and what the operator reads.

use crate::lab::Lab;
use crate::root::Root;
use serde_json::json;
use vnfm_sim::faults::{Fault, Rule};

const CHECKS: &str = include_str!("../../src/smoke-test.sh");
/// A pod of busybox, whose `nslookup` prints this.
const DNS: &str = "Server:\t\t10.96.0.10\nAddress:\t10.96.0.10:53\n\nName:\tpeers\nAddress: 10.244.1.2\nName:\tpeers\nAddress: 10.244.2.2\n";

/// Runs the checks with an `nslookup` that prints `dns`, and a `wget` that gets no response from what contains `silent`; the
/// last line that is printed, or nothing if all is good.
fn check(dns: &str, silent: &str, volume: Option<bool>) -> String {
    let root = Root::new("vnfm-smoke-test");
    root.write("dns", dns);
    root.write("volume/.keep", "");
    root.program("nslookup", "cat dns");
    root.program("timeout", "shift; exec \"$@\"");
    root.program(
        "wget",
        &format!("case \"$*\" in *'{silent}'*) exit 1 ;; esac"),
    );
    let folder = match volume {
        None => "",
        Some(true) => "volume",
        Some(false) => "nothing",
    };
    // A folder of this one is the mount point.
    root.write("checks", &CHECKS.replace("\"/$VOLUME", "\"$VOLUME"));
    let line = format!("NAMESPACE=smoke PODS=2 VOLUME={folder} sh checks");
    let output = root.sh(&["-c", &line]);
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.success(), printed.is_empty(), "{printed}");
    printed.trim().to_owned()
}

#[test]
fn what_is_broken_is_named() {
    let one = DNS.split("Name:\tpeers\nAddress: 10.244.2.2").next();
    let none =
        "Server:\t\t10.96.0.10\nAddress:\t10.96.0.10:53\n\n** server can't find peers: NXDOMAIN\n";
    let nowhere = "in no request";
    assert_eq!(check(DNS, nowhere, None), "");
    assert_eq!(check(DNS, nowhere, Some(true)), "");
    let table = [
        (
            check(none, nowhere, None),
            "DNS does not resolve peers.smoke.svc",
        ),
        (check(one.unwrap(), nowhere, None), "DNS names 1 of 2 pods"),
        (
            check(DNS, "http://probe.", None),
            "the Service probe does not respond",
        ),
        (
            check(DNS, "http://10.244.2.2:", None),
            "the pod 10.244.2.2 does not respond",
        ),
        (
            check(DNS, nowhere, Some(false)),
            "the volume cannot be written",
        ),
    ];
    for (printed, expected) in table {
        assert!(printed.contains(expected), "{expected}: {printed}");
    }
}

#[test]
fn pods_with_ipv6_addresses_are_called() {
    let dns = DNS
        .replace("10.244.1.2", "fd00::1")
        .replace("10.244.2.2", "fd00::2");
    assert_eq!(check(&dns, "in no request", None), "");
    let printed = check(&dns, "http://[fd00::2]:8080/", None);
    assert!(
        printed.contains("the pod [fd00::2] does not respond"),
        "{printed}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_whose_nodes_take_no_pods_fails_the_test() {
    let (lab, _) = Lab::with_vnf_b().await;
    let taint = json!([{ "key": "maintenance", "effect": "NoSchedule" }]);
    for node in ["m1", "w1", "w2"] {
        let path = format!("/api/v1/nodes/{node}");
        assert!(
            lab.cluster()
                .merge(&path, &json!({ "spec": { "taints": taint } }))
        );
    }
    let test = json!({ "smoke_test": { "image": "localhost/busybox:1" } });
    let error = lab.apply_addons(&test).await.unwrap_err();
    assert_eq!(error.name(), "smoke-test-failed");
    assert!(error.to_string().contains("no node takes pods"), "{error}");
}

/// The namespace of an earlier attempt may have to be deleted while an API server restarts.
#[tokio::test(flavor = "multi_thread")]
async fn add_ons_and_the_smoke_test_wait_for_an_api_server_that_restarts() {
    let (lab, _) = Lab::with_vnf_b().await;
    for command in ["apply", "delete namespace", "get nodes"] {
        let fault = Fault::Exit {
            exit: 1,
            stderr: "The connection to the server m1:6443 was refused\n".into(),
        };
        let subject = format!("m1: kubectl --kubeconfig=/etc/kubernetes/admin.conf {command}");
        lab.faults.add(Rule::new("host.exec", fault).on(subject));
    }
    let test = json!({ "smoke_test": { "image": "localhost/busybox:1" } });
    lab.apply_addons(&test).await.unwrap();
    assert!(
        lab.faults.rules().iter().all(|rule| rule.1 > 1),
        "each was repeated"
    );
}

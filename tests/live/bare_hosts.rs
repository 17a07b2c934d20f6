//! VNF-A on real hosts without a cloud: an inventory as its VIM, a Kubernetes cluster on leased hosts, a crash, a dead host.

use serde_json::{Value, json};
use vnfm_tests::bare_machines::{Machine, Machines, request};
use vnfm_tests::programs::{Server, until};
use vnfm_tests::sources::root;
use vnfm_tests::testbed::{LONG, Testbed, VNF_A};

const HOSTS: &[Machine] = &[
    ("bare-1", "10.77.0.241"),
    ("bare-2", "10.77.0.242"),
    ("bare-3", "10.77.0.243"),
    ("bare-4", "10.77.0.244"),
];

/// VNFCs of VNF-A with their hosts, by VDU.
fn vnfcs(testbed: &Testbed, vdu: &str) -> Vec<(String, String)> {
    let instance = testbed.server.ctl(&["vnf", "show", VNF_A]);
    let all = instance["instantiatedVnfInfo"]["vnfcResourceInfo"].clone();
    let all = all
        .as_array()
        .unwrap()
        .iter()
        .filter(|vnfc| vnfc["vduId"] == vdu);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    all.map(|vnfc| {
        (
            text(&vnfc["id"]),
            text(&vnfc["computeResource"]["resourceId"]),
        )
    })
    .collect()
}

#[test]
fn a_cluster_on_leased_hosts_survives_a_crash_and_a_dead_host() {
    let Some(machines) = Machines::start(HOSTS) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), "info");
    let vim = machines.register(&server, folder.path());
    let mut testbed = Testbed::on_registered(folder, server);
    let package = testbed.onboard("vnf-a-k8s-cluster");
    let create = ["vnf", "create", "--package", &package, "--name", VNF_A];
    testbed.server.ctl(&create);
    // What a cluster of somebody else has left on two of the four hosts, of which three are leased.
    for name in ["bare-1", "bare-2"] {
        machines.inside(
            name,
            "mkdir -p /etc/kubernetes; echo >/etc/kubernetes/kubelet.conf",
        );
    }
    let op = testbed.instantiate(VNF_A, &request(&vim));
    until("a lease", LONG, || {
        (!machines.leased().is_empty()).then_some(())
    });
    testbed.server.kill();
    testbed.server.begin();
    let refused = testbed.server.ended(&op, LONG);
    assert_eq!(refused["operationState"], "FAILED_TEMP", "{refused:#}");
    assert_eq!(refused["error"]["code"], "other-cluster", "{refused:#}");
    for name in ["bare-1", "bare-2"] {
        machines.inside(name, "rm -r /etc/kubernetes");
    }
    testbed.server.ctl(&["op", "retry", &op]);
    testbed.wait_for_state(&op, "COMPLETED");
    testbed.assert_a_up(3);
    assert_eq!(machines.leased().len(), 3);

    let (worker, dead) = vnfcs(&testbed, "workerNode").swap_remove(0);
    machines.power_off(&dead);
    testbed.wait_for_state(&testbed.heal(&[&worker], &[]), "COMPLETED");
    testbed.assert_a_up(3);
    let hosts = vnfcs(&testbed, "workerNode");
    assert!(hosts.iter().all(|(_, host)| *host != dead), "{hosts:?}");

    testbed.terminate_and_delete(VNF_A);
    assert_eq!(
        machines.leased(),
        [dead.as_str()],
        "the hosts that answer are returned"
    );
    for (name, _) in HOSTS.iter().filter(|(name, _)| *name != dead) {
        assert_wiped(&machines, name);
    }
    machines.power_on(&dead);
    let orphans = testbed.server.ctl(&["orphans"]);
    assert_eq!(orphans[0]["name"], dead.as_str(), "{orphans:#}");
    std::fs::remove_file(machines.disk(&dead, "var/lib/vnfm/lease")).unwrap();
    testbed.finish();
}

/// Nothing of the cluster is left on a host that was returned.
fn assert_wiped(machines: &Machines, name: &str) {
    let left = "ls -d /etc/kubernetes /var/lib/kubelet /var/lib/etcd /var/lib/cni /etc/cni/net.d/* /root/.kube /run/vnfm \
        /etc/sysctl.d/90-vnfm.conf $(ls -d /var/lib/vnfm/* | grep -v /lease) 2>/dev/null; iptables-save | grep KUBE- | head -n 1
        ip -o link show cni0 2>/dev/null; pgrep -l 'kubelet|kube-apiserver|etcd'; true";
    let left = machines.inside(name, left);
    assert_eq!(left.trim(), "", "{name} was not wiped");
}

/// Gives a host a network interface with eight virtual functions: the kernel of the test has no driver for such a device.
const SRIOV: &str = "set -e; mkdir -p /run/net/ens1f0/device; cd /run/net/ens1f0
    echo 8 >device/sriov_totalvfs; echo 52:54:00:12:34:56 >address; mount --bind /run/net /sys/class/net";

#[test]
fn a_host_is_leased_by_the_interfaces_that_it_reports() {
    let Some(machines) = Machines::start(HOSTS) else {
        return;
    };
    machines.inside("bare-3", SRIOV);
    let folder = tempfile::tempdir().unwrap();
    let server = Server::start(folder.path(), "info");
    let vim = machines.register(&server, folder.path());
    let testbed = Testbed::on_registered(folder, server);
    let package = testbed.onboard("vnf-bare-hosts");
    let create = ["vnf", "create", "--package", &package, "--name", VNF_A];
    testbed.server.ctl(&create);
    let file = root().join("vnfd-samples/vnf-bare-hosts/requests/instantiate.json");
    let request = std::fs::read_to_string(file).unwrap();
    let request = request.replace("@VIM_ID@", &vim);
    let request = request.replace("@NETWORK_ID@", "lan");
    let request = serde_json::from_str(&request).unwrap();
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let forwarders = vnfcs(&testbed, "forwarder");
    assert_eq!(forwarders[0].1, "bare-3", "{forwarders:?}");
    let shown = testbed.server.ctl(&["vnf", "show", VNF_A]);
    let all = &shown["instantiatedVnfInfo"]["vnfcResourceInfo"];
    let mut all = all.as_array().unwrap().iter();
    let forwarder = all.find(|vnfc| vnfc["vduId"] == "forwarder").unwrap();
    let nic = json!([{ "name": "ens1f0", "macAddress": "52:54:00:12:34:56", "sriovVfs": 8 }]);
    assert_eq!(forwarder["metadata"]["nics"], nic);

    let words = ["vnf", "scale", VNF_A, "--aspect", "forwarders", "--out"];
    let op = testbed.server.ctl(&words)["vnfLcmOpOccId"].clone();
    let op = op.as_str().unwrap();
    let refused = testbed.server.ended(op, LONG);
    let detail = refused["error"]["detail"].as_str().unwrap();
    println!("{detail}");
    assert!(detail.contains("SR-IOV"), "{refused:#}");
    testbed.server.run(&["op", "rollback", op, "--watch"]);
    testbed.terminate_and_delete(VNF_A);
    assert_eq!(machines.leased(), [""; 0]);
    testbed.finish();
}

//! VNF-A on real hosts without a cloud: an inventory as its VIM, a Kubernetes cluster on leased hosts, a crash, a dead host.

use serde_json::Value;
use vnfm_tests::bare_machines::{Machine, Machines, request};
use vnfm_tests::programs::{Server, until};
use vnfm_tests::testbed::{LONG, Testbed, VIM, VNF_A};

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
    let inventory = machines.inventory(folder.path());
    let server = Server::start(folder.path(), "info");
    let inventory = inventory.to_str().unwrap();
    let vim = server.ctl(&["vim", "register", "--name", VIM, "--config-file", inventory]);
    let mut testbed = Testbed::on_registered(folder, server);
    let package = testbed.onboard("vnf-a-k8s-cluster");
    let create = ["vnf", "create", "--package", &package, "--name", VNF_A];
    testbed.server.ctl(&create);
    let op = testbed.instantiate(VNF_A, &request(vim["id"].as_str().unwrap()));
    until("a lease", LONG, || {
        (!machines.leased().is_empty()).then_some(())
    });
    testbed.server.kill();
    testbed.server.begin();
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
        let node = machines.disk(name, "var/lib/kubelet/config.yaml");
        assert!(!node.exists(), "{name} was not wiped");
    }
    machines.power_on(&dead);
    let orphans = testbed.server.ctl(&["orphans"]);
    assert_eq!(orphans[0]["name"], dead.as_str(), "{orphans:#}");
    std::fs::remove_file(machines.disk(&dead, "var/lib/vnfm/lease")).unwrap();
    testbed.finish();
}

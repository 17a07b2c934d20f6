//! VNF-A with two groups of workers on a real OpenStack and real hosts: flavors, labels and taints of their nodes, a scaling
//! of the second group alone, a heal of one of its nodes, and an upgrade of all. VNF-B serves meanwhile.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use vnfm_tests::cloud::Cloud;
use vnfm_tests::cluster_access::{ClusterShell, vnfcs};
use vnfm_tests::real::Real;
use vnfm_tests::service_client::Client;
use vnfm_tests::sources::b_with_budget;
use vnfm_tests::testbed::{Testbed, VNF_A};

use crate::cluster_actions::{Scenario, next_release, next_release_request, next_version};
use crate::control_planes::completes;

const SAMPLE: &str = "vnf-a-node-groups";
const HOSTS: [&str; 4] = [
    "masterNode",
    "workernode-0",
    "workernode-1",
    "storagenode-0",
];

/// The flavor's name of each server, by the server's id.
fn flavors(cloud: &Cloud) -> BTreeMap<String, String> {
    let known = cloud.list("compute", "/flavors", "flavors");
    let name_of = |id: &Value| {
        let mut known = known.iter();
        let flavor = known.find(|flavor| flavor["id"] == *id);
        flavor.map(|flavor| flavor["name"].as_str().unwrap().to_owned())
    };
    let servers = cloud.list("compute", "/servers/detail", "servers");
    let pairs = servers.iter().map(|server| {
        let id = server["id"].as_str().unwrap().to_owned();
        (id, name_of(&server["flavor"]["id"]).unwrap())
    });
    pairs.collect()
}

/// Checks flavor, labels and taints of each node by the VDU of its server; there are this many storage nodes.
fn assert_groups(testbed: &Testbed, cloud: &Cloud, storage: usize) {
    let all = vnfcs(testbed);
    let flavors = flavors(cloud);
    let inside = ClusterShell::connect(testbed);
    let nodes = inside.kubectl("get nodes -o json").unwrap();
    let nodes: Value = serde_json::from_str(&nodes).unwrap();
    assert_eq!(nodes["items"].as_array().unwrap().len(), 3 + storage);
    let mut seen = BTreeMap::new();
    for node in nodes["items"].as_array().unwrap() {
        let name = node["metadata"]["name"].as_str().unwrap();
        let mut own = all.values();
        let vnfc = own
            .find(|vnfc| vnfc.name.eq_ignore_ascii_case(name))
            .unwrap();
        let (group, flavor) = match vnfc.vdu.as_str() {
            "masterNode" => (json!(null), "m1.tiny"),
            "workerNode" => (json!("general"), "m1.tiny"),
            _ => (json!("storage"), "m1.medium"),
        };
        assert_eq!(flavors[&vnfc.server], flavor, "{name}");
        assert_eq!(
            node["metadata"]["labels"]["example.com/group"], group,
            "{name}"
        );
        let taints = node["spec"]["taints"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let own = taints
            .iter()
            .filter(|taint| taint["key"] == "example.com/group");
        let own: Vec<_> = own
            .map(|taint| (&taint["value"], &taint["effect"]))
            .collect();
        let expected = [(&json!("storage"), &json!("NoSchedule"))];
        let is_storage = vnfc.vdu == "storageNode";
        assert_eq!(own, expected[..usize::from(is_storage)], "{name}");
        *seen.entry(vnfc.vdu.clone()).or_insert(0) += 1;
        println!("{name}: {flavor}, {group}, {taints:?}");
    }
    assert_eq!((seen["workerNode"], seen["storageNode"]), (2, storage));
}

/// Scales the storage nodes by one; the servers of the others stay.
fn scale(testbed: &Testbed, way: &str) {
    let others = |testbed: &Testbed| {
        let all = vnfcs(testbed).into_values();
        let others = all.filter(|vnfc| vnfc.vdu != "storageNode");
        others
            .map(|vnfc| (vnfc.id, vnfc.server))
            .collect::<BTreeMap<_, _>>()
    };
    let before = others(testbed);
    let words = [
        "vnf",
        "scale",
        VNF_A,
        "--aspect",
        "storage_nodes",
        "--steps",
        "1",
        way,
    ];
    let begun = testbed.server.ctl(&words);
    let took = completes(testbed, begun["vnfLcmOpOccId"].as_str().unwrap());
    println!("{way}: {:.1} s", took.as_secs_f64());
    assert_eq!(others(testbed), before);
}

/// A pod that selects the storage nodes and tolerates their taint runs.
fn assert_takes_pods(inside: &ClusterShell) {
    inside.apply(&json!({ "apiVersion": "v1", "kind": "Pod",
        "metadata": { "name": "on-storage", "namespace": "default" },
        "spec": { "nodeSelector": { "example.com/group": "storage" },
            "tolerations": [{ "key": "example.com/group", "value": "storage", "effect": "NoSchedule" }],
            "containers": [{ "name": "one", "image": "localhost/busybox:1", "command": ["sleep", "3600"] }] } }));
    let wait = "wait --for=condition=Ready pod/on-storage --timeout=50s";
    assert!(
        inside.kubectl(wait).is_some(),
        "a pod that tolerates the taint runs"
    );
    assert!(inside.kubectl("delete pod on-storage --now").is_some());
}

/// Replaces the server of the storage node; the servers of the others stay.
fn heal_storage(testbed: &Testbed) {
    let before = vnfcs(testbed);
    let healed = &before["storageNode-0"];
    let took = completes(testbed, &testbed.heal(&[&healed.id], &[]));
    println!("heal: {:.1} s", took.as_secs_f64());
    let now = vnfcs(testbed);
    for (name, old) in &before {
        let is_other = now[name].server != old.server;
        assert_eq!(is_other, name == "storageNode-0", "{name}");
    }
}

/// Upgrades all nodes by a change of the package.
fn upgrade(scenario: &Scenario, next: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let package = next_release(SAMPLE, next, folder.path());
    scenario.testbed.onboard(&package);
    for host in HOSTS {
        scenario.give_images(host, next);
    }
    let request = next_release_request();
    scenario.without_failures("the upgrade", "change_vnfpkg", &request);
    let version = std::fs::read_to_string(next.join("version")).unwrap();
    let kubelets = "get nodes -o jsonpath='{.items[*].status.nodeInfo.kubeletVersion}'";
    let kubelets = scenario.inside.kubectl(kubelets).unwrap();
    assert_eq!(kubelets.trim(), [version.trim(); 4].join(" "));
}

/// VNF-A with both groups.
fn begin(testbed: &Testbed) -> String {
    let (_, request) = testbed.create_a(SAMPLE);
    let took = completes(testbed, &testbed.instantiate(VNF_A, &request));
    println!("two groups in {:.1} s", took.as_secs_f64());
    testbed.assert_a_up(4)
}

#[test]
fn two_groups_of_workers_differ_and_the_second_scales_alone() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    let cloud = real.cloud();
    begin(&testbed);
    assert_groups(&testbed, &cloud, 1);
    let inside = ClusterShell::connect(&testbed);
    assert_takes_pods(&inside);

    scale(&testbed, "--out");
    testbed.assert_a_up(5);
    assert_groups(&testbed, &cloud, 2);
    scale(&testbed, "--in");
    assert_groups(&testbed, &cloud, 1);
    inside.wait_until_ready("storagenode-0", true, Duration::from_secs(10));
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    real.wait_until_clean();
}

#[test]
fn a_node_of_the_second_group_is_healed_and_both_groups_are_upgraded() {
    let (Some(next), Some(real)) = (next_version(), Real::find()) else {
        return;
    };
    let testbed = real.testbed();
    let cloud = real.cloud();
    let cluster = begin(&testbed);
    let folder = tempfile::tempdir().unwrap();
    testbed.instantiate_b_from(&b_with_budget(folder.path(), 1), &cluster);
    let inside = ClusterShell::connect(&testbed);
    let scenario = Scenario {
        hosts: &HOSTS,
        real,
        testbed,
        inside,
    };

    let client = Client::start(&scenario.real, &scenario.testbed, &scenario.inside);
    heal_storage(&scenario.testbed);
    let (served, failed) = client.end();
    println!("{served} requests of VNF-B served");
    assert_eq!(failed, "", "failed requests during the heal");
    assert_groups(&scenario.testbed, &cloud, 1);
    assert_takes_pods(&scenario.inside);
    upgrade(&scenario, &next);
    assert_groups(&scenario.testbed, &cloud, 1);
    assert_takes_pods(&scenario.inside);
    scenario.end();
}

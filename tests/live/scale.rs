//! Scales VNF-A from two workers to four and back while VNF-B is requested without a pause: no request fails. Then a
//! worker loses power while it joins.

use std::time::Instant;

use vnfm_tests::cluster_access::{ClusterShell, vnfcs};
use vnfm_tests::programs::until;
use vnfm_tests::sources::b_with_budget;
use vnfm_tests::testbed::{LONG, Testbed, VNF_A, VNF_B};

use vnfm_tests::host::Host;
use vnfm_tests::real::Real;
use vnfm_tests::service_client::Client;

/// The command line of a join.
const JOIN: &str = "^kubeadm join";

/// VNF-A with this many servers, all Ready nodes, and VNF-B's record is right.
fn assert_size(testbed: &Testbed, inside: &ClusterShell, servers: usize) {
    testbed.assert_a_up(servers);
    let nodes = inside.nodes();
    assert!(nodes.values().all(|ready| *ready), "{nodes:?}");
    let names = vnfcs(testbed).into_keys().map(|name| name.to_lowercase());
    assert_eq!(
        nodes.into_keys().collect::<Vec<_>>(),
        names.collect::<Vec<_>>()
    );
    inside.assert_b_recorded(testbed, 2);
}

fn scale(testbed: &Testbed, level: &str) {
    let began = Instant::now();
    let op = testbed.scale_to_level(level, &[]);
    let end = testbed.wait_for_state(&op, "COMPLETED");
    println!("`{level}` in {:.1} s", began.elapsed().as_secs_f64());
    for step in end["steps"].as_array().unwrap() {
        println!(
            "  {} {} {}",
            step["startedAt"], step["endedAt"], step["name"]
        );
    }
}

#[test]
fn workers_join_and_leave_while_vnf_b_serves() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    let folder = tempfile::tempdir().unwrap();
    let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = testbed.assert_a_up(3);
    testbed.instantiate_b_from(&b_with_budget(folder.path(), 1), &cluster);
    let inside = ClusterShell::connect(&testbed);
    let before = vnfcs(&testbed);
    let client = Client::start(&real, &testbed, &inside);
    scale(&testbed, "large");
    assert_size(&testbed, &inside, 5);
    let (served, failed) = client.end();
    println!("{served} requests during the scale-out");
    assert_eq!(failed, "", "failed requests during the scale-out");

    let moved = inside.move_b_pods_from(&["workernode-0", "workernode-1"], &testbed);
    assert_eq!(moved, ["workernode-2", "workernode-3"]);
    let client = Client::start(&real, &testbed, &inside);
    scale(&testbed, "small");
    assert_size(&testbed, &inside, 3);
    let (served, failed) = client.end();
    println!("{served} requests during the scale-in");
    assert_eq!(failed, "", "failed requests during the scale-in");
    assert_eq!(vnfcs(&testbed), before, "the others were not touched");
    assert_eq!(testbed.assert_a_up(3), cluster, "the VIM keeps its id");

    assert_survives_a_power_cut(&real, &testbed);
    assert_size(&testbed, &inside, 5);
    assert_eq!(vnfcs(&testbed).len(), 5);
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    real.wait_until_clean();
}

/// A new worker loses power while it joins: the operation stops, and a retry joins it.
fn assert_survives_a_power_cut(real: &Real, testbed: &Testbed) {
    let op = testbed.scale_to_level("large", &[]);
    let host = Host::new(real, "workernode-2");
    until("the host of the new worker", LONG, || host.pid());
    // A join may take less time than the hypervisor's command.
    host.freeze(JOIN);
    host.command("power-off");
    host.command("power-on");
    let end = testbed.wait_for_state(&op, "FAILED_TEMP");
    testbed.assert_explains(&op, &end["error"], &["workernode-2", "join", "restarted"]);
    let retried = testbed.server.run(&["op", "retry", &op]);
    assert_eq!(retried.code, 0, "{retried:?}");
    testbed.wait_for_state(&op, "COMPLETED");
}

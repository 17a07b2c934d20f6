//! Changes of the VNF package on real systems: of four servers never fewer than two are ACTIVE, and a client of VNF-B's
//! Service sees no failure.

use std::time::Instant;

use serde_json::Value;
use vnfm_tests::cloud::Cloud;
use vnfm_tests::cluster_access::ClusterShell;
use vnfm_tests::programs::until;
use vnfm_tests::testbed::{LONG, Testbed, VNF_A, VNF_B};
use vnfm_tests::upgrades::{ROLLING, begin, instantiate_rolling, shown, vnfcs};

use vnfm_tests::real::Real;
use vnfm_tests::service_client::Client;

fn occurrence(testbed: &Testbed, op: &str) -> Value {
    let path = format!("/vnflcm/v2/vnf_lcm_op_occs/{op}");
    testbed.server.get(&path)
}

/// Number of servers of the instance that Nova shows as ACTIVE.
fn active(cloud: &Cloud) -> usize {
    let all = cloud.list("compute", "/servers/detail", "servers");
    let is_ours = |server: &&Value| server["metadata"]["vnfm_vdu"] == "web";
    let ours = all.iter().filter(is_ours);
    ours.filter(|server| server["status"] == "ACTIVE").count()
}

/// Changes the release; the fewest servers that were seen ACTIVE meanwhile.
fn change(testbed: &Testbed, cloud: &Cloud, sample: &str) -> usize {
    let began = Instant::now();
    let op = begin(testbed, ROLLING, sample);
    let (mut fewest, mut looks) = (usize::MAX, 0_u32);
    until("the end of the change", LONG, || {
        fewest = fewest.min(active(cloud));
        looks += 1;
        let state = occurrence(testbed, &op)["operationState"].clone();
        assert!(
            state == "STARTING" || state == "PROCESSING" || state == "COMPLETED",
            "{state}"
        );
        (state == "COMPLETED").then_some(())
    });
    let seconds = began.elapsed().as_secs_f64();
    println!("{sample}: {seconds:.1} s, {looks} looks, at least {fewest} ACTIVE");
    fewest
}

#[test]
fn of_four_servers_never_fewer_than_two_are_active() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    let cloud = real.cloud();
    let vim = testbed.server.ctl(&["vim", "list"])[0]["id"].clone();
    instantiate_rolling(&testbed, vim.as_str().unwrap());
    let first = vnfcs(&shown(&testbed, ROLLING));
    assert_eq!((first.len(), active(&cloud)), (4, 4));
    assert!(change(&testbed, &cloud, "vnf-rolling-1") >= 2);
    let second = vnfcs(&shown(&testbed, ROLLING));
    for (name, (id, image)) in &first {
        assert_eq!(second[name].0, *id, "servers are rebuilt in place");
        assert_ne!(second[name].1, *image);
    }
    assert!(change(&testbed, &cloud, "vnf-rolling-2") >= 2);
    assert_eq!(vnfcs(&shown(&testbed, ROLLING)), first);
    testbed.terminate_and_delete(ROLLING);
    testbed.finish();
    real.wait_until_clean();
}

#[test]
fn a_client_of_the_service_sees_no_failure_while_vnf_b_changes_its_package() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = testbed.assert_a_up(3);
    testbed.instantiate_b(&cluster);
    testbed.onboard("vnf-b-cnf-2");
    let inside = ClusterShell::connect(&testbed);
    for (sample, version) in [("vnf-b-cnf", "2.0"), ("vnf-b-cnf-2", "1.0")] {
        let client = Client::start(&real, &testbed, &inside);
        let began = Instant::now();
        let op = begin(&testbed, VNF_B, sample);
        testbed.wait_for_state(&op, "COMPLETED");
        let seconds = began.elapsed().as_secs_f64();
        inside.assert_b_recorded(&testbed, 2);
        let (served, failed) = client.end();
        println!("{served} requests during the change to {version}, in {seconds:.1} s");
        assert_eq!(failed, "", "failed requests during the change to {version}");
        assert_eq!(shown(&testbed, VNF_B)["vnfSoftwareVersion"], version);
    }
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    real.wait_until_clean();
}

//! A change of the VNF package on a real OpenStack: of four servers never fewer than two are ACTIVE.

use std::time::Instant;

use serde_json::Value;
use vnfm_tests::cloud::Cloud;
use vnfm_tests::programs::until;
use vnfm_tests::real::Real;
use vnfm_tests::testbed::{LONG, Testbed};
use vnfm_tests::upgrades::{ROLLING, begin, instantiate_rolling, shown, vnfcs};

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

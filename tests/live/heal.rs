//! Heals a worker of VNF-A with VNF-B on it, with real kubelets: pods move, the replacement joins, the VIM stays, and the
//! other machines are not touched. Then the same for the other worker after a power failure.

use std::time::{Duration, Instant};

use vnfm_tests::cluster_access::{ClusterShell, vnfcs};
use vnfm_tests::testbed::{Testbed, VNF_A, VNF_B};

use vnfm_tests::host::Host;
use vnfm_tests::real::Real;

#[test]
fn a_running_and_a_powered_off_worker_are_healed() {
    let Some(real) = Real::find() else { return };
    let testbed = real.testbed();
    let (_, request) = testbed.create_a("vnf-a-k8s-cluster");
    testbed.wait_for_state(&testbed.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = testbed.assert_a_up(3);
    testbed.instantiate_b(&cluster);
    assert_eq!(
        ClusterShell::connect(&testbed).wait_for_b_pods(&testbed, 2),
        ["workernode-0", "workernode-1"]
    );
    assert_heals(&testbed, &cluster, "workerNode-0");
    Host::new(&real, "workernode-1").command("power-off");
    assert_heals(&testbed, &cluster, "workerNode-1");
    testbed.terminate_and_delete(VNF_B);
    testbed.terminate_and_delete(VNF_A);
    testbed.finish();
    real.wait_until_clean();
}

/// One worker is replaced and runs pods; everything else is unchanged.
fn assert_heals(testbed: &Testbed, cluster: &str, worker: &str) {
    let old = vnfcs(testbed);
    let vim = testbed.server.ctl(&["vim", "show", cluster]);
    let inside = ClusterShell::connect(testbed);
    let began = Instant::now();
    let op = testbed.heal(&[&old[worker].id], &[]);
    testbed.wait_for_state(&op, "COMPLETED");
    println!(
        "`{worker}` healed in {:.1} s",
        began.elapsed().as_secs_f64()
    );

    let new = vnfcs(testbed);
    for (name, vnfc) in &old {
        let replaced = name == worker;
        assert_eq!(new[name].server != vnfc.server, replaced, "{name}");
        assert_eq!(new[name].id != vnfc.id, replaced, "{name}");
    }
    assert_eq!(
        testbed.assert_a_up(3),
        cluster,
        "the VIM keeps its id, and works"
    );
    let now = testbed.server.ctl(&["vim", "show", cluster]);
    assert_eq!(
        (&now["interfaceInfo"], &now["identity"]),
        (&vim["interfaceInfo"], &vim["identity"])
    );
    inside.wait_until_ready(&worker.to_lowercase(), true, Duration::from_secs(10));
    assert_eq!(inside.nodes().len(), 3);
    inside.assert_b_recorded(testbed, 2);
}

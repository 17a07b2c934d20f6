//! Healing a worker of VNF-A with VNF-B on it, with real kubelets: pods move, the successor joins, the VIM stays, and
//! the other machines are not touched. Then the same for the other worker, whose power went behind our back.

use std::time::{Duration, Instant};

use vnfm_tests::cluster_access::{Inside, vnfcs};
use vnfm_tests::testbed::{Stage, VNF_A, VNF_B};

use crate::hosts::Host;
use crate::scenario::Real;

#[test]
fn a_running_and_a_powered_off_worker_are_healed() {
    let Some(real) = Real::find() else { return };
    let stage = real.stage();
    let (_, request) = stage.create_a("vnf-a-k8s-cluster");
    stage.ends_as(&stage.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = stage.a_is_up(3);
    stage.b_lives_on(&cluster);
    assert_eq!(
        Inside::of(&stage).b_runs(&stage, 2),
        ["workernode-0", "workernode-1"]
    );
    heals(&stage, &cluster, "workerNode-0");
    Host::new(&real, "workernode-1").order("power-off");
    heals(&stage, &cluster, "workerNode-1");
    stage.bring_down(VNF_B);
    stage.bring_down(VNF_A);
    stage.ends();
    real.is_as_before();
}

/// One worker comes anew and carries pods; everything else is as it was.
fn heals(stage: &Stage, cluster: &str, worker: &str) {
    let old = vnfcs(stage);
    let vim = stage.server.ctl(&["vim", "show", cluster]);
    let inside = Inside::of(stage);
    let began = Instant::now();
    let op = stage.heal(&[&old[worker].id], &[]);
    stage.ends_as(&op, "COMPLETED");
    println!(
        "`{worker}` healed in {:.1} s",
        began.elapsed().as_secs_f64()
    );

    let new = vnfcs(stage);
    for (name, vnfc) in &old {
        let replaced = name == worker;
        assert_eq!(new[name].server != vnfc.server, replaced, "{name}");
        assert_eq!(new[name].id != vnfc.id, replaced, "{name}");
    }
    assert_eq!(stage.a_is_up(3), cluster, "the VIM keeps its id, and works");
    let now = stage.server.ctl(&["vim", "show", cluster]);
    assert_eq!(
        (&now["interfaceInfo"], &now["identity"]),
        (&vim["interfaceInfo"], &vim["identity"])
    );
    inside.until_ready(&worker.to_lowercase(), true, Duration::from_secs(10));
    assert_eq!(inside.nodes().len(), 3);
    inside.b_runs(stage, 2);
}

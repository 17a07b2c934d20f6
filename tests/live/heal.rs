//! Healing a worker of VNF-A with VNF-B on it, with real kubelets: pods move, the successor joins, the VIM stays, and
//! the other machines are not touched. The same for a worker whose power went behind our back.

use std::time::{Duration, Instant};

use vnfm_tests::inside::{Inside, vnfcs};
use vnfm_tests::stage::{VNF_A, VNF_B};

use crate::hosts::Host;
use crate::story::Real;

const WORKER: &str = "workerNode-0";
const NODE: &str = "workernode-0";

/// Heals one worker after `before` happened to its host.
fn heals(before: impl Fn(&Host)) {
    let Some(real) = Real::find() else { return };
    let stage = real.stage();
    let (_, request) = stage.create_a("vnf-a-k8s-cluster");
    stage.ends_as(&stage.instantiate(VNF_A, &request), "COMPLETED");
    let cluster = stage.a_is_up(3);
    stage.b_lives_on(&cluster);
    let old = vnfcs(&stage);
    let vim = stage.server.ctl(&["vim", "show", &cluster]);
    let inside = Inside::of(&stage);
    assert_eq!(inside.b_runs(&stage, 2), [NODE, "workernode-1"]);

    before(&Host::new(&real, NODE));
    let began = Instant::now();
    let op = stage.heal(&[&old[WORKER].id], &[]);
    stage.ends_as(&op, "COMPLETED");
    println!("healed in {:.1} s", began.elapsed().as_secs_f64());

    let new = vnfcs(&stage);
    for (name, vnfc) in &old {
        let replaced = name == WORKER;
        assert_eq!(new[name].server != vnfc.server, replaced, "{name}");
        assert_eq!(new[name].id != vnfc.id, replaced, "{name}");
    }
    assert_eq!(stage.a_is_up(3), cluster, "the VIM keeps its id, and works");
    let now = stage.server.ctl(&["vim", "show", &cluster]);
    assert_eq!(
        (&now["interfaceInfo"], &now["identity"]),
        (&vim["interfaceInfo"], &vim["identity"])
    );
    inside.until_ready(NODE, true, Duration::from_secs(10));
    assert_eq!(inside.nodes().len(), 3);
    inside.b_runs(&stage, 2);
    stage.bring_down(VNF_B);
    stage.bring_down(VNF_A);
    stage.ends();
    real.is_as_before();
}

#[test]
fn a_worker_is_drained_replaced_and_joins_again() {
    heals(|_| {});
}

#[test]
fn a_worker_whose_power_went_behind_our_back_heals_as_well() {
    heals(|host| host.order("power-off"));
}

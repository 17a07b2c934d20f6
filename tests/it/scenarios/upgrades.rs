//! `vnfmctl vnf change_vnfpkg`: servers change to the next release two at a time, and pods without a gap for their Service.

use serde_json::{Value, json};
use std::collections::BTreeSet;
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{LONG, Testbed, VNF_B};
use vnfm_tests::upgrades::{ROLLING, begin, instantiate_rolling, shown, vnfcs};

use super::heal_containers::{containers, ends};
use super::testbed;

/// A world whose servers take a moment to build, with `vnf-rolling-1` instantiated.
fn rolling() -> (Simulator, Testbed) {
    let (sim, testbed) = testbed(&["--server-build", "150"], "info");
    let vim = testbed.server.ctl(&["vim", "list"])[0]["id"].clone();
    instantiate_rolling(&testbed, vim.as_str().unwrap());
    (sim, testbed)
}

/// How many servers were ACTIVE while each one was rebuilt.
fn active_during_rebuilds(sim: &Simulator) -> Vec<u32> {
    let all = sim.calls("nova.server_rebuild", "");
    let active = |call: &Value| {
        let detail = call["detail"].as_str().unwrap();
        detail.split(' ').next().unwrap().parse().unwrap()
    };
    all.iter().map(active).collect()
}

fn occurrence(testbed: &Testbed, op: &str) -> Value {
    let path = format!("/vnflcm/v2/vnf_lcm_op_occs/{op}");
    testbed.server.get(&path)
}

#[test]
fn of_four_servers_never_fewer_than_two_are_active() {
    let (sim, testbed) = rolling();
    let before = shown(&testbed, ROLLING);
    let first = vnfcs(&before);
    let op = begin(&testbed, ROLLING, "vnf-rolling-1");
    testbed.wait_for_state(&op, "COMPLETED");
    let after = shown(&testbed, ROLLING);
    let second = vnfcs(&after);
    assert_eq!(active_during_rebuilds(&sim).len(), 4);
    assert_eq!(active_during_rebuilds(&sim).into_iter().min(), Some(2));
    for (name, (id, image)) in &first {
        assert_eq!(second[name].0, *id, "servers are rebuilt in place");
        assert_ne!(second[name].1, *image);
    }
    let addresses =
        |instance: &Value| instance["instantiatedVnfInfo"]["vnfVirtualLinkResourceInfo"].clone();
    assert_eq!(addresses(&after), addresses(&before), "ports stay");
    assert_eq!(after["vnfSoftwareVersion"], "2.0");
    let done = occurrence(&testbed, &op);
    let affected = done["resourceChanges"]["affectedVnfcs"].as_array().unwrap();
    assert!(affected.len() == 4 && affected.iter().all(|one| one["changeType"] == "MODIFIED"));
    assert_eq!(
        done["modificationsTriggeredByVnfPkgChange"]["vnfdVersion"],
        "2.0"
    );

    let op = begin(&testbed, ROLLING, "vnf-rolling-2");
    testbed.wait_for_state(&op, "COMPLETED");
    assert_eq!(vnfcs(&shown(&testbed, ROLLING)), first, "the way back");
    assert_eq!(active_during_rebuilds(&sim).into_iter().min(), Some(2));
    testbed.terminate_and_delete(ROLLING);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn a_rollback_after_the_first_batch_returns_to_the_old_release() {
    let (sim, testbed) = rolling();
    let first = vnfcs(&shown(&testbed, ROLLING));
    // The second update of the stack is refused.
    sim.arm(&json!({"call": "heat.stack_update", "nth": 2, "fault": {"status": 400}}));
    let op = begin(&testbed, ROLLING, "vnf-rolling-1");
    testbed.wait_for_state(&op, "FAILED_TEMP");
    assert_eq!(active_during_rebuilds(&sim).len(), 2);
    let images: BTreeSet<String> = vnfcs(&shown(&testbed, ROLLING))
        .into_values()
        .map(|(_, image)| image.to_string())
        .collect();
    assert_eq!(
        images.len(),
        1,
        "the record has what was before, until the operation ends"
    );
    sim.disarm();
    testbed.server.ctl(&["op", "rollback", &op]);
    testbed.wait_for_state(&op, "ROLLED_BACK");
    assert_eq!(vnfcs(&shown(&testbed, ROLLING)), first);
    assert_eq!(shown(&testbed, ROLLING)["vnfSoftwareVersion"], "1.0");
    assert_eq!(
        active_during_rebuilds(&sim).len(),
        4,
        "only what had changed is changed back"
    );
    assert_eq!(active_during_rebuilds(&sim).into_iter().min(), Some(2));
    testbed.terminate_and_delete(ROLLING);
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn a_batch_that_fails_twice_is_completed_before_the_next_one() {
    let (sim, testbed) = rolling();
    let first = vnfcs(&shown(&testbed, ROLLING));
    let failing = first.keys().next().unwrap();
    sim.arm(&json!({"call": "heat.resource_create", "subject": format!("/{failing}"), "times": 9, "fault": {"status": 500}}));
    let op = begin(&testbed, ROLLING, "vnf-rolling-1");
    testbed.wait_for_state(&op, "FAILED_TEMP");
    testbed.server.ctl(&["op", "retry", &op]);
    testbed.wait_for_state(&op, "FAILED_TEMP");
    let rebuilt = |server: &Value| server["subject"].as_str().unwrap().to_owned();
    let batch: BTreeSet<String> = sim
        .calls("nova.server_rebuild", "")
        .iter()
        .map(rebuilt)
        .collect();
    assert!(
        batch.len() <= 2,
        "only servers of the first batch: {batch:?}"
    );
    sim.disarm();
    testbed.server.ctl(&["op", "retry", &op]);
    testbed.wait_for_state(&op, "COMPLETED");
    for (name, (_, image)) in vnfcs(&shown(&testbed, ROLLING)) {
        assert_ne!(image, first[&name].1, "{name}");
    }
    assert_eq!(active_during_rebuilds(&sim).into_iter().min(), Some(2));
    testbed.terminate_and_delete(ROLLING);
    testbed.finish();
    sim.assert_clean();
}

/// Number of pods that a client of VNF-B's Service reaches now.
fn serving(sim: &Simulator) -> Option<usize> {
    let all = sim.page("left-behind");
    let service = all.iter().find(|one| one["kind"] == "object:services")?;
    let selector = service["detail"]["selector"].as_object()?.clone();
    let serves = |one: &&Value| {
        let labels = &one["detail"]["labels"];
        let selected = selector.iter().all(|(name, value)| labels[name] == *value);
        one["kind"] == "object:pods" && one["detail"]["serves"] == true && selected
    };
    Some(all.iter().filter(serves).count())
}

#[test]
fn the_service_of_a_cnf_always_has_pods_and_the_old_objects_are_pruned() {
    let (sim, testbed, request) = containers();
    testbed.onboard("vnf-b-cnf-2");
    testbed.wait_for_state(&testbed.instantiate(VNF_B, &request), "COMPLETED");
    let pods = |instance: &Value| {
        instance["instantiatedVnfInfo"]["vnfcResourceInfo"]
            .as_array()
            .unwrap()
            .len()
    };
    let config_maps = || {
        let all = sim.page("left-behind").into_iter();
        let maps = all.filter(|one| one["kind"] == "object:configmaps");
        let name = |one: Value| one["name"].as_str()?.rsplit('/').next().map(str::to_owned);
        maps.filter_map(name)
            .filter(|name| name.starts_with("page"))
            .collect::<Vec<_>>()
    };
    assert_eq!(config_maps(), ["page"]);
    for (sample, page) in [("vnf-b-cnf", "page-2"), ("vnf-b-cnf-2", "page")] {
        let op = begin(&testbed, VNF_B, sample);
        let mut fewest = usize::MAX;
        until("the end of the change", LONG, || {
            fewest = fewest.min(serving(&sim)?);
            let state = occurrence(&testbed, &op)["operationState"].clone();
            (state == "COMPLETED").then_some(())
        });
        assert!(fewest >= 2, "{sample}: {fewest} pods served");
        assert_eq!(config_maps(), [page], "{sample}");
        assert_eq!(pods(&shown(&testbed, VNF_B)), 2);
        let op = occurrence(&testbed, &op);
        let affected = op["resourceChanges"]["affectedVnfcs"].as_array().unwrap();
        assert_eq!(affected.len(), 4, "two pods went, two came: {affected:#?}");
    }
    ends(&sim, &testbed);
}

//! Many operations on one Heat: concurrent calls and operations are limited. Waiting operations report the reason,
//! and all of them end.

use serde_json::{Value, json};
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{LONG, Testbed, VIM};

use super::{package_without_hooks, testbed_with};

const VNFS: usize = 8;
const CALLS: usize = 3;
const OPERATIONS: usize = 4;

/// Maximum number of concurrent calls to the cloud.
fn max_concurrent_calls(sim: &Simulator) -> usize {
    let services = ["keystone", "heat", "nova", "neutron", "glance"];
    let calls = sim.calls("", "");
    let of_cloud = calls
        .iter()
        .filter(|call| services.iter().any(|name| call["neighbour"] == *name));
    let time = |call: &Value, name: &str| {
        call[name]
            .as_str()
            .unwrap()
            .parse::<jiff::Timestamp>()
            .unwrap()
    };
    let mut changes: Vec<_> = of_cloud
        .flat_map(|call| [(time(call, "since"), 1_i32), (time(call, "at"), -1)])
        .collect();
    changes.sort();
    let (most, _) = changes.iter().fold((0, 0), |(most, now), (_, change)| {
        let now = now + change;
        (most.max(now), now)
    });
    usize::try_from(most).unwrap()
}

/// Number of operations in progress.
fn running_operations(testbed: &Testbed) -> usize {
    let all = testbed.server.ctl(&["op", "list"]);
    let all = all.as_array().unwrap().iter();
    all.filter(|op| op["operationState"] == "PROCESSING")
        .count()
}

#[test]
fn vim_call_and_operation_limits_are_kept_and_all_operations_finish() {
    let limits = format!("limits: {{vim_calls: {CALLS}, vim_operations: {OPERATIONS}}}");
    let (sim, testbed) = testbed_with(&limits);
    let folder = tempfile::tempdir().unwrap();
    let package = testbed.onboard(&package_without_hooks("vnf-a-k8s-cluster", folder.path()));
    let vim = testbed.server.ctl(&["vim", "show", VIM])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let request = testbed.request("vnf-a-k8s-cluster", &vim);
    // Each call is slow, so that many would run at the same time.
    let slow = json!({"call": "*", "nth": 1, "times": 10_000, "fault": {"delayMs": 150}});
    sim.arm(&slow);
    let names: Vec<_> = (0..VNFS).map(|number| format!("vnf-{number}")).collect();
    let ops: Vec<_> = names
        .iter()
        .map(|name| {
            testbed
                .server
                .ctl(&["vnf", "create", "--package", &package, "--name", name]);
            testbed.instantiate(name, &request)
        })
        .collect();
    let mut most = 0;
    let reason = until("an operation that waits for its turn", LONG, || {
        most = most.max(running_operations(&testbed));
        ops.iter().find_map(|op| {
            let explained = testbed.server.run(&["op", "explain", op]).stdout;
            explained
                .contains("operation 1 in the queue")
                .then_some(explained)
        })
    });
    assert!(
        reason.contains(&format!("a free slot at VIM `{VIM}`")),
        "{reason}"
    );
    assert!(
        reason.contains(&format!("{OPERATIONS} at a time")),
        "{reason}"
    );
    for op in &ops {
        testbed.wait_for_state(op, "COMPLETED");
        most = most.max(running_operations(&testbed));
    }
    assert!(most <= OPERATIONS, "{most} operations at once");
    let calls = max_concurrent_calls(&sim);
    assert!((2..=CALLS).contains(&calls), "{calls} calls at once");
    sim.disarm();
    for name in &names {
        testbed.terminate_and_delete(name);
    }
    testbed.finish();
    sim.assert_clean();
}

#[test]
fn an_operation_waiting_for_a_vim_slot_can_be_cancelled() {
    let (sim, testbed) = testbed_with("limits: {vim_operations: 1}");
    let folder = tempfile::tempdir().unwrap();
    let package = testbed.onboard(&package_without_hooks("vnf-a-k8s-cluster", folder.path()));
    let vim = testbed.server.ctl(&["vim", "show", VIM])["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let request = testbed.request("vnf-a-k8s-cluster", &vim);
    let begin = |name: &str| {
        testbed
            .server
            .ctl(&["vnf", "create", "--package", &package, "--name", name]);
        testbed.instantiate(name, &request)
    };
    sim.arm(&json!({"call": "heat.stack_create", "fault": {"hang": true}}));
    let first = begin("first");
    until("the first one's stack", LONG, || {
        (!sim.calls("heat.stack_create", "").is_empty()).then_some(())
    });
    let second = begin("second");
    until("the second one in line", LONG, || {
        let explained = testbed.server.run(&["op", "explain", &second]).stdout;
        explained.contains("operation 1 in the queue").then_some(())
    });
    testbed.server.ctl(&["op", "cancel", &second]);
    testbed.wait_for_state(&second, "ROLLED_BACK");
    assert_eq!(
        sim.calls("heat.stack_create", "").len(),
        1,
        "the second one was begun"
    );
    sim.disarm(); // the call that hangs is cut
    testbed.server.ctl(&["op", "cancel", &first, "--forceful"]);
    testbed.server.ended(&first, LONG);
}

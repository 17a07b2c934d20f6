//! Failures of Heat, as operators see them: the operation's state, its error with a next step, and that a retry succeeds
//! once the cause is fixed.

use serde_json::{Value, json};
use tempfile::TempDir;
use vnfm_tests::cloud::Cloud;
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::testbed::{LONG, Testbed, VNF_A};

use super::{package_without_hooks, testbed};

/// A VNF-A without hooks, created.
struct Scene {
    sim: Simulator,
    testbed: Testbed,
    id: String,
    request: Value,
    _package: TempDir,
}

fn scene(flags: &[&str]) -> Scene {
    let (sim, testbed) = testbed(flags, "info");
    let package = tempfile::tempdir().unwrap();
    let (id, request) =
        testbed.create_a(&package_without_hooks("vnf-a-k8s-cluster", package.path()));
    Scene {
        sim,
        testbed,
        id,
        request,
        _package: package,
    }
}

/// Expected error: code, whether a retry may help, and parts of the detail.
type ExpectedError<'a> = (&'a str, bool, &'a [&'a str]);

impl Scene {
    fn begin_op(&self) -> String {
        self.testbed.instantiate(VNF_A, &self.request)
    }

    fn stack(&self) -> String {
        format!("vnf-{}", self.id)
    }

    /// Number of stacks that Heat created.
    fn creations(&self) -> usize {
        let created = self.sim.calls("heat.stack_create", "");
        created.iter().filter(|call| call["status"] == 201).count()
    }

    /// The operation stops with this error, in the answer and in `op explain`.
    fn assert_stops(
        &self,
        op: &str,
        state: &str,
        (code, retryable, expected): ExpectedError<'_>,
    ) -> Value {
        let error = self.testbed.wait_for_state(op, state)["error"].clone();
        assert_eq!(
            (&error["code"], &error["retryable"]),
            (&json!(code), &json!(retryable))
        );
        self.testbed.assert_explains(op, &error, expected);
        error
    }

    /// A retry completes; then everything is removed.
    fn assert_retry_succeeds(&self, op: &str) {
        let retried = self.testbed.server.run(&["op", "retry", op, "--watch"]);
        assert_eq!(retried.code, 0, "{retried:?}");
        self.finish();
    }

    fn finish(&self) {
        self.testbed.terminate_and_delete(VNF_A);
        self.testbed.finish();
        self.sim.assert_clean();
    }
}

#[test]
fn a_quota_that_is_used_up() {
    let scene = scene(&[]);
    // The server quota is checked before anything is created.
    scene
        .sim
        .act("set-quota", &json!({ "quota": "instances", "value": 2 }));
    let expected = (
        "openstack.quota",
        false,
        &["3 are needed", "higher quota"][..],
    );
    scene.assert_stops(&scene.begin_op(), "ROLLED_BACK", expected);
    assert_eq!(scene.creations(), 0);
    scene
        .sim
        .act("set-quota", &json!({ "quota": "instances", "value": -1 }));
    // The network quota fails only in Heat.
    scene
        .sim
        .act("set-quota", &json!({ "quota": "network", "value": 0 }));
    let op = scene.begin_op();
    let expected = [
        "CREATE_FAILED",
        "Quota exceeded for resources: ['network']",
        "higher quota",
    ];
    let error = scene.assert_stops(&op, "FAILED_TEMP", ("openstack.quota", false, &expected));
    assert_eq!(error["resource"], "internalVL");
    assert_eq!(error["step"], "allocate");
    scene
        .sim
        .act("set-quota", &json!({ "quota": "network", "value": -1 }));
    scene.assert_retry_succeeds(&op);
}

#[test]
fn no_valid_host() {
    let scene = scene(&[]);
    let fault = json!({"call": "heat.resource_create", "subject": "/masterNode", "nth": 3, "fault": {"status": 500}});
    scene.sim.arm(&fault);
    let op = scene.begin_op();
    let expected = ["No valid host was found", "no room for the server"];
    let error = scene.assert_stops(&op, "FAILED_TEMP", ("heat.stack-failed", false, &expected));
    assert_eq!(error["resource"], "masterNode");
    scene.assert_retry_succeeds(&op);
    let log = std::fs::read_to_string(scene.testbed.server.log_file()).unwrap();
    let lines: Vec<_> = log.lines().filter(|line| line.contains(&op)).collect();
    for (level, state, error) in [
        ("INFO", "PROCESSING", ""),
        ("WARN", "FAILED_TEMP", "No valid host was found"),
        ("INFO", "COMPLETED", ""),
    ] {
        let state = format!("INSTANTIATE is {state}");
        let parts = [level, &state, error];
        let found = lines
            .iter()
            .any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "{state}: {lines:#?}");
    }
}

#[test]
fn a_stack_name_taken_by_a_foreign_stack() {
    let scene = scene(&[]);
    let cloud = Cloud::login(&scene.sim.clouds());
    let foreign = cloud.create_stack(&scene.stack());
    let touched = scene.sim.touched_stacks();
    let op = scene.begin_op();
    let expected = [foreign.as_str(), "without the tag", "find out who owns it"];
    let error = scene.assert_stops(&op, "FAILED_TEMP", ("heat.stack-foreign", false, &expected));
    assert_eq!(error["resource"], foreign);
    assert_eq!(scene.sim.touched_stacks(), touched, "it was not touched");
    cloud.delete_stack(&scene.stack(), &foreign);
    scene.assert_retry_succeeds(&op);
}

#[test]
fn transient_heat_failures_are_retried_automatically() {
    let faults = [
        json!({"call": "heat.stack_create", "times": 2, "fault": {"status": 503}}),
        json!({"call": "heat.stack_create", "fault": {"drop": "after"}}),
        json!({"call": "heat.stack_show", "times": 2, "fault": {"status": 503}}),
    ];
    for fault in faults {
        let scene = scene(&[]);
        scene.sim.arm(&fault);
        scene.testbed.wait_for_state(&scene.begin_op(), "COMPLETED");
        assert!(scene.sim.seen() > 0, "{fault}");
        let stacks = Cloud::login(&scene.sim.clouds()).stack_states(&scene.id);
        assert_eq!(stacks, ["CREATE_COMPLETE"], "adopted, not doubled: {fault}");
        scene.finish();
    }
    let scene = scene(&["--server-build", "1500"]);
    let op = scene.begin_op();
    until("the stack", LONG, || (scene.creations() > 0).then_some(()));
    let logins = scene.sim.calls("keystone.token_create", "").len();
    scene.sim.act("revoke-tokens", &json!({}));
    scene.testbed.wait_for_state(&op, "COMPLETED");
    assert!(
        scene.sim.calls("keystone.token_create", "").len() > logins,
        "the token is renewed"
    );
    assert_eq!(scene.creations(), 1);
    scene.finish();
}

#[test]
fn a_stack_deleted_during_creation() {
    let scene = scene(&["--server-build", "1500"]);
    let op = scene.begin_op();
    // Looking for resources, the driver is past the creation and waits for its end.
    until("the wait", LONG, || {
        (!scene.sim.calls("heat.resource_list", "").is_empty()).then_some(())
    });
    scene
        .sim
        .act("delete-stack", &json!({ "stack": scene.stack() }));
    let expected = ["deleted while it was being created", "then retry"];
    scene.assert_stops(&op, "FAILED_TEMP", ("heat.stack-failed", false, &expected));
    scene.assert_retry_succeeds(&op);
    assert_eq!(scene.creations(), 2);
}

#[test]
fn a_stack_that_cannot_be_deleted() {
    let scene = scene(&[]);
    scene.testbed.wait_for_state(&scene.begin_op(), "COMPLETED");
    let fault = json!({"call": "heat.resource_delete", "subject": "/internalVL_subnet", "times": 99, "fault": {"status": 500}});
    scene.sim.arm(&fault);
    let begin_op = scene.testbed.server.ctl(&["vnf", "terminate", VNF_A]);
    let op = begin_op["vnfLcmOpOccId"].as_str().unwrap();
    let expected = [
        "after 4 attempts",
        "left: `internalVL_subnet` (OS::Neutron::Subnet",
        "by hand",
    ];
    scene.assert_stops(op, "FAILED_TEMP", ("heat.delete-failed", false, &expected));
    scene.sim.disarm();
    let retried = scene.testbed.server.run(&["op", "retry", op, "--watch"]);
    assert_eq!(retried.code, 0, "{retried:?}");
    scene.testbed.server.ctl(&["vnf", "delete", VNF_A]);
    scene.testbed.finish();
    scene.sim.assert_clean();
}

#[test]
fn a_stack_still_in_progress_at_the_deadline() {
    let mut scene = scene(&[]);
    let file = scene.testbed.server.folder().join("server.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(
        &file,
        text.replace("lease_seconds: 2", "lease_seconds: 2, step_seconds: 10"),
    )
    .unwrap();
    scene.testbed.server.kill();
    scene.testbed.server.begin();
    let fault = json!({"call": "heat.resource_create", "subject": "/masterNode", "nth": 3, "fault": {"hang": true}});
    scene.sim.arm(&fault);
    let op = scene.begin_op();
    let expected = ["CREATE_IN_PROGRESS"];
    scene.assert_stops(&op, "FAILED_TEMP", ("op.deadline", true, &expected));
    assert_eq!(scene.creations(), 1);
    let rolled = scene
        .testbed
        .server
        .run(&["op", "rollback", &op, "--watch"]);
    assert_eq!(rolled.code, 0, "{rolled:?}");
    scene.testbed.wait_for_state(&op, "ROLLED_BACK");
    scene.testbed.server.ctl(&["vnf", "delete", VNF_A]);
    scene.testbed.finish();
    scene.sim.assert_clean();
}

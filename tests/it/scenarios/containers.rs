//! Failures of containers and of their removal, as operators see them: the operation's state, its error with object,
//! reason and last output, and that a retry succeeds once the cause is fixed.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;
use vnfm_tests::programs::until;
use vnfm_tests::simulator::Simulator;
use vnfm_tests::sources::copy;
use vnfm_tests::testbed::{LONG, Testbed, VNF_B};

use super::testbed_in;

const VIM: &str = "containers";
const CLUSTER: &str = "standalone";
/// A server with a short step timeout.
const SHORT_TIMEOUTS: &str = "limits: {lease_seconds: 2, step_seconds: 10}";

/// A standalone cluster, a VNF-B from a modified package, and the request to instantiate it.
struct Scene {
    sim: Simulator,
    testbed: Testbed,
    request: Value,
    _package: TempDir,
}

fn scene(change: impl FnOnce(&Path)) -> Scene {
    scene_under(SHORT_TIMEOUTS, change)
}

fn scene_under(limits: &str, change: impl FnOnce(&Path)) -> Scene {
    let (sim, testbed) = testbed_in(&["--cluster"], limits);
    let file = sim.endpoint("kubeconfig");
    let vim = testbed
        .server
        .ctl(&["vim", "register", "--name", VIM, "--config-file", file]);
    let folder = tempfile::tempdir().unwrap();
    let package = copy("vnf-b-cnf", folder.path());
    change(&package.join("Files/kubernetes"));
    let package = testbed.onboard(&package.to_string_lossy());
    testbed
        .server
        .ctl(&["vnf", "create", "--package", &package, "--name", VNF_B]);
    let request = testbed.request("vnf-b-cnf", vim["id"].as_str().unwrap());
    Scene {
        sim,
        testbed,
        request,
        _package: folder,
    }
}

/// Expected error: code, resource, and parts of the detail.
type ExpectedError<'a> = (&'a str, &'a str, &'a [&'a str]);

impl Scene {
    fn apply(&self, manifest: &Value) {
        let with = json!({"cluster": CLUSTER, "manifests": manifest.to_string()});
        self.sim.act("apply", &with);
    }

    fn edit(&self, path: &str, patch: &Value) {
        self.sim.act(
            "edit-object",
            &json!({"cluster": CLUSTER, "path": path, "patch": patch}),
        );
    }

    fn namespace(&self) -> String {
        format!(
            "vnf-{}",
            self.testbed.server.ctl(&["vnf", "show", VNF_B])["id"]
                .as_str()
                .unwrap()
        )
    }

    fn begin_op(&self) -> String {
        self.testbed.instantiate(VNF_B, &self.request)
    }

    /// The operation stops with this error, in the answer and in `op explain`.
    fn assert_stops(&self, op: &str, (code, resource, expected): ExpectedError<'_>) {
        let error = self.testbed.wait_for_state(op, "FAILED_TEMP")["error"].clone();
        assert_eq!(
            (&error["code"], &error["retryable"]),
            (&json!(code), &json!(false)),
            "{error:#}"
        );
        let on = error["resource"].as_str().unwrap();
        assert!(on.starts_with(resource), "not about {resource}: {error:#}");
        self.testbed.assert_explains(op, &error, expected);
    }

    fn assert_retry_succeeds(&self, op: &str) {
        let retried = self.testbed.server.run(&["op", "retry", op, "--watch"]);
        assert_eq!(retried.code, 0, "{retried:?}");
        self.testbed.wait_for_state(op, "COMPLETED");
    }

    fn finish(&self) {
        self.testbed.terminate_and_delete(VNF_B);
        self.finish_testbed();
    }

    fn finish_testbed(&self) {
        self.testbed.server.ctl(&["vim", "delete", VIM]);
        self.testbed.finish();
        self.sim.assert_clean();
    }
}

/// A change of the Deployment's image.
fn image(of: &'static str) -> impl FnOnce(&Path) {
    move |manifests| {
        let file = manifests.join("web.yaml");
        let text = std::fs::read_to_string(&file).unwrap();
        assert!(text.contains("localhost/busybox:1"));
        std::fs::write(file, text.replace("localhost/busybox:1", of)).unwrap();
    }
}

const UNCHANGED: fn(&Path) = |_| {};
const WEB: &str = "Deployment `web` in namespace `vnf-";

#[test]
fn an_image_that_cannot_be_pulled() {
    let scene = scene(image("localhost/no-such:1"));
    let op = scene.begin_op();
    let expected = [
        "pod `web-",
        "container `httpd`: ErrImagePull",
        "localhost/no-such:1",
        "not found",
    ];
    scene.assert_stops(&op, ("kubernetes.not-ready", WEB, &expected));
    scene.sim.act("mend-images", &json!({"cluster": CLUSTER}));
    scene.assert_retry_succeeds(&op);
    scene.finish();
}

#[test]
fn an_overloaded_api_server_is_retried_automatically() {
    // Only a renewed watch can report readiness.
    let scene = scene_under("", image("localhost/no-such:1"));
    let arm = |call: &str, times: u64, status: u64| {
        scene.sim.arm(&json!({"call": call, "subject": "deployments", "times": times, "fault": {"status": status}}));
    };
    arm("kubernetes.apply", 3, 429);
    arm("kubernetes.watch", 1, 410);
    let op = scene.begin_op();
    // Four calls to apply, and a second watch.
    until("a watch after all refusals", LONG, || {
        (scene.sim.seen() >= 6).then_some(())
    });
    scene.sim.act("mend-images", &json!({"cluster": CLUSTER}));
    scene.testbed.wait_for_state(&op, "COMPLETED");
    scene.finish();
}

#[test]
fn a_crash_looping_container() {
    let scene = scene(image("localhost/crash-loop:1"));
    let op = scene.begin_op();
    let expected = [
        "pod `web-",
        "container `httpd`: CrashLoopBackOff",
        "exit code 1",
        "cannot open the page",
        "BackOff: Back-off restarting failed container",
    ];
    scene.assert_stops(&op, ("kubernetes.not-ready", WEB, &expected));
    scene.sim.act("mend-images", &json!({"cluster": CLUSTER}));
    scene.assert_retry_succeeds(&op);
    scene.finish();
}

#[test]
fn a_quota_that_is_used_up() {
    let mut scene = scene(UNCHANGED);
    let meta = json!({"name": "team"});
    scene.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": meta}));
    let quota = |hard: &Value| {
        json!({"apiVersion": "v1", "kind": "ResourceQuota",
            "metadata": {"name": "small", "namespace": "team"}, "spec": {"hard": hard}})
    };
    let path = "/api/v1/namespaces/team/resourcequotas/small";
    scene.request["additionalParams"]["namespace"] = json!("team");
    // An object of the package does not fit.
    scene.apply(&quota(&json!({"count/deployments.apps": "0", "pods": "1"})));
    let op = scene.begin_op();
    let expected = [
        "exceeded quota: small",
        "limited: count/deployments.apps=0",
        "raise the quota",
    ];
    scene.assert_stops(
        &op,
        (
            "kubernetes.quota",
            "Deployment `web` in namespace `team`",
            &expected,
        ),
    );
    scene.edit(
        path,
        &json!({"spec": {"hard": {"count/deployments.apps": "1"}}}),
    );
    // A pod of it does not fit.
    let retried = scene.testbed.server.run(&["op", "retry", &op]);
    assert_eq!(retried.code, 0, "{retried:?}");
    let expected = [
        "FailedCreate",
        "exceeded quota: small",
        "used: pods=1, limited: pods=1",
    ];
    scene.assert_stops(
        &op,
        (
            "kubernetes.not-ready",
            "Deployment `web` in namespace `team`",
            &expected,
        ),
    );
    scene.edit(path, &json!({"spec": {"hard": {"pods": "2"}}}));
    scene.assert_retry_succeeds(&op);
    scene.testbed.terminate_and_delete(VNF_B);
    let namespace = json!({"cluster": CLUSTER, "path": "/api/v1/namespaces/team"});
    scene.sim.act("delete-object", &namespace);
    scene.finish_testbed();
}

#[test]
fn a_webhook_that_denies() {
    let scene = scene(UNCHANGED);
    scene.apply(&json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "policy", "annotations": {"denies": "no owner is named"}},
        "webhooks": [{"name": "policy.example.com", "rules": [{"resources": ["services"]}]}]}));
    let op = scene.begin_op();
    let expected = [
        "policy.example.com",
        "no owner is named",
        "allow the object",
    ];
    scene.assert_stops(
        &op,
        (
            "kubernetes.denied",
            "Service `web` in namespace `vnf-",
            &expected,
        ),
    );
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/policy";
    scene
        .sim
        .act("delete-object", &json!({"cluster": CLUSTER, "path": path}));
    scene.assert_retry_succeeds(&op);
    scene.finish();
}

/// Starts a termination of VNF-B that stops with the expected error; once the blocking object is
/// removed, a retry completes it.
fn assert_blocked_termination(object: &str, expected: ExpectedError<'_>) {
    let scene = scene(UNCHANGED);
    scene.testbed.wait_for_state(&scene.begin_op(), "COMPLETED");
    let namespace = scene.namespace();
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{object}");
    scene.apply(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": object, "namespace": namespace}, "data": {"whose": "a guest's"}}));
    scene.edit(
        &path,
        &json!({"metadata": {"finalizers": ["example.com/hold"]}}),
    );
    let op = scene.testbed.terminate(VNF_B);
    scene.assert_stops(&op, expected);
    scene.edit(&path, &json!({"metadata": {"finalizers": null}}));
    scene.assert_retry_succeeds(&op);
    scene.testbed.server.ctl(&["vnf", "delete", VNF_B]);
    scene.finish_testbed();
}

#[test]
fn an_object_held_by_a_finalizer() {
    let expected = [
        "finalizer `example.com/hold` holds it",
        "restore the controller",
    ];
    assert_blocked_termination(
        "page",
        (
            "kubernetes.finalizer",
            "ConfigMap `page` in namespace `vnf-",
            &expected,
        ),
    );
}

#[test]
fn a_namespace_stuck_in_terminating() {
    let expected = [
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource",
        "configmaps. has 1 resource instances",
    ];
    assert_blocked_termination(
        "guest",
        ("kubernetes.finalizer", "Namespace `vnf-", &expected),
    );
}

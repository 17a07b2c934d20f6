//! Outages of a real API server during an operation, and denials by the cluster's own policies.

use crate::KUBECONFIG;
use crate::support::{CONFIG, RealClock, SERVICE, World, deployment, package};
use kube::api::{ListParams, PostParams};
use serde_json::{Value, json};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;
use vnfm_core::ports::{Clock as _, Convergence, ErrorKind, InfraDriver as _};

/// The duration of an outage.
const AWAY: Duration = Duration::from_secs(20);

/// The API server's process, as the stack started it; dropping this restarts it.
struct Process {
    pid_file: PathBuf,
    pid: String,
    line: Vec<String>,
}

impl Process {
    fn find() -> Self {
        let config = PathBuf::from(std::env::var(KUBECONFIG).expect("the tests have a cluster"));
        let pid_file = config.with_file_name("run").join("apiserver.pid");
        let pid = std::fs::read_to_string(&pid_file).expect("the stack's own plane");
        let pid = pid.trim().to_owned();
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
        let line: Vec<String> = line
            .split(|byte| *byte == 0)
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .filter(|word| !word.is_empty())
            .collect();
        assert!(line[0].ends_with("kube-apiserver"), "{line:?}");
        Self {
            pid_file,
            pid,
            line,
        }
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.pid])
            .status()
            .expect("kill runs");
        assert!(sent.success(), "kill {signal} {}", self.pid);
    }

    fn runs(&self) -> bool {
        std::fs::read(format!("/proc/{}/cmdline", self.pid))
            .is_ok_and(|line| line.starts_with(self.line[0].as_bytes()))
    }

    /// Restarts it as a separate process if it does not run.
    #[expect(clippy::zombie_processes, reason = "it is to outlive this test")]
    fn start(&mut self) {
        if self.runs() {
            return;
        }
        let child = Command::new("setsid")
            .args(&self.line)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts again");
        self.pid = child.id().to_string();
        std::fs::write(&self.pid_file, &self.pid).expect("the stack finds it again");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.runs() {
            self.signal("-CONT");
        } else {
            self.start();
        }
    }
}

#[tokio::test]
async fn an_api_server_that_is_killed_or_halts_for_20_seconds_is_lived_through() {
    let Some(world) = World::start().await else {
        return;
    };
    let mut process = Process::find();
    let what = package(
        &[(1, CONFIG), (2, &deployment(2, "")), (3, SERVICE)],
        "",
        json!({}),
    );
    let prepared = world
        .driver
        .preview(&world.cx(20), &Convergence::create(&what))
        .await
        .unwrap();
    // Killed before the first object is applied.
    process.signal("-KILL");
    let cx = world.cx(120);
    let change = Convergence::create(&what);
    let (created, ()) = tokio::join!(world.driver.converge(&cx, &change, &prepared), async {
        world.seen.wait_for("VIM `cluster` to answer").await;
        RealClock.sleep(AWAY).await;
        process.start();
    });
    let created = created.unwrap();
    assert_eq!(created.inventory.vnfc_resource_info.len(), 2);
    world.terminate(&what, created.handle).await.unwrap();

    // Paused while the driver waits for the pods.
    let nowhere = deployment(1, &format!("      nodeSelector: {}\n", selector(&world)));
    let what = package(&[(1, &nowhere), (2, CONFIG)], "", json!({}));
    let prepared = world
        .driver
        .preview(&world.cx(20), &Convergence::create(&what))
        .await
        .unwrap();
    let cx = world.cx(120);
    let change = Convergence::create(&what);
    let (created, node) = tokio::join!(world.driver.converge(&cx, &change, &prepared), async {
        world.seen.wait_for("Unschedulable").await;
        process.signal("-STOP");
        RealClock.sleep(AWAY).await;
        process.signal("-CONT");
        label_a_node(&world).await
    });
    unlabel(&world, &node).await;
    world
        .terminate(&what, created.unwrap().handle)
        .await
        .unwrap();
    world.assert_nothing_left().await;
}

fn selector(world: &World) -> Value {
    json!({format!("vnfm-test-{}", world.owner.instance_id): "yes"})
}

/// Labels a simulated node so that the node selector matches it.
async fn label_a_node(world: &World) -> String {
    let nodes = world.api("v1", "Node", "nodes", None);
    let all = nodes
        .list(&ListParams::default())
        .await
        .expect("nodes can be listed");
    let name = all.items[0].metadata.name.clone().expect("a name");
    world
        .change(
            &nodes,
            &name,
            json!({"metadata": {"labels": selector(world)}}),
        )
        .await;
    name
}

async fn unlabel(world: &World, node: &str) {
    let nodes = world.api("v1", "Node", "nodes", None);
    let label = format!("vnfm-test-{}", world.owner.instance_id);
    world
        .change(&nodes, node, json!({"metadata": {"labels": {label: null}}}))
        .await;
}

#[tokio::test]
async fn a_retry_waits_for_a_deployment_past_its_progress_deadline() {
    let Some(world) = World::start().await else {
        return;
    };
    let web = deployment(1, &format!("      nodeSelector: {}\n", selector(&world))).replace(
        "  replicas: 1\n",
        "  replicas: 1\n  progressDeadlineSeconds: 2\n",
    );
    let what = package(&[(1, &web)], "", json!({}));
    let failed = world.instantiate(&what, 60).await.unwrap_err();
    assert_eq!(
        (failed.name(), failed.kind()),
        ("kubernetes.workload-failed", ErrorKind::Refused)
    );
    assert!(
        failed.detail().contains("ProgressDeadlineExceeded"),
        "{failed}"
    );
    assert!(failed.detail().contains("Unschedulable"), "{failed}");
    world.seen.waits.lock().unwrap().clear();
    let prepared = json!({"namespace": world.namespace()});
    let cx = world.cx(60);
    let change = Convergence::create(&what);
    let (created, node) = tokio::join!(world.driver.converge(&cx, &change, &prepared), async {
        world.seen.wait_for("Deployment `web`").await;
        label_a_node(&world).await
    });
    unlabel(&world, &node).await;
    world
        .terminate(&what, created.unwrap().handle)
        .await
        .unwrap();
    world.assert_nothing_left().await;
}

#[tokio::test]
async fn a_denying_policy_is_named_and_an_unavailable_webhook_is_tolerated() {
    let Some(world) = World::start().await else {
        return;
    };
    let name = format!("vnfm-test-{}", world.owner.instance_id);
    let ours = json!({"matchLabels": {"vnfm.dev/instance": world.owner.instance_id}});
    let rule = json!({"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": ["configmaps"]});
    let group = "admissionregistration.k8s.io/v1";
    let policies = world.api(
        group,
        "ValidatingAdmissionPolicy",
        "validatingadmissionpolicies",
        None,
    );
    let bindings = world.api(
        group,
        "ValidatingAdmissionPolicyBinding",
        "validatingadmissionpolicybindings",
        None,
    );
    world.make(&policies, json!({"apiVersion": group, "kind": "ValidatingAdmissionPolicy", "metadata": {"name": name},
        "spec": {"failurePolicy": "Fail", "matchConstraints": {"resourceRules": [rule], "objectSelector": ours},
            "validations": [{"expression": "false", "message": "no owner is named"}]}})).await;
    world.make(&bindings, json!({"apiVersion": group, "kind": "ValidatingAdmissionPolicyBinding", "metadata": {"name": name},
        "spec": {"policyName": name, "validationActions": ["Deny"]}})).await;
    admits(&world, false).await;
    let what = package(&[(1, CONFIG)], "", json!({}));
    let denied = world.instantiate(&what, 20).await.unwrap_err();
    assert_eq!(
        (denied.name(), denied.kind()),
        ("kubernetes.denied", ErrorKind::Refused)
    );
    for part in ["ConfigMap `page`", &name, "no owner is named"] {
        assert!(denied.to_string().contains(part), "no {part} in {denied}");
    }
    world.clean(&bindings, &name).await;
    world.clean(&policies, &name).await;
    admits(&world, true).await;

    let webhooks = world.api(
        group,
        "ValidatingWebhookConfiguration",
        "validatingwebhookconfigurations",
        None,
    );
    world.make(&webhooks, json!({"apiVersion": group, "kind": "ValidatingWebhookConfiguration", "metadata": {"name": name},
        "webhooks": [{"name": "policy.example.com", "clientConfig": {"url": "https://127.0.0.1:1/"}, "rules": [rule], "objectSelector": ours,
            "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 2}]})).await;
    admits(&world, false).await;
    let cx = world.cx(60);
    let prepared = json!({"namespace": world.namespace()});
    let change = Convergence::create(&what);
    let (created, ()) = tokio::join!(world.driver.converge(&cx, &change, &prepared), async {
        world
            .seen
            .wait_for("failed calling webhook \"policy.example.com\"")
            .await;
        world.clean(&webhooks, &name).await;
    });
    let handle = created.unwrap().handle;
    world.terminate(&what, handle).await.unwrap();
    world.assert_nothing_left().await;
}

/// Waits until the API server accepts (or denies) a ConfigMap, by dry run.
async fn admits(world: &World, wanted: bool) {
    let maps = world.config_maps("default");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "vnfm-test", "labels": {"vnfm.dev/instance": world.owner.instance_id}}});
    let map = serde_json::from_value(map).expect("it is an object");
    let dry = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let begun = RealClock.now();
    while maps.create(&dry, &map).await.is_ok() != wanted {
        assert!(
            (RealClock.now() - begun).get_seconds() < 30,
            "the policy shows no effect"
        );
        RealClock.sleep(Duration::from_millis(100)).await;
    }
}

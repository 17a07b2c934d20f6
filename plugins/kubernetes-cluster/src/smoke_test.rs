//! The smoke test of a new cluster: one pod on each node that takes pods checks what every VNF needs.
//!
//! | check | how |
//! |---|---|
//! | DNS | the name of a headless Service is resolved |
//! | Service | the address of a Service responds |
//! | pod network across nodes | each pod responds to each other; each knows all of them |
//! | storage | a volume of the `StorageClass` is written, if one is named |
//! | scheduling | a `DaemonSet` has its pod on every node |
//!
//! The checks are the readiness probe of the pods, so that the cluster itself repeats them until all are good. A failure leaves
//! the namespace, for the operator to look at; the next attempt starts with a new one.

use crate::addons::{apply, wait_until_healthy};
use crate::installer::Installer;
use crate::kubectl::KUBECTL;
use crate::machine::Machine;
use crate::params::SmokeTest;
use serde_json::{Value, json};
use vnfm_plugin_sdk::prelude::*;

const PHASE: &str = "smoke-test";
const NAMESPACE: &str = "vnfm-smoke-test";
const NAME: &str = "probe";
const PEERS: &str = "peers";
const VOLUME: &str = "volume";
/// How long its deletion may take: the pods end at once.
const DELETION: &str = "100s";
/// The taints that the `DaemonSet` controller lets its pods tolerate.
const TOLERATED: &[&str] = &[
    "node.kubernetes.io/disk-pressure",
    "node.kubernetes.io/memory-pressure",
    "node.kubernetes.io/not-ready",
    "node.kubernetes.io/pid-pressure",
    "node.kubernetes.io/unreachable",
    "node.kubernetes.io/unschedulable",
];
/// What each pod checks; the last line that it prints is the reason of a failure.
const CHECKS: &str = include_str!("smoke-test.sh");

/// Runs the smoke test if the parameters ask for it.
///
/// # Errors
///
/// `smoke-test-failed`, with what a pod reports.
pub(crate) async fn run(
    installer: &Installer<'_>,
    master: &Machine<'_>,
) -> Result<(), DriverError> {
    let Some(test) = &installer.plan.smoke_test else {
        return Ok(());
    };
    installer
        .report(96, "testing DNS, Services, the pod network and storage")
        .await;
    delete(master).await?;
    let pods = schedulable(master).await?;
    if pods == 0 {
        let detail = "no node takes pods: all have taints, which pods of the test do not tolerate";
        return Err(DriverError::new("smoke-test-failed", detail).phase(PHASE));
    }
    let objects = objects(test, pods);
    apply(master, PHASE, &objects).await?;
    if let Err(error) = wait_until_healthy(master, "the smoke test", &objects).await {
        let reason = reported(master)
            .await?
            .unwrap_or_else(|| error.detail.clone());
        let detail = format!("{reason}; namespace `{NAMESPACE}` shows more");
        let error = DriverError::new("smoke-test-failed", detail).retryable();
        return Err(error.phase(PHASE));
    }
    delete(master).await
}

/// Deletes the namespace, and waits until it is gone.
async fn delete(master: &Machine<'_>) -> Result<(), DriverError> {
    let arguments = format!("delete namespace {NAMESPACE} --ignore-not-found --timeout={DELETION}");
    let deleted = master.kubectl(PHASE, (&arguments, Secret::default()));
    deleted.await.map(drop)
}

/// How many nodes take pods of a `DaemonSet` without tolerations.
async fn schedulable(master: &Machine<'_>) -> Result<usize, DriverError> {
    let found = master.kubectl(PHASE, ("get nodes -o json", Secret::default()));
    let nodes: Value = serde_json::from_str(&found.await?.stdout).unwrap_or_default();
    let nodes = nodes["items"].as_array().into_iter().flatten();
    Ok(nodes.filter(|node| takes_pods(node)).count())
}

/// Whether a node has no taint but those that Kubernetes lets every `DaemonSet` tolerate.
fn takes_pods(node: &Value) -> bool {
    let taints = node["spec"]["taints"].as_array().into_iter().flatten();
    let mut taints = taints.filter(|taint| taint["effect"] != "PreferNoSchedule");
    taints.all(|taint| {
        let key = taint["key"].as_str().unwrap_or_default();
        TOLERATED.contains(&key)
    })
}

/// What a pod reports of its last failed check.
async fn reported(master: &Machine<'_>) -> Result<Option<String>, DriverError> {
    let line = format!(
        "{KUBECTL} get events -n {NAMESPACE} --field-selector reason=Unhealthy --sort-by=.lastTimestamp -o json"
    );
    let output = master.try_run(PHASE, &line, Secret::default()).await?;
    let events: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
    let last = events["items"].as_array().and_then(|all| all.last());
    let message = last.and_then(|event| event["message"].as_str());
    Ok(message.map(|text| text.trim().to_owned()))
}

fn objects(test: &SmokeTest, pods: usize) -> Vec<Value> {
    let labels = json!({ "app": NAME });
    let service = |name: &str, address: Value| {
        let mut spec = json!({
            "selector": labels,
            "ports": [{ "port": 80, "targetPort": 8080 }],
            // A pod becomes ready by the checks, which need the addresses of all.
            "publishNotReadyAddresses": true,
        });
        if !address.is_null() {
            spec["clusterIP"] = address;
        }
        object("v1", "Service", name, &json!({ "spec": spec }))
    };
    let namespace =
        json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": NAMESPACE } });
    let spec = json!({
        "selector": { "matchLabels": labels },
        "template": { "metadata": { "labels": labels }, "spec": pod(test, pods) },
    });
    vec![
        namespace,
        service(NAME, Value::Null),
        service(PEERS, "None".into()),
        object("apps/v1", "DaemonSet", NAME, &json!({ "spec": spec })),
    ]
}

fn object(api: &str, kind: &str, name: &str, members: &Value) -> Value {
    let mut object = members.clone();
    object["apiVersion"] = api.into();
    object["kind"] = kind.into();
    object["metadata"] = json!({ "name": name, "namespace": NAMESPACE });
    object
}

fn pod(test: &SmokeTest, pods: usize) -> Value {
    let serve =
        "mkdir -p /tmp/www && echo ok >/tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www";
    let mut container = json!({
        "name": NAME,
        "image": test.image,
        "command": ["sh", "-c", serve],
        "env": [
            { "name": "NAMESPACE", "value": NAMESPACE },
            { "name": "PODS", "value": pods.to_string() },
            { "name": "VOLUME", "value": test.storage_class.as_ref().map_or("", |_| VOLUME) },
        ],
        "readinessProbe": {
            "exec": { "command": ["sh", "-c", CHECKS] },
            "periodSeconds": 1,
            "timeoutSeconds": 15,
        },
    });
    let mut pod = json!({ "terminationGracePeriodSeconds": 0 });
    if let Some(class) = &test.storage_class {
        container["volumeMounts"] = json!([{ "name": VOLUME, "mountPath": format!("/{VOLUME}") }]);
        let claim = json!({
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": class,
            "resources": { "requests": { "storage": "1Mi" } },
        });
        pod["volumes"] =
            json!([{ "name": VOLUME, "ephemeral": { "volumeClaimTemplate": { "spec": claim } } }]);
    }
    pod["containers"] = json!([container]);
    pod
}

#[cfg(test)]
mod tests {
    use super::{SmokeTest, objects, takes_pods};
    use serde_json::json;

    #[test]
    fn a_node_with_a_taint_of_its_own_takes_no_pods() {
        let taint = |key: &str, effect: &str| json!([{ "key": key, "effect": effect }]);
        let table = [
            (json!(null), true),
            (
                taint("node.kubernetes.io/unschedulable", "NoSchedule"),
                true,
            ),
            (taint("spot", "PreferNoSchedule"), true),
            (
                taint("node-role.kubernetes.io/control-plane", "NoSchedule"),
                false,
            ),
            (taint("gpu", "NoExecute"), false),
        ];
        for (taints, expected) in table {
            let node = json!({ "spec": { "taints": taints } });
            assert_eq!(takes_pods(&node), expected, "{node}");
        }
    }

    #[test]
    fn a_volume_is_requested_only_for_a_storage_class() {
        let test = |class: Option<&str>| SmokeTest {
            image: "localhost/busybox:1".to_owned(),
            storage_class: class.map(str::to_owned),
        };
        let set =
            |class| objects(&test(class), 1).pop().unwrap()["spec"]["template"]["spec"].clone();
        assert!(set(None)["volumes"].is_null());
        let volume = &set(Some("fast"))["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"];
        assert_eq!(volume["storageClassName"], "fast");
    }
}

//! The smoke test of a new cluster: one pod on each node that takes pods checks what every VNF needs.
//!
//! | check | how |
//! |---|---|
//! | DNS | the name of a headless Service is resolved |
//! | Service | the address of a Service responds |
//! | pod network across nodes | each pod responds to each other |
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
    let objects = objects(test);
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

async fn delete(master: &Machine<'_>) -> Result<(), DriverError> {
    let line = format!("{KUBECTL} delete namespace {NAMESPACE} --ignore-not-found");
    master.run(PHASE, &line).await.map(drop)
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

fn objects(test: &SmokeTest) -> Vec<Value> {
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
        "template": { "metadata": { "labels": labels }, "spec": pod(test) },
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

fn pod(test: &SmokeTest) -> Value {
    let serve =
        "mkdir -p /tmp/www && echo ok >/tmp/www/index.html && exec httpd -f -p 8080 -h /tmp/www";
    let mut container = json!({
        "name": NAME,
        "image": test.image,
        "command": ["sh", "-c", serve],
        "env": [
            { "name": "NAMESPACE", "value": NAMESPACE },
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
    use super::{SmokeTest, objects};

    #[test]
    fn a_volume_is_requested_only_for_a_storage_class() {
        let test = |class: Option<&str>| SmokeTest {
            image: "localhost/busybox:1".to_owned(),
            storage_class: class.map(str::to_owned),
        };
        let set = |class| objects(&test(class)).pop().unwrap()["spec"]["template"]["spec"].clone();
        assert!(set(None)["volumes"].is_null());
        let volume = &set(Some("fast"))["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"];
        assert_eq!(volume["storageClassName"], "fast");
    }
}

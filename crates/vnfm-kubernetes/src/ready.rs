//! Whether an object is ready: a pure function of its manifest and status.
//!
//! | kind | ready when |
//! |---|---|
//! | Deployment | all replicas are updated and available, none of an older template remains |
//! | StatefulSet, `ReplicaSet` | all replicas are ready (and updated, above the partition) |
//! | `DaemonSet` | every scheduled node has an updated, available pod |
//! | Pod | its condition `Ready` is true, or it succeeded |
//! | Job | it is complete |
//! | PersistentVolumeClaim | it is bound |
//! | Service | it has an address; for a load balancer an external one |
//! | Namespace | it is active |
//! | CustomResourceDefinition | it is established and its names are accepted |
//! | `APIService` | it is available |
//! | `VirtualMachine`, `VirtualMachineInstance` | its condition `Ready` is true; a machine that should not run: it does not exist |
//! | `VirtualMachineInstanceReplicaSet` | all machines are ready |
//! | `Cluster`, `MachineDeployment`, `KubeadmControlPlane` | see `cluster_api.rs` |
//! | any other | its generation is observed and its condition `Ready`, if it has one, is true |

use crate::cluster_api;
use crate::status::Readiness::{self, Failed, NotYet, Ready};
use crate::status::{
    Condition, condition, condition_readiness, count, desired_replicas, is_empty, join,
    not_observed, text, too_many, with_replica_failure,
};
use crate::virtual_machines::{GROUP, INSTANCE, MACHINE, REPLICA_SET, should_run};
use serde_json::Value;

/// Determines the readiness of an object as returned by the API server.
pub(crate) fn readiness(object: &Value) -> Readiness {
    if object.pointer("/metadata/deletionTimestamp").is_some() {
        return NotYet("it is being deleted".to_owned());
    }
    let group = text(object, "/apiVersion")
        .rsplit_once('/')
        .map_or("", |(group, _)| group);
    match (group, text(object, "/kind")) {
        ("apps", "Deployment") => deployment(object),
        ("apps", "StatefulSet") => stateful_set(object),
        ("apps", "DaemonSet") => daemon_set(object),
        ("apps", "ReplicaSet") | ("", "ReplicationController") => replica_set(object),
        ("batch", "Job") => job(object),
        ("", "Pod") => pod(object),
        ("", "PersistentVolumeClaim") => claim(object),
        ("", "PersistentVolume") => phase(object, &["Available", "Bound"], &["Failed"]),
        ("", "Namespace") => phase(object, &["Active"], &[]),
        ("", "Service") => service(object),
        ("apiextensions.k8s.io", "CustomResourceDefinition") => definition(object),
        ("apiregistration.k8s.io", "APIService") => condition_readiness(object, "Available"),
        (GROUP, MACHINE) => machine(object),
        (GROUP, INSTANCE) if text(object, "/status/phase") != "Failed" => {
            condition_readiness(object, "Ready")
        }
        (GROUP, INSTANCE) => Failed("the machine failed".to_owned()),
        (GROUP, REPLICA_SET) => machine_replica_set(object),
        _ => cluster_api::readiness(object).unwrap_or_else(|| generic(object)),
    }
}

fn deployment(object: &Value) -> Readiness {
    if let Some(waiting) = not_observed(object) {
        return waiting;
    }
    if object.pointer("/spec/paused") == Some(&Value::Bool(true)) {
        return NotYet("it is paused".to_owned());
    }
    if let Some((reason, message)) = condition(object, "Progressing")
        .filter(|c| c.is("False"))
        .map(Condition::reason_and_message)
        && reason == "ProgressDeadlineExceeded"
    {
        return Failed(join(&reason, &message));
    }
    let desired = desired_replicas(object);
    let (updated, total, available) = (
        count(object, "/status/updatedReplicas"),
        count(object, "/status/replicas"),
        count(object, "/status/availableReplicas"),
    );
    if updated < desired {
        return NotYet(with_replica_failure(
            object,
            format!("{updated} of {desired} replicas updated"),
        ));
    }
    if updated > desired {
        return too_many(updated, desired);
    }
    if total > updated {
        return NotYet(format!(
            "{} replicas of an older template remain",
            total - updated
        ));
    }
    if available < desired {
        return NotYet(with_replica_failure(
            object,
            format!("{available} of {desired} replicas available"),
        ));
    }
    Ready
}

fn stateful_set(object: &Value) -> Readiness {
    if let Some(waiting) = not_observed(object) {
        return waiting;
    }
    let (desired, ready) = (
        desired_replicas(object),
        count(object, "/status/readyReplicas"),
    );
    if ready < desired {
        return NotYet(format!("{ready} of {desired} replicas ready"));
    }
    let total = count(object, "/status/replicas");
    if total > desired {
        return too_many(total, desired);
    }
    if text(object, "/spec/updateStrategy/type") == "OnDelete" {
        return Ready;
    }
    let partition = count(object, "/spec/updateStrategy/rollingUpdate/partition");
    let updated = count(object, "/status/updatedReplicas");
    if partition > 0 {
        let due = desired.saturating_sub(partition);
        return if updated < due {
            NotYet(format!("{updated} of {due} replicas updated"))
        } else {
            Ready
        };
    }
    if text(object, "/status/currentRevision") != text(object, "/status/updateRevision") {
        return NotYet(format!("{updated} of {desired} replicas updated"));
    }
    Ready
}

fn daemon_set(object: &Value) -> Readiness {
    if let Some(waiting) = not_observed(object) {
        return waiting;
    }
    let desired = count(object, "/status/desiredNumberScheduled");
    let (updated, available) = (
        count(object, "/status/updatedNumberScheduled"),
        count(object, "/status/numberAvailable"),
    );
    if updated < desired && text(object, "/spec/updateStrategy/type") != "OnDelete" {
        return NotYet(format!("{updated} of {desired} pods updated"));
    }
    if available < desired {
        return NotYet(format!("{available} of {desired} pods available"));
    }
    Ready
}

fn replica_set(object: &Value) -> Readiness {
    if let Some(waiting) = not_observed(object) {
        return waiting;
    }
    let (desired, ready) = (
        desired_replicas(object),
        count(object, "/status/readyReplicas"),
    );
    let total = count(object, "/status/replicas");
    if total > desired {
        return too_many(total, desired);
    }
    if ready < desired {
        NotYet(with_replica_failure(
            object,
            format!("{ready} of {desired} replicas ready"),
        ))
    } else {
        Ready
    }
}

fn machine(object: &Value) -> Readiness {
    if should_run(object) {
        return match condition_readiness(object, "Ready") {
            NotYet(reason) => NotYet(join(text(object, "/status/printableStatus"), &reason)),
            readiness => readiness,
        };
    }
    // Whether a machine of the strategy `Manual` runs is its user's decision.
    let is_halted = text(object, "/spec/runStrategy") != "Manual";
    if is_halted && object.pointer("/status/created") == Some(&Value::Bool(true)) {
        return NotYet("the machine has not stopped yet".to_owned());
    }
    Ready
}

/// Its controller reports no observed generation.
fn machine_replica_set(object: &Value) -> Readiness {
    let desired = desired_replicas(object);
    let (total, ready) = (
        count(object, "/status/replicas"),
        count(object, "/status/readyReplicas"),
    );
    if total > desired {
        return too_many(total, desired);
    }
    if ready < desired {
        let text = format!("{ready} of {desired} machines ready");
        return NotYet(with_replica_failure(object, text));
    }
    Ready
}

fn job(object: &Value) -> Readiness {
    if let Some(failed) = condition(object, "Failed").filter(|c| c.is("True")) {
        let (reason, message) = failed.reason_and_message();
        return Failed(join(&reason, &message));
    }
    if condition(object, "Complete").is_some_and(|c| c.is("True")) {
        return Ready;
    }
    let desired = object
        .pointer("/spec/completions")
        .and_then(Value::as_u64)
        .unwrap_or(1);
    let (done, failed) = (
        count(object, "/status/succeeded"),
        count(object, "/status/failed"),
    );
    let tries = if failed > 0 {
        format!(", {failed} failed attempts")
    } else {
        String::new()
    };
    NotYet(format!("{done} of {desired} completions{tries}"))
}

fn pod(object: &Value) -> Readiness {
    match text(object, "/status/phase") {
        "Succeeded" => Ready,
        "Failed" => Failed(join(text(object, "/status/reason"), &pod_failure(object))),
        _ if condition(object, "Ready").is_some_and(|c| c.is("True")) => Ready,
        _ => {
            NotYet(pod_problem(object).unwrap_or_else(|| "its containers are not ready".to_owned()))
        }
    }
}

/// Why a pod is not ready, from its status: why it is not scheduled, what a container waits for, how it last terminated.
pub(crate) fn pod_problem(pod: &Value) -> Option<String> {
    if let Some(unscheduled) = condition(pod, "PodScheduled").filter(|c| c.is("False")) {
        let (reason, message) = unscheduled.reason_and_message();
        return Some(join(&reason, &message));
    }
    let statuses = ["/status/initContainerStatuses", "/status/containerStatuses"];
    let containers = statuses
        .iter()
        .filter_map(|list| pod.pointer(list)?.as_array())
        .flatten();
    containers
        .filter(|container| container.get("ready") != Some(&Value::Bool(true)))
        .find_map(container_problem)
}

fn container_problem(container: &Value) -> Option<String> {
    let waiting = container.pointer("/state/waiting").filter(|waiting| {
        !matches!(
            text(waiting, "/reason"),
            "" | "ContainerCreating" | "PodInitializing"
        )
    });
    let name = text(container, "/name");
    if let Some(waiting) = waiting {
        let last = container
            .pointer("/lastState/terminated")
            .map_or_else(String::new, |end| {
                format!(" (last attempt: {})", termination(end))
            });
        return Some(format!(
            "container `{name}`: {}{last}",
            join(text(waiting, "/reason"), text(waiting, "/message"))
        ));
    }
    let end = container
        .pointer("/state/terminated")
        .filter(|end| end.get("exitCode") != Some(&Value::from(0)))?;
    Some(format!("container `{name}`: {}", termination(end)))
}

fn pod_failure(pod: &Value) -> String {
    let message = text(pod, "/status/message");
    if message.is_empty() {
        pod_problem(pod).unwrap_or_else(|| "the pod failed".to_owned())
    } else {
        message.to_owned()
    }
}

fn termination(end: &Value) -> String {
    let message = text(end, "/message");
    let message = if message.is_empty() {
        String::new()
    } else {
        format!(": {message}")
    };
    format!(
        "{} with exit code {}{message}",
        text(end, "/reason"),
        end.get("exitCode").and_then(Value::as_i64).unwrap_or(-1)
    )
}

fn claim(object: &Value) -> Readiness {
    match text(object, "/status/phase") {
        "Bound" => Ready,
        "Lost" => Failed("its volume is lost".to_owned()),
        _ => {
            let class = match object
                .pointer("/spec/storageClassName")
                .and_then(Value::as_str)
            {
                None => "no StorageClass, as the cluster has no default one".to_owned(),
                Some("") => "no StorageClass, so that only an existing volume fits".to_owned(),
                Some(class) => format!("StorageClass `{class}`"),
            };
            NotYet(format!("it is not bound to a volume ({class})"))
        }
    }
}

fn service(object: &Value) -> Readiness {
    match text(object, "/spec/type") {
        "ExternalName" => Ready,
        _ if text(object, "/spec/clusterIP").is_empty() => {
            NotYet("it has no address yet".to_owned())
        }
        "LoadBalancer" if is_empty(object, "/status/loadBalancer/ingress") => {
            NotYet("its load balancer has no address yet".to_owned())
        }
        _ => Ready,
    }
}

fn definition(object: &Value) -> Readiness {
    match condition(object, "NamesAccepted").filter(|c| c.is("False")) {
        Some(refused) => {
            let (reason, message) = refused.reason_and_message();
            Failed(join(&reason, &message))
        }
        None => condition_readiness(object, "Established"),
    }
}

fn generic(object: &Value) -> Readiness {
    if object.pointer("/status/observedGeneration").is_some()
        && let Some(waiting) = not_observed(object)
    {
        return waiting;
    }
    if let Some(stalled) = condition(object, "Stalled").filter(|c| c.is("True")) {
        let (reason, message) = stalled.reason_and_message();
        return Failed(join(&reason, &message));
    }
    if condition(object, "Ready").is_some() {
        condition_readiness(object, "Ready")
    } else {
        Ready
    }
}

fn phase(object: &Value, ready: &[&str], failed: &[&str]) -> Readiness {
    let phase = text(object, "/status/phase");
    if ready.contains(&phase) {
        Ready
    } else if failed.contains(&phase) {
        Failed(join(phase, text(object, "/status/message")))
    } else {
        NotYet(format!("its phase is `{phase}`"))
    }
}

/// Identifies the failure of a Deployment that exceeded its progress deadline: UID and time.
pub(crate) fn progress_failure(object: &Value) -> Option<String> {
    let progressing = condition(object, "Progressing").filter(|c| c.is("False"))?;
    let is_deployment = text(object, "/kind") == "Deployment";
    (is_deployment && progressing.reason_and_message().0 == "ProgressDeadlineExceeded").then(|| {
        format!(
            "{} {}",
            text(object, "/metadata/uid"),
            text(progressing.0, "/lastUpdateTime")
        )
    })
}

#[cfg(test)]
#[path = "ready_tests.rs"]
mod tests;

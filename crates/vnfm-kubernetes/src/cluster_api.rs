//! Clusters of Cluster API (contract v1beta2) as workloads, on their management cluster.
//!
//! | kind | its VNFCs | ready when |
//! |---|---|---|
//! | `Cluster` | none | its condition `Available` is true |
//! | `KubeadmControlPlane`, `MachineDeployment` | its `Machine`s | all replicas are ready and up to date |
//! | any other, such as templates of machines | none | as any custom resource |
//!
//! A `Cluster` is deleted before the objects of its own stage: its controller deletes machines and infrastructure in order,
//! and needs the other objects for that.

use crate::status::Readiness::{self, Failed, NotYet, Ready};
use crate::status::{
    condition_message, condition_readiness, count, desired_replicas, not_observed, text, too_many,
};
use kube::api::{ApiResource, GroupVersionKind};
use serde_json::Value;

pub(crate) const GROUP: &str = "cluster.x-k8s.io";
/// The version that readiness is read from; objects of older versions are custom resources like others.
pub(crate) const API_VERSION: &str = "cluster.x-k8s.io/v1beta2";
const CONTROL_PLANES: &str = "controlplane.cluster.x-k8s.io/v1beta2";
pub(crate) const CLUSTER: &str = "Cluster";
pub(crate) const MACHINE: &str = "Machine";
pub(crate) const MACHINE_DEPLOYMENT: &str = "MachineDeployment";
const CONTROL_PLANE: &str = "KubeadmControlPlane";
/// The label with the name of a machine's `MachineDeployment`, as a JSON pointer.
const DEPLOYMENT_NAME: &str = "/metadata/labels/cluster.x-k8s.io~1deployment-name";

/// Whether a kind that a VNFD names without its group may be one whose machines are VNFCs.
pub(crate) fn may_have_machines(kind: &str) -> bool {
    matches!(kind, MACHINE_DEPLOYMENT | CONTROL_PLANE)
}

/// Whether the machines of objects of this kind are VNFCs.
pub(crate) fn has_machines(resource: &ApiResource) -> bool {
    template(&resource.group, &resource.kind).is_some()
}

/// The kind of a machine, without a look at the cluster.
pub(crate) fn machine_resource() -> ApiResource {
    let kind = GroupVersionKind::gvk(GROUP, "v1beta2", MACHINE);
    ApiResource::from_gvk_with_plural(&kind, "machines")
}

/// Kind and name of what a machine belongs to: its deployment by its label, its control plane as its controller.
pub(crate) fn workload(machine: &Value) -> Option<(&str, &str)> {
    let deployment = text(machine, DEPLOYMENT_NAME);
    if !deployment.is_empty() {
        return Some((MACHINE_DEPLOYMENT, deployment));
    }
    let owners = machine.pointer("/metadata/ownerReferences")?.as_array()?;
    let mut owners = owners.iter();
    let owner = owners.find(|owner| owner.get("controller") == Some(&Value::Bool(true)))?;
    Some((text(owner, "/kind"), text(owner, "/name")))
}

/// Where an object has the labels that its machines get.
pub(crate) fn machine_template(object: &Value) -> Option<&'static str> {
    let (group, _) = text(object, "/apiVersion").split_once('/')?;
    template(group, text(object, "/kind"))
}

fn template(group: &str, kind: &str) -> Option<&'static str> {
    match (group, kind) {
        (GROUP, MACHINE_DEPLOYMENT) => Some("/spec/template"),
        ("controlplane.cluster.x-k8s.io", CONTROL_PLANE) => Some("/spec/machineTemplate"),
        _ => None,
    }
}

/// Whether it is a `Cluster`.
pub(crate) fn is_cluster(resource: &ApiResource) -> bool {
    resource.group == GROUP && resource.kind == CLUSTER
}

/// Whether the controllers of Cluster API delete what depends on objects of this API group.
pub(crate) fn is_group(group: &str) -> bool {
    group == GROUP || group.ends_with(".cluster.x-k8s.io")
}

/// The readiness of an object; `None` for what is not in the table above.
pub(crate) fn readiness(object: &Value) -> Option<Readiness> {
    match (text(object, "/apiVersion"), text(object, "/kind")) {
        (API_VERSION, CLUSTER) => Some(cluster(object)),
        (API_VERSION, MACHINE_DEPLOYMENT) | (CONTROL_PLANES, CONTROL_PLANE) => {
            Some(machine_set(object))
        }
        _ => None,
    }
}

fn cluster(object: &Value) -> Readiness {
    if text(object, "/status/phase") == "Failed" {
        let stated = text(object, "/status/deprecated/v1beta1/failureMessage");
        let message = condition_message(object, "Available");
        return Failed(match (stated, message) {
            ("", None) => "its phase is `Failed`".to_owned(),
            ("", Some(message)) => message,
            (stated, _) => stated.to_owned(),
        });
    }
    not_observed(object).unwrap_or_else(|| condition_readiness(object, "Available"))
}

fn machine_set(object: &Value) -> Readiness {
    if let Some(waiting) = not_observed(object) {
        return waiting;
    }
    let desired = desired_replicas(object);
    let total = count(object, "/status/replicas");
    if total > desired {
        return too_many(total, desired);
    }
    for (member, word) in [
        ("/status/upToDateReplicas", "up to date"),
        ("/status/readyReplicas", "ready"),
    ] {
        let reached = count(object, member);
        if reached < desired {
            let reason = condition_message(object, "Available");
            let reason = reason.map_or_else(String::new, |reason| format!(": {reason}"));
            return NotYet(format!("{reached} of {desired} machines {word}{reason}"));
        }
    }
    Ready
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cluster_with(status: &Value) -> Value {
        json!({"apiVersion": API_VERSION, "kind": CLUSTER, "metadata": {"generation": 2}, "status": status})
    }

    fn available(status: &str) -> Value {
        json!([{"type": "Available", "status": status, "reason": "NotAvailable",
            "message": "* ControlPlaneAvailable: waiting for the first machine"}])
    }

    #[test]
    fn a_cluster_is_ready_once_it_is_available() {
        for (status, expected) in [
            (
                json!({}),
                NotYet("its controller has not observed it yet".into()),
            ),
            (
                json!({"observedGeneration": 2}),
                NotYet("condition `Available` is not set yet".into()),
            ),
            (
                json!({"observedGeneration": 2, "phase": "Provisioned", "conditions": available("False")}),
                NotYet(
                    "NotAvailable: * ControlPlaneAvailable: waiting for the first machine".into(),
                ),
            ),
            (
                json!({"observedGeneration": 1, "conditions": available("True")}),
                NotYet("its controller has not observed it yet".into()),
            ),
            (
                json!({"observedGeneration": 2, "conditions": available("True")}),
                Ready,
            ),
            (
                json!({"phase": "Failed", "deprecated": {"v1beta1": {"failureMessage": "no quota"}}}),
                Failed("no quota".into()),
            ),
            (
                json!({"phase": "Failed", "conditions": available("False")}),
                Failed(
                    "NotAvailable: * ControlPlaneAvailable: waiting for the first machine".into(),
                ),
            ),
        ] {
            let cluster = cluster_with(&status);
            assert_eq!(readiness(&cluster), Some(expected), "{status}");
        }
    }

    #[test]
    fn a_machine_belongs_to_its_deployment_or_its_control_plane() {
        let owner =
            |kind: &str, name: &str| json!([{"kind": kind, "name": name, "controller": true}]);
        for (metadata, expected) in [
            (
                json!({"labels": {"cluster.x-k8s.io/deployment-name": "md"}, "ownerReferences": owner("MachineSet", "md-abcde")}),
                Some((MACHINE_DEPLOYMENT, "md")),
            ),
            (
                json!({"ownerReferences": owner(CONTROL_PLANE, "cp")}),
                Some((CONTROL_PLANE, "cp")),
            ),
            (json!({}), None),
        ] {
            assert_eq!(workload(&json!({"metadata": metadata})), expected);
        }
    }

    #[test]
    fn machines_are_ready_once_all_are_up_to_date_and_ready() {
        let machines = |total: u64, current: u64, ready: u64| {
            json!({"apiVersion": API_VERSION, "kind": MACHINE_DEPLOYMENT, "metadata": {"generation": 1},
                "spec": {"replicas": 2}, "status": {"observedGeneration": 1, "replicas": total,
                    "upToDateReplicas": current, "readyReplicas": ready, "conditions": available("False")}})
        };
        let reason = "NotAvailable: * ControlPlaneAvailable: waiting for the first machine";
        for (object, expected) in [
            (machines(2, 2, 2), Ready),
            (
                machines(2, 2, 1),
                NotYet(format!("1 of 2 machines ready: {reason}")),
            ),
            (
                machines(2, 1, 2),
                NotYet(format!("1 of 2 machines up to date: {reason}")),
            ),
            (
                machines(3, 2, 2),
                NotYet("3 replicas exist, 2 are desired".into()),
            ),
        ] {
            assert_eq!(readiness(&object), Some(expected));
        }
        let older = json!({"apiVersion": "cluster.x-k8s.io/v1beta1", "kind": CLUSTER});
        assert_eq!(readiness(&older), None);
    }
}

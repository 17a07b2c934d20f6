//! One row per state in which an object is ready, not ready or failed.

use super::*;
use serde_json::json;

fn not_yet(text: &str) -> Readiness {
    NotYet(text.to_owned())
}

fn failed(text: &str) -> Readiness {
    Failed(text.to_owned())
}

fn check(rows: Vec<(Value, Readiness)>) {
    for (object, expected) in rows {
        assert_eq!(readiness(&object), expected, "{object}");
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "each `json!` value is used once"
)]
fn object(api_version: &str, kind: &str, spec: Value, status: Value) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"generation": 2}, "spec": spec, "status": status})
}

#[test]
fn deployments() {
    let deployment =
        |status: Value| object("apps/v1", "Deployment", json!({"replicas": 2}), status);
    let good = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2, "availableReplicas": 2});
    let with = |changes: Value| {
        let mut status = good.clone();
        changes
            .as_object()
            .unwrap()
            .iter()
            .for_each(|(name, value)| status[name] = value.clone());
        deployment(status)
    };
    check(vec![
        (deployment(good.clone()), Ready),
        (
            deployment(json!({})),
            not_yet("its controller has not observed it yet"),
        ),
        (
            with(json!({"observedGeneration": 1})),
            not_yet("its controller has not observed it yet"),
        ),
        (
            with(json!({"updatedReplicas": 1})),
            not_yet("1 of 2 replicas updated"),
        ),
        (
            with(json!({"replicas": 3})),
            not_yet("1 replicas of an older template remain"),
        ),
        (
            with(json!({"replicas": 3, "updatedReplicas": 3})),
            not_yet("3 replicas exist, 2 are desired"),
        ),
        (
            with(json!({"availableReplicas": 0})),
            not_yet("0 of 2 replicas available"),
        ),
        (
            with(
                json!({"updatedReplicas": 0, "conditions": [{"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "exceeded quota: small"}]}),
            ),
            not_yet("0 of 2 replicas updated: FailedCreate: exceeded quota: small"),
        ),
        (
            with(
                json!({"conditions": [{"type": "Progressing", "status": "False", "reason": "ProgressDeadlineExceeded", "message": "timed out"}]}),
            ),
            failed("ProgressDeadlineExceeded: timed out"),
        ),
    ]);
}

#[test]
fn a_deployment_of_zero_replicas_is_ready_and_a_paused_one_is_not() {
    let deployment = |spec: Value| {
        object(
            "apps/v1",
            "Deployment",
            spec,
            json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1}),
        )
    };
    let empty = object(
        "apps/v1",
        "Deployment",
        json!({"replicas": 0}),
        json!({"observedGeneration": 2}),
    );
    check(vec![
        (empty, Ready),
        (deployment(json!({"paused": true})), not_yet("it is paused")),
    ]);
}

#[test]
fn an_object_that_is_being_deleted_is_not_ready() {
    let mut deleting = object("v1", "ConfigMap", Value::Null, Value::Null);
    assert_eq!(readiness(&deleting), Ready);
    deleting["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    assert_eq!(readiness(&deleting), not_yet("it is being deleted"));
}

#[test]
fn stateful_sets() {
    let stateful = |spec: Value, status: Value| object("apps/v1", "StatefulSet", spec, status);
    check(vec![
        (
            stateful(
                json!({"replicas": 3}),
                json!({"observedGeneration": 2, "readyReplicas": 3, "currentRevision": "a", "updateRevision": "a"}),
            ),
            Ready,
        ),
        (
            stateful(
                json!({"replicas": 3}),
                json!({"observedGeneration": 2, "readyReplicas": 2}),
            ),
            not_yet("2 of 3 replicas ready"),
        ),
        (
            stateful(
                json!({"replicas": 3}),
                json!({"observedGeneration": 2, "replicas": 4, "readyReplicas": 3}),
            ),
            not_yet("4 replicas exist, 3 are desired"),
        ),
        (
            stateful(
                json!({"replicas": 3}),
                json!({"observedGeneration": 2, "readyReplicas": 3, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"}),
            ),
            not_yet("1 of 3 replicas updated"),
        ),
        (
            stateful(
                json!({"replicas": 3, "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}}),
                json!({"observedGeneration": 2, "readyReplicas": 3, "updatedReplicas": 1, "currentRevision": "a", "updateRevision": "b"}),
            ),
            Ready,
        ),
        (
            stateful(
                json!({"updateStrategy": {"type": "OnDelete"}}),
                json!({"observedGeneration": 2, "readyReplicas": 1, "currentRevision": "a", "updateRevision": "b"}),
            ),
            Ready,
        ),
    ]);
}

#[test]
fn daemon_and_replica_sets() {
    check(vec![
        (
            object(
                "apps/v1",
                "DaemonSet",
                json!({}),
                json!({"observedGeneration": 2}),
            ),
            Ready,
        ),
        (
            object(
                "apps/v1",
                "DaemonSet",
                json!({}),
                json!({"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 2, "numberAvailable": 1}),
            ),
            not_yet("1 of 2 pods available"),
        ),
        (
            object(
                "apps/v1",
                "DaemonSet",
                json!({}),
                json!({"observedGeneration": 2, "desiredNumberScheduled": 2, "updatedNumberScheduled": 0, "numberAvailable": 2}),
            ),
            not_yet("0 of 2 pods updated"),
        ),
        (
            object(
                "apps/v1",
                "ReplicaSet",
                json!({}),
                json!({"observedGeneration": 2, "readyReplicas": 1}),
            ),
            Ready,
        ),
        (
            object(
                "apps/v1",
                "ReplicaSet",
                json!({}),
                json!({"observedGeneration": 2}),
            ),
            not_yet("0 of 1 replicas ready"),
        ),
    ]);
}

#[test]
fn a_pod_reports_why_it_is_not_ready() {
    let pod = |status: Value| object("v1", "Pod", json!({}), status);
    let waiting = |reason: &str| json!({"phase": "Pending", "containerStatuses": [{"name": "web", "ready": false, "state": {"waiting": {"reason": reason, "message": "why"}}}]});
    check(vec![
        (
            pod(json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]})),
            Ready,
        ),
        (pod(json!({"phase": "Succeeded"})), Ready),
        (
            pod(json!({"phase": "Running"})),
            not_yet("its containers are not ready"),
        ),
        (
            pod(waiting("ContainerCreating")),
            not_yet("its containers are not ready"),
        ),
        (
            pod(waiting("ErrImagePull")),
            not_yet("container `web`: ErrImagePull: why"),
        ),
        (
            pod(
                json!({"phase": "Running", "containerStatuses": [{"name": "web", "ready": false, "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}},
                "lastState": {"terminated": {"reason": "Error", "exitCode": 3}}}]}),
            ),
            not_yet(
                "container `web`: CrashLoopBackOff: back-off 10s (last attempt: Error with exit code 3)",
            ),
        ),
        (
            pod(
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}]}),
            ),
            not_yet("Unschedulable: 0/1 nodes are available"),
        ),
        (
            pod(json!({"phase": "Failed", "reason": "Evicted", "message": "no disk"})),
            failed("Evicted: no disk"),
        ),
        (
            pod(
                json!({"phase": "Failed", "containerStatuses": [{"name": "once", "ready": false, "state": {"terminated": {"reason": "Error", "exitCode": 1}}}]}),
            ),
            failed("container `once`: Error with exit code 1"),
        ),
    ]);
}

#[test]
fn jobs() {
    let job = |status: Value| object("batch/v1", "Job", json!({"completions": 2}), status);
    check(vec![
        (
            job(json!({"conditions": [{"type": "Complete", "status": "True"}]})),
            Ready,
        ),
        (
            job(json!({"succeeded": 1, "failed": 2})),
            not_yet("1 of 2 completions, 2 failed attempts"),
        ),
        (
            job(
                json!({"conditions": [{"type": "Failed", "status": "True", "reason": "BackoffLimitExceeded", "message": "too often"}]}),
            ),
            failed("BackoffLimitExceeded: too often"),
        ),
    ]);
}

#[test]
fn services() {
    let service = |spec: Value, status: Value| object("v1", "Service", spec, status);
    check(vec![
        (
            service(
                json!({"type": "ClusterIP", "clusterIP": "10.96.0.9"}),
                json!({}),
            ),
            Ready,
        ),
        (
            service(json!({"type": "ClusterIP", "clusterIP": "None"}), json!({})),
            Ready,
        ),
        (
            service(json!({"type": "ClusterIP"}), json!({})),
            not_yet("it has no address yet"),
        ),
        (service(json!({"type": "ExternalName"}), json!({})), Ready),
        (
            service(
                json!({"type": "LoadBalancer", "clusterIP": "10.96.0.9"}),
                json!({}),
            ),
            not_yet("its load balancer has no address yet"),
        ),
        (
            service(
                json!({"type": "LoadBalancer", "clusterIP": "10.96.0.9"}),
                json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}}),
            ),
            Ready,
        ),
    ]);
}

#[test]
fn claims() {
    let claim = |spec: Value, phase: &str| {
        object("v1", "PersistentVolumeClaim", spec, json!({"phase": phase}))
    };
    check(vec![
        (claim(json!({}), "Bound"), Ready),
        (
            claim(json!({"storageClassName": "fast"}), "Pending"),
            not_yet("it is not bound to a volume (StorageClass `fast`)"),
        ),
        (
            claim(json!({}), "Pending"),
            not_yet(
                "it is not bound to a volume (no StorageClass, as the cluster has no default one)",
            ),
        ),
        (claim(json!({}), "Lost"), failed("its volume is lost")),
    ]);
}

#[test]
fn volumes_and_namespaces() {
    check(vec![
        (
            object(
                "v1",
                "PersistentVolume",
                json!({}),
                json!({"phase": "Available"}),
            ),
            Ready,
        ),
        (
            object(
                "v1",
                "PersistentVolume",
                json!({}),
                json!({"phase": "Failed", "message": "no"}),
            ),
            failed("Failed: no"),
        ),
        (
            object("v1", "Namespace", json!({}), json!({"phase": "Active"})),
            Ready,
        ),
        (
            object(
                "v1",
                "Namespace",
                json!({}),
                json!({"phase": "Terminating"}),
            ),
            not_yet("its phase is `Terminating`"),
        ),
    ]);
}

#[test]
fn definitions_and_other_kinds() {
    let definition = |conditions: Value| {
        object(
            "apiextensions.k8s.io/v1",
            "CustomResourceDefinition",
            json!({}),
            json!({"conditions": conditions}),
        )
    };
    let thing = |status: Value| object("example.com/v1", "Thing", json!({}), status);
    check(vec![
        (
            definition(json!([{"type": "Established", "status": "True"}])),
            Ready,
        ),
        (
            definition(json!([])),
            not_yet("condition `Established` is not set yet"),
        ),
        (
            definition(
                json!([{"type": "NamesAccepted", "status": "False", "reason": "ListKindConflict", "message": "taken"}]),
            ),
            failed("ListKindConflict: taken"),
        ),
        (thing(json!({})), Ready),
        (
            thing(json!({"observedGeneration": 1})),
            not_yet("its controller has not observed it yet"),
        ),
        (
            thing(
                json!({"observedGeneration": 2, "conditions": [{"type": "Ready", "status": "False", "reason": "Building", "message": "wait"}]}),
            ),
            not_yet("Building: wait"),
        ),
        (
            thing(
                json!({"conditions": [{"type": "Stalled", "status": "True", "reason": "Broken", "message": "no"}]}),
            ),
            failed("Broken: no"),
        ),
        (
            object(
                "apiregistration.k8s.io/v1",
                "APIService",
                json!({}),
                json!({"conditions": [{"type": "Available", "status": "True"}]}),
            ),
            Ready,
        ),
    ]);
}

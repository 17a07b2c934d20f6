//! Workload controllers: deployments, replica sets, stateful sets, daemon sets, jobs.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::apply::Owners;
use super::facts::{condition, event, is_ready, is_terminating, keys, owner};
use super::nodes::evicts;
use super::objects::{Key, Store};
use super::quota;
use super::volumes::mount_claims;
use crate::time::now;

fn hash(value: &Value) -> String {
    let sum: [u8; 32] = Sha256::digest(value.to_string().as_bytes()).into();
    let [a, b, c, d, ..] = sum;
    format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// The objects of a kind that one object controls.
fn children(store: &Store, kind: &str, parent: &Value) -> Vec<(Key, Arc<Value>)> {
    let namespace = parent["metadata"]["namespace"].as_str().unwrap_or_default();
    let uid = &parent["metadata"]["uid"];
    store
        .list(kind, namespace)
        .filter(|(_, body)| owner(body).is_some_and(|o| o["uid"] == *uid))
        .map(|(k, b)| (k.clone(), Arc::clone(b)))
        .collect()
}

pub(super) fn owned_by(parent: &Value) -> Value {
    json!([{ "apiVersion": parent["apiVersion"], "kind": parent["kind"], "name": parent["metadata"]["name"], "uid": parent["metadata"]["uid"], "controller": true, "blockOwnerDeletion": true }])
}

fn create_pod(store: &mut Store, parent: &Value, name: &str, more: &[(&str, &str)]) {
    let template = &parent["spec"]["template"];
    let namespace = parent["metadata"]["namespace"].as_str().unwrap_or_default();
    let mut spec = template["spec"].clone();
    for (field, value) in [
        ("restartPolicy", json!("Always")),
        ("terminationGracePeriodSeconds", json!(30)),
        ("serviceAccountName", json!("default")),
    ] {
        if spec[field].is_null() {
            spec[field] = value;
        }
    }
    let mut body = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "ownerReferences": owned_by(parent), "labels": template["metadata"]["labels"],
        "annotations": template["metadata"]["annotations"] }, "spec": spec, "status": { "phase": "Pending" } });
    if body["metadata"]["annotations"].is_null() {
        body["metadata"]
            .as_object_mut()
            .map(|meta| meta.remove("annotations"));
    }
    for (label, value) in more {
        match label.strip_prefix("node:") {
            Some(_) => body["spec"]["nodeName"] = json!(value),
            None => body["metadata"]["labels"][*label] = json!(value),
        }
    }
    store.put(&Key::new("pods", namespace, name), body, Owners::default());
}

fn suffix() -> String {
    Uuid::new_v4().simple().to_string()[..5].to_owned()
}

fn count(body: &Value) -> usize {
    body["spec"]["replicas"]
        .as_u64()
        .and_then(|n| usize::try_from(n).ok())
        .unwrap_or(1)
}

pub(super) fn deployments(store: &mut Store) {
    for key in keys(store, "deployments.apps") {
        let Some(deployment) = store.get(&key).cloned().filter(|d| !is_terminating(d)) else {
            continue;
        };
        let hash = hash(&deployment["spec"]["template"]);
        let sets = children(store, "replicasets.apps", &deployment);
        let current = format!("{}-{hash}", key.name);
        let replicas = deployment["spec"]["replicas"].clone();
        let revision = (sets.len() + 1).to_string();
        match sets.iter().find(|(set, _)| set.name == current) {
            Some((set, _)) => store.update(set, |body| body["spec"]["replicas"] = replicas.clone()),
            None => create_replica_set(store, &deployment, (&current, &hash, &revision)),
        }
        let done = |body: &Value| body["status"]["readyReplicas"].as_u64().unwrap_or(0);
        let fresh = store
            .get(&Key::new("replicasets.apps", &key.namespace, &current))
            .map_or(0, |body| done(body));
        for (old, _) in sets
            .iter()
            .filter(|(set, _)| set.name != current && fresh >= count(&deployment) as u64)
        {
            store.update(old, |body| body["spec"]["replicas"] = json!(0));
        }
        let sets = children(store, "replicasets.apps", &deployment);
        let total = |field: &str| {
            sets.iter()
                .map(|(_, set)| set["status"][field].as_u64().unwrap_or(0))
                .sum::<u64>()
        };
        let (made, ready) = (total("replicas"), total("readyReplicas"));
        let current = sets.iter().find(|(set, _)| set.name == current);
        let updated = current.map_or(0, |(_, set)| {
            set["status"]["replicas"].as_u64().unwrap_or(0)
        });
        let failure = current.and_then(|(_, set)| replica_failure(set)).cloned();
        store.update(&key, |body| {
            deployment_status(body, (made, ready, updated));
            if let (Some(failure), Some(all)) =
                (failure, body["status"]["conditions"].as_array_mut())
            {
                all.push(failure);
            }
        });
    }
}

fn create_replica_set(
    store: &mut Store,
    deployment: &Value,
    (name, hash, revision): (&str, &str, &str),
) {
    let namespace = deployment["metadata"]["namespace"]
        .as_str()
        .unwrap_or_default();
    let mut template = deployment["spec"]["template"].clone();
    template["metadata"]["labels"]["pod-template-hash"] = json!(hash);
    let mut selector = deployment["spec"]["selector"].clone();
    selector["matchLabels"]["pod-template-hash"] = json!(hash);
    let body = json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": { "labels": template["metadata"]["labels"], "ownerReferences": owned_by(deployment),
        "annotations": { "deployment.kubernetes.io/revision": revision }, "generation": 1 },
        "spec": { "replicas": deployment["spec"]["replicas"], "selector": selector, "template": template }, "status": { "replicas": 0 } });
    store.put(
        &Key::new("replicasets.apps", namespace, name),
        body,
        Owners::default(),
    );
}

fn deployment_status(body: &mut Value, (made, ready, updated): (u64, u64, u64)) {
    let wanted = count(body) as u64;
    let before = body["status"]["conditions"].clone();
    let mut all = Vec::new();
    for (kind, holds, reason) in [
        (
            "Available",
            ready >= wanted,
            if ready >= wanted {
                "MinimumReplicasAvailable"
            } else {
                "MinimumReplicasUnavailable"
            },
        ),
        (
            "Progressing",
            true,
            if updated >= wanted && ready >= wanted {
                "NewReplicaSetAvailable"
            } else {
                "ReplicaSetUpdated"
            },
        ),
    ] {
        let state = if holds { "True" } else { "False" };
        let old = before
            .as_array()
            .into_iter()
            .flatten()
            .find(|c| c["type"] == kind && c["status"] == state && c["reason"] == reason);
        all.push(old.cloned().unwrap_or_else(|| json!({ "type": kind, "status": state, "reason": reason, "lastUpdateTime": now(), "lastTransitionTime": now() })));
    }
    let mut status =
        json!({ "observedGeneration": body["metadata"]["generation"], "conditions": all });
    for (field, value) in [
        ("replicas", made),
        ("updatedReplicas", updated),
        ("readyReplicas", ready),
        ("availableReplicas", ready),
        ("unavailableReplicas", wanted.saturating_sub(ready)),
    ] {
        if value > 0 {
            status[field] = json!(value);
        }
    }
    body["status"] = status;
}

pub(super) fn replica_sets(store: &mut Store) {
    for key in keys(store, "replicasets.apps") {
        let Some(set) = store.get(&key).cloned().filter(|s| !is_terminating(s)) else {
            continue;
        };
        let pods: Vec<_> = children(store, "pods", &set)
            .into_iter()
            .filter(|(_, pod)| !is_terminating(pod))
            .collect();
        let mut refused = None;
        for _ in pods.len()..count(&set) {
            let name = format!("{}-{}", key.name, suffix());
            refused = quota::exceeded(store, "pods", &key.namespace)
                .map(|why| format!("pods \"{name}\" is forbidden: {why}"));
            if refused.is_some() {
                break;
            }
            create_pod(store, &set, &name, &[]);
        }
        let failure = refused.map(|why| failed_create(store, &key, &set, &why));
        let mut surplus: Vec<_> = pods.iter().collect();
        surplus.sort_by_key(|(_, pod)| (is_ready(pod), deletion_cost(pod)));
        for (pod, _) in surplus
            .into_iter()
            .take(pods.len().saturating_sub(count(&set)))
        {
            store.delete(pod, false, false);
        }
        let pods: Vec<_> = children(store, "pods", &set)
            .into_iter()
            .filter(|(_, pod)| !is_terminating(pod))
            .collect();
        let ready = pods.iter().filter(|(_, pod)| is_ready(pod)).count();
        store.update(&key, |body| {
            body["status"] = json!({ "replicas": pods.len(), "fullyLabeledReplicas": pods.len(), "readyReplicas": ready, "availableReplicas": ready,
                "observedGeneration": body["metadata"]["generation"] });
            if let Some(failure) = &failure {
                body["status"]["conditions"] = json!([failure]);
            }
        });
    }
}

/// Pods with a lower cost are deleted first.
fn deletion_cost(pod: &Value) -> i32 {
    let annotations = &pod["metadata"]["annotations"];
    let cost = annotations["controller.kubernetes.io/pod-deletion-cost"].as_str();
    cost.and_then(|cost| cost.parse().ok()).unwrap_or(0)
}

/// The condition for a refused pod; keeps the previous one if the pod was refused before.
fn failed_create(store: &mut Store, key: &Key, set: &Value, why: &str) -> Value {
    if let Some(before) = replica_failure(set) {
        return before.clone();
    }
    event(
        store,
        key,
        set,
        ("FailedCreate", &format!("Error creating: {why}")),
    );
    let mut failure = condition(FAILURE, true, "FailedCreate");
    failure["message"] = json!(why);
    failure
}

fn replica_failure(body: &Value) -> Option<&Value> {
    let mut conditions = body["status"]["conditions"].as_array()?.iter();
    conditions.find(|condition| condition["type"] == FAILURE)
}

const FAILURE: &str = "ReplicaFailure";

pub(super) fn stateful_sets(store: &mut Store) {
    for key in keys(store, "statefulsets.apps") {
        let Some(set) = store.get(&key).cloned().filter(|s| !is_terminating(s)) else {
            continue;
        };
        let hash = hash(&set["spec"]["template"]);
        let revision = format!("{}-{hash}", key.name);
        let pods = children(store, "pods", &set);
        let name = |n: usize| format!("{}-{n}", key.name);
        // In order, each once the previous one is Ready.
        for n in 0..count(&set) {
            match pods.iter().find(|(pod, _)| pod.name == name(n)) {
                Some((pod, body))
                    if body["metadata"]["labels"]["controller-revision-hash"]
                        != revision.as_str() =>
                {
                    store.delete(pod, false, false);
                    break;
                }
                Some((_, body)) if is_ready(body) => {}
                Some(_) => break,
                None => {
                    let index = n.to_string();
                    create_pod(
                        store,
                        &set,
                        &name(n),
                        &[
                            ("controller-revision-hash", &revision),
                            ("statefulset.kubernetes.io/pod-name", &name(n)),
                            ("apps.kubernetes.io/pod-index", &index),
                        ],
                    );
                    mount_claims(store, &set, &Key::new("pods", &key.namespace, &name(n)));
                    break;
                }
            }
        }
        let wanted: BTreeSet<String> = (0..count(&set)).map(name).collect();
        for (pod, _) in pods
            .iter()
            .filter(|(pod, body)| !wanted.contains(&pod.name) && !is_terminating(body))
        {
            store.delete(pod, false, false);
        }
        let pods = children(store, "pods", &set);
        let ready = pods.iter().filter(|(_, pod)| is_ready(pod)).count();
        store.update(&key, |body| body["status"] = json!({ "replicas": pods.len(), "readyReplicas": ready, "availableReplicas": ready, "currentReplicas": pods.len(), "updatedReplicas": pods.len(),
            "currentRevision": revision, "updateRevision": revision, "observedGeneration": body["metadata"]["generation"] }));
    }
}

pub(super) fn daemon_sets(store: &mut Store) {
    for key in keys(store, "daemonsets.apps") {
        let Some(set) = store.get(&key).cloned().filter(|s| !is_terminating(s)) else {
            continue;
        };
        let spec = &set["spec"]["template"]["spec"];
        let mut nodes: Vec<String> = Vec::new();
        for (key, node) in store.list("nodes", "") {
            if !evicts(node, spec) {
                nodes.push(key.name.clone());
            }
        }
        let pods = children(store, "pods", &set);
        let on = |pod: &Value| {
            pod["spec"]["nodeName"]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        for node in nodes
            .iter()
            .filter(|node| !pods.iter().any(|(_, pod)| on(pod) == **node))
        {
            create_pod(
                store,
                &set,
                &format!("{}-{}", key.name, suffix()),
                &[("node:", node)],
            );
        }
        for (pod, _) in pods.iter().filter(|(_, pod)| !nodes.contains(&on(pod))) {
            store.delete(pod, false, false);
        }
        let pods = children(store, "pods", &set);
        let ready = pods.iter().filter(|(_, pod)| is_ready(pod)).count();
        store.update(&key, |body| body["status"] = json!({ "currentNumberScheduled": pods.len(), "desiredNumberScheduled": nodes.len(), "numberReady": ready, "numberAvailable": ready,
            "numberMisscheduled": 0, "updatedNumberScheduled": pods.len(), "observedGeneration": body["metadata"]["generation"] }));
    }
}

pub(super) fn jobs(store: &mut Store) {
    for key in keys(store, "jobs.batch") {
        let Some(job) = store.get(&key).cloned().filter(|j| !is_terminating(j)) else {
            continue;
        };
        let pods = children(store, "pods", &job);
        let wanted = job["spec"]["completions"]
            .as_u64()
            .and_then(|n| usize::try_from(n).ok())
            .unwrap_or(1);
        let done = pods
            .iter()
            .filter(|(_, pod)| pod["status"]["phase"] == "Succeeded")
            .count();
        for _ in pods.len()..wanted {
            create_pod(
                store,
                &job,
                &format!("{}-{}", key.name, suffix()),
                &[
                    ("job-name", &key.name),
                    ("batch.kubernetes.io/job-name", &key.name),
                ],
            );
        }
        if job["status"]["completionTime"].is_null() {
            store.update(&key, |body| {
                if body["status"]["startTime"].is_null() {
                    body["status"]["startTime"] = json!(now());
                }
                body["status"]["succeeded"] = json!(done);
                body["status"]["active"] = json!(wanted - done.min(wanted));
                if done >= wanted {
                    body["status"]["completionTime"] = json!(now());
                    body["status"]["conditions"] =
                        json!([condition("Complete", true, "CompletionsReached")]);
                }
            });
        }
    }
}

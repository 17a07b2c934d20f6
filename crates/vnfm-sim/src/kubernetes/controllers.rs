//! The controllers: bring the observed state to the desired one, in rounds over the entire store.
//!
//! A cluster's task runs rounds until one changes nothing, then sleeps until an object is written or
//! a pod is due. A round calls one small function per kind of object; each writes only differences.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use uuid::Uuid;

use super::apply::Owners;
use super::disruption;
use super::extensions;
use super::facts::{condition, event, is_ready, is_terminating, keys, owner, tolerates};
use super::networks;
use super::nodes;
use super::objects::{Key, Store, array, has_finalizers};
use super::volumes;
use super::workloads::{daemon_sets, deployments, jobs, replica_sets, stateful_sets};
use crate::time::now;

/// The controllers' state between rounds.
pub(crate) struct Controllers {
    /// When a scheduled pod becomes Ready, by UID.
    due: BTreeMap<String, Instant>,
    pub(crate) pod_start: Duration,
    pub(crate) ca_pem: String,
    addresses: u32,
}

impl Controllers {
    pub(crate) fn new(pod_start: Duration, ca_pem: String) -> Self {
        Self {
            due: BTreeMap::new(),
            pod_start,
            ca_pem,
            addresses: 0,
        }
    }

    /// Runs rounds until nothing changes (50 at most); returns when the next pod is due.
    pub(crate) fn reconcile(&mut self, store: &mut Store, network: bool) -> Option<Instant> {
        for _ in 0..50 {
            let before = store.version;
            namespaces(store, &self.ca_pem);
            nodes::reconcile(store, network);
            deployments(store);
            replica_sets(store);
            stateful_sets(store);
            daemon_sets(store);
            jobs(store);
            self.pods(store);
            volumes::reconcile(store);
            collect_garbage(store);
            disruption::reconcile(store);
            extensions::reconcile(store);
            if store.version == before {
                break;
            }
        }
        self.due.retain(|uid, _| {
            store
                .list("pods", "")
                .any(|(_, pod)| pod["metadata"]["uid"] == uid.as_str() && needs_start(pod))
        });
        self.due.values().min().copied()
    }

    fn pods(&mut self, store: &mut Store) {
        for key in keys(store, "pods") {
            let Some(pod) = store.get(&key).cloned() else {
                continue;
            };
            let served = nodes::is_served(store, &pod);
            if is_terminating(&pod) {
                if served && !has_finalizers(&pod) {
                    store.remove(&key);
                }
            } else if pod["spec"]["nodeName"].is_null() {
                schedule(store, &key, &pod);
            } else if needs_start(&pod) && served {
                self.start(store, &key, &pod);
            }
        }
    }

    fn start(&mut self, store: &mut Store, key: &Key, pod: &Value) {
        let images = |spec: &Value| {
            spec["containers"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|c| c["image"].as_str().unwrap_or_default().to_owned())
                .collect::<Vec<_>>()
        };
        let named = |part: &str| {
            images(&pod["spec"])
                .into_iter()
                .find(|one| one.contains(part))
        };
        if let Some(image) = named("no-such").filter(|_| !store.images_fixed) {
            return fail_to_pull(store, key, pod, &image);
        }
        if named("crash-loop").is_some() && !store.images_fixed {
            return crash(store, key, pod);
        }
        if let Some(message) = networks::problem(store, key, pod) {
            return fail_to_attach(store, key, pod, &message);
        }
        let uid = pod["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned();
        let due = *self
            .due
            .entry(uid.clone())
            .or_insert_with(|| Instant::now() + self.pod_start);
        if due > Instant::now() {
            return;
        }
        self.due.remove(&uid);
        self.addresses += 1;
        let address = format!(
            "10.244.{}.{}",
            self.addresses / 250 % 250,
            self.addresses % 250 + 2
        );
        let finishes = matches!(
            pod["spec"]["restartPolicy"].as_str(),
            Some("Never" | "OnFailure")
        ) && owner(pod).is_some_and(|o| o["kind"] == "Job");
        let report = networks::report(store, (key, pod), (&address, self.addresses));
        store.update(key, |pod| {
            pod["status"] = running(pod, &address, finishes);
            for (name, value) in report.iter().filter_map(Value::as_object).flatten() {
                pod["metadata"]["annotations"][name] = value.clone();
            }
        });
    }
}

fn running(pod: &Value, address: &str, finishes: bool) -> Value {
    let state = if finishes {
        json!({ "terminated": { "exitCode": 0, "reason": "Completed", "finishedAt": now() } })
    } else {
        json!({ "running": { "startedAt": now() } })
    };
    let status = |container: &Value| {
        json!({ "name": container["name"], "image": container["image"], "imageID": "", "containerID": format!("containerd://{}", Uuid::new_v4().simple()),
            "ready": !finishes, "started": !finishes, "restartCount": 0, "state": state, "lastState": {} })
    };
    let containers: Vec<Value> = pod["spec"]["containers"]
        .as_array()
        .into_iter()
        .flatten()
        .map(status)
        .collect();
    let reason = if finishes { "PodCompleted" } else { "" };
    let conditions = [
        ("PodScheduled", true),
        ("Initialized", true),
        ("ContainersReady", !finishes),
        ("Ready", !finishes),
    ];
    json!({ "phase": if finishes { "Succeeded" } else { "Running" }, "podIP": address, "podIPs": [{ "ip": address }], "hostIP": pod["status"]["hostIP"], "startTime": now(),
        "qosClass": "BestEffort", "containerStatuses": containers,
        "conditions": conditions.iter().map(|(kind, holds)| condition(kind, *holds, if *holds { "" } else { reason })).collect::<Vec<_>>() })
}

/// Binds a pod to the least loaded suitable node, or sets the condition `Unschedulable`.
fn schedule(store: &mut Store, key: &Key, pod: &Value) {
    let mut load: BTreeMap<String, usize> = BTreeMap::new();
    for (_, other) in store.list("pods", "") {
        *load
            .entry(
                other["spec"]["nodeName"]
                    .as_str()
                    .unwrap_or_default()
                    .to_owned(),
            )
            .or_default() += 1;
    }
    let refused = volumes::unschedulable(store, key, pod);
    let nodes: Vec<Arc<Value>> = store
        .list("nodes", "")
        .map(|(_, node)| Arc::clone(node))
        .filter(|node| refused.is_none() && can_run_on(node, &pod["spec"]))
        .collect();
    let name = |node: &Value| {
        node["metadata"]["name"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    match nodes
        .iter()
        .min_by_key(|node| load.get(&name(node)).copied().unwrap_or(0))
    {
        Some(node) => store.update(key, |pod| {
            pod["spec"]["nodeName"] = json!(name(node));
            pod["status"]["hostIP"] = node["status"]["addresses"][0]["address"].clone();
            pod["status"]["conditions"] = json!([condition("PodScheduled", true, "")]);
        }),
        None if pod["status"]["conditions"].is_null() => {
            let why = refused.unwrap_or_else(|| "no node is Ready and suitable".to_owned());
            let message = format!("0 nodes are available: {why}.");
            store.update(key, |pod| {
                let mut refused = condition("PodScheduled", false, "Unschedulable");
                refused["message"] = json!(message);
                pod["status"]["conditions"] = json!([refused]);
            });
            event(store, key, pod, ("FailedScheduling", &message));
        }
        None => {}
    }
}

/// Whether a pod of this spec may run on the node: Ready, not cordoned, selector and taints match.
fn can_run_on(node: &Value, spec: &Value) -> bool {
    let everything = spec["tolerations"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|t| t["operator"] == "Exists" && t["key"].is_null());
    let labels = &node["metadata"]["labels"];
    let selected = spec["nodeSelector"]
        .as_object()
        .into_iter()
        .flatten()
        .all(|(label, value)| labels[label] == *value);
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    selected
        && (everything || is_ready(node))
        && node["spec"]["unschedulable"] != true
        && taints.all(|taint| taint["effect"] == "PreferNoSchedule" || tolerates(spec, taint))
}

/// Whether the kubelet has to start the pod: it is new or in a crash loop.
fn needs_start(pod: &Value) -> bool {
    pod["status"]["phase"] == "Pending"
        || pod["status"]["containerStatuses"][0]["state"]["waiting"]["reason"] == "CrashLoopBackOff"
}

fn crash(store: &mut Store, key: &Key, pod: &Value) {
    if !pod["status"]["containerStatuses"].is_null() {
        return;
    }
    let container = pod["spec"]["containers"][0]["name"]
        .as_str()
        .unwrap_or_default();
    let message = format!(
        "back-off 10s restarting failed container={container} pod={}_{}({})",
        key.name,
        key.namespace,
        pod["metadata"]["uid"].as_str().unwrap_or_default()
    );
    store.update(key, |pod| {
        let waiting = |container: &Value| {
            json!({ "name": container["name"], "image": container["image"], "imageID": "", "ready": false, "started": false, "restartCount": 1,
                "lastState": { "terminated": { "exitCode": 1, "reason": "Error", "message": "cannot open the page" } },
                "state": { "waiting": { "reason": "CrashLoopBackOff", "message": message } } })
        };
        let statuses: Vec<Value> =
            pod["spec"]["containers"].as_array().into_iter().flatten().map(waiting).collect();
        pod["status"]["phase"] = json!("Running");
        pod["status"]["containerStatuses"] = json!(statuses);
        pod["status"]["conditions"] = json!([condition("PodScheduled", true, ""), condition("ContainersReady", false, "ContainersNotReady"), condition("Ready", false, "ContainersNotReady")]);
    });
    event(
        store,
        key,
        pod,
        ("BackOff", "Back-off restarting failed container"),
    );
}

fn fail_to_pull(store: &mut Store, key: &Key, pod: &Value, image: &str) {
    if !pod["status"]["containerStatuses"].is_null() {
        return;
    }
    let message = format!(
        "Failed to pull image \"{image}\": rpc error: code = NotFound desc = failed to pull and unpack image \"{image}\": not found"
    );
    store.update(key, |pod| {
        let waiting = |container: &Value| {
            json!({ "name": container["name"], "image": container["image"], "imageID": "", "ready": false, "started": false, "restartCount": 0, "lastState": {},
                "state": { "waiting": { "reason": "ErrImagePull", "message": message } } })
        };
        let statuses: Vec<Value> = pod["spec"]["containers"].as_array().into_iter().flatten().map(waiting).collect();
        pod["status"]["containerStatuses"] = json!(statuses);
        pod["status"]["conditions"] = json!([condition("PodScheduled", true, ""), condition("ContainersReady", false, "ContainersNotReady"), condition("Ready", false, "ContainersNotReady")]);
    });
    event(store, key, pod, ("Failed", &message));
}

/// The sandbox of a pod has no interface on a network that it requests.
fn fail_to_attach(store: &mut Store, key: &Key, pod: &Value, message: &str) {
    if !pod["status"]["containerStatuses"].is_null() {
        return;
    }
    store.update(key, |pod| {
        let waiting = |container: &Value| {
            json!({ "name": container["name"], "image": container["image"], "imageID": "", "ready": false, "started": false, "restartCount": 0, "lastState": {},
                "state": { "waiting": { "reason": "ContainerCreating" } } })
        };
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        let statuses: Vec<Value> = containers.map(waiting).collect();
        pod["status"]["containerStatuses"] = json!(statuses);
        pod["status"]["conditions"] = json!([condition("PodScheduled", true, ""), condition("ContainersReady", false, "ContainersNotReady"), condition("Ready", false, "ContainersNotReady")]);
    });
    let message =
        format!("Failed to create pod sandbox: plugin type=\"multus\" failed (add): {message}");
    event(store, key, pod, ("FailedCreatePodSandBox", &message));
}

fn namespaces(store: &mut Store, ca_pem: &str) {
    for key in keys(store, "namespaces") {
        let Some(namespace) = store.get(&key).cloned() else {
            continue;
        };
        if is_terminating(&namespace) {
            terminate_namespace(store, &key);
            continue;
        }
        let account = Key::new("serviceaccounts", &key.name, "default");
        if store.get(&account).is_none() {
            store.put(
                &account,
                json!({ "apiVersion": "v1", "kind": "ServiceAccount", "metadata": {} }),
                Owners::default(),
            );
        }
        let root = Key::new("configmaps", &key.name, "kube-root-ca.crt");
        if store.get(&root).is_none() {
            store.put(&root, json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": { "ca.crt": ca_pem } }), Owners::default());
        }
    }
}

/// Deletes the content of a terminating namespace, and the namespace once it is empty.
fn terminate_namespace(store: &mut Store, namespace: &Key) {
    let content: Vec<Key> = store
        .all()
        .filter(|(key, _)| key.namespace == namespace.name)
        .map(|(key, _)| key.clone())
        .collect();
    if content.is_empty() {
        store.remove(namespace);
        return;
    }
    for key in content {
        if store.get(&key).is_some_and(|body| !is_terminating(body)) {
            store.delete(&key, false, false);
        }
    }
    set_deletion_conditions(store, namespace);
}

/// Sets the conditions that say which objects and finalizers block a namespace's deletion.
fn set_deletion_conditions(store: &mut Store, namespace: &Key) {
    let (mut kinds, mut finalizers) = (BTreeMap::new(), BTreeMap::new());
    for (key, body) in store
        .all()
        .filter(|(key, _)| key.namespace == namespace.name)
    {
        *kinds.entry(format!("{}.", key.kind)).or_insert(0) += 1;
        let names = body["metadata"]["finalizers"]
            .as_array()
            .into_iter()
            .flatten();
        for name in names.filter_map(Value::as_str) {
            *finalizers.entry(name.to_owned()).or_insert(0) += 1;
        }
    }
    let list_counts = |found: &BTreeMap<String, usize>, link: &str| {
        let each = found
            .iter()
            .map(|(item, times)| format!("{item}{link}{times} resource instances"));
        each.collect::<Vec<_>>().join(", ")
    };
    let left = [
        (
            "NamespaceContentRemaining",
            "SomeResourcesRemain",
            format!(
                "Some resources are remaining: {}",
                list_counts(&kinds, " has ")
            ),
            !kinds.is_empty(),
        ),
        (
            "NamespaceFinalizersRemaining",
            "SomeFinalizersRemain",
            format!(
                "Some content in the namespace has finalizers remaining: {}",
                list_counts(&finalizers, " in ")
            ),
            !finalizers.is_empty(),
        ),
    ];
    store.update(namespace, |body| {
        let before = body["status"]["conditions"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let now =
            left.into_iter()
                .filter(|(.., holds)| *holds)
                .map(|(kind, reason, message, _)| {
                    let same =
                        |seen: &&Value| seen["type"] == kind && seen["message"] == message.as_str();
                    before.iter().find(same).cloned().unwrap_or_else(|| {
                        let mut new = condition(kind, true, reason);
                        new["message"] = json!(message);
                        new
                    })
                });
        let now: Vec<_> = now.collect();
        body["status"]["conditions"] = json!(now);
    });
}

/// Deletes objects whose owners are all deleted or waiting for them; then the waiting owners.
fn collect_garbage(store: &mut Store) {
    let uid = |body: &Value| body["metadata"]["uid"].as_str().map(str::to_owned);
    let alive: BTreeSet<String> = store.all().filter_map(|(_, body)| uid(body)).collect();
    let leaving: BTreeSet<String> = (store.all())
        .filter(|(_, body)| waits_for_owned(body))
        .filter_map(|(_, body)| uid(body))
        .collect();
    let mut waited_for = BTreeSet::new();
    let mut doomed = Vec::new();
    for (key, body) in store.all() {
        let Some(owners) = body["metadata"]["ownerReferences"]
            .as_array()
            .filter(|list| !list.is_empty())
        else {
            continue;
        };
        let uids: Vec<&str> = owners
            .iter()
            .filter_map(|owner| owner["uid"].as_str())
            .collect();
        waited_for.extend(
            uids.iter()
                .filter(|uid| leaving.contains(**uid))
                .map(|uid| (*uid).to_owned()),
        );
        if uids
            .iter()
            .all(|uid| !alive.contains(*uid) || leaving.contains(*uid))
            && !is_terminating(body)
        {
            doomed.push((key.clone(), uids.iter().any(|uid| leaving.contains(*uid))));
        }
    }
    for (key, foreground) in doomed {
        store.delete(&key, foreground && key.kind != "pods", false);
    }
    let free: Vec<Key> = (store.all())
        .filter(|(_, body)| {
            body["metadata"]["uid"]
                .as_str()
                .is_some_and(|uid| leaving.contains(uid) && !waited_for.contains(uid))
        })
        .map(|(key, _)| key.clone())
        .collect();
    for key in free {
        finish_foreground_deletion(store, &key);
    }
}

/// Whether it is being deleted in the foreground.
fn waits_for_owned(body: &Value) -> bool {
    let mut finalizers = body["metadata"]["finalizers"]
        .as_array()
        .into_iter()
        .flatten();
    is_terminating(body) && finalizers.any(|f| f == "foregroundDeletion")
}

/// Removes the finalizer of an owner that waited for its dependents, and deletes it if that was its last one.
fn finish_foreground_deletion(store: &mut Store, key: &Key) {
    store.update(key, |body| {
        if let Some(list) = array(&mut body["metadata"]["finalizers"]) {
            list.retain(|f| f != "foregroundDeletion");
        }
    });
    if store.get(key).is_some_and(|body| !has_finalizers(body)) {
        store.remove(key);
    }
}

//! Nodes (Ready, silent, cordoned) and the effects on their pods.
//!
//! | a node that … | status | its pods |
//! |---|---|---|
//! | works | Ready `True` | start and terminate |
//! | has no network yet | Ready `False` | wait |
//! | is silent (its host was powered off, deleted or reset) | Ready `Unknown`, taints `unreachable` | not Ready; a deleted one hangs in Terminating |
//! | is silent and tainted `out-of-service` | the same | deleted immediately |
//! | was deleted | no node | garbage-collected |
//! | is cordoned | taint `unschedulable` | stay; no new ones |
//!
//! A real control plane declares a node silent after 40 s and evicts its pods five minutes later;
//! this one notices at once and never evicts by itself, so that code that waits for the eviction fails its test.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::Cluster;
use super::facts::{condition, is_ready, is_terminating, keys, tolerates};
use super::objects::{Key, Store, has_finalizers};
use super::seeds;
use crate::time::now;

const CORDONED: &str = "node.kubernetes.io/unschedulable";
const SILENT: &str = "node.kubernetes.io/unreachable";
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
/// The reason that pods of a silent node are not Ready.
const NODE_NOT_READY: &str = "NodeNotReady";

impl Cluster {
    /// Adds a node; the first one is the control plane.
    pub fn add_node(&self, name: &str, address: &str) {
        let mut store = self.store();
        let first = store.list("nodes", "").next().is_none();
        seeds::node(
            &mut store,
            (name, address),
            first && !self.is_standalone.load(Ordering::SeqCst),
        );
    }

    /// Adds a further node of the control plane.
    pub(crate) fn add_control_plane_node(&self, name: &str, address: &str) {
        seeds::node(&mut self.store(), (name, address), true);
    }

    /// Sets whether the machine at an address serves as a node (power, reset, deletion).
    pub fn set_served(&self, address: &str, served: bool) {
        self.store().set_silent(address, !served);
    }

    /// Disconnects (`cut`) or reconnects a node's machine; false if there is no such node.
    pub fn cut_node(&self, name: &str, cut: bool) -> bool {
        let mut store = self.store();
        let node = store.get(&Key::new("nodes", "", name)).cloned();
        let Some(node) = node else { return false };
        store.set_silent(address(&node), cut);
        true
    }

    /// Sets the version that the kubelet of a node reports.
    pub fn set_kubelet_version(&self, name: &str, version: &str) {
        self.store().update(&Key::new("nodes", "", name), |node| {
            node["status"]["nodeInfo"]["kubeletVersion"] = json!(version);
        });
    }

    /// Whether a node exists and is Ready.
    pub fn node_ready(&self, name: &str) -> bool {
        let store = self.store();
        let node = store.get(&Key::new("nodes", "", name));
        node.is_some_and(|n| {
            n["status"]["conditions"]
                .as_array()
                .into_iter()
                .flatten()
                .any(|c| c["type"] == "Ready" && c["status"] == "True")
        })
    }

    /// Whether a node is Ready and its machine connected, so that no other machine may take its name.
    pub fn serves(&self, node: &str) -> bool {
        self.node_ready(node) && {
            let store = self.store();
            let node = store.get(&Key::new("nodes", "", node));
            node.is_some_and(|node| !store.is_silent(address(node)))
        }
    }
}

/// The node's `InternalIP`; empty if it has none.
pub(super) fn address(node: &Value) -> &str {
    node["status"]["addresses"][0]["address"]
        .as_str()
        .unwrap_or_default()
}

fn node<'a>(store: &'a Store, name: &str) -> Option<&'a Value> {
    store.get(&Key::new("nodes", "", name)).map(|node| &**node)
}

/// Whether the kubelet on the pod's node works.
pub(super) fn is_served(store: &Store, pod: &Value) -> bool {
    let name = pod["spec"]["nodeName"].as_str().unwrap_or_default();
    node(store, name).is_none_or(|node| !store.is_silent(address(node)))
}

/// One round: conditions and taints of the nodes, then their pods.
pub(super) fn reconcile(store: &mut Store, network: bool) {
    let network = network
        || keys(store, "daemonsets.apps")
            .iter()
            .any(|key| key.name != "kube-proxy");
    for key in keys(store, "nodes") {
        let silent = store
            .get(&key)
            .is_some_and(|node| store.is_silent(address(node)));
        store.update(&key, |node| {
            post(node, silent, network);
            taint(node, silent);
        });
    }
    for key in keys(store, "pods") {
        reconcile_pod(store, &key);
    }
}

fn post(node: &mut Value, silent: bool, network: bool) {
    let (status, reason, message) = match (silent, network) {
        (true, _) => (
            "Unknown",
            "NodeStatusUnknown",
            "Kubelet stopped posting node status.",
        ),
        (false, true) => ("True", "KubeletReady", "kubelet is posting ready status"),
        (false, false) => (
            "False",
            "KubeletNotReady",
            "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized",
        ),
    };
    let known = node["status"]["conditions"]
        .as_array()
        .into_iter()
        .flatten();
    if known
        .into_iter()
        .any(|c| c["type"] == "Ready" && c["status"] == status)
    {
        return;
    }
    let mut ready = condition("Ready", false, reason);
    (ready["status"], ready["message"]) = (json!(status), json!(message));
    node["status"]["conditions"] = json!([
        condition("MemoryPressure", false, "KubeletHasSufficientMemory"),
        condition("DiskPressure", false, "KubeletHasNoDiskPressure"),
        ready
    ]);
}

/// Sets the node controller's taints; keeps others.
fn taint(node: &mut Value, silent: bool) {
    let wanted = [
        (
            CORDONED,
            "NoSchedule",
            node["spec"]["unschedulable"] == true,
        ),
        (SILENT, "NoSchedule", silent),
        (SILENT, "NoExecute", silent),
    ];
    let mut taints = node["spec"]["taints"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    for (key, effect, holds) in wanted {
        let is = |taint: &Value| taint["key"] == key && taint["effect"] == effect;
        match taints.iter().position(is) {
            Some(place) if !holds => drop(taints.remove(place)),
            None if holds => {
                taints.push(json!({ "key": key, "effect": effect, "timeAdded": now() }));
            }
            _ => {}
        }
    }
    if !taints.is_empty() {
        node["spec"]["taints"] = json!(taints);
    } else if let Some(spec) = node["spec"].as_object_mut() {
        spec.remove("taints");
    }
}

fn reconcile_pod(store: &mut Store, key: &Key) {
    let Some(pod) = store.get(key).cloned() else {
        return;
    };
    let Some(name) = pod["spec"]["nodeName"].as_str() else {
        return;
    };
    let Some(node) = node(store, name).cloned() else {
        if !has_finalizers(&pod) {
            store.remove(key);
        }
        return;
    };
    if is_terminating(&pod) {
        if is_out_of_service(&node) && !is_ready(&node) && !has_finalizers(&pod) {
            store.remove(key);
        }
    } else if evicts(&node, &pod["spec"]) {
        store.delete(key, false, false);
    } else if pod["status"]["phase"] == "Running" {
        let silent = store.is_silent(address(&node));
        store.update(key, |pod| set_ready(pod, silent));
    }
}

fn is_out_of_service(node: &Value) -> bool {
    node["spec"]["taints"]
        .as_array()
        .into_iter()
        .flatten()
        .any(|t| t["key"] == OUT_OF_SERVICE)
}

/// A running pod is not Ready while its node is silent.
fn set_ready(pod: &mut Value, silent: bool) {
    for condition in pod["status"]["conditions"]
        .as_array_mut()
        .into_iter()
        .flatten()
    {
        if condition["type"] != "Ready" {
            continue;
        }
        if silent && condition["status"] == "True" {
            (condition["status"], condition["reason"]) = (json!("False"), json!(NODE_NOT_READY));
        } else if !silent && condition["reason"] == NODE_NOT_READY {
            (condition["status"], condition["reason"]) = (json!("True"), json!(""));
        }
    }
}

/// Whether a `NoExecute` taint evicts a pod; the node controller's own taints do not, as pods tolerate them for a while.
pub(super) fn evicts(node: &Value, spec: &Value) -> bool {
    let mut taints = node["spec"]["taints"].as_array().into_iter().flatten();
    taints.any(|t| t["effect"] == "NoExecute" && t["key"] != SILENT && !tolerates(spec, t))
}

//! The objects of a new cluster (system namespaces, roles, DNS, proxy), and those of nodes and bootstrap tokens.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::apply::Owners;
use super::objects::{Key, Store};
use crate::time::now;

const RBAC: &str = "rbac.authorization.k8s.io/v1";

const EDIT_VERBS: &[&str] = &[
    "create",
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "update",
    "watch",
];

/// Creates the system objects and returns their keys.
pub(crate) fn create_system_objects(store: &mut Store) -> BTreeSet<Key> {
    let mut created = BTreeSet::new();
    let mut put = |kind: &str, (namespace, name): (&str, &str), body: Value| {
        let key = Key::new(kind, namespace, name);
        store.put(&key, body, Owners::default());
        created.insert(key);
    };
    for name in ["default", "kube-system", "kube-public", "kube-node-lease"] {
        let body = json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "labels": { "kubernetes.io/metadata.name": name } },
            "spec": { "finalizers": ["kubernetes"] }, "status": { "phase": "Active" } });
        put("namespaces", ("", name), body);
    }
    for (name, verbs) in [
        ("cluster-admin", &["*"][..]),
        ("admin", &["*"]),
        ("edit", EDIT_VERBS),
        ("view", &["get", "list", "watch"]),
    ] {
        let rules = json!([{ "apiGroups": ["*"], "resources": ["*"], "verbs": verbs }]);
        put(
            "clusterroles.rbac.authorization.k8s.io",
            ("", name),
            json!({ "apiVersion": RBAC, "kind": "ClusterRole", "metadata": {}, "rules": rules }),
        );
    }
    let binding = json!({ "apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": {}, "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin" },
        "subjects": [{ "kind": "Group", "name": "system:masters", "apiGroup": "rbac.authorization.k8s.io" }] });
    put(
        "clusterrolebindings.rbac.authorization.k8s.io",
        ("", "cluster-admin"),
        binding,
    );
    let service = json!({ "apiVersion": "v1", "kind": "Service", "metadata": { "labels": { "component": "apiserver" } },
        "spec": { "type": "ClusterIP", "clusterIP": "10.96.0.1", "clusterIPs": ["10.96.0.1"], "ports": [{ "name": "https", "port": 443, "protocol": "TCP", "targetPort": 6443 }] }, "status": { "loadBalancer": {} } });
    put("services", ("default", "kubernetes"), service);
    for name in ["kubeadm-config", "kubelet-config"] {
        let empty = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": {} });
        put("configmaps", ("kube-system", name), empty);
    }
    put(
        "daemonsets.apps",
        ("kube-system", "kube-proxy"),
        workload("DaemonSet", "kube-proxy", json!({})),
    );
    put(
        "deployments.apps",
        ("kube-system", "coredns"),
        workload("Deployment", "coredns", json!({ "replicas": 2 })),
    );
    created
}

fn workload(kind: &str, name: &str, mut spec: Value) -> Value {
    let labels = json!({ "k8s-app": name });
    spec["selector"] = json!({ "matchLabels": labels });
    let mut pod = json!({ "containers": [{ "name": name, "image": format!("registry.k8s.io/{name}:v1") }], "tolerations": [{ "operator": "Exists" }] });
    if kind == "Deployment" {
        pod["tolerations"] =
            json!([{ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }]);
    }
    spec["template"] = json!({ "metadata": { "labels": labels }, "spec": pod });
    json!({ "apiVersion": "apps/v1", "kind": kind, "metadata": { "labels": labels, "generation": 1 }, "spec": spec, "status": {} })
}

/// Registers a node. One that exists keeps its labels, taints and cordon, as with the real kubelet.
pub(crate) fn node(store: &mut Store, (name, address): (&str, &str), control_plane: bool) {
    let number = store.list("nodes", "").count();
    let mut labels = json!({ "kubernetes.io/hostname": name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64" });
    let mut spec = json!({ "podCIDR": format!("10.244.{number}.0/24"), "podCIDRs": [format!("10.244.{number}.0/24")] });
    if control_plane {
        labels["node-role.kubernetes.io/control-plane"] = json!("");
        spec["taints"] =
            json!([{ "key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule" }]);
    }
    let resources = json!({ "cpu": "2", "memory": "4Gi", "pods": "110" });
    let status = json!({ "addresses": [{ "type": "InternalIP", "address": address }, { "type": "Hostname", "address": name }], "capacity": resources, "allocatable": resources,
        "nodeInfo": { "kernelVersion": "6.1.0-43-amd64", "kubeletVersion": "v1.36.2", "containerRuntimeVersion": "containerd://2.2.9", "osImage": "Debian GNU/Linux 12 (bookworm)", "architecture": "amd64", "operatingSystem": "linux" } });
    let body = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "labels": labels }, "spec": spec, "status": status });
    store.set_silent(address, false);
    let key = Key::new("nodes", "", name);
    if store.get(&key).is_some() {
        store.update(&key, |node| node["status"] = body["status"].clone());
    } else {
        store.put(&key, body, Owners::default());
    }
}

/// Creates the secret of a bootstrap token, valid for two hours.
pub(crate) fn bootstrap_token(store: &mut Store, (id, secret): (&str, &str)) {
    let soon = jiff::Timestamp::now().saturating_add(jiff::SignedDuration::from_hours(2));
    let expires = soon.map_or_else(|_| now(), |time| time.to_string());
    let data = json!({ "token-id": STANDARD.encode(id), "token-secret": STANDARD.encode(secret), "expiration": STANDARD.encode(expires),
        "usage-bootstrap-authentication": STANDARD.encode("true"), "usage-bootstrap-signing": STANDARD.encode("true") });
    let body = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": {}, "type": "bootstrap.kubernetes.io/token", "data": data });
    store.put(
        &Key::new("secrets", "kube-system", &format!("bootstrap-token-{id}")),
        body,
        Owners::default(),
    );
}

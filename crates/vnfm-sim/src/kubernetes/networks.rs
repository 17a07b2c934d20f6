//! Stands in for Multus: gives pods the interfaces that they request, in their annotations, before their containers start.
//!
//! The kind `NetworkAttachmentDefinition` is served after [`Cluster::install_networks`]. A network with the annotation
//! `simulated: never` gets no interface, and no report of one, as where Multus does not run on a node.

use serde_json::{Value, json};

use super::Cluster;
use super::objects::{Key, Store};

const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
const STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
const RESOURCE_NAME: &str = "k8s.v1.cni.cncf.io/resourceName";
const KIND: &str = "network-attachment-definitions.k8s.cni.cncf.io";

const ADD_ON: &str = "
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: network-attachment-definitions.k8s.cni.cncf.io}
spec:
  group: k8s.cni.cncf.io
  scope: Namespaced
  names: {kind: NetworkAttachmentDefinition, plural: network-attachment-definitions}
  versions: [{name: v1, served: true, storage: true}]
";

impl Cluster {
    /// Makes the cluster serve `NetworkAttachmentDefinition`, and attach pods to them.
    ///
    /// # Errors
    ///
    /// The server's message if it refuses the definition.
    pub fn install_networks(&self) -> anyhow::Result<()> {
        self.apply(ADD_ON).map(drop)
    }
}

/// A network that a pod requests: its key, and the entry.
type Request = (Key, Value);

/// The networks that a pod requests; none if no Multus reads its annotation.
fn requests(store: &Store, pod: &Key, body: &Value) -> Vec<Request> {
    let text = body["metadata"]["annotations"][NETWORKS].as_str();
    let is_served = store
        .kind("k8s.cni.cncf.io", "v1", "network-attachment-definitions")
        .is_some();
    let Some(text) = text.filter(|text| is_served && !text.is_empty()) else {
        return Vec::new();
    };
    let entries: Vec<Value> = match serde_json::from_str(text) {
        Ok(entries) => entries,
        Err(_) => text.split(',').map(short_entry).collect(),
    };
    let request = |entry: Value| {
        let namespace = entry["namespace"].as_str().unwrap_or(&pod.namespace);
        let name = entry["name"].as_str().unwrap_or_default();
        (Key::new(KIND, namespace, name), entry)
    };
    entries.into_iter().map(request).collect()
}

/// `[NAMESPACE/]NAME[@INTERFACE]`.
fn short_entry(item: &str) -> Value {
    let (network, interface) = item.trim().split_once('@').unwrap_or((item.trim(), ""));
    let (namespace, name) = network.split_once('/').unwrap_or(("", network));
    let mut entry = json!({ "name": name });
    for (member, value) in [("namespace", namespace), ("interface", interface)] {
        if !value.is_empty() {
            entry[member] = json!(value);
        }
    }
    entry
}

/// Why the sandbox of a pod cannot be created.
pub(super) fn problem(store: &Store, pod: &Key, body: &Value) -> Option<String> {
    requests(store, pod, body).into_iter().find_map(|(key, _)| {
        let Some(network) = store.get(&key) else {
            let (name, namespace) = (&key.name, &key.namespace);
            return Some(format!(
                "cannot find a network-attachment-definition ({name}) in namespace ({namespace})"
            ));
        };
        let resource = network["metadata"]["annotations"][RESOURCE_NAME].as_str()?;
        let mut containers = body["spec"]["containers"].as_array().into_iter().flatten();
        let has_it =
            containers.any(|container| !container["resources"]["limits"][resource].is_null());
        (!has_it).then(|| format!("no device of {resource} was allocated to the pod"))
    })
}

/// The report about the interfaces of a pod that starts with this address, the `number`-th pod of the cluster.
pub(super) fn report(
    store: &Store,
    (pod, body): (&Key, &Value),
    (address, number): (&str, u32),
) -> Option<Value> {
    let requests = requests(store, pod, body);
    if requests.is_empty() {
        return None;
    }
    let mut all = vec![
        json!({ "name": "cluster", "interface": "eth0", "ips": [address], "default": true, "dns": {} }),
    ];
    for (index, (key, entry)) in requests.iter().enumerate() {
        let network = store.get(key)?;
        let annotations = &network["metadata"]["annotations"];
        if annotations["simulated"] == "never" {
            continue;
        }
        let (high, low) = (number / 250 % 250, number % 250 + 2);
        let dynamic = json!([format!("10.{}.{high}.{low}", 100 + index % 100)]);
        let without_prefix = |ip: &Value| {
            let ip = ip.as_str().unwrap_or_default();
            json!(ip.split('/').next())
        };
        let ips = entry["ips"].as_array();
        let ips = ips.map(|ips| ips.iter().map(without_prefix).collect::<Value>());
        let mac = format!("02:00:00:{:02x}:{:02x}:{low:02x}", index % 256, high);
        let mac = entry["mac"].as_str().unwrap_or(&mac);
        let interface = format!("net{}", index + 1);
        let interface = entry["interface"].as_str().unwrap_or(&interface);
        let mut one = json!({ "name": format!("{}/{}", key.namespace, key.name), "interface": interface,
            "ips": ips.unwrap_or(dynamic), "mac": mac, "dns": {} });
        if annotations[RESOURCE_NAME].is_string() {
            one["device-info"] = json!({ "type": "pci", "version": "1.1.0", "pci": { "pci-address": format!("0000:18:{low:02x}.{}", index % 8) } });
        }
        all.push(one);
    }
    Some(json!({ STATUS: Value::from(all).to_string() }))
}

//! The annotations by which pods request networks, and by which Multus reports their interfaces.
//!
//! | annotation | content |
//! |---|---|
//! | `k8s.v1.cni.cncf.io/networks` | of a pod template: a JSON list, or `[NAMESPACE/]NAME[@INTERFACE]`, separated by commas |
//! | `v1.multus-cni.io/default-network` | in the same form, the network of the pod's first interface |
//! | `k8s.v1.cni.cncf.io/network-status` | of a pod: its interfaces with their addresses, once they exist |
//!
//! A network is a `NetworkAttachmentDefinition`; without a namespace it is in that of the pod. An entry without an interface
//! gets `net` and its number in the list, from 1. <https://github.com/k8snetworkplumbingwg/multi-net-spec>

use crate::catalog::Target;
use crate::identifiers::{is_label, is_subdomain};
use kube::api::{ApiResource, GroupVersionKind};
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::fmt;
use std::net::IpAddr;

/// API group of networks.
pub(crate) const GROUP: &str = "k8s.cni.cncf.io";
/// `apiVersion` of networks.
pub(crate) const API_VERSION: &str = "k8s.cni.cncf.io/v1";
/// `kind` of networks.
pub(crate) const KIND: &str = "NetworkAttachmentDefinition";
/// Annotation of a pod template: the networks that it requests.
pub(crate) const NETWORKS: &str = "k8s.v1.cni.cncf.io/networks";
/// Annotation of a pod template: the network of its first interface.
pub(crate) const DEFAULT_NETWORK: &str = "v1.multus-cni.io/default-network";
/// Annotation of a pod: its interfaces.
pub(crate) const STATUS: &str = "k8s.v1.cni.cncf.io/network-status";
/// The members of an entry that say which network it is for, and its interface.
const MEMBERS: [&str; 3] = ["name", "namespace", "interface"];
/// Longest name of an interface in Linux.
const MAX_INTERFACE_LEN: usize = 15;
/// Longest hardware address that is read, that of `InfiniBand`.
const MAX_MAC_LEN: usize = 59;

/// A `NetworkAttachmentDefinition`, by namespace and name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct NetworkName {
    /// `None`: that of the pods.
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
}

impl NetworkName {
    /// Reads `NAMESPACE/NAME` or `NAME`; `None` if no object can have that name.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = match text.split_once('/') {
            Some((namespace, name)) => (Some(namespace), name),
            None => (None, text),
        };
        let is_valid = namespace.is_none_or(is_label) && is_subdomain(name);
        is_valid.then(|| Self {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        })
    }

    /// The object on the cluster.
    pub(crate) fn target(&self) -> Target {
        let kind = GroupVersionKind::gvk(GROUP, "v1", KIND);
        Target {
            resource: ApiResource::from_gvk_with_plural(&kind, "network-attachment-definitions"),
            namespace: self.namespace.clone(),
            name: self.name.clone(),
        }
    }

    /// The same network as pods in `namespace` see it.
    pub(crate) fn seen_from(&self, namespace: &str) -> Self {
        let own = || namespace.to_owned();
        Self {
            namespace: Some(self.namespace.clone().unwrap_or_else(own)),
            name: self.name.clone(),
        }
    }
}

impl fmt::Display for NetworkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(namespace) = &self.namespace {
            write!(f, "{namespace}/")?;
        }
        f.write_str(&self.name)
    }
}

/// A network that a pod requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Selection {
    /// With its namespace.
    pub(crate) network: NetworkName,
    /// The name of the interface in the pod.
    pub(crate) interface: String,
    /// The entry as an element of the JSON list.
    pub(crate) entry: Map<String, Value>,
}

/// The networks that an annotation of pods in `namespace` requests, in their order.
///
/// # Errors
///
/// Why Multus could not read it.
pub(crate) fn selections(text: &str, namespace: &str) -> Result<Vec<Selection>, String> {
    let text = text.trim();
    let entries: Vec<Map<String, Value>> = if text.is_empty() {
        Vec::new()
    } else if text.contains(['[', '{', '"']) {
        serde_json::from_str(text).map_err(|error| format!("it is no list of objects: {error}"))?
    } else {
        let items = text.split(',').map(|item| short_entry(item.trim()));
        items.collect::<Result<_, String>>()?
    };
    let entries = entries.into_iter().enumerate();
    let selections = entries.map(|(index, entry)| selection(index, entry, namespace));
    selections.collect()
}

/// An entry of the form `[NAMESPACE/]NAME[@INTERFACE]`.
fn short_entry(item: &str) -> Result<Map<String, Value>, String> {
    let (network, interface) = match item.split_once('@') {
        Some((network, interface)) => (network, Some(interface)),
        None => (item, None),
    };
    let network = NetworkName::parse(network)
        .ok_or_else(|| format!("`{item}` is not of the form `[NAMESPACE/]NAME[@INTERFACE]`"))?;
    let mut entry = Map::from_iter([("name".to_owned(), network.name.into())]);
    if let Some(namespace) = network.namespace {
        entry.insert("namespace".to_owned(), namespace.into());
    }
    if let Some(interface) = interface {
        entry.insert("interface".to_owned(), interface.into());
    }
    Ok(entry)
}

fn selection(
    index: usize,
    entry: Map<String, Value>,
    namespace: &str,
) -> Result<Selection, String> {
    // Multus compares names of members without their case, by Unicode's folding: `nameſpace` is one of them.
    let folded = |key: &String| key.to_uppercase().to_lowercase();
    let is_other = |key: &&String| MEMBERS.contains(&&*folded(key)) && folded(key) != **key;
    if let Some(key) = entry.keys().find(is_other) {
        return Err(format!(
            "entry {} has `{key}`, not `{}`",
            index + 1,
            folded(key)
        ));
    }
    let text = |member: &str| {
        let text = entry.get(member).and_then(Value::as_str);
        text.filter(|text| !text.is_empty())
    };
    let name = text("name").ok_or_else(|| format!("entry {} has no `name`", index + 1))?;
    let interface = match text("interface") {
        Some(interface) if !is_interface(interface) => {
            return Err(format!(
                "`{interface}` is no name of an interface: at most {MAX_INTERFACE_LEN} characters without spaces and `/`"
            ));
        }
        Some(interface) => interface.to_owned(),
        None => format!("net{}", index + 1),
    };
    let network = NetworkName {
        namespace: Some(text("namespace").unwrap_or(namespace).to_owned()),
        name: name.to_owned(),
    };
    Ok(Selection {
        network,
        interface,
        entry,
    })
}

fn is_interface(name: &str) -> bool {
    (1..=MAX_INTERFACE_LEN).contains(&name.len())
        && !name.contains(['/', ' '])
        && !name.contains(char::is_control)
}

/// An interface of a pod, as Multus reports it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    /// Unique in the pod. How its network is named depends on the version of Multus, so that is not read.
    pub(crate) name: String,
    /// IP addresses without a prefix length.
    pub(crate) ips: Vec<String>,
    pub(crate) mac: Option<String>,
    /// PCI address of its device, such as `0000:18:02.5` of a virtual function.
    pub(crate) pci_address: Option<String>,
}

/// The interfaces that the annotations of a pod report; what is malformed is left out.
pub(crate) fn interfaces(annotations: &BTreeMap<String, String>) -> Vec<Interface> {
    let reported = annotations.get(STATUS).map_or("", String::as_str);
    let reported: Vec<Value> = serde_json::from_str(reported).unwrap_or_default();
    let text = |one: &Value, path: &str| {
        let text = one.pointer(path).and_then(Value::as_str);
        text.unwrap_or_default().to_owned()
    };
    let is_mac = |mac: &String| {
        (1..=MAX_MAC_LEN).contains(&mac.len())
            && mac.chars().all(|c| c.is_ascii_hexdigit() || c == ':')
    };
    let is_pci = |address: &String| {
        (1..=MAX_INTERFACE_LEN).contains(&address.len())
            && address
                .chars()
                .all(|c| c.is_ascii_hexdigit() || c == ':' || c == '.')
    };
    let interface = |one: &Value| {
        let ips = one["ips"].as_array().into_iter().flatten();
        let ips = ips.filter_map(|ip| ip_address(ip.as_str()?));
        Some(Interface {
            name: Some(text(one, "/interface")).filter(|name| is_interface(name))?,
            ips: ips.map(|ip| ip.to_string()).collect(),
            mac: Some(text(one, "/mac")).filter(is_mac),
            pci_address: Some(text(one, "/device-info/pci/pci-address")).filter(is_pci),
        })
    };
    reported.iter().filter_map(interface).collect()
}

/// An IP address that may have a prefix length, without it.
pub(crate) fn ip_address(text: &str) -> Option<IpAddr> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address: IpAddr = address.parse().ok()?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let fits = |prefix: &str| prefix.parse::<u8>().is_ok_and(|length| length <= longest);
    prefix.is_none_or(fits).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn both_forms_of_the_annotation_are_read() {
        let names = |text: &str| {
            let all = selections(text, "own").unwrap().into_iter();
            all.map(|one| format!("{} {}", one.network, one.interface))
                .collect::<Vec<_>>()
        };
        assert_eq!(names(""), Vec::<String>::new());
        assert_eq!(
            names("oam, other/data@data0,x"),
            ["own/oam net1", "other/data data0", "own/x net3"]
        );
        let list = json!([{"name": "oam", "ips": ["10.0.0.1"]}, {"name": "data", "namespace": "other", "interface": "data0"}]);
        assert_eq!(
            names(&list.to_string()),
            ["own/oam net1", "other/data data0"]
        );
    }

    #[test]
    fn an_annotation_that_multus_cannot_read_is_an_error() {
        for (text, expected) in [
            ("a/b/c", "`a/b/c` is not of the form"),
            ("Upper", "`Upper` is not of the form"),
            ("[{\"name\": 1}]", "entry 1 has no `name`"),
            ("{\"name\": \"a\"}", "it is no list of objects"),
            ("[{\"Name\": \"a\"}]", "entry 1 has `Name`, not `name`"),
            ("a@much-too-long-a-name", "is no name of an interface"),
        ] {
            let error = selections(text, "own").unwrap_err();
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn a_hostile_status_yields_only_valid_values() {
        let read = |status: &Value| {
            interfaces(
                &[(STATUS.to_owned(), status.to_string())]
                    .into_iter()
                    .collect(),
            )
        };
        let status = json!([
            {"name": "own/oam", "interface": "net1", "ips": ["10.0.0.7", "<script>", 7], "mac": "02:00:00:00:00:01",
             "device-info": {"type": "pci", "pci": {"pci-address": "0000:18:02.5"}}},
            {"name": "own/x", "interface": "a name\nof two lines", "ips": ["10.0.0.8"]},
            {"name": "own/y", "interface": "net3", "mac": "x".repeat(1000)},
            "net4",
        ]);
        let expected = Interface {
            name: "net1".into(),
            ips: vec!["10.0.0.7".into()],
            mac: Some("02:00:00:00:00:01".into()),
            pci_address: Some("0000:18:02.5".into()),
        };
        let third = Interface {
            name: "net3".into(),
            ..Interface::default()
        };
        assert_eq!(read(&status), [expected, third]);
        assert_eq!(read(&json!({"not": "a list"})), []);
    }

    #[test]
    fn addresses_may_have_a_prefix_length() {
        for (text, fits) in [
            ("10.0.0.1", true),
            ("10.0.0.1/24", true),
            ("fd00::1/64", true),
            ("10.0.0.1/33", false),
            ("10.0.0.1/", false),
            ("10.0.0", false),
        ] {
            assert_eq!(ip_address(text).is_some(), fits, "{text}");
        }
    }
}

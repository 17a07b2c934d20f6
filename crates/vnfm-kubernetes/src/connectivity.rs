//! The connection points of pods, and the virtual links that they are on, as SOL003 shows them.
//!
//! ```text
//! Pod ── podIPs ────────────────────────────── the first CP of its VDU that no network is attached to
//!   └─ annotation network-status ── interface ── VnfcCpInfo ── internal link: VnfLinkPortInfo
//!        (what Multus reports)                      └───────── external link: VnfExtCpInfo, ExtLinkPortInfo
//! ```
//! An interface belongs to a connection point if the pod requests its network: so a pod that is still on another network has
//! no such connection point. A port has no object of its own on the cluster: its handle is `POD/INTERFACE`.

use crate::attachments::{self, Attachment, Link, OwnNetworks, Pods};
use crate::catalog::core;
use crate::client::Session;
use crate::errors::NOT_READY;
use crate::labels;
use crate::network_annotations::{
    Interface, KIND, NETWORKS, Selection, interfaces, ip_address, selections,
};
use crate::status::text;
use crate::watch::{Feed, ObjectCache, Verdict, WaitEnd, watch_until};
use kube::api::DynamicObject;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::Deployment;
use vnfm_core::ports::{Allocation, Inventory, PortError, VimCall};
use vnfm_descriptor::Flavour;
use vnfm_types::{
    CpProtocolInfo, ExtLinkPortInfo, ExtManagedVirtualLinkInfo, ExtVirtualLinkInfo,
    IpAddressesInfo, IpOverEthernetAddressInfo, ResourceHandle, VnfExtCpInfo, VnfLinkPortInfo,
    VnfVirtualLinkResourceInfo, VnfcCpInfo, VnfcResourceInfo,
};

/// The VDU of a VNFC, and its pod.
pub(crate) type VduPod = (String, DynamicObject);

/// The links of an instance, which get the ports of its pods one after the other.
pub(crate) struct Connectivity<'a> {
    vim_connection_id: &'a str,
    deployment: &'a Deployment,
    flavour: &'a Flavour,
    attachments: Vec<Attachment>,
    ext_cps: Vec<VnfExtCpInfo>,
    ext_links: Vec<ExtVirtualLinkInfo>,
    managed: Vec<ExtManagedVirtualLinkInfo>,
    links: BTreeMap<String, VnfVirtualLinkResourceInfo>,
}

impl<'a> Connectivity<'a> {
    /// The links of an instance with these pods, without ports.
    pub(crate) fn new(
        cx: &VimCall<'a>,
        allocation: &'a Allocation,
        flavour: &'a Flavour,
        pods: &[VduPod],
    ) -> Self {
        let mut own = OwnNetworks::new();
        for (_, pod) in pods {
            for one in requested_networks(pod.metadata.annotations.as_ref(), namespace(pod)) {
                own.insert(one.network.name, one.network.namespace);
            }
        }
        // What a later version refuses was attached by an earlier one: it is observed without its connection points.
        let attachments = attachments::attachments(allocation, &own).unwrap_or_default();
        let mut found = Self {
            vim_connection_id: cx.vim.connection_id(),
            deployment: &allocation.deployment,
            flavour,
            attachments,
            ext_cps: Vec::new(),
            ext_links: Vec::new(),
            managed: Vec::new(),
            links: BTreeMap::new(),
        };
        found.ext_links = found.ext_links();
        found.managed = found.managed_links();
        found
    }

    fn ext_links(&self) -> Vec<ExtVirtualLinkInfo> {
        let links = self.deployment.ext_virtual_links.iter();
        let link = |link: &vnfm_types::ExtVirtualLinkData| ExtVirtualLinkInfo {
            id: link.id.clone(),
            // It may be no network of pods, if only Services are on it.
            resource_handle: ResourceHandle {
                vim_level_resource_type: None,
                ..self.handle(&link.resource_id, KIND)
            },
            ext_link_ports: Vec::new(),
            current_vnf_ext_cp_data: link.ext_cps.clone(),
        };
        links.map(link).collect()
    }

    fn managed_links(&self) -> Vec<ExtManagedVirtualLinkInfo> {
        let granted = &self.deployment.placement;
        let link = |(link, network): (&String, &String)| ExtManagedVirtualLinkInfo {
            id: granted.managed_link_ids.get(link).unwrap_or(link).clone(),
            vnf_virtual_link_desc_id: link.clone(),
            network_resource: self.handle(network, KIND),
            vnf_link_ports: Vec::new(),
        };
        granted.managed_links.iter().map(link).collect()
    }

    fn handle(&self, id: &str, kind: &str) -> ResourceHandle {
        ResourceHandle {
            vim_connection_id: Some(self.vim_connection_id.to_owned()),
            resource_id: id.to_owned(),
            vim_level_resource_type: Some(kind.to_owned()),
            ..ResourceHandle::default()
        }
    }

    /// Adds the connection points of a pod to its VNFC, and their ports to the links.
    pub(crate) fn connect(&mut self, vnfc: &mut VnfcResourceInfo, (vdu, pod): &VduPod) {
        let annotations = pod.metadata.annotations.as_ref();
        let mut requested = requested_networks(annotations, namespace(pod));
        let reported = annotations.map(interfaces).unwrap_or_default();
        let own = self.attachments.iter().filter(|one| is_of(&one.pods, vdu));
        let own: Vec<Attachment> = own.cloned().collect();
        let mut names: Vec<String> = self
            .flavour
            .cps_of(vdu)
            .iter()
            .map(|cp| cp.name.clone())
            .collect();
        let others = own
            .iter()
            .map(|one| &one.cpd)
            .filter(|cpd| !names.contains(cpd));
        let others: Vec<String> = others.cloned().collect();
        names.extend(others);
        let pod_ips = pod_ips(&pod.data);
        let mut has_own = pod_ips.is_empty();
        for name in names {
            let cp = VnfcCpInfo {
                id: format!("{}-{name}", vnfc.id),
                cpd_id: name.clone(),
                ..VnfcCpInfo::default()
            };
            let mut attached = own.iter().filter(|one| one.cpd == name).peekable();
            if attached.peek().is_none() && !has_own {
                has_own = true;
                vnfc.vnfc_cp_info.push(VnfcCpInfo {
                    cp_protocol_info: vec![protocol_info(&pod_ips)],
                    ..cp
                });
                continue;
            }
            for (number, one) in attached.enumerate() {
                let Some(selection) = take_selection(&mut requested, one, namespace(pod)) else {
                    continue;
                };
                let mut cp = cp.clone();
                if number > 0 {
                    cp.id = format!("{}-{}", cp.id, selection.interface);
                }
                fill(&mut cp, &selection, find_interface(&reported, &selection));
                let pod = &vnfc.compute_resource.resource_id;
                self.add_port(&mut cp, one, (pod, &selection));
                vnfc.vnfc_cp_info.push(cp);
            }
        }
    }

    /// Adds the port of a connection point to its link.
    fn add_port(
        &mut self,
        cp: &mut VnfcCpInfo,
        one: &Attachment,
        (pod, selection): (&str, &Selection),
    ) {
        let port = format!("port-{}", cp.id);
        let handle = self.handle(&format!("{pod}/{}", selection.interface), "Pod");
        let network = self.handle(&selection.network.to_string(), KIND);
        let link_port = VnfLinkPortInfo {
            id: port.clone(),
            resource_handle: handle.clone(),
            cp_instance_id: Some(cp.id.clone()),
            cp_instance_type: Some("VNFC_CP".to_owned()),
        };
        match &one.link {
            Link::External { id, config } => {
                let external = format!("ext-{}", cp.id);
                cp.vnf_ext_cp_id = Some(external.clone());
                self.ext_cps.push(VnfExtCpInfo {
                    id: external.clone(),
                    cpd_id: cp.cpd_id.clone(),
                    cp_config_id: config.clone(),
                    cp_protocol_info: cp.cp_protocol_info.clone(),
                    ext_link_port_id: Some(port.clone()),
                    metadata: cp.metadata.clone(),
                    associated_vnfc_cp_id: Some(cp.id.clone()),
                });
                if let Some(link) = self.ext_links.iter_mut().find(|link| link.id == *id) {
                    link.resource_handle = network;
                    link.ext_link_ports.push(ExtLinkPortInfo {
                        id: port,
                        resource_handle: handle,
                        cp_instance_id: Some(external),
                    });
                }
            }
            Link::Managed(name) => {
                let mut links = self.managed.iter_mut();
                if let Some(link) = links.find(|link| link.vnf_virtual_link_desc_id == *name) {
                    cp.vnf_link_port_id = Some(port);
                    link.network_resource = network;
                    link.vnf_link_ports.push(link_port);
                }
            }
            Link::Internal(name) => {
                let link = self.links.entry(name.clone()).or_default();
                cp.vnf_link_port_id = Some(port);
                link.id.clone_from(name);
                link.vnf_virtual_link_desc_id.clone_from(name);
                link.network_resource = network;
                link.vnf_link_ports.push(link_port);
            }
        }
    }

    /// Adds links and external connection points to the inventory.
    pub(crate) fn add_to(self, inventory: &mut Inventory) {
        inventory.ext_cp_info.extend(self.ext_cps);
        inventory.ext_virtual_link_info = self.ext_links;
        inventory.ext_managed_virtual_link_info = self.managed;
        inventory.vnf_virtual_link_resource_info = self.links.into_values().collect();
    }
}

fn is_of(pods: &Pods, vdu: &str) -> bool {
    match pods {
        Pods::Any => true,
        Pods::Vdu(name) | Pods::Workload(name) => name == vdu,
    }
}

fn namespace(pod: &DynamicObject) -> &str {
    pod.metadata.namespace.as_deref().unwrap_or_default()
}

fn requested_networks(
    annotations: Option<&BTreeMap<String, String>>,
    namespace: &str,
) -> Vec<Selection> {
    let text = annotations.and_then(|annotations| annotations.get(NETWORKS));
    let text = text.map_or("", String::as_str);
    selections(text, namespace).unwrap_or_default()
}

/// Takes the pod's first entry for the network of an attachment.
fn take_selection(
    requested: &mut Vec<Selection>,
    one: &Attachment,
    namespace: &str,
) -> Option<Selection> {
    let network = one.network.seen_from(namespace);
    let at = requested
        .iter()
        .position(|selection| selection.network == network)?;
    Some(requested.remove(at))
}

/// The interface that Multus made for an entry.
fn find_interface<'i>(reported: &'i [Interface], selection: &Selection) -> Option<&'i Interface> {
    reported.iter().find(|one| one.name == selection.interface)
}

/// The addresses of a connection point, as far as they are reported.
fn fill(cp: &mut VnfcCpInfo, selection: &Selection, interface: Option<&Interface>) {
    let metadata = json!({
        "interface": selection.interface,
        "network": selection.network.to_string(),
        "pciAddress": interface.and_then(|one| one.pci_address.clone()),
    });
    cp.metadata = without_nulls(metadata);
    let ips = interface.map_or(&[] as &[String], |one| &one.ips);
    let mut protocol = protocol_info(ips);
    let stated = selection.entry.get("ips").and_then(Value::as_array);
    let fixed = stated
        .into_iter()
        .flatten()
        .filter_map(|ip| ip_address(ip.as_str()?));
    let fixed: BTreeSet<String> = fixed.map(|ip| ip.to_string()).collect();
    if let Some(ethernet) = &mut protocol.ip_over_ethernet {
        ethernet.mac_address = interface.and_then(|one| one.mac.clone());
        for group in &mut ethernet.ip_addresses {
            group.is_dynamic = Some(!group.addresses.iter().all(|ip| fixed.contains(ip)));
        }
    }
    cp.cp_protocol_info = vec![protocol];
}

/// The members that are not null.
pub(crate) fn without_nulls(value: Value) -> vnfm_types::KeyValuePairs {
    let Value::Object(members) = value else {
        return vnfm_types::KeyValuePairs::new();
    };
    members
        .into_iter()
        .filter(|(_, member)| !member.is_null())
        .collect()
}

/// The addresses of a pod's own interface.
pub(crate) fn pod_ips(pod: &Value) -> Vec<String> {
    let several = pod
        .pointer("/status/podIPs")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    let several: Vec<String> = several
        .map(|ip| text(ip, "/ip").to_owned())
        .filter(|ip| !ip.is_empty())
        .collect();
    let one = text(pod, "/status/podIP");
    if several.is_empty() && !one.is_empty() {
        vec![one.to_owned()]
    } else {
        several
    }
}

/// Addresses by IP version.
pub(crate) fn protocol_info(addresses: &[String]) -> CpProtocolInfo {
    let group = |type_: &str, is_v6: bool| {
        let addresses: Vec<String> = addresses
            .iter()
            .filter(|address| address.contains(':') == is_v6)
            .cloned()
            .collect();
        (!addresses.is_empty()).then(|| IpAddressesInfo {
            type_: type_.to_owned(),
            addresses,
            is_dynamic: Some(true),
            subnet_id: None,
        })
    };
    CpProtocolInfo {
        layer_protocol: "IP_OVER_ETHERNET".to_owned(),
        ip_over_ethernet: Some(IpOverEthernetAddressInfo {
            ip_addresses: group("IPV4", false)
                .into_iter()
                .chain(group("IPV6", true))
                .collect(),
            ..IpOverEthernetAddressInfo::default()
        }),
    }
}

/// Waits until Multus reports the interfaces of all pods that request one of these networks. It does so before the
/// containers of a pod start, so this waits only where it does not work.
///
/// # Errors
///
/// The API server's error, or which pod has no interface at the deadline.
pub(crate) async fn wait_until_attached(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    namespaces: &BTreeSet<String>,
    attachments: &[Attachment],
) -> Result<(), PortError> {
    let networks: BTreeSet<String> = attachments
        .iter()
        .map(|one| one.network.to_string())
        .collect();
    if networks.is_empty() {
        return Ok(());
    }
    let selector = labels::selector(cx.ownership);
    let pods = core("Pod", "pods");
    let feeds = namespaces.iter();
    let feeds: Vec<Feed> = feeds
        .map(|namespace| Feed::labelled(&pods, Some(namespace), &selector))
        .collect();
    let check = |cache: &ObjectCache| match cache.all("Pod").find_map(|pod| lacking(pod, &networks))
    {
        None => Verdict::Done(()),
        Some(reason) => Verdict::NotYet(reason),
    };
    match watch_until(cx, session, &feeds, check).await? {
        WaitEnd::Done(()) => Ok(()),
        WaitEnd::Expired { reason, .. } => {
            let action = "wait until the pods are attached to their networks";
            let hint = "check that Multus runs on the nodes; its log, and events of the pod, say why it made no interface";
            Err(PortError::new(&NOT_READY, action, format!("at the deadline: {reason}")).hint(hint))
        }
    }
}

/// The interface that Multus has not reported for a pod that runs.
fn lacking(pod: &Value, networks: &BTreeSet<String>) -> Option<String> {
    let ended = matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    if ended || pod.pointer("/metadata/deletionTimestamp").is_some() {
        return None;
    }
    let annotations = pod
        .pointer("/metadata/annotations")
        .and_then(Value::as_object);
    let annotations = annotations.into_iter().flatten();
    let annotations: BTreeMap<String, String> = annotations
        .filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned())))
        .collect();
    let reported = interfaces(&annotations);
    let requested = requested_networks(Some(&annotations), text(pod, "/metadata/namespace"));
    let mut requested = requested.iter();
    let missing = requested.find(|one| {
        networks.contains(&one.network.to_string()) && find_interface(&reported, one).is_none()
    })?;
    let (name, interface) = (text(pod, "/metadata/name"), &missing.interface);
    let network = &missing.network;
    Some(format!(
        "Multus reports no interface `{interface}` of pod `{name}` on the network `{network}`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_grouped_by_ip_version() {
        let pod = json!({"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}});
        let protocol = protocol_info(&pod_ips(&pod));
        let found: Vec<(String, Vec<String>)> = protocol
            .ip_over_ethernet
            .unwrap()
            .ip_addresses
            .into_iter()
            .map(|of| (of.type_, of.addresses))
            .collect();
        assert_eq!(
            found,
            [
                ("IPV4".to_owned(), vec!["10.0.0.1".to_owned()]),
                ("IPV6".to_owned(), vec!["fd00::1".to_owned()])
            ]
        );
        assert_eq!(
            pod_ips(&json!({"status": {"podIP": "10.0.0.1"}})),
            ["10.0.0.1"]
        );
        assert!(pod_ips(&json!({"status": {}})).is_empty());
    }
}

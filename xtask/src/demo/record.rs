//! What the record of an instance (`vnfmctl vnf show`) says: one line for the eye, and one fact per resource, which the
//! neighbour must report alike.

use std::collections::{BTreeMap, BTreeSet};

use vnfm_types::{InstantiatedVnfInfo, VnfInstance, VnfcResourceInfo};

/// Type of a VNFC that is a server.
const SERVER: &str = "OS::Nova::Server";
/// In the metadata of a stopped VNFC: its state.
const VNFC_STATE: &str = "vnfcState";

/// Release, flavour, state, levels, size and links, such as `1.0 simple, STARTED, clients 1, load 0, 3 web, 2 worker`.
/// `networks` are their names, by id.
pub(crate) fn summary(instance: &VnfInstance, networks: &BTreeMap<String, String>) -> String {
    let Some(info) = &instance.instantiated_vnf_info else {
        return "NOT_INSTANTIATED".to_owned();
    };
    let state = serde_json::to_value(info.vnf_state).unwrap_or_default();
    let state = state.as_str().unwrap_or_default().to_owned();
    let release = &instance.vnf_software_version;
    let mut parts = vec![format!("{release} {}", info.flavour_id), state];
    let levels = info.scale_status.iter();
    parts.extend(levels.map(|level| format!("{} {}", level.aspect_id, level.scale_level)));
    let mut sizes: BTreeMap<&str, usize> = BTreeMap::new();
    for vnfc in &info.vnfc_resource_info {
        *sizes.entry(&vnfc.vdu_id).or_default() += 1;
    }
    parts.extend(sizes.iter().map(|(vdu, count)| format!("{count} {vdu}")));
    let links = info.ext_virtual_link_info.iter();
    parts.extend(links.map(|link| {
        let network = &link.resource_handle.resource_id;
        format!(
            "{} on {}",
            link.id,
            networks.get(network).unwrap_or(network)
        )
    }));
    let site = instance.metadata.get("site");
    parts.extend(site.map(|site| format!("site {site}")));
    parts.join(", ")
}

/// The servers with their states and addresses, the ports with their networks, the internal networks; or the pods.
pub(crate) fn facts(instance: &VnfInstance) -> BTreeSet<String> {
    let Some(info) = &instance.instantiated_vnf_info else {
        return BTreeSet::new();
    };
    let mut facts = ports(info);
    for vnfc in &info.vnfc_resource_info {
        let id = &vnfc.compute_resource.resource_id;
        if vnfc.compute_resource.vim_level_resource_type.as_deref() != Some(SERVER) {
            facts.insert(format!("pod {id}"));
            continue;
        }
        let is_stopped = vnfc
            .metadata
            .get(VNFC_STATE)
            .is_some_and(|s| s == "STOPPED");
        let state = if is_stopped { "SHUTOFF" } else { "ACTIVE" };
        facts.insert(format!("server {id} {state}"));
        facts.extend(addresses(vnfc).map(|address| format!("address {address} of server {id}")));
    }
    let volumes = info.virtual_storage_resource_info.iter();
    facts.extend(volumes.map(|one| format!("volume {}", one.storage_resource.resource_id)));
    facts
}

fn ports(info: &InstantiatedVnfInfo) -> BTreeSet<String> {
    let mut facts = BTreeSet::new();
    for link in &info.ext_virtual_link_info {
        let network = &link.resource_handle.resource_id;
        let ports = link.ext_link_ports.iter().map(|port| &port.resource_handle);
        facts.extend(ports.map(|port| format!("port {} on {network}", port.resource_id)));
    }
    for link in &info.vnf_virtual_link_resource_info {
        let network = &link.network_resource.resource_id;
        facts.insert(format!("network {network}"));
        let ports = link.vnf_link_ports.iter().map(|port| &port.resource_handle);
        facts.extend(ports.map(|port| format!("port {} on {network}", port.resource_id)));
    }
    facts
}

fn addresses(vnfc: &VnfcResourceInfo) -> impl Iterator<Item = &String> {
    let protocols = vnfc.vnfc_cp_info.iter().flat_map(|cp| &cp.cp_protocol_info);
    let groups = protocols
        .filter_map(|protocol| protocol.ip_over_ethernet.as_ref())
        .flat_map(|ethernet| &ethernet.ip_addresses);
    groups.flat_map(|group| &group.addresses)
}

/// The first address of a VNFC of this VDU on an external connection point.
pub(crate) fn external_address(instance: &VnfInstance, vdu: &str) -> Option<String> {
    let info = instance.instantiated_vnf_info.as_ref()?;
    let mut vnfcs = info.vnfc_resource_info.iter();
    let cps = vnfcs.find(|vnfc| vnfc.vdu_id == vdu)?.vnfc_cp_info.iter();
    let mut external = cps.filter(|cp| cp.vnf_ext_cp_id.is_some());
    let ethernet = external
        .find_map(|cp| cp.cp_protocol_info.first())?
        .ip_over_ethernet
        .as_ref()?;
    ethernet.ip_addresses.first()?.addresses.first().cloned()
}

/// The VNFCs by id, with their VDU.
pub(crate) fn vnfcs(instance: &VnfInstance) -> BTreeMap<String, String> {
    let info = instance.instantiated_vnf_info.iter();
    let all = info.flat_map(|info| &info.vnfc_resource_info);
    all.map(|vnfc| (vnfc.id.clone(), vnfc.vdu_id.clone()))
        .collect()
}

/// The id of the last VNFC.
pub(crate) fn last_vnfc(instance: &VnfInstance) -> Option<String> {
    let info = instance.instantiated_vnf_info.as_ref()?;
    info.vnfc_resource_info.last().map(|vnfc| vnfc.id.clone())
}

/// The neighbour's id of a VNFC.
pub(crate) fn resource_of<'a>(instance: &'a VnfInstance, vnfc: &str) -> Option<&'a String> {
    let info = instance.instantiated_vnf_info.as_ref()?;
    let mut vnfcs = info.vnfc_resource_info.iter();
    let vnfc = vnfcs.find(|one| one.id == vnfc)?;
    Some(&vnfc.compute_resource.resource_id)
}

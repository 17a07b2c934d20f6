//! `resourceChanges` (SOL003 5.5.2.13) from the inventories before and after an operation.
//!
//! We neither create nor delete an externally managed link; only its ports come and go. Ports that come or go together
//! with an internal link are listed in addition to the link.

use crate::deployment::Deployment;
use crate::ports::{InstanceRecord, Inventory};
use std::collections::BTreeSet;
use vnfm_types::VnfOperationalState::Stopped;
use vnfm_types::{
    AffectedExtLinkPort, AffectedVirtualLink, AffectedVirtualStorage, AffectedVnfc, ChangeType,
    ExtVirtualLinkInfo, ResourceChanges, ResourceHandle, VnfLinkPortInfo, VnfcResourceInfo,
};

/// The current resources of an instance; empty if it is NOT_INSTANTIATED.
pub(crate) fn inventory(instance: &InstanceRecord) -> Inventory {
    let Some(info) = instance.vnf.instantiated_vnf_info.clone() else {
        return Inventory::default();
    };
    Inventory {
        vnfc_resource_info: info.vnfc_resource_info,
        ext_cp_info: info.ext_cp_info,
        ext_virtual_link_info: info.ext_virtual_link_info,
        ext_managed_virtual_link_info: info.ext_managed_virtual_link_info,
        vnf_virtual_link_resource_info: info.vnf_virtual_link_resource_info,
        virtual_storage_resource_info: info.virtual_storage_resource_info,
    }
}

/// Metadata member of a VNFC that should not run, as `vnfcState` in SOL002.
const STATE_MEMBER: &str = "vnfcState";

/// Shows which VNFCs should not run.
pub(super) fn show_states(vnfcs: &mut [VnfcResourceInfo], deployment: &Deployment) {
    for vnfc in vnfcs {
        if deployment.state_of(&vnfc.id) == Stopped {
            let state = Stopped.as_str().into();
            vnfc.metadata.insert(STATE_MEMBER.to_owned(), state);
        } else {
            vnfc.metadata.remove(STATE_MEMBER);
        }
    }
}

/// All of `inventory` as added.
pub(crate) fn added(inventory: &Inventory) -> ResourceChanges {
    between(&Inventory::default(), inventory)
}

/// All of `inventory` as removed.
pub(crate) fn removed(inventory: &Inventory) -> ResourceChanges {
    between(inventory, &Inventory::default())
}

/// These VNFCs as modified: they keep their resources.
pub(crate) fn modified<'v>(
    vnfcs: impl Iterator<Item = &'v VnfcResourceInfo>,
) -> impl Iterator<Item = AffectedVnfc> {
    vnfcs.map(|vnfc| AffectedVnfc {
        id: vnfc.id.clone(),
        vdu_id: vnfc.vdu_id.clone(),
        change_type: ChangeType::Modified,
        compute_resource: vnfc.compute_resource.clone(),
        affected_vnfc_cp_ids: Vec::new(),
        added_storage_resource_ids: Vec::new(),
        removed_storage_resource_ids: Vec::new(),
        metadata: vnfc.metadata.clone(),
    })
}

/// What was removed and added between two inventories. Entries with the same id in both are unchanged.
pub(crate) fn between(before: &Inventory, after: &Inventory) -> ResourceChanges {
    let mut changes = all(&without(before, after), ChangeType::Removed);
    let added = all(&without(after, before), ChangeType::Added);
    changes.affected_vnfcs.extend(added.affected_vnfcs);
    let links = &mut changes.affected_virtual_links;
    links.extend(added.affected_virtual_links);
    links.extend(ports_only_in(before, after, ChangeType::LinkPortRemoved));
    links.extend(ports_only_in(after, before, ChangeType::LinkPortAdded));
    changes
        .affected_ext_link_ports
        .extend(added.affected_ext_link_ports);
    changes
        .affected_virtual_storages
        .extend(added.affected_virtual_storages);
    changes
}

/// As [`between`], with the VNFCs that exist in both but differ: other CPs, another size or another image.
pub(crate) fn with_modified(before: &Inventory, after: &Inventory) -> ResourceChanges {
    let mut changes = between(before, after);
    for vnfc in &after.vnfc_resource_info {
        let first = before.vnfc_resource_info.iter();
        let Some(first) = first.into_iter().find(|first| first.id == vnfc.id) else {
            continue;
        };
        let cps = changed_cps(first, vnfc);
        let flavor = |vnfc: &VnfcResourceInfo| vnfc.metadata.get("flavor").cloned();
        // Records of earlier versions have no image.
        let image = |vnfc: &VnfcResourceInfo| vnfc.metadata.get("image").cloned();
        let is_rebuilt = image(first).is_some() && image(first) != image(vnfc);
        if cps.is_empty() && flavor(first) == flavor(vnfc) && !is_rebuilt {
            continue;
        }
        let modified = modified(std::iter::once(vnfc)).map(|affected| AffectedVnfc {
            affected_vnfc_cp_ids: cps.clone(),
            ..affected
        });
        changes.affected_vnfcs.extend(modified);
    }
    changes
}

/// Ids of the CPs that only one of the two has, or that differ.
fn changed_cps(before: &VnfcResourceInfo, after: &VnfcResourceInfo) -> Vec<String> {
    let only_in = |one: &VnfcResourceInfo, other: &VnfcResourceInfo| {
        let cps = one.vnfc_cp_info.iter();
        let cps = cps.filter(|cp| !other.vnfc_cp_info.contains(cp));
        cps.map(|cp| cp.id.clone()).collect::<BTreeSet<_>>()
    };
    let changed = &only_in(before, after) | &only_in(after, before);
    changed.into_iter().collect()
}

/// The external links of `after` that differ from `before`; one without ports and CPs for each that is no longer used.
pub(crate) fn ext_connectivity(before: &Inventory, after: &Inventory) -> Vec<ExtVirtualLinkInfo> {
    let (old, new) = (&before.ext_virtual_link_info, &after.ext_virtual_link_info);
    let changed = new.iter().filter(|link| !old.contains(link)).cloned();
    let left = old
        .iter()
        .filter(|link| new.iter().all(|one| one.id != link.id));
    let left = left.map(|link| ExtVirtualLinkInfo {
        ext_link_ports: Vec::new(),
        current_vnf_ext_cp_data: Vec::new(),
        ..link.clone()
    });
    changed.chain(left).collect()
}

/// `inventory` without the entries of `other`.
fn without(inventory: &Inventory, other: &Inventory) -> Inventory {
    let mut rest = inventory.clone();
    rest.vnfc_resource_info
        .retain(|one| other.vnfc_resource_info.iter().all(|o| o.id != one.id));
    rest.vnf_virtual_link_resource_info.retain(|one| {
        other
            .vnf_virtual_link_resource_info
            .iter()
            .all(|o| o.id != one.id)
    });
    rest.virtual_storage_resource_info.retain(|one| {
        other
            .virtual_storage_resource_info
            .iter()
            .all(|o| o.id != one.id)
    });
    let known = |id: &str| {
        let links = other.ext_virtual_link_info.iter();
        links
            .flat_map(|link| &link.ext_link_ports)
            .any(|port| port.id == id)
    };
    for link in &mut rest.ext_virtual_link_info {
        link.ext_link_ports.retain(|port| !known(&port.id));
    }
    rest
}

fn all(inventory: &Inventory, change_type: ChangeType) -> ResourceChanges {
    ResourceChanges {
        affected_vnfcs: vnfcs(inventory, change_type),
        affected_virtual_links: inventory
            .vnf_virtual_link_resource_info
            .iter()
            .map(|link| AffectedVirtualLink {
                id: link.id.clone(),
                vnf_virtual_link_desc_id: link.vnf_virtual_link_desc_id.clone(),
                change_type,
                network_resource: link.network_resource.clone(),
                vnf_link_port_ids: Vec::new(),
            })
            .collect(),
        affected_ext_link_ports: ext_link_ports(inventory, change_type),
        affected_virtual_storages: inventory
            .virtual_storage_resource_info
            .iter()
            .map(|storage| AffectedVirtualStorage {
                id: storage.id.clone(),
                virtual_storage_desc_id: storage.virtual_storage_desc_id.clone(),
                change_type,
                storage_resource: storage.storage_resource.clone(),
            })
            .collect(),
    }
}

fn vnfcs(inventory: &Inventory, change_type: ChangeType) -> Vec<AffectedVnfc> {
    let storages = |of: ChangeType, ids: &[String]| {
        if of == change_type {
            ids.to_vec()
        } else {
            Vec::new()
        }
    };
    inventory
        .vnfc_resource_info
        .iter()
        .map(|vnfc| AffectedVnfc {
            id: vnfc.id.clone(),
            vdu_id: vnfc.vdu_id.clone(),
            change_type,
            compute_resource: vnfc.compute_resource.clone(),
            affected_vnfc_cp_ids: vnfc.vnfc_cp_info.iter().map(|cp| cp.id.clone()).collect(),
            added_storage_resource_ids: storages(ChangeType::Added, &vnfc.storage_resource_ids),
            removed_storage_resource_ids: storages(ChangeType::Removed, &vnfc.storage_resource_ids),
            metadata: vnfc.metadata.clone(),
        })
        .collect()
}

/// The links of `inventory` with those of their ports that `other` lacks; links without such ports are omitted.
fn ports_only_in(
    inventory: &Inventory,
    other: &Inventory,
    change_type: ChangeType,
) -> Vec<AffectedVirtualLink> {
    let known: BTreeSet<_> = links(other)
        .flat_map(|link| link.ports)
        .map(|port| &port.id)
        .collect();
    let touched = links(inventory).map(|link| {
        let ports = link.ports.iter().filter(|port| !known.contains(&port.id));
        (link, ports.map(|port| port.id.clone()).collect::<Vec<_>>())
    });
    let touched_links = touched.filter(|(_, ports)| !ports.is_empty());
    touched_links
        .map(|(link, vnf_link_port_ids)| AffectedVirtualLink {
            id: link.id.to_owned(),
            vnf_virtual_link_desc_id: link.desc_id.to_owned(),
            change_type,
            network_resource: link.resource.clone(),
            vnf_link_port_ids,
        })
        .collect()
}

/// An internal or an externally managed link.
struct Link<'i> {
    id: &'i str,
    desc_id: &'i str,
    resource: &'i ResourceHandle,
    ports: &'i [VnfLinkPortInfo],
}

fn links(inventory: &Inventory) -> impl Iterator<Item = Link<'_>> {
    let own = inventory
        .vnf_virtual_link_resource_info
        .iter()
        .map(|link| Link {
            id: &link.id,
            desc_id: &link.vnf_virtual_link_desc_id,
            resource: &link.network_resource,
            ports: &link.vnf_link_ports,
        });
    let managed = inventory
        .ext_managed_virtual_link_info
        .iter()
        .map(|link| Link {
            id: &link.id,
            desc_id: &link.vnf_virtual_link_desc_id,
            resource: &link.network_resource,
            ports: &link.vnf_link_ports,
        });
    own.chain(managed)
}

fn ext_link_ports(inventory: &Inventory, change_type: ChangeType) -> Vec<AffectedExtLinkPort> {
    let links = inventory.ext_virtual_link_info.iter();
    links
        .flat_map(|link| &link.ext_link_ports)
        .map(|port| AffectedExtLinkPort {
            id: port.id.clone(),
            change_type,
            ext_cp_instance_id: port.cp_instance_id.clone().unwrap_or_default(),
            resource_handle: port.resource_handle.clone(),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::{Inventory, added, between, removed};
    use serde_json::{Value, json};

    fn inventory(internal: &[&str], managed: &[&str]) -> Inventory {
        let link = |id: &str, ports: &[&str]| {
            let ports = ports
                .iter()
                .map(|id| json!({"id": id, "resourceHandle": {"resourceId": id}}));
            json!({"id": id, "vnfVirtualLinkDescId": id, "networkResource": {"resourceId": id},
                "vnfLinkPorts": ports.collect::<Vec<_>>()})
        };
        Inventory {
            vnf_virtual_link_resource_info: vec![
                serde_json::from_value(link("own", internal)).unwrap(),
            ],
            ext_managed_virtual_link_info: vec![
                serde_json::from_value(link("managed", managed)).unwrap(),
            ],
            ..Inventory::default()
        }
    }

    fn summary(changes: &super::ResourceChanges) -> Vec<String> {
        let links = serde_json::to_value(&changes.affected_virtual_links).unwrap();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let one = |link: &Value| {
            let ports: Vec<_> = link["vnfLinkPortIds"]
                .as_array()
                .into_iter()
                .flatten()
                .map(text)
                .collect();
            format!(
                "{} {} {}",
                text(&link["id"]),
                text(&link["changeType"]),
                ports.join(",")
            )
        };
        links
            .as_array()
            .unwrap()
            .iter()
            .map(|link| one(link).trim().to_owned())
            .collect()
    }

    #[test]
    fn a_managed_link_is_reported_by_its_added_and_removed_ports() {
        let before = inventory(&["p1"], &["m1", "m2"]);
        assert_eq!(
            summary(&added(&before)),
            [
                "own ADDED",
                "own LINK_PORT_ADDED p1",
                "managed LINK_PORT_ADDED m1,m2"
            ]
        );
        assert_eq!(
            summary(&removed(&before)),
            [
                "own REMOVED",
                "own LINK_PORT_REMOVED p1",
                "managed LINK_PORT_REMOVED m1,m2"
            ]
        );
        let after = inventory(&["p1"], &["m1", "m3"]);
        assert_eq!(
            summary(&between(&before, &after)),
            ["managed LINK_PORT_REMOVED m2", "managed LINK_PORT_ADDED m3"]
        );
        assert!(
            summary(&added(&inventory(&[], &[])))
                .iter()
                .all(|touched_links| touched_links == "own ADDED")
        );
    }
}

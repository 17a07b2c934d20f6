//! `resourceChanges` (SOL003 5.5.2.13) from the inventory that an operation made or took away.

use crate::ports::{InstanceRecord, Inventory};
use vnfm_types::{
    AffectedExtLinkPort, AffectedVirtualLink, AffectedVirtualStorage, AffectedVnfc, ChangeType,
    ResourceChanges,
};

/// What an instance is made of.
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

/// Everything in `inventory` came.
pub(crate) fn added(inventory: &Inventory) -> ResourceChanges {
    all(inventory, ChangeType::Added)
}

/// Everything in `inventory` went.
pub(crate) fn removed(inventory: &Inventory) -> ResourceChanges {
    all(inventory, ChangeType::Removed)
}

/// What went and what came between two inventories; what has the same id in both stayed.
pub(crate) fn between(before: &Inventory, after: &Inventory) -> ResourceChanges {
    let mut changes = removed(&without(before, after));
    let came = added(&without(after, before));
    changes.affected_vnfcs.extend(came.affected_vnfcs);
    changes.affected_virtual_links.extend(came.affected_virtual_links);
    changes.affected_ext_link_ports.extend(came.affected_ext_link_ports);
    changes.affected_virtual_storages.extend(came.affected_virtual_storages);
    changes
}

/// `inventory` without what `other` holds as well.
fn without(inventory: &Inventory, other: &Inventory) -> Inventory {
    let mut left = inventory.clone();
    left.vnfc_resource_info.retain(|one| other.vnfc_resource_info.iter().all(|o| o.id != one.id));
    left.vnf_virtual_link_resource_info
        .retain(|one| other.vnf_virtual_link_resource_info.iter().all(|o| o.id != one.id));
    left.virtual_storage_resource_info
        .retain(|one| other.virtual_storage_resource_info.iter().all(|o| o.id != one.id));
    let known = |id: &str| {
        let links = other.ext_virtual_link_info.iter();
        links.flat_map(|link| &link.ext_link_ports).any(|port| port.id == id)
    };
    for link in &mut left.ext_virtual_link_info {
        link.ext_link_ports.retain(|port| !known(&port.id));
    }
    left
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
        if of == change_type { ids.to_vec() } else { Vec::new() }
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

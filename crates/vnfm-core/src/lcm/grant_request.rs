//! The grant request of an operation (SOL003 9.5.2.2), and what rows make their [`GrantNeeds`] of.
//!
//! A resource definition has the same id in every request for the same operation, also from another process.

use super::op_context::Op;
use super::operation::GrantNeeds;
use crate::deployment::Deployment;
use crate::ports::{Inventory, PortError, compute_id, link_id, port_id, storage_id};
use std::collections::BTreeMap;
use vnfm_descriptor::{AffinityRule, ConnectivityKind, CpKind, Flavour};
use vnfm_types::{
    AffinityKind, ConstraintIdType, ConstraintResourceRef, GrantRequest, GrantRequestLinks, Link,
    PlacementConstraint, ResourceDefinition, ResourceHandle, ResourceType,
    VirtualStorageResourceInfo, VnfcResourceInfo,
};

/// The grant request for `op`.
pub(super) fn request(op: &Op) -> Result<GrantRequest, PortError> {
    let needs = match &op.operation.grant {
        Some(rule) => (rule.needs)(op)?,
        None => GrantNeeds::default(),
    };
    let record = &op.record.op;
    Ok(GrantRequest {
        vnf_instance_id: record.vnf_instance_id.clone(),
        vnf_lcm_op_occ_id: record.id.clone(),
        vnfd_id: op.instance.vnf.vnfd_id.clone(),
        dst_vnfd_id: match op.package() {
            Ok(package) if op.changes_package() => Some(package.vnfd().descriptor_id.clone()),
            _ => None,
        },
        flavour_id: Some(op.deployment()?.flavour_id.to_string()),
        operation: record.operation,
        is_automatic_invocation: record.is_automatic_invocation,
        instantiation_level_id: needs.instantiation_level_id,
        add_resources: needs.add_resources,
        remove_resources: needs.remove_resources,
        update_resources: needs.update_resources,
        placement_constraints: needs.placement_constraints,
        links: Some(links(op)),
    })
}

/// Links to occurrence and instance, in the API version in which the operation was requested.
fn links(op: &Op) -> GrantRequestLinks {
    let (record, below) = (&op.record.op, op.api_version().prefix());
    let link = |path: &str, id: &str| Link {
        href: format!("{below}/{path}/{id}"),
    };
    GrantRequestLinks {
        vnf_lcm_op_occ: link("vnf_lcm_op_occs", &record.id),
        vnf_instance: link("vnf_instances", &record.vnf_instance_id),
    }
}

/// All resources of a deployment of this flavour. Retained volumes that it uses exist already, so they are not among them.
pub(super) fn flavour_resources(
    flavour: &Flavour,
    deployment: &Deployment,
) -> Vec<ResourceDefinition> {
    let mut all = Vec::new();
    for vdu in flavour.vdus.values() {
        for index in 0..deployment.instances_of(&vdu.name) {
            let id = compute_id(&vdu.name, index);
            all.push(definition(
                id,
                ResourceType::Compute,
                Some(&vdu.name),
                &vdu.name,
            ));
            let is_new = |storage: &&String| deployment.reused_volume(storage, index).is_none();
            for storage in vdu.storages.iter().filter(is_new) {
                let id = storage_id(storage, &vdu.name, index);
                all.push(definition(
                    id,
                    ResourceType::Storage,
                    Some(&vdu.name),
                    storage,
                ));
            }
        }
    }
    let links = flavour.virtual_links.values();
    for link in links.filter(|link| link.externally_managed != ConnectivityKind::Required) {
        all.push(definition(
            link_id(&link.name),
            ResourceType::Vl,
            None,
            &link.name,
        ));
    }
    for cp in &flavour.external_cps {
        let known = flavour.cps.get(&cp.cpd_id);
        let vdu = known
            .filter(|cp| cp.kind == CpKind::VduCp)
            .and_then(|cp| cp.vdu.as_ref());
        // A Kubernetes service is not a port on a link.
        if known.is_some_and(|cp| cp.kind == CpKind::VirtualCp) {
            continue;
        }
        for index in 0..vdu.map_or(1, |vdu| deployment.instances_of(vdu)) {
            all.push(definition(
                port_id(&cp.cpd_id, index),
                ResourceType::Linkport,
                vdu.map(String::as_str),
                &cp.cpd_id,
            ));
        }
    }
    all
}

fn definition(
    id: String,
    type_: ResourceType,
    vdu: Option<&str>,
    template: &str,
) -> ResourceDefinition {
    ResourceDefinition {
        id,
        type_,
        vdu_id: vdu.map(ToOwned::to_owned),
        resource_template_id: template.to_owned(),
        resource: None,
        snapshot_res_def: None,
    }
}

fn existing(
    id: String,
    type_: ResourceType,
    vdu: Option<&str>,
    template: &str,
    resource: &ResourceHandle,
) -> ResourceDefinition {
    ResourceDefinition {
        resource: Some(resource.clone()),
        ..definition(id, type_, vdu, template)
    }
}

/// All resources of an instance, for removal.
pub(super) fn everything_removed(current: &Inventory) -> GrantNeeds {
    let mut all: Vec<_> = current.vnfc_resource_info.iter().map(compute).collect();
    let storages = current.virtual_storage_resource_info.iter();
    all.extend(storages.map(|one| storage(one, None)));
    for link in &current.vnf_virtual_link_resource_info {
        all.push(existing(
            format!("vl/{}", link.id),
            ResourceType::Vl,
            None,
            &link.vnf_virtual_link_desc_id,
            &link.network_resource,
        ));
    }
    let cpd = |cp: &Option<String>| {
        let mut cps = current.ext_cp_info.iter();
        cps.find(|known| Some(&known.id) == cp.as_ref())
            .map(|known| known.cpd_id.as_str())
    };
    for port in current
        .ext_virtual_link_info
        .iter()
        .flat_map(|link| &link.ext_link_ports)
    {
        // A port without an external CP has no descriptor to refer to.
        let Some(cpd) = cpd(&port.cp_instance_id) else {
            continue;
        };
        all.push(existing(
            format!("linkport/{}", port.id),
            ResourceType::Linkport,
            None,
            cpd,
            &port.resource_handle,
        ));
    }
    GrantNeeds {
        remove_resources: all,
        ..GrantNeeds::default()
    }
}

/// An existing volume, of this VDU if it is known.
pub(super) fn storage(
    storage: &VirtualStorageResourceInfo,
    vdu: Option<&str>,
) -> ResourceDefinition {
    existing(
        format!("storage/{}", storage.id),
        ResourceType::Storage,
        vdu,
        &storage.virtual_storage_desc_id,
        &storage.storage_resource,
    )
}

/// Defines an existing VNFC, for removal or change.
pub(super) fn compute(vnfc: &VnfcResourceInfo) -> ResourceDefinition {
    existing(
        format!("compute/{}", vnfc.id),
        ResourceType::Compute,
        Some(&vnfc.vdu_id),
        &vnfc.vdu_id,
        &vnfc.compute_resource,
    )
}

/// The resources to be created, by the VNFD node that placement rules refer to.
pub(super) fn references(
    added: &[ResourceDefinition],
) -> BTreeMap<String, Vec<ConstraintResourceRef>> {
    let mut all: BTreeMap<String, Vec<ConstraintResourceRef>> = BTreeMap::new();
    let placed =
        |one: &&ResourceDefinition| matches!(one.type_, ResourceType::Compute | ResourceType::Vl);
    for one in added.iter().filter(placed) {
        all.entry(one.resource_template_id.clone())
            .or_default()
            .push(ConstraintResourceRef {
                id_type: ConstraintIdType::Grant,
                resource_id: one.id.clone(),
                vim_connection_id: None,
            });
    }
    all
}

/// The placement rules that concern resources to be created, with the VNFCs that stay.
pub(super) fn constraints_for_new<'a>(
    flavour: &Flavour,
    added: &[ResourceDefinition],
    staying: impl Iterator<Item = &'a VnfcResourceInfo>,
) -> Vec<PlacementConstraint> {
    let mut refs = references(added);
    for vnfc in staying {
        let of_vdu = refs.entry(vnfc.vdu_id.clone()).or_default();
        of_vdu.push(ConstraintResourceRef {
            id_type: ConstraintIdType::ResMgmt,
            resource_id: vnfc.compute_resource.resource_id.clone(),
            vim_connection_id: vnfc.compute_resource.vim_connection_id.clone(),
        });
    }
    let is_new = |one: &ConstraintResourceRef| one.id_type == ConstraintIdType::Grant;
    let mut constraints = constraints(flavour, &refs);
    constraints.retain(|constraint| constraint.resource.iter().any(is_new));
    constraints
}

/// The VNFD's placement rules for these resources. A rule with fewer than two resources is omitted.
pub(super) fn constraints(
    flavour: &Flavour,
    refs: &BTreeMap<String, Vec<ConstraintResourceRef>>,
) -> Vec<PlacementConstraint> {
    let constraint = |rule: &AffinityRule| {
        let targets = rule.targets.iter().filter_map(|target| refs.get(target));
        let resource: Vec<_> = targets.flatten().cloned().collect();
        let kind = if rule.anti {
            AffinityKind::AntiAffinity
        } else {
            AffinityKind::Affinity
        };
        (resource.len() > 1).then(|| PlacementConstraint {
            affinity_or_anti_affinity: kind,
            scope: rule.scope.to_uppercase(),
            resource,
        })
    };
    let known = |one: &PlacementConstraint| {
        ["NFVI_POP", "ZONE", "ZONE_GROUP", "NFVI_NODE"].contains(&one.scope.as_str())
    };
    flavour
        .affinity_rules
        .iter()
        .filter_map(constraint)
        .filter(known)
        .collect()
}

//! The resources that an operation needs, as a grant request lists them (SOL003 9.5.2.2).
//!
//! | operation | adds | removes |
//! |---|---|---|
//! | instantiate | each VNFC with its volumes, internal links, ports on external links | – |
//! | heal | the successors of the healed VNFCs, with their volumes if those are replaced too | these VNFCs and volumes |
//! | terminate | – | everything |
//!
//! A resource definition has the same id in every request for the same operation, also from another process.

use super::Op;
use super::changes::inventory;
use super::heal;
use crate::deployment::Deployment;
use crate::ports::{Inventory, PortError, compute_id, link_id, port_id, storage_id};
use std::collections::BTreeMap;
use vnfm_descriptor::{AffinityRule, ConnectivityKind, CpKind, Flavour};
use vnfm_types::{
    AffinityKind, ConstraintIdType, ConstraintResourceRef, GrantRequest, GrantRequestLinks,
    HealVnfRequest, LcmOperationType, Link, PlacementConstraint, ResourceDefinition,
    ResourceHandle, ResourceType, VnfcResourceInfo,
};

/// The grant request for `op`.
pub(super) fn request(op: &Op) -> Result<GrantRequest, PortError> {
    let record = &op.record.op;
    let deployment = op.deployment()?;
    let mut request = GrantRequest {
        vnf_instance_id: record.vnf_instance_id.clone(),
        vnf_lcm_op_occ_id: record.id.clone(),
        vnfd_id: op.instance.vnf.vnfd_id.clone(),
        flavour_id: Some(deployment.flavour_id.to_string()),
        operation: record.operation,
        is_automatic_invocation: record.is_automatic_invocation,
        instantiation_level_id: None,
        add_resources: Vec::new(),
        remove_resources: Vec::new(),
        update_resources: Vec::new(),
        placement_constraints: Vec::new(),
        links: Some(links(op)),
    };
    match record.operation {
        LcmOperationType::Instantiate => {
            op.allocation_to_make()?;
            let flavour = op.flavour()?;
            let level = &deployment.instantiation_level_id;
            let level = level.clone().or_else(|| flavour.default_level.clone());
            request.add_resources = flavour_resources(flavour, deployment);
            let managed = &deployment.placement.managed_links;
            request.add_resources.retain(|one| {
                one.type_ != ResourceType::Vl || !managed.contains_key(&one.resource_template_id)
            });
            request.instantiation_level_id = level;
            let refs = references(&request.add_resources);
            request.placement_constraints = constraints(flavour, &refs);
        }
        LcmOperationType::Heal => add_heal_resources(op, &mut request)?,
        _ => request.remove_resources = removed(&inventory(&op.instance)),
    }
    Ok(request)
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

/// All resources of a deployment of this flavour.
fn flavour_resources(flavour: &Flavour, deployment: &Deployment) -> Vec<ResourceDefinition> {
    let mut all = Vec::new();
    for vdu in flavour.vdus.values() {
        for index in 0..deployment.instances_of(&vdu.name) {
            let id = compute_id(&vdu.name, index);
            all.push(definition(
                id,
                ResourceType::Compute,
                (Some(&vdu.name), &vdu.name),
            ));
            for storage in &vdu.storages {
                let id = storage_id(storage, &vdu.name, index);
                all.push(definition(
                    id,
                    ResourceType::Storage,
                    (Some(&vdu.name), storage),
                ));
            }
        }
    }
    let links = flavour.virtual_links.values();
    for link in links.filter(|link| link.externally_managed != ConnectivityKind::Required) {
        all.push(definition(
            link_id(&link.name),
            ResourceType::Vl,
            (None, &link.name),
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
            let template = (vdu.map(String::as_str), cp.cpd_id.as_str());
            all.push(definition(
                port_id(&cp.cpd_id, index),
                ResourceType::Linkport,
                template,
            ));
        }
    }
    all
}

fn definition(
    id: String,
    type_: ResourceType,
    (vdu, template): (Option<&str>, &str),
) -> ResourceDefinition {
    ResourceDefinition {
        id,
        type_,
        vdu_id: vdu.map(ToOwned::to_owned),
        resource_template_id: template.to_owned(),
        resource: None,
    }
}

fn existing(
    id: String,
    type_: ResourceType,
    template: (Option<&str>, &str),
    resource: &ResourceHandle,
) -> ResourceDefinition {
    ResourceDefinition {
        resource: Some(resource.clone()),
        ..definition(id, type_, template)
    }
}

/// Adds the VNFCs (and volumes) that a heal removes, and their successors.
fn add_heal_resources(op: &Op, request: &mut GrantRequest) -> Result<(), PortError> {
    let heal: HealVnfRequest = op.request()?;
    let current = inventory(&op.instance);
    let healed_vnfcs = heal::vnfcs_to_heal(op, &heal);
    for vnfc in &healed_vnfcs {
        request.remove_resources.push(compute(vnfc));
        let storages = current.virtual_storage_resource_info.iter();
        let own = storages.filter(|one| vnfc.storage_resource_ids.contains(&one.id));
        for storage in own.filter(|_| heal::with_storage(&heal)) {
            let id = format!("storage/{}", storage.id);
            let template = (
                Some(vnfc.vdu_id.as_str()),
                storage.virtual_storage_desc_id.as_str(),
            );
            let old = existing(
                id,
                ResourceType::Storage,
                template,
                &storage.storage_resource,
            );
            request.remove_resources.push(old);
        }
    }
    let successor = |old: &ResourceDefinition| ResourceDefinition {
        id: format!("{}/successor", old.id),
        resource: None,
        ..old.clone()
    };
    request.add_resources = request.remove_resources.iter().map(successor).collect();
    let Ok(flavour) = op.flavour() else {
        return Ok(());
    };
    let mut refs = references(&request.add_resources);
    for vnfc in current
        .vnfc_resource_info
        .iter()
        .filter(|vnfc| !healed_vnfcs.contains(vnfc))
    {
        refs.entry(vnfc.vdu_id.clone())
            .or_default()
            .push(ConstraintResourceRef {
                id_type: ConstraintIdType::ResMgmt,
                resource_id: vnfc.compute_resource.resource_id.clone(),
                vim_connection_id: vnfc.compute_resource.vim_connection_id.clone(),
            });
    }
    request.placement_constraints = constraints(flavour, &refs);
    let concerns_new = |constraint: &PlacementConstraint| {
        constraint
            .resource
            .iter()
            .any(|one| one.id_type == ConstraintIdType::Grant)
    };
    request.placement_constraints.retain(concerns_new);
    Ok(())
}

/// All resources of an instance, for removal.
fn removed(current: &Inventory) -> Vec<ResourceDefinition> {
    let mut all: Vec<_> = current.vnfc_resource_info.iter().map(compute).collect();
    for storage in &current.virtual_storage_resource_info {
        let template = (None, storage.virtual_storage_desc_id.as_str());
        let id = format!("storage/{}", storage.id);
        all.push(existing(
            id,
            ResourceType::Storage,
            template,
            &storage.storage_resource,
        ));
    }
    for link in &current.vnf_virtual_link_resource_info {
        let template = (None, link.vnf_virtual_link_desc_id.as_str());
        let id = format!("vl/{}", link.id);
        all.push(existing(
            id,
            ResourceType::Vl,
            template,
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
        let id = format!("linkport/{}", port.id);
        all.push(existing(
            id,
            ResourceType::Linkport,
            (None, cpd),
            &port.resource_handle,
        ));
    }
    all
}

fn compute(vnfc: &VnfcResourceInfo) -> ResourceDefinition {
    let template = (Some(vnfc.vdu_id.as_str()), vnfc.vdu_id.as_str());
    existing(
        format!("compute/{}", vnfc.id),
        ResourceType::Compute,
        template,
        &vnfc.compute_resource,
    )
}

/// The resources to be created, by the VNFD node that placement rules refer to.
fn references(added: &[ResourceDefinition]) -> BTreeMap<String, Vec<ConstraintResourceRef>> {
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

/// The VNFD's placement rules for these resources. A rule with fewer than two resources is omitted.
fn constraints(
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

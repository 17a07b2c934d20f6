//! Two flavours, of one VNFD or of two: which VNFCs stay, come and go, and what a grant has to cover.
//!
//! | between | a VNFC stays if |
//! |---|---|
//! | flavours of a VNFD | the new flavour has room for it, and describes it alike except for its CPUs, memory and disks |
//! | VNFDs | the new one has room for it: it is changed or replaced in its place |

use super::op_context::Op;
use super::operation::GrantNeeds;
use super::resize::resources_of;
use super::{grant_request, retarget, volume_use};
use crate::deployment::Deployment;
use crate::ports::{Granted, PortError, compute_id, link_id, port_id, storage_id};
use crate::refusal::{self, Refusal, Why};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_descriptor::{Component, Flavour, PackagePath, Storage, Vdu};
use vnfm_types::{
    ExtManagedVirtualLinkData, ExtVirtualLinkData, ResourceDefinition, ResourceType,
    VnfcResourceInfo,
};

/// The two flavours of a change, and the number of VNFCs of each VDU that stay.
pub(super) struct Comparison<'a> {
    old: Option<&'a Flavour>,
    new: &'a Flavour,
    staying: BTreeMap<&'a str, u32>,
    /// What corresponds to each other in two VNFDs; `None`: the flavours are of one.
    path: Option<PackagePath>,
}

impl<'a> Comparison<'a> {
    /// Two flavours of a VNFD.
    pub(super) fn of_flavours(
        (before, target): (&Deployment, &Deployment),
        (old, new): (Option<&'a Flavour>, &'a Flavour),
    ) -> Self {
        let is_same = |vdu: &Vdu| {
            let old = old.and_then(|old| Some((old, old.vdus.get(&vdu.name)?)));
            old.is_some_and(|(old, known)| {
                stays(known, vdu)
                    && old.may_grow(known) == new.may_grow(vdu)
                    && old.cps_of(&vdu.name) == new.cps_of(&vdu.name)
                    && storages(old, known) == storages(new, vdu)
            })
        };
        let staying = new.vdus.iter().map(|(name, vdu)| {
            let count = before.instances_of(name).min(target.instances_of(name));
            (name.as_str(), if is_same(vdu) { count } else { 0 })
        });
        Self {
            old,
            new,
            staying: staying.collect(),
            path: None,
        }
    }

    /// The flavours before and after a change of flavour.
    pub(super) fn between_flavours(op: &'a Op) -> Result<Self, PortError> {
        let (before, target) = (op.deployment_before()?, op.deployment()?);
        let old = op.package()?.vnfd().flavour(&before.flavour_id);
        Ok(Self::of_flavours((before, target), (old, op.flavour()?)))
    }

    /// The flavours before and after a change of package.
    pub(super) fn between_packages(op: &'a Op) -> Result<Self, PortError> {
        let (before, target, new) = (op.deployment_before()?, op.deployment()?, op.flavour()?);
        let (source, destination) = (op.package_before()?.vnfd(), op.package()?.vnfd());
        let path = PackagePath::between((source, &before.flavour_id), destination);
        let path = path.unwrap_or_default();
        let staying = new.vdus.keys().map(|name| {
            let source = before.instances_of(path.source(Component::Vdu, name));
            (name.as_str(), source.min(target.instances_of(name)))
        });
        Ok(Self {
            old: source.flavour(&before.flavour_id),
            new,
            staying: staying.collect(),
            path: Some(path),
        })
    }

    /// The number of VNFCs of this VDU of the new flavour that stay.
    fn staying(&self, vdu: &str) -> u32 {
        self.staying.get(vdu).copied().unwrap_or_default()
    }

    /// The VDU of the new flavour for one of the old.
    fn successor<'v>(&'v self, vdu: &'v str) -> &'v str {
        let path = self.path.as_ref();
        path.map_or(vdu, |path| path.destination(Component::Vdu, vdu))
    }

    /// Whether a VDU has VNFCs that do not stay.
    pub(super) fn removes_any(&self, before: &Deployment) -> bool {
        let mut counts = before.vdu_instances.iter();
        counts.any(|(vdu, count)| *count > self.staying(self.successor(vdu)))
    }

    /// Whether the VNFCs of a VDU that stay change.
    fn changes(&self, vdu: &str) -> bool {
        let Some(path) = &self.path else {
            let described = |flavour: &Flavour| {
                let vdu = flavour.vdus.get(vdu);
                vdu.map(|vdu| (vdu.compute.clone(), vdu.requested_flavor.clone()))
            };
            return self.old.and_then(described) != described(self.new);
        };
        let source = path.source(Component::Vdu, vdu);
        let (old, new) = (
            self.old.and_then(|old| old.vdus.get(source)),
            self.new.vdus.get(vdu),
        );
        let (Some(old), Some(new)) = (old, new) else {
            return true;
        };
        // Of what manifests and templates describe, the VNFD does not tell.
        let is_known = new.compute.is_some() && source == vdu;
        !is_known || uncounted(old) != uncounted(new)
    }

    /// Whether the old flavour describes this link as the new one does.
    fn has_link(&self, name: &str) -> bool {
        let known = |flavour: &Flavour| flavour.virtual_links.get(name).cloned();
        self.old.and_then(known) == known(self.new)
    }

    /// Ids of the resources that stay, as grant requests have them.
    fn staying_resources(&self) -> BTreeSet<String> {
        let mut ids = BTreeSet::new();
        for (name, vdu) in &self.new.vdus {
            for index in 0..self.staying(name) {
                ids.insert(compute_id(name, index));
                let storages = vdu.storages.iter();
                ids.extend(storages.map(|storage| storage_id(storage, name, index)));
                let cps = self.new.cps_of(name);
                ids.extend(cps.iter().map(|cp| port_id(&cp.name, index)));
            }
        }
        let links = self.new.virtual_links.keys();
        ids.extend(
            links
                .filter(|name| self.has_link(name))
                .map(|name| link_id(name)),
        );
        ids
    }

    /// The VNFCs that do not stay: of each VDU the last ones, or all.
    pub(super) fn vnfcs_to_remove(&self, op: &Op) -> Vec<VnfcResourceInfo> {
        let mut seen: BTreeMap<String, u32> = BTreeMap::new();
        let mut all = op.inventory().vnfc_resource_info;
        all.retain(|vnfc| {
            let seen = seen.entry(vnfc.vdu_id.clone()).or_default();
            *seen += 1;
            *seen > self.staying(self.successor(&vnfc.vdu_id))
        });
        all
    }

    /// The VNFCs that stay, and change.
    pub(super) fn vnfcs_to_change(&self, op: &Op) -> Vec<VnfcResourceInfo> {
        let leaving = self.vnfcs_to_remove(op);
        let mut all = op.inventory().vnfc_resource_info;
        all.retain(|vnfc| !leaving.contains(vnfc) && self.changes(self.successor(&vnfc.vdu_id)));
        all
    }

    /// The resources that come and go, and the VNFCs that change.
    pub(super) fn grant_needs(&self, op: &Op) -> Result<GrantNeeds, PortError> {
        op.allocation_to_make()?;
        let (flavour, target) = (self.new, op.deployment()?);
        let (staying, managed) = (self.staying_resources(), &target.placement.managed_links);
        let mut add_resources = grant_request::flavour_resources(flavour, target);
        add_resources.retain(|one: &ResourceDefinition| {
            let is_managed = managed.contains_key(&one.resource_template_id);
            !(staying.contains(&one.id) || one.type_ == ResourceType::Vl && is_managed)
        });
        let all = volume_use::own_resources(op);
        let leaving = self.vnfcs_to_remove(op);
        let mut remaining = all.vnfc_resource_info.clone();
        remaining.retain(|vnfc| !leaving.contains(vnfc));
        let changed = self.vnfcs_to_change(op);
        let mut removed = resources_of(&all, leaving);
        let links = all.vnf_virtual_link_resource_info.iter();
        let is_left = |desc: &str| staying.contains(&link_id(desc));
        let links = links.filter(|link| !is_left(&link.vnf_virtual_link_desc_id));
        removed.vnf_virtual_link_resource_info = links.cloned().collect();
        let level = target.instantiation_level_id.clone();
        Ok(GrantNeeds {
            placement_constraints: grant_request::constraints_for_new(
                flavour,
                &add_resources,
                remaining.iter(),
            ),
            update_resources: changed.iter().map(grant_request::compute).collect(),
            instantiation_level_id: level.or_else(|| flavour.default_level.clone()),
            add_resources,
            ..grant_request::everything_removed(&removed)
        })
    }
}

/// Merges the links of the request, and drops those of CPs and links that the new flavour does not have.
pub(super) fn set_links(
    deployment: &mut Deployment,
    flavour: &Flavour,
    (external, internal): (&[ExtVirtualLinkData], &[ExtManagedVirtualLinkData]),
) -> Result<(), Refusal> {
    let bad = |what: String| Refusal::new(Why::Unprocessable, &refusal::BAD_PARAMETERS, what);
    let links = &mut deployment.ext_virtual_links;
    let knows = |cpd: &str| {
        flavour.external_cps.iter().any(|cp| cp.cpd_id == cpd) || flavour.cps.contains_key(cpd)
    };
    if !flavour.cps.is_empty() {
        for link in links.iter_mut() {
            link.ext_cps.retain(|data| knows(&data.cpd_id));
        }
        links.retain(|link| !link.ext_cps.is_empty());
    }
    retarget::merge_links(links, external).map_err(bad)?;
    let managed = &mut deployment.ext_managed_virtual_links;
    managed.retain(|link| {
        flavour
            .virtual_links
            .contains_key(&link.vnf_virtual_link_desc_id)
    });
    for link in internal {
        let id = &link.vnf_virtual_link_desc_id;
        if !flavour.virtual_links.contains_key(id) {
            return Err(bad(format!(
                "extManagedVirtualLinks: vnfVirtualLinkDescId `{id}` is not an internal link of the flavour"
            )));
        }
        managed.retain(|known| known.vnf_virtual_link_desc_id != *id);
        deployment.placement.managed_links.remove(id);
        deployment.placement.managed_link_ids.remove(id);
        managed.push(link.clone());
    }
    let placement = std::mem::take(&mut deployment.placement);
    deployment.placement = placement.with_links(&deployment.ext_managed_virtual_links);
    Ok(())
}

/// What a grant decided about resources that the new flavour describes as the old one does.
pub(super) fn remaining_placement(
    placed: &Granted,
    old: Option<&Flavour>,
    new: &Flavour,
) -> Granted {
    let Some(old) = old else {
        return Granted::default();
    };
    let same_vdu = |vdu: &str| match (old.vdus.get(vdu), new.vdus.get(vdu)) {
        (Some(old), Some(new)) => stays(old, new) && old.compute == new.compute,
        _ => false,
    };
    let same_image = |owner: &str| {
        let image = |flavour: &Flavour| {
            let mut all = flavour.images();
            all.find(|(of, _)| *of == owner)
                .map(|(_, image)| image.clone())
        };
        image(old).is_some() && image(old) == image(new)
    };
    let is_link = |link: &String| new.virtual_links.contains_key(link);
    let mut remaining = placed.clone();
    remaining.flavours.retain(|vdu, _| same_vdu(vdu));
    remaining.images.retain(|owner, _| same_image(owner));
    remaining.zones.retain(|id, _| {
        new.vdus
            .keys()
            .any(|vdu| id.split('/').any(|part| part == vdu))
    });
    remaining.managed_links.retain(|link, _| is_link(link));
    remaining.managed_link_ids.retain(|link, _| is_link(link));
    remaining
}

/// Whether a VNFC of one VDU may become one of the other: they differ in CPUs, memory, disks and number alone.
fn stays(old: &Vdu, new: &Vdu) -> bool {
    let alike = |vdu: &Vdu| {
        let mut vdu = uncounted(vdu);
        vdu.compute = None;
        vdu.requested_flavor = None;
        vdu
    };
    alike(old) == alike(new)
}

fn storages(flavour: &Flavour, vdu: &Vdu) -> Vec<Storage> {
    let all = vdu.storages.iter();
    all.filter_map(|name| flavour.storages.get(name).cloned())
        .collect()
}

/// A VDU without the number of its VNFCs and its description.
fn uncounted(vdu: &Vdu) -> Vdu {
    let mut vdu = vdu.clone();
    vdu.description = String::new();
    vdu.min_number_of_instances = None;
    vdu.max_number_of_instances = None;
    vdu
}

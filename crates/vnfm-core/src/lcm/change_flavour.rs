//! Change a VNF to another deployment flavour (SOL003 5.4.7): the whole flow, top to bottom.
//!
//! ```text
//!  POST …/vnf_instances/{id}/change_flavour
//!    │  target: flavour, level, links and parameters, checked as at an instantiation; then one transaction: occurrence in
//!    │  STARTING, the instance's one active operation                                  202 Accepted + Location
//!    ▼
//!  STARTING ──grant, prepare──► PROCESSING ──hooks and driver──► COMPLETED
//! ```
//!
//! A VNFC stays if the new flavour has room for it and describes it alike; only its CPUs, memory and disks may differ, and
//! it is resized. Any other goes: then the change cannot be undone once it has begun. The scale levels are those of the
//! instantiation level of the request, or of the new flavour's default.
//!
//! | step                 | state      | does                                                         | undo             |
//! |----------------------|------------|--------------------------------------------------------------|------------------|
//! | grant                | STARTING   | asks the NFVO, if there is one                               | —                |
//! | prepare              | STARTING   | logs in, looks up what only the VIM knows                    | —                |
//! | change_flavour_start | PROCESSING | vendor hook: learns which VNFCs will go, while they still run | its undo, if any |
//! | adapt                | PROCESSING | resizes and adds VNFCs; skipped if any goes                  | changes them back |
//! | replace              | PROCESSING | removes, resizes and adds VNFCs; skipped if none goes        | not possible     |
//! | change_flavour_end   | PROCESSING | vendor hook: configures the VNFCs that came or stayed        | its undo, if any |
//! | register_vims        | PROCESSING | updates the VIMs of the instance in the registry             | unregisters new ones |

use super::operation::{
    Body, Completion, GrantDecides, GrantNeeds, GrantRule, Operation, Requested, Requires, Target,
};
use super::resize::{self, resources_of};
use super::retarget;
use super::step::{Ends, Output, Step};
use super::{Op, grant_request};
use crate::deployment::Deployment;
use crate::patch::merge_patch;
use crate::ports::{
    Granted, HookFlavourChange, HookRequest, PortError, compute_id, link_id, port_id, storage_id,
};
use crate::refusal::{self, Refusal, Why};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vnfm_descriptor::{Flavour, Package, Storage, Vdu, Vnfd};
use vnfm_types::{
    ChangeVnfFlavourRequest, LcmOperationState, LcmOperationType, ResourceType, VnfcResourceInfo,
};

/// Row of the operation in [`OPERATIONS`](super::OPERATIONS).
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::ChangeFlavour,
    task: Some("change_flavour"),
    interface_operation: "change_flavour",
    body: Body::new::<ChangeVnfFlavourRequest>("ChangeVnfFlavourRequest"),
    requires: Requires::Instantiated,
    uses_vim: true,
    frees_space: false,
    skippable_hooks: true,
    checks_parameters: true,
    grant: Some(GrantRule {
        needs: grant_needs,
        decides: GrantDecides::Flavour,
    }),
    target: |requested| Box::pin(target(requested)),
    hook_request,
    steps: STEPS,
    finish,
};

/// The steps in order, as in the table above.
pub const STEPS: &[Step] = &[
    Step::grant(),
    retarget::PREPARE,
    Step::hook("change_flavour_start", |op| Ok(op.inventory())),
    retarget::ADAPT.only_if(|ends| !removes(ends)),
    retarget::REPLACE.only_if(removes),
    Step::hook("change_flavour_end", retarget::inventory_now),
    resize::REGISTER_VIMS,
];

/// The instance in the new flavour, at the requested level.
async fn target(requested: &Requested<'_>) -> Result<Target, Refusal> {
    let request: ChangeVnfFlavourRequest = requested.request()?;
    let package = requested.package().await;
    let package = package.map_err(Refusal::unprocessable)?;
    let flavour = new_flavour(requested, package.vnfd(), &request)?;
    retarget::check_same_vim(requested, &request.vim_connection_info).await?;
    let mut target = requested.unchanged();
    let before = target.deployment.as_deref().cloned().unwrap_or_default();
    let old = package.vnfd().flavour(&before.flavour_id);
    let mut deployment = Deployment {
        flavour_id: request.new_flavour_id.as_str().into(),
        instantiation_level_id: request.instantiation_level_id.clone(),
        placement: remaining_placement(&before.placement, old, flavour),
        resolved: serde_json::Value::Null,
        ..before
    };
    if !request.additional_params.is_empty() {
        let params = &mut deployment.additional_params;
        merge_patch(params, Some(&request.additional_params));
        requested
            .op_id
            .clone_into(&mut deployment.params_changed_by);
    }
    set_links(&mut deployment, flavour, &request)?;
    let levels = deployment.set_levels(flavour);
    levels.map_err(|error| unknown_flavour(error.to_string()))?;
    target.deployment = Some(retarget::check(requested, deployment).await?);
    Ok(target)
}

/// The flavour of the request, if the VNFD has it and the level is one of it.
fn new_flavour<'v>(
    requested: &Requested<'_>,
    vnfd: &'v Vnfd,
    request: &ChangeVnfFlavourRequest,
) -> Result<&'v Flavour, Refusal> {
    let known: Vec<&str> = vnfd.flavours.keys().map(String::as_str).collect();
    if known.len() < 2 {
        let what = format!(
            "VNF `{}` does not support the task `change_flavour`: its only flavour is `{}`",
            requested.instance.vnf.id,
            known.join("")
        );
        return Err(Refusal::new(Why::NotFound, &refusal::NOT_SUPPORTED, what));
    }
    let id = request.new_flavour_id.as_str();
    let flavour = vnfd.flavours.get(id).ok_or_else(|| {
        let (vnfd, known) = (&vnfd.descriptor_id, known.join(", "));
        unknown_flavour(format!(
            "newFlavourId `{id}` is not in the VNFD `{vnfd}`, which has: {known}"
        ))
    })?;
    match &request.instantiation_level_id {
        Some(level) if !flavour.instantiation_levels.contains_key(level) => {
            let known: Vec<_> = flavour
                .instantiation_levels
                .keys()
                .map(String::as_str)
                .collect();
            let known = known.join(", ");
            Err(unknown_flavour(format!(
                "instantiationLevelId `{level}` is not in the flavour `{id}`, which has: {known}"
            )))
        }
        _ => Ok(flavour),
    }
}

fn unknown_flavour(what: String) -> Refusal {
    Refusal::new(Why::Unprocessable, &refusal::UNKNOWN_FLAVOUR, what)
}

/// Merges the links of the request, and drops those of CPs and links that the new flavour does not have.
fn set_links(
    deployment: &mut Deployment,
    flavour: &Flavour,
    request: &ChangeVnfFlavourRequest,
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
    retarget::merge_links(links, &request.ext_virtual_links).map_err(bad)?;
    let managed = &mut deployment.ext_managed_virtual_links;
    managed.retain(|link| {
        flavour
            .virtual_links
            .contains_key(&link.vnf_virtual_link_desc_id)
    });
    for link in &request.ext_managed_virtual_links {
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
fn remaining_placement(placed: &Granted, old: Option<&Flavour>, new: &Flavour) -> Granted {
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
        let mut vdu = vdu.clone();
        vdu.compute = None;
        vdu.requested_flavor = None;
        vdu.description = String::new();
        vdu.min_number_of_instances = None;
        vdu.max_number_of_instances = None;
        vdu
    };
    alike(old) == alike(new)
}

fn storages(flavour: &Flavour, vdu: &Vdu) -> Vec<Storage> {
    let all = vdu.storages.iter();
    all.filter_map(|name| flavour.storages.get(name).cloned())
        .collect()
}

/// Whether any VNFC goes. Without the package that is unknown: the step that does not rule out a rollback reports that.
fn removes(ends: &Ends<'_>) -> bool {
    let Some(vnfd) = ends.package.map(Package::vnfd) else {
        return false;
    };
    let old = vnfd.flavour(&ends.before.flavour_id);
    let Some(new) = vnfd.flavour(&ends.target.flavour_id) else {
        return false;
    };
    let comparison = Comparison::between(ends.before, ends.target, (old, new));
    let mut counts = ends.before.vdu_instances.iter();
    counts.any(|(vdu, count)| *count > comparison.staying(vdu))
}

/// The two flavours of a change, and the number of VNFCs of each VDU that stay.
struct Comparison<'a> {
    old: Option<&'a Flavour>,
    new: &'a Flavour,
    staying: BTreeMap<&'a str, u32>,
}

impl<'a> Comparison<'a> {
    fn between(
        before: &Deployment,
        target: &Deployment,
        (old, new): (Option<&'a Flavour>, &'a Flavour),
    ) -> Self {
        let mut staying = BTreeMap::new();
        for (name, vdu) in &new.vdus {
            let known = old.and_then(|old| Some((old, old.vdus.get(name)?)));
            let is_same = known.is_some_and(|(old, known)| {
                stays(known, vdu)
                    && old.may_grow(known) == new.may_grow(vdu)
                    && old.cps_of(name) == new.cps_of(name)
                    && storages(old, known) == storages(new, vdu)
            });
            let count = before.instances_of(name).min(target.instances_of(name));
            staying.insert(name.as_str(), if is_same { count } else { 0 });
        }
        Self { old, new, staying }
    }

    fn read(op: &'a Op) -> Result<Self, PortError> {
        let (before, target) = (retarget::before(op)?, op.deployment()?);
        let old = op.package()?.vnfd().flavour(&before.flavour_id);
        Ok(Self::between(before, target, (old, op.flavour()?)))
    }

    fn staying(&self, vdu: &str) -> u32 {
        self.staying.get(vdu).copied().unwrap_or_default()
    }

    /// Whether the VNFCs of a VDU that stay are resized.
    fn resizes(&self, vdu: &str) -> bool {
        let described = |flavour: &Flavour| {
            let vdu = flavour.vdus.get(vdu);
            vdu.map(|vdu| (vdu.compute.clone(), vdu.requested_flavor.clone()))
        };
        self.old.and_then(described) != described(self.new)
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
        let links = self.new.virtual_links.iter().filter(|(name, link)| {
            let old = self.old.and_then(|old| old.virtual_links.get(*name));
            old == Some(link)
        });
        ids.extend(links.map(|(name, _)| link_id(name)));
        ids
    }
}

/// The VNFCs that do not stay: of each VDU the last ones, or all.
fn vnfcs_to_remove(op: &Op) -> Result<Vec<VnfcResourceInfo>, PortError> {
    let comparison = Comparison::read(op)?;
    let mut seen: BTreeMap<String, u32> = BTreeMap::new();
    let mut all = op.inventory().vnfc_resource_info;
    all.retain(|vnfc| {
        let seen = seen.entry(vnfc.vdu_id.clone()).or_default();
        *seen += 1;
        *seen > comparison.staying(&vnfc.vdu_id)
    });
    Ok(all)
}

/// The resources that come and go, and the VNFCs that are resized.
fn grant_needs(op: &Op) -> Result<GrantNeeds, PortError> {
    op.allocation_to_make()?;
    let comparison = Comparison::read(op)?;
    let (flavour, target) = (comparison.new, op.deployment()?);
    let (staying, managed) = (
        comparison.staying_resources(),
        &target.placement.managed_links,
    );
    let mut add_resources = grant_request::flavour_resources(flavour, target);
    add_resources.retain(|one| {
        let is_managed = managed.contains_key(&one.resource_template_id);
        !(staying.contains(&one.id) || one.type_ == ResourceType::Vl && is_managed)
    });
    let all = op.inventory();
    let leaving = vnfcs_to_remove(op)?;
    let remaining = all
        .vnfc_resource_info
        .iter()
        .filter(|vnfc| !leaving.contains(vnfc));
    let resized = remaining
        .clone()
        .filter(|vnfc| comparison.resizes(&vnfc.vdu_id));
    let mut removed = resources_of(&all, leaving.clone());
    let links = all.vnf_virtual_link_resource_info.iter();
    let is_left = |desc: &str| staying.contains(&link_id(desc));
    let links = links.filter(|link| !is_left(&link.vnf_virtual_link_desc_id));
    removed.vnf_virtual_link_resource_info = links.cloned().collect();
    let level = target.instantiation_level_id.clone();
    Ok(GrantNeeds {
        placement_constraints: grant_request::constraints_for_new(
            flavour,
            &add_resources,
            remaining.clone(),
        ),
        update_resources: resized.map(grant_request::compute).collect(),
        instantiation_level_id: level.or_else(|| flavour.default_level.clone()),
        add_resources,
        ..grant_request::everything_removed(&removed)
    })
}

/// What the hooks get in addition.
fn hook_request(op: &Op, hook: &mut HookRequest) -> Output<()> {
    let mut change = HookFlavourChange::default();
    change.flavour_id_before = retarget::before(op)?.flavour_id.to_string();
    change.flavour_id = op.deployment()?.flavour_id.to_string();
    change.vnfcs_to_remove = vnfcs_to_remove(op)?;
    let first = op.inventory().vnfc_resource_info;
    let mut now = retarget::inventory_now(op)?.vnfc_resource_info;
    now.retain(|vnfc| first.iter().all(|other| other.id != vnfc.id));
    change.vnfcs_added = now;
    hook.change_flavour = Some(change);
    Ok(())
}

/// The instance in its new flavour, with the extensions and properties of the request.
fn finish(op: &Op, state: LcmOperationState) -> Result<Completion, PortError> {
    let mut completion = retarget::finish(op, state)?;
    if let Some(instance) = completion.instance.as_mut()
        && state == LcmOperationState::Completed
    {
        let request: ChangeVnfFlavourRequest = op.request()?;
        instance.vnf.extensions.extend(request.extensions);
        let properties = request.vnf_configurable_properties;
        instance.vnf.vnf_configurable_properties.extend(properties);
    }
    let reached = completion
        .instance
        .as_mut()
        .and_then(|one| one.deployment.as_mut());
    if let Some(deployment) = reached
        && state == LcmOperationState::Failed
        && deployment.flavour_id == op.deployment()?.flavour_id
    {
        // What the driver found may be incomplete: the next operation looks it up.
        Arc::make_mut(deployment).resolved = serde_json::Value::Null;
    }
    Ok(completion)
}

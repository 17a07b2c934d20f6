//! The work that [`scale`](super::scale) and [`scale_to_level`](super::scale_to_level) share: another number of VNFCs.
//!
//! ```text
//!  record, target ──► add: as many VNFCs as before or in the target, whichever is more ──► remove: as many as in the target
//! ```
//!
//! VNFCs are added first, so that a rollback removes exactly what was added; only the step `remove` rules it out, and it
//! runs only if VNFCs go. It does so when it begins, not at the first deletion: no VIM tells whether a deletion that it
//! accepted has begun, and a VNFC that was deleted does not come back.
//!
//! Drivers list the VNFCs of a VDU in their order, and the last ones go first: so hooks and the NFVO learn which go before
//! they go.

use super::changes::{self, inventory};
use super::heal;
use super::instantiate::Prepared;
use super::operation::{Completion, GrantNeeds, Requested, Target};
use super::scale_refusal::{not_possible, refused};
use super::step::{Output, Step, StepOutput, journaled, silent};
use super::support::Support;
use super::{Op, check_budget, grant_request, hook_vims, outcome, retarget, volume_use};
use crate::deployment::Deployment;
use crate::ports::Vim as _;
use crate::ports::{
    Allocation, Convergence, HookRequest, HookScale, Inventory, PortError, Recorded,
};
use crate::refusal::Refusal;
use crate::vims;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vnfm_descriptor::{Flavour, ScaleError, ScaleStatus, ScaledSize};
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp, Processing, Starting};
use vnfm_types::{
    AspectId, KeyValuePairs, LcmOperationState, ResourceDefinition, VnfcResourceInfo,
};

/// A flavour with scaling aspects.
pub(super) const SCALES: Support = Support::Flavour(|info| {
    let is_fixed = info.max_scale_levels.is_empty();
    is_fixed.then(|| {
        let id = &info.flavour_id;
        format!("flavour `{id}` of its VNFD declares no scaling aspect")
    })
});

/// Logs in, and looks up what new VNFCs need.
pub(super) const PREPARE: Step = Step::new("prepare", Starting, |op| journaled(prepare(op)));

/// Adds VNFCs; skipped if none come.
pub(super) const ADD: Step = Step::new("add", Processing, |op| journaled(add(op)))
    .undone_by(|op| journaled(undo_add(op)))
    .observed_by(|op| journaled(async { observe(op).await.map(Added) }))
    .only_if(|ends| adds(ends.before, ends.target));

/// Removes VNFCs; skipped if none go, so that a rollback stays possible.
pub(super) const REMOVE: Step = Step::new("remove", Processing, |op| journaled(remove(op)))
    .irreversible()
    .observed_by(|op| journaled(async { observe(op).await.map(Removed) }))
    .only_if(|ends| removes(ends.before, ends.target));

/// Registers or updates the VIMs that the hooks created; a rollback unregisters new ones.
pub(super) const REGISTER_VIMS: Step =
    heal::REGISTER_VIMS.undone_by(|op| silent(unregister_new_vims(op)));

/// The instance with the size that `scaled` computes from its flavour and its scale status, and the values of `params` for
/// its templates.
pub(super) async fn target(
    requested: &Requested<'_>,
    params: &KeyValuePairs,
    scaled: impl FnOnce(&Flavour, &ScaleStatus) -> Result<ScaledSize, ScaleError> + Send,
) -> Result<Target, Refusal> {
    let package = requested.package().await;
    let package = package.map_err(Refusal::unprocessable)?;
    let mut target = requested.unchanged();
    let mut deployment = target.deployment.as_deref().cloned().unwrap_or_default();
    let Some(flavour) = package.vnfd().flavour(&deployment.flavour_id) else {
        return Err(not_possible(format!(
            "the VNFD `{}` has no flavour `{}`, with which the instance was created",
            package.vnfd().descriptor_id,
            deployment.flavour_id
        )));
    };
    // A record of a version before levels were recorded has none.
    if deployment.vdu_instances.is_empty() {
        let levels = deployment.set_levels(flavour);
        levels.map_err(|error| not_possible(error.to_string()))?;
    }
    let levels = scale_status(&deployment);
    let size = scaled(flavour, &levels).map_err(|error| refused(flavour, &error))?;
    let before: BTreeSet<_> = resource_ids(flavour, &deployment);
    deployment.set_size(size);
    retarget::merge_layout(requested, &mut deployment, params);
    let after = resource_ids(flavour, &deployment);
    let zones = &mut deployment.placement.zones;
    zones.retain(|id, _| after.contains(id) || !before.contains(id));
    let allocation = Allocation {
        package,
        deployment: Arc::new(deployment),
        instance_name: requested.instance.vnf.vnf_instance_name.clone(),
        awaits_grant: requested.context.ports.nfvo.is_some(),
        budget: requested.context.limits().plan,
    };
    check_budget(&allocation).map_err(Refusal::unprocessable)?;
    check_with_driver(requested, &allocation).await?;
    target.deployment = Some(allocation.deployment);
    Ok(target)
}

/// Refuses what package and policy do not allow on the VIM of the instance, such as a size that a template cannot have.
async fn check_with_driver(
    requested: &Requested<'_>,
    allocation: &Allocation,
) -> Result<(), Refusal> {
    let (context, tenant) = (requested.context, requested.tenant());
    let connections = &allocation.deployment.vim_connection_info;
    let (vim, driver) = vims::of_connections(context, tenant, connections).await?;
    let checked = driver
        .validate_request(allocation)
        .and_then(|()| driver.permit(allocation, vim.policy()));
    checked.map_err(Refusal::unprocessable)
}

fn scale_status(deployment: &Deployment) -> ScaleStatus {
    let levels = deployment.scale_levels.iter();
    levels
        .map(|(aspect, level): (&AspectId, &u32)| (aspect.to_string(), *level))
        .collect()
}

fn resource_ids(flavour: &Flavour, deployment: &Deployment) -> BTreeSet<String> {
    let all = grant_request::flavour_resources(flavour, deployment);
    all.into_iter().map(|one| one.id).collect()
}

/// Whether a VDU has more VNFCs in the target.
fn adds(before: &Deployment, target: &Deployment) -> bool {
    let mut counts = target.vdu_instances.iter();
    counts.any(|(vdu, count)| *count > before.instances_of(vdu))
}

/// Whether a VDU has fewer VNFCs in the target.
fn removes(before: &Deployment, target: &Deployment) -> bool {
    adds(target, before)
}

/// The VNFCs that the target has no room for: of each VDU the last ones.
fn vnfcs_to_remove(op: &Op) -> Result<Vec<VnfcResourceInfo>, PortError> {
    let target = op.deployment()?;
    let mut kept: BTreeMap<String, u32> = BTreeMap::new();
    let mut all = op.inventory().vnfc_resource_info;
    all.retain(|vnfc| {
        let kept = kept.entry(vnfc.vdu_id.clone()).or_default();
        *kept += 1;
        *kept > target.instances_of(&vnfc.vdu_id)
    });
    Ok(all)
}

/// How many VNFCs of each VDU the target has in addition.
fn vnfcs_to_add(op: &Op) -> Result<BTreeMap<String, u32>, PortError> {
    let (before, target) = (op.deployment_before()?, op.deployment()?);
    let counts = target.vdu_instances.iter();
    let added = counts.map(|(vdu, count)| {
        (
            vdu.to_string(),
            count.saturating_sub(before.instances_of(vdu)),
        )
    });
    Ok(added.filter(|(_, count)| *count > 0).collect())
}

/// The resources of the VNFCs to come and to go, and the placement rules for those to come.
pub(super) fn grant_needs(op: &Op) -> Result<GrantNeeds, PortError> {
    let (flavour, target) = (op.flavour()?, op.deployment()?);
    let existing = resource_ids(flavour, op.deployment_before()?);
    let is_new = |one: &ResourceDefinition| !existing.contains(&one.id);
    let mut add_resources = grant_request::flavour_resources(flavour, target);
    add_resources.retain(is_new);
    let leaving = vnfcs_to_remove(op)?;
    let mut staying = op.inventory().vnfc_resource_info;
    staying.retain(|vnfc| !leaving.contains(vnfc));
    Ok(GrantNeeds {
        placement_constraints: grant_request::constraints_for_new(
            flavour,
            &add_resources,
            staying.iter(),
        ),
        add_resources,
        ..grant_request::everything_removed(&resources_of(&volume_use::own_resources(op), leaving))
    })
}

/// The part of `all` that these VNFCs have to themselves: volumes, and ports on external links.
pub(super) fn resources_of(all: &Inventory, vnfcs: Vec<VnfcResourceInfo>) -> Inventory {
    let cps: BTreeSet<&String> = vnfcs
        .iter()
        .flat_map(|vnfc| &vnfc.vnfc_cp_info)
        .flat_map(|cp| [Some(&cp.id), cp.vnf_ext_cp_id.as_ref()])
        .flatten()
        .collect();
    let mut own = Inventory {
        ext_cp_info: all.ext_cp_info.clone(),
        ext_virtual_link_info: all.ext_virtual_link_info.clone(),
        virtual_storage_resource_info: all.virtual_storage_resource_info.clone(),
        ..Inventory::default()
    };
    for link in &mut own.ext_virtual_link_info {
        let is_own = |id: &String| cps.contains(id);
        link.ext_link_ports
            .retain(|port| port.cp_instance_id.as_ref().is_some_and(is_own));
    }
    let is_own = |id: &String| {
        vnfcs
            .iter()
            .any(|one| one.storage_resource_ids.contains(id))
    };
    own.virtual_storage_resource_info
        .retain(|storage| is_own(&storage.id));
    own.vnfc_resource_info = vnfcs;
    own
}

/// Adds to the request of a hook the sizes before and after, and the VNFCs that come and go.
pub(super) fn hook_request(op: &Op, hook: &mut HookRequest, request: HookScale) -> Output<()> {
    let mut scale = request;
    scale.levels_before = scale_status(op.deployment_before()?);
    scale.levels = scale_status(op.deployment()?);
    let first = op.inventory().vnfc_resource_info;
    let among = |all: &[VnfcResourceInfo], id: &str| all.iter().any(|vnfc| vnfc.id == id);
    scale.vnfcs_to_remove = vnfcs_to_remove(op)?;
    scale.vnfcs_to_add = vnfcs_to_add(op)?;
    if let Some(now) = resized(op)? {
        let now = now.inventory.vnfc_resource_info;
        if op.output::<Removed>()?.is_some() {
            let left = first.iter().filter(|vnfc| !among(&now, &vnfc.id));
            scale.vnfcs_to_remove = left.cloned().collect();
        }
        let came = now.into_iter().filter(|vnfc| !among(&first, &vnfc.id));
        scale.vnfcs_added = came.collect();
    }
    hook.scale = Some(scale);
    Ok(())
}

/// The resources before the hooks at the end, or all that the operation has left so far.
pub(super) fn inventory_now(op: &Op) -> Output<Inventory> {
    Ok(resized(op)?.map_or_else(|| op.inventory(), |now| now.inventory))
}

/// The instance after VNFCs were added.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Added(pub Recorded);

impl StepOutput for Added {
    const STEP: &'static str = "add";
}

/// The instance after VNFCs were removed.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Removed(pub Recorded);

impl StepOutput for Removed {
    const STEP: &'static str = "remove";
}

/// The instance after the last of the two steps that has run.
fn resized(op: &Op) -> Output<Option<Recorded>> {
    let removed = op.output::<Removed>()?.map(|removed| removed.0);
    let added = op.output::<Added>()?.map(|added| added.0);
    Ok(removed.or(added))
}

/// The target, with the VNFCs that are still to be removed.
fn largest(op: &Op) -> Result<Allocation, PortError> {
    let mut largest = op.allocation()?;
    let before = op.deployment_before()?;
    let counts = &mut Arc::make_mut(&mut largest.deployment).vdu_instances;
    for (vdu, count) in counts {
        *count = (*count).max(before.instances_of(vdu));
    }
    check_budget(&largest)?;
    Ok(largest)
}

/// Looks up at the VIM what the new VNFCs need.
async fn prepare(op: &Op) -> Output<Prepared> {
    let (vim, driver) = op.vim().await?;
    let (current, target) = (outcome::recorded(&op.instance), largest(op)?);
    let change = Convergence::update(&current, &target);
    driver.preview(&op.call(&vim), &change).await.map(Prepared)
}

async fn add(op: &Op) -> Output<Added> {
    let current = outcome::recorded(&op.instance);
    converge(op, &current, &largest(op)?).await.map(Added)
}

/// Removes what was added: the record and the deployment before the operation agree again.
async fn undo_add(op: &Op) -> Output<Added> {
    let current = outcome::recorded(&op.instance);
    let mut target = op.allocation()?;
    target.deployment = op.deployment_before()?.clone();
    converge(op, &current, &target).await.map(Added)
}

async fn remove(op: &Op) -> Output<Removed> {
    let added = op.output::<Added>()?.map(|added| added.0);
    let current = added.unwrap_or_else(|| outcome::recorded(&op.instance));
    converge(op, &current, &op.allocation()?).await.map(Removed)
}

async fn converge(op: &Op, current: &Recorded, target: &Allocation) -> Output<Recorded> {
    let (vim, driver) = op.vim().await?;
    let prepared = op.output::<Prepared>()?.map(|found| found.0);
    let change = Convergence::update(current, target);
    driver
        .converge(&op.call(&vim), &change, &prepared.unwrap_or(Value::Null))
        .await
}

/// Unregisters the VIMs of the hooks that the instance did not have before.
async fn unregister_new_vims(op: &Op) -> Output<()> {
    let vnf = &op.instance.vnf;
    let is_new = |name: &String| {
        let id = hook_vims::vim_id(&vnf.id, name);
        !vnf.vim_connection_info.contains_key(&id)
    };
    let effects = op.hook_effects()?.into_iter();
    let registered = effects.flat_map(|effects| effects.register_vims);
    let new: Vec<_> = registered.map(|vim| vim.name).filter(is_new).collect();
    hook_vims::unregister_of(op, &new).await
}

/// What exists after a failed step.
async fn observe(op: &Op) -> Output<Recorded> {
    let (vim, driver) = op.vim().await?;
    driver
        .observe(&op.call(&vim), &largest(op)?, &op.instance.handle)
        .await
}

/// The instance with its new resources and size.
pub(super) fn finish(op: &Op, state: LcmOperationState) -> Result<Completion, PortError> {
    let now = resized(op)?;
    if now.is_none() && state != Completed {
        let restored = op.undo_output::<Added>()?;
        return outcome::restored(op, restored.map(|added| added.0));
    }
    let resource_changes = now
        .as_ref()
        .map(|now| changes::between(&inventory(&op.instance), &now.inventory));
    let instance = match (state, now) {
        (Completed, now) => {
            let now = now.unwrap_or_else(|| outcome::recorded(&op.instance));
            Some(outcome::with_deployment(op, now, op.deployment()?)?)
        }
        (Failed, Some(now)) => {
            let target = op.deployment()?;
            let reached = op.has_begun(REMOVE.name) || has_size(&now, target);
            let size = if reached {
                target
            } else {
                op.deployment_before()?
            };
            Some(outcome::with_deployment(op, now, size)?)
        }
        (FailedTemp, _) => None,
        _ => return Ok(Completion::default()),
    };
    Ok(Completion {
        instance,
        resource_changes,
        ..Completion::default()
    })
}

/// Whether the instance has as many VNFCs as the deployment wants.
fn has_size(now: &Recorded, wanted: &Deployment) -> bool {
    let vnfcs = &now.inventory.vnfc_resource_info;
    let count = |vdu: &str| vnfcs.iter().filter(|vnfc| vnfc.vdu_id == vdu).count();
    let mut counts = wanted.vdu_instances.iter();
    counts.all(|(vdu, wanted)| u32::try_from(count(vdu)) == Ok(*wanted))
}

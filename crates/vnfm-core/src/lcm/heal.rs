//! Heal a VNF (SOL003 5.4.9, SOL002 5.4.9): the whole flow, top to bottom.
//!
//! ```text
//!  POST …/vnf_instances/{id}/heal
//!    │  target: validate, then one transaction: occurrence in STARTING, the instance's one active
//!    │  operation, the first notification                            202 Accepted + Location
//!    ▼
//!  STARTING ──grant, reach_vim──► PROCESSING ──hooks and driver──► COMPLETED
//! ```
//!
//! The parameters of the instantiation are stored sealed, so a heal needs none; those of its request override them.
//!
//! | step          | state      | does                                                           | undo            |
//! |---------------|------------|----------------------------------------------------------------|-----------------|
//! | grant         | STARTING   | asks the NFVO, if there is one                                 | —               |
//! | reach_vim     | STARTING   | logs in                                                        | —               |
//! | heal_start    | PROCESSING | vendor hook: takes the VNFCs to be replaced out of service     | its undo, if any |
//! | repair        | PROCESSING | replaces the VNFCs and waits until their successors work       | not possible    |
//! | heal_end      | PROCESSING | vendor hook: configures the successors                         | not possible    |
//! | register_vims | PROCESSING | updates the VIMs of the instance in the registry               | not possible    |

use super::changes::{self, inventory};
use super::instantiate::Registered;
use super::operation::{
    Body, Completion, GrantDecides, GrantRule, Operation, Requested, Requires, Target,
};
use super::step::{Output, Step, StepOutput, journaled, silent};
use super::support::Support;
use super::{GrantNeeds, Op, grant_request, hook_journal, hook_vims, retarget, volume_use};
use crate::ports::{
    Convergence, HookHeal, HookRequest, InstanceRecord, PortError, Recorded, Replacement,
};
use crate::refusal::{self, Refusal, Why};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::future::ready;
use std::sync::Arc;
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp, Processing, Starting};
use vnfm_types::{
    HealVnfRequest, LcmOperationState, LcmOperationType, ResourceDefinition, VnfcResourceInfo,
};

/// Row of the operation in [`OPERATIONS`](super::OPERATIONS).
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::Heal,
    task: Some("heal"),
    interface_operation: "heal",
    body: Body::new::<HealVnfRequest>("HealVnfRequest"),
    requires: Requires::Instantiated,
    support: Support::Always,
    uses_vim: true,
    frees_space: false,
    skippable_hooks: true,
    checks_parameters: true,
    grant: Some(GrantRule {
        needs: grant_needs,
        decides: GrantDecides::Parameters,
    }),
    target: |requested| Box::pin(ready(target(requested))),
    hook_request,
    steps: STEPS,
    finish,
};

/// The steps in order, as in the table above.
pub const STEPS: &[Step] = &[
    Step::grant(),
    Step::new("reach_vim", Starting, |op| silent(op.reach_vim())),
    Step::hook("heal_start", |op| Ok(op.inventory())),
    Step::new("repair", Processing, |op| journaled(repair(op)))
        .observed_by(|op| journaled(observe(op)))
        .irreversible(),
    Step::hook("heal_end", |op| {
        let repaired = op.output::<Repaired>()?.map(|repaired| repaired.0);
        Ok(repaired.unwrap_or_default().inventory)
    }),
    REGISTER_VIMS,
];

/// Updates the VIMs of the instance after its hooks have run.
pub(super) const REGISTER_VIMS: Step = Step::new("register_vims", Processing, |op| {
    journaled(register_vims(op))
});

/// A heal changes nothing about what the instance should be, except values for its templates. Its VNFCs must exist.
fn target(requested: &Requested<'_>) -> Result<Target, Refusal> {
    let request: HealVnfRequest = requested.request()?;
    check_vnfcs(requested.instance, &request.vnfc_instance_id)?;
    let all = request.additional_params.get("all");
    if all.is_some_and(|all| !all.is_boolean()) {
        let what = "additionalParams.all must be true or false: whether volumes are replaced too";
        let code = &refusal::BAD_PARAMETERS;
        return Err(Refusal::new(Why::Unprocessable, code, what));
    }
    let mut target = requested.unchanged();
    if let Some(deployment) = &mut target.deployment {
        let params = &request.additional_params;
        retarget::merge_layout(requested, Arc::make_mut(deployment), params);
    }
    target.replace = replacement(requested.instance, &request);
    Ok(target)
}

/// Refuses the id of a VNFC that the instance does not have.
pub(super) fn check_vnfcs(instance: &InstanceRecord, named: &[String]) -> Result<(), Refusal> {
    let current = inventory(instance).vnfc_resource_info;
    let unknown = |id: &&String| current.iter().all(|vnfc| &vnfc.id != *id);
    let Some(unknown) = named.iter().find(unknown) else {
        return Ok(());
    };
    let known: Vec<_> = current
        .iter()
        .map(|vnfc| format!("{} ({})", vnfc.id, vnfc.vdu_id))
        .collect();
    let what = format!(
        "vnfcInstanceId `{unknown}` is not a VNFC of instance `{}`, which has: {}",
        instance.vnf.id,
        known.join(", ")
    );
    Err(Refusal::new(
        Why::Unprocessable,
        &refusal::UNKNOWN_VNFC,
        what,
    ))
}

/// The VNFCs (and volumes) to be removed, and their successors.
fn grant_needs(op: &Op) -> Result<GrantNeeds, PortError> {
    let request: HealVnfRequest = op.request()?;
    let (current, replaceable) = (op.inventory(), volume_use::own_resources(op));
    let healed = vnfcs_to_heal(&op.instance, &request);
    let mut needs = GrantNeeds::default();
    for vnfc in &healed {
        needs.remove_resources.push(grant_request::compute(vnfc));
        let storages = replaceable.virtual_storage_resource_info.iter();
        let own = storages.filter(|one| vnfc.storage_resource_ids.contains(&one.id));
        for storage in own.filter(|_| with_storage(&request)) {
            let vdu = Some(vnfc.vdu_id.as_str());
            needs
                .remove_resources
                .push(grant_request::storage(storage, vdu));
        }
    }
    let successor = |old: &ResourceDefinition| ResourceDefinition {
        id: format!("{}/successor", old.id),
        resource: None,
        ..old.clone()
    };
    needs.add_resources = needs.remove_resources.iter().map(successor).collect();
    let Ok(flavour) = op.flavour() else {
        return Ok(needs);
    };
    let staying = current.vnfc_resource_info.iter();
    let staying = staying.filter(|vnfc| !healed.contains(vnfc));
    needs.placement_constraints =
        grant_request::constraints_for_new(flavour, &needs.add_resources, staying);
    Ok(needs)
}

/// What heal hooks get in addition.
fn hook_request(op: &Op, hook: &mut HookRequest) -> Result<(), PortError> {
    let request: HealVnfRequest = op.request()?;
    let mut heal = HookHeal::default();
    heal.vnfcs = vnfcs_to_heal(&op.instance, &request);
    heal.all = with_storage(&request);
    heal.cause = request.cause;
    heal.heal_script = request.heal_script;
    hook.heal = Some(heal);
    Ok(())
}

/// The VNFCs to heal: those that the request names, otherwise all.
fn vnfcs_to_heal(instance: &InstanceRecord, request: &HealVnfRequest) -> Vec<VnfcResourceInfo> {
    let named = &request.vnfc_instance_id;
    let all = inventory(instance).vnfc_resource_info.into_iter();
    all.filter(|vnfc| named.is_empty() || named.contains(&vnfc.id))
        .collect()
}

/// The VNFCs to heal, for the driver.
fn replacement(instance: &InstanceRecord, request: &HealVnfRequest) -> Replacement {
    let healed = vnfcs_to_heal(instance, request).into_iter();
    Replacement {
        vnfcs: healed.map(|vnfc| vnfc.id).collect(),
        with_storage: with_storage(request),
    }
}

fn with_storage(request: &HealVnfRequest) -> bool {
    request
        .additional_params
        .get("all")
        .and_then(Value::as_bool)
        .unwrap_or(false)
}

/// The instance after the VNFCs were replaced.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Repaired(pub Recorded);

impl StepOutput for Repaired {
    const STEP: &'static str = "repair";
}

async fn repair(op: &Op) -> Output<Repaired> {
    let (vim, driver) = op.vim().await?;
    let request: HealVnfRequest = op.request()?;
    let current = Recorded {
        handle: op.instance.handle.clone(),
        inventory: inventory(&op.instance),
        ..Recorded::default()
    };
    let target = op.allocation()?;
    let replace = replacement(&op.instance, &request);
    let change = Convergence::update(&current, &target).replacing(replace);
    driver
        .converge(&op.call(&vim), &change, &Value::Null)
        .await
        .map(Repaired)
}

async fn observe(op: &Op) -> Output<Repaired> {
    let (vim, driver) = op.vim().await?;
    driver
        .observe(&op.call(&vim), &op.allocation()?, &op.instance.handle)
        .await
        .map(Repaired)
}

/// Registers the VIMs that the hooks created or recreated, under the id they already have there, and removes those
/// that the hooks named as deleted.
async fn register_vims(op: &Op) -> Output<Registered> {
    let mut registered = Registered::default();
    for effects in op.hook_effects()? {
        for new in effects.register_vims {
            let redacted = Box::pin(hook_vims::register_for(op, new)).await?;
            registered
                .0
                .insert(redacted.vim_id.clone().unwrap_or_default(), redacted);
        }
        hook_vims::unregister_of(op, &effects.unregister_vims).await?;
    }
    Ok(registered)
}

/// The instance with its resources after the heal.
fn finish(op: &Op, state: LcmOperationState) -> Result<Completion, PortError> {
    let Some(Repaired(now)) = op.output::<Repaired>()? else {
        return Ok(Completion::default());
    };
    let resource_changes = Some(changes::between(&inventory(&op.instance), &now.inventory));
    let instance = match state {
        Completed | Failed => Some(healed(op, now)?),
        FailedTemp => None,
        _ => return Ok(Completion::default()),
    };
    Ok(Completion {
        instance,
        resource_changes,
        ..Completion::default()
    })
}

/// The instance with these resources, and with the values that the request has for its templates.
fn healed(op: &Op, now: Recorded) -> Result<InstanceRecord, PortError> {
    let mut record = with_resources(op, now)?;
    if let Some(kept) = &mut record.deployment {
        let (kept, target) = (Arc::make_mut(kept), op.deployment()?);
        kept.additional_params.clone_from(&target.additional_params);
        kept.params_changed_by.clone_from(&target.params_changed_by);
    }
    Ok(record)
}

/// The instance with these resources, and with what the hooks want changed.
pub(super) fn with_resources(op: &Op, now: Recorded) -> Result<InstanceRecord, PortError> {
    let mut record = op.instance.clone();
    let mut removed = BTreeSet::new();
    for effects in op.hook_effects()? {
        crate::ports::merge(&mut record.vnf.metadata, &effects.metadata);
        removed.extend(effects.unregister_vims);
    }
    let vnf = &mut record.vnf;
    let removed: BTreeSet<_> = removed
        .iter()
        .map(|name| hook_vims::vim_id(&vnf.id, name))
        .collect();
    vnf.vim_connection_info
        .retain(|key, _| !removed.contains(key));
    vnf.vim_connection_info
        .extend(op.output::<Registered>()?.unwrap_or_default().0);
    if let Some(info) = &mut vnf.instantiated_vnf_info {
        info.ext_cp_info = now.inventory.ext_cp_info;
        info.ext_virtual_link_info = now.inventory.ext_virtual_link_info;
        info.ext_managed_virtual_link_info = now.inventory.ext_managed_virtual_link_info;
        info.vnfc_resource_info = now.inventory.vnfc_resource_info;
        info.vnf_virtual_link_resource_info = now.inventory.vnf_virtual_link_resource_info;
        info.virtual_storage_resource_info = now.inventory.virtual_storage_resource_info;
        info.metadata.extend(now.metadata);
        let deployment = Arc::make_mut(record.deployment.get_or_insert_default());
        deployment.settle_states(&info.vnfc_resource_info);
        changes::show_states(&mut info.vnfc_resource_info, deployment);
        hook_journal::note_plugins(op, deployment, &mut info.metadata);
    }
    if let Some(deployment) = record
        .deployment
        .as_mut()
        .filter(|_| !now.resolved.is_null())
    {
        Arc::make_mut(deployment).resolved = now.resolved;
    }
    record.handle = now.handle;
    Ok(record)
}

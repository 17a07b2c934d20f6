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
//! | take_links           | PROCESSING | counts the shared virtual links that it uses                 | gives them back  |
//! | change_flavour_start | PROCESSING | vendor hook: learns which VNFCs will go, while they still run | its undo, if any |
//! | adapt                | PROCESSING | resizes and adds VNFCs; skipped if any goes                  | changes them back |
//! | replace              | PROCESSING | removes, resizes and adds VNFCs; skipped if none goes        | not possible     |
//! | change_flavour_end   | PROCESSING | vendor hook: configures the VNFCs that came or stayed        | its undo, if any |
//! | register_vims        | PROCESSING | updates the VIMs of the instance in the registry             | unregisters new ones |
//! | give_back_links      | PROCESSING | gives back the links that it no longer uses                  | takes them again |

use super::Op;
use super::comparison::{self, Comparison};
use super::link_use;
use super::operation::{
    Body, Completion, GrantDecides, GrantRule, Operation, Requested, Requires, Target,
};
use super::resize;
use super::retarget;
use super::step::{Ends, Output, Step};
use super::support::Support;
use crate::deployment::Deployment;
use crate::patch::merge_patch;
use crate::ports::{HookFlavourChange, HookRequest, PortError};
use crate::refusal::{self, Refusal, Why};
use std::sync::Arc;
use vnfm_descriptor::{Flavour, Package, Vnfd};
use vnfm_types::{ChangeVnfFlavourRequest, LcmOperationState, LcmOperationType};

/// Row of the operation in [`OPERATIONS`](super::OPERATIONS).
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::ChangeFlavour,
    task: Some("change_flavour"),
    interface_operation: "change_flavour",
    body: Body::new::<ChangeVnfFlavourRequest>("ChangeVnfFlavourRequest"),
    requires: Requires::Instantiated,
    support: Support::Vnfd(only_flavour),
    uses_vim: true,
    frees_space: false,
    skippable_hooks: true,
    checks_parameters: true,
    grant: Some(GrantRule {
        needs: |op| Comparison::between_flavours(op)?.grant_needs(op),
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
    link_use::TAKE,
    Step::hook("change_flavour_start", |op| Ok(op.inventory())),
    retarget::ADAPT.only_if(|ends| !removes(ends)),
    retarget::REPLACE.only_if(removes),
    Step::hook("change_flavour_end", retarget::inventory_now),
    resize::REGISTER_VIMS,
    link_use::GIVE_BACK,
];

/// The only flavour of a VNFD: there is no other to change to.
fn only_flavour(vnfd: &Vnfd) -> Option<String> {
    let mut known = vnfd.flavours.keys();
    let (first, other) = (known.next(), known.next());
    let only = first.filter(|_| other.is_none());
    only.map(|only| format!("its only flavour is `{only}`"))
}

/// The instance in the new flavour, at the requested level.
async fn target(requested: &Requested<'_>) -> Result<Target, Refusal> {
    let request: ChangeVnfFlavourRequest = requested.request()?;
    let package = requested.package().await;
    let package = package.map_err(Refusal::unprocessable)?;
    let flavour = new_flavour(package.vnfd(), &request)?;
    retarget::check_same_vim(requested, &request.vim_connection_info).await?;
    let mut target = requested.unchanged();
    let before = target.deployment.as_deref().cloned().unwrap_or_default();
    let old = package.vnfd().flavour(&before.flavour_id);
    let mut deployment = Deployment {
        flavour_id: request.new_flavour_id.as_str().into(),
        instantiation_level_id: request.instantiation_level_id.clone(),
        placement: comparison::remaining_placement(&before.placement, old, flavour),
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
    let links = (
        &*request.ext_virtual_links,
        &*request.ext_managed_virtual_links,
    );
    comparison::set_links(&mut deployment, flavour, links)?;
    let levels = deployment.set_levels(flavour);
    levels.map_err(|error| unknown_flavour(error.to_string()))?;
    target.deployment = Some(retarget::check(requested, deployment).await?);
    Ok(target)
}

/// The flavour of the request, if the VNFD has it and the level is one of it.
fn new_flavour<'v>(
    vnfd: &'v Vnfd,
    request: &ChangeVnfFlavourRequest,
) -> Result<&'v Flavour, Refusal> {
    let id = request.new_flavour_id.as_str();
    let flavour = vnfd.flavours.get(id).ok_or_else(|| {
        let known: Vec<&str> = vnfd.flavours.keys().map(String::as_str).collect();
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

/// Whether any VNFC goes. Without the package that is unknown: the step that does not rule out a rollback reports that.
fn removes(ends: &Ends<'_>) -> bool {
    let Some(vnfd) = ends.package.map(Package::vnfd) else {
        return false;
    };
    let old = vnfd.flavour(&ends.before.flavour_id);
    let Some(new) = vnfd.flavour(&ends.target.flavour_id) else {
        return false;
    };
    Comparison::of_flavours((ends.before, ends.target), (old, new)).removes_any(ends.before)
}

/// What the hooks get in addition.
fn hook_request(op: &Op, hook: &mut HookRequest) -> Output<()> {
    let mut change = HookFlavourChange::default();
    change.flavour_id_before = op.deployment_before()?.flavour_id.to_string();
    change.flavour_id = op.deployment()?.flavour_id.to_string();
    change.vnfcs_to_remove = Comparison::between_flavours(op)?.vnfcs_to_remove(op);
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

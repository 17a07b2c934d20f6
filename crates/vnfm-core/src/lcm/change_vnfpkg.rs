//! Change the current VNF package (SOL003 5.4.11a): the whole flow, top to bottom.
//!
//! ```text
//!  POST …/vnf_instances/{id}/change_vnfpkg
//!    │  target: the new package, if the policies of both allow the change; flavour, size, links, parameters and attributes
//!    │  carried over; then one transaction: occurrence in STARTING, the instance's one active operation, which holds the
//!    │  new package                                                                     202 Accepted + Location
//!    ▼
//!  STARTING ──grant, prepare──► PROCESSING ──hooks of both packages, driver──► COMPLETED
//! ```
//!
//! The driver changes what differs between the packages, and leaves the rest alone: on OpenStack a batch of VNFCs at a time,
//! on Kubernetes as the workloads state. A rollback changes it back; what replaced VNFCs had stored in themselves is lost.
//! Until the operation ends, the record names the old package.
//!
//! | step                         | state      | does                                                         | undo             |
//! |------------------------------|------------|--------------------------------------------------------------|------------------|
//! | grant                        | STARTING   | asks the NFVO, if there is one                               | —                |
//! | prepare                      | STARTING   | logs in, looks up what the new package needs                 | —                |
//! | take_links                   | PROCESSING | counts the shared virtual links that it uses                 | gives them back  |
//! | change_current_package_start | PROCESSING | hook of the old package: learns which VNFCs change or go     | its undo, if any |
//! | adapt                        | PROCESSING | changes, adds and removes VNFCs                              | changes them back |
//! | change_current_package_end   | PROCESSING | hook of the new package: configures the VNFCs                | its undo, if any |
//! | register_vims                | PROCESSING | updates the VIMs of the instance in the registry             | unregisters new ones |
//! | give_back_links              | PROCESSING | gives back the links that it no longer uses                  | takes them again |

mod attributes;
mod destination;
mod size;

use super::Op;
use super::comparison::{self, Comparison};
use super::link_use;
use super::operation::{
    Body, Completion, GrantDecides, GrantRule, Operation, Requested, Requires, Target,
};
use super::resize;
use super::retarget;
use super::step::{Output, Step};
use super::support::Support;
use crate::deployment::Deployment;
use crate::patch::merge_patch;
use crate::ports::{
    Granted, HookPackageChange, HookRequest, PortError, Rolling, compute_id, storage_id,
    without_own_params,
};
use crate::refusal::{self, Refusal, Why};
use attributes::Attributes;
use destination::Destination;
use serde_json::Value;
use vnfm_descriptor::{Component, PackagePath};
use vnfm_types::{ChangeCurrentVnfPkgRequest, KeyValuePairs, LcmOperationState, LcmOperationType};

/// Row of the operation in [`OPERATIONS`](super::OPERATIONS).
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::ChangeVnfpkg,
    task: Some("change_vnfpkg"),
    interface_operation: "change_current_package",
    body: Body::new::<ChangeCurrentVnfPkgRequest>("ChangeCurrentVnfPkgRequest"),
    requires: Requires::Instantiated,
    support: Support::Always,
    uses_vim: true,
    frees_space: false,
    skippable_hooks: true,
    checks_parameters: true,
    grant: Some(GrantRule {
        needs: |op| Comparison::between_packages(op)?.grant_needs(op),
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
    Step::hook_before("change_current_package_start", |op| Ok(op.inventory())),
    retarget::ADAPT,
    Step::hook("change_current_package_end", retarget::inventory_now),
    resize::REGISTER_VIMS,
    link_use::GIVE_BACK,
];

/// The instance with the new package, and with what it has as far as that package knows it.
async fn target(requested: &Requested<'_>) -> Result<Target, Refusal> {
    let request: ChangeCurrentVnfPkgRequest = requested.request()?;
    let rolling = Rolling::requested(Some(&request.additional_params)).map_err(bad_parameters)?;
    refuse_coordination(&request.additional_params)?;
    retarget::check_same_vim(requested, &request.vim_connection_info).await?;
    let to = destination::find(requested, &request.vnfd_id).await?;
    let instance = requested.instance;
    Attributes::after(requested.context, &instance.vnf, &to, &request)?;
    let mut target = requested.unchanged();
    let before = target.deployment.as_deref().cloned().unwrap_or_default();
    let mut deployment = carried_over(requested, &before, &to)?;
    if !request.additional_params.is_empty() {
        let own = without_own_params(request.additional_params.clone());
        merge_patch(&mut deployment.additional_params, Some(&own));
        requested
            .op_id
            .clone_into(&mut deployment.params_changed_by);
    }
    let links = (
        &*request.ext_virtual_links,
        &*request.ext_managed_virtual_links,
    );
    comparison::set_links(&mut deployment, to.flavour()?, links)?;
    let package = &to.package;
    let deployment = retarget::check_in(requested, deployment, package, rolling).await?;
    target.modifies = vec!["vnfdId".to_owned()];
    target.deployment = Some(deployment);
    Ok(target)
}

/// Names of parameters for scripts that Tacker runs after each changed VNFC.
const COORDINATION: [&str; 2] = [
    "lcm-operation-coordinate-new-vnf",
    "lcm-operation-coordinate-old-vnf",
];

/// Refuses a request whose client expects such scripts to be run.
fn refuse_coordination(params: &KeyValuePairs) -> Result<(), Refusal> {
    let named = |name: &&str| params.get(*name).is_some_and(|script| !script.is_null());
    let Some(name) = COORDINATION.into_iter().find(named) else {
        return Ok(());
    };
    let what = format!("`additionalParams.{name}`: coordination scripts are not run");
    Err(bad_parameters(what).hint(
        "remove the parameter, and name the script as hook `change_current_package_end` of the new VNFD, as \
         `docs/how-to/scripts-for-tacker.md` shows",
    ))
}

fn bad_parameters(what: String) -> Refusal {
    Refusal::new(Why::Unprocessable, &refusal::BAD_PARAMETERS, what)
}

/// The deployment so far, in terms of the new package.
fn carried_over(
    requested: &Requested<'_>,
    before: &Deployment,
    to: &Destination,
) -> Result<Deployment, Refusal> {
    let flavour = to.flavour()?;
    let old = to.source.vnfd().flavour(&before.flavour_id);
    let placement = in_terms_of(&to.path, before.placement.clone());
    let mut deployment = Deployment {
        vnf_pkg_id: to.vnf_pkg_id.as_str().into(),
        flavour_id: to.path.flavour_id.as_str().into(),
        placement: comparison::remaining_placement(&placement, old, flavour),
        resolved: Value::Null,
        plugins: to.plugins(requested.context)?,
        ..before.clone()
    };
    rename_links(&mut deployment, &to.path);
    for volume in &mut deployment.reused_volumes {
        let id = &mut volume.virtual_storage_desc_id;
        *id = to
            .path
            .destination(Component::VirtualStorage, id)
            .to_owned();
    }
    size::carry_over((before, old), (&mut deployment, flavour), &to.path)?;
    Ok(deployment)
}

/// The placement, with the names that VDUs and storages with a zone have in the new VNFD.
fn in_terms_of(path: &PackagePath, mut placement: Granted) -> Granted {
    let renamed = |id: &str| {
        let parts: Vec<&str> = id.split('/').collect();
        let vdu = path.destination(Component::Vdu, parts.get(1)?);
        let index = parts.get(2)?.parse().ok()?;
        match parts.as_slice() {
            ["compute", _, _] => Some(compute_id(vdu, index)),
            ["storage", _, _, storage] => {
                let storage = path.destination(Component::VirtualStorage, storage);
                Some(storage_id(storage, vdu, index))
            }
            _ => None,
        }
    };
    let zones = std::mem::take(&mut placement.zones).into_iter();
    placement.zones = zones
        .map(|(id, zone)| (renamed(&id).unwrap_or(id), zone))
        .collect();
    placement
}

/// The links, with the names that CPs and internal links have in the new VNFD.
fn rename_links(deployment: &mut Deployment, path: &PackagePath) {
    for link in &mut deployment.ext_virtual_links {
        for data in &mut link.ext_cps {
            data.cpd_id = path.destination(Component::Cp, &data.cpd_id).to_owned();
        }
    }
    for link in &mut deployment.ext_managed_virtual_links {
        let id = &mut link.vnf_virtual_link_desc_id;
        *id = path.destination(Component::VirtualLink, id).to_owned();
    }
}

/// What the hooks get in addition.
fn hook_request(op: &Op, hook: &mut HookRequest) -> Output<()> {
    let (old, new) = (op.package_before()?.vnfd(), op.package()?.vnfd());
    let flavour_id = &op.deployment_before()?.flavour_id;
    let comparison = Comparison::between_packages(op)?;
    let mut change = HookPackageChange::default();
    change.vnfd_id_before.clone_from(&old.descriptor_id);
    change.vnfd_id.clone_from(&new.descriptor_id);
    change
        .vnf_software_version_before
        .clone_from(&old.software_version);
    change
        .vnf_software_version
        .clone_from(&new.software_version);
    change.modification_qualifier = PackagePath::between((old, flavour_id), new)
        .ok()
        .and_then(|path| path.modification_qualifier);
    change.vnfcs_to_change = comparison.vnfcs_to_change(op);
    change.vnfcs_to_remove = comparison.vnfcs_to_remove(op);
    let first = op.inventory().vnfc_resource_info;
    let mut now = retarget::inventory_now(op)?.vnfc_resource_info;
    now.retain(|vnfc| first.iter().all(|other| other.id != vnfc.id));
    change.vnfcs_added = now;
    hook.change_current_package = Some(change);
    Ok(())
}

/// The instance with its new package, once it has that.
fn finish(op: &Op, state: LcmOperationState) -> Result<Completion, PortError> {
    let mut completion = retarget::finish(op, state)?;
    let reached = completion.instance.as_mut().filter(|record| {
        let deployment = record.deployment.as_deref();
        deployment.is_some_and(|reached| reached.leaves_package(&op.instance.vnf_pkg_id))
    });
    let Some(record) = reached else {
        return Ok(completion);
    };
    record.vnf_pkg_id = op.deployment()?.vnf_pkg_id.to_string();
    match Attributes::read(op) {
        Ok(after) => {
            completion.modifications = Some(after.modifications(&op.instance.vnf));
            after.store_into(&mut record.vnf);
        }
        // An operation can be given up although a package cannot be read.
        Err(_) if state != LcmOperationState::Completed => {
            let request: ChangeCurrentVnfPkgRequest = op.request()?;
            record.vnf.vnfd_id = request.vnfd_id;
        }
        Err(error) => return Err(error),
    }
    Ok(completion)
}

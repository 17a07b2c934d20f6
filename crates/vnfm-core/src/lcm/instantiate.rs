//! Instantiate a VNF (SOL003 5.4.4): the whole flow, top to bottom.
//!
//! ```text
//!  POST …/vnf_instances/{id}/instantiate
//!    │  target: validate, then one transaction: occurrence in STARTING, the instance's one active
//!    │  operation, its use of the VIM, the first notification        202 Accepted + Location
//!    ▼
//!  STARTING ──grant, check_vim, prepare──► PROCESSING ──hooks and driver──► COMPLETED
//!      │ refused                               │ failed
//!      ▼                                       ▼
//!  ROLLED_BACK                            FAILED_TEMP ──retry / rollback / fail──►
//! ```
//!
//! | step              | state      | does                                               | undo                |
//! |-------------------|------------|----------------------------------------------------|---------------------|
//! | grant             | STARTING   | asks the NFVO, if there is one                     | —                   |
//! | check_vim         | STARTING   | logs in, identifies the cluster                    | —                   |
//! | prepare           | STARTING   | looks up what only the VIM knows                   | —                   |
//! | take_links        | PROCESSING | counts the shared virtual links that it uses       | gives them back     |
//! | take_volumes      | PROCESSING | uses the retained volumes that the request names   | gives them back     |
//! | instantiate_start | PROCESSING | vendor hook                                        | its undo, if any    |
//! | allocate          | PROCESSING | creates the Heat stack or Kubernetes objects and waits until they work | releases them |
//! | instantiate_end   | PROCESSING | vendor hook: configures the VNF                    | its undo, if any    |
//! | register_vims     | PROCESSING | registers the VIMs that the hooks created          | unregisters them    |

mod request_checks;

use self::request_checks::{check_enabled, check_flavour, check_links};
use super::operation::{
    Body, Completion, GrantDecides, GrantRule, Operation, Requested, Requires, Target,
};
use super::step::{Output, Step, StepOutput, journaled, silent};
use super::support::Support;
use super::{
    GrantNeeds, Op, changes, check_budget, grant, grant_request, hook_journal, hook_vims, link_use,
    volume_use,
};
use crate::deployment::{Deployment, max_scale_levels};
use crate::json::to_json;
use crate::ports::Vim as _;
use crate::ports::{
    Allocation, Change, Convergence, HookInstantiation, HookRequest, InstanceRecord, Inventory,
    PortError, Recorded, Release, VimReport, VimUse, without_own_params,
};
use crate::refusal::Refusal;
use crate::vims;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use vnfm_types::LcmOperationState::{Completed, Failed, Processing, Starting};
use vnfm_types::{
    CpProtocolInfo, InstantiateVnfRequest, InstantiatedVnfInfo, InstantiationState,
    LcmOperationState, LcmOperationType, ResourceType, VimConnectionInfo, VnfExtCpInfo,
};

/// Row of the operation in [`OPERATIONS`](super::OPERATIONS).
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::Instantiate,
    task: Some("instantiate"),
    interface_operation: "instantiate",
    body: Body::new::<InstantiateVnfRequest>("InstantiateVnfRequest"),
    requires: Requires::NotInstantiated,
    support: Support::Always,
    uses_vim: true,
    frees_space: false,
    skippable_hooks: false,
    checks_parameters: true,
    grant: Some(GrantRule {
        needs: grant_needs,
        decides: GrantDecides::Placement,
    }),
    target: |requested| Box::pin(target(requested)),
    hook_request,
    steps: STEPS,
    finish,
};

/// The steps in order, as in the table above.
pub const STEPS: &[Step] = &[
    Step::grant(),
    Step::new("check_vim", Starting, |op| journaled(check_vim(op))),
    Step::new("prepare", Starting, |op| journaled(prepare(op))),
    link_use::TAKE,
    volume_use::TAKE,
    Step::hook("instantiate_start", |_| Ok(Inventory::default())),
    Step::new("allocate", Processing, |op| journaled(allocate(op)))
        .undone_by(|op| silent(release(op)))
        .observed_by(|op| journaled(observe(op))),
    Step::hook("instantiate_end", |op| {
        Ok(op.output::<Recorded>()?.unwrap_or_default().inventory)
    }),
    Step::new("register_vims", Processing, |op| {
        journaled(register_vims(op))
    })
    .undone_by(|op| silent(unregister_vims(op))),
];

/// Checks whatever VNFD and registry can tell: flavour, level, links, VIM, size.
async fn target(requested: &Requested<'_>) -> Result<Target, Refusal> {
    let (context, instance) = (requested.context, requested.instance);
    let (tenant, mut request) = (requested.tenant(), requested.request()?);
    vims::choose(&mut request);
    check_enabled(context, tenant, &instance.vnf_pkg_id).await?;
    let package = requested.package().await;
    let package = package.map_err(Refusal::unprocessable)?;
    check_flavour(&package, &request)?;
    check_links(&package, &request)?;
    let is_placed_by_grant = context.ports.nfvo.is_some() && request.vim_connection_info.is_empty();
    let given = InstantiateVnfRequest {
        additional_params: without_own_params(request.additional_params.clone()),
        ..request.clone()
    };
    let allocation = Allocation::requested(&instance.vnf_pkg_id, package, given);
    let mut allocation = Allocation {
        instance_name: instance.vnf.vnf_instance_name.clone(),
        awaits_grant: context.ports.nfvo.is_some(),
        budget: context.limits().plan,
        ..allocation.map_err(Refusal::unprocessable)?
    };
    let deployment = Arc::make_mut(&mut allocation.deployment);
    deployment
        .role_namespaces
        .clone_from(&requested.scope.namespaces);
    let mut vim_use = VimUse::for_deployment(tenant, &instance.vnf.id, &allocation.deployment);
    check_budget(&allocation).map_err(Refusal::unprocessable)?;
    // If the request names no VIM, the NFVO chooses one.
    if is_placed_by_grant {
        volume_use::to_reuse(requested, &allocation, None).await?;
    } else {
        let connections = &mut request.vim_connection_info;
        let (vim, driver) = vims::of_connections(context, tenant, connections).await?;
        vims::name_by_id(connections, &vim);
        let own = Some((&vim, &*driver));
        let reused = volume_use::to_reuse(requested, &allocation, own).await?;
        let target = Arc::make_mut(&mut allocation.deployment);
        target.reused_volumes = reused;
        target.vim_connection_info.clone_from(connections);
        driver
            .validate_request(&allocation)
            .map_err(Refusal::unprocessable)?;
        driver
            .permit(&allocation, vim.policy())
            .map_err(Refusal::unprocessable)?;
        vim_use.vim_id = vim.registered_id().map(ToOwned::to_owned);
        vim_use.identity = vim.identity().map(ToOwned::to_owned);
    }
    Ok(Target {
        deployment: Some(allocation.deployment),
        body: to_json("the request", &request)?,
        changes: vec![Change::AddUse(vim_use)],
        ..requested.unchanged()
    })
}

/// Adds to the request of a hook how many VNFCs are created.
fn hook_request(op: &Op, hook: &mut HookRequest) -> Result<(), PortError> {
    let counts = op.deployment()?.vdu_instances.iter();
    let mut instantiation = HookInstantiation::default();
    instantiation.vnfcs_to_create = counts.map(|(vdu, n)| (vdu.to_string(), *n)).collect();
    hook.instantiation = Some(instantiation);
    Ok(())
}

/// Everything that the flavour has, except links that the NFVO or the tenant manages.
fn grant_needs(op: &Op) -> Result<GrantNeeds, PortError> {
    op.allocation_to_make()?;
    let (flavour, deployment) = (op.flavour()?, op.deployment()?);
    let managed = &deployment.placement.managed_links;
    let mut add_resources = grant_request::flavour_resources(flavour, deployment);
    add_resources.retain(|one| {
        one.type_ != ResourceType::Vl || !managed.contains_key(&one.resource_template_id)
    });
    let refs = grant_request::references(&add_resources);
    let request: InstantiateVnfRequest = op.request()?;
    let level = deployment.instantiation_level_id.clone();
    let level = level.or_else(|| flavour.default_level.clone());
    Ok(GrantNeeds {
        add_resources,
        placement_constraints: grant_request::constraints(flavour, &refs),
        instantiation_level_id: level.filter(|_| request.target_scale_level_info.is_empty()),
        ..GrantNeeds::default()
    })
}

impl StepOutput for VimReport {
    const STEP: &'static str = "check_vim";
}

async fn check_vim(op: &Op) -> Output<VimReport> {
    let (vim, driver) = op.vim().await?;
    let approved = op.output::<grant::Approved>()?;
    if approved.is_some() {
        driver.validate_request(&op.allocation_to_make()?)?;
    }
    driver.permit(&op.allocation()?, vim.policy())?;
    let elsewhere = approved.is_some_and(|approved| approved.elsewhere);
    let report = driver.check(&vim).await?;
    let is_new_identity = report.identity.is_some() && report.identity.as_deref() != vim.identity();
    if is_new_identity || elsewhere {
        let instance_id = op.instance.vnf.id.clone();
        let vim_use = VimUse {
            vim_id: vim.registered_id().map(ToOwned::to_owned),
            identity: report.identity.clone(),
            ..VimUse::for_deployment(op.tenant(), &instance_id, op.deployment()?)
        };
        let moved = elsewhere.then_some(Change::RemoveUses { instance_id });
        let changes = moved.into_iter().chain([Change::AddUse(vim_use)]).collect();
        op.context.store().write(Some(&op.fence), changes).await?;
    }
    if is_new_identity {
        vims::store_report(&op.context, op.tenant(), &vim, &report).await?;
    }
    Ok(report)
}

/// What the driver's `preview` found on the VIM, in its own format.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prepared(pub Value);

impl StepOutput for Prepared {
    const STEP: &'static str = "prepare";
}

async fn prepare(op: &Op) -> Output<Prepared> {
    let (vim, driver) = op.vim().await?;
    let target = op.allocation_to_make()?;
    driver
        .preview(&op.call(&vim), &Convergence::create(&target))
        .await
        .map(Prepared)
}

impl StepOutput for Recorded {
    const STEP: &'static str = "allocate";
}

async fn allocate(op: &Op) -> Output<Recorded> {
    let (vim, driver) = op.vim().await?;
    let prepared = op
        .output::<Prepared>()?
        .map(|found| found.0)
        .unwrap_or_default();
    let target = op.allocation_to_make()?;
    driver
        .converge(&op.call(&vim), &Convergence::create(&target), &prepared)
        .await
}

/// The resources of an interrupted allocation.
async fn observe(op: &Op) -> Output<Recorded> {
    let (vim, driver) = op.vim().await?;
    driver
        .observe(&op.call(&vim), &op.allocation()?, &Value::Null)
        .await
}

async fn release(op: &Op) -> Output<()> {
    let (vim, driver) = op.vim().await?;
    let handle = op
        .output::<Recorded>()?
        .map(|allocated| allocated.handle)
        .unwrap_or_default();
    let how = Release {
        handle,
        grace_seconds: Some(0),
        retained: Vec::new(),
    };
    driver
        .release(&op.call(&vim), &op.allocation()?, &how)
        .await
}

/// The VIMs that the hooks created, by their key in the instance's `vimConnectionInfo`.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Registered(pub std::collections::BTreeMap<String, Box<VimConnectionInfo>>);

impl StepOutput for Registered {
    const STEP: &'static str = "register_vims";
}

async fn register_vims(op: &Op) -> Output<Registered> {
    let mut registered = Registered::default();
    let effects = op.hook_effects()?.into_iter();
    for new in effects.flat_map(|effects| effects.register_vims) {
        let redacted = Box::pin(hook_vims::register_for(op, new)).await?;
        registered
            .0
            .insert(redacted.vim_id.clone().unwrap_or_default(), redacted);
    }
    Ok(registered)
}

async fn unregister_vims(op: &Op) -> Output<()> {
    hook_vims::unregister_all_of(op).await
}

/// The instance with its resources on completion or failure; otherwise it stays NOT_INSTANTIATED.
fn finish(op: &Op, state: LcmOperationState) -> Result<Completion, PortError> {
    let allocated = op.output::<Recorded>()?;
    let changes = allocated
        .as_ref()
        .map(|allocated| changes::added(&allocated.inventory));
    match state {
        Completed => Ok(Completion {
            instance: Some(instantiated(op, allocated.unwrap_or_default())?),
            resource_changes: changes,
            ..Completion::default()
        }),
        Failed if op.has_begun("allocate") => {
            let mut allocated = allocated.unwrap_or_default();
            if allocated.inventory.ext_cp_info.is_empty() {
                allocated.inventory.ext_cp_info = declared_cps(op);
            }
            Ok(Completion {
                instance: Some(instantiated(op, allocated)?),
                resource_changes: changes,
                ..Completion::default()
            })
        }
        LcmOperationState::FailedTemp => Ok(Completion {
            resource_changes: changes,
            ..Completion::default()
        }),
        _ => Ok(Completion {
            changes: vec![Change::RemoveUses {
                instance_id: op.instance.vnf.id.clone(),
            }],
            ..Completion::default()
        }),
    }
}

/// The external CPs that the VNFD declares, for an instance that failed before any was created: SOL003 5.5.2.2 requires
/// at least one for an INSTANTIATED VNF. Their metadata mark them as not created.
fn declared_cps(op: &Op) -> Vec<VnfExtCpInfo> {
    let (Ok(flavour), Ok(deployment)) = (op.flavour(), op.deployment()) else {
        return Vec::new();
    };
    let promised = |cpd: &str| {
        let check = deployment
            .ext_virtual_links
            .iter()
            .flat_map(|link| &link.ext_cps);
        let mut config = check
            .filter(|data| data.cpd_id == cpd)
            .flat_map(|data| data.cp_config.keys());
        VnfExtCpInfo {
            id: cpd.to_owned(),
            cpd_id: cpd.to_owned(),
            cp_config_id: config.next().cloned().unwrap_or_else(|| cpd.to_owned()),
            cp_protocol_info: vec![CpProtocolInfo {
                layer_protocol: "IP_OVER_ETHERNET".to_owned(),
                ip_over_ethernet: None,
            }],
            metadata: [(NOT_CREATED.to_owned(), Value::Bool(true))]
                .into_iter()
                .collect(),
            associated_vnfc_cp_id: Some(cpd.to_owned()),
            ..VnfExtCpInfo::default()
        }
    };
    flavour
        .external_cps
        .iter()
        .map(|cp| promised(&cp.cpd_id))
        .collect()
}

/// Metadata member of an external CP that the VNFD declares but that was never created.
const NOT_CREATED: &str = "notMade";

/// The instance with the allocated resources, and with everything that a later terminate needs.
fn instantiated(op: &Op, allocated: Recorded) -> Result<InstanceRecord, PortError> {
    let request: InstantiateVnfRequest = op.request()?;
    let mut deployment = Deployment::clone(op.deployment()?);
    deployment.resolved = match allocated.resolved {
        Value::Null => op
            .output::<Prepared>()?
            .map(|found| found.0)
            .unwrap_or_default(),
        resolved => resolved,
    };
    let mut record = op.instance.clone();
    let mut metadata = allocated.metadata;
    hook_journal::note_plugins(op, &mut deployment, &mut metadata);
    let vnf = &mut record.vnf;
    vnf.instantiation_state = InstantiationState::Instantiated;
    vnf.vim_connection_info = vims::without_access_info(&deployment.vim_connection_info);
    vnf.vim_connection_info
        .extend(op.output::<Registered>()?.unwrap_or_default().0);
    vnf.extensions.extend(request.extensions);
    vnf.vnf_configurable_properties
        .extend(request.vnf_configurable_properties);
    for effects in op.hook_effects()? {
        crate::ports::merge(&mut vnf.metadata, &effects.metadata);
    }
    vnf.instantiated_vnf_info = Some(InstantiatedVnfInfo {
        flavour_id: deployment.flavour_id.to_string(),
        vnf_state: deployment.vnf_state,
        scale_status: deployment.scale_status(),
        max_scale_levels: op.flavour().map(max_scale_levels).unwrap_or_default(),
        localization_language: deployment.localization_language.clone(),
        ext_cp_info: allocated.inventory.ext_cp_info,
        ext_virtual_link_info: allocated.inventory.ext_virtual_link_info,
        ext_managed_virtual_link_info: allocated.inventory.ext_managed_virtual_link_info,
        vnfc_resource_info: allocated.inventory.vnfc_resource_info,
        vnf_virtual_link_resource_info: allocated.inventory.vnf_virtual_link_resource_info,
        virtual_storage_resource_info: allocated.inventory.virtual_storage_resource_info,
        metadata,
    });
    record.deployment = Some(Arc::new(deployment));
    record.handle = allocated.handle;
    Ok(record)
}

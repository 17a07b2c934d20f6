//! Heal a VNF (SOL003 5.4.9, SOL002 5.4.9): the whole flow, top to bottom.
//!
//! ```text
//!  POST …/vnf_instances/{id}/heal
//!    │  accept: validate, then one transaction: occurrence in STARTING, the instance's one active
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
use super::step::{Completion, Operation, Output, Step, StepOutput, body, journaled, silent};
use super::{Op, grant, hook_journal, operation_control};
use crate::engine::Engine;
use crate::hooks;
use crate::overrides::SkipHooks;
use crate::ports::{
    Convergence, Effects, HookHeal, InstanceRecord, PortError, Recorded, Replacement,
};
use crate::redact::{Redactor, redact};
use crate::refusal::{self, Refusal, Why};
use crate::vims;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp, Processing, Starting};
use vnfm_types::{
    HealVnfRequest, InstantiationState, LcmOperationState, LcmOperationType, VnfcResourceInfo,
};

/// The table row that the runner reads.
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::Heal,
    accept: |engine, (tenant, id), request| {
        Box::pin(async move { accept(engine, tenant, id, body(request)?, None).await })
    },
    steps: STEPS,
    finish,
};

/// The steps in order, as in the table above.
pub const STEPS: &[Step] = &[
    Step::grant(|op| journaled(grant::ask(op))),
    Step::new("reach_vim", Starting, |op| silent(reach_vim(op))),
    Step::hook("heal_start", |op| journaled(start_hook(op))).undone_by(|op| silent(undo_start(op))),
    Step::new("repair", Processing, |op| journaled(repair(op)))
        .observed_by(|op| journaled(observe(op)))
        .irreversible(),
    Step::hook("heal_end", |op| journaled(end_hook(op))),
    Step::new("register_vims", Processing, |op| {
        journaled(register_vims(op))
    }),
];

/// Accepts a heal: its occurrence exists in STARTING when this returns its id. Parameters of the request override
/// those of the instantiation.
///
/// # Errors
///
/// `Conflict` if the instance is NOT_INSTANTIATED or busy; `Unprocessable` if it has no such VNFC or the parameters
/// are invalid. Nothing is changed then.
pub async fn accept(
    engine: &Engine,
    tenant: &str,
    instance_id: &str,
    request: HealVnfRequest,
    skip: Option<SkipHooks>,
) -> Result<String, Refusal> {
    let instance = engine.store().instance(tenant, instance_id).await?;
    if instance.vnf.instantiation_state == InstantiationState::NotInstantiated {
        let what = format!("VNF instance `{instance_id}` is NOT_INSTANTIATED");
        return Err(Refusal::new(Why::Conflict, &refusal::WRONG_STATE, what));
    }
    check_vnfcs(&instance, &request)?;
    let all = request.additional_params.get("all");
    if all.is_some_and(|all| !all.is_boolean()) {
        let what = "additionalParams.all must be true or false: whether volumes are replaced too";
        return Err(Refusal::new(
            Why::Unprocessable,
            &refusal::BAD_PARAMETERS,
            what,
        ));
    }
    let skip = skip
        .map(|skip| skip.checked(&OPERATION.hooks()))
        .transpose()?;
    vims::check_registered(engine, &instance).await?;
    let body = serde_json::to_value(&request).unwrap_or_default();
    let skipped = skip
        .as_ref()
        .map(|skip| &skip.hooks[..])
        .unwrap_or_default();
    let beginning = operation_control::Beginning {
        kind: LcmOperationType::Heal,
        redacted: validated(engine, &instance, (&request, &body), skipped).await?,
        request: body,
        changes: Vec::new(),
        target: instance.deployment.clone(),
        skip,
    };
    operation_control::begin(engine, instance, beginning).await
}

fn check_vnfcs(instance: &InstanceRecord, request: &HealVnfRequest) -> Result<(), Refusal> {
    let current = inventory(instance).vnfc_resource_info;
    let unknown = |id: &&String| current.iter().all(|vnfc| &vnfc.id != *id);
    let Some(unknown) = request.vnfc_instance_id.iter().find(unknown) else {
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

/// Checks the parameters, merged over those of the instantiation, against the heal hooks; returns the request redacted.
async fn validated(
    engine: &Engine,
    instance: &InstanceRecord,
    (request, body): (&HealVnfRequest, &Value),
    skipped: &[String],
) -> Result<Value, Refusal> {
    let Some(deployed) = instance.deployment.as_deref() else {
        return Ok(redact(body, None, &mut Redactor::default()));
    };
    let packages = &engine.parts.packages;
    // Without its package the parameters cannot be checked here; the first step that needs the package reports that.
    let Ok(package) = packages
        .package(&instance.tenant, &instance.vnf_pkg_id)
        .await
    else {
        return Ok(redact(body, None, &mut Redactor::default()));
    };
    let mut params = deployed.additional_params.clone();
    hooks::merge_params(&mut params, &request.additional_params);
    let check = hooks::ParameterCheck {
        package: &package,
        flavour: &deployed.flavour_id,
        operation: "heal",
        params: &params,
        skipped,
        deployed: Some(deployed),
    };
    hooks::check_parameters(engine, &check, body)
}

async fn reach_vim(op: &Op) -> Output<()> {
    let (vim, driver) = op.vim().await?;
    driver.check(&vim).await.map(|_| ())
}

/// What heal hooks get in addition; `None` in other operations.
pub(crate) fn hook_heal(op: &Op) -> Result<Option<HookHeal>, PortError> {
    if op.record.op.operation != LcmOperationType::Heal {
        return Ok(None);
    }
    let request: HealVnfRequest = op.request()?;
    let mut heal = HookHeal::default();
    heal.vnfcs = vnfcs_to_heal(op, &request);
    heal.all = with_storage(&request);
    heal.cause = request.cause;
    heal.heal_script = request.heal_script;
    Ok(Some(heal))
}

/// The VNFCs to heal: those that the request names, otherwise all.
pub(super) fn vnfcs_to_heal(op: &Op, request: &HealVnfRequest) -> Vec<VnfcResourceInfo> {
    let named = &request.vnfc_instance_id;
    let all = inventory(&op.instance).vnfc_resource_info.into_iter();
    all.filter(|vnfc| named.is_empty() || named.contains(&vnfc.id))
        .collect()
}

pub(super) fn with_storage(request: &HealVnfRequest) -> bool {
    request
        .additional_params
        .get("all")
        .and_then(Value::as_bool)
        .unwrap_or(false)
}

/// Effects returned by the `heal_start` hook.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StartEffects(pub Effects);

impl StepOutput for StartEffects {
    const STEP: &'static str = "heal_start";
}

async fn start_hook(op: &Op) -> Output<StartEffects> {
    hooks::run(op, "heal_start", &inventory(&op.instance))
        .await
        .map(StartEffects)
}

async fn undo_start(op: &Op) -> Output<()> {
    hooks::undo(op, "heal_start", &inventory(&op.instance)).await
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
    let replace = Replacement {
        vnfcs: vnfcs_to_heal(op, &request)
            .into_iter()
            .map(|vnfc| vnfc.id)
            .collect(),
        with_storage: with_storage(&request),
    };
    let target = op.allocation()?;
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

/// Effects returned by the `heal_end` hook.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EndEffects(pub Effects);

impl StepOutput for EndEffects {
    const STEP: &'static str = "heal_end";
}

async fn end_hook(op: &Op) -> Output<EndEffects> {
    let repaired = op
        .output::<Repaired>()?
        .map(|repaired| repaired.0)
        .unwrap_or_default();
    hooks::run(op, "heal_end", &repaired.inventory)
        .await
        .map(EndEffects)
}

/// Registers the VIMs that the hooks created or recreated, under the id they already have there, and removes those
/// that the hooks named as deleted.
async fn register_vims(op: &Op) -> Output<Registered> {
    let mut registered = Registered::default();
    for effects in effects(op)? {
        for new in effects.register_vims {
            let redacted = Box::pin(vims::register_for(op, new)).await?;
            registered
                .0
                .insert(redacted.vim_id.clone().unwrap_or_default(), redacted);
        }
        vims::unregister_of(op, &effects.unregister_vims).await?;
    }
    Ok(registered)
}

/// The effects of both hooks, in call order.
fn effects(op: &Op) -> Result<Vec<Effects>, PortError> {
    let start = op.output::<StartEffects>()?.map(|effects| effects.0);
    let end = op.output::<EndEffects>()?.map(|effects| effects.0);
    Ok(start.into_iter().chain(end).collect())
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

fn healed(op: &Op, now: Recorded) -> Result<InstanceRecord, PortError> {
    let mut record = op.instance.clone();
    let mut removed = BTreeSet::new();
    for effects in effects(op)? {
        crate::ports::merge(&mut record.vnf.metadata, &effects.metadata);
        removed.extend(effects.unregister_vims);
    }
    let vnf = &mut record.vnf;
    let removed: BTreeSet<_> = removed
        .iter()
        .map(|name| vims::vim_id(&vnf.id, name))
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
        let deployment = record.deployment.get_or_insert_default();
        hook_journal::note_plugins(op, Arc::make_mut(deployment), &mut info.metadata);
    }
    record.handle = now.handle;
    Ok(record)
}

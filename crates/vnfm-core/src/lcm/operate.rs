//! Start or stop a VNF, or VNFCs of it (SOL003 5.4.10, SOL002 5.4.10): the whole flow, top to bottom.
//!
//! ```text
//!  POST …/vnf_instances/{id}/operate
//!    │  target: the state of each VNFC, refused if the VIM cannot stop VNFCs; then one transaction: occurrence in
//!    │  STARTING, the instance's one active operation                                 202 Accepted + Location
//!    ▼
//!  STARTING ──grant, reach_vim──► PROCESSING ──hooks and driver──► COMPLETED
//! ```
//!
//! The VNF is STOPPED once none of its VNFCs should run, also because a scaling has removed those that ran: then those that
//! a heal or a scaling brings are stopped too. It is STARTED while any of them should run; the others are listed in
//! [`Deployment::stopped_vnfcs`].
//!
//! | step          | state      | does                                                           | undo             |
//! |---------------|------------|----------------------------------------------------------------|------------------|
//! | grant         | STARTING   | asks the NFVO, if there is one                                 | —                |
//! | reach_vim     | STARTING   | logs in                                                        | —                |
//! | operate_start | PROCESSING | vendor hook: takes out of service what will stop               | its undo, if any |
//! | power         | PROCESSING | starts or stops the VNFCs, and waits until they have           | the states before |
//! | operate_end   | PROCESSING | vendor hook: puts into service what was started                | its undo, if any |
//! | register_vims | PROCESSING | updates the VIMs of the instance in the registry               | unregisters new ones |

use super::changes::{self, inventory};
use super::heal;
use super::operation::{
    Body, Completion, GrantDecides, GrantNeeds, GrantRule, Operation, Requested, Requires, Target,
};
use super::step::{Output, Step, StepOutput, journaled, silent};
use super::support::Support;
use super::{Op, grant_request, outcome, resize};
use crate::deployment::Deployment;
use crate::ports::{
    HookOperate, HookRequest, InfraDriver, Inventory, PortError, Power, PowerChange, Recorded, Stop,
};
use crate::refusal::{self, Refusal, Why};
use crate::vims;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp, Processing, Starting};
use vnfm_types::VnfOperationalState::{Started, Stopped};
use vnfm_types::{
    LcmOperationState, LcmOperationType, OperateVnfRequest, ResourceChanges, StopType,
    VnfcResourceInfo,
};

/// Row of the operation in [`OPERATIONS`](super::OPERATIONS).
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::Operate,
    task: Some("operate"),
    interface_operation: "operate",
    body: Body::new::<OperateVnfRequest>("OperateVnfRequest"),
    requires: Requires::Instantiated,
    support: Support::Vim(|driver| driver.power().is_none().then_some(CANNOT_STOP)),
    uses_vim: true,
    frees_space: false,
    skippable_hooks: true,
    checks_parameters: true,
    grant: Some(GrantRule {
        needs: grant_needs,
        decides: GrantDecides::Parameters,
    }),
    target: |requested| Box::pin(target(requested)),
    hook_request,
    steps: STEPS,
    finish,
};

const CANNOT_STOP: &str = "cannot stop VNFCs";

/// The steps in order, as in the table above.
pub const STEPS: &[Step] = &[
    Step::grant(),
    Step::new("reach_vim", Starting, |op| silent(op.reach_vim())),
    Step::hook("operate_start", |op| Ok(op.inventory())),
    Step::new("power", Processing, |op| journaled(power(op)))
        .undone_by(|op| journaled(undo_power(op)))
        .observed_by(|op| journaled(observe(op))),
    Step::hook("operate_end", |op| {
        let now = op.output::<Powered>()?.map(|powered| powered.0.inventory);
        Ok(now.unwrap_or_else(|| op.inventory()))
    }),
    resize::REGISTER_VIMS,
];

/// The instance with the requested states; refused if its VIM cannot start and stop these VNFCs.
async fn target(requested: &Requested<'_>) -> Result<Target, Refusal> {
    let request: OperateVnfRequest = requested.request()?;
    check_request(&request)?;
    let mut target = requested.unchanged();
    let mut deployment = target.deployment.as_deref().cloned().unwrap_or_default();
    let connections = &deployment.vim_connection_info;
    let (_, driver) =
        vims::of_connections(requested.context, requested.tenant(), connections).await?;
    check_power(&*driver, &request)?;
    heal::check_vnfcs(requested.instance, &request.vnfc_instance_id)?;
    set_states(&mut deployment, &inventory(requested.instance), &request);
    target.deployment = Some(Arc::new(deployment));
    Ok(target)
}

/// Refuses members that the standard does not allow together.
fn check_request(request: &OperateVnfRequest) -> Result<(), Refusal> {
    let is_graceful = request.stop_type == Some(StopType::Graceful);
    let what = if request.change_state_to == Started && request.stop_type.is_some() {
        "stopType requires changeStateTo STOPPED"
    } else if request.graceful_stop_timeout.is_some() && !is_graceful {
        "gracefulStopTimeout requires changeStateTo STOPPED and stopType GRACEFUL"
    } else {
        return Ok(());
    };
    let code = &refusal::BAD_PARAMETERS;
    Err(Refusal::new(Why::Unprocessable, code, what))
}

/// Refuses single VNFCs on a VIM that cannot start and stop them.
fn check_power(driver: &dyn InfraDriver, request: &OperateVnfRequest) -> Result<(), Refusal> {
    let is_per_vnfc = driver.power().is_some_and(Power::is_per_vnfc);
    if request.vnfc_instance_id.is_empty() || is_per_vnfc {
        return Ok(());
    }
    let kind = driver.vim_types()[0];
    let what = format!(
        "vnfcInstanceId cannot be used: VIMs of type `{kind}` start and stop all VNFCs of a VNF at once"
    );
    let code = &refusal::BAD_PARAMETERS;
    Err(Refusal::new(Why::Unprocessable, code, what))
}

/// Sets the requested states. Of a STOPPED VNF whose VNFCs are started one by one, the others stay stopped.
fn set_states(deployment: &mut Deployment, current: &Inventory, request: &OperateVnfRequest) {
    let named = &request.vnfc_instance_id;
    let all = current.vnfc_resource_info.iter().map(|vnfc| &vnfc.id);
    let stops = |id: &&String| {
        if named.is_empty() || named.contains(id) {
            request.change_state_to == Stopped
        } else {
            deployment.state_of(id) == Stopped
        }
    };
    let stopped: BTreeSet<String> = all.clone().filter(stops).cloned().collect();
    let none_runs = if named.is_empty() {
        request.change_state_to == Stopped
    } else {
        stopped.len() == all.count()
    };
    deployment.vnf_state = if none_runs { Stopped } else { Started };
    deployment.stopped_vnfcs = if none_runs { BTreeSet::new() } else { stopped };
}

/// The VNFCs that the request concerns, as they were before.
fn vnfcs_to_operate(op: &Op) -> Result<Vec<VnfcResourceInfo>, PortError> {
    let request: OperateVnfRequest = op.request()?;
    let mut all = op.inventory().vnfc_resource_info;
    let named = request.vnfc_instance_id;
    all.retain(|vnfc| named.is_empty() || named.contains(&vnfc.id));
    Ok(all)
}

/// The VNFCs that change; on a VIM where stopped VNFCs cease to exist, those to be created by a start.
fn grant_needs(op: &Op) -> Result<GrantNeeds, PortError> {
    let target = op.deployment()?;
    let update_resources = vnfcs_to_operate(op)?;
    let mut add_resources = Vec::new();
    if target.vnf_state == Started && op.inventory().vnfc_resource_info.is_empty() {
        add_resources = grant_request::flavour_resources(op.flavour()?, target);
        add_resources.retain(|one| one.type_ == vnfm_types::ResourceType::Compute);
    }
    Ok(GrantNeeds {
        add_resources,
        update_resources: update_resources
            .iter()
            .map(grant_request::compute)
            .collect(),
        ..GrantNeeds::default()
    })
}

/// What the hooks get in addition.
fn hook_request(op: &Op, hook: &mut HookRequest) -> Output<()> {
    let request: OperateVnfRequest = op.request()?;
    let mut operate = HookOperate::default();
    operate.change_state_to = request.change_state_to.to_string();
    if request.change_state_to == Stopped {
        let stop_type = request.stop_type.unwrap_or_default();
        operate.stop_type = Some(stop_type.as_str().to_owned());
    }
    operate.graceful_stop_timeout = request.graceful_stop_timeout;
    operate.vnfcs = vnfcs_to_operate(op)?;
    hook.operate = Some(operate);
    Ok(())
}

/// The instance after its VNFCs were started or stopped.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Powered(pub Recorded);

impl StepOutput for Powered {
    const STEP: &'static str = "power";
}

async fn power(op: &Op) -> Output<Powered> {
    let request: OperateVnfRequest = op.request()?;
    let timeout = request.graceful_stop_timeout;
    let stop = match request.stop_type.unwrap_or_default() {
        StopType::Forceful => Stop::Forceful,
        StopType::Graceful => {
            Stop::Graceful(timeout.map(|seconds| Duration::from_secs(seconds.into())))
        }
    };
    operate(op, op.deployment()?.clone(), stop)
        .await
        .map(Powered)
}

/// Returns to the states before.
async fn undo_power(op: &Op) -> Output<Powered> {
    let before = op.deployment_before()?.clone();
    operate(op, before, Stop::Forceful).await.map(Powered)
}

async fn operate(op: &Op, deployment: Arc<Deployment>, stop: Stop) -> Output<Recorded> {
    let (vim, driver) = op.vim().await?;
    let Some(power) = driver.power() else {
        let what = format!("VIMs of type `{}` {CANNOT_STOP}", driver.vim_types()[0]);
        return Err(PortError::new(
            &refusal::NOT_SUPPORTED,
            "start or stop VNFCs",
            what,
        ));
    };
    let mut target = op.allocation()?;
    target.deployment = deployment;
    let change = PowerChange {
        current: &outcome::recorded(&op.instance),
        target: &target,
        stop,
    };
    power.operate(&op.call(&vim), &change).await
}

/// What exists after a failed step.
async fn observe(op: &Op) -> Output<Powered> {
    let (vim, driver) = op.vim().await?;
    driver
        .observe(&op.call(&vim), &op.allocation()?, &op.instance.handle)
        .await
        .map(Powered)
}

/// The instance with its new state. One that failed halfway has the state before: another request repeats either.
fn finish(op: &Op, state: LcmOperationState) -> Result<Completion, PortError> {
    let Some(Powered(now)) = op.output::<Powered>()? else {
        let restored = op.undo_output::<Powered>()?;
        return outcome::restored(op, restored.map(|powered| powered.0));
    };
    let resource_changes = Some(resource_changes(op, &now.inventory)?);
    let reached = match state {
        Completed => Some(op.deployment()?),
        Failed if op.is_done("power") => Some(op.deployment()?),
        Failed => op.record.before.as_ref(),
        FailedTemp => None,
        _ => return Ok(Completion::default()),
    };
    let instance = reached.map(|reached| outcome::with_deployment(op, now, reached));
    Ok(Completion {
        instance: instance.transpose()?,
        resource_changes,
        ..Completion::default()
    })
}

/// The VNFCs that were started or stopped; those that came or went with that are added or removed.
fn resource_changes(op: &Op, now: &Inventory) -> Result<ResourceChanges, PortError> {
    let before = op.record.before.as_deref();
    let target = op.deployment()?;
    let mut changes = changes::between(&op.inventory(), now);
    let is_changed = |vnfc: &&VnfcResourceInfo| {
        before.is_none_or(|before| before.state_of(&vnfc.id) != target.state_of(&vnfc.id))
    };
    let first = op.inventory().vnfc_resource_info;
    let stays = |vnfc: &&VnfcResourceInfo| first.iter().any(|other| other.id == vnfc.id);
    let changed = now.vnfc_resource_info.iter().filter(stays);
    changes
        .affected_vnfcs
        .extend(changes::modified(changed.filter(is_changed)));
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use super::{Deployment, Inventory, OperateVnfRequest, Started, Stopped, set_states};
    use vnfm_types::{VnfOperationalState, VnfcResourceInfo};

    fn three() -> Inventory {
        let vnfc = |id: &&str| VnfcResourceInfo {
            id: (*id).to_owned(),
            ..VnfcResourceInfo::default()
        };
        Inventory {
            vnfc_resource_info: ["a", "b", "c"].iter().map(vnfc).collect(),
            ..Inventory::default()
        }
    }

    #[test]
    fn a_vnf_is_stopped_while_none_of_its_vnfcs_should_run() {
        let mut deployment = Deployment::default();
        let all: [(&[&str], VnfOperationalState, VnfOperationalState, &[&str]); 6] = [
            (&["b"], Stopped, Started, &["b"]),
            (&["a", "c"], Stopped, Stopped, &[]),
            (&["c"], Started, Started, &["a", "b"]),
            (&["a"], Started, Started, &["b"]),
            (&[], Stopped, Stopped, &[]),
            (&[], Started, Started, &[]),
        ];
        for (named, to, state, stopped) in all {
            let request = OperateVnfRequest {
                vnfc_instance_id: named.iter().map(|id| (*id).to_owned()).collect(),
                change_state_to: to,
                ..OperateVnfRequest::default()
            };
            set_states(&mut deployment, &three(), &request);
            let ids: Vec<_> = deployment.stopped_vnfcs.iter().collect();
            assert_eq!(deployment.vnf_state, state, "{named:?} {to}");
            assert_eq!(ids, stopped, "{named:?} {to}");
        }
    }
}

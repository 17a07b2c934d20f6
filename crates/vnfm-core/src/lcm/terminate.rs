//! Terminate a VNF (SOL003 5.4.8): the whole flow, top to bottom.
//!
//! ```text
//!  POST …/vnf_instances/{id}/terminate
//!    │  target: one transaction: occurrence in STARTING, the instance's one active operation, and the VIMs that
//!    │  the instance registered marked as leaving, unless live VNFs run on them (or `cascade`)   202 Accepted + Location
//!    ▼
//!  STARTING ──grant, reach_vim──► PROCESSING ──hooks and driver──► COMPLETED
//! ```
//!
//! | step            | state      | does                                            | undo             |
//! |-----------------|------------|-------------------------------------------------|------------------|
//! | grant           | STARTING   | asks the NFVO, if there is one                  | —                |
//! | reach_vim       | STARTING   | logs in                                         | —                |
//! | terminate_dependants | PROCESSING | in a cascade: the VNFs on clusters of this one | —            |
//! | terminate_start | PROCESSING | vendor hook: the VNF still runs                 | its undo, if any |
//! | retain_volumes  | PROCESSING | lets the volumes that the request names outlive the VNF | reverses that |
//! | release         | PROCESSING | deletes the resources and waits until they are  | not possible     |
//! | give_back_links | PROCESSING | gives back the shared virtual links             | takes them again |
//! | terminate_end   | PROCESSING | vendor hook: names the VIMs to unregister       | not possible     |
//! | unregister_vims | PROCESSING | unregisters all VIMs of the instance            | not possible     |

use super::operation::{
    Body, Completion, DEPENDANTS, GrantDecides, GrantRule, Operation, Requested, Requires, Target,
};
use super::step::{Output, Step, silent};
use super::support::Support;
use super::{Op, cascade, changes, grant_request, hook_vims, link_use, volume_use};
use crate::ports::{Change, InstanceRecord, Inventory, PortError, Release};
use crate::refusal::{self, Refusal, Why};
use serde_json::Value;
use vnfm_types::LcmOperationState::{Completed, Failed, Processing, RolledBack, Starting};
use vnfm_types::{
    InstantiationState, LcmOperationState, LcmOperationType, TerminateVnfRequest, TerminationType,
};

/// Its row. Its parameters are not checked: an instance whose plugin is missing must be removable.
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::Terminate,
    task: Some("terminate"),
    interface_operation: "terminate",
    body: Body::new::<TerminateVnfRequest>("TerminateVnfRequest"),
    requires: Requires::Instantiated,
    support: Support::Always,
    uses_vim: true,
    frees_space: true,
    skippable_hooks: true,
    checks_parameters: false,
    grant: Some(GrantRule {
        needs: |op| Ok(grant_request::everything_removed(&what_ends(op))),
        decides: GrantDecides::Parameters,
    }),
    target: |requested| Box::pin(target(requested)),
    hook_request: |_, _| Ok(()),
    steps: STEPS,
    finish,
};

/// The steps in order, as in the table above.
pub const STEPS: &[Step] = &[
    Step::grant(),
    Step::new("reach_vim", Starting, |op| silent(op.reach_vim())),
    Step::new(DEPENDANTS, Processing, |op| {
        silent(cascade::terminate_dependants(op))
    })
    .only_if(|ends| ends.cascade)
    .limited_to(cascade::TIME_LIMIT),
    Step::hook("terminate_start", |op| Ok(op.inventory())),
    volume_use::RETAIN,
    Step::new("release", Processing, |op| silent(release(op))).irreversible(),
    link_use::GIVE_BACK,
    Step::hook("terminate_end", |op| Ok(op.inventory())),
    Step::new("unregister_vims", Processing, |op| {
        silent(unregister_vims(op))
    }),
];

/// Nothing remains of the deployment. The VIMs that the instance registered, and in a cascade those of its dependants,
/// take no new instance from now on.
async fn target(requested: &Requested<'_>) -> Result<Target, Refusal> {
    let request: TerminateVnfRequest = requested.request()?;
    if request.termination_type == TerminationType::Forceful
        && request.graceful_termination_timeout.is_some()
    {
        let what = "gracefulTerminationTimeout requires terminationType GRACEFUL";
        let code = &refusal::BAD_PARAMETERS;
        return Err(Refusal::new(Why::Unprocessable, code, what));
    }
    let dependants = if requested.cascade {
        cascade::dependants(requested).await?
    } else {
        Vec::new()
    };
    let besides: Vec<_> = dependants.iter().map(|one| one.id.clone()).collect();
    let mark = |instance_id: &String| Change::MarkVimsLeaving {
        tenant: requested.tenant().to_owned(),
        instance_id: instance_id.clone(),
        op_id: requested.op_id.to_owned(),
        besides: besides.clone(),
    };
    let leaving = [&requested.instance.vnf.id].into_iter().chain(&besides);
    Ok(Target {
        deployment: None,
        changes: leaving.map(mark).collect(),
        dependants,
        retain: volume_use::to_retain(requested, &request.additional_params).await?,
        ..requested.unchanged()
    })
}

/// What does not outlive the instance.
fn what_ends(op: &Op) -> Inventory {
    let mut inventory = volume_use::own_resources(op);
    let retained = &op.record.control.retain;
    let storages = &mut inventory.virtual_storage_resource_info;
    storages.retain(|storage| !retained.contains(&storage.id));
    inventory
}

async fn release(op: &Op) -> Output<()> {
    let (vim, driver) = op.vim().await?;
    let request: TerminateVnfRequest = op.request()?;
    let how = Release {
        handle: op.instance.handle.clone(),
        grace_seconds: match request.termination_type {
            TerminationType::Forceful => Some(0),
            TerminationType::Graceful => request.graceful_termination_timeout,
        },
        retained: op.record.control.retain.clone(),
    };
    driver
        .release(&op.call(&vim), &op.allocation()?, &how)
        .await
}

/// The resources are deleted, so no VIM of this instance can stay, whether or not a hook names it.
async fn unregister_vims(op: &Op) -> Output<()> {
    hook_vims::unregister_all_of(op).await
}

/// The instance without resources on completion; otherwise unchanged.
fn finish(op: &Op, state: LcmOperationState) -> Result<Completion, PortError> {
    let op_id = op.record.op.id.clone();
    match state {
        Completed => Ok(Completion {
            instance: Some(terminated(op)?),
            resource_changes: Some(changes::removed(&op.inventory())),
            changes: vec![
                Change::RemoveUses {
                    instance_id: op.instance.vnf.id.clone(),
                },
                Change::UnmarkVimsLeaving { op_id },
            ],
            ..Completion::default()
        }),
        RolledBack => Ok(Completion {
            changes: vec![Change::UnmarkVimsLeaving { op_id }],
            ..Completion::default()
        }),
        // Once its resources are being deleted, no other VNF may use a cluster on them.
        Failed if !op.has_begun("release") => Ok(Completion {
            changes: vec![Change::UnmarkVimsLeaving { op_id }],
            ..Completion::default()
        }),
        _ => Ok(Completion::default()),
    }
}

fn terminated(op: &Op) -> Result<InstanceRecord, PortError> {
    let mut record = op.instance.clone();
    record.vnf.instantiation_state = InstantiationState::NotInstantiated;
    record.vnf.instantiated_vnf_info = None;
    record.vnf.vim_connection_info.clear();
    record.deployment = None;
    record.handle = Value::Null;
    for effects in op.hook_effects()? {
        crate::ports::merge(&mut record.vnf.metadata, &effects.metadata);
    }
    Ok(record)
}

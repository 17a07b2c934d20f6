//! Terminate a VNF (SOL003 5.4.8): the whole flow, top to bottom.
//!
//! ```text
//!  POST …/vnf_instances/{id}/terminate
//! │  accept: one transaction: occurrence in STARTING, the instance's one active operation, and the VIMs that
//!  │  the instance registered marked as leaving, unless live VNFs run on them    202 Accepted + Location
//!    ▼
//!  STARTING ──grant, reach_vim──► PROCESSING ──hooks and driver──► COMPLETED
//! ```
//!
//! | step            | state      | does                                            | undo             |
//! |-----------------|------------|-------------------------------------------------|------------------|
//! | grant           | STARTING   | asks the NFVO, if there is one                  | —                |
//! | reach_vim       | STARTING   | logs in                                         | —                |
//! | terminate_start | PROCESSING | vendor hook: the VNF still runs                 | its undo, if any |
//! | release         | PROCESSING | deletes the resources and waits until they are  | not possible     |
//! | terminate_end   | PROCESSING | vendor hook: names the VIMs to unregister       | not possible     |
//! | unregister_vims | PROCESSING | unregisters all VIMs of the instance            | not possible     |

use super::changes::{self, inventory};
use super::step::{Completion, Operation, Output, Step, StepOutput, body, journaled, silent};
use super::{Op, grant, operation_control};
use crate::engine::Engine;
use crate::hooks;
use crate::json::to_json;
use crate::overrides::SkipHooks;
use crate::ports::{Change, Effects, InstanceRecord, PortError, Release};
use crate::redact::{Redactor, redact};
use crate::refusal::{self, Refusal, Why};
use crate::vims;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use vnfm_types::LcmOperationState::{Completed, Failed, Processing, RolledBack, Starting};
use vnfm_types::{
    InstantiationState, LcmOperationState, LcmOperationType, TerminateVnfRequest, TerminationType,
};

/// The table row that the runner reads.
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::Terminate,
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
    Step::hook("terminate_start", |op| journaled(start_hook(op)))
        .undone_by(|op| silent(undo_start(op))),
    Step::new("release", Processing, |op| silent(release(op))).irreversible(),
    Step::hook("terminate_end", |op| journaled(end_hook(op))),
    Step::new("unregister_vims", Processing, |op| {
        silent(unregister_vims(op))
    }),
];

/// Accepts a termination: its occurrence exists in STARTING when this returns its id.
///
/// # Errors
///
/// `Conflict` if the instance is NOT_INSTANTIATED or busy, or if live VNFs run on a cluster that it registered; the
/// error names them. Nothing is changed then.
pub async fn accept(
    engine: &Engine,
    tenant: &str,
    instance_id: &str,
    request: TerminateVnfRequest,
    skip: Option<SkipHooks>,
) -> Result<String, Refusal> {
    let instance = engine.store().instance(tenant, instance_id).await?;
    if instance.vnf.instantiation_state == InstantiationState::NotInstantiated {
        let what = format!("VNF instance `{instance_id}` is NOT_INSTANTIATED");
        return Err(Refusal::new(Why::Conflict, &refusal::WRONG_STATE, what));
    }
    if request.termination_type == TerminationType::Forceful
        && request.graceful_termination_timeout.is_some()
    {
        let what = "gracefulTerminationTimeout requires terminationType GRACEFUL";
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
    let body = to_json("the request", &request)?;
    let retire = Change::MarkVimsLeaving {
        tenant: tenant.to_owned(),
        instance_id: instance_id.to_owned(),
        op_id: String::new(),
    };
    let beginning = operation_control::Beginning {
        kind: LcmOperationType::Terminate,
        redacted: redact(&body, None, &mut Redactor::default()),
        request: body,
        changes: vec![retire],
        target: None,
        skip,
    };
    operation_control::begin(engine, instance, beginning)
        .await
        .map_err(still_carries)
}

/// Lists the live VNFs that run on the instance's cluster.
fn still_carries(refusal: Refusal) -> Refusal {
    if refusal.code != &refusal::IN_USE {
        return refusal;
    }
    let list = refusal.blocked_by.join(", ");
    let count = refusal.blocked_by.len();
    let detail = format!("{count} live VNF instance(s) run on the cluster of this one: {list}");
    Refusal { detail, ..refusal }
}

async fn reach_vim(op: &Op) -> Output<()> {
    let (vim, driver) = op.vim().await?;
    driver.check(&vim).await.map(|_| ())
}

/// Effects returned by the `terminate_start` hook.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StartEffects(pub Effects);

impl StepOutput for StartEffects {
    const STEP: &'static str = "terminate_start";
}

async fn start_hook(op: &Op) -> Output<StartEffects> {
    hooks::run(op, "terminate_start", &inventory(&op.instance))
        .await
        .map(StartEffects)
}

async fn undo_start(op: &Op) -> Output<()> {
    hooks::undo(op, "terminate_start", &inventory(&op.instance)).await
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
    };
    driver
        .release(&op.call(&vim), &op.allocation()?, &how)
        .await
}

/// Effects returned by the `terminate_end` hook.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct EndEffects(pub Effects);

impl StepOutput for EndEffects {
    const STEP: &'static str = "terminate_end";
}

async fn end_hook(op: &Op) -> Output<EndEffects> {
    hooks::run(op, "terminate_end", &inventory(&op.instance))
        .await
        .map(EndEffects)
}

/// The resources are deleted, so no VIM of this instance can stay, whether or not a hook names it.
async fn unregister_vims(op: &Op) -> Output<()> {
    vims::unregister_all_of(op).await
}

/// The instance without resources on completion; otherwise unchanged.
fn finish(op: &Op, state: LcmOperationState) -> Result<Completion, PortError> {
    let op_id = op.record.op.id.clone();
    match state {
        Completed => Ok(Completion {
            instance: Some(terminated(op)?),
            resource_changes: Some(changes::removed(&inventory(&op.instance))),
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
        // Past the point of no return no other VNF may use a cluster that is being deleted.
        Failed if op.record.point_of_no_return.is_none() => Ok(Completion {
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
    for effects in [
        op.output::<StartEffects>()?.map(|e| e.0),
        op.output::<EndEffects>()?.map(|e| e.0),
    ]
    .into_iter()
    .flatten()
    {
        crate::ports::merge(&mut record.vnf.metadata, &effects.metadata);
    }
    Ok(record)
}

//! Store the state of a VNF (SOL003 5.4.21): the whole flow, top to bottom.
//!
//! ```text
//!  POST …/vnf_instances/{id}/create_snapshot
//!    │  target: the snapshot must be empty; then one transaction: occurrence in STARTING, the instance's one active
//!    │  operation, the record of the instance in the snapshot                         202 Accepted + Location
//!    ▼
//!  STARTING ──grant, prepare──► PROCESSING ──hooks and driver──► COMPLETED
//! ```
//!
//! The instance itself does not change. The snapshot has the record of the instance from the beginning on, with its VIM:
//! so whatever the VIM has stored can be deleted, however the operation ends.
//!
//! | step                  | state      | does                                                     | undo             |
//! |-----------------------|------------|----------------------------------------------------------|------------------|
//! | grant                 | STARTING   | asks the NFVO, if there is one                           | —                |
//! | prepare               | STARTING   | logs in, and checks that all of it can be stored         | —                |
//! | create_snapshot_start | PROCESSING | vendor hook: makes data on disks consistent              | its undo, if any |
//! | store                 | PROCESSING | stores VNFCs and volumes, and waits until that is done   | deletes all of it |
//! | create_snapshot_end   | PROCESSING | vendor hook: continues normal service                    | its undo, if any |
//! | register_vims         | PROCESSING | updates the VIMs of the instance in the registry         | unregisters new ones |

use super::operation::{
    Body, Completion, GrantDecides, GrantNeeds, GrantRule, Operation, Requested, Requires,
    SnapshotUse, Target,
};
use super::snapshot_use;
use super::step::{Output, Step, StepOutput, journaled, silent};
use super::{Op, outcome, resize};
use crate::deployment::Deployment;
use crate::ports::{
    Change, HookRequest, HookSnapshot, PortError, Recorded, SnapshotContents, SnapshotSource,
    StoredSnapshot,
};
use crate::refusal::{self, Refusal, Why};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::sync::Arc;
use vnfm_types::LcmOperationState::{Completed, Failed, Processing, RolledBack, Starting};
use vnfm_types::{CreateVnfSnapshotRequest, LcmOperationState, LcmOperationType, VnfSnapshot};

/// Row of the operation in [`OPERATIONS`](super::OPERATIONS).
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::CreateSnapshot,
    task: Some("create_snapshot"),
    interface_operation: "create_snapshot",
    body: Body::new::<CreateVnfSnapshotRequest>("CreateVnfSnapshotRequest"),
    requires: Requires::Instantiated,
    support: snapshot_use::SUPPORT,
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

/// The steps in order, as in the table above.
pub const STEPS: &[Step] = &[
    Step::grant(),
    Step::new("prepare", Starting, |op| silent(prepare(op))),
    Step::hook("create_snapshot_start", |op| Ok(op.inventory())),
    Step::new("store", Processing, |op| journaled(store(op)))
        .undone_by(|op| silent(undo_store(op))),
    Step::hook("create_snapshot_end", |op| Ok(op.inventory())),
    resize::REGISTER_VIMS,
];

/// The instance as it is; refused unless the snapshot is empty.
async fn target(requested: &Requested<'_>) -> Result<Target, Refusal> {
    let request: CreateVnfSnapshotRequest = requested.request()?;
    let mut record = snapshot_use::named(requested, &request.vnf_snapshot_info_id).await?;
    if record.info.vnf_snapshot.is_some() {
        let id = &record.info.id;
        let what = format!("VNF snapshot `{id}` is not empty: it can be created once");
        return Err(Refusal::new(Why::Conflict, &refusal::BAD_SNAPSHOT, what));
    }
    let (instance, now) = (requested.instance, requested.context.now());
    let data = request.user_defined_data;
    let begun = snapshot_use::begun(&record.info.id, instance, now, data);
    record.info.vnf_snapshot = Some(Box::new(begun));
    record.deployment.clone_from(&instance.deployment);
    let id = record.info.id.clone();
    Ok(Target {
        changes: vec![snapshot_use::take(requested, record)],
        snapshot: Some(SnapshotUse::Create(id)),
        ..requested.unchanged()
    })
}

fn grant_needs(op: &Op) -> Result<GrantNeeds, PortError> {
    let request: CreateVnfSnapshotRequest = op.request()?;
    Ok(snapshot_use::grant_needs(op, &request.vnf_snapshot_info_id))
}

/// What the hooks get in addition.
fn hook_request(op: &Op, hook: &mut HookRequest) -> Output<()> {
    let request: CreateVnfSnapshotRequest = op.request()?;
    let mut snapshot = HookSnapshot::default();
    snapshot.vnf_snapshot_info_id = request.vnf_snapshot_info_id;
    snapshot.user_defined_data = request.user_defined_data;
    hook.snapshot = Some(snapshot);
    Ok(())
}

/// What the VIM has stored.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stored(pub StoredSnapshot);

impl StepOutput for Stored {
    const STEP: &'static str = "store";
}

async fn prepare(op: &Op) -> Output<()> {
    let (vim, driver) = op.vim().await?;
    let request: CreateVnfSnapshotRequest = op.request()?;
    let source = SnapshotSource {
        id: &request.vnf_snapshot_info_id,
        current: &outcome::recorded(&op.instance),
        what: &op.allocation()?,
    };
    let snapshots = snapshot_use::snapshots(&*driver)?;
    snapshots.check_source(&op.call(&vim), &source).await
}

async fn store(op: &Op) -> Output<Stored> {
    let (vim, driver) = op.vim().await?;
    let request: CreateVnfSnapshotRequest = op.request()?;
    let source = SnapshotSource {
        id: &request.vnf_snapshot_info_id,
        current: &outcome::recorded(&op.instance),
        what: &op.allocation()?,
    };
    let snapshots = snapshot_use::snapshots(&*driver)?;
    let stored = snapshots.create(&op.call(&vim), &source).await;
    stored.map(Stored)
}

/// Deletes whatever was stored, also by an interrupted attempt.
async fn undo_store(op: &Op) -> Output<()> {
    let (vim, driver) = op.vim().await?;
    let request: CreateVnfSnapshotRequest = op.request()?;
    let stored = op.output::<Stored>()?.map(|stored| stored.0.handle);
    let handle = stored.unwrap_or(Value::Null);
    let snapshots = snapshot_use::snapshots(&*driver)?;
    let id = &request.vnf_snapshot_info_id;
    snapshots.delete(&op.call(&vim), id, &handle).await
}

/// The snapshot with its contents, or empty again; and the instance with what the hooks want changed. After a failure the
/// snapshot stays incomplete, which only a deletion ends.
fn finish(op: &Op, state: LcmOperationState) -> Result<Completion, PortError> {
    let changes = match state {
        RolledBack => vec![filled(op, None, Value::Null)?],
        Completed | Failed => {
            let stored = op.output::<Stored>()?.map(|stored| stored.0);
            let StoredSnapshot { handle, vnfcs } = stored.unwrap_or_default();
            let mut contents = contents(op)?;
            contents.vnfc_snapshots = vnfcs;
            if state == Completed {
                complete(&mut contents, op.clock().now());
            }
            vec![filled(op, Some(contents), handle)?]
        }
        _ => return Ok(Completion::default()),
    };
    let has_begun = |step: &&Step| op.has_begun(step.name) && !step.is_grant();
    let instance = (state != RolledBack && STEPS.iter().any(|step| has_begun(&step)))
        .then(|| unchanged(op))
        .transpose()?;
    Ok(Completion {
        instance,
        changes,
        ..Completion::default()
    })
}

/// The instance with what the hooks want changed.
fn unchanged(op: &Op) -> Result<crate::ports::InstanceRecord, PortError> {
    let now: Recorded = outcome::recorded(&op.instance);
    let deployment: &Arc<Deployment> = op.deployment()?;
    outcome::with_deployment(op, now, deployment)
}

/// The contents of the snapshot as they were when the operation began.
fn contents(op: &Op) -> Result<VnfSnapshot, PortError> {
    let request: CreateVnfSnapshotRequest = op.request()?;
    let (id, begun_at) = (&request.vnf_snapshot_info_id, op.record.op.start_time);
    let data = request.user_defined_data.clone();
    Ok(snapshot_use::begun(id, &op.instance, begun_at, data))
}

/// Sets all times: VNFCs are stored together.
fn complete(contents: &mut VnfSnapshot, now: jiff::Timestamp) {
    contents.creation_finished_at = Some(now);
    for vnfc in &mut contents.vnfc_snapshots {
        vnfc.creation_started_at = contents.creation_started_at;
        vnfc.creation_finished_at = Some(now);
    }
}

fn filled(op: &Op, contents: Option<VnfSnapshot>, handle: Value) -> Result<Change, PortError> {
    let request: CreateVnfSnapshotRequest = op.request()?;
    let deployment = contents.as_ref().and(op.record.before.clone());
    Ok(Change::FillSnapshot(Box::new(SnapshotContents {
        tenant: op.tenant().to_owned(),
        id: request.vnf_snapshot_info_id,
        op_id: op.record.op.id.clone(),
        snapshot: contents.map(Box::new),
        deployment,
        handle,
    })))
}

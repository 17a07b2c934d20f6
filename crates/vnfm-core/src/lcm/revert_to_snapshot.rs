//! Return to a stored state of a VNF (SOL003 5.4.22): the whole flow, top to bottom.
//!
//! ```text
//!  POST …/vnf_instances/{id}/revert_to_snapshot
//!    │  target: the deployment of the snapshot; then one transaction: occurrence in STARTING, the instance's one active
//!    │  operation, the snapshot in use                                                202 Accepted + Location
//!    ▼
//!  STARTING ──grant, prepare──► PROCESSING ──hooks and driver──► COMPLETED
//! ```
//!
//! The record of the instance returns too: size, parameters, metadata, extensions, configurable properties. Its name, its
//! description and its VIM connection stay.
//!
//! | step                     | state      | does                                                    | undo             |
//! |--------------------------|------------|---------------------------------------------------------|------------------|
//! | grant                    | STARTING   | asks the NFVO, if there is one                          | —                |
//! | prepare                  | STARTING   | logs in, and checks that the VIM still has all of it    | —                |
//! | take_links               | PROCESSING | counts the shared virtual links that it uses            | gives them back  |
//! | revert_to_snapshot_start | PROCESSING | vendor hook: takes the VNF out of service               | its undo, if any |
//! | revert                   | PROCESSING | overwrites VNFCs and volumes, and waits until they work | not possible     |
//! | revert_to_snapshot_end   | PROCESSING | vendor hook: puts the VNF into service                  | not possible     |
//! | register_vims            | PROCESSING | updates the VIMs of the instance in the registry        | not possible     |
//! | give_back_links          | PROCESSING | gives back the links that it no longer uses             | not possible     |

use super::changes::{self, inventory};
use super::operation::{
    Body, Completion, GrantDecides, GrantNeeds, GrantRule, Operation, Requested, Requires,
    SnapshotUse, Target,
};
use super::snapshot_use::{self, Stored};
use super::step::{Output, Step, StepOutput, journaled, silent};
use super::{Op, heal, link_use, outcome, resize, retarget};
use crate::deployment::Deployment;
use crate::ports::{
    Allocation, HookRequest, HookSnapshot, InstanceRecord, PortError, Recorded, ResourcePlan,
    Reversion, SnapshotRecord, merge,
};
use crate::refusal::{self, Refusal, Why};
use crate::vims;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use vnfm_types::LcmOperationState::{Completed, Failed, FailedTemp, Processing, Starting};
use vnfm_types::{
    KeyValuePairs, LcmOperationState, LcmOperationType, RevertToVnfSnapshotRequest, VnfInstance,
    VnfSnapshot,
};

/// Row of the operation in [`OPERATIONS`](super::OPERATIONS).
pub const OPERATION: Operation = Operation {
    kind: LcmOperationType::RevertToSnapshot,
    task: Some("revert_to_snapshot"),
    interface_operation: "revert_to_snapshot",
    body: Body::new::<RevertToVnfSnapshotRequest>("RevertToVnfSnapshotRequest"),
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
    link_use::TAKE,
    Step::hook("revert_to_snapshot_start", |op| Ok(op.inventory())),
    Step::new("revert", Processing, |op| journaled(revert(op)))
        .irreversible()
        .observed_by(|op| journaled(observe(op))),
    Step::hook("revert_to_snapshot_end", |op| {
        let now = op.output::<Reverted>()?.map(|now| now.recorded.inventory);
        Ok(now.unwrap_or_else(|| op.inventory()))
    }),
    heal::REGISTER_VIMS,
    link_use::GIVE_BACK,
];

/// The deployment of the snapshot; refused unless that is a complete one of this instance, on the same VIM.
async fn target(requested: &Requested<'_>) -> Result<Target, Refusal> {
    let request: RevertToVnfSnapshotRequest = requested.request()?;
    let record = snapshot_use::named(requested, &request.vnf_snapshot_info_id).await?;
    let (contents, then) = complete(&record)?;
    check_same(requested, contents, then)?;
    check_same_vim(requested, then).await?;
    let instance = requested.instance;
    let current = instance.deployment.as_deref().cloned().unwrap_or_default();
    let deployment = Deployment {
        vim_connection_info: current.vim_connection_info,
        plugins: current.plugins,
        credentials: current.credentials,
        stopped_vnfcs: stopped_now(&record, instance, then),
        ..then.clone()
    };
    let deployment = retarget::check(requested, deployment).await?;
    let vnf = contents.vnf_instance.as_deref();
    Ok(Target {
        deployment: Some(deployment),
        modifies: vnf
            .map(|then| modified(&instance.vnf, then))
            .unwrap_or_default(),
        changes: vec![snapshot_use::take(requested, record.clone())],
        snapshot: Some(SnapshotUse::Revert(Box::new(record))),
        ..requested.unchanged()
    })
}

/// The VNFCs that the snapshot has stopped, by the ids that they have now: a heal gives another one.
fn stopped_now(
    record: &SnapshotRecord,
    instance: &InstanceRecord,
    then: &Deployment,
) -> BTreeSet<String> {
    let (stored, current) = (Stored::from_record(record), inventory(instance));
    let mut stopped = then.stopped_vnfcs.clone();
    for (now, then) in stored.counterparts(&current) {
        if stopped.remove(&then.id) {
            stopped.insert(now.id.clone());
        }
    }
    stopped
}

/// The contents of a snapshot that is complete.
fn complete(record: &SnapshotRecord) -> Result<(&VnfSnapshot, &Deployment), Refusal> {
    let contents = record.info.vnf_snapshot.as_deref();
    let contents = contents.filter(|contents| contents.creation_finished_at.is_some());
    contents.zip(record.deployment.as_deref()).ok_or_else(|| {
        let id = &record.info.id;
        let state = match record.info.vnf_snapshot {
            None => "is empty",
            Some(_) => "is incomplete: the operation that should have created it failed",
        };
        let what = format!("VNF snapshot `{id}` {state}");
        Refusal::new(Why::Conflict, &refusal::BAD_SNAPSHOT, what)
    })
}

/// Refuses a snapshot of another instance, or of another package.
fn check_same(
    requested: &Requested<'_>,
    contents: &VnfSnapshot,
    then: &Deployment,
) -> Result<(), Refusal> {
    let (id, instance) = (&contents.id, requested.instance);
    let what = if contents.vnf_instance_id != instance.vnf.id {
        let other = &contents.vnf_instance_id;
        format!("vnfSnapshotInfoId: VNF snapshot `{id}` is of VNF instance `{other}`")
    } else if *then.vnf_pkg_id != *instance.vnf_pkg_id {
        let (then, now) = (&contents.vnfd_id, &instance.vnf.vnfd_id);
        format!(
            "vnfSnapshotInfoId: VNF snapshot `{id}` is of VNFD `{then}`, the instance is now of VNFD `{now}`"
        )
    } else {
        return Ok(());
    };
    Err(Refusal::new(
        Why::Unprocessable,
        &refusal::BAD_SNAPSHOT,
        what,
    ))
}

/// Refuses a snapshot on another VIM: the instance was terminated since, and instantiated there.
async fn check_same_vim(requested: &Requested<'_>, then: &Deployment) -> Result<(), Refusal> {
    let (context, tenant) = (requested.context, requested.tenant());
    let now = requested.instance.deployment.as_deref();
    let now = now.map(|now| now.vim_connection_info.clone());
    let (now, _) = vims::of_connections(context, tenant, &now.unwrap_or_default()).await?;
    let (then, _) = vims::of_connections(context, tenant, &then.vim_connection_info).await?;
    if now.registered_id() == then.registered_id() {
        return Ok(());
    }
    let what =
        "vnfSnapshotInfoId: what the VNF snapshot has stored is on another VIM than the instance";
    Err(Refusal::new(Why::Unprocessable, &refusal::BAD_VIM, what))
}

/// The members of the record that return to what they were, and differ.
fn modified(now: &VnfInstance, then: &VnfInstance) -> Vec<String> {
    let members = [
        ("metadata", &now.metadata, &then.metadata),
        ("extensions", &now.extensions, &then.extensions),
        (
            "vnfConfigurableProperties",
            &now.vnf_configurable_properties,
            &then.vnf_configurable_properties,
        ),
    ];
    let differ = members.iter().filter(|(_, now, then)| now != then);
    differ.map(|(name, ..)| (*name).to_owned()).collect()
}

/// The VNFCs that stay and are overwritten, and those that come and go with the size.
fn grant_needs(op: &Op) -> Result<GrantNeeds, PortError> {
    let request: RevertToVnfSnapshotRequest = op.request()?;
    let mut needs = resize::grant_needs(op)?;
    let leaving = &needs.remove_resources;
    let updated = snapshot_use::grant_needs(op, &request.vnf_snapshot_info_id).update_resources;
    let stays = |id: &String| leaving.iter().all(|one| &one.id != id);
    needs.update_resources = updated.into_iter().filter(|one| stays(&one.id)).collect();
    Ok(needs)
}

/// What the hooks get in addition.
fn hook_request(op: &Op, hook: &mut HookRequest) -> Output<()> {
    let request: RevertToVnfSnapshotRequest = op.request()?;
    let mut snapshot = HookSnapshot::default();
    snapshot.vnf_snapshot_info_id = request.vnf_snapshot_info_id;
    hook.snapshot = Some(snapshot);
    Ok(())
}

/// The instance after it has returned.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reverted {
    /// The resources that the VIM has after the return.
    pub recorded: Recorded,
    /// Ids of the VNFCs that have a stored state again.
    pub returned: BTreeSet<String>,
    /// What the record had then; `None`: the step failed.
    pub record: Option<RestoredRecord>,
}

/// The members of the record that return.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RestoredRecord {
    /// `metadata` of the instance at that time.
    pub metadata: KeyValuePairs,
    /// `extensions` of the instance at that time.
    pub extensions: KeyValuePairs,
    /// `vnfConfigurableProperties` of the instance at that time.
    pub vnf_configurable_properties: KeyValuePairs,
}

impl RestoredRecord {
    fn from_snapshot(snapshot: SnapshotRecord) -> Self {
        let contents = snapshot.info.vnf_snapshot.unwrap_or_default();
        let vnf = contents.vnf_instance.unwrap_or_default();
        Self {
            metadata: vnf.metadata,
            extensions: vnf.extensions,
            vnf_configurable_properties: vnf.vnf_configurable_properties,
        }
    }
}

impl StepOutput for Reverted {
    const STEP: &'static str = "revert";
}

/// What the driver works from.
struct Work {
    stored: Stored,
    current: Recorded,
    target: Allocation,
    before: Allocation,
    record: RestoredRecord,
}

impl Work {
    async fn read(op: &Op) -> Output<Self> {
        let request: RevertToVnfSnapshotRequest = op.request()?;
        let id = request.vnf_snapshot_info_id;
        let snapshot = op.context.store().snapshot(op.tenant(), &id).await?;
        let target = op.allocation()?;
        Ok(Self {
            stored: Stored::from_record(&snapshot),
            current: outcome::recorded(&op.instance),
            before: Allocation {
                deployment: op.deployment_before()?.clone(),
                ..target.clone()
            },
            target,
            record: RestoredRecord::from_snapshot(snapshot),
        })
    }

    fn reversion(&self) -> Reversion<'_> {
        let ends = [&self.before, &self.target];
        self.stored.reversion(&self.current, ends)
    }
}

/// Logs in, and lets the driver find what the snapshot refers to.
async fn prepare(op: &Op) -> Output<()> {
    let (vim, driver) = op.vim().await?;
    let work = Work::read(op).await?;
    let snapshots = snapshot_use::snapshots(&*driver)?;
    let (cx, reversion) = (op.call(&vim), work.reversion());
    let planned = snapshots.plan_revert(&cx, &reversion).await;
    planned.map(|_: ResourcePlan| ())
}

async fn revert(op: &Op) -> Output<Reverted> {
    let (vim, driver) = op.vim().await?;
    let work = Work::read(op).await?;
    let snapshots = snapshot_use::snapshots(&*driver)?;
    let recorded = snapshots.revert(&op.call(&vim), &work.reversion()).await?;
    Ok(Reverted {
        returned: work.stored.stored_of(&recorded.inventory),
        recorded,
        record: Some(work.record),
    })
}

/// What exists after a failed step.
async fn observe(op: &Op) -> Output<Reverted> {
    let (vim, driver) = op.vim().await?;
    let (cx, target) = (op.call(&vim), op.allocation()?);
    let recorded = driver.observe(&cx, &target, &op.instance.handle).await?;
    let stored = Work::read(op).await?.stored;
    Ok(Reverted {
        returned: stored.stored_of(&recorded.inventory),
        recorded,
        record: None,
    })
}

/// The instance as it was; one that failed has the deployment of the snapshot, to which a repeated request leads.
fn finish(op: &Op, state: LcmOperationState) -> Result<Completion, PortError> {
    let Some(Reverted {
        recorded,
        returned,
        record,
    }) = op.output::<Reverted>()?
    else {
        return Ok(Completion::default());
    };
    let first = inventory(&op.instance);
    let mut resource_changes = changes::between(&first, &recorded.inventory);
    let stays = |id: &String| first.vnfc_resource_info.iter().any(|one| one.id == *id);
    let now = recorded.inventory.vnfc_resource_info.iter();
    let returned = now.filter(|vnfc| returned.contains(&vnfc.id) && stays(&vnfc.id));
    let modified = changes::modified(returned);
    resource_changes.affected_vnfcs.extend(modified);
    let instance = match state {
        Completed | Failed => {
            let reached = outcome::with_deployment(op, recorded, op.deployment()?)?;
            Some(with_record(op, reached, record)?)
        }
        FailedTemp => None,
        _ => return Ok(Completion::default()),
    };
    Ok(Completion {
        instance,
        resource_changes: Some(resource_changes),
        ..Completion::default()
    })
}

/// The instance with the members of its record that return, and with what the hooks have changed of them.
fn with_record(
    op: &Op,
    mut instance: InstanceRecord,
    record: Option<RestoredRecord>,
) -> Result<InstanceRecord, PortError> {
    let Some(record) = record else {
        return Ok(instance);
    };
    let vnf = &mut instance.vnf;
    vnf.metadata = record.metadata;
    for effects in op.hook_effects()? {
        merge(&mut vnf.metadata, &effects.metadata);
    }
    vnf.extensions = record.extensions;
    vnf.vnf_configurable_properties = record.vnf_configurable_properties;
    Ok(instance)
}

//! What storing a state and returning to it share ([`create_snapshot`](super::create_snapshot),
//! [`revert_to_snapshot`](super::revert_to_snapshot)): the checks of the snapshot, and its contents.

use super::Op;
use super::changes::inventory;
use super::grant_request;
use super::operation::{GrantNeeds, Requested};
use super::support::Support;
use crate::ports::{
    Allocation, Change, InfraDriver, InstanceRecord, Inventory, PortError, Recorded, Reversion,
    SnapshotRecord, Snapshots, StoredSnapshot, counterparts,
};
use crate::refusal::{self, Refusal, Why};
use crate::vims::without_access_info;
use jiff::Timestamp;
use std::collections::BTreeSet;
use vnfm_types::{
    KeyValuePairs, SnapshotResourceDefinition, VnfInstance, VnfSnapshot, VnfcResourceInfo,
};

/// A VIM on which states can be stored.
pub(super) const SUPPORT: Support =
    Support::Vim(|driver| driver.snapshots().is_none().then_some(CANNOT_STORE));

const CANNOT_STORE: &str = "cannot store the state of VNFCs";

/// The snapshot that a request names; refused if it does not exist, is used or is being deleted.
pub(super) async fn named(requested: &Requested<'_>, id: &str) -> Result<SnapshotRecord, Refusal> {
    let found = requested
        .context
        .store()
        .snapshot(requested.tenant(), id)
        .await;
    let record = match found {
        Err(crate::ports::StoreError::NotFound { .. }) => {
            let what = format!("vnfSnapshotInfoId: VNF snapshot `{id}` does not exist");
            return Err(Refusal::new(
                Why::Unprocessable,
                &refusal::BAD_SNAPSHOT,
                what,
            ));
        }
        found => found?,
    };
    if let Some(op_id) = &record.used_by {
        return Err(used_by(id, op_id));
    }
    if record.deleting {
        return Err(being_deleted(id));
    }
    Ok(record)
}

/// The refusal of a request about a snapshot that an operation uses.
pub(crate) fn used_by(id: &str, op_id: &str) -> Refusal {
    let what = format!("VNF snapshot `{id}` is used by operation `{op_id}`, which has not ended");
    Refusal::new(Why::Conflict, &refusal::SNAPSHOT_BUSY, what).blocked_by(vec![op_id.to_owned()])
}

/// The refusal of a request about a snapshot whose deletion has begun.
pub(crate) fn being_deleted(id: &str) -> Refusal {
    let what = format!("VNF snapshot `{id}` is being deleted");
    Refusal::new(Why::Conflict, &refusal::WRONG_STATE, what).hint(format!(
        "complete the deletion: `vnfmctl snapshot delete {id}`"
    ))
}

/// Records that the new operation uses the snapshot, until it has ended.
pub(super) fn take(requested: &Requested<'_>, record: SnapshotRecord) -> Change {
    Change::PutSnapshot(Box::new(SnapshotRecord {
        used_by: Some(requested.op_id.to_owned()),
        ..record
    }))
}

/// The contents of a snapshot of this instance that is not complete.
pub(super) fn begun(
    id: &str,
    instance: &InstanceRecord,
    at: Timestamp,
    user_defined_data: KeyValuePairs,
) -> VnfSnapshot {
    let vnf = VnfInstance {
        vim_connection_info: without_access_info(&instance.vnf.vim_connection_info),
        links: None,
        ..instance.vnf.clone()
    };
    VnfSnapshot {
        id: id.to_owned(),
        vnf_instance_id: vnf.id.clone(),
        creation_started_at: Some(at),
        creation_finished_at: None,
        vnfd_id: vnf.vnfd_id.clone(),
        vnf_instance: Some(Box::new(vnf)),
        vnfc_snapshots: Vec::new(),
        user_defined_data,
    }
}

/// What a snapshot has of an instance, as drivers need it.
pub(crate) struct Stored {
    id: String,
    then: Inventory,
    contents: StoredSnapshot,
}

impl Stored {
    pub(crate) fn from_record(record: &SnapshotRecord) -> Self {
        let snapshot = record.info.vnf_snapshot.as_deref();
        let vnf = snapshot.and_then(|snapshot| snapshot.vnf_instance.as_deref());
        let then = InstanceRecord {
            vnf: vnf.cloned().unwrap_or_default(),
            ..InstanceRecord::default()
        };
        let vnfcs = snapshot.map(|snapshot| snapshot.vnfc_snapshots.clone());
        Self {
            id: record.info.id.clone(),
            then: inventory(&then),
            contents: StoredSnapshot {
                handle: record.handle.clone(),
                vnfcs: vnfcs.unwrap_or_default(),
            },
        }
    }

    /// Each VNFC of `current` with the one that it was then.
    pub(super) fn counterparts<'a>(
        &'a self,
        current: &'a Inventory,
    ) -> Vec<(&'a VnfcResourceInfo, &'a VnfcResourceInfo)> {
        let then = &self.then.vnfc_resource_info;
        counterparts(then, &current.vnfc_resource_info)
    }

    /// Ids of the VNFCs of `now` of which a state is stored.
    pub(super) fn stored_of(&self, now: &Inventory) -> BTreeSet<String> {
        let stored = self.contents.vnfcs.iter();
        let stored: BTreeSet<&String> = stored.map(|one| &one.vnfc_instance_id).collect();
        let pairs = self.counterparts(now).into_iter();
        let stored = pairs.filter(|(_, then)| stored.contains(&then.id));
        stored.map(|(now, _)| now.id.clone()).collect()
    }

    /// The return from `current`, with the deployment `before`, to the snapshot, with its own, `target`.
    pub(crate) fn reversion<'a>(
        &'a self,
        current: &'a Recorded,
        [before, target]: [&'a Allocation; 2],
    ) -> Reversion<'a> {
        Reversion {
            id: &self.id,
            then: &self.then,
            stored: &self.contents,
            current,
            target,
            before,
        }
    }
}

/// How the driver stores states.
pub(super) fn snapshots(driver: &dyn InfraDriver) -> Result<&dyn Snapshots, PortError> {
    driver.snapshots().ok_or_else(|| {
        let kind = driver.vim_types()[0];
        let what = format!("VIMs of type `{kind}` {CANNOT_STORE}");
        PortError::new(&refusal::NOT_SUPPORTED, "use a snapshot", what)
    })
}

/// The VNFCs and volumes of the instance, which the snapshot concerns.
pub(super) fn grant_needs(op: &Op, snapshot_id: &str) -> GrantNeeds {
    let current = op.inventory();
    let concerns = |vnfc_id: Option<&String>, storage_id: Option<&String>| {
        Some(SnapshotResourceDefinition {
            vnf_snapshot_id: snapshot_id.to_owned(),
            vnfc_snapshot_id: vnfc_id.cloned(),
            storage_snapshot_id: storage_id.cloned(),
            snapshot_resource: None,
        })
    };
    let mut update_resources = Vec::new();
    for vnfc in &current.vnfc_resource_info {
        let mut compute = grant_request::compute(vnfc);
        compute.snapshot_res_def = concerns(Some(&vnfc.id), None);
        update_resources.push(compute);
        let storages = current.virtual_storage_resource_info.iter();
        for storage in storages.filter(|one| vnfc.storage_resource_ids.contains(&one.id)) {
            let mut volume = grant_request::storage(storage, Some(&vnfc.vdu_id));
            volume.snapshot_res_def = concerns(Some(&vnfc.id), Some(&storage.id));
            update_resources.push(volume);
        }
    }
    GrantNeeds {
        update_resources,
        ..GrantNeeds::default()
    }
}

//! What storing a state and returning to it share ([`create_snapshot`](super::create_snapshot),
//! [`revert_to_snapshot`](super::revert_to_snapshot)): the checks of the snapshot, and its contents.

use super::Op;
use super::changes::inventory;
use super::grant_request;
use super::operation::{GrantNeeds, Requested};
use crate::ports::{
    Change, InfraDriver, InstanceRecord, Inventory, PortError, SnapshotRecord, Snapshots,
};
use crate::refusal::{self, Refusal, Why};
use crate::vims::{self, VimHandle, without_access_info};
use jiff::Timestamp;
use std::sync::Arc;
use vnfm_types::{KeyValuePairs, SnapshotResourceDefinition, VnfInstance, VnfSnapshot};

/// The VIM of the instance; refused if it cannot store states.
pub(super) async fn check_support(
    requested: &Requested<'_>,
    task: &str,
) -> Result<(VimHandle, Arc<dyn InfraDriver>), Refusal> {
    let deployment = requested.instance.deployment.as_deref();
    let connections = deployment.map(|deployment| deployment.vim_connection_info.clone());
    let (context, tenant) = (requested.context, requested.tenant());
    let found = vims::of_connections(context, tenant, &connections.unwrap_or_default()).await?;
    if found.1.snapshots().is_some() {
        return Ok(found);
    }
    let (id, kind) = (&requested.instance.vnf.id, found.1.vim_types()[0]);
    let what = format!(
        "VNF `{id}` does not support the task `{task}`: VIMs of type `{kind}` cannot store the state of VNFCs"
    );
    Err(Refusal::new(Why::NotFound, &refusal::NOT_SUPPORTED, what))
}

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

/// The resources of an instance when the snapshot was created.
pub(crate) fn stored_inventory(snapshot: &VnfSnapshot) -> Inventory {
    let vnf = snapshot.vnf_instance.as_deref().cloned();
    inventory(&InstanceRecord {
        vnf: vnf.unwrap_or_default(),
        ..InstanceRecord::default()
    })
}

/// How the driver stores states.
pub(super) fn snapshots(driver: &dyn InfraDriver) -> Result<&dyn Snapshots, PortError> {
    driver.snapshots().ok_or_else(|| {
        let kind = driver.vim_types()[0];
        let what = format!("VIMs of type `{kind}` cannot store the state of VNFCs");
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

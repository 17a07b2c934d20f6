//! The records of VNFs that run on VIMs which hooks of an operation change.
//!
//! A hook that drains the nodes of a cluster moves pods of other VNFs. No operation of theirs records that, so the one
//! that moved them does: their VNFCs are observed, and their records written if they differ. An instance with an
//! operation of its own is left to that operation. SOL003 has no notification for such a change.

use super::Op;
use super::changes::inventory;
use crate::ports::{
    Allocation, Change, HookDependent, InstanceRecord, Inventory, Ownership, PortError, StoreError,
    VimCall,
};
use crate::vims;
use std::time::Duration;
use vnfm_types::InstantiationState;

/// How long the VIM of one instance may take to respond.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often a record is read again because it was changed concurrently.
const MAX_ATTEMPTS: u32 = 3;

/// Updates the records of these instances. One that cannot be updated is logged: it is not what the hook was about.
pub(super) async fn refresh(op: &Op, dependents: &[HookDependent]) {
    for dependent in dependents {
        let id = &dependent.id;
        if let Err(error) = refresh_one(op, id).await {
            let outdated = format!("the record of VNF instance `{id}` may be outdated: {error}");
            op.watcher().log("warn", "dependents", &outdated);
        }
    }
}

async fn refresh_one(op: &Op, id: &str) -> Result<(), PortError> {
    let store = op.context.store();
    for _ in 0..MAX_ATTEMPTS {
        let mut record = match store.instance(op.tenant(), id).await {
            Ok(record) => record,
            // Of another tenant, or deleted in the meantime.
            Err(StoreError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let idle = record.active_op.is_none();
        if !idle || record.vnf.instantiation_state != InstantiationState::Instantiated {
            return Ok(());
        }
        let now = observe(op, &record).await?;
        if !update(&mut record, now) {
            return Ok(());
        }
        // Refused if an operation of its own has begun: that writes the record, too.
        let change = Change::PutInstance(Box::new(record));
        match store.write(Some(&op.fence), vec![change]).await {
            Err(StoreError::Changed { .. }) => {}
            written => return Ok(written?),
        }
    }
    Ok(())
}

/// What exists of the instance.
async fn observe(op: &Op, record: &InstanceRecord) -> Result<Inventory, PortError> {
    let deployment = record.deployment.clone().unwrap_or_default();
    let connections = &deployment.vim_connection_info;
    let (vim, driver) = vims::of_connections(&op.context, op.tenant(), connections)
        .await
        .map_err(vims::as_port_error)?;
    let packages = &op.context.ports.packages;
    let allocation = Allocation {
        package: packages.package(op.tenant(), &record.vnf_pkg_id).await?,
        deployment,
        instance_name: record.vnf.vnf_instance_name.clone(),
        awaits_grant: false,
        budget: op.context.limits().plan,
    };
    let ownership = Ownership {
        instance_id: record.vnf.id.clone(),
        ..op.ownership.clone()
    };
    let call = VimCall {
        ownership: &ownership,
        deadline: op.deadline.min(op.clock().now() + TIMEOUT),
        ..op.call(&vim)
    };
    let found = driver.observe(&call, &allocation, &record.handle).await?;
    Ok(found.inventory)
}

/// Replaces the VNFCs and their external connection points; false if they are the same.
fn update(record: &mut InstanceRecord, now: Inventory) -> bool {
    let before = inventory(record);
    let Some(info) = &mut record.vnf.instantiated_vnf_info else {
        return false;
    };
    if (&before.vnfc_resource_info, &before.ext_cp_info)
        == (&now.vnfc_resource_info, &now.ext_cp_info)
    {
        return false;
    }
    info.vnfc_resource_info = now.vnfc_resource_info;
    info.ext_cp_info = now.ext_cp_info;
    true
}

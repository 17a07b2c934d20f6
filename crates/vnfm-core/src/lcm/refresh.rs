//! Observes an instance outside of its own operations, and writes its record if it differs.
//!
//! ```text
//! record ── INSTANTIATED, no operation? ── observe ── differs? ── write, if the record is still that version
//!    ^                                                               └─ changed concurrently: again
//! ```
//! An instance with an operation is left to it. SOL003 has no notification for such a change; what follows a VIM writes an
//! event of our own ([`EVENT_KIND`]).

use super::changes::{inventory, show_states};
use crate::context::Context;
use crate::ports::{
    Allocation, Change, EventScope, Fence, InstanceRecord, Inventory, OutboxRow, Ownership,
    PortError, StoreError, VimCall, Watcher,
};
use crate::vims;
use jiff::Timestamp;
use serde_json::json;
use std::time::Duration;
use vnfm_types::{InstantiationState, VnfcResourceInfo};

/// How long the VIM of one instance may take to respond.
const TIMEOUT: Duration = Duration::from_secs(10);
/// How often a record is read again because it was changed concurrently.
const MAX_ATTEMPTS: u32 = 3;
/// Kind of the event about a record that follows its VIM. It is not of SOL003, so no subscriber gets it.
pub(crate) const EVENT_KIND: &str = "VnfcResourcesChanged";

/// Who refreshes a record.
pub(crate) struct Refresher<'a> {
    pub(crate) context: &'a Context,
    /// The operation whose hook moves VNFCs of others, and its fence; `None`: nobody operates.
    pub(crate) operation: Option<&'a Fence>,
    pub(crate) watcher: &'a dyn Watcher,
    /// The latest end of an observation; [`TIMEOUT`] applies, too.
    pub(crate) deadline: Timestamp,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refreshed {
    /// It was up to date; or the instance has no resources, or does not exist.
    Current,
    /// An operation of the instance will write it, with what it finds.
    Busy,
    /// It was written.
    Written(Changed),
}

/// What has changed of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Changed {
    /// VNFCs that are new in the record.
    pub(crate) added: usize,
    /// VNFCs that are not in the record any more.
    pub(crate) removed: usize,
}

impl Refresher<'_> {
    /// Updates the record of an instance.
    ///
    /// # Errors
    ///
    /// If the VIM or the database does not respond, or the record changes faster than it can be written.
    pub(crate) async fn refresh(&self, tenant: &str, id: &str) -> Result<Refreshed, PortError> {
        let store = self.context.store();
        let mut attempt = 1;
        loop {
            let mut record = match store.instance(tenant, id).await {
                Ok(record) => record,
                // Of another tenant, or deleted in the meantime.
                Err(StoreError::NotFound { .. }) => return Ok(Refreshed::Current),
                Err(error) => return Err(error.into()),
            };
            if record.active_op.is_some() {
                return Ok(Refreshed::Busy);
            }
            if record.vnf.instantiation_state != InstantiationState::Instantiated {
                return Ok(Refreshed::Current);
            }
            let now = self.observe(&record).await?;
            let Some(changed) = update(&mut record, now) else {
                return Ok(Refreshed::Current);
            };
            // Refused if an operation of its own has begun: that writes the record, too.
            let changes = self.changes(record, changed);
            match store.write(self.operation, changes).await {
                Err(StoreError::Changed { .. }) if attempt < MAX_ATTEMPTS => attempt += 1,
                written => return Ok(written.map(|()| Refreshed::Written(changed))?),
            }
        }
    }

    /// The record, and the event about it unless the log of an operation tells it.
    fn changes(&self, record: InstanceRecord, changed: Changed) -> Vec<Change> {
        let event = self.operation.is_none().then(|| {
            let row = event(&record, changed, self.context.now());
            Change::Outbox(Box::new(row))
        });
        let put = Change::PutInstance(Box::new(record));
        std::iter::once(put).chain(event).collect()
    }

    /// What exists of the instance.
    async fn observe(&self, record: &InstanceRecord) -> Result<Inventory, PortError> {
        let (context, tenant) = (self.context, &record.tenant);
        let deployment = record.deployment.clone().unwrap_or_default();
        let (vim, driver) = vims::of_connections(context, tenant, &deployment.vim_connection_info)
            .await
            .map_err(vims::as_port_error)?;
        let packages = &context.ports.packages;
        let allocation = Allocation {
            package: packages.package(tenant, &record.vnf_pkg_id).await?,
            deployment,
            instance_name: record.vnf.vnf_instance_name.clone(),
            awaits_grant: false,
            budget: context.limits().plan,
        };
        let operation = self.operation.map(|fence| fence.op_id.clone());
        let ownership = Ownership {
            installation_id: context.store().installation_id().to_owned(),
            tenant: tenant.clone(),
            instance_id: record.vnf.id.clone(),
            op_id: operation.unwrap_or_default(),
        };
        let latest = context.now().saturating_add(TIMEOUT).unwrap_or_default();
        let call = VimCall {
            vim: &vim,
            ownership: &ownership,
            clock: &*context.ports.clock,
            watcher: self.watcher,
            deadline: self.deadline.min(latest),
        };
        let found = driver.observe(&call, &allocation, &record.handle).await?;
        Ok(found.inventory)
    }
}

/// Replaces VNFCs, their storages and their external connection points; `None` if they are the same.
fn update(record: &mut InstanceRecord, mut now: Inventory) -> Option<Changed> {
    let before = inventory(record);
    let info = record.vnf.instantiated_vnf_info.as_mut()?;
    if let Some(deployment) = &record.deployment {
        show_states(&mut now.vnfc_resource_info, deployment);
    }
    let (old, new) = (&before.vnfc_resource_info, &now.vnfc_resource_info);
    let are_equal = old == new
        && before.ext_cp_info == now.ext_cp_info
        && before.virtual_storage_resource_info == now.virtual_storage_resource_info;
    if are_equal {
        return None;
    }
    let new_in = |one: &[VnfcResourceInfo], other: &[VnfcResourceInfo]| {
        let is_new = |vnfc: &&VnfcResourceInfo| other.iter().all(|known| known.id != vnfc.id);
        one.iter().filter(is_new).count()
    };
    let changed = Changed {
        added: new_in(new, old),
        removed: new_in(old, new),
    };
    info.vnfc_resource_info = now.vnfc_resource_info;
    info.ext_cp_info = now.ext_cp_info;
    info.virtual_storage_resource_info = now.virtual_storage_resource_info;
    Some(changed)
}

fn event(record: &InstanceRecord, changed: Changed, at: Timestamp) -> OutboxRow {
    OutboxRow {
        seq: 0,
        tenant: record.tenant.clone(),
        instance_id: record.vnf.id.clone(),
        kind: EVENT_KIND.to_owned(),
        body: json!({
            "notificationType": EVENT_KIND,
            "timeStamp": at,
            "vnfInstanceId": record.vnf.id,
            "addedVnfcs": changed.added,
            "removedVnfcs": changed.removed,
        }),
        about: EventScope::for_instance(record, None),
        at,
    }
}

//! VIMs that the hooks of an instance created: registered as an effect of the operation, unregistered by its undo.

use super::op_context::Op;
use crate::ports::{Change, NewVim, PortError, StoreError};
use crate::vims::{Candidate, as_port_error};
use uuid::Uuid;
use vnfm_types::{KeyValuePairs, VimConnectionInfo};

/// Registers a VIM that a hook of `op` created, or updates it if an interrupted attempt already did. Its id is
/// UUIDv5(instance id, name). Returns it as the instance shows it.
pub(super) async fn register_for(
    op: &Op,
    new: NewVim,
) -> Result<Box<VimConnectionInfo>, PortError> {
    let instance_id = &op.instance.vnf.id;
    let id = vim_id(instance_id, &new.name);
    let connection = VimConnectionInfo {
        vim_id: Some(id.clone()),
        vim_type: new.vim_type,
        interface_info: new.interface_info,
        access_info: new.access_info,
        extra: new.extra,
    };
    let candidate = Candidate {
        tenant: op.tenant(),
        id: id.clone(),
        name: new.name,
        connection,
        old: None,
    };
    let tested = candidate.tested(&op.context).await;
    let mut record = tested.map_err(as_port_error)?;
    record.vim.registered_by = Some(instance_id.clone());
    let visible = Box::new(VimConnectionInfo {
        vim_id: Some(id.clone()),
        vim_type: record.vim.vim_type.clone(),
        interface_info: record.vim.interface_info.clone(),
        access_info: KeyValuePairs::new(),
        extra: record.vim.extra.clone(),
    });
    let store = op.context.store();
    let change = match store.vim(op.tenant(), &id).await {
        Ok(old) => {
            record.version = old.version;
            record.vim.shared = old.vim.shared;
            record.vim.policy = old.vim.policy;
            Change::PutVim(Box::new(record))
        }
        Err(StoreError::NotFound { .. }) => Change::AddVim(Box::new(record)),
        Err(error) => return Err(error.into()),
    };
    store.write(Some(&op.fence), vec![change]).await?;
    Ok(visible)
}

/// The id of the VIM `name` that a hook of an instance registers.
pub(super) fn vim_id(instance_id: &str, name: &str) -> String {
    let namespace = Uuid::parse_str(instance_id).unwrap_or(Uuid::NAMESPACE_OID);
    Uuid::new_v5(&namespace, name.as_bytes()).to_string()
}

/// Unregisters all VIMs that the instance of `op` registered.
pub(super) async fn unregister_all_of(op: &Op) -> Result<(), PortError> {
    unregister(op, |_| true).await
}

/// Unregisters the VIMs with these names that the instance of `op` registered.
pub(super) async fn unregister_of(op: &Op, names: &[String]) -> Result<(), PortError> {
    unregister(op, |name| names.iter().any(|removed| removed == name)).await
}

async fn unregister(op: &Op, matches: impl Fn(&str) -> bool) -> Result<(), PortError> {
    let store = op.context.store();
    let owner = Some(op.instance.vnf.id.as_str());
    let mut removed = store.vims(op.tenant()).await?;
    removed
        .retain(|record| record.vim.registered_by.as_deref() == owner && matches(&record.vim.name));
    let changes: Vec<_> = removed
        .into_iter()
        .map(|record| Change::RemoveVim {
            tenant: op.tenant().to_owned(),
            id: record.vim.id,
            force: false,
        })
        .collect();
    if changes.is_empty() {
        return Ok(());
    }
    Ok(store.write(Some(&op.fence), changes).await?)
}

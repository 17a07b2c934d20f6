//! Logins to the VIM that hooks requested: kept with the deployment, revoked by the undo of their step.

use super::op_context::Op;
use crate::hooks::{REQUESTED, credentials_step};
use crate::ports::PortError;

/// Revokes the logins that hook `name` of `op` created. Those from before the operation stay.
///
/// # Errors
///
/// With the VIM's message; the next undo continues.
pub(super) async fn revoke(op: &Op, name: &str) -> Result<(), PortError> {
    let (store, step) = (op.context.store(), credentials_step(name));
    let requested = store.checkpoint(&op.fence.op_id, &step, REQUESTED).await?;
    if requested.is_none() {
        return Ok(());
    }
    let (vim, driver) = op.vim().await?;
    let Some(credentials) = driver.credentials() else {
        return Ok(());
    };
    let before = op.record.before.as_deref();
    let kept = before
        .into_iter()
        .flat_map(|deployment| deployment.credentials.keys());
    let kept: Vec<&str> = kept.map(String::as_str).collect();
    credentials.revoke_credentials(&op.call(&vim), &kept).await
}

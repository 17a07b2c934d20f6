//! How a hook rules out the rollback of its operation.

use crate::context::HookContext;
use crate::error::ServiceError;
use serde_json::{Value, json};

impl HookContext {
    /// Rules out a rollback of the operation. Call it before what neither [`Hooks::on_undo`](crate::Hooks::on_undo) nor
    /// anything else can undo, and begin that only if this succeeds: then it is stored, the operation offers no rollback
    /// any more, and a retry goes forward. `reason` is for the operation's log. Repeated calls are fine.
    ///
    /// ```
    /// use vnfm_plugin_sdk::prelude::*;
    /// use vnfm_plugin_sdk::testkit::{Reply, TestHost, block_on};
    ///
    /// async fn convert(cx: &HookContext, ssh: &Ssh) -> Result<(), DriverError> {
    ///     cx.rule_out_rollback("the older release cannot read a converted database").await?;
    ///     ssh.check("convert", "db-convert").await?;
    ///     Ok(())
    /// }
    ///
    /// let host = TestHost::new().ssh("*", "db-convert", Reply::exit(1, "disk full"));
    /// let cx = host.context();
    /// let ssh = cx.ssh(SshTarget::new("server-1", "10.0.0.1", "ubuntu"));
    /// assert_eq!(host.rollback_ruled_out(), None);
    /// block_on(convert(&cx, &ssh)).unwrap_err();
    /// let reason = host.rollback_ruled_out().unwrap();
    /// assert_eq!(reason, "the older release cannot read a converted database");
    /// ```
    ///
    /// # Errors
    ///
    /// If the store is unavailable, the reason has more than 1 KiB, the hook is being undone, or the host does not have
    /// this service.
    pub async fn rule_out_rollback(&self, reason: &str) -> Result<(), ServiceError> {
        let request = json!({ "reason": reason });
        self.call::<Value>("irreversible", request)
            .await
            .map(|_| ())
    }
}

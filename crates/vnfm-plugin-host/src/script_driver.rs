//! The plugin that runs scripts, with the protocol that an administrator allowed for those of a package.

use async_trait::async_trait;
use std::sync::Arc;
use vnfm_core::ports::{
    Declaration, DriverId, Effects, HookHost, HookRequest, MgmtDriver, PortError, ScriptProtocol,
};

/// Adds the protocol to each request. Only `plugins.lock` decides about it, never the package.
struct ScriptDriver {
    plugin: Arc<dyn MgmtDriver>,
    protocol: ScriptProtocol,
}

/// `plugin`, which runs scripts that use `protocol`.
pub(crate) fn with_protocol(
    plugin: Arc<dyn MgmtDriver>,
    protocol: Option<ScriptProtocol>,
) -> Arc<dyn MgmtDriver> {
    match protocol {
        Some(protocol) => Arc::new(ScriptDriver { plugin, protocol }),
        None => plugin,
    }
}

#[async_trait]
impl MgmtDriver for ScriptDriver {
    fn declaration(&self) -> &Declaration {
        self.plugin.declaration()
    }

    fn id(&self) -> DriverId {
        self.plugin.id()
    }

    async fn call(
        &self,
        mut request: HookRequest,
        host: Arc<dyn HookHost>,
    ) -> Result<Effects, PortError> {
        request.script_protocol = Some(self.protocol);
        self.plugin.call(request, host).await
    }
}

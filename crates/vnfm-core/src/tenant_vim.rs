//! A registered VIM as a tenant uses it outside of operations: for what has a life of its own, such as shared virtual links and
//! retained volumes.

use crate::engine::Engine;
use crate::ports::{InfraDriver, Ownership, StoreError, VimCall};
use crate::refusal::{self, Refusal, Why};
use crate::vims::VimHandle;
use std::sync::Arc;
use std::time::Duration;

/// Time limit of a call of a driver; a shorter limit of steps applies, too.
const TIMEOUT: Duration = Duration::from_mins(2);

/// The VIM, and who calls it.
pub(crate) struct TenantVim<'e> {
    engine: &'e Engine,
    ownership: Ownership,
    pub(crate) handle: VimHandle,
    pub(crate) driver: Arc<dyn InfraDriver>,
}

impl TenantVim<'_> {
    /// A call of its driver, whose time begins now.
    pub(crate) fn call(&self) -> VimCall<'_> {
        let context = &self.engine.context;
        let clock = &*context.ports.clock;
        let timeout = TIMEOUT.min(context.limits().step);
        VimCall {
            vim: &self.handle,
            ownership: &self.ownership,
            clock,
            watcher: &(),
            deadline: clock.now().saturating_add(timeout).unwrap_or_default(),
        }
    }

    /// Its id in the registry.
    pub(crate) fn id(&self) -> &str {
        self.handle.registered_id().unwrap_or_default()
    }
}

impl Engine {
    /// The VIM that a tenant's record names by id; `None` if it is no longer registered.
    pub(crate) async fn tenant_vim(
        &self,
        tenant: &str,
        vim: &str,
    ) -> Result<Option<TenantVim<'_>>, Refusal> {
        let record = match self.store().vim(tenant, vim).await {
            Err(StoreError::NotFound { .. }) => return Ok(None),
            found => found?,
        };
        let driver = self.context.ports.drivers.driver(&record.vim.vim_type);
        let driver = driver.map_err(Refusal::unprocessable)?;
        let handle = VimHandle::registered(&self.context, &record, tenant, &record.vim.id);
        let ownership = Ownership {
            installation_id: self.store().installation_id().to_owned(),
            tenant: tenant.to_owned(),
            instance_id: String::new(),
            op_id: String::new(),
        };
        Ok(Some(TenantVim {
            engine: self,
            ownership,
            handle,
            driver,
        }))
    }

    /// The VIM that a tenant's request names by id or name.
    pub(crate) async fn requested_vim(
        &self,
        tenant: &str,
        vim: &str,
    ) -> Result<TenantVim<'_>, Refusal> {
        let found = self.tenant_vim(tenant, vim).await?;
        found.ok_or_else(|| {
            let what = format!("vimId: VIM `{vim}` is not in the registry");
            Refusal::new(Why::Unprocessable, &refusal::UNKNOWN_VIM, what)
        })
    }
}

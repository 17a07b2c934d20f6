//! A VIM whose login was tried: what is stored in the registry.

use super::handle::VimHandle;
use crate::context::Context;
use crate::ports::{Change, SecretJson, StoreError, VimRecord, VimReport};
use crate::refusal::Refusal;
use serde_json::Value;
use vnfm_types::{Vim, VimConnectionInfo};

/// A VIM to be stored in the registry.
pub(crate) struct Candidate<'a> {
    /// The tenant that registers it.
    pub(crate) tenant: &'a str,
    /// Its id in the registry; a restored VIM keeps the one that instances refer to.
    pub(crate) id: String,
    /// Its name, unique per tenant.
    pub(crate) name: String,
    /// Endpoint, trust and login to try.
    pub(crate) connection: VimConnectionInfo,
    /// The record that it replaces.
    pub(crate) old: Option<&'a VimRecord>,
}

impl Candidate<'_> {
    /// The record to store, after a successful login.
    ///
    /// # Errors
    ///
    /// If no driver serves its type, the connection is incomplete, the login is refused, or the VIM does not respond.
    pub(crate) async fn tested(self, context: &Context) -> Result<VimRecord, Refusal> {
        let Self {
            tenant,
            id,
            name,
            mut connection,
            old,
        } = self;
        let drivers = &context.ports.drivers;
        let (driver, spelling) = drivers
            .for_vim(&connection.vim_type)
            .map_err(Refusal::unprocessable)?;
        spelling.clone_into(&mut connection.vim_type);
        driver
            .validate(&connection)
            .map_err(Refusal::unprocessable)?;
        let before = old.map(|old| old.vim.id.as_str());
        let vim = VimHandle::inline(context, tenant, before, &name, connection.clone());
        let report = driver.check(&vim).await.map_err(Refusal::of_vim)?;
        let now = context.now();
        Ok(VimRecord {
            tenant: tenant.to_owned(),
            version: 0,
            vim: Vim {
                id,
                name,
                vim_type: connection.vim_type,
                interface_info: connection.interface_info,
                extra: connection.extra,
                registered_by: old.and_then(|old| old.vim.registered_by.clone()),
                identity: report.identity,
                shared: old.is_some_and(|old| old.vim.shared),
                policy: old.and_then(|old| old.vim.policy.clone()),
                expires_at: report.expires_at,
                key_type: None,
                secret_uuid: None,
                created_at: old.map_or(now, |old| old.vim.created_at),
                updated_at: now,
            },
            access_info: SecretJson::from(Value::Object(connection.access_info)),
        })
    }
}

/// Stores what a check found in the registry.
pub(crate) async fn store_report(
    context: &Context,
    tenant: &str,
    vim: &VimHandle,
    report: &VimReport,
) -> Result<(), StoreError> {
    let Some(id) = vim.registered_id() else {
        return Ok(());
    };
    let mut record = context.store().vim(tenant, id).await?;
    let known = (&record.vim.identity, record.vim.expires_at);
    if known == (&report.identity, report.expires_at) {
        return Ok(());
    }
    record.vim.identity.clone_from(&report.identity);
    record.vim.expires_at = report.expires_at;
    match context
        .store()
        .write(None, vec![Change::PutVim(Box::new(record))])
        .await
    {
        // Written concurrently; the next check stores it.
        Err(StoreError::Changed { .. }) => Ok(()),
        outcome => outcome,
    }
}

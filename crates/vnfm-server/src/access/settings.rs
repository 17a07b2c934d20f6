//! `access` in the configuration: logins, roles, quotas and rates.

use super::{certificates, keystone, oauth2, quota, rate, users};
use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// `access` in the configuration: who may log in, and what they may do.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "Access")]
pub struct Settings {
    /// Users with passwords (HTTP Basic).
    pub(crate) users: Vec<users::User>,
    /// Issuers whose signed tokens are accepted.
    pub(crate) oauth2: Vec<oauth2::Oauth2>,
    /// The Keystone whose tokens are accepted.
    pub(crate) keystone: Option<keystone::Settings>,
    /// Client certificates that are accepted; needs `tls`.
    pub(crate) certificates: Option<certificates::Settings>,
    /// Request rate limit per principal.
    pub(crate) rate: Option<rate::Settings>,
    /// Quota of each tenant, by the tenant's name.
    pub(crate) quota: quota::Quota,
    /// Tenants with a different quota.
    pub(crate) tenants: BTreeMap<String, quota::Tenant>,
}

impl Settings {
    /// Whether at least one login method is configured.
    pub(crate) fn has_login_method(&self) -> bool {
        !self.users.is_empty()
            || !self.oauth2.is_empty()
            || self.keystone.is_some()
            || self.certificates.is_some()
    }

    /// CA files, with the names of their members.
    pub(crate) fn authorities(&self) -> Vec<(String, PathBuf)> {
        let clients = self
            .certificates
            .as_ref()
            .map(|one| one.authorities_file.clone());
        let keystone = self
            .keystone
            .as_ref()
            .and_then(|one| one.authorities_file.clone());
        let issuers = self.oauth2.iter().enumerate().map(|(number, issuer)| {
            (
                format!("access.oauth2[{number}].authorities_file"),
                issuer.authorities_file.clone(),
            )
        });
        let all = [
            ("access.certificates.authorities_file".to_owned(), clients),
            ("access.keystone.authorities_file".to_owned(), keystone),
        ];
        all.into_iter()
            .chain(issuers)
            .filter_map(|(name, file)| Some((name, file?)))
            .collect()
    }
}

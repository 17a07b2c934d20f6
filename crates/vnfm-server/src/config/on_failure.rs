//! `on_failure` in the configuration: what happens to an operation when one of its steps fails.

use schemars::JsonSchema;
use serde::Deserialize;
use std::collections::BTreeMap;
use vnfm_types::AfterRetries;

/// What happens to an operation when one of its steps fails. An instance may have its own (`vnfmctl vnf policy`).
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct OnFailure {
    /// How often a step is repeated while its neighbour is unavailable. Default: 0.
    #[schemars(range(max = 1000))]
    pub retries: Option<u32>,
    /// Seconds after the first failure of a step within which its last repetition begins. Default: 3600.
    #[schemars(range(max = 604_800))]
    pub retry_within_seconds: Option<u32>,
    /// What follows then: `stop` in FAILED_TEMP, or `rollback`. Default: stop.
    pub then: Option<Then>,
    /// Tenants with other values, by name; a tenant has the values above for the members that it does not set.
    pub tenants: BTreeMap<String, TenantOnFailure>,
}

/// What happens to operations of one tenant when a step fails.
#[derive(Debug, Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TenantOnFailure {
    /// As `on_failure.retries`.
    #[schemars(range(max = 1000))]
    pub retries: Option<u32>,
    /// As `on_failure.retry_within_seconds`.
    #[schemars(range(max = 604_800))]
    pub retry_within_seconds: Option<u32>,
    /// As `on_failure.then`.
    pub then: Option<Then>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(inline)]
pub(crate) enum Then {
    Stop,
    Rollback,
}

impl OnFailure {
    /// The policy of tenants without their own.
    pub(crate) fn policy(&self) -> vnfm_types::OnFailure {
        let own = TenantOnFailure {
            retries: self.retries,
            retry_within_seconds: self.retry_within_seconds,
            then: self.then,
        };
        own.over(vnfm_types::OnFailure::default())
    }

    /// The policies of tenants with their own.
    pub(crate) fn of_tenants(&self) -> BTreeMap<String, vnfm_types::OnFailure> {
        let tenants = self.tenants.iter();
        let own =
            |(name, own): (&String, &TenantOnFailure)| (name.clone(), own.over(self.policy()));
        tenants.map(own).collect()
    }
}

impl TenantOnFailure {
    /// Fills absent members from `base`.
    fn over(self, base: vnfm_types::OnFailure) -> vnfm_types::OnFailure {
        let then = self.then.map(|then| match then {
            Then::Stop => AfterRetries::Stop,
            Then::Rollback => AfterRetries::Rollback,
        });
        vnfm_types::OnFailure {
            retries: self.retries.unwrap_or(base.retries),
            retry_within_seconds: self
                .retry_within_seconds
                .unwrap_or(base.retry_within_seconds),
            then: then.unwrap_or(base.then),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OnFailure;
    use vnfm_types::AfterRetries::{Rollback, Stop};

    #[test]
    fn a_tenant_has_the_values_of_the_server_for_what_it_does_not_set() {
        let text =
            "{retries: 3, then: rollback, tenants: {acme: {retries: 5}, other: {then: stop}}}";
        let parsed: OnFailure = serde_yaml::from_str(text).unwrap();
        let policies = parsed.of_tenants();
        let all = [parsed.policy(), policies["acme"], policies["other"]];
        let all = all.map(|one| (one.retries, one.retry_within_seconds, one.then));
        assert_eq!(
            all,
            [(3, 3_600, Rollback), (5, 3_600, Rollback), (3, 3_600, Stop)]
        );
    }
}

//! Our own API: what happens to an operation when a step fails (`vnfmctl vnf policy`).

use serde::{Deserialize, Serialize};

/// What happens to an operation when one of its steps fails. By default it stops at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct OnFailure {
    /// How often a step is repeated while its neighbour is unavailable; 0: never.
    pub retries: u32,
    /// No repetition begins later than this after the first failure of the step.
    pub retry_within_seconds: u32,
    /// What follows once the step is not repeated any more.
    pub then: AfterRetries,
}

/// What follows a failure that is not retried any more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum AfterRetries {
    /// The operation stops in FAILED_TEMP, and an operator decides.
    #[default]
    Stop,
    /// The operation is rolled back, unless it has begun a step that cannot be undone.
    Rollback,
}

impl AfterRetries {
    /// The spelling of the API, such as `ROLLBACK`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "STOP",
            Self::Rollback => "ROLLBACK",
        }
    }
}

impl Default for OnFailure {
    fn default() -> Self {
        Self {
            retries: 0,
            retry_within_seconds: 3_600,
            then: AfterRetries::Stop,
        }
    }
}

impl OnFailure {
    /// Upper bound of `retries`.
    pub const MAX_RETRIES: u32 = 1_000;
    /// Upper bound of `retryWithinSeconds`: a week.
    pub const MAX_SECONDS: u32 = 604_800;

    /// Checks the values of the members.
    ///
    /// # Errors
    ///
    /// The member that is out of range, and its range.
    pub fn checked(&self) -> Result<(), String> {
        let bounds = [
            ("retries", self.retries, Self::MAX_RETRIES),
            (
                "retryWithinSeconds",
                self.retry_within_seconds,
                Self::MAX_SECONDS,
            ),
        ];
        let outside = bounds.into_iter().find(|(_, value, most)| value > most);
        outside.map_or(Ok(()), |(member, value, most)| {
            Err(format!(
                "`onFailure.{member}` is {value}, but at most {most}"
            ))
        })
    }
}

/// The policy that applies to an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstancePolicy {
    /// What happens when a step of its operations fails.
    pub on_failure: OnFailure,
    /// Where the policy was set.
    pub source: PolicySource,
}

/// Where a policy was set; the first of these that has one applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum PolicySource {
    /// With the instance itself.
    Instance,
    /// In the server's configuration, for the tenant.
    Tenant,
    /// In the server's configuration, or its default.
    Server,
}

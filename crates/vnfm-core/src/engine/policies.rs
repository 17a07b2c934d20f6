//! What happens to operations of an instance when a step fails, as an embedder sets it.

use super::Engine;
use crate::ports::Change;
use crate::refusal::{self, Refusal, Why};
use vnfm_types::{InstancePolicy, OnFailure};

impl Engine {
    /// The policy that applies to an instance: its own, or else that of its tenant or of the engine's limits.
    ///
    /// # Errors
    ///
    /// `NotFound` if the tenant has no such instance.
    pub async fn policy(&self, tenant: &str, id: &str) -> Result<InstancePolicy, Refusal> {
        let record = self.store().instance(tenant, id).await?;
        Ok(self.limits().policy(tenant, record.on_failure))
    }

    /// Gives an instance its own policy, or with `None` takes it away. It applies from the next failure of a step on, also
    /// to an operation that is running.
    ///
    /// # Errors
    ///
    /// `NotFound`; `Unprocessable` if a member is out of range.
    pub async fn set_on_failure(
        &self,
        tenant: &str,
        id: &str,
        on_failure: Option<OnFailure>,
    ) -> Result<InstancePolicy, Refusal> {
        let checked = on_failure.map_or(Ok(()), |policy| policy.checked());
        checked.map_err(|what| Refusal::new(Why::Unprocessable, &refusal::BAD_POLICY, what))?;
        let set = Change::SetOnFailure {
            tenant: tenant.to_owned(),
            id: id.to_owned(),
            on_failure,
        };
        self.store().write(None, vec![set]).await?;
        Ok(self.limits().policy(tenant, on_failure))
    }
}

//! Checks an instantiation request against a policy other than the VIM's: that of the caller's role.

use crate::engine::Engine;
use crate::lcm::check_budget;
use crate::ports::Allocation;
use crate::refusal::Refusal;
use crate::vims;
use vnfm_types::{InstantiateVnfRequest, VimPolicy};

impl Engine {
    /// Plans what an instantiation would create and compares it with `policy`; calls and stores nothing.
    ///
    /// # Errors
    ///
    /// `NotFound` if the instance does not exist; `Unprocessable`, naming object and rule, if the policy does not allow it or
    /// the request cannot be planned.
    pub async fn permits(
        &self,
        tenant: &str,
        instance_id: &str,
        request: InstantiateVnfRequest,
        policy: &VimPolicy,
    ) -> Result<(), Refusal> {
        let instance = self.store().instance(tenant, instance_id).await?;
        let package = self
            .context
            .ports
            .packages
            .package(tenant, &instance.vnf_pkg_id)
            .await;
        let package = package.map_err(Refusal::unprocessable)?;
        let (_, driver) =
            vims::of_connections(&self.context, tenant, &request.vim_connection_info).await?;
        let requested = Allocation::requested(&instance.vnf_pkg_id, package, request);
        let allocation = Allocation {
            instance_name: instance.vnf.vnf_instance_name,
            budget: self.limits().plan,
            ..requested.map_err(Refusal::unprocessable)?
        };
        check_budget(&allocation).map_err(Refusal::unprocessable)?;
        driver
            .validate_request(&allocation)
            .map_err(Refusal::unprocessable)?;
        driver
            .permit(&allocation, policy)
            .map_err(Refusal::unprocessable)
    }
}

//! Dry run: an operation is accepted up to its last condition, then nothing is written.

use crate::deployment::Deployment;
use crate::engine::Engine;
use crate::hooks;
use crate::lcm::{self, Step};
use crate::refusal::Refusal;
use serde::Serialize;
use serde_json::Value;
use vnfm_descriptor::{Flavour, Package};
use vnfm_types::{LcmOperationState, LcmOperationType};

/// The steps of an operation, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Plan {
    /// The planned operation.
    pub operation: LcmOperationType,
    /// In the order in which they would run.
    pub steps: Vec<PlannedStep>,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct PlannedStep {
    /// Its name in the journal.
    pub name: &'static str,
    /// State of the operation while it runs.
    pub state: LcmOperationState,
    /// The MgmtDriver that would be called, as `name@version`; `None` if the step is not a hook.
    pub driver: Option<String>,
    /// True if a rollback undoes it.
    pub undone: bool,
    /// True if no rollback is possible once it has begun.
    pub irreversible: bool,
}

impl Engine {
    /// What an operation would do if it began now, with a request as [`Engine::begin`] takes it. Makes all checks that
    /// accepting the operation makes; writes nothing and calls no VIM.
    ///
    /// # Errors
    ///
    /// As [`Engine::begin`].
    pub async fn plan(
        &self,
        kind: LcmOperationType,
        (tenant, id): (&str, &str),
        request: Value,
    ) -> Result<Plan, Refusal> {
        self.for_trial()
            .begin(kind, (tenant, id), request.clone())
            .await?;
        let instance = self.store().instance(tenant, id).await?;
        let deployed = instance.deployment.as_deref();
        let flavour_id = deployed.map(|deployment| deployment.flavour_id.as_str());
        let flavour_id = flavour_id
            .or(request["flavourId"].as_str())
            .unwrap_or_default();
        let package = self
            .parts
            .packages
            .package(tenant, &instance.vnf_pkg_id)
            .await;
        let package = package.map_err(Refusal::unprocessable)?;
        let flavour = package.vnfd().flavours.get(flavour_id);
        let table = lcm::operation(kind)
            .map(|operation| operation.steps)
            .unwrap_or_default();
        let source = (deployed, &*package, flavour);
        let steps = table
            .iter()
            .filter_map(|step| self.planned(step, source))
            .collect();
        Ok(Plan {
            operation: kind,
            steps,
        })
    }

    /// The planned step; `None` if it would be omitted.
    fn planned(
        &self,
        step: &Step,
        (deployed, package, flavour): (Option<&Deployment>, &Package, Option<&Flavour>),
    ) -> Option<PlannedStep> {
        if step.grant && self.parts.nfvo.is_none() {
            return None;
        }
        let hook = if step.hook {
            Some(flavour?.hook(step.name)?)
        } else {
            None
        };
        let driver = hook.and_then(|hook| hooks::driver_of(self, deployed, (package, hook)).ok());
        let of_hook = |driver: &dyn crate::ports::MgmtDriver| {
            driver
                .declaration()
                .hooks
                .get(step.name)
                .is_some_and(|hook| hook.undo)
        };
        Some(PlannedStep {
            name: step.name,
            state: step.state,
            undone: step.undo.is_some() && driver.as_deref().is_none_or(of_hook),
            driver: hook.map(|hook| match &driver {
                Some(driver) => {
                    let id = driver.id();
                    format!("{}@{}", id.name, id.version)
                }
                None => hook.implementation.clone(),
            }),
            irreversible: step.irreversible,
        })
    }
}

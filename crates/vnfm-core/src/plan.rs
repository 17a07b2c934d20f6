//! Dry run: an operation is accepted up to its last condition, then nothing is written.

use crate::deployment::Deployment;
use crate::engine::Engine;
use crate::hooks;
use crate::lcm::{Begin, Operation, Step};
use crate::ports::MgmtDriver;
use crate::refusal::Refusal;
use serde::Serialize;
use vnfm_descriptor::{Flavour, Package};
use vnfm_types::{LcmOperationState, LcmOperationType};

/// The steps of an operation, in order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Plan {
    /// Type of the operation that was planned.
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
    /// What an operation would do if it began now. Makes all checks that accepting the operation makes; writes
    /// nothing and calls no VIM.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::begin`], which makes the same checks.
    pub async fn plan(
        &self,
        tenant: &str,
        instance_id: &str,
        begin: Begin<'_>,
    ) -> Result<Plan, Refusal> {
        let tried = self.try_to_begin(tenant, instance_id, begin).await?;
        let package = self
            .context
            .ports
            .packages
            .package(tenant, &tried.vnf_pkg_id)
            .await;
        let package = package.map_err(Refusal::unprocessable)?;
        let deployment = tried.target.as_ref().or(tried.before.as_ref());
        let planner = Planner {
            engine: self,
            operation: tried.operation,
            deployed: tried.before.as_deref(),
            target: tried.target.as_deref(),
            package: &package,
            flavour: deployment.and_then(|one| package.vnfd().flavour(&one.flavour_id)),
        };
        let steps = tried.operation.steps.iter();
        Ok(Plan {
            operation: tried.operation.kind,
            steps: steps.filter_map(|step| planner.planned(step)).collect(),
        })
    }
}

/// What an operation would work with.
struct Planner<'a> {
    engine: &'a Engine,
    operation: &'static Operation,
    deployed: Option<&'a Deployment>,
    target: Option<&'a Deployment>,
    package: &'a Package,
    flavour: Option<&'a Flavour>,
}

impl Planner<'_> {
    /// The planned step; `None` if it would be omitted.
    fn planned(&self, step: &Step) -> Option<PlannedStep> {
        if step.is_grant() && self.engine.context.ports.nfvo.is_none()
            || !step.is_needed(self.deployed, self.target, Some(self.package))
        {
            return None;
        }
        let hook = if step.is_hook() {
            Some(self.flavour?.hook(step.name)?)
        } else {
            None
        };
        let driver =
            |hook| hooks::driver_of(&self.engine.context, self.deployed, self.package, hook);
        let driver = hook.and_then(|hook| driver(hook).ok());
        let can_undo = |driver: &dyn MgmtDriver| hooks::can_undo(driver, step.name);
        Some(PlannedStep {
            name: step.name,
            state: step.state,
            undone: self.operation.is_undone(step) && driver.as_deref().is_none_or(can_undo),
            driver: hook.map(|hook| match &driver {
                Some(driver) => driver.id().versioned_name(),
                None => hook.implementation.clone(),
            }),
            irreversible: step.is_irreversible(),
        })
    }
}

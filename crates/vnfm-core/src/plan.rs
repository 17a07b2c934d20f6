//! Dry run: an operation is accepted up to its last condition, its VIM is asked what would happen, and nothing is written.
//!
//! ```text
//! row of the operation ─┬─ steps that would run, with the driver of each hook
//!                       └─ target ─ change of the resources (`resources`) ─ driver: what happens to each
//! ```

mod resources;

use crate::deployment::Deployment;
use crate::engine::Engine;
use crate::hooks;
use crate::lcm::{Begin, Dependant, Ends, HookOf, Operation, SnapshotUse, Step, Tried};
use crate::ports::{MgmtDriver, PlannedResource, ResourceAction};
use crate::refusal::Refusal;
use serde::Serialize;
use std::sync::Arc;
use vnfm_descriptor::{Flavour, Package};
use vnfm_types::{LcmOperationState, LcmOperationType};

/// What an operation would do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Plan {
    /// Type of the operation that was planned.
    pub operation: LcmOperationType,
    /// False if the operation would find nothing to do: no resource changes, nothing else about the instance, no hook runs, and
    /// no snapshot gets its contents.
    pub changes: bool,
    /// The steps, in the order in which they would run.
    pub steps: Vec<PlannedStep>,
    /// What would happen to each resource.
    pub resources: Vec<PlannedResource>,
    /// The instances that would be terminated first, in this order: they run on clusters of this one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependants: Vec<Dependant>,
    /// What only the operation itself can tell, as sentences: what hooks do, what the NFVO decides.
    pub unknown: Vec<String>,
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub driver: Option<String>,
    /// True if a rollback undoes it.
    pub undone: bool,
    /// True if no rollback is possible once it has begun.
    pub irreversible: bool,
}

impl Engine {
    /// What an operation would do if it began now. Makes all checks that accepting the operation makes, and asks the VIM what
    /// would happen to the resources; changes nothing anywhere.
    ///
    /// # Errors
    ///
    /// Those of [`Engine::begin`], which makes the same checks; `Unprocessable` if the VIM lacks what the operation needs;
    /// `Unavailable` if it does not respond in time.
    pub async fn plan(
        &self,
        tenant: &str,
        instance_id: &str,
        begin: Begin<'_>,
    ) -> Result<Plan, Refusal> {
        let tried = self.try_to_begin(tenant, instance_id, begin).await?;
        let packages = &self.context.ports.packages;
        let own = &tried.instance.vnf_pkg_id;
        let target = tried
            .target
            .as_ref()
            .filter(|target| target.leaves_package(own));
        let package = packages.package(tenant, own).await;
        let before = package.map_err(Refusal::unprocessable)?;
        let package = match target {
            Some(target) => {
                let package = packages.package(tenant, &target.vnf_pkg_id).await;
                package.map_err(Refusal::unprocessable)?
            }
            None => before.clone(),
        };
        let steps = Planner::new(self, &tried, [&before, &package]).steps();
        let planned = resources::plan(&self.context, &tried, [before, package]).await?;
        let modified = modified(&tried);
        let runs_hooks = steps.iter().any(|step| step.driver.is_some());
        let stores = matches!(tried.snapshot, Some(SnapshotUse::Create(_)));
        let changes = planned.changes() || modified.is_some() || runs_hooks || stores;
        let unknown = steps.iter().filter_map(unknown_of);
        Ok(Plan {
            operation: tried.operation.kind,
            changes,
            unknown: unknown.chain(planned.unknown).collect(),
            resources: modified.into_iter().chain(planned.resources).collect(),
            steps,
            dependants: tried.dependants,
        })
    }
}

/// What changes about the instance itself; `None`: nothing.
fn modified(tried: &Tried) -> Option<PlannedResource> {
    let (vnf, because) = (&tried.instance.vnf, tried.modifies.clone());
    let name = vnf.vnf_instance_name.as_ref().unwrap_or(&vnf.id);
    let row = PlannedResource::new("VnfInstance", name, ResourceAction::Update);
    (!because.is_empty()).then(|| row.because(because))
}

/// What cannot be known of a step before it runs.
fn unknown_of(step: &PlannedStep) -> Option<String> {
    let name = step.name;
    match &step.driver {
        Some(driver) => Some(format!("what the hook `{name}` of `{driver}` does")),
        None if name == Step::grant().name => Some("what the NFVO decides in its grant".to_owned()),
        None => None,
    }
}

/// What an operation would work with.
struct Planner<'a> {
    engine: &'a Engine,
    operation: &'static Operation,
    deployed: Option<&'a Deployment>,
    target: Option<&'a Deployment>,
    skipped_hooks: &'a [String],
    cascade: bool,
    retains: bool,
    package: &'a Package,
    package_before: &'a Package,
    flavour: Option<&'a Flavour>,
}

impl<'a> Planner<'a> {
    fn new(
        engine: &'a Engine,
        tried: &'a Tried,
        [package_before, package]: [&'a Arc<Package>; 2],
    ) -> Self {
        let deployed = tried.instance.deployment.as_deref();
        let target = tried.target.as_deref();
        let flavour = target.or(deployed).map(|one| &one.flavour_id);
        Self {
            engine,
            operation: tried.operation,
            deployed,
            target,
            skipped_hooks: &tried.skipped_hooks,
            cascade: tried.cascade,
            retains: !tried.retain.is_empty(),
            package,
            package_before,
            flavour: flavour.and_then(|id| package.vnfd().flavour(id)),
        }
    }

    fn steps(&self) -> Vec<PlannedStep> {
        let steps = self.operation.steps.iter();
        steps.filter_map(|step| self.planned(step)).collect()
    }

    fn is_needed(&self, step: &Step) -> bool {
        let ends = Ends::between(self.deployed, self.target, Some(self.package));
        let ends = ends.map(|ends| Ends {
            cascade: self.cascade,
            retains: self.retains,
            ..ends
        });
        step.is_needed(ends.as_ref())
    }

    /// The package whose hook a step runs, the deployment whose plugins serve it, and the flavour that names it.
    fn serving(&self, step: &Step) -> (&'a Package, Option<&'a Deployment>, Option<&'a Flavour>) {
        let changes = self.package.vnfd().descriptor_id != self.package_before.vnfd().descriptor_id;
        match step.hook_of() {
            HookOf::Target if changes => (self.package, self.target, self.flavour),
            HookOf::Target => (self.package, self.deployed, self.flavour),
            HookOf::Before => {
                let (package, deployed) = (self.package_before, self.deployed);
                let id = deployed.map(|deployed| &deployed.flavour_id);
                let flavour = id.and_then(|id| package.vnfd().flavour(id));
                (package, deployed, flavour)
            }
        }
    }

    /// The planned step; `None` if it would be omitted.
    fn planned(&self, step: &Step) -> Option<PlannedStep> {
        if step.is_grant() && self.engine.context.ports.nfvo.is_none()
            || !self.is_needed(step)
            || self.skipped_hooks.iter().any(|name| name == step.name)
        {
            return None;
        }
        let (package, deployed, flavour) = self.serving(step);
        let hook = if step.is_hook() {
            Some(flavour?.hook(step.name)?)
        } else {
            None
        };
        let driver = |hook| hooks::driver_of(&self.engine.context, deployed, package, hook);
        let driver = hook.and_then(|hook| driver(hook).ok());
        let can_undo = |driver: &dyn MgmtDriver| hooks::can_undo(driver, step.name);
        let is_undone = self.operation.is_undone(step, |one| self.is_needed(one));
        Some(PlannedStep {
            name: step.name,
            state: step.state,
            undone: is_undone && driver.as_deref().is_none_or(can_undo),
            driver: hook.map(|hook| match &driver {
                Some(driver) => driver.id().versioned_name(),
                None => hook.implementation.clone(),
            }),
            irreversible: step.is_irreversible(),
        })
    }
}

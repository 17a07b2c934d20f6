//! What an instance is to have, or has, on the cluster: the plan of a package with its charts rendered, and the objects and
//! releases of a handle. A handle that was lost in a crash is recomputed from the package.

use crate::amount;
use crate::apply::{self, resolve_stages};
use crate::attach::add_devices;
use crate::catalog::{Catalog, Target};
use crate::client::Session;
use crate::delete::Handle;
use crate::errors::UNEXPECTED;
use crate::helm_account;
use crate::helm_releases;
use crate::manifests::Plan;
use crate::names;
use crate::package_images;
use crate::power::started;
use crate::rendering;
use crate::resolved::ResolvedObject;
use serde_json::Value;
use tokio::task::spawn_blocking;
use vnfm_core::ports::{Allocation, ErrorKind, PortError, VimCall};

/// The objects of an instance, of kinds that the cluster has, in the namespace of `handle`.
pub(crate) async fn planned_stages(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    allocation: &Allocation,
    handle: &Value,
) -> Result<Vec<Vec<ResolvedObject>>, PortError> {
    let plan = planned_as(cx, session, allocation, handle).await?;
    resolve_plan(session, &plan).await
}

/// The plan of an instance in the namespace of `handle`.
pub(crate) async fn planned_as(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    allocation: &Allocation,
    handle: &Value,
) -> Result<Plan, PortError> {
    let namespace = match serde_json::from_value::<Handle>(handle.clone()) {
        Ok(handle) => Some(handle.namespace),
        Err(_) => session.namespace().await?,
    };
    read_plan((cx, session), allocation, namespace).await
}

/// Labels the hooks of the charts that are left. A chart that cannot be rendered any more does not stop a termination.
pub(crate) async fn claim_hooks(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    allocation: &Allocation,
    handle: &Value,
) -> Result<(), PortError> {
    let plan = match planned_as(cx, session, &started(allocation), handle).await {
        Ok(plan) => plan,
        Err(error) if error.kind() == ErrorKind::Refused => {
            let text = format!("hooks of charts are not looked for: {error}");
            cx.watcher.log("warn", "kubernetes", &text);
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    for chart in &plan.charts {
        helm_releases::claim_hooks(cx, session, (&plan.namespace, chart)).await?;
    }
    Ok(())
}

/// The helm releases of an instance: those of a handle; if it was lost, those of the package, as far as it can be read.
pub(crate) fn release_names(allocation: &Allocation, handle: &Value) -> Vec<String> {
    if let Ok(handle) = serde_json::from_value::<Handle>(handle.clone()) {
        return handle.releases;
    }
    let planned = Plan::read(allocation, "0", None).ok();
    let charts = planned.into_iter().flat_map(|plan| plan.charts);
    charts.map(|chart| chart.name).collect()
}

/// Reads the objects of the package, on a blocking thread: this needs processor time only; then renders its charts, finds
/// its images in the VIM's registry, and adds the devices of its networks.
pub(crate) async fn read_plan(
    (cx, session): (&VimCall<'_>, &Session<'_>),
    allocation: &Allocation,
    namespace: Option<String>,
) -> Result<Plan, PortError> {
    let (what, instance) = (allocation.clone(), cx.ownership.instance_id.clone());
    let planning = spawn_blocking(move || Plan::read(&what, &instance, namespace.as_deref()));
    let mut plan = planning.await.unwrap_or_else(|error| {
        Err(PortError::new(
            &UNEXPECTED,
            "plan the objects",
            error.to_string(),
        ))
    })?;
    rendering::render(session, &mut plan, allocation).await?;
    package_images::resolve(session, &mut plan, &allocation.package).await?;
    add_devices(session, &mut plan).await?;
    plan.account = helm_account::objects(session, &plan, &cx.ownership.instance_id).await?;
    Ok(plan)
}

/// Refuses a plan with an invalid name, or one that exceeds the budget.
pub(crate) fn check_plan(allocation: &Allocation, plan: &Plan) -> Result<(), PortError> {
    names::check(plan)?;
    amount::check(plan, &allocation.budget)
}

pub(crate) async fn resolve_plan(
    session: &Session<'_>,
    plan: &Plan,
) -> Result<Vec<Vec<ResolvedObject>>, PortError> {
    resolve_stages(
        plan,
        &Catalog::new(session, plan.items().map(|item| &item.object)),
    )
    .await
}

/// The VNF's namespace, and the objects of a handle in the order in which they are deleted.
pub(crate) async fn recorded_targets(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    allocation: &Allocation,
    handle: &Value,
) -> Result<(String, Vec<Vec<Target>>), PortError> {
    match serde_json::from_value::<Handle>(handle.clone()) {
        Ok(handle) => Ok((handle.namespace.clone(), handle.deletion_order())),
        Err(_) => targets_from_package(cx, session, allocation).await,
    }
}

/// Replaces a lost handle by the package's objects, last stage first. A kind that is not served has no objects.
async fn targets_from_package(
    cx: &VimCall<'_>,
    session: &Session<'_>,
    allocation: &Allocation,
) -> Result<(String, Vec<Vec<Target>>), PortError> {
    let allocation = &started(allocation);
    let plan = read_plan((cx, session), allocation, session.namespace().await?).await?;
    let catalog = Catalog::new(session, plan.items().map(|item| &item.object));
    let mut stages = Vec::new();
    for stage in std::iter::once(&plan.account).chain(&plan.stages).rev() {
        let mut targets = Vec::new();
        for item in stage.iter().rev() {
            if let Some(kind) = catalog.find(&item.api_version, &item.kind).await? {
                targets.push(apply::resolve(item, &kind, &plan.namespace).target);
            }
        }
        stages.push(targets);
    }
    Ok((plan.namespace, stages))
}

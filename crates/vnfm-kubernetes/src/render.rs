//! What an instantiation would create, without a cluster.

use crate::manifests::Plan;
use crate::planned::check_plan;
use serde_json::Value;
use vnfm_core::ports::{Allocation, PortError};

/// The objects of an instance as they are read from its package, and the charts that only helm can render.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Rendered {
    /// The objects in the order of deployment, without the labels that name their owner. Those without a namespace go into
    /// that of the request, or into `vnf-` with the instance's id.
    pub objects: Vec<Value>,
    /// Names of the releases whose objects are not among them.
    pub charts: Vec<String>,
}

/// Reads the objects that an instantiation would create. `$namespace` stands for `vnf-instance-id` unless the request or
/// the package names one.
///
/// # Errors
///
/// `Refused`, as the instantiation would be: the package has nothing to deploy, a value is missing, a name is invalid, or
/// the plan exceeds its budget.
pub fn render(allocation: &Allocation) -> Result<Rendered, PortError> {
    let plan = Plan::read(allocation, "instance-id", None)?;
    check_plan(allocation, &plan)?;
    let charts = plan.charts.iter().map(|chart| chart.name.clone());
    Ok(Rendered {
        charts: charts.collect(),
        objects: plan.items().map(|item| item.object.clone()).collect(),
    })
}

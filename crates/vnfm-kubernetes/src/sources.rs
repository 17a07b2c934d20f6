//! Which manifests and charts of the package are deployed, in stages.
//!
//! ```text
//! the request names manifests ── one stage with all of them, sorted by kind, as Tacker has it
//!                   charts ───── a stage for each of them, after that
//! else an order file ─────────── its manifests and charts by `order`
//! else an ASD ────────────────── its deployment items by `deploymentOrder`
//! else Mciops ────────────────── a stage for each of their charts
//! else containers ────────────── one stage with the objects that stand for them
//! ```
//! Variables and namespace of the order file hold for the manifests that the request names, too.

use crate::asd_items;
use crate::charts;
use crate::errors::MANIFEST;
use crate::named_charts;
use crate::requested;
use crate::size_values::{self, SizeValue};
use crate::stage::Stage;
use crate::translate::{Translation, translate};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Allocation, PortError};
use vnfm_descriptor::{ORDER_FILE, OrderFile, Variables};

/// What is deployed, before any of it is read.
pub(crate) struct Sources {
    /// A stage starts when the one before is ready.
    pub(crate) stages: Vec<Stage>,
    /// The VDUs whose number is a value of the charts.
    pub(crate) sized: BTreeSet<String>,
}

impl Sources {
    /// Chooses for the request; `variables` are those of the order file.
    ///
    /// # Errors
    ///
    /// `Refused`: the request names something that the package does not have, or the package has nothing to deploy.
    pub(crate) fn choose(
        allocation: &Allocation,
        variables: &Variables,
    ) -> Result<Self, PortError> {
        requested::workloads(allocation)?;
        requested::check_upgrade(allocation)?;
        requested::wants_tests(allocation)?;
        let order = allocation.package.order_file();
        let sizes = size_values::sizes(allocation)?;
        let named = named(allocation, &sizes)?;
        let stages = if !named.is_empty() {
            named
        } else if let Some(order) = order.filter(|order| order.path == ORDER_FILE) {
            ordered(allocation, order, (variables, &sizes))?
        } else if let Some(asd) = allocation.package.asd() {
            asd_items::stages(allocation, asd)?
        } else {
            let charts = charts::of_mciops(allocation, &sizes)?.into_iter();
            let charts: Vec<Stage> = charts.map(Stage::of_chart).collect();
            if charts.is_empty() {
                return Self::translated(allocation, &sizes);
            }
            charts
        };
        if stages.is_empty() {
            return Err(nothing_to_deploy());
        }
        if stages.iter().all(|stage| stage.charts.is_empty())
            && let Some(size) = sizes.first()
        {
            return Err(size.without_chart());
        }
        let sized = sizes.into_iter().map(|size| size.vdu).collect();
        Ok(Self { stages, sized })
    }

    /// The objects of the descriptor's containers, which state how many VNFCs each VDU has.
    fn translated(allocation: &Allocation, sizes: &[SizeValue<'_>]) -> Result<Self, PortError> {
        let Translation { objects, sized } = translate(allocation)?;
        if objects.is_empty() {
            return Err(nothing_to_deploy());
        }
        if let Some(size) = sizes.first() {
            return Err(size.without_chart());
        }
        let stage = Stage {
            objects,
            by_kind: true,
            ..Stage::default()
        };
        let stages = vec![stage];
        Ok(Self { stages, sized })
    }
}

/// What the request names.
fn named(allocation: &Allocation, sizes: &[SizeValue<'_>]) -> Result<Vec<Stage>, PortError> {
    let manifests = requested::manifests(allocation)?;
    let charts = named_charts::charts(allocation, sizes)?.into_iter();
    let first = (!manifests.is_empty()).then(|| Stage {
        manifests,
        by_kind: true,
        ..Stage::default()
    });
    Ok(first
        .into_iter()
        .chain(charts.map(Stage::of_chart))
        .collect())
}

/// The stages of an order file.
fn ordered(
    allocation: &Allocation,
    order: &OrderFile,
    (variables, sizes): (&Variables, &[SizeValue<'_>]),
) -> Result<Vec<Stage>, PortError> {
    let mut stages: BTreeMap<i64, Stage> = BTreeMap::new();
    for manifest in &order.manifests {
        let stage = stages.entry(manifest.order).or_default();
        stage.manifests.push(manifest.path.clone());
    }
    let charts = charts::of_order_file(allocation, order, (variables, sizes))?;
    for (ordered, chart) in order.charts.iter().zip(charts) {
        stages.entry(ordered.order).or_default().charts.push(chart);
    }
    Ok(stages.into_values().collect())
}

fn nothing_to_deploy() -> PortError {
    let text = format!(
        "it has neither a `{ORDER_FILE}` nor a Mciop with a chart, and its flavour is not one of containers alone"
    );
    let hint = format!(
        "list the package's manifests in `{ORDER_FILE}`, or name them or a chart in the request: `lcm-kubernetes-def-files`, `helm_chart_path`"
    );
    PortError::new(&MANIFEST, "deploy the package on Kubernetes", text).hint(hint)
}

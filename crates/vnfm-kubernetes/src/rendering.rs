//! What the charts of a plan render: once to plan, and again when helm applies it.
//!
//! ```text
//! plan      helm template ── objects ──┬─ hooks: helm runs them
//!                                      └─ a stage of the plan: workloads of other flavours left out, replicas of the VDUs
//! CRDs      helm show crds ── a stage before, applied like manifests: so they carry our labels, and go with the VNF
//! apply     helm's own objects must be those of the plan; they get its replicas, and our labels
//! ```

use crate::catalog::Catalog;
use crate::charts::{ChartRelease, chart_error};
use crate::client::Session;
use crate::helm_errors::helm_error;
use crate::labels;
use crate::manifests::{Item, Plan, read_stream};
use serde_json::Value;
use std::collections::BTreeMap;
use vnfm_core::ports::{Allocation, Ownership, PortError};
use vnfm_helm::{Cluster, Release};

const HOOK: &str = "helm.sh/hook";

/// Adds what the charts of the plan render; a plan without charts stays as it is.
///
/// # Errors
///
/// `Refused` if there is no helm, or a chart cannot be rendered with the values of the request.
pub(crate) async fn render(
    session: &Session<'_>,
    plan: &mut Plan,
    allocation: &Allocation,
) -> Result<(), PortError> {
    if plan.charts.is_empty() {
        return Ok(());
    }
    let helm = session.helm()?;
    let catalog = Catalog::new(session, std::iter::empty());
    let cluster = Cluster {
        version: session.version().await?,
        apis: catalog.apis().await?,
    };
    for index in 0..plan.charts.len() {
        let chart = &plan.charts[index];
        let failed = |error| helm_error(session, chart, &error);
        let definitions = helm.crds(&chart.packed).await.map_err(failed)?;
        let definitions = items(chart, &definitions)?;
        let objects = helm
            .template(&release(chart, &plan.namespace), &cluster)
            .await
            .map_err(failed)?;
        let objects = items(chart, &objects)?;
        add(plan, index, (definitions, objects));
    }
    plan.finish(allocation)
}

/// The chart as helm needs it.
pub(crate) fn release<'a>(chart: &'a ChartRelease, namespace: &'a str) -> Release<'a> {
    Release {
        name: &chart.name,
        namespace,
        chart: &chart.packed,
        values: chart.values.reveal().as_bytes(),
    }
}

/// Adds the stages of one chart.
fn add(plan: &mut Plan, index: usize, (definitions, objects): (Vec<Item>, Vec<Item>)) {
    if !definitions.is_empty() {
        plan.stages.push(definitions);
    }
    let (hooks, mut objects): (Vec<Item>, Vec<Item>) = objects.into_iter().partition(is_hook);
    let chart = &mut plan.charts[index];
    for item in &mut objects {
        labels::stamp_release(&mut item.object, (&chart.name, &plan.namespace));
    }
    chart.rendered = objects
        .iter()
        .map(|item| ChartRelease::key(item, &plan.namespace))
        .collect();
    chart.hooks = hooks;
    chart.stage = plan.stages.len();
    plan.stages.push(objects);
}

fn is_hook(item: &Item) -> bool {
    item.object["metadata"]["annotations"].get(HOOK).is_some()
}

fn items(chart: &ChartRelease, rendered: &[u8]) -> Result<Vec<Item>, PortError> {
    let text = std::str::from_utf8(rendered)
        .map_err(|_| chart_error(&chart.path, "what it renders is not UTF-8"))?;
    read_stream(text, &format!("{}, rendered", chart.path), &chart.budget)
}

/// What becomes of the objects that helm renders when it installs or upgrades the release: those of the plan, with the
/// replicas of the plan, our labels, and nothing else.
///
/// # Errors
///
/// The reason for helm to apply nothing: an object that the plan does not have.
pub(crate) fn change(
    rendered: &[u8],
    (chart, planned): (&ChartRelease, &[Item]),
    (namespace, owner): (&str, &Ownership),
) -> Result<Vec<u8>, String> {
    let rendered = items(chart, rendered).map_err(|error| error.to_string())?;
    let planned: BTreeMap<_, _> = planned
        .iter()
        .map(|item| (ChartRelease::key(item, namespace), item))
        .collect();
    let (mut changed, mut met) = (Vec::new(), 0);
    for mut item in rendered {
        let key = ChartRelease::key(&item, namespace);
        match planned.get(&key) {
            Some(as_planned) => {
                copy_size(&mut item.object, &as_planned.object);
                met += 1;
            }
            None if is_hook(&item)
                && chart
                    .hooks
                    .iter()
                    .any(|hook| ChartRelease::key(hook, namespace) == key) => {}
            None if chart.rendered.contains(&key) => continue,
            None => {
                return Err(format!(
                    "{} `{}` is not in the plan: the chart renders it only when it is installed",
                    item.kind, item.name
                ));
            }
        }
        labels::stamp_release(&mut item.object, (&chart.name, namespace));
        labels::stamp(&mut item.object, owner);
        changed.push(format!("---\n{}\n", item.object));
    }
    if met < planned.len() {
        return Err("an object of the plan is missing: the chart renders fewer objects when it is installed".to_owned());
    }
    Ok(changed.concat().into_bytes())
}

/// Replicas, or whether it is suspended, as in the plan.
fn copy_size(object: &mut Value, planned: &Value) {
    for member in ["replicas", "suspend"] {
        if let Some(size) = planned["spec"].get(member) {
            object["spec"][member] = size.clone();
        }
    }
}

//! What the charts of a plan render: once to plan, and again when helm applies it.
//!
//! ```text
//! plan      helm template ── objects ──┬─ hooks: helm runs them
//!                                      └─ a stage of the plan: workloads of other flavours left out, replicas of the VDUs
//! CRDs      helm show crds ── a stage before, applied like manifests: so they carry our labels, and go with the VNF
//! apply     helm's own objects must be those of the plan; they get its replicas, networks and images, and our labels
//! ```

use crate::amount;
use crate::attach::copy_networks;
use crate::catalog::Catalog;
use crate::charts::{ChartRelease, MAX_AT_ONCE, chart_error};
use crate::client::Session;
use crate::helm_errors::helm_error;
use crate::item::Item;
use crate::labels;
use crate::manifests::{Plan, read_stream};
use crate::object_policy;
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Allocation, Ownership, PortError};
use vnfm_descriptor::Chart;
use vnfm_helm::{Cluster, Helm, Release};
use vnfm_types::VimPolicy;

pub(crate) const HOOK: &str = "helm.sh/hook";

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
    let charts: Vec<_> = plan
        .charts
        .iter()
        .map(|chart| render_chart((session, helm), &cluster, (chart, &plan.namespace)))
        .collect();
    let rendered = stream::iter(charts).buffered(MAX_AT_ONCE);
    let rendered = rendered.try_collect().await?;
    add(plan, rendered);
    plan.finish(allocation)
}

async fn render_chart(
    (session, helm): (&Session<'_>, &Helm),
    cluster: &Cluster,
    (chart, namespace): (&ChartRelease, &str),
) -> Result<Rendered, PortError> {
    let failed = |error| helm_error(session, chart, &error);
    let mut definitions = Vec::new();
    if Chart::may_have_crds(&chart.packed) {
        definitions = items(chart, &helm.crds(&chart.packed).await.map_err(failed)?)?;
    }
    let objects = helm.template(&release(chart, namespace), cluster).await;
    Ok((definitions, items(chart, &objects.map_err(failed)?)?))
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

/// What a chart renders: its CRDs, and its objects with hooks.
type Rendered = (Vec<Item>, Vec<Item>);

/// Adds what each chart renders to its stage, and its CRDs to a stage before that.
fn add(plan: &mut Plan, rendered: Vec<Rendered>) {
    let mut rendered: Vec<_> = plan.charts.iter_mut().zip(rendered).collect();
    let mut stages = Vec::new();
    for (number, mut objects) in std::mem::take(&mut plan.stages).into_iter().enumerate() {
        let mut own: Vec<_> = rendered
            .extract_if(.., |(chart, _)| chart.stage == number)
            .collect();
        let definitions = own.iter_mut().map(|(_, rendered)| &mut rendered.0);
        let definitions: Vec<Item> = definitions.flat_map(std::mem::take).collect();
        if !definitions.is_empty() {
            stages.push(definitions);
        }
        for (chart, (_, rendered)) in own {
            chart.stage = stages.len();
            objects.extend(keep_objects(chart, rendered, &plan.namespace));
        }
        stages.push(objects);
    }
    plan.stages = stages;
}

/// The objects that the plan has of a chart; its hooks are helm's.
fn keep_objects(chart: &mut ChartRelease, rendered: Vec<Item>, namespace: &str) -> Vec<Item> {
    let (hooks, mut objects): (Vec<Item>, Vec<Item>) = rendered.into_iter().partition(is_hook);
    for item in &mut objects {
        labels::stamp_release(&mut item.object, (&chart.name, namespace));
    }
    let keys = objects.iter();
    chart.rendered = keys
        .map(|item| ChartRelease::key(item, namespace))
        .collect();
    chart.hooks = hooks;
    objects
}

fn is_hook(item: &Item) -> bool {
    item.object["metadata"]["annotations"].get(HOOK).is_some()
}

fn items(chart: &ChartRelease, rendered: &[u8]) -> Result<Vec<Item>, PortError> {
    let text = std::str::from_utf8(rendered)
        .map_err(|_| chart_error(&chart.path, "what it renders is not UTF-8"))?;
    read_stream(text, &format!("{}, rendered", chart.path), &chart.budget)
}

/// What becomes of the objects that helm renders when it installs or upgrades the release: those of the plan, with its
/// replicas and networks, our labels, and nothing else. They are checked again: a template may have looked at the cluster.
///
/// # Errors
///
/// The reason for helm to apply nothing: an object that the plan does not have, or that the policy does not allow.
pub(crate) fn change(
    rendered: &[u8],
    (chart, planned): (&ChartRelease, &[Item]),
    (namespace, owner): (&str, &Ownership),
    policies: &[&VimPolicy],
) -> Result<Vec<u8>, String> {
    let rendered = items(chart, rendered).map_err(|error| error.to_string())?;
    let mut items = as_planned(rendered, (chart, planned), namespace)?;
    for item in &mut items {
        chart.images.resolve(&mut item.object);
    }
    let mut plan = Plan {
        namespace: namespace.to_owned(),
        stages: vec![items],
        ..Plan::default()
    };
    amount::check(&plan, &chart.budget).map_err(|error| error.to_string())?;
    for policy in policies {
        object_policy::permit(&plan, false, policy).map_err(|error| error.to_string())?;
    }
    let mut changed = Vec::new();
    for item in plan.stages.iter_mut().flatten() {
        labels::stamp_release(&mut item.object, (&chart.name, namespace));
        labels::stamp(&mut item.object, owner);
        changed.push(format!("---\n{}\n", item.object));
    }
    Ok(changed.concat().into_bytes())
}

/// The rendered objects without those that the plan leaves out, in the sizes of the plan.
fn as_planned(
    rendered: Vec<Item>,
    (chart, planned): (&ChartRelease, &[Item]),
    namespace: &str,
) -> Result<Vec<Item>, String> {
    let key = |item: &Item| ChartRelease::key(item, namespace);
    let hooks: BTreeSet<_> = chart.hooks.iter().map(key).collect();
    let planned: BTreeMap<_, _> = planned.iter().map(|item| (key(item), item)).collect();
    let (mut kept, mut met) = (Vec::new(), 0);
    for mut item in rendered {
        let key = key(&item);
        if let Some(as_planned) = planned.get(&key) {
            copy_size(&mut item.object, &as_planned.object);
            copy_networks(&mut item, as_planned);
            met += 1;
        } else if chart.rendered.contains(&key) {
            continue;
        } else if !(is_hook(&item) && hooks.contains(&key)) {
            return Err(format!(
                "{} `{}` is not in the plan: the chart renders it only when it is installed",
                item.kind, item.name
            ));
        }
        kept.push(item);
    }
    if met == planned.len() {
        Ok(kept)
    } else {
        let reason = "an object of the plan is missing: the chart renders fewer objects when it is installed";
        Err(reason.to_owned())
    }
}

/// Replicas, or whether it is suspended, as in the plan.
fn copy_size(object: &mut Value, planned: &Value) {
    for member in ["replicas", "suspend"] {
        if let Some(size) = planned["spec"].get(member) {
            object["spec"][member] = size.clone();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image_references::ImageReferences;
    use crate::item::item_for_test;
    use serde_json::json;
    use vnfm_core::ports::Budget;
    use vnfm_types::{PodSecurity, Secret};

    fn web(spec: &Value) -> Value {
        json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": spec})
    }

    fn changed(planned: &Value, rendered: &[&Value], policy: &VimPolicy) -> Result<String, String> {
        let planned = [item_for_test(planned.clone())];
        let chart = ChartRelease {
            name: "web".into(),
            path: "web.tgz".into(),
            packed: Vec::new(),
            values: Secret::new("{}"),
            stage: 0,
            rendered: [ChartRelease::key(&planned[0], "mine")].into(),
            budget: Budget::default(),
            hooks: Vec::new(),
            images: ImageReferences::default(),
        };
        let owner = Ownership {
            installation_id: "inst-1".into(),
            tenant: "default".into(),
            instance_id: "vnf-1".into(),
            op_id: "op-1".into(),
        };
        let stream: Vec<String> = rendered
            .iter()
            .map(|object| format!("---\n{object}\n"))
            .collect();
        let stream = stream.concat();
        let changed = change(
            stream.as_bytes(),
            (&chart, &planned),
            ("mine", &owner),
            &[policy],
        );
        changed.map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn what_helm_renders_gets_the_size_of_the_plan_and_labels() {
        let (planned, rendered) = (
            web(&json!({"replicas": 3})),
            web(&json!({"replicas": 1, "x": 2})),
        );
        let changed = changed(&planned, &[&rendered], &VimPolicy::OPEN).unwrap();
        let object: Value = serde_json::from_str(changed.trim_start_matches("---\n")).unwrap();
        assert_eq!(object["spec"], json!({"replicas": 3, "x": 2}));
        assert_eq!(object["metadata"]["labels"]["vnfm.dev/instance"], "vnf-1");
    }

    #[test]
    fn other_objects_than_planned_are_refused() {
        let planned = web(&json!({}));
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "sly"}});
        let more = changed(&planned, &[&planned, &other], &VimPolicy::OPEN).unwrap_err();
        assert!(
            more.contains("ConfigMap `sly` is not in the plan"),
            "{more}"
        );
        let fewer = changed(&planned, &[], &VimPolicy::OPEN).unwrap_err();
        assert!(fewer.contains("is missing"), "{fewer}");
    }

    #[test]
    fn a_planned_object_that_becomes_privileged_is_refused() {
        let pod = |more: Value| {
            web(
                &json!({"template": {"spec": {"hostNetwork": more, "containers": [{"name": "a", "image": "b"}]}}}),
            )
        };
        let policy = VimPolicy {
            pod_security: Some(PodSecurity::Baseline),
            ..VimPolicy::OPEN
        };
        changed(&pod(json!(false)), &[&pod(json!(false))], &policy).unwrap();
        let refused = changed(&pod(json!(false)), &[&pod(json!(true))], &policy).unwrap_err();
        assert!(refused.contains("hostNetwork"), "{refused}");
    }
}

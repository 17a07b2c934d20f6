//! The deployment items of an ASD, in stages by their `deploymentOrder`.
//!
//! | item | becomes |
//! |---|---|
//! | `helm_chart` | a release, named like the chart |
//! | `kubernetes_manifest`, `crd`, as a YAML file | objects |
//! | any other | refused by its identifier |
//!
//! The parameters that an item declares (`lifecycleParameters`, `deploymentParameter`) are values of its chart. They have the
//! form `[chart:]key`, with the chart's name and a key as `helm --set` has it. So do those that `inputParamMappings` of an external
//! connection point name: the links of the request set them, or its parameters do. A parameter that the ASD does not declare is
//! refused.

use crate::asd_networks;
use crate::charts::{self, ChartRelease, chart_error, refuse_equal_names};
use crate::errors::{MANIFEST, VALUE};
use crate::member::Member;
use crate::reserved::RESERVED;
use crate::stage::Stage;
use crate::values;
use serde_json::{Map, Value};
use vnfm_core::ports::{Allocation, PortError};
use vnfm_descriptor::{Asd, DeploymentItem};

/// The items in stages.
///
/// # Errors
///
/// `Refused`, naming the item that cannot be deployed, or the parameter that is not declared.
pub(crate) fn stages(allocation: &Allocation, asd: &Asd) -> Result<Vec<Stage>, PortError> {
    let mut items = asd.deployment_items.iter();
    if let Some(other) = items.find(|item| !item.is_manifest() && !item.is_chart()) {
        return Err(unsupported(other));
    }
    let mut stages = Vec::new();
    for items in asd.stages() {
        let mut stage = Stage::default();
        for item in items {
            if item.is_chart() {
                stage.charts.push(chart(allocation, asd, item)?);
            } else {
                stage.manifests.push(item.file.clone());
            }
        }
        stages.push(stage);
    }
    let charts = || stages.iter().flat_map(|stage: &Stage| &stage.charts);
    refuse_equal_names(charts())?;
    if charts().next().is_some() {
        refuse_undeclared(allocation, asd)?;
    }
    Ok(stages)
}

fn chart(
    allocation: &Allocation,
    asd: &Asd,
    item: &DeploymentItem,
) -> Result<ChartRelease, PortError> {
    let mut chart = charts::read(allocation, &item.file)?;
    let params = &allocation.deployment.additional_params;
    let mut own = Map::new();
    for declared in &item.lifecycle_parameters {
        let key = match declared.split_once(':') {
            None => declared,
            Some((of, key)) if of == chart.name => key,
            Some(_) => {
                let text = format!("its parameter `{declared}` names another chart");
                return Err(chart_error(&item.file, text));
            }
        };
        set(&mut own, key, Member::of_request(params, declared))?;
    }
    for mapped in mapped(asd) {
        if let Some((of, key)) = mapped.split_once(':')
            && of == chart.name
        {
            set(&mut own, key, Member::of_request(params, mapped))?;
        }
    }
    for (mapped, value) in asd_networks::values(asd, &allocation.deployment)? {
        if let Some((of, key)) = mapped.split_once(':')
            && of == chart.name
        {
            if let Some(given) = Member::of_request(params, &mapped) {
                return Err(given.refused("`extVirtualLinks` gives it a value, too"));
            }
            let refused =
                |reason| chart_error(&item.file, format!("its parameter `{mapped}`: {reason}"));
            values::set(&mut own, key, value).map_err(refused)?;
        }
    }
    chart.set_values(own, &[])?;
    Ok(chart)
}

/// Sets a value that the request gives.
fn set(
    values: &mut Map<String, Value>,
    key: &str,
    given: Option<Member<'_>>,
) -> Result<(), PortError> {
    let Some(given) = given else { return Ok(()) };
    let set = values::set(values, key, given.value().clone());
    set.map_err(|reason| given.refused(reason))
}

/// The parameters by which external connection points get addresses and networks.
fn mapped(asd: &Asd) -> impl Iterator<Item = &str> {
    let mappings = asd.asd_ext_cpd.iter().map(|cp| &cp.input_param_mappings);
    let names = mappings.flat_map(|mapping| mapping.values().flatten());
    names.map(String::as_str)
}

fn refuse_undeclared(allocation: &Allocation, asd: &Asd) -> Result<(), PortError> {
    let items = asd.deployment_items.iter();
    let mut declared: Vec<&str> = items
        .flat_map(|item| &item.lifecycle_parameters)
        .map(String::as_str)
        .chain(mapped(asd))
        .collect();
    declared.extend(RESERVED);
    let params = &allocation.deployment.additional_params;
    let Some(name) = params
        .keys()
        .find(|name| !declared.contains(&name.as_str()))
    else {
        return Ok(());
    };
    let text = format!("no deployment item of the ASD declares the parameter `{name}`");
    let hint =
        "declare it in `lifecycleParameters` (O-RAN: `deploymentParameter`) of a deployment item";
    let error = PortError::new(&VALUE, "use the request", text).hint(hint);
    Err(error.on(format!("additionalParams.{name}")))
}

fn unsupported(item: &DeploymentItem) -> PortError {
    let (id, kind) = (&item.deployment_item_id, &item.artifact_type);
    let text = format!(
        "deployment item `{id}` is a `{kind}` (`{}`), which is not supported",
        item.file
    );
    let hint = "provide it as a packed chart, `helm_chart`, or its objects as a YAML file, `kubernetes_manifest`";
    PortError::new(&MANIFEST, "deploy the package on Kubernetes", text).hint(hint)
}

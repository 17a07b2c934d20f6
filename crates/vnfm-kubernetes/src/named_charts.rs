//! Charts that the request names, in both forms that Tacker has.
//!
//! | v2 | v1 | names |
//! |---|---|---|
//! | `helm_chart_path` | `use_helm`, `using_helm_install_param[].helmchartfile_path` | a packed chart or a chart's folder |
//! | – | `helmreleasename` | the release; else it is named like the chart |
//! | `helm_value_file_path` | – | a file of values |
//! | `helm_parameters: {key: value}` | `helmparameter: [key=value]` | values, which go over those of the file |
//!
//! Charts of repositories are refused: nothing is downloaded during an operation.

use crate::charts::{self, ChartRelease, invalid_release, refuse_equal_names};
use crate::member::Member;
use crate::requested;
use crate::reserved::{CHART, INSTALL, USE_HELM, VALUES, VALUES_FILE};
use crate::size_values::SizeValue;
use crate::values;
use serde_json::{Map, Value};
use vnfm_core::ports::{Allocation, PortError};

/// The charts that the request names, in its order; none if it names none.
///
/// # Errors
///
/// `Refused`, naming the parameter that cannot be used.
pub(crate) fn charts(
    allocation: &Allocation,
    sizes: &[SizeValue<'_>],
) -> Result<Vec<ChartRelease>, PortError> {
    let params = &allocation.deployment.additional_params;
    let mut found = Vec::new();
    if let Some(path) = Member::of_request(params, CHART) {
        found.push(chart(allocation, &path, sizes)?);
    } else if let Some(stray) = [VALUES_FILE, VALUES]
        .iter()
        .find_map(|name| Member::of_request(params, name))
    {
        return Err(stray.refused(format!("the request names no chart in `{CHART}`")));
    }
    for install in installs(allocation)? {
        found.push(installed_chart(allocation, &install, sizes)?);
    }
    refuse_equal_names(&found)?;
    Ok(found)
}

/// The chart of `helm_chart_path`.
fn chart(
    allocation: &Allocation,
    path: &Member<'_>,
    sizes: &[SizeValue<'_>],
) -> Result<ChartRelease, PortError> {
    let params = &allocation.deployment.additional_params;
    let mut chart = charts::read(allocation, &requested::chart(allocation, path)?)?;
    let mut own = charts::declared_values(allocation)?;
    if let Some(file) = Member::of_request(params, VALUES_FILE) {
        values::merge(&mut own, values_file(allocation, &file)?);
    }
    if let Some(parameters) = Member::of_request(params, VALUES) {
        for (key, member) in parameters.all_members()? {
            let value = match member.value() {
                Value::String(text) => values::typed(text),
                value => value.clone(),
            };
            values::set(&mut own, key, value).map_err(|reason| member.refused(reason))?;
        }
    }
    chart.set_values(own, sizes)?;
    Ok(chart)
}

fn values_file(
    allocation: &Allocation,
    named: &Member<'_>,
) -> Result<Map<String, Value>, PortError> {
    let path = requested::file(allocation, named)?;
    let bytes = allocation.package.read(&path);
    let bytes = bytes.map_err(|error| named.refused(error.to_string()))?;
    let read = values::read(bytes, allocation.budget.bytes);
    read.map_err(|reason| named.refused(format!("`{path}` cannot be used: {reason}")))
}

/// The entries of `using_helm_install_param`, if `use_helm` is true.
fn installs(allocation: &Allocation) -> Result<Vec<Member<'_>>, PortError> {
    let params = &allocation.deployment.additional_params;
    let uses_helm = Member::of_request(params, USE_HELM);
    let is_used = uses_helm.as_ref().map_or(Ok(false), Member::is_true)?;
    match (uses_helm, Member::of_request(params, INSTALL)) {
        (_, Some(installs)) if is_used => installs.items(),
        (_, Some(installs)) => Err(installs.refused(format!("`{USE_HELM}` is not true"))),
        (Some(uses_helm), None) if is_used => {
            Err(uses_helm.refused(format!("the request has no `{INSTALL}`")))
        }
        _ => Ok(Vec::new()),
    }
}

/// The chart of an entry of `using_helm_install_param`.
fn installed_chart(
    allocation: &Allocation,
    install: &Member<'_>,
    sizes: &[SizeValue<'_>],
) -> Result<ChartRelease, PortError> {
    let external = install.member("exthelmchart")?;
    if external.as_ref().map_or(Ok(false), Member::is_true)? {
        let text = "it is a chart of a repository, and nothing is downloaded during an operation";
        let hint = "put the chart into the package, and name it in `helmchartfile_path`";
        return Err(install.refused(text).hint(hint));
    }
    let Some(path) = install.member("helmchartfile_path")? else {
        return Err(install.refused("it has no `helmchartfile_path`"));
    };
    let mut chart = charts::read(allocation, &requested::chart(allocation, &path)?)?;
    if let Some(release) = install.member("helmreleasename")? {
        let name = release.text()?;
        if let Some(reason) = invalid_release(name) {
            return Err(release.refused(reason));
        }
        name.clone_into(&mut chart.name);
    }
    let mut own = charts::declared_values(allocation)?;
    let parameters = install.member("helmparameter")?;
    let parameters = parameters.map_or(Ok(Vec::new()), |all| all.items())?;
    for parameter in parameters {
        let refused = |reason| parameter.refused(reason);
        for (key, value) in values::assignments(parameter.text()?).map_err(refused)? {
            values::set(&mut own, &key, value).map_err(refused)?;
        }
    }
    chart.set_values(own, sizes)?;
    Ok(chart)
}

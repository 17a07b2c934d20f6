//! Charts that the request names, in both forms that Tacker has.
//!
//! | v2 | v1 | names |
//! |---|---|---|
//! | `helm_chart_path` | `use_helm`, `using_helm_install_param[].helmchartfile_path` | a packed chart or a chart's folder |
//! | – | `helmreleasename` | the release; else it is named like the chart |
//! | `helm_value_file_path` | – | a file of values |
//! | `helm_parameters: {key: value}` | `helmparameter: [key=value]` | values, which go over those of the file |
//! | `helm_value_names: {VDU: {replica: key}}` | `helm_replica_values: {aspect: key}` | the value that is a VDU's number |
//!
//! The numbers of VDUs are also given to the charts of Mciops. Charts of repositories are refused: nothing is downloaded during
//! an operation.

use crate::charts::{self, ChartRelease, invalid_release, refuse_equal_names};
use crate::member::Member;
use crate::requested::{self, check_vdu};
use crate::values;
use serde_json::{Map, Value};
use vnfm_core::ports::{Allocation, PortError};

pub(crate) const CHART: &str = "helm_chart_path";
pub(crate) const VALUES_FILE: &str = "helm_value_file_path";
pub(crate) const VALUES: &str = "helm_parameters";
pub(crate) const SIZES_BY_VDU: &str = "helm_value_names";
pub(crate) const SIZES_BY_ASPECT: &str = "helm_replica_values";
pub(crate) const USE_HELM: &str = "use_helm";
pub(crate) const INSTALL: &str = "using_helm_install_param";

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

/// The value of a chart that is the number of a VDU's VNFCs.
pub(crate) struct SizeValue<'a> {
    /// Name of the VDU's node template.
    pub(crate) vdu: String,
    count: u32,
    /// Key of the value.
    key: Member<'a>,
    /// The only release that has the value.
    release: Option<&'a str>,
}

impl SizeValue<'_> {
    /// Whether the chart of this release has the value.
    pub(crate) fn is_for(&self, release: &str) -> bool {
        self.release.is_none_or(|own| own == release)
    }

    /// # Errors
    ///
    /// `Refused`: the key cannot be one of a value.
    pub(crate) fn set(&self, values: &mut Map<String, Value>) -> Result<(), PortError> {
        let set = values::set(values, self.key.text()?, self.count.into());
        set.map_err(|reason| self.key.refused(reason))
    }

    /// The error that there is no chart whose value it could be.
    pub(crate) fn without_chart(&self) -> PortError {
        let reason = format!("no chart is deployed that could have it: name one in `{CHART}`");
        self.key.refused(reason)
    }
}

/// The values that are numbers of VDUs.
///
/// # Errors
///
/// `Refused`, naming a VDU or aspect that the flavour does not have, or whose VDUs have different numbers.
pub(crate) fn sizes(allocation: &Allocation) -> Result<Vec<SizeValue<'_>>, PortError> {
    let params = &allocation.deployment.additional_params;
    let mut sizes = Vec::new();
    if let Some(by_vdu) = Member::of_request(params, SIZES_BY_VDU) {
        for (vdu, names) in by_vdu.members()? {
            check_vdu(allocation, vdu, &names)?;
            if let Some(key) = names.member("replica")? {
                sizes.push(size(allocation, vdu, key)?);
            }
        }
    }
    if let Some(by_aspect) = Member::of_request(params, SIZES_BY_ASPECT) {
        for (aspect, key) in by_aspect.members()? {
            sizes.extend(sizes_of_aspect(allocation, aspect, &key)?);
        }
    }
    Ok(sizes)
}

fn size<'a>(
    allocation: &'a Allocation,
    vdu: &str,
    key: Member<'a>,
) -> Result<SizeValue<'a>, PortError> {
    Ok(SizeValue {
        vdu: vdu.to_owned(),
        count: allocation.deployment.instances_of(vdu),
        key,
        release: requested::release_of(allocation, vdu)?,
    })
}

/// The value is the number of each VDU that the aspect scales.
fn sizes_of_aspect<'a>(
    allocation: &'a Allocation,
    aspect: &str,
    key: &Member<'a>,
) -> Result<Vec<SizeValue<'a>>, PortError> {
    let (package, deployment) = (&allocation.package, &allocation.deployment);
    let flavour = package.vnfd().flavour(&deployment.flavour_id);
    let Some(scaled) = flavour.and_then(|flavour| flavour.scaling_aspects.get(aspect)) else {
        let flavour = &deployment.flavour_id;
        return Err(key.refused(format!("flavour `{flavour}` has no aspect `{aspect}`")));
    };
    let vdus = scaled.deltas.keys();
    let sizes = vdus.map(|vdu| size(allocation, vdu, key.clone()));
    let sizes = sizes.collect::<Result<Vec<_>, PortError>>()?;
    if let [first, others @ ..] = &*sizes
        && let Some(other) = others.iter().find(|other| other.count != first.count)
    {
        let text = format!(
            "VDUs `{}` and `{}` of aspect `{aspect}` have different numbers",
            first.vdu, other.vdu
        );
        let hint = format!("name a value for each of them in `{SIZES_BY_VDU}`");
        return Err(key.refused(text).hint(hint));
    }
    Ok(sizes)
}

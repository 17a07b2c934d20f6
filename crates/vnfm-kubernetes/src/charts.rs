//! The charts of a package as releases, read without rendering them.
//!
//! ```text
//! Mciop, order file ── chart ── release, named like the chart, in the VNF's namespace
//! additionalParams that the VNFD declares ── values; those that are named like one of several charts are for that one
//!                                            with rules of the Mciop: only those, under the keys that the rules give them
//! ```
//! Reserved parameters ([`RESERVED`]) and those of hooks are no values; any other that the VNFD does not declare is refused.

use crate::errors::{CHART, VALUE};
use crate::image_references::ImageReferences;
use crate::item::Item;
use crate::reserved::RESERVED;
use crate::size_values::SizeValue;
use crate::template::{BytesLeft, TemplateError, missing_value};
use crate::values;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Allocation, Budget, PortError};
use vnfm_descriptor::{
    Chart, HelmParamMapping, Limits, Mciop, MissingVariable, OrderFile, OrderedChart, Variables,
};
use vnfm_types::Secret;

/// Runs of helm for one VNF at the same time.
pub(crate) const MAX_AT_ONCE: usize = 8;
/// Longest name of a release that helm accepts.
const MAX_NAME: usize = 53;

/// A chart of the package under the name of its release.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ChartRelease {
    /// Name of the chart and of the release.
    pub(crate) name: String,
    /// Path of the packed chart in the package.
    pub(crate) path: String,
    pub(crate) packed: Vec<u8>,
    /// The values, as JSON.
    pub(crate) values: Secret,
    /// The stage of the plan that has its objects; known once it is rendered.
    pub(crate) stage: usize,
    /// What the chart renders, even if the plan leaves it out.
    pub(crate) rendered: BTreeSet<ObjectKey>,
    /// The limit on what it renders.
    pub(crate) budget: Budget,
    /// Its hooks, which helm creates and deletes.
    pub(crate) hooks: Vec<Item>,
    /// Where the images of the package are.
    pub(crate) images: ImageReferences,
}

/// Group, kind, namespace and name of an object.
pub(crate) type ObjectKey = (String, String, String, String);

impl ChartRelease {
    /// Gives the chart its values, and the numbers of VDUs that are values of it.
    ///
    /// # Errors
    ///
    /// `Refused`, naming a key that cannot be one of a value.
    pub(crate) fn set_values(
        &mut self,
        mut values: Map<String, Value>,
        sizes: &[SizeValue<'_>],
    ) -> Result<(), PortError> {
        for size in sizes.iter().filter(|size| size.is_for(&self.name)) {
            size.set(&mut values)?;
        }
        self.values = Secret::new(Value::Object(values).to_string());
        Ok(())
    }

    /// Whether an object of the plan is one that the chart renders.
    pub(crate) fn renders(&self, item: &Item, namespace: &str) -> bool {
        self.rendered.contains(&Self::key(item, namespace))
    }

    /// The identity of one of its objects in the VNF's `namespace`.
    pub(crate) fn key(item: &Item, namespace: &str) -> ObjectKey {
        let namespace = item.namespace.as_deref().unwrap_or(namespace);
        (
            item.group(),
            item.kind.clone(),
            namespace.to_owned(),
            item.name.clone(),
        )
    }
}

/// The charts of the Mciops; none if the flavour has no Mciops.
///
/// # Errors
///
/// `Refused`, naming the chart that cannot be read, the parameter that the VNFD does not declare, or the script that would have to
/// be run.
pub(crate) fn of_mciops(
    allocation: &Allocation,
    sizes: &[SizeValue<'_>],
) -> Result<Vec<ChartRelease>, PortError> {
    let mut charts = Vec::new();
    let mut mappings = Vec::new();
    let vnfd = allocation.package.vnfd();
    let Some(flavour) = vnfd.flavour(&allocation.deployment.flavour_id) else {
        return Ok(charts);
    };
    for mciop in flavour.mciops.values() {
        for path in mciop.files.values() {
            charts.push(read(allocation, path)?);
            mappings.push(rules(mciop)?);
        }
    }
    if charts.is_empty() {
        return Ok(charts);
    }
    refuse_equal_names(&charts)?;
    let values = declared_values(allocation)?;
    give_values(&mut charts, &values, sizes)?;
    for (chart, rules) in charts.iter_mut().zip(mappings) {
        if let Some(rules) = rules {
            let mapped = mapped_values(&chart.path, rules, &values)?;
            chart.set_values(mapped, sizes)?;
        }
    }
    Ok(charts)
}

/// The rules by which parameters become values of a Mciop's chart; `None`: by their names.
///
/// # Errors
///
/// `Refused`: it has a script, or rules for one.
fn rules(mciop: &Mciop) -> Result<Option<&BTreeMap<String, String>>, PortError> {
    let file = match &mciop.parameter_mapping {
        None => return Ok(None),
        Some(HelmParamMapping::Rules(rules)) => return Ok(Some(rules)),
        Some(HelmParamMapping::Unsupported(file)) => file,
        Some(_) => &mciop.name,
    };
    let name = &mciop.name;
    let text = format!(
        "Mciop `{name}` computes the values of its chart by a script (`{file}`), and scripts of packages are never run"
    );
    let hint = "state in a `HelmParamMappingRule` of the package which parameter is which value; `vnfmctl lint --explain W-HELM-MAPPING` shows how";
    Err(chart_error(file, text).hint(hint))
}

/// The values of a chart: the parameters with a value, under the keys that the rules give them.
fn mapped_values(
    path: &str,
    rules: &BTreeMap<String, String>,
    values: &Map<String, Value>,
) -> Result<Map<String, Value>, PortError> {
    let mut mapped = Map::new();
    for (key, parameter) in rules {
        if let Some(value) = values.get(parameter) {
            let set = values::set(&mut mapped, key, value.clone());
            set.map_err(|reason| chart_error(path, format!("its rule for `{key}`: {reason}")))?;
        }
    }
    Ok(mapped)
}

/// The charts of the order file, in its order.
///
/// # Errors
///
/// `Refused`, naming the chart that cannot be read, or the variable that has no value.
pub(crate) fn of_order_file(
    allocation: &Allocation,
    order: &OrderFile,
    (variables, sizes): (&Variables, &[SizeValue<'_>]),
) -> Result<Vec<ChartRelease>, PortError> {
    let mut charts = Vec::new();
    let mut left = BytesLeft::new(allocation.budget.bytes);
    for ordered in &order.charts {
        let mut chart = read(allocation, &ordered.path)?;
        if let Some(release) = &ordered.release {
            if let Some(reason) = invalid_release(release) {
                return Err(chart_error(&ordered.path, format!("its release {reason}")));
            }
            release.clone_into(&mut chart.name);
        }
        let filled = values::fill(&ordered.values, variables, &mut left);
        let values = filled.map_err(|unfilled| unfilled_values(allocation, ordered, unfilled))?;
        chart.set_values(values.as_object().cloned().unwrap_or_default(), sizes)?;
        charts.push(chart);
    }
    refuse_equal_names(&charts)?;
    Ok(charts)
}

fn unfilled_values(
    allocation: &Allocation,
    ordered: &OrderedChart,
    unfilled: TemplateError,
) -> PortError {
    let TemplateError::Missing(missing) = unfilled else {
        return chart_error(&ordered.path, "its values are too large");
    };
    let line = ordered.span.line;
    let missing = MissingVariable { line, ..missing };
    missing_value(&allocation.package, &ordered.span.file, &missing)
}

/// A chart of the package, a packed one or a folder, as a release without values.
///
/// # Errors
///
/// `Refused`: it cannot be read, is a library chart, or has a name that no release can have.
pub(crate) fn read(allocation: &Allocation, path: &str) -> Result<ChartRelease, PortError> {
    let packed = allocation
        .package
        .packed_chart(path)
        .map_err(|error| chart_error(path, error.to_string()))?;
    let chart = Chart::read(&packed, &Limits::default())
        .map_err(|error| chart_error(path, error.to_string()))?;
    if chart.library {
        return Err(chart_error(
            path,
            "it is a library chart, which deploys nothing itself",
        ));
    }
    let name = chart.name;
    if let Some(reason) = invalid_release(&name) {
        return Err(chart_error(path, format!("its name {reason}")));
    }
    Ok(ChartRelease {
        name,
        path: path.to_owned(),
        packed,
        values: Secret::new("{}"),
        stage: 0,
        rendered: BTreeSet::new(),
        budget: allocation.budget,
        hooks: Vec::new(),
        images: ImageReferences::default(),
    })
}

/// Why helm accepts no release of this name; `None` if it does.
pub(crate) fn invalid_release(name: &str) -> Option<String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let fits = (1..=MAX_NAME).contains(&name.len()) && name.chars().all(is_plain);
    if fits && !name.starts_with('-') {
        return None;
    }
    Some(format!(
        "`{name}` cannot name a release: lower-case letters, digits and `-`, at most {MAX_NAME}"
    ))
}

/// # Errors
///
/// `Refused`: two charts would be one release.
pub(crate) fn refuse_equal_names<'a>(
    charts: impl IntoIterator<Item = &'a ChartRelease>,
) -> Result<(), PortError> {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for chart in charts {
        if let Some(first) = seen.insert(&chart.name, &chart.path) {
            let text = format!("`{first}` has a release of the same name, `{}`", chart.name);
            return Err(chart_error(&chart.path, text));
        }
    }
    Ok(())
}

/// The parameters of the request that are values of charts, and the defaults of those that the VNFD declares.
///
/// # Errors
///
/// `Refused`, naming a parameter that the VNFD does not declare.
pub(crate) fn declared_values(allocation: &Allocation) -> Result<Map<String, Value>, PortError> {
    let vnfd = allocation.package.vnfd();
    let Some(flavour) = vnfd.flavour(&allocation.deployment.flavour_id) else {
        return Ok(Map::new());
    };
    let schemas = flavour.additional_params.values();
    let declared: BTreeMap<&str, Option<&Value>> = schemas
        .filter_map(|schema| schema.get("properties")?.as_object())
        .flatten()
        .filter(|(name, _)| !RESERVED.contains(&name.as_str()))
        .map(|(name, schema)| (name.as_str(), schema.get("default")))
        .collect();
    let mut given = allocation.deployment.additional_params.clone();
    given.retain(|name, _| !RESERVED.contains(&name.as_str()));
    if !flavour.hooks().is_empty() {
        // The rest is for hooks, whose schemas it has been checked against.
        given.retain(|name, _| declared.contains_key(name.as_str()));
    }
    if let Some(name) = given
        .keys()
        .find(|name| !declared.contains_key(name.as_str()))
    {
        let text = format!(
            "the VNFD does not declare the parameter `{name}`, so it is no value of a chart"
        );
        let hint =
            "declare it in the data type of the operation's `additional_parameters` in the VNFD";
        let error = PortError::new(&VALUE, "use the request", text).hint(hint);
        return Err(error.on(format!("additionalParams.{name}")));
    }
    let defaults = declared.into_iter();
    let mut values: Map<String, Value> = defaults
        .filter_map(|(name, default)| Some((name.to_owned(), default?.clone())))
        .collect();
    values.extend(given);
    Ok(values)
}

/// With several charts, an object that is named like one of them has the values of that one.
fn give_values(
    charts: &mut [ChartRelease],
    values: &Map<String, Value>,
    sizes: &[SizeValue<'_>],
) -> Result<(), PortError> {
    let names: Vec<String> = charts.iter().map(|chart| chart.name.clone()).collect();
    let is_of_one = |name: &str, value: &Value| {
        names.len() > 1 && value.is_object() && names.iter().any(|one| one == name)
    };
    for chart in charts {
        let mut own = values.clone();
        own.retain(|name, value| !is_of_one(name, value));
        if let Some(Value::Object(given)) = values
            .get(&chart.name)
            .filter(|value| is_of_one(&chart.name, value))
        {
            own.extend(given.clone());
        }
        chart.set_values(own, sizes)?;
    }
    Ok(())
}

/// The error for a chart of the package.
pub(crate) fn chart_error(path: &str, reason: impl Into<String>) -> PortError {
    PortError::new(
        &CHART,
        format!("use the chart `{path}` of the package"),
        reason,
    )
    .on(path)
}

/// A chart without objects, for tests.
#[cfg(test)]
pub(crate) fn chart_for_test(name: &str) -> ChartRelease {
    ChartRelease {
        name: name.to_owned(),
        path: format!("Artifacts/{name}.tgz"),
        packed: Vec::new(),
        values: Secret::new("{}"),
        stage: 0,
        rendered: BTreeSet::new(),
        hooks: Vec::new(),
        images: ImageReferences::default(),
        budget: Budget::default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn chart(name: &str) -> ChartRelease {
        ChartRelease {
            name: name.into(),
            path: format!("{name}.tgz"),
            packed: Vec::new(),
            values: Secret::new(""),
            stage: 0,
            rendered: BTreeSet::new(),
            budget: Budget::default(),
            hooks: Vec::new(),
            images: ImageReferences::default(),
        }
    }

    fn given(charts: &mut [ChartRelease], values: &Value) -> Vec<Value> {
        give_values(charts, values.as_object().unwrap(), &[]).unwrap();
        let all = charts.iter().map(|chart| chart.values.reveal());
        all.map(|text| serde_json::from_str(text).unwrap())
            .collect()
    }

    #[test]
    fn an_object_with_the_name_of_one_of_several_charts_is_for_that_one() {
        let values = json!({"size": 1, "web": {"size": 2}, "db": "plain"});
        let both = given(&mut [chart("web"), chart("db")], &values);
        assert_eq!(both[0], json!({"size": 2, "db": "plain"}));
        assert_eq!(both[1], json!({"size": 1, "db": "plain"}));
        let alone = given(&mut [chart("web")], &values);
        assert_eq!(alone[0], values, "a subchart may have the chart's name");
    }

    #[test]
    fn rules_give_a_parameter_the_keys_of_its_values_and_leave_out_the_others() {
        let rule = |key: &str, name: &str| (key.to_owned(), name.to_owned());
        let rules = BTreeMap::from([
            rule("page.greeting", "greeting"),
            rule("title", "greeting"),
            rule("absent", "none"),
        ]);
        let given = json!({"greeting": {"en": "hello"}, "for_a_hook": 1});
        let mapped = |rules| mapped_values("web.tgz", rules, given.as_object().unwrap());
        let expected = json!({"page": {"greeting": {"en": "hello"}}, "title": {"en": "hello"}});
        assert_eq!(Value::Object(mapped(&rules).unwrap()), expected);
        let error = mapped(&BTreeMap::from([rule("hosts[0]", "greeting")])).unwrap_err();
        assert!(error.to_string().contains("`hosts[0]`"), "{error}");
    }

    #[test]
    fn two_charts_of_one_name_are_refused_and_values_are_not_printed() {
        let error = refuse_equal_names(&[chart("web"), chart("web")]).unwrap_err();
        assert!(
            error.to_string().contains("a release of the same name"),
            "{error}"
        );
        let mut charts = [chart("web")];
        given(&mut charts, &json!({"password": "hunter2"}));
        assert!(!format!("{charts:?}").contains("hunter2"));
    }
}

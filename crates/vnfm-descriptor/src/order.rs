//! `Files/kubernetes/order.yaml`: the manifests and charts of a CNF, their order, and their variables.
//!
//! ```yaml
//! namespace: $team            # optional; default: a namespace per instance
//! variables:
//!   team:                     # no default: required in the request
//!   replicas: 2               # a default
//!   page: {default: hello, description: Text that the server returns}
//! manifests:
//!   - {path: Files/kubernetes/configmap.yaml, order: 1}
//!   - {path: Files/kubernetes/deployment.yaml, order: 2}
//! charts:                     # packed charts, or their folders
//!   - {path: Charts/tool.tgz, order: 3, release: tool, values: {page: {greeting: $page}}}
//! ```
//! What has the same order is applied together, once all of lower orders is ready. Values come from the
//! request's `additionalParams`, by the variable's name.

use crate::codes;
use crate::finding::{Finding, Span};
use crate::model::{Asd, DeploymentItem};
use crate::sink::Sink;
use crate::variables::{MissingVariable, Variables, is_name, substitute, text_of};
use crate::yaml::Node;
use serde::Serialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Path of the order file in a package.
pub const ORDER_FILE: &str = "Files/kubernetes/order.yaml";

/// The order file, or the same information from an ASD.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OrderFile {
    /// [`ORDER_FILE`], or the path of the ASD.
    pub path: String,
    /// The namespace to deploy to; may contain variables.
    pub namespace: Option<String>,
    /// The declared variables by name.
    pub variables: BTreeMap<String, Variable>,
    /// The manifests, sorted by `order`, then as written.
    pub manifests: Vec<Manifest>,
    /// The charts, sorted by `order`, then as written.
    pub charts: Vec<OrderedChart>,
}

/// A variable that the order file declares for its manifests.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Variable {
    /// The value if the request gives none; without a default, the request must give one.
    pub default: Option<Value>,
    /// What the variable is for, for people.
    pub description: Option<String>,
}

/// A manifest of the package.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Manifest {
    /// Path of the manifest in the package.
    pub path: String,
    /// Manifests of a higher order wait until those of lower ones are ready.
    pub order: i64,
    /// Position of its path in the order file.
    pub span: Span,
}

/// A Helm chart of the package.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OrderedChart {
    /// Path in the package of the packed chart, or of its folder.
    pub path: String,
    /// The chart is installed with the manifests of this order.
    pub order: i64,
    /// Name of the release; `None`: that of the chart.
    pub release: Option<String>,
    /// Its values, an object; texts in it may contain variables.
    pub values: Value,
    /// Position of its path in the order file.
    pub span: Span,
}

impl OrderFile {
    /// The manifests among the deployment items of an ASD, if there are any: `deploymentOrder` is their order, and their
    /// lifecycle parameters are variables without a default.
    pub(crate) fn from_asd(asd: &Asd, path: &str) -> Option<Self> {
        let items = asd
            .deployment_items
            .iter()
            .filter(|item| item.is_manifest());
        let manifest = |item: &DeploymentItem| Manifest {
            path: item.file.clone(),
            order: item.deployment_order.into(),
            span: Span::file(path),
        };
        let mut manifests: Vec<Manifest> = items.clone().map(manifest).collect();
        if manifests.is_empty() {
            return None;
        }
        manifests.sort_by_key(|manifest| manifest.order);
        let required = |name: &String| {
            (
                name.clone(),
                Variable {
                    default: None,
                    description: None,
                },
            )
        };
        let variables = items
            .flat_map(|item| &item.lifecycle_parameters)
            .map(required)
            .collect();
        Some(OrderFile {
            path: path.to_owned(),
            namespace: None,
            variables,
            manifests,
            charts: Vec::new(),
        })
    }

    /// The values of the variables: from the request, else the default, else none. A value has the type of the
    /// default, if there is one.
    ///
    /// # Errors
    ///
    /// A value of the request has another type than the default.
    pub fn values<'a>(
        &self,
        given: impl Fn(&str) -> Option<&'a Value>,
    ) -> Result<Variables, InvalidValue> {
        let value = |(name, variable): (&String, &Variable)| {
            let default = variable
                .default
                .as_ref()
                .filter(|default| !default.is_null());
            let value = match given(name).filter(|value| !value.is_null()) {
                None => default.cloned(),
                Some(given) => Some(converted(name, given, default)?),
            };
            Ok((name.clone(), value))
        };
        self.variables.iter().map(value).collect()
    }

    /// The namespace with its variables replaced; absent if the package names none.
    ///
    /// # Errors
    /// A variable in it has no value.
    pub fn namespace(&self, values: &Variables) -> Result<Option<String>, MissingVariable> {
        self.namespace
            .as_deref()
            .map(|namespace| substitute(namespace, values))
            .transpose()
    }

    /// The manifests grouped by order, lowest first.
    pub fn stages(&self) -> Vec<Vec<&Manifest>> {
        let mut stages: BTreeMap<i64, Vec<&Manifest>> = BTreeMap::new();
        for manifest in &self.manifests {
            stages.entry(manifest.order).or_default().push(manifest);
        }
        stages.into_values().collect()
    }
}

/// A value of the request does not have the type of the variable's default.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("variable `{name}` must be {wanted}, like its default, but the request gives {given}")]
pub struct InvalidValue {
    /// The name of the variable.
    pub name: String,
    /// The type of the default, such as `a number`.
    pub wanted: &'static str,
    /// The type of the value.
    pub given: &'static str,
}

/// Converts a value of the request to the default's type. A number or boolean may be given as text.
fn converted(name: &str, given: &Value, default: Option<&Value>) -> Result<Value, InvalidValue> {
    let Some(default) = default else {
        return Ok(given.clone());
    };
    let fits = std::mem::discriminant(default) == std::mem::discriminant(given);
    let read = given
        .as_str()
        .and_then(|text| serde_json::from_str::<Value>(text.trim()).ok());
    match (default, read) {
        _ if fits => Ok(given.clone()),
        (Value::String(_), _) => Ok(text_of(given).into_owned().into()),
        (Value::Number(_), Some(read)) if read.is_number() => Ok(read),
        (Value::Bool(_), Some(read)) if read.is_boolean() => Ok(read),
        // Lists and objects are only inserted as text, so any value will do.
        (Value::Array(_) | Value::Object(_), _) => Ok(given.clone()),
        _ => Err(InvalidValue {
            name: name.to_owned(),
            wanted: type_of(default),
            given: type_of(given),
        }),
    }
}

/// The type of a value for messages, with its article.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Reads the order file; `exists` checks for a file of the package, `known` lists all for suggestions.
pub(crate) fn read(
    node: &Node,
    exists: &dyn Fn(&str) -> bool,
    known: &[String],
    sink: &mut Sink,
) -> OrderFile {
    crate::shape::keys(
        node,
        &[
            "namespace",
            "variables",
            "manifests",
            "charts",
            "description",
        ],
        "the order file",
        sink,
    );
    let namespace = node
        .get("namespace")
        .and_then(|value| crate::shape::text(value, "`namespace`", sink));
    let mut variables = BTreeMap::new();
    if let Some(declared) = node.get("variables") {
        for (key, value) in crate::shape::mapping(declared, "`variables`", sink) {
            match key.as_str().filter(|name| is_name(name)) {
                Some(name) => drop(variables.insert(name.to_owned(), variable(value, sink))),
                None => sink.add(
                    Finding::new(codes::ORDER_FILE, key.span.clone(), "invalid variable name")
                        .hint("use letters, digits and `_`, not starting with a digit"),
                ),
            }
        }
    }
    if node.get("manifests").is_none() && node.get("charts").is_none() {
        let finding = Finding::new(codes::ORDER_FILE, node.span.clone(), "no `manifests`");
        sink.add(finding.hint("list each manifest, or chart in `charts`, with `path` and `order`"));
    }
    let mut manifests: Vec<Manifest> = Vec::new();
    for item in entries(node, "manifests", sink) {
        crate::shape::keys(item, &["path", "order"], "a manifest", sink);
        manifests.extend(manifest(item, exists, known, sink));
    }
    manifests.sort_by_key(|manifest| manifest.order);
    let mut charts: Vec<OrderedChart> = Vec::new();
    for item in entries(node, "charts", sink) {
        charts.extend(chart(item, exists, known, sink));
    }
    charts.sort_by_key(|chart| chart.order);
    OrderFile {
        path: ORDER_FILE.to_owned(),
        namespace,
        variables,
        manifests,
        charts,
    }
}

/// The entries of a list of the order file; none if it is absent.
fn entries<'a>(node: &'a Node, name: &str, sink: &mut Sink) -> Vec<&'a Node> {
    let Some(list) = node.get(name) else {
        return Vec::new();
    };
    let items = crate::shape::list(list, &format!("`{name}`"), sink);
    items.iter().collect()
}

fn chart(
    node: &Node,
    exists: &dyn Fn(&str) -> bool,
    known: &[String],
    sink: &mut Sink,
) -> Option<OrderedChart> {
    let keys = ["path", "order", "release", "values"];
    crate::shape::keys(node, &keys, "a chart", sink);
    let is_folder = |path: &str| exists(&format!("{path}/Chart.yaml"));
    let Manifest { path, order, span } =
        manifest(node, &|path| exists(path) || is_folder(path), known, sink)?;
    let release = node.get("release");
    let release = release.and_then(|value| crate::shape::text(value, "`release`", sink));
    let values = node.get("values").filter(|values| !values.is_null());
    if let Some(wrong) = values.filter(|values| !values.is_mapping()) {
        let message = "`values` is not a mapping";
        sink.add(Finding::new(codes::ORDER_FILE, wrong.span.clone(), message));
    }
    Some(OrderedChart {
        path,
        order,
        release,
        values: values.map_or_else(|| Value::Object(Map::new()), Node::to_json),
        span,
    })
}

/// `{default, description}`, or the default itself.
fn variable(node: &Node, sink: &mut Sink) -> Variable {
    if !node.is_mapping() {
        return Variable {
            default: (!node.is_null()).then(|| node.to_json()),
            description: None,
        };
    }
    crate::shape::keys(node, &["default", "description"], "a variable", sink);
    let description = node
        .get("description")
        .and_then(|value| crate::shape::text(value, "`description`", sink));
    Variable {
        default: node.get("default").map(Node::to_json),
        description,
    }
}

fn manifest(
    node: &Node,
    exists: &dyn Fn(&str) -> bool,
    known: &[String],
    sink: &mut Sink,
) -> Option<Manifest> {
    let Some(path) = node.get("path") else {
        sink.add(Finding::new(
            codes::ORDER_FILE,
            node.span.clone(),
            "an entry has no `path`",
        ));
        return None;
    };
    let text = crate::shape::text(path, "`path`", sink)?;
    let normal = crate::path::normalise(&text)
        .ok()
        .filter(|normal| exists(normal));
    let Some(normal) = normal else {
        let finding = Finding::new(
            codes::ORDER_MANIFEST,
            path.span.clone(),
            format!("no file `{text}` in the package"),
        );
        sink.add(finding.did_you_mean(&text, known.iter().map(String::as_str)));
        return None;
    };
    let order = match node.get("order").map(|order| (order, order.as_i64())) {
        Some((_, Some(order))) => order,
        Some((wrong, None)) => {
            sink.add(Finding::new(
                codes::ORDER_FILE,
                wrong.span.clone(),
                "`order` is not an integer",
            ));
            return None;
        }
        None => {
            sink.add(
                Finding::new(
                    codes::ORDER_FILE,
                    node.span.clone(),
                    format!("`{text}` has no `order`"),
                )
                .hint("add one; lower orders are applied first"),
            );
            return None;
        }
    };
    Some(Manifest {
        path: normal,
        order,
        span: path.span.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::Limits;
    use serde_json::json;

    fn read_text(text: &str) -> (OrderFile, Vec<String>) {
        let mut sink = Sink::default();
        let node = crate::yaml::parse(text, ORDER_FILE, &Limits::default(), &mut sink).unwrap();
        let known = ["Files/a.yaml", "Files/b.yaml", "Charts/web/Chart.yaml"].map(str::to_owned);
        let order = read(
            &node,
            &|path| known.contains(&path.to_owned()),
            &known,
            &mut sink,
        );
        let findings = sink
            .finish()
            .unwrap_or_else(|findings| findings.as_slice().to_vec());
        (order, findings.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn stages_are_sorted_by_order() {
        let (order, findings) = read_text(
            "namespace: ns-$team\nvariables: {team: , n: 2, page: {default: 'a b', description: d}}\nmanifests:\n- {path: Files/b.yaml, order: 20}\n- {path: Files/a.yaml, order: 3}\n",
        );
        assert_eq!(findings, [""; 0]);
        let stages: Vec<Vec<&str>> = order
            .stages()
            .iter()
            .map(|stage| stage.iter().map(|m| m.path.as_str()).collect())
            .collect();
        assert_eq!(stages, [["Files/a.yaml"], ["Files/b.yaml"]]);
        let given = json!({"team": "blue", "n": [1]});
        let wrong = order.values(|name| given.get(name)).unwrap_err();
        assert_eq!(
            wrong.to_string(),
            "variable `n` must be a number, like its default, but the request gives a list"
        );
        let given = json!({"team": "blue", "n": "7", "page": 5});
        let values = order.values(|name| given.get(name)).unwrap();
        assert_eq!(
            order.namespace(&values).unwrap().as_deref(),
            Some("ns-blue")
        );
        assert_eq!(
            values["n"],
            Some(json!(7)),
            "text that spells a number is converted"
        );
        assert_eq!(
            values["page"],
            Some(json!("5")),
            "a number for a text variable becomes text"
        );
        let defaults = order.values(|_| None).unwrap();
        assert_eq!(
            (&defaults["n"], &defaults["page"]),
            (&Some(json!(2)), &Some(json!("a b")))
        );
        assert_eq!(order.namespace(&defaults).unwrap_err().name, "team");
    }

    #[test]
    fn charts_have_an_order_and_values_and_may_be_folders() {
        let (order, findings) = read_text(
            "charts:\n- {path: Charts/web, order: 2, release: front, values: {a: {b: $team}}}\n- {path: Files/a.yaml, order: 1}\n",
        );
        assert_eq!(findings, [""; 0]);
        let charts = order.charts.iter();
        let charts: Vec<_> = charts
            .map(|chart| (&*chart.path, chart.release.as_deref()))
            .collect();
        assert_eq!(
            charts,
            [("Files/a.yaml", None), ("Charts/web", Some("front"))]
        );
        assert_eq!(order.charts[1].values, json!({"a": {"b": "$team"}}));
        assert_eq!(order.charts[0].values, json!({}));
        let (_, findings) = read_text(
            "charts:\n- {path: Charts/wbe, order: 1}\n- {path: Charts/web, order: 1, values: [a], value: {}}\n",
        );
        for (finding, part) in findings.iter().zip([
            "no file `Charts/wbe`",
            "`values` is not a mapping",
            "`value`",
        ]) {
            assert!(finding.contains(part), "{finding}");
        }
        assert_eq!(findings.len(), 3);
        assert!(read_text("variables: {}\n").1[0].contains("no `manifests`"));
    }

    #[test]
    fn an_unknown_manifest_is_an_error_with_its_position() {
        let (_, findings) = read_text(
            "manifests:\n- {path: Files/c.yaml, order: 1}\n- {path: ../x, order: 1}\n- {path: Files/a.yaml, order: one}\n",
        );
        assert_eq!(
            findings,
            [
                "Files/kubernetes/order.yaml:2:10: error[E-ORDER-MANIFEST]: no file `Files/c.yaml` in the package (hint: did you mean `Files/a.yaml`?)",
                "Files/kubernetes/order.yaml:3:10: error[E-ORDER-MANIFEST]: no file `../x` in the package",
                "Files/kubernetes/order.yaml:4:31: error[E-ORDER-FILE]: `order` is not an integer",
            ]
        );
    }
}

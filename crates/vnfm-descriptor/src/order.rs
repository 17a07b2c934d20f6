//! `Files/kubernetes/order.yaml`: which manifests make a CNF, in which order, with which variables.
//!
//! ```yaml
//! namespace: $team            # optional; default: one of the instance's own
//! variables:
//!   team:                     # no default: the request must give it
//!   replicas: 2               # a default
//!   page: {default: hello, description: What the server says}
//! manifests:
//!   - {path: Files/kubernetes/configmap.yaml, order: 1}
//!   - {path: Files/kubernetes/deployment.yaml, order: 2}
//! ```
//! Manifests of the same order are applied together; a higher order waits until the lower one is
//! ready. Values come from the request's `additionalParams`, by the variable's name.

use crate::finding::{Finding, Sink, Span, codes};
use crate::model::{Asd, DeploymentItem};
use crate::variables::{MissingVariable, Variables, is_name, substitute, text_of};
use crate::yaml::Node;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Where the order file lies in a package.
pub const ORDER_FILE: &str = "Files/kubernetes/order.yaml";

/// The order file, or what an ASD says in its place.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OrderFile {
    /// The file that says so: [`ORDER_FILE`], or the ASD.
    pub path: String,
    /// The namespace; may contain variables.
    pub namespace: Option<String>,
    /// The declared variables.
    pub variables: BTreeMap<String, Variable>,
    /// The manifests, sorted by `order`, then as written.
    pub manifests: Vec<Manifest>,
}

/// A declared variable.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Variable {
    /// The value where the request gives none.
    pub default: Option<Value>,
    /// For people.
    pub description: Option<String>,
}

/// A manifest of the package.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Manifest {
    /// Path in the package.
    pub path: String,
    /// Lower ones are ready before higher ones start.
    pub order: i64,
    /// Where the order file names it.
    pub span: Span,
}

impl OrderFile {
    /// What an ASD deploys, if all of it is manifests: `deploymentOrder` is their order, the lifecycle parameters are
    /// variables that the request must give.
    pub(crate) fn of_asd(asd: &Asd, path: &str) -> Option<Self> {
        let items = asd.deployment_items.iter();
        let manifest = |item: &DeploymentItem| {
            item.is_manifest().then(|| Manifest {
                path: item.file.clone(),
                order: item.deployment_order.into(),
                span: Span::file(path),
            })
        };
        let mut manifests = items.clone().map(manifest).collect::<Option<Vec<_>>>()?;
        manifests.sort_by_key(|manifest| manifest.order);
        let given = |name: &String| {
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
            .map(given)
            .collect();
        Some(OrderFile {
            path: path.to_owned(),
            namespace: None,
            variables,
            manifests,
        })
    }

    /// The variables with their values: the request's, else the default, else none. A value has the type of the
    /// default, where there is one.
    ///
    /// # Errors
    ///
    /// A value of the request is of another type.
    pub fn values<'a>(
        &self,
        given: impl Fn(&str) -> Option<&'a Value>,
    ) -> Result<Variables, UnfitValue> {
        let value = |(name, variable): (&String, &Variable)| {
            let default = variable
                .default
                .as_ref()
                .filter(|default| !default.is_null());
            let value = match given(name).filter(|value| !value.is_null()) {
                None => default.cloned(),
                Some(given) => Some(as_declared(name, given, default)?),
            };
            Ok((name.clone(), value))
        };
        self.variables.iter().map(value).collect()
    }

    /// The namespace that the package asks for, variables replaced.
    ///
    /// # Errors
    /// A variable in it has no value.
    pub fn namespace(&self, values: &Variables) -> Result<Option<String>, MissingVariable> {
        self.namespace
            .as_deref()
            .map(|namespace| substitute(namespace, values))
            .transpose()
    }

    /// The manifests in stages: those of one order together, lowest first.
    pub fn stages(&self) -> Vec<Vec<&Manifest>> {
        let mut stages: BTreeMap<i64, Vec<&Manifest>> = BTreeMap::new();
        for manifest in &self.manifests {
            stages.entry(manifest.order).or_default().push(manifest);
        }
        stages.into_values().collect()
    }
}

/// A value of the request is not of the type that the variable's default has.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("variable `{name}` is {wanted}, as its default is, and the request gives {given}")]
pub struct UnfitValue {
    /// The variable.
    pub name: String,
    /// What it takes.
    pub wanted: &'static str,
    /// What it got.
    pub given: &'static str,
}

/// A value of the request, of the default's type. A number or boolean may be written as a text that spells it.
fn as_declared(name: &str, given: &Value, default: Option<&Value>) -> Result<Value, UnfitValue> {
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
        // What is no scalar stands for text alone.
        (Value::Array(_) | Value::Object(_), _) => Ok(given.clone()),
        _ => Err(UnfitValue {
            name: name.to_owned(),
            wanted: type_of(default),
            given: type_of(given),
        }),
    }
}

/// The type of a value, in a word.
pub fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Reads the order file; `exists` knows the package's files.
pub(crate) fn read(
    node: &Node,
    exists: &dyn Fn(&str) -> bool,
    known: &[String],
    sink: &mut Sink,
) -> OrderFile {
    crate::shape::keys(
        node,
        &["namespace", "variables", "manifests", "description"],
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
                    Finding::new(
                        codes::ORDER_FILE,
                        key.span.clone(),
                        "this cannot be the name of a variable",
                    )
                    .hint("letters, digits and `_`, no digit first"),
                ),
            }
        }
    }
    let mut manifests: Vec<Manifest> = Vec::new();
    match node.get("manifests") {
        Some(listed) => {
            for item in crate::shape::list(listed, "`manifests`", sink) {
                manifests.extend(manifest(item, exists, known, sink));
            }
        }
        None => {
            sink.add(
                Finding::new(codes::ORDER_FILE, node.span.clone(), "no `manifests`")
                    .hint("list each with `path` and `order`"),
            );
        }
    }
    manifests.sort_by_key(|manifest| manifest.order);
    OrderFile {
        path: ORDER_FILE.to_owned(),
        namespace,
        variables,
        manifests,
    }
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
    crate::shape::keys(node, &["path", "order"], "a manifest", sink);
    let Some(path) = node.get("path") else {
        sink.add(Finding::new(
            codes::ORDER_FILE,
            node.span.clone(),
            "a manifest without `path`",
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
                "`order` is not a whole number",
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
                .hint("lower ones come first"),
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
        let known = ["Files/a.yaml".to_owned(), "Files/b.yaml".to_owned()];
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
    fn stages_come_by_order() {
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
            "variable `n` is a number, as its default is, and the request gives a list"
        );
        let given = json!({"team": "blue", "n": "7", "page": 5});
        let values = order.values(|name| given.get(name)).unwrap();
        assert_eq!(
            order.namespace(&values).unwrap().as_deref(),
            Some("ns-blue")
        );
        assert_eq!(values["n"], Some(json!(7)), "a text that spells a number");
        assert_eq!(
            values["page"],
            Some(json!("5")),
            "what is declared as a text stays one"
        );
        let defaults = order.values(|_| None).unwrap();
        assert_eq!(
            (&defaults["n"], &defaults["page"]),
            (&Some(json!(2)), &Some(json!("a b")))
        );
        assert_eq!(order.namespace(&defaults).unwrap_err().name, "team");
    }

    #[test]
    fn an_unknown_manifest_is_an_error_with_its_place() {
        let (_, findings) = read_text(
            "manifests:\n- {path: Files/c.yaml, order: 1}\n- {path: ../x, order: 1}\n- {path: Files/a.yaml, order: one}\n",
        );
        assert_eq!(
            findings,
            [
                "Files/kubernetes/order.yaml:2:10: error[E-ORDER-MANIFEST]: no file `Files/c.yaml` in the package (hint: did you mean `Files/a.yaml`?)",
                "Files/kubernetes/order.yaml:3:10: error[E-ORDER-MANIFEST]: no file `../x` in the package",
                "Files/kubernetes/order.yaml:4:31: error[E-ORDER-FILE]: `order` is not a whole number",
            ]
        );
    }
}

//! Checks values against their declarations: types, required properties, constraints.

use super::constraints::holds;
use super::data::DataType;
use super::functions::called;
use super::scalars;
use super::types::{Property, Schema, Types};
use super::units;
use crate::codes;
use crate::finding::{Finding, Span};
use crate::sink::Sink;
use crate::yaml::{Node, Value, float, integer};
use std::collections::BTreeMap;
use std::fmt;

/// Checks values; findings name a value by its path, such as `workerNode.vdu_profile`.
pub(super) struct Check<'a, 's> {
    pub(super) types: &'a Types<'a>,
    pub(super) sink: &'s mut Sink,
    /// What is done with functions whose value is not known when the package is onboarded.
    pub(super) late: Late,
    /// Whether missing required properties are reported.
    pub(super) complete: bool,
}

/// What is done with a function whose value depends on the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Late {
    /// Nothing: requests give such values.
    Accepted,
    /// A warning: nothing in the VNFM uses the value.
    Warned,
    /// An error: the VNFM needs the value.
    Refused,
}

impl<'a> Check<'a, '_> {
    /// Checks the properties of a template against its type.
    pub(super) fn properties(
        &mut self,
        path: &str,
        declared: &BTreeMap<&'a str, Property<'a>>,
        given: Option<&Node>,
        at: &Span,
    ) {
        self.members(&Path::Root(path), declared, given, at);
    }

    /// Checks a value against a schema.
    pub(super) fn value(&mut self, node: &Node, schema: &Schema<'a>, path: &str) {
        self.against(node, schema, &Path::Root(path));
    }

    fn members(
        &mut self,
        path: &Path<'_>,
        declared: &BTreeMap<&'a str, Property<'a>>,
        given: Option<&Node>,
        at: &Span,
    ) {
        let given_entries = given
            .map(|node| {
                if node.is_mapping() {
                    return node.entries();
                }
                crate::shape::mapping(node, &format!("`{path}`"), self.sink)
            })
            .unwrap_or_default();
        for (key, value) in given_entries {
            let name = key.as_str().unwrap_or("~");
            if let Some(property) = declared.get(name) {
                self.property(key, value, property, &Path::Member(path, name));
                continue;
            }
            let message = format!("`{path}` has no property `{name}`");
            let finding = Finding::new(codes::PROPERTY_UNKNOWN, key.span.clone(), message);
            self.sink.add(
                finding
                    .about(path.to_string())
                    .did_you_mean(name, declared.keys().copied()),
            );
        }
        if !self.complete {
            return;
        }
        for property in declared
            .values()
            .filter(|property| property.required && property.default.is_none())
        {
            if given.and_then(|node| node.get(property.name)).is_none() {
                let message = format!("`{path}` lacks the property `{}`", property.name);
                let finding = Finding::new(codes::PROPERTY_MISSING, at.clone(), message);
                self.sink
                    .add(finding.about(path.to_string()).member(property.name));
            }
        }
    }

    /// Checks a property's value. If it is valid only in another version of SOL001, that is a warning.
    fn property(&mut self, key: &Node, value: &Node, property: &Property<'a>, path: &Path<'_>) {
        let optional = !property.required || property.default.is_some();
        if optional && is_empty(value, property.schema.kind) {
            let what = if value.is_null() {
                "null"
            } else {
                "an empty list"
            };
            let message = format!("`{path}` is {what}, which counts as absent");
            let finding = Finding::new(codes::EMPTY, value.span.clone(), message);
            return self.sink.add(finding.hint("remove it, or give it a value"));
        }
        if let Some(versions) = property.versions {
            self.types
                .other_version(versions, &key.span, &format!("`{path}`"), self.sink);
        }
        if property.elsewhere.is_empty() {
            return self.against(value, &property.schema, path);
        }
        let own = self.trial(value, &property.schema, path);
        if !own.failed() {
            return self.sink.append(own);
        }
        for other in property.elsewhere {
            let tried = self.trial(value, &Schema::for_node(other), path);
            if !tried.failed() {
                let what = format!("`{path}` in this form");
                self.types
                    .warn_if_other_version(other, &value.span, &what, self.sink);
                return self.sink.append(tried);
            }
        }
        self.sink.append(own);
    }

    /// The findings for a value, without reporting them.
    fn trial(&self, value: &Node, schema: &Schema<'a>, path: &Path<'_>) -> Sink {
        let mut sink = Sink::default();
        let (late, complete) = (self.late, self.complete);
        Check {
            types: self.types,
            sink: &mut sink,
            late,
            complete,
        }
        .against(value, schema, path);
        sink
    }

    fn against(&mut self, node: &Node, schema: &Schema<'a>, path: &Path<'_>) {
        if let Some((function, _)) = called(node) {
            return self.late(node, function, path);
        }
        match schema.kind {
            "any" => return,
            "list" => self.list(node, schema, path),
            "range" if scalars::range(node).is_some() => {}
            "range" => return self.wrong(node, expected("range"), path),
            "map" => self.map(node, schema, path),
            kind => match self.types.data_type(kind) {
                Some(data) => return self.data(node, &data, schema, path),
                None => self.primitive(node, kind, path),
            },
        }
        for constraint in &schema.constraints {
            self.constraint(node, constraint, schema.kind, path);
        }
    }

    /// Reports a function that has no value yet.
    fn late(&mut self, node: &Node, function: &str, path: &Path<'_>) {
        let (code, what) = match self.late {
            Late::Accepted => return,
            Late::Warned => (codes::FUNCTION_LATE, "is unknown"),
            Late::Refused => (codes::FUNCTION, "cannot be evaluated"),
        };
        let message =
            format!("`{path}` {what} when the package is onboarded: `{function}` has no value yet");
        let hint = match function {
            "get_input" => "give the input a default, or write a literal value",
            "get_attribute" => "attributes are known only when the VNF runs; write a literal value",
            _ => "write a literal value",
        };
        let finding = Finding::new(code, node.span.clone(), message);
        self.sink.add(finding.calling(function).hint(hint));
    }

    fn list(&mut self, node: &Node, schema: &Schema<'a>, path: &Path<'_>) {
        if !node.is_sequence() {
            return self.wrong(node, "a list", path);
        }
        let Some(entry) = schema.entry.map(Schema::for_node) else {
            return;
        };
        for (index, item) in node.items().iter().enumerate() {
            self.against(item, &entry, &Path::Item(path, index));
        }
    }

    fn map(&mut self, node: &Node, schema: &Schema<'a>, path: &Path<'_>) {
        if !node.is_mapping() {
            return self.wrong(node, "a mapping", path);
        }
        let Some(entry) = schema.entry.map(Schema::for_node) else {
            return;
        };
        for (key, value) in node.entries() {
            self.against(
                value,
                &entry,
                &Path::Member(path, key.as_str().unwrap_or("~")),
            );
        }
    }

    /// A value of a declared data type: complex, or derived from a primitive.
    fn data(&mut self, node: &Node, data: &DataType<'a>, schema: &Schema<'a>, path: &Path<'_>) {
        if let Some(primitive) = &data.primitive {
            let all = schema.constraints.iter().chain(&primitive.constraints);
            let constraints = all.copied().collect();
            return self.against(
                node,
                &Schema {
                    constraints,
                    ..primitive.clone()
                },
                path,
            );
        }
        if !node.is_mapping() {
            return self.wrong(node, "a mapping", path);
        }
        let complete = std::mem::replace(&mut self.complete, true);
        self.members(path, &data.properties, Some(node), &node.span);
        self.complete = complete;
    }

    fn primitive(&mut self, node: &Node, kind: &'a str, path: &Path<'_>) {
        let Some(text) = node.as_str() else {
            return self.wrong(node, expected(kind), path);
        };
        let plain = matches!(node.value, Value::Scalar { plain: true, .. });
        let is_valid = match kind {
            "integer" => node.as_i64().is_some(),
            "float" => float(text).is_some(),
            "boolean" => node.as_bool().is_some(),
            "scalar-unit.size" => units::bytes(text).is_some(),
            "scalar-unit.time" => units::seconds(text).is_some(),
            "scalar-unit.frequency" => units::hertz(text).is_some(),
            "scalar-unit.bitrate" => units::bits_per_second(text).is_some(),
            "timestamp" => scalars::timestamp(text).is_some(),
            "version" => scalars::Version::read(text).is_some(),
            _ => true,
        };
        if !is_valid {
            return self.wrong(node, expected(kind), path);
        }
        if kind == "string" && plain && changes_as_number(text) {
            let message = format!(
                "`{path}` is a string but written as the number {text}, which some parsers change"
            );
            self.sink.add(
                Finding::new(codes::YAML_NUMBER, node.span.clone(), message)
                    .hint(format!("write \"{text}\"")),
            );
        }
    }

    fn wrong(&mut self, node: &Node, expected: &str, path: &Path<'_>) {
        let found = node
            .as_str()
            .map_or_else(|| node.kind().to_owned(), |text| format!("`{text}`"));
        self.sink.add(Finding::new(
            codes::PROPERTY_TYPE,
            node.span.clone(),
            format!("`{path}` is {found}, not {expected}"),
        ));
    }

    fn constraint(&mut self, node: &Node, constraint: &Node, kind: &str, path: &Path<'_>) {
        for (name, bound) in constraint.named() {
            let holds = holds(self.types, kind, node, name, bound);
            if !holds {
                let found = node
                    .as_str()
                    .map_or_else(|| node.kind().to_owned(), |text| format!("`{text}`"));
                let message = format!(
                    "`{path}` is {found}, which violates `{name}: {}`",
                    bound_text(bound)
                );
                let finding = Finding::new(codes::PROPERTY_CONSTRAINT, node.span.clone(), message);
                let similar_to = if name == "valid_values" {
                    node.as_str()
                } else {
                    None
                };
                self.sink.add(match similar_to {
                    Some(text) => {
                        finding.did_you_mean(text, bound.items().iter().filter_map(Node::as_str))
                    }
                    None => finding,
                });
            }
        }
    }
}

/// The path of a value, such as `workerNode.vdu_profile` or `levels[2]`; formatted only for findings.
enum Path<'p> {
    Root(&'p str),
    Member(&'p Path<'p>, &'p str),
    Item(&'p Path<'p>, usize),
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Path::Root(name) => f.write_str(name),
            Path::Member(parent, name) => write!(f, "{parent}.{name}"),
            Path::Item(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Whether a value of this declared type is null or an empty list in place of something else.
fn is_empty(value: &Node, kind: &str) -> bool {
    let list = value.is_sequence() && value.items().is_empty();
    match kind {
        "any" | "null" => false,
        "list" => value.is_null(),
        _ => value.is_null() || list,
    }
}

fn expected(kind: &str) -> &'static str {
    match kind {
        "integer" => "an integer",
        "float" => "a number",
        "boolean" => "true or false",
        "scalar-unit.size" => "a size such as `4 GiB`",
        "scalar-unit.time" => "a time such as `30 s`",
        "scalar-unit.frequency" => "a frequency such as `2.4 GHz`",
        "scalar-unit.bitrate" => "a bit rate such as `10 Mbps`",
        "timestamp" => "a time such as `2001-12-14T21:59:43Z`",
        "version" => "a version such as `1.2.3`",
        "range" => "a range such as `[1, UNBOUNDED]`",
        _ => "text",
    }
}

/// Whether text changes when it is read as a number: `1.10` becomes 1.1.
fn changes_as_number(text: &str) -> bool {
    match (integer(text), float(text)) {
        (Some(value), _) => value.to_string() != text,
        (None, Some(value)) => value.to_string() != text && format!("{value:.1}") != text,
        (None, None) => false,
    }
}

fn bound_text(bound: &Node) -> String {
    match bound.as_str() {
        Some(text) => text.to_owned(),
        None => format!(
            "[{}]",
            bound
                .items()
                .iter()
                .filter_map(Node::as_str)
                .collect::<Vec<_>>()
                .join(", ")
        ),
    }
}

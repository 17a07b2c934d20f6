//! JSON Schemas of an operation's additional parameters, from the declared data type.
//!
//! A package derives a type from `tosca.datatypes.nfv.VnfOperationAdditionalParameters` and sets it as
//! the type of the operation's input `additional_parameters`. At the top level, other keys are allowed,
//! since requests have additional ones, such as Tacker's `lcm-operation-user-data`.

use super::builder::Builder;
use super::constraints::anchored;
use super::kind::Kind;
use super::topology::Template;
use super::types::{Property, Schema, Types, operations_in};
use crate::yaml::Node;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const BASE: &str = "tosca.datatypes.nfv.VnfOperationAdditionalParameters";
/// Levels of a schema; data types may contain themselves, and deeper values are not described.
const MAX_DEPTH: usize = 12;

impl Builder<'_, '_> {
    /// The schemas of the operations that declare a derived data type.
    pub(super) fn additional_params(&self, vnf: &Template) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        for (interface, node) in vnf.node.get("interfaces").into_iter().flat_map(Node::named) {
            for (operation, assigned) in operations_in(node) {
                self.describe(operation, &[assigned], &mut all);
            }
            for (operation, nodes) in self
                .types
                .operations(&vnf.kind, interface)
                .unwrap_or_default()
            {
                self.describe(operation, &nodes, &mut all);
            }
        }
        for interface in self
            .types
            .section(Kind::Node, &vnf.kind, "interfaces")
            .keys()
        {
            for (operation, nodes) in self
                .types
                .operations(&vnf.kind, interface)
                .unwrap_or_default()
            {
                self.describe(operation, &nodes, &mut all);
            }
        }
        all
    }

    fn describe(&self, operation: &str, nodes: &[&Node], all: &mut BTreeMap<String, Value>) {
        let inputs = nodes
            .iter()
            .filter_map(|node| node.at(&["inputs", "additional_parameters"]));
        let kind = inputs
            .filter_map(|input| input.get("type").or(Some(input)).and_then(Node::as_str))
            .find(|kind| *kind != BASE);
        let kind = kind.filter(|kind| self.types.is_a(Kind::Data, kind, BASE));
        if let Some(kind) = kind.filter(|_| !all.contains_key(operation)) {
            let mut schema = data(self.types, kind, 0);
            schema["additionalProperties"] = Value::Bool(true);
            all.insert(operation.to_owned(), schema);
        }
    }

    /// The extensions and metadata that the type of a VNF's `modifiable_attributes` declares, with their defaults.
    pub(super) fn modifiable_defaults(&self, vnf: &str) -> Option<Value> {
        let property = self
            .types
            .properties(Kind::Node, vnf)
            .remove("modifiable_attributes")?;
        let mut all = Map::new();
        for (name, part) in self.types.properties(Kind::Data, property.schema.kind) {
            let declared = self.types.properties(Kind::Data, part.schema.kind);
            let values: Map<String, Value> = declared
                .values()
                .map(|inner| {
                    (
                        inner.name.to_owned(),
                        inner.default.map_or(Value::Null, Node::to_json),
                    )
                })
                .collect();
            if !values.is_empty() {
                all.insert(name.to_owned(), Value::Object(values));
            }
        }
        (!all.is_empty()).then_some(Value::Object(all))
    }

    /// Schemas of the extensions, the metadata and the configurable properties that a VNF's type declares.
    pub(super) fn modifiable_types(&self, vnf: &str) -> BTreeMap<String, Value> {
        let mut all = BTreeMap::new();
        let mut properties = self.types.properties(Kind::Node, vnf);
        if let Some(attributes) = properties.remove("modifiable_attributes") {
            let mut parts = self.types.properties(Kind::Data, attributes.schema.kind);
            for name in ["extensions", "metadata"] {
                if let Some(part) = parts.remove(name) {
                    all.insert(name.to_owned(), data(self.types, part.schema.kind, 0));
                }
            }
        }
        if let Some(configurable) = properties.remove("configurable_properties") {
            let mut schema = data(self.types, configurable.schema.kind, 0);
            if let Some(declared) = schema["properties"].as_object_mut() {
                for (sol001, sol003) in SOL003_NAMES {
                    if let Some(schema) = declared.remove(*sol001) {
                        declared.insert((*sol003).to_owned(), schema);
                    }
                }
            }
            all.insert("vnfConfigurableProperties".to_owned(), schema);
        }
        all
    }
}

/// Configurable properties that SOL001 and SOL003 spell differently.
const SOL003_NAMES: &[(&str, &str)] = &[
    ("is_autoscale_enabled", "isAutoscaleEnabled"),
    ("is_autoheal_enabled", "isAutohealEnabled"),
];

/// The schema of a data type.
fn data(types: &Types<'_>, kind: &str, depth: usize) -> Value {
    let mut declared = types.properties(Kind::Data, kind);
    declared.retain(|_, property| property.versions.is_none());
    let required: Vec<&str> = declared
        .values()
        .filter(|p| p.required && p.default.is_none())
        .map(|p| p.name)
        .collect();
    let properties: Map<String, Value> = declared
        .values()
        .map(|p| (p.name.to_owned(), property(types, p, depth)))
        .collect();
    let mut schema = json!({"type": "object", "required": required, "additionalProperties": false});
    schema["properties"] = Value::Object(properties);
    schema
}

fn property(types: &Types<'_>, property: &Property<'_>, depth: usize) -> Value {
    let mut schema = value(types, &property.schema, depth + 1);
    if let Some(description) = property.description {
        schema["description"] = Value::from(description);
    }
    if let Some(default) = property.default {
        schema["default"] = default.to_json();
    }
    if property.write_only {
        schema["writeOnly"] = Value::Bool(true);
    }
    schema
}

/// The keyword for the schema of the entries of a list or map.
const ENTRY_KEYWORDS: &[(&str, &str)] = &[("list", "items"), ("map", "additionalProperties")];

fn value(types: &Types<'_>, schema: &Schema<'_>, depth: usize) -> Value {
    if depth > MAX_DEPTH || !types.count_part() {
        return json!({});
    }
    let mut out = match schema.kind {
        "string" | "version" | "timestamp" => json!({"type": "string"}),
        "integer" => json!({"type": "integer"}),
        "float" => json!({"type": "number"}),
        "boolean" => json!({"type": "boolean"}),
        "list" => json!({"type": "array"}),
        "range" => json!({
            "type": "array",
            "items": {"anyOf": [{"type": "number"}, {"const": "UNBOUNDED"}]},
            "minItems": 2,
            "maxItems": 2,
        }),
        "map" => json!({"type": "object"}),
        kind if kind.starts_with("scalar-unit.") => json!({"type": "string"}),
        kind if types.get(Kind::Data, kind).is_some() => named(types, kind, depth),
        _ => json!({}),
    };
    // The schema of the entries is moved: `json!` would copy it again at each level above.
    if let Some(keyword) = ENTRY_KEYWORDS
        .iter()
        .find(|(kind, _)| *kind == schema.kind)
        .map(|(_, key)| key)
    {
        let entry = schema
            .entry
            .map(|entry| value(types, &Schema::for_node(entry), depth + 1));
        out[*keyword] = entry.unwrap_or_else(|| json!({}));
    }
    for (name, bound) in schema
        .constraints
        .iter()
        .flat_map(|constraint| constraint.named())
    {
        constrain(types, &mut out, name, bound);
    }
    out
}

/// A declared data type; one that derives from a primitive is that primitive, constrained.
fn named(types: &Types<'_>, kind: &str, depth: usize) -> Value {
    let chain = types.ancestry(Kind::Data, kind);
    let root = chain
        .last()
        .and_then(|last| last.get("derived_from"))
        .and_then(Node::as_str);
    match root.filter(|root| super::types::PRIMITIVES.contains(root)) {
        Some(primitive) => {
            let constraints = chain
                .iter()
                .filter_map(|node| node.get("constraints"))
                .flat_map(Node::items)
                .collect();
            let entry = chain.iter().find_map(|node| node.get("entry_schema"));
            value(
                types,
                &Schema {
                    kind: primitive,
                    entry,
                    constraints,
                },
                depth + 1,
            )
        }
        None => data(types, kind, depth),
    }
}

fn constrain(types: &Types<'_>, schema: &mut Value, name: &str, bound: &Node) {
    let (low, high) = match schema["type"].as_str() {
        Some("array") => ("minItems", "maxItems"),
        Some("object") => ("minProperties", "maxProperties"),
        _ => ("minLength", "maxLength"),
    };
    let bounds = if bound.is_sequence() {
        bound.items()
    } else {
        std::slice::from_ref(bound)
    };
    if (name.starts_with("greater") || name.starts_with("less") || name == "in_range")
        && !bounds.iter().any(|bound| bound.to_json().is_number())
    {
        return; // sizes and times are strings in JSON
    }
    let mut put = |key: &str, value: Value| schema[key] = value;
    match (name, bound.items()) {
        ("valid_values", values) => put("enum", values.iter().map(Node::to_json).collect()),
        ("equal", _) => put("const", bound.to_json()),
        ("greater_or_equal", _) => put("minimum", bound.to_json()),
        ("greater_than", _) => put("exclusiveMinimum", bound.to_json()),
        ("less_or_equal", _) => put("maximum", bound.to_json()),
        ("less_than", _) => put("exclusiveMaximum", bound.to_json()),
        ("in_range", [from, to]) => {
            // `UNBOUNDED` sets no bound.
            for (key, end) in [("minimum", from.to_json()), ("maximum", to.to_json())] {
                if end.is_number() {
                    put(key, end);
                }
            }
        }
        ("min_length", _) => put(low, bound.to_json()),
        ("max_length", _) => put(high, bound.to_json()),
        ("length", _) => {
            put(low, bound.to_json());
            put(high, bound.to_json());
        }
        ("pattern", _) => {
            if let Some(pattern) = bound.as_str().filter(|text| types.pattern(text).is_some()) {
                put("pattern", Value::from(anchored(pattern)));
            }
        }
        _ => {}
    }
}

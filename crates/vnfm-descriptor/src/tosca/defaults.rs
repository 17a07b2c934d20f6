//! Checks defaults against their declarations: in the package's own types, and of inputs.

use super::check::{Check, Late};
use super::documents::{Document, Origin};
use super::types::{Schema, Types};
use crate::sink::Sink;
use crate::yaml::Node;

/// Sections of types that declare properties.
const TYPES: &[&str] = &[
    "data_types",
    "capability_types",
    "relationship_types",
    "node_types",
    "group_types",
    "policy_types",
    "artifact_types",
];

/// Checks every default of the documents.
pub(super) fn check<'a>(documents: &'a [Document], types: &'a Types<'a>, sink: &mut Sink) {
    for document in documents
        .iter()
        .filter(|document| document.origin == Origin::Package)
    {
        for section in TYPES {
            for (kind, node) in document.root.get(section).into_iter().flat_map(Node::named) {
                for declared in ["properties", "attributes"] {
                    defaults(node.get(declared), kind, types, sink);
                }
            }
        }
        let inputs = document.root.at(&["topology_template", "inputs"]);
        for (_, input) in inputs.into_iter().flat_map(Node::named) {
            types.check_schema(input, sink);
        }
        defaults(inputs, "inputs", types, sink);
    }
}

fn defaults<'a>(declared: Option<&'a Node>, owner: &str, types: &'a Types<'a>, sink: &mut Sink) {
    for (name, property) in declared.into_iter().flat_map(Node::named) {
        if let Some(default) = property.get("default") {
            let mut check = Check {
                types,
                sink,
                late: Late::Accepted,
                complete: true,
            };
            check.value(
                default,
                &Schema::for_node(property),
                &format!("{owner}.{name}.default"),
            );
        }
    }
}

//! Unknown keys, constraints that nothing satisfies, unused inputs, references to missing nodes.

use crate::explain::codes;
use std::collections::BTreeSet;
use vnfm_descriptor::Finding;
use vnfm_descriptor::raw::{Document, Kind, Node, Sink, Types, float, listed};

const COMMON: &[&str] = &["derived_from", "version", "metadata", "description"];

/// The sections of types, each with the keys of a declaration in addition to [`COMMON`].
const TYPES: &[(&str, &[&str])] = &[
    (
        "node_types",
        &[
            "properties",
            "attributes",
            "requirements",
            "capabilities",
            "interfaces",
            "artifacts",
        ],
    ),
    (
        "data_types",
        &["constraints", "properties", "key_schema", "entry_schema"],
    ),
    (
        "capability_types",
        &["properties", "attributes", "valid_source_types"],
    ),
    (
        "relationship_types",
        &[
            "properties",
            "attributes",
            "interfaces",
            "valid_target_types",
            "valid_source_types",
        ],
    ),
    ("policy_types", &["properties", "targets", "triggers"]),
    (
        "group_types",
        &[
            "properties",
            "attributes",
            "members",
            "capabilities",
            "requirements",
            "interfaces",
        ],
    ),
    ("artifact_types", &["mime_type", "file_ext", "properties"]),
];

const PROPERTY: &[&str] = &[
    "type",
    "description",
    "required",
    "default",
    "status",
    "constraints",
    "key_schema",
    "entry_schema",
    "external-schema",
    "metadata",
    "value",
];
const POLICY: &[&str] = &[
    "type",
    "description",
    "metadata",
    "properties",
    "targets",
    "triggers",
];
const GROUP: &[&str] = &[
    "type",
    "description",
    "metadata",
    "properties",
    "attributes",
    "members",
    "interfaces",
];
const SUBSTITUTION: &[&str] = &[
    "node_type",
    "substitution_filter",
    "properties",
    "attributes",
    "capabilities",
    "requirements",
    "interfaces",
];
const ARTIFACT: &[&str] = &[
    "type",
    "file",
    "repository",
    "description",
    "metadata",
    "deploy_path",
    "version",
    "artifact_version",
    "checksum",
    "checksum_algorithm",
    "properties",
];
const REQUIREMENT: &[&str] = &[
    "node",
    "capability",
    "relationship",
    "node_filter",
    "occurrences",
    "description",
    "metadata",
];
/// Keywords that functions accept in place of a node template's name.
const KEYWORDS: &[&str] = &["SELF", "HOST", "SOURCE", "TARGET", "R_SOURCE", "R_TARGET"];

pub(super) fn check<'a>(document: &'a Document, types: &'a Types<'a>, sink: &mut Sink) {
    for (section, keys) in TYPES {
        let known: Vec<&str> = COMMON.iter().chain(*keys).copied().collect();
        for (key, declared) in document
            .root
            .get(section)
            .map(Node::entries)
            .unwrap_or_default()
        {
            let Some(name) = key.as_str() else { continue };
            unknown(declared, &known, &format!("`{name}`"), sink);
            for (property, node) in declared.get("properties").into_iter().flat_map(Node::named) {
                unknown(
                    node,
                    PROPERTY,
                    &format!("property `{property}` of `{name}`"),
                    sink,
                );
                constraints(node, sink);
            }
            constraints(declared, sink);
        }
    }
    let Some(topology) = document.root.get("topology_template") else {
        return;
    };
    assignments(topology, sink);
    inputs(topology, &document.root, types, sink);
    references(topology, topology, sink);
}

fn unknown(node: &Node, known: &[&str], what: &str, sink: &mut Sink) {
    for (key, _) in node.entries() {
        let name = key.as_str().unwrap_or("~");
        if !known.contains(&name) {
            let message = format!("TOSCA defines no key `{name}` for {what}; it is ignored");
            let finding = Finding::new(codes::KEY_UNUSED, key.span.clone(), message);
            sink.add(finding.did_you_mean(name, known.iter().copied()));
        }
    }
}

/// Checks the parts of a topology whose keys are not checked when it is read.
fn assignments(topology: &Node, sink: &mut Sink) {
    for (name, input) in topology.get("inputs").into_iter().flat_map(Node::named) {
        unknown(input, PROPERTY, &format!("input `{name}`"), sink);
        constraints(input, sink);
    }
    for (key, policy) in listed(topology.get("policies")) {
        unknown(
            policy,
            POLICY,
            &format!("policy `{}`", key.as_str().unwrap_or("~")),
            sink,
        );
    }
    for (name, group) in topology.get("groups").into_iter().flat_map(Node::named) {
        unknown(group, GROUP, &format!("group `{name}`"), sink);
    }
    if let Some(mappings) = topology.get("substitution_mappings") {
        unknown(mappings, SUBSTITUTION, "`substitution_mappings`", sink);
    }
    for (name, template) in topology
        .get("node_templates")
        .into_iter()
        .flat_map(Node::named)
    {
        for (artifact, node) in template.get("artifacts").into_iter().flat_map(Node::named) {
            unknown(
                node,
                ARTIFACT,
                &format!("artifact `{artifact}` of `{name}`"),
                sink,
            );
        }
        let requirements = template
            .get("requirements")
            .map(Node::items)
            .unwrap_or_default();
        for (requirement, node) in requirements.iter().flat_map(Node::named) {
            unknown(
                node,
                REQUIREMENT,
                &format!("requirement `{requirement}` of `{name}`"),
                sink,
            );
        }
    }
}

/// The constraints of a declaration, and of its entries.
fn constraints(declared: &Node, sink: &mut Sink) {
    for constraint in declared
        .get("constraints")
        .map(Node::items)
        .unwrap_or_default()
    {
        for (key, bound) in constraint.entries() {
            let name = key.as_str().unwrap_or("~");
            let number = |node: &Node| node.as_str().and_then(float);
            let is_unsatisfiable = match (name, bound.items()) {
                ("valid_values", []) => bound.is_sequence(),
                ("in_range", [low, high]) => {
                    matches!((number(low), number(high)), (Some(low), Some(high)) if low > high)
                }
                ("in_range", _) => true,
                _ => false,
            };
            if is_unsatisfiable {
                let message = format!("no value satisfies this `{name}`");
                let finding = Finding::new(codes::CONSTRAINT, bound.span.clone(), message);
                sink.add(
                    finding.hint("write `in_range` as `[lower, upper]`, and `valid_values` with at least one value"),
                );
            }
        }
    }
    if let Some(entry) = declared.get("entry_schema") {
        constraints(entry, sink);
    }
}

fn inputs(topology: &Node, root: &Node, types: &Types<'_>, sink: &mut Sink) {
    let mut used = BTreeSet::new();
    // The substituted node's properties fill the inputs of the same name.
    if let Some(node_type) = topology.at(&["substitution_mappings", "node_type"]) {
        let declared = types.defaults(Kind::Node, node_type.as_str().unwrap_or_default());
        used.extend(declared.keys().map(|name| (*name).to_owned()));
    }
    calls(root, "get_input", &mut |argument| {
        used.extend(argument.as_str().map(ToOwned::to_owned));
    });
    for (key, _) in topology
        .get("inputs")
        .map(Node::entries)
        .unwrap_or_default()
    {
        let name = key.as_str().unwrap_or("~");
        if !used.contains(name) {
            let message = format!("input `{name}` is not used");
            let finding = Finding::new(codes::INPUT_UNUSED, key.span.clone(), message).about(name);
            sink.add(finding.hint("use it with `{get_input: …}`, or delete it"));
        }
    }
}

/// Passes the first argument of every call of a function to `act`.
fn calls(node: &Node, function: &str, act: &mut dyn FnMut(&Node)) {
    for (key, value) in node.entries() {
        if key.as_str() == Some(function) {
            act(value.items().first().unwrap_or(value));
        }
        calls(value, function, act);
    }
    for item in node.items() {
        calls(item, function, act);
    }
}

fn references(topology: &Node, node: &Node, sink: &mut Sink) {
    let known = templates(topology);
    for function in ["get_property", "get_attribute", "get_artifact"] {
        calls(node, function, &mut |argument| {
            let Some(text) = argument.as_str() else {
                return;
            };
            if !known.contains(&text) && !KEYWORDS.contains(&text) {
                let message = format!("`{function}` names `{text}`, which is not a node template");
                let finding = Finding::new(codes::REFERENCE, argument.span.clone(), message);
                sink.add(
                    finding
                        .calling(function)
                        .did_you_mean(text, known.iter().copied()),
                );
            }
        });
    }
}

fn templates(topology: &Node) -> Vec<&str> {
    topology
        .get("node_templates")
        .into_iter()
        .flat_map(Node::named)
        .map(|(name, _)| name)
        .collect()
}

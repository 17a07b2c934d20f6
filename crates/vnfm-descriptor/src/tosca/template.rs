//! Checks node templates and policies against their types: keys, properties, requirements, interfaces.

use super::check::{Check, Late};
use super::kind::Kind;
use super::tagged::{TARGETS_ELSEWHERE_KEY, VERSIONS_KEY};
use super::topology::{Group, Policy, Template, Topology};
use super::types::{Schema, Types, operations_in};
use crate::codes;
use crate::finding::Finding;
use crate::sink::Sink;
use crate::yaml::Node;

const KEYS: &[&str] = &[
    "type",
    "description",
    "metadata",
    "directives",
    "properties",
    "attributes",
    "requirements",
    "capabilities",
    "interfaces",
    "artifacts",
    "node_filter",
    "copy",
];

/// The type from which every VNF's type derives.
pub const VNF: &str = "tosca.nodes.nfv.VNF";

pub(super) fn check<'a>(topology: &Topology<'_>, types: &'a Types<'a>, sink: &mut Sink) {
    for template in &topology.templates {
        crate::shape::keys(
            &template.node,
            KEYS,
            &format!("node template `{}`", template.name),
            sink,
        );
        if template.kind.is_empty()
            || !template
                .node
                .get("type")
                .is_some_and(|kind| types.known(Kind::Node, kind, sink))
        {
            continue;
        }
        check_template(template, types, sink);
        check_requirements(template, topology, types, sink);
        check_interfaces(template, types, sink);
        check_artifacts(template, types, sink);
    }
    for group in &topology.groups {
        check_group(group, topology, types, sink);
    }
    for policy in &topology.policies {
        if !policy.kind.is_empty()
            && policy
                .node
                .get("type")
                .is_some_and(|kind| types.known(Kind::Policy, kind, sink))
        {
            check_policy(policy, topology, types, sink);
        }
    }
}

/// A VNF's properties may be spread over the files of its flavours, so missing ones are not reported here.
fn check_template<'a>(template: &Template, types: &'a Types<'a>, sink: &mut Sink) {
    let vnf = types.is_a(Kind::Node, &template.kind, VNF);
    let mut check = Check {
        types,
        sink,
        late: if vnf { Late::Accepted } else { Late::Refused },
        complete: !vnf,
    };
    let declared = types.declared(Kind::Node, &template.kind);
    check.properties(
        &template.name,
        &declared,
        template.node.get("properties"),
        &template.span,
    );
    let capabilities = types.section(Kind::Node, &template.kind, "capabilities");
    for (key, capability) in template
        .node
        .get("capabilities")
        .map(Node::entries)
        .unwrap_or_default()
    {
        let name = key.as_str().unwrap_or("~");
        let Some(declared) = capabilities.get(name).and_then(|nodes| nodes.first()) else {
            let finding = Finding::new(
                codes::KEY_UNKNOWN,
                key.span.clone(),
                format!("`{}` has no capability `{name}`", template.name),
            );
            check
                .sink
                .add(finding.did_you_mean(name, capabilities.keys().copied()));
            continue;
        };
        let what = format!("capability `{name}` of a `{}`", template.kind);
        types.warn_if_other_version(declared, &key.span, &what, check.sink);
        let kind = declared
            .as_str()
            .or_else(|| declared.get("type").and_then(Node::as_str))
            .unwrap_or_default();
        let path = format!("{}.{name}", template.name);
        check.properties(
            &path,
            &types.declared(Kind::Capability, kind),
            capability.get("properties"),
            &key.span,
        );
    }
}

fn check_requirements(
    template: &Template,
    topology: &Topology<'_>,
    types: &Types<'_>,
    sink: &mut Sink,
) {
    let Some(assigned) = template.node.get("requirements") else {
        return;
    };
    crate::shape::list(
        assigned,
        &format!("the requirements of `{}`", template.name),
        sink,
    );
    let declared = types.requirements(&template.kind);
    for (key, _) in assigned.items().iter().flat_map(Node::entries) {
        let name = key.as_str().unwrap_or("~");
        if let Some(node) = declared.get(name) {
            let what = format!("requirement `{name}` of a `{}`", template.kind);
            types.warn_if_other_version(node, &key.span, &what, sink);
        } else {
            let finding = Finding::new(
                codes::REQUIREMENT_UNKNOWN,
                key.span.clone(),
                format!("`{}` has no requirement `{name}`", template.name),
            );
            let finding = finding.about(&template.name);
            sink.add(finding.did_you_mean(name, declared.keys().copied()));
        }
    }
    for (name, target) in template
        .requirements()
        .filter(|(_, target)| !target.is_null())
    {
        let Some(text) = target.as_str() else {
            crate::shape::text(target, &format!("the target of `{name}`"), sink);
            continue;
        };
        let Some(found) = topology.template(text) else {
            let finding = Finding::new(
                codes::NODE_UNKNOWN,
                target.span.clone(),
                format!(
                    "`{}.{name}` names `{text}`, which is not a node template",
                    template.name
                ),
            );
            sink.add(finding.did_you_mean(text, topology.names()));
            continue;
        };
        let Some(required) = declared
            .get(name)
            .and_then(|node| node.get("capability").or(Some(node)))
            .and_then(Node::as_str)
        else {
            continue;
        };
        if !offers(types, &found.kind, required) {
            let message = format!(
                "`{}.{name}` names `{text}`, a `{}`, which does not offer `{required}`",
                template.name, found.kind
            );
            sink.add(Finding::new(codes::NODE_KIND, target.span.clone(), message));
        }
    }
}

/// Whether a node type has a capability of the type; true for unknown types, which are reported elsewhere.
pub(super) fn offers(types: &Types<'_>, node_type: &str, capability: &str) -> bool {
    if types.get(Kind::Node, node_type).is_none()
        || types.get(Kind::Capability, capability).is_none()
    {
        return true;
    }
    types
        .section(Kind::Node, node_type, "capabilities")
        .values()
        .any(|nodes| {
            let kind = nodes.iter().find_map(|node| {
                node.as_str()
                    .or_else(|| node.get("type").and_then(Node::as_str))
            });
            kind.is_some_and(|kind| types.is_a(Kind::Capability, kind, capability))
        })
}

fn check_interfaces<'a>(template: &Template, types: &'a Types<'a>, sink: &mut Sink) {
    for (key, interface) in template
        .node
        .get("interfaces")
        .map(Node::entries)
        .unwrap_or_default()
    {
        let name = key.as_str().unwrap_or("~");
        let Some(operations) = types.operations(&template.kind, name) else {
            let known = types.section(Kind::Node, &template.kind, "interfaces");
            let finding = Finding::new(
                codes::INTERFACE_UNKNOWN,
                key.span.clone(),
                format!("`{}` has no interface `{name}`", template.name),
            );
            sink.add(finding.did_you_mean(name, known.keys().copied()));
            continue;
        };
        if let Some(kind) = interface.get("type") {
            types.known(Kind::Interface, kind, sink);
        }
        let span = |operation: &str| {
            let keys = interface.entries().iter().chain(
                interface
                    .get("operations")
                    .map(Node::entries)
                    .unwrap_or_default(),
            );
            keys.map(|(key, _)| key)
                .find(|key| key.as_str() == Some(operation))
                .map_or_else(|| key.span.clone(), |key| key.span.clone())
        };
        for (operation, assigned) in operations_in(interface) {
            if let Some(declared) = operations.get(operation) {
                if let Some(node) = declared.first() {
                    let what = format!("operation `{operation}` of `{name}`");
                    types.warn_if_other_version(node, &span(operation), &what, sink);
                }
                let path = format!("{}.{operation}", template.name);
                check_inputs(&path, declared, assigned, types, sink);
            } else {
                let finding = Finding::new(
                    codes::OPERATION_UNKNOWN,
                    span(operation),
                    format!("interface `{name}` has no operation `{operation}`"),
                );
                sink.add(finding.did_you_mean(operation, operations.keys().copied()));
            }
        }
    }
}

/// Checks the inputs of an operation: values against their declared types, or declarations in place of values.
fn check_inputs<'a>(
    path: &str,
    declared: &[&'a Node],
    assigned: &Node,
    types: &'a Types<'a>,
    sink: &mut Sink,
) {
    let inputs = declared.iter().filter_map(|node| node.get("inputs"));
    let known: Vec<&str> = inputs.flat_map(Node::named).map(|(name, _)| name).collect();
    let implemented = assigned.get("implementation").is_some() || assigned.as_str().is_some();
    let given = assigned.get("inputs").map(Node::entries);
    for (key, value) in given.unwrap_or_default() {
        let name = key.as_str().unwrap_or("~");
        let is_declaration = value
            .get("type")
            .is_some_and(|kind| kind.as_str().is_some());
        let mut schemas = declared
            .iter()
            .filter_map(|node| node.at(&["inputs", name]));
        match schemas.next() {
            _ if is_declaration => types.check_schema(value, sink),
            Some(schema) => Check {
                types,
                sink,
                late: Late::Accepted,
                complete: true,
            }
            .value(value, &Schema::for_node(schema), &format!("{path}.{name}")),
            // The implementation gets them.
            None if implemented || known.is_empty() => {}
            None => {
                let message = format!("`{path}` declares no input `{name}`");
                let finding = Finding::new(codes::OPERATION_INPUT, key.span.clone(), message);
                sink.add(finding.did_you_mean(name, known.iter().copied()));
            }
        }
    }
}

fn check_artifacts<'a>(template: &Template, types: &'a Types<'a>, sink: &mut Sink) {
    for (key, artifact) in template
        .node
        .get("artifacts")
        .map(Node::entries)
        .unwrap_or_default()
    {
        let Some(kind) = artifact
            .get("type")
            .filter(|kind| types.known(Kind::Artifact, kind, sink))
        else {
            continue;
        };
        let image = types.is_a(
            Kind::Artifact,
            kind.as_str().unwrap_or_default(),
            "tosca.artifacts.nfv.SwImage",
        );
        // An image's properties may be given as `sw_image_data` of the node instead.
        let complete = !image || artifact.get("properties").is_some();
        let path = format!("{}.{}", template.name, key.as_str().unwrap_or("~"));
        let declared = types.declared(Kind::Artifact, kind.as_str().unwrap_or_default());
        Check {
            types,
            sink,
            late: Late::Refused,
            complete,
        }
        .properties(&path, &declared, artifact.get("properties"), &key.span);
    }
}

fn check_group<'a>(group: &Group, topology: &Topology<'_>, types: &'a Types<'a>, sink: &mut Sink) {
    let kind = group
        .node
        .get("type")
        .filter(|kind| types.known(Kind::Group, kind, sink));
    if let Some(kind) = kind.and_then(Node::as_str) {
        Check {
            types,
            sink,
            late: Late::Refused,
            complete: true,
        }
        .properties(
            &group.name,
            &types.declared(Kind::Group, kind),
            group.node.get("properties"),
            &group.span,
        );
    }
    for member in group
        .node
        .get("members")
        .map(Node::items)
        .unwrap_or_default()
    {
        let name = member.as_str().unwrap_or("~");
        if topology.template(name).is_none() {
            let message = format!(
                "group `{}` names `{name}`, which is not a node template",
                group.name
            );
            sink.add(
                Finding::new(codes::NODE_UNKNOWN, member.span.clone(), message)
                    .did_you_mean(name, topology.names()),
            );
        }
    }
}

fn check_policy<'a>(
    policy: &Policy,
    topology: &Topology<'_>,
    types: &'a Types<'a>,
    sink: &mut Sink,
) {
    let declared = types.declared(Kind::Policy, &policy.kind);
    Check {
        types,
        sink,
        late: if is_standard(policy, types) {
            Late::Refused
        } else {
            Late::Warned
        },
        complete: true,
    }
    .properties(
        &policy.name,
        &declared,
        policy.node.get("properties"),
        &policy.span,
    );
    let allowed = Targets::for_policy(types, &policy.kind);
    for target in policy.targets() {
        let name = target.as_str().unwrap_or("~");
        if topology.groups.iter().any(|group| group.name == name) {
            continue;
        }
        let Some(found) = topology.template(name) else {
            let finding = Finding::new(
                codes::NODE_UNKNOWN,
                target.span.clone(),
                format!(
                    "policy `{}` names `{name}`, which is not a node template",
                    policy.name
                ),
            );
            sink.add(finding.did_you_mean(name, topology.names()));
            continue;
        };
        match allowed.verdict(types, &found.kind) {
            Verdict::Allowed => {}
            Verdict::OtherVersion(versions) => {
                let what = format!("policy `{}` for a `{}`", policy.name, found.kind);
                types.other_version(versions, &target.span, &what, sink);
            }
            Verdict::Refused => {
                let message = format!(
                    "policy `{}` targets `{name}`, a `{}`, which it cannot apply to",
                    policy.name, found.kind
                );
                sink.add(
                    Finding::new(codes::NODE_KIND, target.span.clone(), message)
                        .hint(format!("it applies to {}", allowed.own.join(", "))),
                );
            }
        }
    }
}

/// Whether a policy's type is one of SOL001's, or derives from one. Nothing uses the properties of other policies.
fn is_standard(policy: &Policy, types: &Types<'_>) -> bool {
    let of_sol001 = |name: &str| name.starts_with("tosca.policies.nfv.");
    let ancestry = types.ancestry(Kind::Policy, &policy.kind);
    let parents = ancestry.iter().filter_map(|node| node.get("derived_from"));
    of_sol001(&policy.kind) || parents.filter_map(Node::as_str).any(of_sol001)
}

/// The node types that a policy type applies to.
struct Targets<'a> {
    /// In the package's version of SOL001; empty if it applies to all.
    own: Vec<&'a str>,
    /// In other versions, each with the versions as text.
    others: Vec<(&'a str, Vec<&'a str>)>,
}

/// Whether a policy applies to a node template.
enum Verdict<'a> {
    Allowed,
    /// Only in these versions of SOL001.
    OtherVersion(&'a str),
    Refused,
}

impl<'a> Targets<'a> {
    fn for_policy(types: &'a Types<'a>, policy_type: &str) -> Self {
        let ancestry = types.ancestry(Kind::Policy, policy_type);
        let names = |node: &'a Node| {
            let listed = node.get("targets").map(Node::items).unwrap_or_default();
            listed.iter().filter_map(Node::as_str).collect::<Vec<_>>()
        };
        let own = ancestry.iter().find(|node| node.get("targets").is_some());
        let others = ancestry
            .iter()
            .filter_map(|node| node.get(TARGETS_ELSEWHERE_KEY))
            .flat_map(Node::items);
        let version = |node: &'a Node| Some((node.get(VERSIONS_KEY)?.as_str()?, names(node)));
        Targets {
            own: own.map(|node| names(node)).unwrap_or_default(),
            others: others.filter_map(version).collect(),
        }
    }

    fn verdict(&self, types: &Types<'_>, kind: &str) -> Verdict<'a> {
        let among = |allowed: &[&str]| {
            let mut allowed = allowed.iter();
            allowed.any(|name| types.is_a(Kind::Node, kind, name))
        };
        let unknown = types.get(Kind::Node, kind).is_none();
        if unknown || self.own.is_empty() || among(&self.own) {
            return Verdict::Allowed;
        }
        let other = self.others.iter().find(|(_, allowed)| among(allowed));
        other.map_or(Verdict::Refused, |(versions, _)| {
            Verdict::OtherVersion(versions)
        })
    }
}

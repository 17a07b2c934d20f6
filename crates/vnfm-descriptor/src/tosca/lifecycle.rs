//! Reads the configuration of operations, monitoring, security group rules and package changes from a
//! VNF's properties and the topology's policies.

use super::builder::Builder;
use super::kind::Kind;
use super::topology::{Policy, Topology};
use super::units;
use crate::model::{
    ChangeSelector, ComponentMapping, Flavour, Indicator, LcmConfiguration, Monitored,
    MonitoringParameter, PackageChange, SecurityGroupRule, SupportedInterface,
};
use crate::yaml::Node;
use std::time::Duration;

/// Reads `lcm_operations_configuration` of a VNF.
pub(super) fn configuration(node: Option<&Node>) -> LcmConfiguration {
    let at = |path: [&str; 2]| node.and_then(|node| node.at(&path));
    let flag = |path| at(path).and_then(Node::as_bool).unwrap_or(false);
    let time = |path| at(path).and_then(duration);
    LcmConfiguration {
        target_scale_levels_supported: flag(["instantiate", "target_scale_levels_supported"]),
        // The type's default, false, is that of a `scale` without it. Where the VNFD says nothing about scaling, as those for
        // Tacker, several steps do what as many operations would.
        scaling_by_more_than_one_step_supported: node.and_then(|node| node.get("scale")).is_none()
            || flag(["scale", "scaling_by_more_than_one_step_supported"]),
        arbitrary_target_levels_supported: flag([
            "scale_to_level",
            "arbitrary_target_levels_supported",
        ]),
        heal_causes: at(["heal", "causes"]).map(Node::texts).unwrap_or_default(),
        min_graceful_termination_timeout: time(["terminate", "min_graceful_termination_timeout"]),
        max_recommended_graceful_termination_timeout: time([
            "terminate",
            "max_recommended_graceful_termination_timeout",
        ]),
        min_graceful_stop_timeout: time(["operate", "min_graceful_stop_timeout"]),
        max_recommended_graceful_stop_timeout: time([
            "operate",
            "max_recommended_graceful_stop_timeout",
        ]),
    }
}

/// Parses a time such as `30 s`.
pub(super) fn duration(node: &Node) -> Option<Duration> {
    Duration::try_from_secs_f64(units::seconds(node.as_str()?)?).ok()
}

/// Monitoring parameters: a mapping, or a list in versions before 3.5.1.
fn monitoring(node: Option<&Node>, monitored: &Monitored) -> Vec<MonitoringParameter> {
    let one = |id: Option<&str>, node: &Node| {
        let name = node.get("name").and_then(Node::as_str).or(id)?.to_owned();
        Some(MonitoringParameter {
            id: id.map_or_else(|| name.clone(), str::to_owned),
            name,
            performance_metric: node.get("performance_metric")?.as_str()?.to_owned(),
            collection_period: node.get("collection_period").and_then(duration),
            of: monitored.clone(),
        })
    };
    let Some(node) = node else { return Vec::new() };
    let listed = node.items().iter().filter_map(|node| one(None, node));
    listed
        .chain(node.named().filter_map(|(id, node)| one(Some(id), node)))
        .collect()
}

impl Builder<'_, '_> {
    /// Reads policies and monitoring parameters into the flavour; `vnf` are those of the VNF itself.
    pub(super) fn lifecycle(
        &mut self,
        topology: &Topology<'_>,
        vnf: Option<&Node>,
        flavour: &mut Flavour,
    ) {
        flavour.monitoring_parameters = monitoring(vnf, &Monitored::Vnf);
        for template in &topology.templates {
            let name = template.name.clone();
            let monitored = if flavour.vdus.contains_key(&name) {
                Monitored::Vdu(name)
            } else if flavour.virtual_links.contains_key(&name) {
                Monitored::VirtualLink(name)
            } else {
                continue;
            };
            let own = monitoring(template.property("monitoring_parameters"), &monitored);
            flavour.monitoring_parameters.extend(own);
        }
        for policy in &topology.policies {
            let is = |kind: &str| {
                let name = format!("tosca.policies.nfv.{kind}");
                self.types.is_a(Kind::Policy, &policy.kind, &name)
            };
            if is("SecurityGroupRule") {
                flavour
                    .security_group_rules
                    .push(self.security_group_rule(policy));
            } else if is("SupportedVnfInterface") {
                flavour.supported_interfaces.push(SupportedInterface {
                    interface: self.text(policy, "interface_name"),
                    details: policy.property("details").map(Node::to_json),
                    cps: names(policy.targets()),
                });
            } else if is("VnfIndicator") {
                let triggers = super::topology::listed(policy.node.get("triggers"));
                flavour.indicators.push(Indicator {
                    name: policy.name.clone(),
                    source: self.text(policy, "source"),
                    triggers: triggers
                        .into_iter()
                        .filter_map(|(name, _)| name.as_str().map(str::to_owned))
                        .collect(),
                });
            } else if is("VnfPackageChange") {
                flavour.package_changes.push(self.package_change(policy));
            }
        }
    }

    /// A property of a policy as text; empty if absent.
    fn text(&self, policy: &Policy, name: &str) -> String {
        self.property(policy, name)
            .and_then(Node::as_str)
            .unwrap_or_default()
            .to_owned()
    }

    /// A property of a policy, or the default of its type.
    fn property<'n>(&'n self, policy: &'n Policy, name: &str) -> Option<&'n Node> {
        let default = || {
            self.types
                .properties(Kind::Policy, &policy.kind)
                .remove(name)?
                .default
        };
        policy.property(name).or_else(default)
    }

    fn security_group_rule(&self, policy: &Policy) -> SecurityGroupRule {
        let port = |name: &str, default: u32| {
            let given = self.property(policy, name).and_then(Node::as_u32);
            given.unwrap_or(default)
        };
        SecurityGroupRule {
            name: policy.name.clone(),
            direction: self.text(policy, "direction"),
            ether_type: self.text(policy, "ether_type"),
            protocol: self.text(policy, "protocol"),
            port_range_min: port("port_range_min", 0),
            port_range_max: port("port_range_max", 65_535),
            targets: names(policy.targets()),
        }
    }

    fn package_change(&self, policy: &Policy) -> PackageChange {
        let field = |node: &Node, key: &str| {
            node.get(key)
                .and_then(Node::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        // Versions before 4.2.1 have one selector.
        let all = |name: &str| match policy.property(name) {
            Some(node) if node.is_sequence() => node.items(),
            Some(node) => std::slice::from_ref(node),
            None => &[],
        };
        let selector = |node: &Node| ChangeSelector {
            source_descriptor_id: field(node, "source_descriptor_id"),
            destination_descriptor_id: field(node, "destination_descriptor_id"),
            source_flavour_id: field(node, "source_flavour_id"),
        };
        let mapping = |node: &Node| ComponentMapping {
            component_type: field(node, "component_type"),
            source_id: field(node, "source_id"),
            destination_id: field(node, "destination_id"),
        };
        PackageChange {
            name: policy.name.clone(),
            selectors: all("selector").iter().map(selector).collect(),
            modification_qualifier: self.text(policy, "modification_qualifier"),
            destination_flavour_id: self.text(policy, "destination_flavour_id"),
            component_mappings: all("component_mappings").iter().map(mapping).collect(),
        }
    }
}

fn names(nodes: &[Node]) -> Vec<String> {
    nodes
        .iter()
        .filter_map(Node::as_str)
        .map(str::to_owned)
        .collect()
}

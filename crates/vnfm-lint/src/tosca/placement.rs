//! Affinity rules, targets of policies, security groups.

use super::rules::Rules;
use super::scaling::profile;
use crate::explain::codes;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_descriptor::Finding;
use vnfm_descriptor::raw::{Group, Kind, Node, Policy, Template};

impl Rules<'_, '_> {
    pub(super) fn placement(&mut self) {
        let mut seen: BTreeMap<(String, BTreeSet<String>), bool> = BTreeMap::new();
        for (kind, anti) in [("AffinityRule", false), ("AntiAffinityRule", true)] {
            for policy in self.policies(kind) {
                let members = self.members(policy);
                self.single_member(policy, &members);
                let scope = policy
                    .property("scope")
                    .and_then(Node::as_str)
                    .unwrap_or_default();
                let other = seen.insert((scope.to_owned(), members), anti);
                if other.is_some_and(|other| other != anti) {
                    let message = format!(
                        "rule `{}` separates the members that another rule keeps together",
                        policy.name
                    );
                    let finding = Finding::new(codes::AFFINITY_BOTH, policy.span.clone(), message);
                    self.sink.add(
                        finding.hint(format!("both rules have the scope `{scope}`; remove one")),
                    );
                }
            }
        }
        self.targets();
        self.ports();
    }

    /// The members of a rule, with groups expanded.
    fn members(&self, policy: &Policy) -> BTreeSet<String> {
        let names = policy.targets().iter().filter_map(Node::as_str);
        names
            .flat_map(|name| {
                let group = self.topology.groups.iter().find(|group| group.name == name);
                group.map_or_else(|| vec![name.to_owned()], Group::members)
            })
            .collect()
    }

    /// A rule with one member that has at most one instance has no effect.
    fn single_member(&mut self, policy: &Policy, members: &BTreeSet<String>) {
        let [only] = members.iter().collect::<Vec<_>>()[..] else {
            return;
        };
        let Some(template) = self.topology.template(only) else {
            return;
        };
        if self.max_instances(template) > 1 {
            return;
        }
        let message = format!(
            "rule `{}` has a single member, `{only}`, with a single instance",
            policy.name
        );
        self.sink.add(Finding::new(
            codes::AFFINITY_ONE,
            policy.span.clone(),
            message,
        ));
    }

    fn max_instances(&self, template: &Template) -> u32 {
        let vdu = self.vdus().iter().any(|vdu| vdu.name == template.name);
        if vdu {
            profile(template, "max_number_of_instances").unwrap_or(u32::MAX)
        } else {
            1
        }
    }

    fn targets(&mut self) {
        for policy in &self.topology.policies {
            let needs_targets = self
                .types
                .ancestry(Kind::Policy, &policy.kind)
                .into_iter()
                .any(|node| {
                    node.get("targets")
                        .is_some_and(|targets| !targets.items().is_empty())
                });
            if needs_targets && policy.targets().is_empty() {
                let message = format!("policy `{}` has no `targets`", policy.name);
                let finding = Finding::new(codes::POLICY_TARGETS, policy.span.clone(), message);
                self.sink
                    .add(finding.hint("without targets, the policy has no effect"));
            }
        }
    }

    fn ports(&mut self) {
        for policy in self.policies("Abstract.SecurityGroupRule") {
            let port = |key: &str| policy.property(key).and_then(Node::as_i64);
            let (low, high) = (port("port_range_min"), port("port_range_max"));
            if let (Some(low), Some(high)) = (low, high)
                && low > high
            {
                let message = format!(
                    "the port range of `{}` is reversed: {low} to {high}",
                    policy.name
                );
                let finding = Finding::new(codes::PORT_RANGE, policy.span.clone(), message);
                self.sink.add(finding.hint("write the lower port first"));
            }
        }
    }
}

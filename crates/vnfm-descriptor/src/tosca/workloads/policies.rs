//! Policies on workloads: autoscaling, affinity and anti-affinity.
//!
//! | policy | becomes |
//! |---|---|
//! | `tosca.policies.Scaling` with the properties that Tacker gave it | an autoscaler |
//! | `AffinityRule`, `AntiAffinityRule` of `nfvi_node`, `cis_node` or `zone` | a rule among pods |
//! | `AffinityRule` of `container_namespace` | nothing: all objects of an instance are in one namespace |

use super::super::builder::Builder;
use super::super::kind::Kind;
use super::super::topology::{Policy, Topology};
use crate::model::{Autoscaling, Flavour, PlacementRule, Vdu, Workload};
use crate::yaml::Node;

pub(super) const SCALING: &str = "tosca.policies.Scaling";
const SCALING_KEYS: [&str; 3] = [
    "min_instances",
    "max_instances",
    "target_cpu_utilization_percentage",
];

impl Builder<'_, '_> {
    /// Adds the policies that target workloads.
    pub(super) fn add_policies(
        &mut self,
        topology: &Topology<'_>,
        flavour: &Flavour,
        units: &mut [Workload],
    ) {
        for policy in &topology.policies {
            let is = |kind: &str| self.types.is_a(Kind::Policy, &policy.kind, kind);
            if is(SCALING) {
                self.autoscaler(policy, flavour, units);
            } else if is("tosca.policies.nfv.AffinityRule")
                || is("tosca.policies.nfv.AntiAffinityRule")
            {
                self.placement(policy, flavour, units);
            }
        }
    }

    fn autoscaler(&mut self, policy: &Policy<'_>, flavour: &Flavour, units: &mut [Workload]) {
        let Some(autoscaling) = self.autoscaling(policy) else {
            return;
        };
        for target in policy.targets() {
            let name = target.as_str().unwrap_or_default();
            if !flavour.vdus.contains_key(name) {
                let message = format!(
                    "policy `{}` scales `{name}`, which is not a deployable unit",
                    policy.name
                );
                let hint = "name a `Vdu.OsContainerDeployableUnit`";
                self.untranslatable(&target.span, message, hint);
                continue;
            }
            let Some(unit) = units.iter_mut().find(|unit| unit.vdu == name) else {
                continue; // reported
            };
            let problem = if unit.autoscaling.is_some() {
                "another policy scales it already"
            } else if !fits(flavour.vdus.get(name), autoscaling) {
                "its `vdu_profile` allows fewer or more instances"
            } else if !requests_cpu(unit, flavour) {
                "a container of it has no `requested_cpu_resources`, whose use is measured"
            } else {
                unit.autoscaling = Some(autoscaling);
                continue;
            };
            let message = format!("policy `{}` cannot scale `{name}`: {problem}", policy.name);
            self.untranslatable(&target.span, message, "correct one of the two");
        }
    }

    /// The three numbers of a scaling policy, and nothing else.
    fn autoscaling(&mut self, policy: &Policy<'_>) -> Option<Autoscaling> {
        let properties = policy.node.get("properties").map(Node::entries);
        for (key, _) in properties.unwrap_or_default() {
            let name = key.as_str().unwrap_or_default();
            if !SCALING_KEYS.contains(&name) {
                let message = format!(
                    "`{name}` of policy `{}` has no translation to Kubernetes",
                    policy.name
                );
                self.untranslatable(
                    &key.span,
                    message,
                    "an autoscaler follows `target_cpu_utilization_percentage`",
                );
            }
        }
        let number = |key: &str| {
            policy
                .property(key)
                .and_then(Node::as_u32)
                .filter(|number| *number > 0)
        };
        let [min, max, cpu] = SCALING_KEYS.map(number);
        let found = min.zip(max).zip(cpu).filter(|((min, max), _)| min <= max);
        let Some(((min_instances, max_instances), cpu_percent)) = found else {
            let message = format!(
                "policy `{}` does not say between which numbers it scales, and by which use",
                policy.name
            );
            let hint = format!("set `{}`, each at least 1", SCALING_KEYS.join("`, `"));
            self.untranslatable(&policy.span, message, &hint);
            return None;
        };
        Some(Autoscaling {
            min_instances,
            max_instances,
            cpu_percent,
        })
    }

    fn placement(&mut self, policy: &Policy<'_>, flavour: &Flavour, units: &mut [Workload]) {
        let mut rules = flavour.affinity_rules.iter();
        let Some(rule) = rules.find(|rule| rule.name == policy.name) else {
            return;
        };
        let by_zone = match (rule.scope.as_str(), rule.anti) {
            ("nfvi_node" | "cis_node", _) => false,
            ("zone", _) => true,
            ("container_namespace", false) => return,
            (scope, _) => {
                let message = format!(
                    "no label of nodes stands for the scope `{scope}` of policy `{}`",
                    policy.name
                );
                self.untranslatable(
                    &policy.span,
                    message,
                    "use `cis_node`, `nfvi_node` or `zone`",
                );
                return;
            }
        };
        let targets = || units.iter().filter(|unit| rule.targets.contains(&unit.vdu));
        let workloads: Vec<String> = targets().map(|unit| unit.name.clone()).collect();
        if rule
            .targets
            .iter()
            .any(|name| !flavour.vdus.contains_key(name))
        {
            let message = format!(
                "policy `{}` places something other than deployable units",
                policy.name
            );
            self.untranslatable(
                &policy.span,
                message,
                "name each `Vdu.OsContainerDeployableUnit`",
            );
            return;
        }
        let anti = rule.anti;
        let targets = units
            .iter_mut()
            .filter(|unit| rule.targets.contains(&unit.vdu));
        for unit in targets {
            let workloads = workloads.clone();
            unit.placement.push(PlacementRule {
                anti,
                by_zone,
                workloads,
            });
        }
    }
}

fn fits(vdu: Option<&Vdu>, autoscaling: Autoscaling) -> bool {
    let Some(vdu) = vdu else { return false };
    vdu.within_profile(autoscaling.min_instances).is_ok()
        && vdu.within_profile(autoscaling.max_instances).is_ok()
}

fn requests_cpu(unit: &Workload, flavour: &Flavour) -> bool {
    let mut containers = unit
        .containers
        .iter()
        .filter_map(|one| flavour.containers.get(&one.template));
    containers.all(|container| {
        container
            .requested_cpu_resources
            .or(container.cpu_resource_limit)
            .is_some()
    })
}

//! Reads scaling aspects, instantiation levels, initial deltas and placement rules, and
//! checks that they are consistent.

use super::builder::Builder;
use super::kind::Kind;
use super::topology::{Group, Policy, Topology};
use crate::codes;
use crate::finding::{Finding, Span};
use crate::model::{AffinityRule, Flavour, InstantiationLevel, LevelError, ScalingAspect, Vdu};
use crate::yaml::Node;
use std::collections::BTreeMap;

/// Maximum levels of a scaling aspect; bounds the time for counting instances.
const MAX_LEVELS: u32 = 10_000;

impl Builder<'_, '_> {
    /// Reads the policies of a topology into the flavour.
    pub(super) fn policies(&mut self, topology: &Topology<'_>, flavour: &mut Flavour) {
        let with_type = |kind: &str| -> Vec<&Policy> {
            let name = format!("tosca.policies.nfv.{kind}");
            topology
                .policies
                .iter()
                .filter(|policy| self.types.is_a(Kind::Policy, &policy.kind, &name))
                .collect()
        };
        let (aspects, deltas) = (
            with_type("ScalingAspects"),
            with_type("VduScalingAspectDeltas"),
        );
        let (levels, counts, initial) = (
            with_type("InstantiationLevels"),
            with_type("VduInstantiationLevels"),
            with_type("VduInitialDelta"),
        );
        let (near, apart) = (with_type("AffinityRule"), with_type("AntiAffinityRule"));
        for policy in aspects {
            self.aspects(policy, flavour);
        }
        for policy in deltas {
            self.deltas(policy, flavour);
        }
        for policy in initial {
            flavour.initial_deltas.extend(initial_deltas(policy));
        }
        for policy in levels {
            self.levels(policy, flavour);
        }
        for policy in counts {
            self.counts(policy, flavour);
        }
        if flavour.default_level.is_none() && flavour.instantiation_levels.len() == 1 {
            flavour.default_level = flavour.instantiation_levels.keys().next().cloned();
        }
        let near = near
            .into_iter()
            .map(|policy| affinity_rule(topology, policy, false));
        let apart = apart
            .into_iter()
            .map(|policy| affinity_rule(topology, policy, true));
        flavour.affinity_rules.extend(near.chain(apart));
        self.check_counts(topology, flavour);
        self.check_resource_limit(topology, flavour);
    }

    fn aspects(&mut self, policy: &Policy, flavour: &mut Flavour) {
        for (name, node) in policy.property("aspects").into_iter().flat_map(Node::named) {
            let max = node
                .get("max_scale_level")
                .and_then(Node::as_u32)
                .unwrap_or(0);
            if max > MAX_LEVELS {
                let message = format!(
                    "scaling aspect `{name}` has {max} levels, more than the {MAX_LEVELS} that are supported"
                );
                self.sink
                    .add(Finding::new(codes::POLICY, node.span.clone(), message));
            }
            let text = |key: &str| {
                node.get(key)
                    .and_then(Node::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let aspect = ScalingAspect {
                name: text("name"),
                description: text("description"),
                max_scale_level: max.min(MAX_LEVELS),
                step_deltas: node.get("step_deltas").map(Node::texts).unwrap_or_default(),
                deltas: BTreeMap::new(),
            };
            flavour.scaling_aspects.insert(name.to_owned(), aspect);
        }
    }

    fn deltas(&mut self, policy: &Policy, flavour: &mut Flavour) {
        let Some(named) = policy.property("aspect") else {
            return;
        };
        let name = named.as_str().unwrap_or("~");
        if !flavour.scaling_aspects.contains_key(name) {
            return self.unknown_aspect(named, flavour);
        }
        let Some(aspect) = flavour.scaling_aspects.get_mut(name) else {
            return;
        };
        let deltas = policy.property("deltas").into_iter().flat_map(Node::named);
        let deltas: BTreeMap<String, u32> = deltas
            .filter_map(|(delta, node)| {
                Some((delta.to_owned(), node.get("number_of_instances")?.as_u32()?))
            })
            .collect();
        for step in aspect
            .step_deltas
            .iter()
            .filter(|step| !deltas.contains_key(*step))
        {
            let message = format!(
                "scaling aspect `{name}` has a step `{step}` for which policy `{}` has no delta",
                policy.name
            );
            let finding = Finding::new(codes::LEVEL_PROFILE, policy.span.clone(), message);
            self.sink
                .add(finding.hint("a request that takes this step is refused"));
        }
        for target in policy.targets().iter().filter_map(Node::as_str) {
            aspect
                .deltas
                .entry(target.to_owned())
                .or_default()
                .extend(deltas.clone());
        }
    }

    /// Warns of a scaling aspect that no policy declares; what is reported about it has no effect.
    fn unknown_aspect(&mut self, named: &Node, flavour: &Flavour) {
        let name = named.as_str().unwrap_or("~");
        let message = format!("scaling aspect `{name}` is not declared");
        let finding = Finding::new(codes::ASPECT_UNKNOWN, named.span.clone(), message);
        let known = flavour.scaling_aspects.keys().map(String::as_str);
        self.sink.add(finding.did_you_mean(name, known));
    }

    fn levels(&mut self, policy: &Policy, flavour: &mut Flavour) {
        for (name, node) in policy.property("levels").into_iter().flat_map(Node::named) {
            let mut scale_info = BTreeMap::new();
            for (key, info) in node
                .get("scale_info")
                .map(Node::entries)
                .unwrap_or_default()
            {
                let aspect = key.as_str().unwrap_or("~");
                if !flavour.scaling_aspects.contains_key(aspect) {
                    self.unknown_aspect(key, flavour);
                    continue;
                }
                scale_info.extend(
                    info.get("scale_level")
                        .and_then(Node::as_u32)
                        .map(|level| (aspect.to_owned(), level)),
                );
            }
            let description = node
                .get("description")
                .and_then(Node::as_str)
                .unwrap_or_default()
                .to_owned();
            let level = InstantiationLevel {
                description,
                scale_info,
                number_of_instances: BTreeMap::new(),
            };
            flavour.instantiation_levels.insert(name.to_owned(), level);
        }
        if let Some(named) = policy.property("default_level") {
            let name = named.as_str().unwrap_or("~");
            if !flavour.instantiation_levels.contains_key(name) {
                let finding = Finding::new(
                    codes::POLICY,
                    named.span.clone(),
                    format!("instantiation level `{name}` is not declared"),
                );
                self.sink.add(finding.did_you_mean(
                    name,
                    flavour.instantiation_levels.keys().map(String::as_str),
                ));
                return;
            }
            flavour.default_level = Some(name.to_owned());
        }
    }

    fn counts(&mut self, policy: &Policy, flavour: &mut Flavour) {
        for (key, node) in policy
            .property("levels")
            .map(Node::entries)
            .unwrap_or_default()
        {
            let name = key.as_str().unwrap_or("~");
            let Some(level) = flavour.instantiation_levels.get_mut(name) else {
                let finding = Finding::new(
                    codes::POLICY,
                    key.span.clone(),
                    format!("instantiation level `{name}` is not declared"),
                );
                self.sink.add(finding.did_you_mean(
                    name,
                    flavour.instantiation_levels.keys().map(String::as_str),
                ));
                continue;
            };
            let Some(count) = node.get("number_of_instances").and_then(Node::as_u32) else {
                continue;
            };
            for target in policy.targets().iter().filter_map(Node::as_str) {
                level.number_of_instances.insert(target.to_owned(), count);
            }
        }
    }

    /// Stated and computed numbers of instances are equal and within the VDU's profile. At an instantiation level, anything
    /// else is a warning, since requests for other levels succeed; one for this level is refused (`Flavour::instances_of`).
    fn check_counts(&mut self, topology: &Topology<'_>, flavour: &Flavour) {
        let levels: Vec<Option<&str>> = match flavour.instantiation_levels.len() {
            0 => vec![None],
            _ => flavour
                .instantiation_levels
                .keys()
                .map(|level| Some(level.as_str()))
                .collect(),
        };
        // The scale levels are the same for each VDU.
        let levels: Vec<_> = levels
            .into_iter()
            .map(|level| (level, flavour.scale_levels(level)))
            .collect();
        for vdu in flavour.vdus.values() {
            let span = topology
                .template(&vdu.name)
                .map_or_else(|| topology.span.clone(), |template| template.span.clone());
            for (level, scale) in &levels {
                let counted = scale.as_ref().map_err(LevelError::clone);
                let counted = counted.and_then(|scale| flavour.instances_at(&vdu.name, scale));
                self.check_count((*level, counted), vdu, flavour, &span);
            }
        }
    }

    /// The same for one VDU at one level; `computed` follows from the initial delta and the steps.
    fn check_count(
        &mut self,
        (level, computed): (Option<&str>, Result<u32, LevelError>),
        vdu: &Vdu,
        flavour: &Flavour,
        span: &Span,
    ) {
        let mut report = |code, message: String, hint: &str| {
            let finding = Finding::new(code, span.clone(), message);
            self.sink.add(finding.hint(hint));
        };
        let stated = level.and_then(|level| flavour.stated_instances(&vdu.name, level));
        if let (Some(level), Some(stated), Ok(computed)) = (level, stated, &computed)
            && stated != *computed
        {
            let message = format!(
                "VDU `{}` has {stated} instances at level `{level}`, but its initial delta and steps give {computed}",
                vdu.name
            );
            report(codes::LEVEL_DIFFERS, message, "the stated number is used");
        }
        if let Err(error) = flavour.instances_of(&vdu.name, level) {
            let hint = "change `vdu_profile`, or the levels and deltas";
            match level {
                Some(level) => {
                    report(
                        codes::LEVEL_PROFILE,
                        format!("at level `{level}`, {error}"),
                        hint,
                    );
                }
                None => report(codes::POLICY, error.to_string(), hint),
            }
        }
    }
}

impl Builder<'_, '_> {
    /// An instance is within the limit on resources at every level. This only counts; it creates nothing.
    fn check_resource_limit(&mut self, topology: &Topology<'_>, flavour: &Flavour) {
        let max = self.limits.resources;
        let mut levels: Vec<Option<&str>> = flavour
            .instantiation_levels
            .keys()
            .map(|level| Some(level.as_str()))
            .collect();
        if levels.is_empty() {
            levels.push(None);
        }
        let mut counted: Vec<(String, u64)> = Vec::new();
        for level in levels {
            let at = level.map_or_else(String::new, |level| format!(" at level `{level}`"));
            // Numbers that cannot be computed are already reported.
            counted.extend(flavour.resources_of(level).ok().map(|count| (at, count)));
        }
        let highest = " at the highest level of its scaling aspects".to_owned();
        counted.extend(flavour.max_resources().ok().map(|count| (highest, count)));
        let Some((at, count)) = counted.into_iter().find(|(_, count)| *count > max) else {
            return;
        };
        let vdu = flavour
            .vdus
            .values()
            .max_by_key(|vdu| flavour.max_instances(&vdu.name));
        let template = vdu.and_then(|vdu| topology.template(&vdu.name));
        let span = template.map_or_else(|| topology.span.clone(), |found| found.span.clone());
        let message = format!(
            "an instance of flavour `{}` would have {count} resources{at}, more than {max}",
            flavour.id
        );
        let finding = Finding::new(codes::RESOURCES, span, message);
        self.sink.add(finding.hint(
            "reduce the number of instances, or raise `limits.resources` in the server's configuration",
        ));
    }
}

fn initial_deltas(policy: &Policy) -> impl Iterator<Item = (String, u32)> {
    let count = policy
        .property("initial_delta")
        .and_then(|delta| delta.get("number_of_instances"))
        .and_then(Node::as_u32);
    let targets = policy.targets().iter().filter_map(Node::as_str);
    targets.filter_map(move |target| Some((target.to_owned(), count?)))
}

fn affinity_rule(topology: &Topology<'_>, policy: &Policy, anti: bool) -> AffinityRule {
    let scope = policy.property("scope").and_then(Node::as_str);
    AffinityRule {
        name: policy.name.clone(),
        anti,
        scope: scope.unwrap_or_default().to_owned(),
        targets: policy
            .targets()
            .iter()
            .filter_map(Node::as_str)
            .flat_map(|target| members(topology, target))
            .collect(),
    }
}

/// The target, or its members if it is a group.
fn members(topology: &Topology<'_>, target: &str) -> Vec<String> {
    let group = topology.groups.iter().find(|group| group.name == target);
    group.map_or_else(|| vec![target.to_owned()], Group::members)
}

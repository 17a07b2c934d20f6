//! Scaling aspects, deltas and instantiation levels: numbers that are missing, unused or out of range.
//! Contradictions are errors, which `policies.rs` reports.

use super::rules::Rules;
use crate::explain::codes;
use std::collections::BTreeSet;
use vnfm_descriptor::Finding;
use vnfm_descriptor::raw::{Node, Policy, Template};

/// A scaling aspect as declared.
struct Aspect<'a> {
    name: &'a str,
    key: &'a Node,
    max: u32,
    steps: Vec<String>,
}

impl Aspect<'_> {
    /// The delta of a step, counted from 1; a single delta repeats.
    fn step(&self, step: u32) -> Option<&str> {
        let index = if self.steps.len() == 1 {
            0
        } else {
            step as usize - 1
        };
        self.steps.get(index).map(String::as_str)
    }
}

/// Steps that are counted; `policies.rs` reports more as an error.
const MAX_STEPS: u32 = 10_000;

impl<'a> Rules<'a, '_> {
    pub(super) fn scaling(&mut self) {
        let aspects = self.aspects();
        for aspect in &aspects {
            self.steps(aspect);
            self.deltas(aspect);
        }
        self.ranges(&aspects);
        self.levels();
        self.initial();
    }

    fn aspects(&self) -> Vec<Aspect<'a>> {
        let entries = self
            .policies("ScalingAspects")
            .into_iter()
            .flat_map(|policy| {
                policy
                    .property("aspects")
                    .map(Node::entries)
                    .unwrap_or_default()
            });
        entries
            .filter_map(|(key, node)| {
                Some(Aspect {
                    name: key.as_str()?,
                    key,
                    max: node
                        .get("max_scale_level")
                        .and_then(Node::as_u32)
                        .unwrap_or(0)
                        .min(MAX_STEPS),
                    steps: node.get("step_deltas").map(Node::texts).unwrap_or_default(),
                })
            })
            .collect()
    }

    fn steps(&mut self, aspect: &Aspect<'_>) {
        let (name, max, steps) = (aspect.name, aspect.max, aspect.steps.len());
        let message = match steps {
            0 if max > 0 => format!("aspect `{name}` has {max} levels but no `step_deltas`"),
            0 | 1 => return,
            _ if steps == max as usize => return,
            _ => format!("aspect `{name}` has {max} levels but {steps} `step_deltas`"),
        };
        let finding =
            Finding::new(codes::ASPECT_STEPS, aspect.key.span.clone(), message).about(name);
        self.sink
            .add(finding.hint("write a single delta, which repeats, or one for each level"));
    }

    fn deltas(&mut self, aspect: &Aspect<'_>) {
        let mut scaled = false;
        let others = [
            "VirtualLinkBitrateScalingAspectDeltas",
            "VipCpScalingAspectDeltas",
        ];
        for policy in others.iter().flat_map(|kind| self.policies(kind)) {
            scaled |= policy.property("aspect").and_then(Node::as_str) == Some(aspect.name);
        }
        for policy in self.policies("VduScalingAspectDeltas") {
            if policy.property("aspect").and_then(Node::as_str) != Some(aspect.name) {
                continue;
            }
            scaled |= !policy.targets().is_empty();
            for (key, delta) in policy
                .property("deltas")
                .map(Node::entries)
                .unwrap_or_default()
            {
                let name = key.as_str().unwrap_or("~");
                if !aspect.steps.iter().any(|step| step == name) {
                    let message = format!("aspect `{}` has no step `{name}`", aspect.name);
                    let finding = Finding::new(codes::DELTA_UNUSED, key.span.clone(), message)
                        .about(aspect.name);
                    self.sink
                        .add(finding.did_you_mean(name, aspect.steps.iter().map(String::as_str)));
                } else if delta.get("number_of_instances").and_then(Node::as_u32) == Some(0) {
                    let message = format!(
                        "step `{name}` of aspect `{}` adds no instances",
                        aspect.name
                    );
                    self.report(codes::DELTA_ZERO, key, message);
                }
            }
        }
        if !scaled {
            let message = format!("aspect `{}` scales no VDU", aspect.name);
            let finding = Finding::new(codes::ASPECT_DELTAS, aspect.key.span.clone(), message)
                .about(aspect.name);
            self.sink.add(
                finding.hint("add a policy `VduScalingAspectDeltas` that states what a step adds"),
            );
        }
    }

    /// At the highest level of an aspect, each VDU's number of instances is within its profile.
    fn ranges(&mut self, aspects: &[Aspect<'_>]) {
        for vdu in self.vdus() {
            let Some(max) = profile(vdu, "max_number_of_instances") else {
                continue;
            };
            let initial = self
                .initial_of(vdu)
                .or(profile(vdu, "min_number_of_instances"));
            for aspect in aspects {
                let added: u32 = self.added(aspect, vdu);
                let count = initial.unwrap_or(1).saturating_add(added);
                if added > 0 && count > max {
                    let message = format!(
                        "at level {} of aspect `{}`, VDU `{}` has {count} instances, more than the {max} that its profile allows",
                        aspect.max, aspect.name, vdu.name
                    );
                    self.report(codes::SCALE_RANGE, aspect.key, message);
                }
            }
        }
    }

    /// The instances that an aspect adds to a VDU at its highest level.
    fn added(&self, aspect: &Aspect<'_>, vdu: &Template) -> u32 {
        let mut added = 0_u32;
        for policy in self.policies("VduScalingAspectDeltas") {
            let ours = policy.property("aspect").and_then(Node::as_str) == Some(aspect.name);
            if !ours
                || !policy
                    .targets()
                    .iter()
                    .any(|target| target.as_str() == Some(&vdu.name))
            {
                continue;
            }
            for step in 1..=aspect.max {
                let delta = aspect
                    .step(step)
                    .and_then(|delta| policy.property("deltas")?.get(delta));
                let count = delta
                    .and_then(|delta| delta.get("number_of_instances"))
                    .and_then(Node::as_u32);
                added = added.saturating_add(count.unwrap_or(0));
            }
        }
        added
    }

    fn initial_of(&self, vdu: &Template) -> Option<u32> {
        let policies = self.policies("VduInitialDelta");
        let ours = policies.into_iter().find(|policy| {
            policy
                .targets()
                .iter()
                .any(|target| target.as_str() == Some(&vdu.name))
        })?;
        ours.property("initial_delta")?
            .get("number_of_instances")
            .and_then(Node::as_u32)
    }

    /// One level is the default, and a VDU that is counted at one level is counted at all.
    fn levels(&mut self) {
        let mut declared: BTreeSet<&str> = BTreeSet::new();
        for policy in self.policies("InstantiationLevels") {
            let levels = policy
                .property("levels")
                .map(Node::entries)
                .unwrap_or_default();
            if levels.len() > 1 && policy.property("default_level").is_none() {
                let message = format!(
                    "policy `{}` has {} levels but no default",
                    policy.name,
                    levels.len()
                );
                let finding = Finding::new(codes::LEVEL_DEFAULT, policy.span.clone(), message)
                    .about(&policy.name);
                self.sink.add(
                    finding.hint("set `default_level`, the level for requests that name none"),
                );
            }
            declared.extend(levels.iter().filter_map(|(key, _)| key.as_str()));
        }
        for vdu in self.vdus() {
            let counted = self.counted(vdu);
            let Some(first) = counted.first().map(|(policy, _)| *policy) else {
                continue;
            };
            let missing: Vec<&str> = declared
                .iter()
                .filter(|level| !counted.iter().any(|(_, counted)| counted == *level))
                .copied()
                .collect();
            if !missing.is_empty() {
                let message = format!(
                    "VDU `{}` has no number of instances at level `{}`",
                    vdu.name,
                    missing.join("`, `")
                );
                self.sink.add(Finding::new(
                    codes::LEVEL_COUNT,
                    first.span.clone(),
                    message,
                ));
            }
        }
    }

    /// The levels at which a VDU is counted, each with its policy.
    fn counted(&self, vdu: &Template) -> Vec<(&'a Policy<'a>, &'a str)> {
        let of_vdu = self
            .policies("VduInstantiationLevels")
            .into_iter()
            .filter(|policy| {
                policy
                    .targets()
                    .iter()
                    .any(|target| target.as_str() == Some(&vdu.name))
            });
        of_vdu
            .flat_map(|policy| {
                let levels = policy.property("levels").into_iter().flat_map(Node::named);
                levels.map(move |(level, _)| (policy, level))
            })
            .collect()
    }

    fn initial(&mut self) {
        for vdu in self.vdus() {
            let (min, max) = (
                profile(vdu, "min_number_of_instances"),
                profile(vdu, "max_number_of_instances"),
            );
            if self.initial_of(vdu).is_none() && self.counted(vdu).is_empty() && min != max {
                let count = min.unwrap_or(1);
                let message = format!(
                    "VDU `{}` has no initial delta; {count} is assumed",
                    vdu.name
                );
                let finding =
                    Finding::new(codes::VDU_INITIAL, vdu.span.clone(), message).about(&vdu.name);
                self.sink.add(finding.hint(
                    "add a policy `VduInitialDelta` that states the initial number of instances",
                ));
            }
        }
    }
}

/// A number of a VDU's profile.
pub(super) fn profile(vdu: &Template, key: &str) -> Option<u32> {
    vdu.property("vdu_profile")?.get(key).and_then(Node::as_u32)
}

//! A deployment flavour: its resources, their number of instances, and its hooks.
//!
//! The number of VNFCs of a VDU at a level is `initial + Σ aspects Σ steps delta(step)`; one
//! entry in `step_deltas` repeats for every step ([`Flavour::instances_at`]).

use super::compute::{Container, Mciop};
use super::lifecycle::{
    Indicator, LcmConfiguration, MonitoringParameter, PackageChange, SecurityGroupRule,
    SupportedInterface,
};
use super::resources::{Cp, ExternalCp, Storage, SwImage, Vdu, VirtualLink};
use super::seconds::seconds;
use super::workload::Workloads;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// A deployment flavour of a VNF.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Flavour {
    /// `flavour_id`, unique in the package.
    pub id: String,
    /// `flavour_description`, for people; empty if absent.
    pub description: String,
    /// The file that describes it, for error messages.
    pub file: String,
    /// VDUs by the name of their node template.
    pub vdus: BTreeMap<String, Vdu>,
    /// Connection points by the name of their node template.
    pub cps: BTreeMap<String, Cp>,
    /// Connection points that the request binds, in the order of the file.
    pub external_cps: Vec<ExternalCp>,
    /// Internal virtual links by the name of their node template.
    pub virtual_links: BTreeMap<String, VirtualLink>,
    /// Storages by the name of their node template.
    pub storages: BTreeMap<String, Storage>,
    /// Scaling aspects by their key in `ScalingAspects`.
    pub scaling_aspects: BTreeMap<String, ScalingAspect>,
    /// Instantiation levels by their key in `InstantiationLevels`.
    pub instantiation_levels: BTreeMap<String, InstantiationLevel>,
    /// The level for requests that name none.
    pub default_level: Option<String>,
    /// Initial number of instances by VDU (`VduInitialDelta`).
    pub initial_deltas: BTreeMap<String, u32>,
    /// Affinity and anti-affinity rules, from policies.
    pub affinity_rules: Vec<AffinityRule>,
    /// The operations of `Vnflcm` that the descriptor implements, in the order of the file.
    pub hooks: Vec<Hook>,
    /// JSON Schemas of `additionalParams` by operation, if the descriptor declares a data type for it.
    pub additional_params: BTreeMap<String, Value>,
    /// `modifiable_attributes`: the extensions and metadata that the VNF's type declares, and their defaults.
    pub modifiable_attributes: Option<Value>,
    /// JSON Schemas of `extensions`, `metadata` and `vnfConfigurableProperties`, as far as
    /// the VNF's type declares them.
    pub modifiable_types: BTreeMap<String, Value>,
    /// `lcm_operations_configuration` as the descriptor has it.
    pub lcm_operations_configuration: Option<Value>,
    /// `lcm_operations_configuration`, parsed into typed values.
    pub lcm: LcmConfiguration,
    /// Monitoring parameters of the VNF, its VDUs and its links.
    pub monitoring_parameters: Vec<MonitoringParameter>,
    /// VNF indicators, from `VnfIndicator` policies.
    pub indicators: Vec<Indicator>,
    /// Rules that permit traffic, from `SecurityGroupRule` policies.
    pub security_group_rules: Vec<SecurityGroupRule>,
    /// Interfaces that the VNF provides.
    pub supported_interfaces: Vec<SupportedInterface>,
    /// Supported changes to other packages.
    pub package_changes: Vec<PackageChange>,
    /// Containers of the deployable units by name.
    pub containers: BTreeMap<String, Container>,
    /// Mciops (packages such as Helm charts) by name.
    pub mciops: BTreeMap<String, Mciop>,
    /// What is deployed if the package has only the descriptor: no manifest, chart or Mciop, and no server in the flavour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workloads: Option<Workloads>,
}

/// A scaling aspect and its deltas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ScalingAspect {
    /// Name of the aspect, for people.
    pub name: String,
    /// Description of the aspect, for people.
    pub description: String,
    /// Highest scale level, at most 10 000.
    pub max_scale_level: u32,
    /// The delta's name for each step; a single entry repeats.
    pub step_deltas: Vec<String>,
    /// By VDU and delta: the instances that it adds.
    pub deltas: BTreeMap<String, BTreeMap<String, u32>>,
}

/// An instantiation level of a flavour.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct InstantiationLevel {
    /// Description of the level, for people.
    pub description: String,
    /// Scale level of each aspect.
    pub scale_info: BTreeMap<String, u32>,
    /// Number of instances by VDU, from the `VduInstantiationLevels` policies.
    pub number_of_instances: BTreeMap<String, u32>,
}

/// An affinity or anti-affinity rule.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AffinityRule {
    /// Name of the policy in the descriptor.
    pub name: String,
    /// Whether it is an anti-affinity rule.
    pub anti: bool,
    /// `nfvi_node`, `zone`, `zone_group`, `nfvi_pop`, …, by the version of SOL001.
    pub scope: String,
    /// Names of VDUs or links.
    pub targets: Vec<String>,
}

/// An operation of `Vnflcm` that the descriptor implements.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Hook {
    /// `instantiate_end`, …, or a base operation such as `heal`.
    pub operation: String,
    /// The implementation's name in the descriptor; the configuration may map it to a plugin.
    pub implementation: String,
    /// The artifact of that name, if there is one.
    pub artifact: Option<Artifact>,
    /// `inputs` of the assignment, with functions evaluated.
    pub inputs: Value,
    /// `implementation.timeout`, serialized in seconds; absent if the descriptor sets none.
    #[serde(
        rename = "timeoutSeconds",
        serialize_with = "seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub timeout: Option<Duration>,
}

impl Hook {
    /// Whether operations call it. Packages for Tacker also name hooks of a rollback, such as `scale_rollback_start`, which are
    /// never called: a rollback undoes the steps.
    pub fn is_called(&self) -> bool {
        let of_rollback = ["_rollback_start", "_rollback_end"];
        !of_rollback.iter().any(|end| self.operation.ends_with(end))
    }
}

/// A TOSCA artifact of the VNF's node template.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Artifact {
    /// Name in the node template.
    pub name: String,
    /// Type of the artifact, such as `tosca.artifacts.Implementation.SharedLibrary`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Normalised path in the package; absent if the package does not contain the file.
    pub file: Option<String>,
    /// `properties`, such as `plugin: kubernetes-cluster`.
    pub properties: BTreeMap<String, Value>,
    /// `description` of the artifact, for people.
    pub description: Option<String>,
}

impl Artifact {
    /// The installed plugin that `properties.plugin` names.
    pub fn plugin(&self) -> Option<&str> {
        self.properties.get("plugin").and_then(Value::as_str)
    }

    /// The path of the script in the package, if the artifact is one.
    pub fn script(&self) -> Option<&str> {
        self.file
            .as_deref()
            .filter(|_| SCRIPTS.contains(&self.kind.as_str()))
    }
}

/// The types of artifacts that are scripts.
const SCRIPTS: [&str; 3] = [
    "tosca.artifacts.Implementation.Bash",
    "tosca.artifacts.Implementation.Python",
    "tosca.artifacts.Implementation.Ansible",
];

/// Why a number of instances cannot be computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum LevelError {
    /// The flavour has no such VDU.
    #[error("flavour `{flavour}` has no VDU `{vdu}`")]
    Vdu {
        /// The flavour's identifier, for the message.
        flavour: String,
        /// The VDU that was requested.
        vdu: String,
    },
    /// The flavour has no such instantiation level.
    #[error("flavour `{flavour}` has no instantiation level `{level}`, only {known}")]
    Level {
        /// The flavour's identifier, for the message.
        flavour: String,
        /// The level that was requested.
        level: String,
        /// The levels that exist, for the message.
        known: String,
    },
    /// The flavour has no such scaling aspect.
    #[error("flavour `{flavour}` has no scaling aspect `{aspect}`, {known}")]
    Aspect {
        /// The flavour's identifier, for the message.
        flavour: String,
        /// The scaling aspect that was requested.
        aspect: String,
        /// The aspects that exist, for the message.
        known: String,
    },
    /// The level is above the aspect's highest.
    #[error("the highest level of scaling aspect `{aspect}` is {max}, not {level}")]
    TooHigh {
        /// The scaling aspect of the request.
        aspect: String,
        /// The level that was requested.
        level: u32,
        /// The highest level that the aspect has.
        max: u32,
    },
    /// The VDU would have more or fewer instances than its profile allows.
    #[error("VDU `{vdu}` would have {count} instances; its profile allows {min} to {max}")]
    Profile {
        /// The VDU whose profile would be violated.
        vdu: String,
        /// The resulting number of instances.
        count: u32,
        /// `min_number_of_instances` in the VDU's `vdu_profile`.
        min: u32,
        /// `max_number_of_instances` in the VDU's `vdu_profile`.
        max: u32,
    },
    /// The descriptor lacks the delta of a step.
    #[error(
        "scaling aspect `{aspect}` does not state how many instances step {step} adds to VDU `{vdu}`"
    )]
    Delta {
        /// The scaling aspect of the step.
        aspect: String,
        /// The VDU whose delta is missing.
        vdu: String,
        /// The step, counted from 1.
        step: u32,
    },
}

impl Flavour {
    /// The hook for an operation such as `instantiate_end`.
    pub fn hook(&self, operation: &str) -> Option<&Hook> {
        self.hooks.iter().find(|hook| hook.operation == operation)
    }

    /// Every operation of `Vnflcm` that the descriptor implements.
    pub fn hooks(&self) -> &[Hook] {
        &self.hooks
    }

    /// The JSON Schema of an operation's `additionalParams`, if the descriptor declares one.
    pub fn additional_params_schema(&self, operation: &str) -> Option<&Value> {
        self.additional_params.get(operation)
    }

    /// Whether a VDU can ever have more than one VNFC.
    pub fn may_grow(&self, vdu: &Vdu) -> bool {
        let has_deltas = |aspect: &ScalingAspect| aspect.deltas.contains_key(&vdu.name);
        vdu.max_number_of_instances.is_some_and(|most| most > 1)
            || self.scaling_aspects.values().any(has_deltas)
    }

    /// A VDU's interfaces, in their order.
    pub fn cps_of(&self, vdu: &str) -> Vec<&Cp> {
        let mut cps: Vec<&Cp> = self
            .cps
            .values()
            .filter(|cp| cp.kind == super::CpKind::VduCp && cp.vdu.as_deref() == Some(vdu))
            .collect();
        cps.sort_by(|a, b| (a.order, &a.name).cmp(&(b.order, &b.name)));
        cps
    }

    /// Every image with the name of the VDU or storage that uses it (`vnfdSoftwareImageId`).
    pub fn images(&self) -> impl Iterator<Item = (&str, &SwImage)> {
        let vdus = self
            .vdus
            .values()
            .filter_map(|vdu| Some((vdu.name.as_str(), vdu.image.as_ref()?)));
        let storages = self
            .storages
            .values()
            .filter_map(|storage| Some((storage.name.as_str(), storage.image.as_ref()?)));
        vdus.chain(storages)
    }

    /// The scale level of each aspect at an instantiation level (none: the default one).
    ///
    /// # Errors
    /// The level does not exist.
    pub fn scale_levels(&self, level: Option<&str>) -> Result<BTreeMap<String, u32>, LevelError> {
        let chosen = self.level(level)?;
        let at = |aspect: &String| {
            chosen
                .and_then(|level| level.scale_info.get(aspect))
                .copied()
                .unwrap_or(0)
        };
        Ok(self
            .scaling_aspects
            .keys()
            .map(|aspect| (aspect.clone(), at(aspect)))
            .collect())
    }

    /// How many VNFCs a VDU has at an instantiation level (none: the default one).
    ///
    /// # Errors
    /// The VDU or the level does not exist, a scaling aspect does not say what a step adds, or the VDU's profile does
    /// not allow this number.
    pub fn instances_of(&self, vdu: &str, level: Option<&str>) -> Result<u32, LevelError> {
        let stated = self
            .level(level)?
            .and_then(|level| level.number_of_instances.get(vdu));
        let computed = self.instances_at(vdu, &self.scale_levels(level)?);
        let count = match (stated, computed) {
            (Some(stated), Ok(_) | Err(LevelError::Delta { .. })) => *stated,
            (_, computed) => computed?,
        };
        self.vdus[vdu].within_profile(count)
    }

    /// How many VNFCs of a VDU an instantiation level states, whatever the scaling aspects say.
    pub(crate) fn stated_instances(&self, vdu: &str, level: &str) -> Option<u32> {
        let level = self.instantiation_levels.get(level)?;
        level.number_of_instances.get(vdu).copied()
    }

    /// The number of VNFCs of a VDU at the given scale levels; aspects not in `levels` are at 0.
    ///
    /// # Errors
    /// The VDU or an aspect does not exist, a level is too high, or an aspect lacks the delta of a step.
    pub fn instances_at(
        &self,
        vdu: &str,
        levels: &BTreeMap<String, u32>,
    ) -> Result<u32, LevelError> {
        let Some(unit) = self.vdus.get(vdu) else {
            return Err(LevelError::Vdu {
                flavour: self.id.clone(),
                vdu: vdu.to_owned(),
            });
        };
        let mut count = self
            .initial_deltas
            .get(vdu)
            .copied()
            .or(unit.min_number_of_instances)
            .unwrap_or(1);
        for (name, &level) in levels {
            let Some(aspect) = self.scaling_aspects.get(name) else {
                return Err(self.unknown_aspect(name));
            };
            if level > aspect.max_scale_level {
                return Err(LevelError::TooHigh {
                    aspect: name.clone(),
                    level,
                    max: aspect.max_scale_level,
                });
            }
            let Some(deltas) = aspect.deltas.get(vdu) else {
                continue;
            };
            let delta = |step: u32| {
                let missing = || LevelError::Delta {
                    aspect: name.clone(),
                    vdu: vdu.to_owned(),
                    step,
                };
                let delta = aspect.step_delta(step).and_then(|delta| deltas.get(delta));
                delta.copied().ok_or_else(missing)
            };
            if level > 0 && aspect.step_deltas.len() == 1 {
                count = count.saturating_add(delta(1)?.saturating_mul(level));
                continue;
            }
            for step in 1..=level {
                count = count.saturating_add(delta(step)?);
            }
        }
        Ok(count)
    }

    /// The number of resources of an instance at an instantiation level (`None`:
    /// the default one); see [`Flavour::resources`].
    ///
    /// # Errors
    /// The level does not exist, or a scaling aspect lacks the delta of a step.
    pub fn resources_of(&self, level: Option<&str>) -> Result<u64, LevelError> {
        let counted = self
            .vdus
            .keys()
            .map(|vdu| Ok((vdu.as_str(), self.instances_of(vdu, level)?)));
        Ok(self.resources(counted.collect::<Result<Vec<_>, LevelError>>()?))
    }

    /// The number of resources of an instance at the highest level of every scaling aspect.
    ///
    /// # Errors
    /// A scaling aspect lacks the delta of a step.
    pub fn max_resources(&self) -> Result<u64, LevelError> {
        let highest = self.scaling_aspects.iter();
        let highest = highest.map(|(name, aspect)| (name.clone(), aspect.max_scale_level));
        let counted = self.all_instances_at(&highest.collect())?;
        Ok(self.resources(counted.iter().map(|(vdu, count)| (vdu.as_str(), *count))))
    }

    /// The largest number of VNFCs that a VDU has at any level.
    pub(crate) fn max_instances(&self, vdu: &str) -> u32 {
        let named = self
            .instantiation_levels
            .keys()
            .map(|level| self.instances_of(vdu, Some(level)));
        let highest = self.scaling_aspects.iter();
        let highest = highest.map(|(name, aspect)| (name.clone(), aspect.max_scale_level));
        let at_highest = self.instances_at(vdu, &highest.collect());
        named
            .chain([at_highest])
            .filter_map(Result::ok)
            .max()
            .unwrap_or_default()
    }

    /// The number of resources for these numbers of VNFCs: VNFCs, each with its volumes and ports, and links.
    pub fn resources<'a>(&self, counted: impl IntoIterator<Item = (&'a str, u32)>) -> u64 {
        let of_vdu = |(vdu, count): (&str, u32)| {
            let storages = self.vdus.get(vdu).map_or(0, |vdu| vdu.storages.len());
            let each = 1 + storages + self.cps_of(vdu).len();
            u64::from(count).saturating_mul(each as u64)
        };
        let vnfcs = counted.into_iter().map(of_vdu).fold(0, u64::saturating_add);
        vnfcs.saturating_add(self.virtual_links.len() as u64)
    }

    fn level(&self, name: Option<&str>) -> Result<Option<&InstantiationLevel>, LevelError> {
        let Some(name) = name.or(self.default_level.as_deref()) else {
            return Ok(None);
        };
        match self.instantiation_levels.get(name) {
            Some(level) => Ok(Some(level)),
            None => Err(LevelError::Level {
                flavour: self.id.clone(),
                level: name.to_owned(),
                known: self.known_levels(),
            }),
        }
    }

    /// The error for an aspect that the flavour does not have.
    pub(super) fn unknown_aspect(&self, aspect: &str) -> LevelError {
        let names = self.scaling_aspects.keys();
        let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
        let known = if names.is_empty() {
            "and no other: it cannot be scaled".to_owned()
        } else {
            format!("only {}", names.join(", "))
        };
        LevelError::Aspect {
            flavour: self.id.clone(),
            aspect: aspect.to_owned(),
            known,
        }
    }

    fn known_levels(&self) -> String {
        if self.instantiation_levels.is_empty() {
            return "the default one".to_owned();
        }
        let names: Vec<String> = self
            .instantiation_levels
            .keys()
            .map(|name| format!("`{name}`"))
            .collect();
        names.join(", ")
    }
}

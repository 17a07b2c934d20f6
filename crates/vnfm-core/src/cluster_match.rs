//! Compares what an ASD requires of its cluster (`enhancedClusterCapabilities`) with what a cluster offers.
//!
//! | requirement | met if |
//! |---|---|
//! | minimum kernel version | a node's version is not lower, compared number by number |
//! | required kernel module | a node has loaded it |
//! | conflicting kernel module | a node has not loaded it |
//! | custom resource | the cluster serves the kind, in that `apiVersion` if one is named |
//! | label `key=value`, or `key` | a node has it |
//! | label that is no key, such as `Boston` | it is the value of a node's label |
//! | plugin | the cluster has what the plugin brings: an API, a `CSIDriver`, a storage class, an extended resource |
//!
//! Only nodes that take pods count. One node is enough, since a chart can select its nodes: the outcome names them. A
//! cluster without such a node may get one from an autoscaler, so what it offers is unknown.

use crate::ports::{ClusterCapabilities, NodeCapabilities, Observed};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;
use vnfm_descriptor::{
    ClusterCapabilities as Required, ClusterLabel, RequiredPlugin, RequiredResource,
};

/// The label by which node feature discovery can announce a loaded module; its name follows.
const MODULE_LABEL: &str = "feature.node.kubernetes.io/kernel-loadedmodule.";
/// How many nodes a sentence names.
const MAX_NAMED: usize = 5;

/// The kinds by which plugins are recognized: parts of the plugin's name in lower case, API group, kind.
const PLUGIN_KINDS: &[(&[&str], &str, &str)] = &[
    (
        &["multus", "multus-cni"],
        "k8s.cni.cncf.io",
        "NetworkAttachmentDefinition",
    ),
    (&["kubevirt"], "kubevirt.io", "VirtualMachine"),
    (
        &["volume-snapshots", "snapshot-controller", "csi-snapshotter"],
        "snapshot.storage.k8s.io",
        "VolumeSnapshot",
    ),
];

/// How much a requirement matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum RequirementLevel {
    /// Without it nothing is deployed.
    Mandatory,
    /// Without it the VNF is deployed all the same.
    Preferred,
}

/// Whether a cluster meets a requirement.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Verdict {
    /// The cluster offers what the package requires.
    Met,
    /// The cluster certainly lacks it.
    NotMet,
    /// It cannot be told, for the reason that is given.
    Unknown,
}

/// One requirement, and what the cluster has of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RequirementOutcome {
    /// The requirement, such as ``kernel module `sctp` ``.
    pub requirement: String,
    /// Whether it is mandatory or preferred.
    pub level: RequirementLevel,
    /// Whether it is met.
    pub verdict: Verdict,
    /// What was found, or why it is unknown.
    pub found: String,
    /// The nodes that meet it; empty if it does not concern nodes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
}

impl RequirementOutcome {
    /// Whether it prevents a deployment.
    pub fn prevents(&self) -> bool {
        self.level == RequirementLevel::Mandatory && self.verdict == Verdict::NotMet
    }
}

impl fmt::Display for RequirementOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Met => "met",
            Verdict::NotMet => "not met",
            Verdict::Unknown => "unknown",
        };
        let level = match self.level {
            RequirementLevel::Mandatory => "required",
            RequirementLevel::Preferred => "preferred",
        };
        write!(f, "{level} {}: {verdict}: {}", self.requirement, self.found)
    }
}

/// The outcome of each requirement, in the order of the descriptor's attributes.
pub fn match_cluster(
    required: &Required,
    offered: &ClusterCapabilities,
) -> Vec<RequirementOutcome> {
    let mut outcomes = Vec::new();
    if let Some(least) = &required.min_kernel_version {
        outcomes.push(kernel_version(least, offered));
    }
    let modules = required.required_kernel_modules.iter();
    outcomes.extend(modules.map(|module| kernel_module(module, true, offered)));
    let modules = required.conflicting_kernel_modules.iter();
    outcomes.extend(modules.map(|module| kernel_module(module, false, offered)));
    let resources = required.required_custom_resources.iter();
    outcomes.extend(resources.map(|resource| custom_resource(resource, offered)));
    let labels = required.cluster_labels.iter();
    outcomes.extend(labels.map(|label| cluster_label(label, offered)));
    let plugins = required.required_plugins.iter();
    outcomes.extend(plugins.map(|one| plugin(one, offered)));
    outcomes
}

pub(crate) fn mandatory(
    requirement: String,
    (verdict, found): (Verdict, String),
) -> RequirementOutcome {
    RequirementOutcome {
        requirement,
        level: RequirementLevel::Mandatory,
        verdict,
        found,
        nodes: Vec::new(),
    }
}

/// The outcome of a requirement on nodes. `meets`: `None` if it is unknown of a node; `has`: what a node has of it.
pub(crate) fn on_nodes(
    requirement: String,
    offered: &ClusterCapabilities,
    meets: impl Fn(&NodeCapabilities) -> Option<bool>,
    has: impl Fn(&NodeCapabilities) -> String,
) -> RequirementOutcome {
    let nodes = match &offered.nodes {
        Observed::Unknown { unknown } => {
            return mandatory(requirement, (Verdict::Unknown, unknown.clone()));
        }
        Observed::Known(nodes) => nodes,
    };
    let nodes: Vec<&NodeCapabilities> = nodes.iter().filter(|node| node.schedulable).collect();
    if nodes.is_empty() {
        let found = "the cluster has no node that takes pods now".to_owned();
        return mandatory(requirement, (Verdict::Unknown, found));
    }
    let verdicts: Vec<Option<bool>> = nodes.iter().map(|node| meets(node)).collect();
    let decided = nodes.iter().zip(&verdicts);
    let meeting: Vec<String> = decided
        .filter(|(_, verdict)| **verdict == Some(true))
        .map(|(node, _)| node.name.clone())
        .collect();
    let outcome = if meeting.is_empty() {
        let found: BTreeSet<String> = nodes.iter().map(|node| has(node)).collect();
        let found = named(&found.into_iter().collect::<Vec<_>>());
        let is_open = verdicts.contains(&None);
        let verdict = if is_open {
            Verdict::Unknown
        } else {
            Verdict::NotMet
        };
        (verdict, found)
    } else {
        let (met, all) = (meeting.len(), nodes.len());
        let found = format!("on {met} of {all} nodes: {}", named(&meeting));
        (Verdict::Met, found)
    };
    RequirementOutcome {
        nodes: meeting,
        ..mandatory(requirement, outcome)
    }
}

/// The first texts of a list, and how many there are besides.
fn named(texts: &[String]) -> String {
    let first = texts.iter().take(MAX_NAMED).cloned().collect::<Vec<_>>();
    let first = first.join(", ");
    match texts.len().saturating_sub(MAX_NAMED) {
        0 => first,
        more => format!("{first} and {more} more"),
    }
}

fn kernel_version(least: &str, offered: &ClusterCapabilities) -> RequirementOutcome {
    let requirement = format!("kernel version {least} or newer");
    let Some(required) = version_numbers(least) else {
        let found = format!("`{least}` does not begin with numbers, so it cannot be compared");
        return mandatory(requirement, (Verdict::Unknown, found));
    };
    let meets = |node: &NodeCapabilities| Some(version_numbers(&node.kernel_version)? >= required);
    on_nodes(requirement, offered, meets, |node| {
        match &*node.kernel_version {
            "" => "a node that reports no kernel version".to_owned(),
            version => format!("kernel {version}"),
        }
    })
}

/// The numbers at the start of a version, without zeros at their end: `5.10.0-28-amd64` is 5, 10.
fn version_numbers(text: &str) -> Option<Vec<u64>> {
    let text = text.trim().trim_start_matches(['v', 'V']);
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let numeric = &text[..end.unwrap_or(text.len())];
    let parts = numeric.split('.').filter(|part| !part.is_empty());
    let mut numbers = parts
        .map(|part| part.parse().ok())
        .collect::<Option<Vec<u64>>>()?;
    if numbers.is_empty() {
        return None;
    }
    while numbers.last() == Some(&0) {
        numbers.pop();
    }
    Some(numbers)
}

/// `loaded`: whether the module must be loaded, or must not.
fn kernel_module(module: &str, loaded: bool, offered: &ClusterCapabilities) -> RequirementOutcome {
    let absence = if loaded { "" } else { "absence of the " };
    let requirement = format!("{absence}kernel module `{module}`");
    let meets = |node: &NodeCapabilities| Some(has_module(node, module)? == loaded);
    on_nodes(requirement, offered, meets, |node| {
        match has_module(node, module) {
            Some(true) => "it is loaded".to_owned(),
            Some(false) => "it is not loaded".to_owned(),
            None => "nodes whose modules are unknown: node feature discovery reports none of them"
                .to_owned(),
        }
    })
}

/// Whether a node has loaded a module. The kernel treats `-` and `_` in names of modules as equal.
fn has_module(node: &NodeCapabilities, module: &str) -> Option<bool> {
    let plain = |name: &str| name.replace('-', "_");
    let module = plain(module.trim());
    let label = node.labels.iter().find(|(name, _)| {
        name.strip_prefix(MODULE_LABEL)
            .is_some_and(|name| plain(name) == module)
    });
    if let Some((_, value)) = label {
        return Some(value != "false");
    }
    let modules = node.kernel_modules.as_ref()?;
    Some(modules.iter().any(|name| plain(name) == module))
}

fn custom_resource(
    resource: &RequiredResource,
    offered: &ClusterCapabilities,
) -> RequirementOutcome {
    let kind = resource.kind.trim();
    let version = resource.api_version.as_deref();
    let requirement = match version {
        Some(version) => format!("custom resource `{kind}` of `{version}`"),
        None => format!("custom resource `{kind}`"),
    };
    if kind.is_empty() || !kind.chars().all(|c| c.is_ascii_alphanumeric()) {
        let found = "this is a description and no kind, so it cannot be compared".to_owned();
        return mandatory(requirement, (Verdict::Unknown, found));
    }
    mandatory(
        requirement,
        served(
            kind,
            |group, known| match version {
                None => true,
                Some(version) if version.contains('/') => format!("{group}/{known}") == version,
                Some(version) => known == version,
            },
            offered,
        ),
    )
}

/// Whether a kind is served in a group and version that `is_wanted` accepts.
fn served(
    kind: &str,
    is_wanted: impl Fn(&str, &str) -> bool,
    offered: &ClusterCapabilities,
) -> (Verdict, String) {
    let apis = match &offered.apis {
        Observed::Unknown { unknown } => return (Verdict::Unknown, unknown.clone()),
        Observed::Known(apis) => apis,
    };
    let of_kind: Vec<(&str, &str)> = apis
        .iter()
        .filter_map(|api| api.strip_suffix(kind)?.strip_suffix('/'))
        .map(|group_version| {
            group_version
                .rsplit_once('/')
                .unwrap_or(("", group_version))
        })
        .collect();
    let wanted: Vec<(&str, &str)> = of_kind
        .iter()
        .copied()
        .filter(|(group, version)| is_wanted(group, version))
        .collect();
    if !wanted.is_empty() {
        return (
            Verdict::Met,
            format!("served in {}", group_versions(&wanted)),
        );
    }
    let found = if of_kind.is_empty() {
        format!("the cluster does not serve the kind `{kind}`")
    } else {
        let served = group_versions(&of_kind);
        format!("the cluster serves the kind `{kind}` only in {served}")
    };
    (Verdict::NotMet, found)
}

fn group_versions(all: &[(&str, &str)]) -> String {
    let text = |(group, version): &(&str, &str)| match *group {
        "" => (*version).to_owned(),
        group => format!("{group}/{version}"),
    };
    named(&all.iter().map(text).collect::<Vec<_>>())
}

fn cluster_label(label: &ClusterLabel, offered: &ClusterCapabilities) -> RequirementOutcome {
    let text = label.label.trim();
    let meets = |node: &NodeCapabilities| {
        let mut labels = node.labels.iter();
        Some(match text.split_once('=') {
            Some((key, value)) => node
                .labels
                .get(key.trim())
                .is_some_and(|found| found == value.trim()),
            None => labels.any(|(key, value)| (key == text && value != "false") || value == text),
        })
    };
    let outcome = on_nodes(format!("label `{text}`"), offered, meets, |node| {
        let key = text.split_once('=').map_or(text, |(key, _)| key.trim());
        match node.labels.get(key) {
            Some(value) => format!("a node with `{key}={value}`"),
            None => "nodes without it".to_owned(),
        }
    });
    let level = if label.mandatory {
        RequirementLevel::Mandatory
    } else {
        RequirementLevel::Preferred
    };
    RequirementOutcome { level, ..outcome }
}

fn plugin(plugin: &RequiredPlugin, offered: &ClusterCapabilities) -> RequirementOutcome {
    let requirement = match &plugin.version {
        Some(version) => format!("plugin `{}` {version}", plugin.name),
        None => format!("plugin `{}`", plugin.name),
    };
    let (verdict, found) = plugin_found(plugin.name.trim(), offered);
    let outcome = match (verdict, &plugin.version) {
        (Verdict::Met, Some(_)) => (
            Verdict::Unknown,
            format!("{found}; the version of the plugin cannot be read"),
        ),
        _ => (verdict, found),
    };
    mandatory(requirement, outcome)
}

pub(crate) fn plugin_found(name: &str, offered: &ClusterCapabilities) -> (Verdict, String) {
    let lower = name.to_ascii_lowercase();
    let known = PLUGIN_KINDS
        .iter()
        .find(|(names, _, _)| names.contains(&&*lower));
    if let Some((_, group, kind)) = known {
        return served(kind, |served, _| served == *group, offered);
    }
    for (what, names) in [
        ("CSI driver", &offered.csi_drivers),
        ("storage class", &offered.storage_classes),
    ] {
        if matches!(names, Observed::Known(names) if names.contains(name)) {
            return (Verdict::Met, format!("the {what} `{name}`"));
        }
    }
    if let Observed::Known(nodes) = &offered.nodes
        && nodes.iter().any(|node| {
            node.allocatable
                .get(name)
                .is_some_and(|amount| amount != "0")
        })
    {
        return (Verdict::Met, format!("the extended resource `{name}`"));
    }
    let found = "no API, CSI driver, storage class or extended resource is known by this name";
    (Verdict::Unknown, found.to_owned())
}

#[cfg(test)]
#[path = "cluster_match_tests.rs"]
mod tests;

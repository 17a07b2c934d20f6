//! Reads an ASD's requirements on the cluster.

use super::Reader;
use super::fields::{entries, field, text};
use crate::model::{ClusterCapabilities, ClusterLabel, RequiredPlugin, RequiredResource};
use crate::yaml::Node;

impl Reader<'_, '_> {
    pub(super) fn capabilities(&mut self, node: &Node) -> ClusterCapabilities {
        const KNOWN: &[&str] = &[
            "id",
            "minKernelVersion",
            "requiredKernelModules",
            "requiredKernelModule",
            "conflictingKernelModules",
            "conflictingKernelModule",
            "requiredCustomResources",
            "requiredCustomResource",
            "requiredCRDs",
            "clusterLabels",
            "clusterLabel",
            "requiredPlugin",
            "secondaryInterfacePlugin",
        ];
        let node = node.items().first().unwrap_or(node);
        self.unknown(node, KNOWN, "`enhancedClusterCapabilities`");
        let all = |names: &[&str]| field(node, names).map(entries).unwrap_or_default();
        let names = |names: &[&str]| field(node, names).map(Node::texts).unwrap_or_default();
        let resource = |node: &Node| RequiredResource {
            kind: text(node, &["kind"])
                .or_else(|| node.as_str().map(str::to_owned))
                .unwrap_or_default(),
            api_version: text(node, &["apiVersion"]),
        };
        ClusterCapabilities {
            min_kernel_version: text(node, &["minKernelVersion"]),
            required_kernel_modules: names(&["requiredKernelModules", "requiredKernelModule"]),
            conflicting_kernel_modules: names(&[
                "conflictingKernelModules",
                "conflictingKernelModule",
            ]),
            required_custom_resources: all(&[
                "requiredCustomResources",
                "requiredCustomResource",
                "requiredCRDs",
            ])
            .into_iter()
            .map(resource)
            .collect(),
            cluster_labels: names(&["clusterLabels", "clusterLabel"])
                .iter()
                .map(|label| cluster_label(label))
                .collect(),
            required_plugins: all(&["requiredPlugin", "secondaryInterfacePlugin"])
                .into_iter()
                .map(plugin)
                .collect(),
        }
    }
}

/// Parses a label: `Boston -m` is mandatory, `Boston -p` preferred.
fn cluster_label(text: &str) -> ClusterLabel {
    let text = text.trim();
    let (label, mandatory) = match (text.strip_suffix(" -p"), text.strip_suffix(" -m")) {
        (Some(label), _) => (label, false),
        (None, Some(label)) => (label, true),
        (None, None) => (text, true),
    };
    ClusterLabel {
        label: label.trim_end().to_owned(),
        mandatory,
    }
}

/// Parses a plugin: `{name, version}`, `{requiredPluginName, …}` or `Multus-CNI, v3.8`.
fn plugin(node: &Node) -> RequiredPlugin {
    if let Some(text) = node.as_str() {
        let (name, version) = match text.split_once(',') {
            Some((name, version)) => (name, Some(version.trim().to_owned())),
            None => (text, None),
        };
        return RequiredPlugin {
            name: name.trim().to_owned(),
            version,
        };
    }
    RequiredPlugin {
        name: text(node, &["name", "requiredPluginName"]).unwrap_or_default(),
        version: text(node, &["version", "requiredPluginVersion"]),
    }
}

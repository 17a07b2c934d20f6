//! An application service descriptor: what is deployed, in which order, and on what kind of cluster.
//!
//! The names are O-RAN's; the drafts before it say the same in other words, and [`AsdDialect`] tells
//! which a package speaks. A package with an ASD has one flavour, without VDUs.

use serde::Serialize;
use std::collections::BTreeMap;

/// The spelling of an ASD.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AsdDialect {
    /// The proposal's information elements: `asdSchemaVersion`, `deploymentItems`.
    Draft,
    /// What packages in the field write: `descriptor_id`, `application_name`.
    Field,
    /// O-RAN v02.00: `tosca.nodes.asd.Asd`, `asdInvariantId`.
    ORan,
}

/// An application service descriptor.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Asd {
    /// How it is spelt.
    pub dialect: AsdDialect,
    /// Its identifier.
    pub asd_id: String,
    /// What stays the same from version to version.
    pub asd_invariant_id: Option<String>,
    /// Its version.
    pub asd_version: Option<String>,
    /// The version of the ASD's schema.
    pub asd_schema_version: Option<String>,
    /// Who makes the application.
    pub asd_provider: String,
    /// What the application is called.
    pub asd_application_name: String,
    /// The application's version.
    pub asd_application_version: String,
    /// A longer name for people.
    pub asd_application_info_name: Option<String>,
    /// A description for people.
    pub asd_info_description: Option<String>,
    /// Connection points that are seen from outside.
    pub asd_ext_cpd: Vec<AsdExtCpd>,
    /// What the cluster must have.
    pub enhanced_cluster_capabilities: Option<ClusterCapabilities>,
    /// What is deployed.
    pub deployment_items: Vec<DeploymentItem>,
    /// Container images that the package brings.
    pub images: Vec<OciImage>,
}

impl Asd {
    /// The items by stage: a stage begins when the one before it is ready.
    pub fn stages(&self) -> Vec<Vec<&DeploymentItem>> {
        let mut stages: BTreeMap<u32, Vec<&DeploymentItem>> = BTreeMap::new();
        for item in &self.deployment_items {
            stages.entry(item.deployment_order).or_default().push(item);
        }
        stages.into_values().collect()
    }
}

/// Something that is deployed, such as a Helm chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeploymentItem {
    /// Its identifier in the ASD.
    pub deployment_item_id: String,
    /// The artifact's name, or what refers to it.
    pub artifact: String,
    /// `helm_chart`, `helmfile`, `crd`, `terraform`, or `kubernetes_manifest`, which is ours.
    pub artifact_type: String,
    /// The file in the package.
    pub file: String,
    /// The stage; what has none is in stage 0.
    pub deployment_order: u32,
    /// Values that may be set when it is deployed.
    pub lifecycle_parameters: Vec<String>,
}

impl DeploymentItem {
    /// Whether it is deployed as it is: a YAML file of Kubernetes objects.
    pub fn is_manifest(&self) -> bool {
        matches!(self.artifact_type.as_str(), "crd" | "kubernetes_manifest")
            && crate::path::has_extension(&self.file, &["yaml", "yml"])
    }
}

/// A connection point that is seen from outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AsdExtCpd {
    /// Its identifier, where the dialect has one.
    pub id: Option<String>,
    /// What it offers.
    pub description: Option<String>,
    /// The kind of network that it belongs to, such as `endUser`.
    pub virtual_link_requirement: Vec<String>,
    /// Order among a pod's secondary interfaces.
    pub interface_order: Option<u32>,
    /// What it asks of its interface, by O-RAN's names.
    pub network_interface_requirements: BTreeMap<String, Vec<String>>,
    /// Which values of a chart take its addresses and attachments, by O-RAN's names.
    pub input_param_mappings: BTreeMap<String, Vec<String>>,
    /// The object that it is, such as a Service.
    pub resource_mapping: Option<String>,
}

/// What a cluster must have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClusterCapabilities {
    /// The least kernel, as `uname -r` writes it.
    pub min_kernel_version: Option<String>,
    /// Modules that must be loaded.
    pub required_kernel_modules: Vec<String>,
    /// Modules that must not be loaded.
    pub conflicting_kernel_modules: Vec<String>,
    /// Kinds of objects that must be known.
    pub required_custom_resources: Vec<RequiredResource>,
    /// Labels of a fitting cluster.
    pub cluster_labels: Vec<ClusterLabel>,
    /// Plugins that must be installed.
    pub required_plugins: Vec<RequiredPlugin>,
}

/// A kind of object that a cluster must know.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RequiredResource {
    /// The kind, or a text that says it.
    pub kind: String,
    /// The version of its API.
    pub api_version: Option<String>,
}

/// A label of a fitting cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClusterLabel {
    /// The label.
    pub label: String,
    /// Whether a cluster without it is out of question (`-m`, and where nothing is said) or only
    /// less liked (`-p`).
    pub mandatory: bool,
}

/// A plugin that a cluster must have.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RequiredPlugin {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: Option<String>,
}

/// A container image in OCI layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OciImage {
    /// The folder of the layout in the package.
    pub layout: String,
    /// The `name` annotation: the tag that it gets.
    pub name: String,
}

//! An application service descriptor: the deployment items, their order, and the required cluster.
//!
//! The names are O-RAN's; earlier drafts use others, and [`AsdDialect`] is the one of the package. A package
//! with an ASD has one flavour, without VDUs.

use serde::Serialize;
use std::collections::BTreeMap;

/// The dialect of an ASD: which names it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AsdDialect {
    /// The proposal's information elements: `asdSchemaVersion`, `deploymentItems`.
    Draft,
    /// The names of packages in the field: `descriptor_id`, `application_name`.
    Field,
    /// The names of O-RAN v02.00: `tosca.nodes.asd.Asd`, `asdInvariantId`.
    ORan,
}

/// An application service descriptor (ASD).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Asd {
    /// The dialect of the package.
    pub dialect: AsdDialect,
    /// Identifier of this version of the ASD.
    pub asd_id: String,
    /// Identifier shared by all versions of the ASD.
    pub asd_invariant_id: Option<String>,
    /// Version of the ASD itself, as written.
    pub asd_version: Option<String>,
    /// The version of the ASD's schema.
    pub asd_schema_version: Option<String>,
    /// The vendor of the application.
    pub asd_provider: String,
    /// Name of the application, as its vendor calls it.
    pub asd_application_name: String,
    /// Version of the application, as written.
    pub asd_application_version: String,
    /// Human-readable name of the application.
    pub asd_application_info_name: Option<String>,
    /// Human-readable description of the application.
    pub asd_info_description: Option<String>,
    /// External connection points of the application.
    pub asd_ext_cpd: Vec<AsdExtCpd>,
    /// Requirements on the cluster, if stated.
    pub enhanced_cluster_capabilities: Option<ClusterCapabilities>,
    /// The items to deploy, unordered; see [`Asd::stages`].
    pub deployment_items: Vec<DeploymentItem>,
    /// Container images in the package.
    pub images: Vec<OciImage>,
}

impl Asd {
    /// The items by stage; a stage starts when the previous one is ready.
    pub fn stages(&self) -> Vec<Vec<&DeploymentItem>> {
        let mut stages: BTreeMap<u32, Vec<&DeploymentItem>> = BTreeMap::new();
        for item in &self.deployment_items {
            stages.entry(item.deployment_order).or_default().push(item);
        }
        stages.into_values().collect()
    }
}

/// An item to deploy, such as a Helm chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct DeploymentItem {
    /// Identifier of the item, unique within the ASD.
    pub deployment_item_id: String,
    /// Name of the artifact, or the reference to it.
    pub artifact: String,
    /// `helm_chart`, `helmfile`, `crd`, `terraform`, or `kubernetes_manifest` (our addition).
    pub artifact_type: String,
    /// Path of the file in the package.
    pub file: String,
    /// The stage; 0 if absent.
    pub deployment_order: u32,
    /// Values that can be set at deployment.
    pub lifecycle_parameters: Vec<String>,
}

impl DeploymentItem {
    /// Whether it is a Helm chart, which becomes a release.
    pub fn is_chart(&self) -> bool {
        self.artifact_type == "helm_chart"
    }

    /// Whether it is a YAML file of Kubernetes objects, which is applied unchanged.
    pub fn is_manifest(&self) -> bool {
        matches!(self.artifact_type.as_str(), "crd" | "kubernetes_manifest")
            && crate::path::has_extension(&self.file, &["yaml", "yml"])
    }
}

/// An external connection point of an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AsdExtCpd {
    /// Identifier; some dialects have none.
    pub id: Option<String>,
    /// Description of the connection point, for people.
    pub description: Option<String>,
    /// The kind of network that it connects to, such as `endUser`.
    pub virtual_link_requirement: Vec<String>,
    /// Order among a pod's secondary interfaces.
    pub interface_order: Option<u32>,
    /// Requirements on its interface, by O-RAN's names.
    pub network_interface_requirements: BTreeMap<String, Vec<String>>,
    /// The chart values that set its addresses and attachments, by O-RAN's names.
    pub input_param_mappings: BTreeMap<String, Vec<String>>,
    /// The Kubernetes object that implements it, such as a Service.
    pub resource_mapping: Option<String>,
}

/// The requirements of an ASD on the cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClusterCapabilities {
    /// Minimum kernel version, as in `uname -r`.
    pub min_kernel_version: Option<String>,
    /// Kernel modules that must be loaded.
    pub required_kernel_modules: Vec<String>,
    /// Kernel modules that must not be loaded.
    pub conflicting_kernel_modules: Vec<String>,
    /// Custom resources that the cluster must define.
    pub required_custom_resources: Vec<RequiredResource>,
    /// Labels that the cluster must or should have.
    pub cluster_labels: Vec<ClusterLabel>,
    /// Plugins that the cluster must have.
    pub required_plugins: Vec<RequiredPlugin>,
}

/// A custom resource that the cluster must define.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct RequiredResource {
    /// The kind, or a description of it.
    pub kind: String,
    /// The `apiVersion` of the kind.
    pub api_version: Option<String>,
}

/// A label that the cluster must or should have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ClusterLabel {
    /// The label, without its `-m` or `-p`.
    pub label: String,
    /// Whether the cluster must have it (`-m`, the default); otherwise it is preferred (`-p`).
    pub mandatory: bool,
}

/// A plugin that the cluster must have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RequiredPlugin {
    /// Name of the plugin, such as `Multus-CNI`.
    pub name: String,
    /// Version of the plugin, as written.
    pub version: Option<String>,
}

/// A container image in OCI layout.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OciImage {
    /// Folder of the layout in the package.
    pub layout: String,
    /// The `name` annotation: the tag that the image gets, `PATH:TAG`.
    pub name: String,
    /// Digest of its manifest or index: `sha256:` and 64 hexadecimal digits.
    pub digest: String,
    /// Everything that it consists of, what is referenced first: the image's own manifest or index is the last.
    pub blobs: Vec<OciBlob>,
}

/// A part of a container image: a layer, a configuration, a manifest or an index.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct OciBlob {
    /// `sha256:` and 64 hexadecimal digits; verified when the package was opened.
    pub digest: String,
    /// Media type, as its reference states it.
    pub media_type: String,
    /// Size in bytes; verified like the digest.
    pub size: u64,
    /// Path of the file in the package.
    pub path: String,
    /// Whether it is a manifest or an index, which a registry takes separately.
    pub manifest: bool,
}

//! Compute requirements of VDUs: capabilities, CPU pinning, huge pages, containers.

use super::resources::SwImage;
use serde::Serialize;
use std::collections::BTreeMap;

/// `virtual_cpu_pinning`: how virtual CPUs are bound to physical ones.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CpuPinning {
    /// `static` pins virtual CPUs, `dynamic` lets them float.
    pub policy: Option<String>,
    /// The entries of `virtual_cpu_pinning_rule`, as written.
    pub rules: Vec<String>,
}

/// Huge pages of a given size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HugePages {
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Total memory in pages of this size, in bytes.
    pub requested_bytes: u64,
}

/// `requested_additional_capabilities`: an accelerator or another feature of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RequestedCapability {
    /// Key of the requirement in the descriptor.
    pub key: String,
    /// `requested_additional_capability_name`: the capability that the host must have.
    pub name: String,
    /// Whether the VDU requires it; otherwise it is preferred.
    pub support_mandatory: bool,
    /// Oldest version that suffices, as written.
    pub min_version: Option<String>,
    /// Version that works best, as written.
    pub preferred_version: Option<String>,
    /// Performance that it must provide, by parameter.
    pub target_performance_parameters: BTreeMap<String, String>,
}

/// A container of a deployable unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Container {
    /// Name of the node template.
    pub name: String,
    /// `properties.name`: the name of the container.
    pub display_name: String,
    /// The image that the container runs.
    pub image: Option<SwImage>,
    /// Requested CPU in thousandths of a core.
    pub requested_cpu_resources: Option<u32>,
    /// CPU limit in thousandths of a core.
    pub cpu_resource_limit: Option<u32>,
    /// Memory that the container requests, in bytes.
    pub requested_memory_bytes: Option<u64>,
    /// Most memory that the container may use, in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Requested ephemeral storage in bytes.
    pub requested_ephemeral_storage_bytes: Option<u64>,
    /// Limit on ephemeral storage in bytes.
    pub ephemeral_storage_limit_bytes: Option<u64>,
    /// Number of extended resources by name.
    pub extended_resources: BTreeMap<String, u32>,
    /// Requested huge pages, by page size.
    pub huge_pages: Vec<HugePages>,
    /// `cpu_pinning_requirements`: how the container's CPUs are pinned.
    pub cpu_pinning: Option<CpuPinning>,
}

/// A package of the container platform, such as a Helm chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Mciop {
    /// Name of the node template.
    pub name: String,
    /// The deployable units that it deploys.
    pub vdus: Vec<String>,
    /// Paths in the package of its charts, by artifact name.
    pub files: BTreeMap<String, String>,
    /// How parameters of a request become values of its chart; `None`: by their names.
    pub parameter_mapping: Option<HelmParamMapping>,
}

/// How the values of a chart are computed (`HelmParamMappingRule`, `HelmParamMappingScript` of SOL001 V5.4.1, 6.3.4 and 6.3.5).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum HelmParamMapping {
    /// The parameter that is the value of each key; a key is as `helm --set` has it.
    Rules(BTreeMap<String, String>),
    /// A script, or rules that only a script can read: never run. The path of the file.
    Unsupported(String),
}

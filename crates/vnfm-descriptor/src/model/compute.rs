//! What VDUs ask of the machines that carry them: capabilities, pinning, huge pages, containers.

use super::resources::SwImage;
use serde::Serialize;
use std::collections::BTreeMap;

/// `virtual_cpu_pinning`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CpuPinning {
    /// `static` or `dynamic`.
    pub policy: Option<String>,
    /// The rules, as written.
    pub rules: Vec<String>,
}

/// Huge pages of one size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct HugePages {
    /// Size of a page in bytes.
    pub page_bytes: u64,
    /// Memory in pages of this size, in bytes.
    pub requested_bytes: u64,
}

/// `requested_additional_capabilities`: an accelerator or another feature of the machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RequestedCapability {
    /// Its key.
    pub key: String,
    /// `requested_additional_capability_name`.
    pub name: String,
    /// Whether the VDU cannot do without.
    pub support_mandatory: bool,
    /// The least version.
    pub min_version: Option<String>,
    /// The version that is liked best.
    pub preferred_version: Option<String>,
    /// What it must reach.
    pub target_performance_parameters: BTreeMap<String, String>,
}

/// A container of a deployable unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Container {
    /// Name of the node template.
    pub name: String,
    /// `properties.name`.
    pub display_name: String,
    /// The image that it runs.
    pub image: Option<SwImage>,
    /// CPU that it asks for, in thousandths.
    pub requested_cpu_resources: Option<u32>,
    /// CPU that it may take, in thousandths.
    pub cpu_resource_limit: Option<u32>,
    /// Memory that it asks for, in bytes.
    pub requested_memory_bytes: Option<u64>,
    /// Memory that it may take, in bytes.
    pub memory_limit_bytes: Option<u64>,
    /// Disk that it asks for, in bytes.
    pub requested_ephemeral_storage_bytes: Option<u64>,
    /// Disk that it may take, in bytes.
    pub ephemeral_storage_limit_bytes: Option<u64>,
    /// Extended resources by name: how many.
    pub extended_resources: BTreeMap<String, u32>,
    /// Huge pages.
    pub huge_pages: Vec<HugePages>,
    /// Pinning.
    pub cpu_pinning: Option<CpuPinning>,
}

/// A package of the container platform, such as a Helm chart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Mciop {
    /// Name of the node template.
    pub name: String,
    /// The deployable units that it brings.
    pub vdus: Vec<String>,
    /// Its files in the package by the artifact's name.
    pub files: BTreeMap<String, String>,
}

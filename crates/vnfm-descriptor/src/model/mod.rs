//! The typed descriptor that the engine and the drivers use; names follow SOL001.
//!
//! ```text
//! Vnfd ─ flavours ─ Flavour ┬ vdus ─ image, compute, storages      one VNFC per instance
//!                           ├ cps ─ of a VDU, on a link or external
//!                           ├ virtual_links, storages
//!                           ├ containers, mciops                    for deployable units
//!                           ├ workloads                             of a package without manifests and charts; workload.rs
//!                           ├ scaling_aspects, instantiation_levels number of instances; scaling.rs
//!                           ├ lcm, monitoring_parameters, …         lifecycle.rs
//!                           └ hooks                                 Vnflcm's operations
//! ```
//! All of it was checked when the package was opened; every name refers to something that exists.

mod asd;
mod compute;
mod flavour;
mod lifecycle;
mod package_change;
mod resources;
mod scaling;
mod seconds;
mod workload;

pub use asd::{
    Asd, AsdDialect, AsdExtCpd, ClusterCapabilities, ClusterLabel, DeploymentItem, OciBlob,
    OciImage, RequiredPlugin, RequiredResource,
};
pub use compute::{Container, CpuPinning, HelmParamMapping, HugePages, Mciop, RequestedCapability};
pub use flavour::{
    AffinityRule, Artifact, Flavour, Hook, InstantiationLevel, LevelError, ScalingAspect,
};
pub use lifecycle::{
    ChangeSelector, ComponentMapping, Indicator, LcmConfiguration, Monitored, MonitoringParameter,
    PackageChange, SecurityGroupRule, SupportedInterface,
};
pub use package_change::{Component, NoPackagePath, PackagePath};
pub use resources::{
    Checksum, ConnectivityKind, Cp, CpKind, ExternalCp, IpPool, Mcio, Qos, Storage, StorageKind,
    SwImage, Vdu, VduKind, VirtualCompute, VirtualLink,
};
pub use scaling::{ScaleDirection, ScaleError, ScaleStatus, ScaledSize};
pub use workload::{
    Autoscaling, PlacementRule, Route, RunContainer, Service, ServicePort, Volume, Workload,
    WorkloadKind, Workloads,
};

use serde::Serialize;
use std::collections::BTreeMap;

/// A VNF descriptor: identity and deployment flavours.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Vnfd {
    /// The version of SOL001 that the package states; if absent, it was read as the newest.
    pub sol001_version: Option<String>,
    /// `descriptor_id`, which SOL003 calls `vnfdId`.
    pub descriptor_id: String,
    /// `descriptor_version`, which SOL003 calls `vnfdVersion`.
    pub descriptor_version: String,
    /// The vendor, `vnfProvider` of SOL003.
    pub provider: String,
    /// `product_name`, which SOL003 calls `vnfProductName`.
    pub product_name: String,
    /// `software_version`, which SOL003 calls `vnfSoftwareVersion`.
    pub software_version: String,
    /// `product_info_name`: name of the product, for people.
    pub product_info_name: Option<String>,
    /// Human-readable description of the product.
    pub product_info_description: Option<String>,
    /// The VNFMs that can manage the VNF, such as `etsivnfm:v3.3.1`.
    pub vnfm_info: Vec<String>,
    /// The type of the VNF's node template.
    pub node_type: String,
    /// Deployment flavours of the VNF by `flavour_id`.
    pub flavours: BTreeMap<String, Flavour>,
}

impl Vnfd {
    /// The flavour with this id.
    pub fn flavour(&self, id: &str) -> Option<&Flavour> {
        self.flavours.get(id)
    }
}

//! The typed descriptor: what the engine and the drivers read, names as SOL001 spells them.
//!
//! ```text
//! Vnfd ─ flavours ─ Flavour ┬ vdus ─ image, compute, storages      one VNFC per instance
//!                           ├ cps ─ of a VDU, on a link or external
//!                           ├ virtual_links, storages
//!                           ├ containers, mciops                    what deployable units run
//!                           ├ scaling_aspects, instantiation_levels how many; scaling.rs: whether
//!                           ├ lcm, monitoring_parameters, …         lifecycle.rs
//!                           └ hooks                                 Vnflcm's operations
//! ```
//! Everything in it was checked when the package was opened; names refer to things that exist.

mod asd;
mod compute;
mod flavour;
mod lifecycle;
mod resources;
mod scaling;

pub use asd::{
    Asd, AsdDialect, AsdExtCpd, ClusterCapabilities, ClusterLabel, DeploymentItem, OciImage,
    RequiredPlugin, RequiredResource,
};
pub use compute::{Container, CpuPinning, HugePages, Mciop, RequestedCapability};
pub use flavour::{
    AffinityRule, Artifact, Flavour, Hook, InstantiationLevel, LevelError, ScalingAspect,
};
pub use lifecycle::{
    ChangeSelector, ComponentMapping, Indicator, LcmConfiguration, Monitored, MonitoringParameter,
    PackageChange, SecurityGroupRule, SupportedInterface,
};
pub use resources::{
    Checksum, ConnectivityKind, Cp, CpKind, ExternalCp, IpPool, Mcio, Qos, Storage, StorageKind,
    SwImage, Vdu, VduKind, VirtualCompute, VirtualLink,
};
pub use scaling::{ScaleDirection, ScaleError, ScaleStatus};

use serde::Serialize;
use std::collections::BTreeMap;

/// A VNF descriptor: identity and deployment flavours.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Vnfd {
    /// The version of SOL001 that it follows, if the package says so; absent, the newest was used.
    pub sol001_version: Option<String>,
    /// `vnfdId` of SOL003.
    pub descriptor_id: String,
    /// Version of the descriptor.
    pub descriptor_version: String,
    /// Who makes the VNF.
    pub provider: String,
    /// What the VNF is called.
    pub product_name: String,
    /// Version of its software.
    pub software_version: String,
    /// A longer name for people.
    pub product_info_name: Option<String>,
    /// A description for people.
    pub product_info_description: Option<String>,
    /// VNFMs that may manage it.
    pub vnfm_info: Vec<String>,
    /// The type of the VNF's node template.
    pub node_type: String,
    /// Deployment flavours by `flavour_id`.
    pub flavours: BTreeMap<String, Flavour>,
}

impl Vnfd {
    /// The flavour with this id.
    pub fn flavour(&self, id: &str) -> Option<&Flavour> {
        self.flavours.get(id)
    }
}

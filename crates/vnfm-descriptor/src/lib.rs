//! CSAR and TOSCA: reads a VNF package into a typed descriptor, or reports findings with file, line and column.
//!
//! ```no_run
//! # fn main() -> Result<(), vnfm_descriptor::Findings> {
//! use vnfm_descriptor::{Limits, Package};
//! let package = Package::open("vnf-a.csar".as_ref(), &Limits::default())?;
//! for warning in package.warnings() {
//!     eprintln!("{warning}");
//! }
//! let flavour = &package.vnfd().flavours["cluster_install"];
//! assert_eq!(flavour.instances_of("workerNode", None), Ok(2));
//! # Ok(()) }
//! ```
//! Start at [`Package::open`]: `archive` → `tosca_meta` → `tosca` → `order`, `hot`. Not here: doubtful
//! constructs (`vnfm-lint`, which starts from [`raw`]), signatures (`vnfm-signature`), and the evaluation of values
//! that come from a request or a VIM.

mod archive;
mod bytes;
#[cfg(feature = "charts")]
mod chart;
pub mod codes;
mod consequences;
mod external;
mod file_check;
mod files;
mod finding;
mod hashes;
#[cfg(feature = "charts")]
mod helmignore;
mod hexadecimal;
mod hot;
mod hot_draft;
mod hot_environment;
mod hot_uses;
mod limits;
mod located;
mod manifest_writer;
mod meta_hashes;
mod model;
mod oci;
mod order;
mod pack;
mod package;
mod package_kind;
mod path;
pub mod raw;
mod repack;
mod shape;
mod signed_archive;
mod sink;
mod suggest;
mod tosca;
mod tosca_meta;
mod variables;
mod workload_files;
mod yaml;
mod yaml_11;

pub use archive::ReadError;
#[cfg(feature = "charts")]
pub use chart::{Chart, ChartError};
pub use external::{DownloadHasher, External};
pub use files::PackageFiles;
pub use finding::{Finding, Findings, Severity, Span, Subject};
pub use hot::{BaseHot, HotBinding, HotExpression, HotParameter, HotParameters, PARAMETERS_FILE};
pub use hot_draft::draft_mapping;
pub use hot_environment::HotEnvironment;
pub use limits::Limits;
pub use located::{Located, escaped};
pub use manifest_writer::{manifest_with, new_manifest, new_meta, without_files};
pub use model::{
    AffinityRule, Artifact, Asd, AsdDialect, AsdExtCpd, Autoscaling, ChangeSelector, Checksum,
    ClusterCapabilities, ClusterLabel, Component, ComponentMapping, ConnectivityKind, Container,
    Cp, CpKind, CpuPinning, DeploymentItem, ExternalCp, Flavour, HelmParamMapping, Hook, HugePages,
    Indicator, InstantiationLevel, IpPool, LcmConfiguration, LevelError, Mcio, Mciop, Monitored,
    MonitoringParameter, NoPackagePath, OciBlob, OciImage, PackageChange, PackagePath,
    PlacementRule, Qos, RequestedCapability, RequiredPlugin, RequiredResource, Route, RunContainer,
    ScaleDirection, ScaleError, ScaleStatus, ScaledSize, ScalingAspect, SecurityGroupRule, Service,
    ServicePort, Storage, StorageKind, SupportedInterface, SwImage, Vdu, VduKind, VirtualCompute,
    VirtualLink, Vnfd, Volume, Workload, WorkloadKind, Workloads,
};
pub use order::{
    InvalidValue, Manifest as OrderedManifest, ORDER_FILE, OrderFile, OrderedChart, Variable,
    type_of,
};
pub use pack::{pack, pack_to, wrap};
pub use package::Package;
pub use path::{PathError, normalise};
pub use repack::{excerpt, repack};
pub use signed_archive::SignedArchive;
pub use suggest::nearest;
pub use tosca_meta::{Manifest, ManifestSource};
pub use variables::{Marked, MissingVariable, Variables, substitute, text_of};

//! What a flavour of containers deploys if its package has neither manifests nor charts: the descriptor alone says it.
//!
//! ```text
//! Workloads ┬ units ─ Workload ┬ containers     a container and its image; resources are in `Flavour::containers`
//!           │                  ├ configuration  one text for each environment variable
//!           │                  ├ volumes        claims, of the workload or of each of its pods
//!           │                  ├ autoscaling    limits and the aim of an autoscaler
//!           │                  └ placement      what its pods are kept together with, or apart from
//!           └ services ─ Service ─ ports, routes
//! ```
//! Names, images, ports and paths were checked when the package was opened: they are valid in the Kubernetes API.

use crate::finding::Span;
use serde::Serialize;
use std::collections::BTreeMap;

/// The workloads and services of a flavour of containers.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Workloads {
    /// One for each deployable unit, by its name.
    pub units: Vec<Workload>,
    /// One for each `VirtualCp`, by its name.
    pub services: Vec<Service>,
}

/// The kinds of workload that `mcio_identification_data.type` can name (`McioIdentificationData`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum WorkloadKind {
    /// Pods without an identity or storage of their own.
    Deployment,
    /// Pods with a stable name, each with its own storages.
    StatefulSet,
}

impl WorkloadKind {
    /// The kind as Kubernetes spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
        }
    }
}

/// The workload of a deployable unit.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Workload {
    /// The node template of the deployable unit.
    pub vdu: String,
    /// Name of the workload, an RFC 1123 label.
    pub name: String,
    /// Whether its pods have an identity.
    pub kind: WorkloadKind,
    /// The containers of each pod, in the order of the file.
    pub containers: Vec<RunContainer>,
    /// `additional_vnfc_configurable_properties`: environment variables with their values.
    pub configuration: BTreeMap<String, String>,
    /// The volumes of its pods, in the order of the file.
    pub volumes: Vec<Volume>,
    /// The autoscaler of a `tosca.policies.Scaling`, if a policy targets the unit.
    pub autoscaling: Option<Autoscaling>,
    /// Affinity and anti-affinity rules that name the unit.
    pub placement: Vec<PlacementRule>,
    /// Position of the node template.
    #[serde(skip)]
    pub span: Span,
}

/// A container of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RunContainer {
    /// The node template of the container, a key of `Flavour::containers`.
    pub template: String,
    /// Name of the container, an RFC 1123 label.
    pub name: String,
    /// Reference of the image, such as `registry.example.com/web:1`.
    pub image: String,
    /// `command` of a derived type: replaces the image's entry point.
    pub command: Vec<String>,
    /// `args` of a derived type: replaces the image's arguments.
    pub args: Vec<String>,
}

/// A volume that all containers of a pod mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Volume {
    /// The node template of the storage, an RFC 1123 label.
    pub storage: String,
    /// Size in GiB, at least 1.
    pub size_gib: u64,
    /// Absolute path in the containers.
    pub mount_path: String,
    /// Whether each pod has its own, or all pods of all units share one.
    pub per_vnfc_instance: bool,
}

/// An autoscaler that aims at a use of the requested processor time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Autoscaling {
    /// `min_instances`: fewest pods.
    pub min_instances: u32,
    /// `max_instances`: most pods.
    pub max_instances: u32,
    /// `target_cpu_utilization_percentage`: of the processor time that the containers request.
    pub cpu_percent: u32,
}

/// An affinity or anti-affinity rule among workloads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct PlacementRule {
    /// Whether the pods are kept apart.
    pub anti: bool,
    /// Whether it is about zones; otherwise about nodes.
    pub by_zone: bool,
    /// Names of the workloads that the rule names.
    pub workloads: Vec<String>,
}

/// The service of a `VirtualCp`.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Service {
    /// The node template of the connection point, and the name of the service: an RFC 1123 label.
    pub name: String,
    /// Name of the workload whose pods serve it.
    pub workload: String,
    /// Whether it is reachable from outside the cluster: mapped to a requirement of the VNF, or on the link of a `VnfExtCp`.
    pub exposed: bool,
    /// `ipv4` and `ipv6` of its `layer_protocols`, as written; empty: what the cluster has.
    pub ip_versions: Vec<String>,
    /// `portData`, in the order of the file; at least one.
    pub ports: Vec<ServicePort>,
    /// `serviceData`: hosts and paths that lead to it.
    pub routes: Vec<Route>,
    /// Position of the node template.
    #[serde(skip)]
    pub span: Span,
}

/// `ServicePortData`: a port of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct ServicePort {
    /// Name of the port, an RFC 1123 label, unique in its service.
    pub name: String,
    /// `tcp`, `udp` or `sctp`.
    pub protocol: String,
    /// The port of the service and of the pods, from 1.
    pub port: u16,
}

/// `ServiceData`: HTTP requests that lead to a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Route {
    /// The host of the requests; absent: any.
    pub host: Option<String>,
    /// Beginnings of their paths, each with a leading `/`; `/` if the descriptor names none.
    pub paths: Vec<String>,
    /// The port of the service to which they lead.
    pub port: u16,
}

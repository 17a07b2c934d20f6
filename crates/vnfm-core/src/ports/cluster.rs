//! What only a Kubernetes cluster has: what [`InfraDriver::capabilities`](super::InfraDriver::capabilities) reports, and the
//! logins of [`InfraDriver::issue_kubeconfig`](super::InfraDriver::issue_kubeconfig).

use jiff::Timestamp;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_types::Secret;

/// A kubeconfig for people, which expires.
#[derive(Debug, Clone)]
pub struct IssuedKubeconfig {
    /// The file, in JSON, with a token that has all rights on the cluster.
    pub kubeconfig: Secret,
    /// When the token expires, as the API server decided.
    pub expires_at: Timestamp,
}

/// A fact about a cluster, or why it is not known. What the login may not read is unknown, never absent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Observed<T> {
    /// The fact, as the cluster reported it.
    Known(T),
    /// It could not be read.
    Unknown {
        /// The reason, such as the API server's 403.
        unknown: String,
    },
}

impl<T> Observed<T> {
    /// A fact that could not be read, and why.
    pub fn unknown(why: impl Into<String>) -> Self {
        let unknown = why.into();
        Self::Unknown { unknown }
    }
}

/// What a cluster offers to the pods of a VNF.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterCapabilities {
    /// Version of the API server, such as `v1.36.2`.
    pub kubernetes_version: String,
    /// Version of the helm program that this server installs charts with.
    pub helm_version: Observed<String>,
    /// The nodes, by name.
    pub nodes: Observed<Vec<NodeCapabilities>>,
    /// Served group versions, such as `apps/v1`, and their kinds, such as `apps/v1/Deployment`.
    pub apis: Observed<BTreeSet<String>>,
    /// Names of the `CSIDriver` objects.
    pub csi_drivers: Observed<BTreeSet<String>>,
    /// Names of the `StorageClass` objects.
    pub storage_classes: Observed<BTreeSet<String>>,
}

/// What one node offers.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeCapabilities {
    /// Name of the node.
    pub name: String,
    /// Whether it is Ready and not cordoned. Taints are not considered: a pod may tolerate them.
    pub schedulable: bool,
    /// As in `uname -r`; empty if the node does not report it.
    pub kernel_version: String,
    /// Such as `linux`.
    pub operating_system: String,
    /// Such as `amd64`.
    pub architecture: String,
    /// Such as `containerd://2.2.9`.
    pub container_runtime_version: String,
    /// Its labels, at most 512.
    pub labels: BTreeMap<String, String>,
    /// What pods can request of it, extended resources and huge pages included, as Kubernetes quantities.
    pub allocatable: BTreeMap<String, String>,
    /// Loaded kernel modules according to its `NodeFeature` objects; `None`: it has none, so they are unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_modules: Option<BTreeSet<String>>,
}

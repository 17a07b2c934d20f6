//! The parameters of the hooks: `additionalParams.k8s_cluster_installation_param`, compatible with Tacker, and the
//! additional ones of heals and scalings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vnfm_plugin_sdk::{Object, Secret};

/// `additionalParams` of the instantiate request; other members are ignored.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct InstantiateParams {
    /// How to install the cluster.
    pub k8s_cluster_installation_param: Installation,
}

/// `additionalParams` of a heal: those of the instantiation, which are stored, and how to drain nodes.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct HealParams {
    /// How the cluster was installed; taken from the instantiation unless the request has other values.
    pub k8s_cluster_installation_param: Installation,
    /// How to drain the nodes that are replaced.
    #[serde(flatten)]
    pub drain: DrainParams,
    /// Allows replacing the only control-plane node: the cluster is lost with everything on it, and reinstalled.
    #[serde(default)]
    pub accept_cluster_loss: bool,
}

/// `additionalParams` of a scaling: those of the instantiation, which are stored, and how to drain nodes.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct ScaleParams {
    /// How the cluster was installed; taken from the instantiation unless the request has other values.
    pub k8s_cluster_installation_param: Installation,
    /// How to drain the nodes that leave.
    #[serde(flatten)]
    pub drain: DrainParams,
}

/// How to drain nodes.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct DrainParams {
    /// How long the pods of a node may take to leave it, in seconds; 300 if absent.
    #[serde(default = "drain_timeout")]
    #[schemars(range(max = 86400))]
    pub drain_timeout_seconds: u32,
    /// What to do if pods have not left by then.
    #[serde(default)]
    pub on_drain_timeout: OnDrainTimeout,
    /// Deletes pods that no controller would recreate. If false, such pods block the drain.
    #[serde(default)]
    pub delete_bare_pods: bool,
}

/// What to do if a node's pods have not left it in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDrainTimeout {
    /// Fail with an error that names them, and uncordon the node.
    #[default]
    Fail,
    /// Delete them, regardless of their disruption budgets.
    Force,
}

/// How to install the cluster.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Installation {
    /// The vendor's own script, as a path in the package; if the package does not have it, the built-in phases run.
    pub script_path: Option<String>,
    /// Name of the VIM; `kubernetes_vim_<instance id>` if absent.
    pub vim_name: Option<String>,
    /// The node that runs the control plane.
    pub master_node: MasterNode,
    /// The nodes that run workloads.
    pub worker_node: WorkerNode,
    /// HTTP proxies that the hosts use.
    #[serde(default)]
    pub proxy: Proxy,
    /// Port of the hosts' SSH servers; 22 if absent.
    pub ssh_port: Option<u16>,
    /// The network plugin's manifest, as a path in the package; `Files/kubernetes/cni.yaml` if absent.
    pub cni_manifest: Option<String>,
    /// Folder of the package with image archives (`*.tar`) for every host.
    pub images_path: Option<String>,
    /// Folder of the package with Debian archives, for hosts that lack Kubernetes and have
    /// no repository; `Files/kubernetes/packages` if absent.
    pub packages: Option<String>,
    /// Add-ons of the cluster, installed in this order once the nodes are Ready.
    #[serde(default)]
    pub addons: Vec<AddOn>,
    /// Ends the installation with a test of DNS, Services, the pod network and storage.
    pub smoke_test: Option<SmokeTest>,
    /// Unknown members; they cause a warning and have no effect.
    #[serde(flatten)]
    pub other: Object,
}

/// An add-on of the cluster: objects that every node or VNF needs, such as a metrics server or an ingress controller.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddOn {
    /// Its name: a DNS label (RFC 1123).
    pub name: String,
    /// Its version, for progress and for the instance's metadata.
    pub version: Option<String>,
    /// Its manifest, as a path in the package; at most 4 MiB.
    pub manifest: String,
    /// Values for the manifest: each replaces the scalars that are `${NAME}`.
    #[serde(default)]
    pub values: BTreeMap<String, Scalar>,
}

/// A value that is not composed of others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    /// `true` or `false`.
    Bool(bool),
    /// An integer.
    Integer(i64),
    /// A text.
    Text(String),
}

/// How to test a new cluster.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SmokeTest {
    /// An image with `sh`, `httpd`, `nslookup`, `sed` and `wget`, such as busybox, that the nodes have or can pull.
    pub image: String,
    /// The StorageClass to test; if absent, storage is not tested.
    pub storage_class: Option<String>,
}

/// The node that runs the control plane, and how to log in.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = [{"required": ["password"]}, {"required": ["private_key"]}]))]
pub struct MasterNode {
    /// Its VDU; if absent, the one whose name starts with `master`.
    pub vdu_id: Option<String>,
    /// The connection point for SSH.
    pub ssh_cp_name: String,
    /// The connection point with the node's address in the cluster; if absent, the one for SSH.
    pub nic_cp_name: Option<String>,
    /// The user to log in as; commands run through sudo.
    pub username: String,
    /// The user's password; either this or `private_key` is required.
    pub password: Option<Secret>,
    /// The user's private key in PEM format.
    pub private_key: Option<Secret>,
    /// Address range of pods; `10.244.0.0/16` if absent.
    #[serde(default = "pod_cidr")]
    pub pod_cidr: String,
    /// Address range of Services; `10.96.0.0/12` if absent.
    #[serde(default = "cluster_cidr")]
    pub cluster_cidr: String,
    /// The connection point with the API server's address for nodes and clients; if absent, the one for SSH.
    pub cluster_cp_name: Option<String>,
    /// The connection point with the address that outside clients use instead.
    pub cluster_fip_name: Option<String>,
    /// Unknown members; they cause a warning and have no effect.
    #[serde(flatten)]
    pub other: Object,
}

/// The nodes that run workloads, and how to log in.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = [{"required": ["password"]}, {"required": ["private_key"]}]))]
pub struct WorkerNode {
    /// Their VDU; if absent, the one whose name starts with `worker`.
    pub vdu_id: Option<String>,
    /// The connection point for SSH.
    pub ssh_cp_name: String,
    /// The connection point with the node's address in the cluster; if absent, the one for SSH.
    pub nic_cp_name: Option<String>,
    /// The user to log in as; commands run through sudo.
    pub username: String,
    /// The user's password; either this or `private_key` is required.
    pub password: Option<Secret>,
    /// The user's private key in PEM format.
    pub private_key: Option<Secret>,
    /// Unknown members; they cause a warning and have no effect.
    #[serde(flatten)]
    pub other: Object,
}

/// HTTP proxies that the hosts use.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct Proxy {
    /// Proxy URL for `http`; may contain a login.
    pub http_proxy: Option<Secret>,
    /// Proxy URL for `https`; may contain a login.
    pub https_proxy: Option<Secret>,
    /// Hosts and addresses to reach without a proxy, separated by commas.
    pub no_proxy: Option<String>,
    /// Address range of the nodes, reached without a proxy.
    pub k8s_node_cidr: Option<String>,
}

fn drain_timeout() -> u32 {
    300
}

fn pod_cidr() -> String {
    "10.244.0.0/16".into()
}

fn cluster_cidr() -> String {
    "10.96.0.0/12".into()
}

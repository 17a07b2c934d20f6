//! What the hooks take: `additionalParams.k8s_cluster_installation_param`, spelt as Tacker spells it, and beside it
//! what a heal may say of its own.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use vnfm_plugin_sdk::{Object, Secret};

/// `additionalParams` of the instantiate request; other members are for others.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct InstantiateParams {
    /// How to install the cluster.
    pub k8s_cluster_installation_param: Installation,
}

/// `additionalParams` of a heal: those of the instantiation, which are kept, and how nodes leave the cluster.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct HealParams {
    /// How the cluster was installed; from the instantiation, unless the request has other values.
    pub k8s_cluster_installation_param: Installation,
    /// How long the pods of a node may take to leave it.
    #[serde(default = "drain_timeout")]
    #[schemars(range(max = 86400))]
    pub drain_timeout_seconds: u32,
    /// What happens when they have not left by then.
    #[serde(default)]
    pub on_drain_timeout: OnDrainTimeout,
    /// Pods that nothing makes again are deleted with their node; they keep it from being drained otherwise.
    #[serde(default)]
    pub delete_bare_pods: bool,
    /// The only control-plane node may be replaced: the cluster is lost with all that is on it, and installed anew.
    #[serde(default)]
    pub accept_cluster_loss: bool,
}

/// What happens when a node's pods have not left it in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OnDrainTimeout {
    /// The heal stops with an error that names them; the node takes pods again.
    #[default]
    Fail,
    /// They are deleted, whatever their disruption budgets say.
    Force,
}

/// How to install the cluster.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct Installation {
    /// The vendor's own script, as a path in the package; where the package has none of that path, our phases run.
    pub script_path: Option<String>,
    /// Name of the VIM; `kubernetes_vim_<instance id>` where absent.
    pub vim_name: Option<String>,
    /// The control-plane node.
    pub master_node: MasterNode,
    /// The workers.
    pub worker_node: WorkerNode,
    /// Proxies of the hosts.
    #[serde(default)]
    pub proxy: Proxy,
    /// Port of the hosts' SSH servers; 22 where absent.
    pub ssh_port: Option<u16>,
    /// The network plugin's manifest, as a path in the package; `Files/kubernetes/cni.yaml` where absent.
    pub cni_manifest: Option<String>,
    /// Folder of the package with image archives (`*.tar`) for every host.
    pub images_path: Option<String>,
    /// Folder of the package with Debian archives, for hosts that lack Kubernetes and have no repository;
    /// `Files/kubernetes/packages` where absent.
    pub packages: Option<String>,
    /// What this driver does not know.
    #[serde(flatten)]
    pub other: Object,
}

/// The control-plane node.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = [{"required": ["password"]}, {"required": ["private_key"]}]))]
pub struct MasterNode {
    /// Its VDU; the one whose name begins with `master` where absent.
    pub vdu_id: Option<String>,
    /// The CP whose address we log in at.
    pub ssh_cp_name: String,
    /// The CP whose address the node has in the cluster; the one of SSH where absent.
    pub nic_cp_name: Option<String>,
    /// Who we log in as.
    pub username: String,
    /// Their password.
    pub password: Option<Secret>,
    /// Their private key, PEM.
    pub private_key: Option<Secret>,
    /// Addresses of pods.
    #[serde(default = "pod_cidr")]
    pub pod_cidr: String,
    /// Addresses of Services.
    #[serde(default = "cluster_cidr")]
    pub cluster_cidr: String,
    /// The CP whose address the API server has for nodes and clients; the one of SSH where absent.
    pub cluster_cp_name: Option<String>,
    /// The CP whose address clients outside use instead.
    pub cluster_fip_name: Option<String>,
    /// What this driver does not know.
    #[serde(flatten)]
    pub other: Object,
}

/// The workers.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = [{"required": ["password"]}, {"required": ["private_key"]}]))]
pub struct WorkerNode {
    /// Their VDU; the one whose name begins with `worker` where absent.
    pub vdu_id: Option<String>,
    /// The CP whose address we log in at.
    pub ssh_cp_name: String,
    /// The CP whose address the node has in the cluster; the one of SSH where absent.
    pub nic_cp_name: Option<String>,
    /// Who we log in as.
    pub username: String,
    /// Their password.
    pub password: Option<Secret>,
    /// Their private key, PEM.
    pub private_key: Option<Secret>,
    /// What this driver does not know.
    #[serde(flatten)]
    pub other: Object,
}

/// Proxies of the hosts.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
pub struct Proxy {
    /// For `http`; it may hold a login.
    pub http_proxy: Option<Secret>,
    /// For `https`; it may hold a login.
    pub https_proxy: Option<Secret>,
    /// What is reached without it.
    pub no_proxy: Option<String>,
    /// Addresses of the nodes, reached without it.
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

//! The parameters of the hooks: `additionalParams.k8s_cluster_installation_param`, compatible with Tacker, and the
//! additional ones of heals and scalings.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use vnfm_plugin_sdk::{AccessRule, Object, Secret};

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
    /// Allows replacing all control-plane nodes: the cluster is lost with everything on it, and reinstalled.
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
    /// The nodes that run the control plane: 1, 3 or 5.
    pub master_node: MasterNode,
    /// The address at which clients and nodes reach the API server; required for more than one control-plane node.
    pub control_plane_endpoint: Option<ControlPlaneEndpoint>,
    /// An etcd that keeps the cluster's data; if absent, each control-plane node has a member of etcd.
    pub external_etcd: Option<ExternalEtcd>,
    /// The nodes that run workloads; if absent, the control-plane nodes also run them.
    pub worker_node: Option<WorkerNode>,
    /// Further groups of such nodes; they have the login of `worker_node`.
    #[serde(default)]
    pub worker_groups: Vec<WorkerGroup>,
    /// HTTP proxies that the hosts use.
    #[serde(default)]
    pub proxy: Proxy,
    /// Port of the hosts' SSH servers; 22 if absent.
    pub ssh_port: Option<u16>,
    /// The network plugin's manifest, as a path in the package; `Files/kubernetes/cni.yaml` if absent.
    pub cni_manifest: Option<String>,
    /// Folder of the package with image archives (`*.tar`) for every host.
    pub images_path: Option<String>,
    /// A registry at the site, from which the nodes pull images, and to which the VNFM pushes those of VNF packages.
    pub registry: Option<SiteRegistry>,
    /// Folder of the package with Debian archives, for hosts that lack Kubernetes and have
    /// no repository; `Files/kubernetes/packages` if absent.
    pub packages: Option<String>,
    /// Add-ons of the cluster, installed once the nodes are Ready: those of the catalogue in its order, then those with a
    /// `manifest` in this order.
    #[serde(default)]
    pub addons: Vec<AddOn>,
    /// Software of the nodes that the package brings, installed in this order before a node joins; a change of the package
    /// patches the nodes that have other versions.
    #[serde(default)]
    pub node_software: Vec<NodeSoftware>,
    /// Ends the installation with a test of DNS, Services, the pod network and storage.
    pub smoke_test: Option<SmokeTest>,
    /// Folder of the package with the Debian archives of HAProxy and keepalived, for control-plane nodes that lack them;
    /// `Files/kubernetes/endpoint-packages` if absent.
    pub endpoint_packages: Option<String>,
    /// Unknown members; they cause a warning and have no effect.
    #[serde(flatten)]
    pub other: Object,
}

/// An add-on of the cluster, such as a metrics server or an ingress controller: one of the catalogue, or one of the package.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AddOn {
    /// Its name: a DNS label (RFC 1123).
    pub name: String,
    /// Its version: one of the catalogue; with a `manifest`, what progress and the instance's metadata show.
    pub version: Option<String>,
    /// Its manifest, as a path in the package, at most 4 MiB; that of the catalogue if absent.
    pub manifest: Option<String>,
    /// Values for the manifest: each replaces the scalars that are `${NAME}`. The catalogue has defaults.
    #[serde(default)]
    pub values: BTreeMap<String, Scalar>,
    /// For a program that uses the cloud, such as a cloud controller manager: it gets a login of its own.
    pub cloud: Option<Cloud>,
}

/// Software for nodes, with the version that they should have.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeSoftware {
    /// Its name: lower-case letters, digits, `+`, `-` and `.`, at most 63.
    pub name: String,
    /// Its version: letters, digits, `.`, `_`, `+`, `~`, `:` and `-`, at most 63. Another content needs another version.
    pub version: String,
    /// The nodes that get it: `control-plane`, `worker`, or the VDU of a group of workers; absent: all nodes.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Path in the package: a Debian archive (`.deb`), an archive with `install.sh` (`.tar`, `.tar.gz`, `.tgz`), or a program
    /// for `/usr/local/bin`.
    pub artifact: String,
    /// Path in the package of a script that installs the artifact instead.
    pub install: Option<String>,
    /// Whether the pods of a node leave it before the software is patched; true if absent.
    #[serde(default = "drains")]
    pub drain: bool,
    /// How long its installation on a node may take, in seconds; 600 if absent.
    #[serde(default = "installation_timeout")]
    #[schemars(range(min = 1, max = 3600))]
    pub timeout_seconds: u32,
}

/// The login and the configuration file of a program that uses the cloud.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Cloud {
    /// The program's format of the file; it replaces the scalars of the manifest that are `${CLOUD_CONFIG}`.
    pub format: CloudFormat,
    /// Sections of the file, each with its keys, over those with the login; `${output.NAME}` is an output of the stack.
    #[serde(default)]
    pub sections: BTreeMap<String, BTreeMap<String, Scalar>>,
    /// Names of the login's roles; absent: those of the VIM's user.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The requests that the login may send; absent: those that its roles allow.
    #[serde(default)]
    pub access_rules: Vec<AccessRule>,
    /// When the login expires (RFC 3339); absent: never.
    pub expires_at: Option<String>,
}

/// A program that uses the cloud from inside the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CloudFormat {
    /// `cloud.conf` of cloud-provider-openstack, also for Cinder CSI.
    CloudProviderOpenstack,
    /// `kuryr.conf` of Kuryr-Kubernetes.
    KuryrKubernetes,
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

/// A registry of container images at the site.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SiteRegistry {
    /// `HOST` or `HOST:PORT`; it is reached with TLS.
    pub address: String,
    /// The path before that of each image of a VNF package; none if absent.
    pub prefix: Option<String>,
    /// Certificates of the CAs that have signed its certificate, in PEM format; if absent, the hosts' own CAs.
    pub ca: Option<String>,
    /// The user to log in as; without, nobody does.
    pub username: Option<String>,
    /// The user's password.
    pub password: Option<Secret>,
    /// Other registries whose images it has, each with the path before theirs, which may be empty.
    #[serde(default)]
    pub mirrors: BTreeMap<String, String>,
}

/// How to test a new cluster.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SmokeTest {
    /// An image with `sh`, `httpd`, `nslookup`, `sed`, `timeout` and `wget`, such as busybox, that the nodes have or can pull.
    pub image: String,
    /// The storage class to test; if absent, storage is not tested.
    pub storage_class: Option<String>,
}

/// An etcd outside of the VNF, and the login to it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExternalEtcd {
    /// URLs of its members for clients, with https.
    #[schemars(length(min = 1))]
    pub endpoints: Vec<String>,
    /// The certificate of the CA that has signed those of its members, in PEM format.
    pub ca: String,
    /// The client certificate of the API servers, in PEM format.
    pub certificate: String,
    /// Its private key, in PEM format.
    pub private_key: Secret,
}

/// The address of a control plane, and what serves it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct ControlPlaneEndpoint {
    /// What serves the address.
    #[serde(default)]
    pub provider: EndpointProvider,
    /// An IP address on the nodes' network that no host has; for `external` also a host name; `${output.NAME}` is an output of
    /// the stack.
    pub address: String,
    /// The address that outside clients use instead, such as a floating IP; `${output.NAME}` is an output of the stack.
    pub external_address: Option<String>,
    /// Port of the address; if absent, 16443 for `haproxy_keepalived`, else 6443.
    #[schemars(range(min = 1))]
    pub port: Option<u16>,
    /// The nodes' network interface that gets the address; if absent, the one with the node's address.
    pub interface: Option<String>,
    /// VRRP router id for keepalived; 51 if absent.
    #[serde(default = "virtual_router_id")]
    #[schemars(range(min = 1))]
    pub virtual_router_id: u8,
    /// Image of kube-vip; required for `kube_vip`.
    pub image: Option<String>,
}

/// What serves the address of a control plane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndpointProvider {
    /// HAProxy on each control-plane node, and keepalived, which gives the address to one of them.
    #[default]
    HaproxyKeepalived,
    /// kube-vip as a static pod on each control-plane node.
    KubeVip,
    /// A load balancer that the operator or the stack provides; it forwards to port 6443 of the control-plane nodes.
    External,
}

/// The nodes that run the control plane, and how to log in.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[schemars(extend("anyOf" = [{"required": ["password"]}, {"required": ["private_key"]}]))]
pub struct MasterNode {
    /// Their VDU; if absent, the one whose name starts with `master`.
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
    /// The connection point with the API server's address for nodes and clients; if absent, the one for SSH. Has no effect
    /// with `control_plane_endpoint`.
    pub cluster_cp_name: Option<String>,
    /// The connection point with the address that outside clients use instead; has no effect with
    /// `control_plane_endpoint`.
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
    /// Labels of the nodes.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Taints of the nodes.
    #[serde(default)]
    pub taints: Vec<Taint>,
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

/// A group of workers with a VDU of its own.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
pub struct WorkerGroup {
    /// Their VDU.
    pub vdu_id: String,
    /// The connection point for SSH.
    pub ssh_cp_name: String,
    /// The connection point with the node's address in the cluster; if absent, the one for SSH.
    pub nic_cp_name: Option<String>,
    /// Labels of the nodes.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Taints of the nodes.
    #[serde(default)]
    pub taints: Vec<Taint>,
}

/// A taint of a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Taint {
    /// Its key, such as `example.com/gpu`.
    pub key: String,
    /// Its value, if any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// What happens to pods that do not tolerate it.
    pub effect: TaintEffect,
}

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum TaintEffect {
    /// They are not scheduled to the node.
    NoSchedule,
    /// They are scheduled to it only if no other node takes them.
    PreferNoSchedule,
    /// They are not scheduled to the node, and those on it are evicted.
    NoExecute,
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

fn drains() -> bool {
    true
}

fn installation_timeout() -> u32 {
    600
}

fn virtual_router_id() -> u8 {
    51
}

fn pod_cidr() -> String {
    "10.244.0.0/16".into()
}

fn cluster_cidr() -> String {
    "10.96.0.0/12".into()
}

#[cfg(test)]
mod tests {
    use super::{
        AddOn, Cloud, ControlPlaneEndpoint, ExternalEtcd, Installation, MasterNode, NodeSoftware,
        Proxy, SiteRegistry, SmokeTest, WorkerNode,
    };
    use schemars::{JsonSchema, schema_for};
    use serde_json::Value;
    use std::collections::BTreeSet;
    use std::path::Path;

    fn members<T: JsonSchema>() -> BTreeSet<String> {
        let schema = schema_for!(T);
        let members = schema.get("properties").and_then(Value::as_object).unwrap();
        members.keys().cloned().collect()
    }

    /// A VNFD refuses what it does not declare, and the driver ignores what it does not know.
    #[test]
    fn the_samples_declare_parameters_that_exist() {
        let mut nodes = &members::<MasterNode>() | &members::<WorkerNode>();
        nodes.insert("aspect_id".into());
        let known = [
            ("ClusterInstallation", members::<Installation>()),
            ("NodeGroup", nodes),
            ("ControlPlaneEndpoint", members::<ControlPlaneEndpoint>()),
            ("ExternalEtcd", members::<ExternalEtcd>()),
            ("Proxy", members::<Proxy>()),
            ("Addon", members::<AddOn>()),
            ("AddonCloud", members::<Cloud>()),
            ("NodeSoftware", members::<NodeSoftware>()),
            ("SmokeTest", members::<SmokeTest>()),
            ("SiteRegistry", members::<SiteRegistry>()),
        ];
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vnfd-samples");
        let mut checked = 0;
        for sample in std::fs::read_dir(samples).unwrap() {
            let types = sample.unwrap().path().join("Definitions/vnf-a-types.yaml");
            let Ok(text) = std::fs::read_to_string(&types) else {
                continue;
            };
            let types_of: Value = serde_yaml::from_str(&text).unwrap();
            for (name, members) in &known {
                let declared = &types_of["data_types"][format!("samples.datatypes.{name}")];
                let declared = declared["properties"].as_object();
                for property in declared.into_iter().flat_map(|all| all.keys()) {
                    let file = types.display();
                    assert!(members.contains(property), "{file}: {name}.{property}");
                    checked += 1;
                }
            }
        }
        assert!(checked > 100, "{checked}");
    }
}

//! The target cluster: the role, node name and addresses of each server.

use crate::addon_check;
use crate::endpoint::{self, Endpoint};
use crate::node::{bad, with_port};
use crate::params::{
    AddOn, ExternalEtcd, Installation, NodeSoftware, Proxy, SiteRegistry, SmokeTest,
};
use crate::preflight::{check_ranges, check_size};
use crate::registry_check;
use crate::roles;
use crate::software_check;
use std::collections::BTreeMap;
use vnfm_plugin_sdk::prelude::*;

pub(crate) use crate::node::{API_PORT, Node};

/// Default path of the network plugin's manifest in the package.
const CNI: &str = "Files/kubernetes/cni.yaml";
/// Default folder of Debian archives in the package.
const PACKAGES: &str = "Files/kubernetes/packages";
/// Default folder of the Debian archives of HAProxy and keepalived.
const ENDPOINT_PACKAGES: &str = "Files/kubernetes/endpoint-packages";
/// The step that runs the vendor's script.
pub(crate) const SCRIPT_STEP: &str = "script";
/// Parameters of Tacker's driver that have no effect here; they cause no warning.
const IGNORED_PARAMETERS: &[&str] = &["aspect_id"];

/// The cluster to install, derived from request and inventory.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) instance: String,
    pub(crate) vim_name: String,
    /// The control-plane nodes in the order of their VNFCs; at least one.
    pub(crate) control_planes: Vec<Node>,
    /// Index of the control-plane node on which commands run.
    responding: usize,
    pub(crate) workers: Vec<Node>,
    pub(crate) pod_cidr: String,
    pub(crate) service_cidr: String,
    /// How the API server is reached.
    pub(crate) api: Endpoint,
    /// `None`: each control-plane node has a member of etcd.
    pub(crate) external_etcd: Option<ExternalEtcd>,
    pub(crate) proxy: Proxy,
    pub(crate) registry: Option<SiteRegistry>,
    /// Paths in the package: this manifest, `images`, `packages` and `endpoint_packages`.
    pub(crate) cni: Option<String>,
    pub(crate) images: Vec<String>,
    pub(crate) packages: Vec<String>,
    /// In the order of their installation, with what the catalogue knows of them.
    pub(crate) addons: Vec<AddOn>,
    pub(crate) smoke_test: Option<SmokeTest>,
    pub(crate) endpoint_packages: Vec<String>,
    /// What the nodes should have.
    pub(crate) software: Vec<NodeSoftware>,
    /// All paths in the package.
    artifacts: Vec<String>,
    script: Option<String>,
    ignored: Vec<String>,
    secrets: Vec<Secret>,
}

impl Plan {
    /// Plans the cluster from the request, the package's files, and the outputs of the stack that the request names.
    ///
    /// # Errors
    ///
    /// Those of [`Plan::new`] and [`endpoint::with_outputs`].
    pub(crate) async fn for_request<P>(
        cx: &HookContext,
        request: &HookRequest<P>,
        installation: &Installation,
    ) -> Result<Self, DriverError> {
        let installation = endpoint::with_outputs(cx, installation).await?;
        Self::new(request, &installation, &cx.artifacts().await?)
    }

    /// Plans the cluster from the request and the package's files.
    ///
    /// # Errors
    ///
    /// If a role has no server, an address is missing, or the package lacks a file that is needed.
    fn new<P>(
        request: &HookRequest<P>,
        installation: &Installation,
        artifacts: &[String],
    ) -> Result<Self, DriverError> {
        let control_planes = roles::control_planes(request, installation)?;
        let workers = roles::workers(request, installation)?;
        let vnfc = |node: &Node| request.vnfcs().iter().find(|vnfc| vnfc.id == node.vnfc);
        let first = control_planes.first().and_then(vnfc);
        let api = Endpoint::new(installation, first)?;
        let master = &installation.master_node;
        let mut plan = Self {
            instance: request.instance.id.clone(),
            vim_name: installation
                .vim_name
                .clone()
                .unwrap_or_else(|| format!("kubernetes_vim_{}", request.instance.id)),
            control_planes,
            responding: 0,
            workers,
            pod_cidr: master.pod_cidr.clone(),
            service_cidr: master.cluster_cidr.clone(),
            api,
            external_etcd: installation.external_etcd.clone(),
            proxy: installation.proxy.clone(),
            registry: installation.registry.clone(),
            cni: None,
            images: Vec::new(),
            packages: Vec::new(),
            addons: Vec::new(),
            smoke_test: installation.smoke_test.clone(),
            endpoint_packages: Vec::new(),
            software: installation.node_software.clone(),
            artifacts: artifacts.to_vec(),
            script: None,
            ignored: ignored(installation),
            secrets: secrets(installation),
        };
        check_proxy(&plan.proxy)?;
        installation
            .registry
            .as_ref()
            .map_or(Ok(()), registry_check::check)?;
        software_check::check(installation)?;
        plan.find_files(installation, artifacts)?;
        plan.deduplicate_names();
        Ok(plan)
    }

    /// Checks what an installation needs and an existing cluster has: the size of the control plane, its address ranges, and
    /// the software of its nodes.
    ///
    /// # Errors
    ///
    /// If the control plane cannot have that size, or the ranges of pods, Services and hosts overlap.
    pub(crate) fn check(&self) -> Result<(), DriverError> {
        self.check_size(self.control_planes.len())?;
        if self.script.is_some() && self.control_planes.len() > 1 {
            return Err(bad(
                "the vendor's script installs one control-plane node, and there are several".into(),
            ));
        }
        if let Some(etcd) = &self.external_etcd {
            etcd.check()?;
        }
        if self.script.is_some() && self.external_etcd.is_some() {
            return Err(bad(
                "`external_etcd` is for the built-in installation; the vendor's script has its own etcd".into(),
            ));
        }
        if self.script.is_some() && self.registry.is_some() {
            return Err(bad(
                "`registry` is for the built-in installation; the vendor's script configures the hosts itself".into(),
            ));
        }
        self.check_software()?;
        self.check_ranges()
    }

    /// Checks whether the package has the software of the nodes.
    ///
    /// # Errors
    ///
    /// `bad-parameters`, naming the file that is missing.
    pub(crate) fn check_software(&self) -> Result<(), DriverError> {
        software_check::check_files(&self.software, &self.artifacts)
    }

    /// Checks whether the control plane can have this many nodes.
    ///
    /// # Errors
    ///
    /// If the number is not 1, 3 or 5, or there is no address for several of them.
    pub(crate) fn check_size(&self, size: usize) -> Result<(), DriverError> {
        check_size(size, !self.api.is_node())
    }

    /// Checks whether the address ranges of pods and Services overlap each other, or contain a node.
    ///
    /// # Errors
    ///
    /// `bad-parameters`.
    pub(crate) fn check_ranges(&self) -> Result<(), DriverError> {
        let nodes = self.nodes();
        let nodes = nodes.map(|node| (node.name.clone(), node.address.clone()));
        let api = (
            "control_plane_endpoint".to_owned(),
            self.api.address.clone(),
        );
        let ranges = [
            ("pod_cidr", self.pod_cidr.as_str()),
            ("cluster_cidr", &self.service_cidr),
        ];
        check_ranges(ranges, nodes.chain([api]))
    }

    /// Finds the files that the package provides.
    fn find_files(
        &mut self,
        installation: &Installation,
        artifacts: &[String],
    ) -> Result<(), DriverError> {
        let files_in = |folder: &str, end: &str| -> Vec<String> {
            let folder = format!("{}/", folder.trim_end_matches('/'));
            let fits = |path: &&String| path.starts_with(&folder) && path.ends_with(end);
            artifacts.iter().filter(fits).cloned().collect()
        };
        self.packages = files_in(installation.packages.as_deref().unwrap_or(PACKAGES), ".deb");
        let folder = installation.endpoint_packages.as_deref();
        self.endpoint_packages = files_in(folder.unwrap_or(ENDPOINT_PACKAGES), ".deb");
        self.images = installation
            .images_path
            .as_deref()
            .map(|p| files_in(p, ".tar"))
            .unwrap_or_default();
        self.script = installation
            .script_path
            .clone()
            .filter(|path| artifacts.contains(path));
        let cni = installation.cni_manifest.as_deref().unwrap_or(CNI);
        self.cni = artifacts.iter().find(|path| *path == cni).cloned();
        self.addons = addon_check::planned(&installation.addons, artifacts)?;
        if self.script.is_some() && !self.addons.is_empty() {
            let detail =
                "`addons` are for the built-in installation; the vendor's script installs its own";
            return Err(bad(detail.to_owned()));
        }
        if self.script.is_none() && self.cni.is_none() {
            return Err(DriverError::new(
                "cni-missing",
                format!(
                    "the package has no `{cni}`; without a network plugin no node becomes ready: put its manifest there, \
                     or name it in `cni_manifest`"
                ),
            )
            .phase("preflight"));
        }
        Ok(())
    }

    /// Renames nodes whose name occurs more than once.
    fn deduplicate_names(&mut self) {
        let mut seen = BTreeMap::<String, u32>::new();
        for node in self.control_planes.iter_mut().chain(&mut self.workers) {
            let count = seen.entry(node.name.clone()).or_default();
            *count += 1;
            if *count > 1 {
                node.name = node.unique_name();
            }
        }
    }

    /// Path of the vendor's script, if the package has it.
    pub(crate) fn script(&self) -> Option<&str> {
        self.script.as_deref()
    }

    /// The step that makes a host a node.
    pub(crate) fn join_step(&self) -> &'static str {
        if self.script.is_some() {
            SCRIPT_STEP
        } else {
            "join"
        }
    }

    /// Unknown parameters, which have no effect.
    pub(crate) fn ignored(&self) -> &[String] {
        &self.ignored
    }

    /// `HOST:PORT` of the API server for the nodes.
    pub(crate) fn endpoint(&self) -> String {
        with_port(&self.api.address, self.api.port)
    }

    /// URL of the API server for outside clients.
    pub(crate) fn url(&self) -> String {
        let authority = with_port(&self.api.external_address, self.api.port);
        format!("https://{authority}")
    }

    /// Values to hide in errors.
    pub(crate) fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// The control-plane node on which the cluster is initialized.
    pub(crate) fn first_control_plane(&self) -> &Node {
        &self.control_planes[0]
    }

    /// The control-plane node on which commands run: the first one, unless [`Plan::set_responding`] found another.
    pub(crate) fn responding_control_plane(&self) -> &Node {
        &self.control_planes[self.responding]
    }

    /// From now on commands run on this control-plane node, by its index.
    pub(crate) fn set_responding(&mut self, index: usize) {
        self.responding = index.min(self.control_planes.len() - 1);
    }

    /// Whether the node is one of the control plane.
    pub(crate) fn is_control_plane(&self, node: &Node) -> bool {
        self.control_planes.iter().any(|one| one.vnfc == node.vnfc)
    }

    /// The control-plane nodes, then the workers.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.control_planes.iter().chain(&self.workers)
    }
}

/// Rejects NUL characters: neither shells nor systemd units can represent them.
fn check_proxy(proxy: &Proxy) -> Result<(), DriverError> {
    let urls = [
        ("http_proxy", &proxy.http_proxy),
        ("https_proxy", &proxy.https_proxy),
    ];
    let urls = urls.map(|(name, url)| (name, url.as_ref().map(Secret::reveal)));
    let hosts = [
        ("no_proxy", &proxy.no_proxy),
        ("k8s_node_cidr", &proxy.k8s_node_cidr),
    ];
    let hosts = hosts.map(|(name, hosts)| (name, hosts.as_deref()));
    let mut all = urls.into_iter().chain(hosts);
    match all.find(|(_, value)| value.is_some_and(|value| value.contains('\0'))) {
        None => Ok(()),
        Some((name, _)) => Err(bad(format!("`proxy.{name}` contains a NUL character"))),
    }
}

fn ignored(installation: &Installation) -> Vec<String> {
    let worker = installation
        .worker_node
        .as_ref()
        .map(|worker| &worker.other);
    let all = [&installation.other, &installation.master_node.other];
    let all = all.into_iter().chain(worker);
    let names = all.flat_map(|other| other.keys());
    names
        .filter(|name| !IGNORED_PARAMETERS.contains(&name.as_str()))
        .cloned()
        .collect()
}

fn secrets(installation: &Installation) -> Vec<Secret> {
    let (master, worker) = (&installation.master_node, &installation.worker_node);
    let of_master = [&master.password, &master.private_key];
    let of_worker = worker.iter();
    let of_worker = of_worker.flat_map(|worker| [&worker.password, &worker.private_key]);
    let all = of_master.into_iter().chain(of_worker);
    let mut all: Vec<Secret> = all.flatten().cloned().collect();
    all.extend(
        installation
            .external_etcd
            .iter()
            .map(|etcd| etcd.private_key.clone()),
    );
    let registry = installation.registry.as_ref();
    all.extend(registry.and_then(|registry| registry.password.clone()));
    let proxies = [
        &installation.proxy.http_proxy,
        &installation.proxy.https_proxy,
    ];
    all.extend(
        proxies
            .into_iter()
            .flatten()
            .filter(|url| url.reveal().contains('@'))
            .cloned(),
    );
    all
}

#[cfg(test)]
mod tests {
    use super::check_proxy;
    use crate::params::Proxy;
    use vnfm_plugin_sdk::Secret;

    #[test]
    fn a_proxy_with_a_nul_character_is_refused() {
        let proxy = |url: &str| Proxy {
            http_proxy: Some(Secret::new(url)),
            ..Proxy::default()
        };
        assert!(check_proxy(&proxy("http://192.0.2.1:3128 'x' \n")).is_ok());
        let refused = check_proxy(&proxy("http://192.0.2.1\0")).unwrap_err();
        assert!(
            refused.to_string().contains("`proxy.http_proxy`"),
            "{refused}"
        );
        let hosts = Proxy {
            no_proxy: Some("a\0b".into()),
            ..Proxy::default()
        };
        assert!(
            check_proxy(&hosts)
                .unwrap_err()
                .to_string()
                .contains("`proxy.no_proxy`")
        );
    }
}

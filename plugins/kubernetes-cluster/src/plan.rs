//! The target cluster: the role, node name and addresses of each server.

use crate::addons;
use crate::params::{AddOn, Installation, Proxy, SmokeTest};
use std::collections::BTreeMap;
use vnfm_plugin_sdk::prelude::*;

/// Default path of the network plugin's manifest in the package.
const CNI: &str = "Files/kubernetes/cni.yaml";
/// Default folder of Debian archives in the package.
const PACKAGES: &str = "Files/kubernetes/packages";
pub(crate) const API_PORT: u16 = 6443;
/// The step that runs the vendor's script.
pub(crate) const SCRIPT_STEP: &str = "script";
/// Parameters of Tacker's driver that have no effect here; they cause no warning.
const IGNORED_PARAMETERS: &[&str] = &["aspect_id"];

/// A server and its node.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    /// Id of the server's VNFC.
    pub(crate) vnfc: String,
    /// Id of the VNFC's VDU.
    pub(crate) vdu: String,
    /// Name of its node in the cluster.
    pub(crate) name: String,
    /// How to log in to the server.
    pub(crate) ssh: SshTarget,
    /// Address of its node in the cluster.
    pub(crate) address: String,
}

impl Node {
    /// The node name to use if another node already has `name`.
    pub(crate) fn unique_name(&self) -> String {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
        format!(
            "{}-{}",
            self.name,
            self.address.to_lowercase().replace(|c| !plain(c), "-")
        )
    }
}

/// The cluster to install, derived from request and inventory.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) instance: String,
    pub(crate) vim_name: String,
    /// The control-plane nodes in the order of their VNFCs; at least one.
    pub(crate) control_planes: Vec<Node>,
    pub(crate) workers: Vec<Node>,
    pub(crate) pod_cidr: String,
    pub(crate) service_cidr: String,
    /// Address of the API server for the nodes.
    pub(crate) api_address: String,
    /// Address of the API server for outside clients.
    pub(crate) external_address: String,
    pub(crate) proxy: Proxy,
    /// Paths in the package: this manifest, `images` and `packages`.
    pub(crate) cni: Option<String>,
    pub(crate) images: Vec<String>,
    pub(crate) packages: Vec<String>,
    pub(crate) addons: Vec<AddOn>,
    pub(crate) smoke_test: Option<SmokeTest>,
    script: Option<String>,
    ignored: Vec<String>,
    secrets: Vec<Secret>,
}

impl Plan {
    /// Plans the cluster from the request and the package's files.
    ///
    /// # Errors
    ///
    /// If a role has no server, an address is missing, or the package lacks a file that is needed.
    pub(crate) fn new<P>(
        request: &HookRequest<P>,
        installation: &Installation,
        artifacts: &[String],
    ) -> Result<Self, DriverError> {
        let (master, worker) = (&installation.master_node, &installation.worker_node);
        let masters = role(request, "master", master.vdu_id.as_deref())?;
        let [first] = masters.as_slice() else {
            return Err(bad(format!(
                "there are {} servers for the control plane; this driver supports one",
                masters.len()
            )));
        };
        let login = Login {
            cp: &master.ssh_cp_name,
            nic: master.nic_cp_name.as_deref(),
            username: &master.username,
            password: master.password.as_ref(),
            private_key: master.private_key.as_ref(),
            port: installation.ssh_port,
        };
        let worker_login = Login {
            cp: &worker.ssh_cp_name,
            nic: worker.nic_cp_name.as_deref(),
            username: &worker.username,
            password: worker.password.as_ref(),
            private_key: worker.private_key.as_ref(),
            port: installation.ssh_port,
        };
        let workers = role(request, "worker", worker.vdu_id.as_deref())?;
        let at = |cp: &Option<String>| first.address(cp.as_ref().unwrap_or(&master.ssh_cp_name));
        let api_address = at(&master.cluster_cp_name)?.to_owned();
        let external_address = match &master.cluster_fip_name {
            Some(cp) => first.address(cp)?.to_owned(),
            None => api_address.clone(),
        };
        let mut plan = Self {
            instance: request.instance.id.clone(),
            vim_name: installation
                .vim_name
                .clone()
                .unwrap_or_else(|| format!("kubernetes_vim_{}", request.instance.id)),
            control_planes: vec![login.node(first)?],
            workers: workers
                .iter()
                .map(|vnfc| worker_login.node(vnfc))
                .collect::<Result<_, _>>()?,
            pod_cidr: master.pod_cidr.clone(),
            service_cidr: master.cluster_cidr.clone(),
            api_address,
            external_address,
            proxy: installation.proxy.clone(),
            cni: None,
            images: Vec::new(),
            packages: Vec::new(),
            addons: installation.addons.clone(),
            smoke_test: installation.smoke_test.clone(),
            script: None,
            ignored: ignored(installation),
            secrets: secrets(installation),
        };
        check_proxy(&plan.proxy)?;
        plan.find_files(installation, artifacts)?;
        plan.deduplicate_names();
        Ok(plan)
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
        addons::check(&self.addons, artifacts)?;
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
        with_port(&self.api_address)
    }

    /// URL of the API server for outside clients.
    pub(crate) fn url(&self) -> String {
        format!("https://{}", with_port(&self.external_address))
    }

    /// Values to hide in errors.
    pub(crate) fn secrets(&self) -> &[Secret] {
        &self.secrets
    }

    /// The control-plane node on which the cluster is initialized.
    pub(crate) fn first_control_plane(&self) -> &Node {
        &self.control_planes[0]
    }

    /// The control-plane nodes, then the workers.
    pub(crate) fn nodes(&self) -> impl Iterator<Item = &Node> {
        self.control_planes.iter().chain(&self.workers)
    }
}

fn with_port(address: &str) -> String {
    if address.contains(':') {
        format!("[{address}]:{API_PORT}")
    } else {
        format!("{address}:{API_PORT}")
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

fn bad(detail: String) -> DriverError {
    DriverError::new("bad-parameters", detail).phase("preflight")
}

/// The servers of a role: those of `vdu`, or else of the VDUs whose name starts with the role. There may be none if the
/// flavour has such a VDU, which is scaled to zero.
fn role<'a, P>(
    request: &'a HookRequest<P>,
    role: &str,
    vdu: Option<&str>,
) -> Result<Vec<&'a Vnfc>, DriverError> {
    let has_role = |id: &str| match vdu {
        Some(vdu) => id == vdu,
        None => id.to_lowercase().starts_with(role),
    };
    let found = request.vnfcs().iter().filter(|vnfc| has_role(&vnfc.vdu_id));
    let found: Vec<_> = found.collect();
    if found.is_empty() && !request.instance.vdus.iter().any(|vdu| has_role(vdu)) {
        let known: Vec<_> = request
            .vnfcs()
            .iter()
            .map(|vnfc| vnfc.vdu_id.as_str())
            .collect();
        return Err(bad(format!(
            "no server has the role `{role}`: name its VDU in `{role}_node.vdu_id`; the servers belong to the VDUs {known:?}"
        )));
    }
    Ok(found)
}

/// The login for the servers of one role.
struct Login<'a> {
    cp: &'a str,
    nic: Option<&'a str>,
    username: &'a str,
    password: Option<&'a Secret>,
    private_key: Option<&'a Secret>,
    port: Option<u16>,
}

impl Login<'_> {
    fn node(&self, vnfc: &Vnfc) -> Result<Node, DriverError> {
        let mut ssh = vnfc
            .ssh(self.cp, self.username)?
            .port(self.port.unwrap_or(22));
        ssh.password = self.password.cloned();
        ssh.private_key = self.private_key.cloned();
        if ssh.password.is_none() && ssh.private_key.is_none() {
            let detail = format!(
                "neither `password` nor `private_key` is given for `{}`",
                self.username
            );
            return Err(bad(detail).host(vnfc.name()));
        }
        let address = vnfc.address(self.nic.unwrap_or(self.cp))?.to_owned();
        let (id, vdu) = (vnfc.id.clone(), vnfc.vdu_id.clone());
        Ok(Node {
            vnfc: id,
            vdu,
            name: node_name(vnfc),
            ssh,
            address,
        })
    }
}

/// The server's name as a valid Kubernetes name.
fn node_name(vnfc: &Vnfc) -> String {
    let name = vnfc.name().to_lowercase();
    let name = name.replace(
        |c: char| !c.is_ascii_alphanumeric() && c != '-' && c != '.',
        "-",
    );
    let cut: String = name.chars().take(40).collect();
    match cut.trim_matches(['-', '.']) {
        "" => format!("node-{}", vnfc.id.to_lowercase()),
        name => name.to_owned(),
    }
}

fn ignored(installation: &Installation) -> Vec<String> {
    let all = [
        &installation.other,
        &installation.master_node.other,
        &installation.worker_node.other,
    ];
    let names = all.into_iter().flat_map(|other| other.keys());
    names
        .filter(|name| !IGNORED_PARAMETERS.contains(&name.as_str()))
        .cloned()
        .collect()
}

fn secrets(installation: &Installation) -> Vec<Secret> {
    let (master, worker) = (&installation.master_node, &installation.worker_node);
    let all = [
        &master.password,
        &master.private_key,
        &worker.password,
        &worker.private_key,
    ];
    let mut all: Vec<Secret> = all.into_iter().flatten().cloned().collect();
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

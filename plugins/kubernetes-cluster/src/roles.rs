//! Which servers are control-plane nodes and which are workers, and how to log in to them.

use crate::node::{Node, bad};
use crate::params::{Installation, MasterNode, Taint, WorkerNode};
use std::collections::BTreeMap;
use vnfm_plugin_sdk::prelude::*;

/// Domains whose labels kubelets and cloud controllers set; a kubelet does not start with others of them.
const KUBERNETES_DOMAINS: &[&str] = &["kubernetes.io", "k8s.io"];
/// Maximum length of a label's value, and of the part of its key after the domain.
const MAX_LABEL: usize = 63;

/// The control-plane nodes, in the order of their VNFCs.
///
/// # Errors
///
/// If no server has the role, or an address is missing.
pub(crate) fn control_planes<P>(
    request: &HookRequest<P>,
    installation: &Installation,
) -> Result<Vec<Node>, DriverError> {
    let master = &installation.master_node;
    let servers = role(request, "master", master.vdu_id.as_deref())?;
    if servers.is_empty() {
        return Err(bad(
            "there is no server for the control plane: its VDU needs at least one instance".into(),
        ));
    }
    let login = Login::of_control_plane(master, installation.ssh_port);
    // The kubelet's taint for control-plane nodes would keep all pods away.
    let taints = installation.worker_node.is_none().then(Vec::new);
    let nodes = servers.into_iter().map(|vnfc| {
        let node = login.node(vnfc)?;
        let taints = taints.clone();
        Ok(Node { taints, ..node })
    });
    nodes.collect()
}

/// The workers of all groups, in the order of their VNFCs within a group.
///
/// # Errors
///
/// If a group's VDU does not exist, an address is missing, or a label or taint is invalid.
pub(crate) fn workers<P>(
    request: &HookRequest<P>,
    installation: &Installation,
) -> Result<Vec<Node>, DriverError> {
    let Some(worker) = &installation.worker_node else {
        return match installation.worker_groups.first() {
            None => Ok(Vec::new()),
            Some(group) => Err(bad(format!(
                "`worker_groups` has `{}`, but there is no `worker_node` with its login",
                group.vdu_id
            ))),
        };
    };
    let login = Login::of_worker(worker, installation.ssh_port);
    let servers = role(request, "worker", worker.vdu_id.as_deref())?;
    let grouped = |vnfc: &&Vnfc| {
        let mut groups = installation.worker_groups.iter();
        groups.any(|group| group.vdu_id == vnfc.vdu_id)
    };
    let mut nodes = Vec::new();
    let mut add = |servers: Vec<&Vnfc>, login: &Login<'_>, group: Group<'_>| {
        group.check()?;
        for vnfc in servers {
            nodes.push(group.node(login.node(vnfc)?));
        }
        Ok::<_, DriverError>(())
    };
    let plain = servers.into_iter().filter(|vnfc| !grouped(vnfc)).collect();
    add(plain, &login, Group(&worker.labels, &worker.taints))?;
    for group in &installation.worker_groups {
        let servers = role(request, "worker", Some(&group.vdu_id))?;
        let (cp, nic) = (group.ssh_cp_name.as_str(), group.nic_cp_name.as_deref());
        let login = Login { cp, nic, ..login };
        add(servers, &login, Group(&group.labels, &group.taints))?;
    }
    Ok(nodes)
}

/// The labels and taints of a group of workers.
struct Group<'a>(&'a BTreeMap<String, String>, &'a [Taint]);

impl Group<'_> {
    fn node(&self, node: Node) -> Node {
        let labels = self.0.clone();
        let taints = (!self.1.is_empty()).then(|| self.1.to_vec());
        Node {
            labels,
            taints,
            ..node
        }
    }

    /// Refuses what the kubelet or the API server would.
    fn check(&self) -> Result<(), DriverError> {
        for (key, value) in self.0 {
            if !is_key(key) || !is_value(value) {
                return Err(bad(format!(
                    "`{key}={value}` is not a label of Kubernetes: letters, digits, `-`, `_` and `.`, at most 63, \
                     the key optionally after a domain and `/`"
                )));
            }
            if is_kubernetes(key) {
                return Err(bad(format!(
                    "the label `{key}` is in Kubernetes' own domain, which a kubelet may not set: use another domain"
                )));
            }
        }
        let invalid = |taint: &&Taint| !is_key(&taint.key) || !is_value(&taint.value);
        match self.1.iter().find(invalid) {
            None => Ok(()),
            Some(taint) => Err(bad(format!(
                "`{}={}` is not a taint of Kubernetes",
                taint.key, taint.value
            ))),
        }
    }
}

fn is_value(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    text.is_empty()
        || (text.len() <= MAX_LABEL
            && text.chars().all(plain)
            && !text.starts_with(['-', '_', '.'])
            && !text.ends_with(['-', '_', '.']))
}

fn is_key(text: &str) -> bool {
    let (domain, name) = text.split_once('/').unwrap_or(("x", text));
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    !name.is_empty() && is_value(name) && !domain.is_empty() && domain.chars().all(plain)
}

/// Whether a label is in a domain of Kubernetes' own.
pub(crate) fn is_kubernetes(label: &str) -> bool {
    let domain = label.split_once('/').map_or("", |(domain, _)| domain);
    KUBERNETES_DOMAINS.iter().any(|suffix| {
        let rest = domain.strip_suffix(suffix);
        rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
    })
}

/// Whether the VNFCs of a VDU are control-plane nodes.
pub(crate) fn is_control_plane(installation: &Installation, vdu: &str) -> bool {
    has_role(vdu, "master", installation.master_node.vdu_id.as_deref())
}

fn has_role(id: &str, role: &str, vdu: Option<&str>) -> bool {
    match vdu {
        Some(vdu) => id == vdu,
        None => id.to_lowercase().starts_with(role),
    }
}

/// The servers of a role: those of `vdu`, or else of the VDUs whose name starts with the role. There may be none if the
/// flavour has such a VDU, which is scaled to zero.
fn role<'a, P>(
    request: &'a HookRequest<P>,
    role: &str,
    vdu: Option<&str>,
) -> Result<Vec<&'a Vnfc>, DriverError> {
    let has_role = |id: &str| has_role(id, role, vdu);
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
#[derive(Clone, Copy)]
struct Login<'a> {
    cp: &'a str,
    nic: Option<&'a str>,
    username: &'a str,
    password: Option<&'a Secret>,
    private_key: Option<&'a Secret>,
    port: Option<u16>,
}

impl<'a> Login<'a> {
    fn of_control_plane(master: &'a MasterNode, port: Option<u16>) -> Self {
        Self {
            cp: &master.ssh_cp_name,
            nic: master.nic_cp_name.as_deref(),
            username: &master.username,
            password: master.password.as_ref(),
            private_key: master.private_key.as_ref(),
            port,
        }
    }

    fn of_worker(worker: &'a WorkerNode, port: Option<u16>) -> Self {
        Self {
            cp: &worker.ssh_cp_name,
            nic: worker.nic_cp_name.as_deref(),
            username: &worker.username,
            password: worker.password.as_ref(),
            private_key: worker.private_key.as_ref(),
            port,
        }
    }

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
            labels: BTreeMap::new(),
            taints: None,
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

#[cfg(test)]
mod tests {
    use super::{Group, is_kubernetes};
    use crate::params::{Taint, TaintEffect};
    use std::collections::BTreeMap;

    #[test]
    fn labels_that_a_kubelet_rejects_are_refused() {
        let table = [
            ("disk", "fast", true),
            ("example.com/disk", "", true),
            ("example.com/disk", "a,b=c", false),
            ("disk=x,evil", "y", false),
            ("-disk", "x", false),
            ("/disk", "x", false),
            ("node-role.kubernetes.io/gpu", "", false),
        ];
        for (key, value, expected) in table {
            let labels = BTreeMap::from([(key.to_owned(), value.to_owned())]);
            assert_eq!(
                Group(&labels, &[]).check().is_ok(),
                expected,
                "{key}={value}"
            );
        }
        let taint = Taint {
            key: "gpu key".into(),
            value: String::new(),
            effect: TaintEffect::NoSchedule,
        };
        assert!(Group(&BTreeMap::new(), &[taint]).check().is_err());
        assert!(is_kubernetes("k8s.io/x") && !is_kubernetes("notk8s.io/x"));
    }
}

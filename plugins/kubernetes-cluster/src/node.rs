//! A server of the VNF as a node of the cluster, and what else the parts of a plan share.

use crate::params::Taint;
use std::collections::BTreeMap;
use vnfm_plugin_sdk::prelude::*;

pub(crate) const API_PORT: u16 = 6443;

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
    /// Labels that its kubelet sets.
    pub(crate) labels: BTreeMap<String, String>,
    /// Taints with which it joins; `None`: kubeadm's default.
    pub(crate) taints: Option<Vec<Taint>>,
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

/// `HOST:PORT`, with an IPv6 address in brackets.
pub(crate) fn with_port(host: &str, port: u16) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

pub(crate) fn bad(detail: String) -> DriverError {
    DriverError::new("bad-parameters", detail).phase("preflight")
}

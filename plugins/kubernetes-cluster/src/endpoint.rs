//! The address of the API server, and what serves it on the control-plane nodes.
//!
//! | provider | what is on each control-plane node |
//! |---|---|
//! | none | nothing: the address is the only node's own |
//! | `haproxy_keepalived` | keepalived gives the address to one node; HAProxy there forwards to a Ready API server |
//! | `kube_vip` | a static pod, which gives the address to one node |
//! | `external` | nothing: a load balancer of the operator or of the stack has the address |
//!
//! An address can be an output of the stack. `instantiate_start` runs before there is a stack, and leaves such an address unchecked;
//! every other hook reads it from the stack.

use crate::node::{API_PORT, bad};
use crate::outputs::{output_of, text_of};
use crate::params::{ControlPlaneEndpoint, EndpointProvider, Installation};
use std::borrow::Cow;
use std::net::IpAddr;
use vnfm_plugin_sdk::prelude::*;

/// HAProxy's port, unless the request has another: the API server of the node has 6443.
const HAPROXY_PORT: u16 = 16443;
/// The address of the API server.
#[derive(Debug, Clone)]
pub(crate) struct Endpoint {
    /// Address for the nodes.
    pub(crate) address: String,
    /// Address for outside clients.
    pub(crate) external_address: String,
    pub(crate) port: u16,
    pub(crate) provider: Provider,
}

/// What serves the address.
#[derive(Debug, Clone)]
pub(crate) enum Provider {
    /// The only control-plane node itself.
    Node,
    External,
    Haproxy {
        interface: Option<String>,
        router_id: u8,
    },
    KubeVip {
        interface: Option<String>,
        image: String,
    },
}

impl Endpoint {
    /// The endpoint that the request wants; `first` is the first control-plane node.
    ///
    /// # Errors
    ///
    /// If the parameters are invalid, or a connection point has no address.
    pub(crate) fn new(
        installation: &Installation,
        first: Option<&Vnfc>,
    ) -> Result<Self, DriverError> {
        if let Some(wanted) = &installation.control_plane_endpoint {
            return Self::shared(wanted);
        }
        let master = &installation.master_node;
        let first = first.ok_or_else(|| bad("there is no control-plane node".into()))?;
        let cp = master
            .cluster_cp_name
            .as_ref()
            .unwrap_or(&master.ssh_cp_name);
        let address = first.address(cp)?.to_owned();
        let external_address = match &master.cluster_fip_name {
            Some(cp) => first.address(cp)?.to_owned(),
            None => address.clone(),
        };
        Ok(Self {
            address,
            external_address,
            port: API_PORT,
            provider: Provider::Node,
        })
    }

    /// The endpoint with an address that is not one node's own.
    ///
    /// # Errors
    ///
    /// If a parameter is invalid.
    pub(crate) fn shared(wanted: &ControlPlaneEndpoint) -> Result<Self, DriverError> {
        let refused = |what: &str| Err(bad(format!("`control_plane_endpoint.{what}")));
        let is_external = wanted.provider == EndpointProvider::External;
        let is_known_later = |text: &str| is_ip(text) || output_of(text).is_some();
        let is_usable =
            is_known_later(&wanted.address) || (is_external && is_host_name(&wanted.address));
        if !is_usable {
            return refused("address` is not an IP address");
        }
        let external = wanted.external_address.as_ref().unwrap_or(&wanted.address);
        if !is_known_later(external) && !is_host_name(external) {
            return refused("external_address` is neither an IP address nor a host name");
        }
        let interface = wanted.interface.clone();
        if interface.as_ref().is_some_and(|name| !is_interface(name)) {
            return refused("interface` is not the name of a network interface");
        }
        let provider = match wanted.provider {
            EndpointProvider::External => Provider::External,
            EndpointProvider::HaproxyKeepalived => Provider::Haproxy {
                interface,
                router_id: wanted.virtual_router_id.max(1),
            },
            EndpointProvider::KubeVip => match &wanted.image {
                Some(image) => Provider::KubeVip {
                    interface,
                    image: image.clone(),
                },
                None => return refused("image` must name kube-vip's image"),
            },
        };
        let usual = match provider {
            Provider::Haproxy { .. } => HAPROXY_PORT,
            _ => API_PORT,
        };
        let port = wanted.port.unwrap_or(usual);
        if matches!(provider, Provider::Haproxy { .. }) && port == API_PORT {
            return refused("port` cannot be 6443: HAProxy shares its nodes with the API servers");
        }
        Ok(Self {
            address: wanted.address.clone(),
            external_address: external.clone(),
            port,
            provider,
        })
    }

    /// Whether the address is that of the only control-plane node, so that there cannot be a second one.
    pub(crate) fn is_node(&self) -> bool {
        matches!(self.provider, Provider::Node)
    }

    pub(crate) fn is_haproxy(&self) -> bool {
        matches!(self.provider, Provider::Haproxy { .. })
    }

    pub(crate) fn is_kube_vip(&self) -> bool {
        matches!(self.provider, Provider::KubeVip { .. })
    }
}

/// The installation with the addresses of its endpoint that are outputs of the stack.
///
/// # Errors
///
/// `bad-parameters` for an output that the stack does not have, or that is no address; the VIM's, if it does not give the outputs.
pub(crate) async fn with_outputs<'a>(
    cx: &HookContext,
    installation: &'a Installation,
) -> Result<Cow<'a, Installation>, DriverError> {
    let endpoint = installation.control_plane_endpoint.as_ref();
    if !endpoint.is_some_and(ControlPlaneEndpoint::names_outputs) {
        return Ok(Cow::Borrowed(installation));
    }
    let outputs = cx.outputs().await?;
    let mut installation = installation.clone();
    let endpoint = installation.control_plane_endpoint.as_mut();
    for (member, address) in endpoint.into_iter().flat_map(ControlPlaneEndpoint::outputs) {
        let name = output_of(address).unwrap_or_default().to_owned();
        let refused = |what| bad(format!("`control_plane_endpoint.{member}`: {what}"));
        let text = text_of(&outputs, &name).map_err(refused)?;
        if !is_ip(&text) && !is_host_name(&text) {
            return Err(refused(format!(
                "the output `{name}` is `{text}`, which is not an address"
            )));
        }
        *address = text;
    }
    Ok(Cow::Owned(installation))
}

impl ControlPlaneEndpoint {
    fn names_outputs(&self) -> bool {
        let addresses = [Some(&self.address), self.external_address.as_ref()];
        let mut addresses = addresses.into_iter().flatten();
        addresses.any(|address| output_of(address).is_some())
    }

    /// The addresses that are outputs of the stack, with the names of their members.
    fn outputs(&mut self) -> impl Iterator<Item = (&'static str, &mut String)> {
        let address = Some(("address", &mut self.address));
        let outside = self.external_address.as_mut();
        let outside = outside.map(|address| ("external_address", address));
        let all = [address, outside].into_iter().flatten();
        all.filter(|(_, address)| output_of(address).is_some())
    }
}

fn is_ip(text: &str) -> bool {
    text.parse::<IpAddr>().is_ok()
}

fn is_host_name(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-.".contains(c);
    !text.is_empty() && text.len() <= 253 && text.chars().all(plain)
}

pub(crate) fn is_interface(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-._@".contains(c);
    !text.is_empty() && text.len() <= 15 && text.chars().all(plain)
}

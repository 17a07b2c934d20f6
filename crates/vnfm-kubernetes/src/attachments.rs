//! Which networks the pods of a VNF are attached to, as package and request say.
//!
//! | connection point | network |
//! |---|---|
//! | a CP that the request connects (`extVirtualLinks`) | its `resourceId`: `NAMESPACE/NAME` or `NAME` of a `NetworkAttachmentDefinition` |
//! | a CP on an internal link that the request or the grant names (`extManagedVirtualLinks`) | the same |
//! | a CP on an internal link that has the name of a `NetworkAttachmentDefinition` of the package | that one |
//! | an external connection point of an ASD | as the request connects it: [`crate::asd_networks`] |
//! | the first other CP of a VDU | the pod's own interface, on the network of the cluster |
//!
//! All pods of a workload have one template: so a fixed address needs a workload with one pod.

use crate::asd_networks;
use crate::errors::LINK;
use crate::network_annotations::{NetworkName, ip_address};
use crate::requested;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::Deployment;
use vnfm_core::ports::{Allocation, PortError};
use vnfm_descriptor::Flavour;
use vnfm_types::{CpProtocolData, ExtVirtualLinkData, VnfExtCpConfig};

/// The networks of the package: the namespace of each `NetworkAttachmentDefinition`, if it is stated, by its name.
pub(crate) type OwnNetworks = BTreeMap<String, Option<String>>;

/// A connection point of pods, and its network.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attachment {
    /// Name of the `VduCp`, or identifier of the ASD's connection point.
    pub(crate) cpd: String,
    pub(crate) pods: Pods,
    pub(crate) network: NetworkName,
    pub(crate) link: Link,
    /// Order among the connection points of its pods.
    pub(crate) position: usize,
    /// Fixed addresses, with or without a prefix length.
    pub(crate) ips: Vec<String>,
    pub(crate) mac: Option<String>,
    /// Whether the values of a chart request the network, not we.
    pub(crate) by_chart: bool,
}

/// The pods that have a connection point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Pods {
    /// Those of a VDU.
    Vdu(String),
    /// Those of a workload, by its name.
    Workload(String),
    /// All that request the network.
    Any,
}

/// The virtual link of a connection point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Link {
    /// `extVirtualLinks[].id`, and the key of the configuration.
    External { id: String, config: String },
    /// The `VnfVirtualLink` whose network the request or the grant names.
    Managed(String),
    /// The `VnfVirtualLink` whose network the package brings.
    Internal(String),
}

/// What the request says about a connection point.
pub(crate) struct Binding<'a> {
    pub(crate) link: &'a ExtVirtualLinkData,
    /// The key of its configuration; the name of the CP if it has no configuration.
    pub(crate) config: String,
    pub(crate) ips: Vec<String>,
    pub(crate) mac: Option<String>,
}

impl Binding<'_> {
    /// The network that the link names.
    ///
    /// # Errors
    ///
    /// `Refused`: no `NetworkAttachmentDefinition` can have that name.
    pub(crate) fn network(&self) -> Result<NetworkName, PortError> {
        let id = &self.link.resource_id;
        NetworkName::parse(id).ok_or_else(|| {
            let link = &self.link.id;
            link_error(link, format!("its `resourceId` `{id}` {NOT_A_NETWORK}"))
        })
    }

    pub(crate) fn attachment(&self, cpd: &str, pods: Pods) -> Result<Attachment, PortError> {
        Ok(Attachment {
            cpd: cpd.to_owned(),
            pods,
            network: self.network()?,
            link: Link::External {
                id: self.link.id.clone(),
                config: self.config.clone(),
            },
            position: 0,
            ips: self.ips.clone(),
            mac: self.mac.clone(),
            by_chart: false,
        })
    }
}

const NOT_A_NETWORK: &str =
    "cannot be a NetworkAttachmentDefinition: name it as `NAMESPACE/NAME` or `NAME`";

/// The attachments of an instance; `own` are the networks that its package brings.
///
/// # Errors
///
/// `Refused`, naming the link or the connection point that pods cannot have.
pub(crate) fn attachments(
    allocation: &Allocation,
    own: &OwnNetworks,
) -> Result<Vec<Attachment>, PortError> {
    let deployment = &allocation.deployment;
    if let Some(asd) = allocation.package.asd() {
        return asd_networks::attachments(asd, deployment);
    }
    let Some(flavour) = requested::flavour(allocation) else {
        return Ok(Vec::new());
    };
    check_known(&flavour, deployment)?;
    let mut found = Vec::new();
    for vdu in flavour.vdus.keys() {
        for (position, cp) in flavour.cps_of(vdu).into_iter().enumerate() {
            let bound = match bindings(deployment, &cp.name)?.as_slice() {
                [] => internal(deployment, (vdu, &cp.name), cp.virtual_link.as_deref(), own)?,
                [one] => Some(one.attachment(&cp.name, Pods::Vdu(vdu.clone()))?),
                [one, two, ..] => return Err(bound_twice(&cp.name, one, two)),
            };
            found.extend(bound.map(|one| Attachment { position, ..one }));
        }
    }
    Ok(found)
}

/// The attachment of a CP to an internal link that has a network.
fn internal(
    deployment: &Deployment,
    (vdu, cpd): (&str, &str),
    link: Option<&str>,
    own: &OwnNetworks,
) -> Result<Option<Attachment>, PortError> {
    let Some(link) = link else { return Ok(None) };
    let managed = deployment.placement.managed_links.get(link);
    let (network, link) = match (managed, own.get(link)) {
        (Some(id), _) => {
            let network = NetworkName::parse(id)
                .ok_or_else(|| link_error(link, format!("its network `{id}` {NOT_A_NETWORK}")))?;
            (network, Link::Managed(link.to_owned()))
        }
        (None, Some(namespace)) => {
            let (namespace, name) = (namespace.clone(), link.to_owned());
            let network = NetworkName { namespace, name };
            (network, Link::Internal(link.to_owned()))
        }
        (None, None) => return Ok(None),
    };
    Ok(Some(Attachment {
        cpd: cpd.to_owned(),
        pods: Pods::Vdu(vdu.to_owned()),
        network,
        link,
        position: 0,
        ips: Vec::new(),
        mac: None,
        by_chart: false,
    }))
}

/// The CPs of VDUs, beyond the first of each, that nothing attaches to a network: they have no interface.
pub(crate) fn unattached<'f>(flavour: &'f Flavour, attached: &[Attachment]) -> Vec<&'f str> {
    let attached: BTreeSet<&str> = attached.iter().map(|one| one.cpd.as_str()).collect();
    let of_vdu = |vdu| {
        let cps = flavour.cps_of(vdu).into_iter();
        let mut open = cps.map(|cp| cp.name.as_str());
        let is_open = |name: &&str| !attached.contains(name);
        let first = open.find(is_open); // the pod's own interface
        open.filter(move |name| first.is_some() && is_open(name))
            .collect::<Vec<_>>()
    };
    flavour.vdus.keys().flat_map(|vdu| of_vdu(vdu)).collect()
}

/// What the request says about a connection point, for each link that names it.
///
/// # Errors
///
/// `Refused`: a configuration that pods cannot have.
pub(crate) fn bindings<'a>(
    deployment: &'a Deployment,
    cpd: &str,
) -> Result<Vec<Binding<'a>>, PortError> {
    let mut found = Vec::new();
    for link in &deployment.ext_virtual_links {
        for data in link.ext_cps.iter().filter(|data| data.cpd_id == cpd) {
            let empty = || Binding {
                link,
                config: cpd.to_owned(),
                ips: Vec::new(),
                mac: None,
            };
            let mut read = Vec::new();
            for (key, config) in &data.cp_config {
                let Some(config) = config else { continue };
                let mut binding = empty();
                binding.config.clone_from(key);
                read_config(&mut binding, config).map_err(|what| cp_error(cpd, what))?;
                read.push(binding);
            }
            let mut read = read.into_iter();
            let binding = match read.next() {
                Some(first) => first,
                None if data.cp_config.is_empty() => empty(),
                None => continue, // all of them were removed
            };
            if read.any(|other| !other.ips.is_empty() || other.mac.is_some()) {
                let what = "only its first configuration can have addresses: all pods of a workload have the same";
                return Err(cp_error(cpd, what));
            }
            found.push(binding);
        }
    }
    Ok(found)
}

/// Reads the addresses of a configuration; an error says what pods cannot have.
fn read_config(binding: &mut Binding<'_>, config: &VnfExtCpConfig) -> Result<(), String> {
    let VnfExtCpConfig {
        parent_cp_config_id,
        link_port_id,
        create_ext_link_port: _,
        cp_protocol_data,
    } = config;
    if let Some(port) = link_port_id {
        return Err(format!(
            "pods use no existing ports, and it names `{port}` (`linkPortId`)"
        ));
    }
    if parent_cp_config_id.is_some() {
        return Err("pods have no trunks with subports (`parentCpConfigId`)".to_owned());
    }
    cp_protocol_data
        .iter()
        .try_for_each(|data| read_protocol(binding, data))
}

fn read_protocol(binding: &mut Binding<'_>, data: &CpProtocolData) -> Result<(), String> {
    let Some(ethernet) = &data.ip_over_ethernet else {
        return Ok(());
    };
    if let Some(mac) = &ethernet.mac_address {
        let is_pair = |pair: &str| pair.len() == 2 && u8::from_str_radix(pair, 16).is_ok();
        if !(mac.split(':').count() == 6 && mac.split(':').all(is_pair)) {
            return Err(format!("`{mac}` is no MAC address"));
        }
        binding.mac = Some(mac.clone());
    }
    for addresses in &ethernet.ip_addresses {
        if addresses.address_range.is_some() || addresses.subnet_id.is_some() {
            let what = "its network decides about ranges and subnets (`addressRange`, `subnetId`)";
            return Err(what.to_owned());
        }
        for address in &addresses.fixed_addresses {
            if ip_address(address).is_none() {
                return Err(format!("`{address}` is no IP address"));
            }
            binding.ips.push(address.clone());
        }
    }
    Ok(())
}

/// Refuses links with connection points that the flavour does not have.
fn check_known(flavour: &Flavour, deployment: &Deployment) -> Result<(), PortError> {
    let mut external = flavour.external_cps.iter().map(|cp| cp.cpd_id.as_str());
    let known: BTreeSet<&str> = flavour
        .cps
        .keys()
        .map(String::as_str)
        .chain(external.clone())
        .collect();
    for link in &deployment.ext_virtual_links {
        let named = link.ext_cps.iter().map(|data| data.cpd_id.as_str());
        let unknown: Vec<&str> = named.filter(|cpd| !known.contains(cpd)).collect();
        if unknown.is_empty() {
            continue;
        }
        let unknown = unknown.join("`, `");
        let what = format!(
            "flavour `{}` has no connection point `{unknown}`",
            flavour.id
        );
        let hint = match external.next() {
            None => "it has none that can be connected: leave out `extVirtualLinks`".to_owned(),
            Some(first) => {
                let all: Vec<&str> = std::iter::once(first).chain(external).collect();
                format!("its external ones are: {}", all.join(", "))
            }
        };
        return Err(link_error(&link.id, what).hint(hint));
    }
    Ok(())
}

fn bound_twice(cpd: &str, one: &Binding<'_>, two: &Binding<'_>) -> PortError {
    let (one, two) = (&one.link.id, &two.link.id);
    cp_error(
        cpd,
        format!("it is connected twice, to `{one}` and to `{two}`"),
    )
}

/// The error that a connection point cannot be connected as the request says.
pub(crate) fn cp_error(cpd: &str, what: impl Into<String>) -> PortError {
    let action = format!("connect the connection point `{cpd}`");
    PortError::new(&LINK, action, what).on(format!("extVirtualLinks: {cpd}"))
}

fn link_error(link: &str, what: impl Into<String>) -> PortError {
    PortError::new(&LINK, format!("connect the virtual link `{link}`"), what)
        .on(format!("extVirtualLinks: {link}"))
}

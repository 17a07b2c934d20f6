//! The leases of an instance in SOL003's terms.

use crate::facts::Facts;
use crate::host_inventory::InventoryHost;
use crate::members::{Handle, Member, present};
use crate::requirements::{flavour, is_external, network_of};
use crate::survey::Survey;
use serde_json::json;
use vnfm_core::Deployment;
use vnfm_core::ports::{Allocation, Inventory, Ownership, PortError, Recorded};
use vnfm_descriptor::Cp;
use vnfm_types::{
    CpProtocolInfo, ExtLinkPortInfo, ExtVirtualLinkInfo, IpAddressesInfo,
    IpOverEthernetAddressInfo, KeyValuePairs, ResourceHandle, VnfExtCpInfo, VnfcCpInfo,
    VnfcResourceInfo,
};

/// `vimLevelResourceType` of a host.
pub(crate) const HOST: &str = "VNFM::Hosts::Host";

/// Records the VNFCs of an instance; `lost` are hosts whose lease may still exist.
pub(crate) fn record(
    survey: &Survey,
    owner: &Ownership,
    (what, vim): (&Allocation, &str),
    handle: &Handle,
) -> Result<Recorded, PortError> {
    let members = present(survey, owner, handle);
    let flavour = flavour(what)?;
    let deployment = &*what.deployment;
    let mut inventory = Inventory {
        ext_virtual_link_info: deployment
            .ext_virtual_links
            .iter()
            .map(|link| ExtVirtualLinkInfo {
                id: link.id.clone(),
                resource_handle: resource(vim, &link.resource_id, "VNFM::Hosts::Network"),
                ext_link_ports: Vec::new(),
                current_vnf_ext_cp_data: link.ext_cps.clone(),
            })
            .collect(),
        ..Inventory::default()
    };
    for member in &members {
        let Some(one) = survey.host(&member.host) else {
            continue;
        };
        let facts = one.state.as_ref().ok().map(|state| &state.facts);
        let mut vnfc = vnfc(member, (&one.host, facts), vim);
        for cp in flavour.cps_of(&member.vdu) {
            let entry = Port {
                member,
                cp,
                host: &one.host,
                vim,
            };
            let mut info = entry.vnfc_cp(deployment);
            if is_external(cp) {
                entry.add_external(deployment, &mut inventory, &mut info);
            }
            vnfc.vnfc_cp_info.push(info);
        }
        inventory.vnfc_resource_info.push(vnfc);
    }
    let handle = Handle {
        hosts: members,
        lost: handle.lost.clone(),
    };
    Ok(Recorded {
        handle: json!(handle),
        inventory,
        ..Recorded::default()
    })
}

fn resource(vim: &str, id: &str, kind: &str) -> ResourceHandle {
    ResourceHandle {
        vim_connection_id: Some(vim.to_owned()),
        resource_provider_id: None,
        resource_id: id.to_owned(),
        vim_level_resource_type: Some(kind.to_owned()),
    }
}

fn vnfc(
    member: &Member,
    (host, facts): (&InventoryHost, Option<&Facts>),
    vim: &str,
) -> VnfcResourceInfo {
    let mut metadata = KeyValuePairs::new();
    metadata.insert("name".into(), json!(member.host));
    metadata.extend(
        host.entry
            .zone
            .as_ref()
            .map(|zone| ("zone".to_owned(), json!(zone))),
    );
    if !host.entry.labels.is_empty() {
        metadata.insert("labels".into(), json!(host.entry.labels));
    }
    match facts {
        Some(facts) => metadata.extend([
            ("cpus".to_owned(), json!(facts.cpus)),
            ("memoryMib".to_owned(), json!(facts.memory_kib / 1024)),
            ("architecture".to_owned(), json!(facts.architecture)),
            ("nics".to_owned(), json!(facts.nics)),
        ]),
        None => _ = metadata.insert("unresponsive".into(), json!(true)),
    }
    VnfcResourceInfo {
        id: member.vnfc.clone(),
        vdu_id: member.vdu.clone(),
        compute_resource: resource(vim, &member.host, HOST),
        metadata,
        ..VnfcResourceInfo::default()
    }
}

/// A connection point of a VNFC.
struct Port<'a> {
    member: &'a Member,
    cp: &'a Cp,
    host: &'a InventoryHost,
    vim: &'a str,
}

impl Port<'_> {
    fn id(&self) -> String {
        format!("{}/{}", self.member.vnfc, self.cp.name)
    }

    /// The host's address on the network of the connection point.
    fn addresses(&self, deployment: &Deployment) -> Vec<CpProtocolInfo> {
        let network = network_of(self.cp, deployment).unwrap_or_default();
        let Some(address) = self.host.address_on(network) else {
            return Vec::new();
        };
        let type_ = if address.contains(':') {
            "IPV6"
        } else {
            "IPV4"
        };
        let addresses = IpAddressesInfo {
            type_: type_.to_owned(),
            addresses: vec![address.to_owned()],
            ..IpAddressesInfo::default()
        };
        vec![CpProtocolInfo {
            layer_protocol: "IP_OVER_ETHERNET".to_owned(),
            ip_over_ethernet: Some(IpOverEthernetAddressInfo {
                ip_addresses: vec![addresses],
                ..IpOverEthernetAddressInfo::default()
            }),
        }]
    }

    fn vnfc_cp(&self, deployment: &Deployment) -> VnfcCpInfo {
        VnfcCpInfo {
            id: self.id(),
            cpd_id: self.cp.name.clone(),
            cp_protocol_info: self.addresses(deployment),
            ..VnfcCpInfo::default()
        }
    }

    /// Adds the external connection point and its port, if the request connects it.
    fn add_external(&self, deployment: &Deployment, to: &mut Inventory, info: &mut VnfcCpInfo) {
        let mut links = deployment.ext_virtual_links.iter();
        let found = links.find_map(|link| {
            let data = link
                .ext_cps
                .iter()
                .find(|data| data.cpd_id == self.cp.name)?;
            Some((link, data))
        });
        let Some((link, data)) = found else {
            return;
        };
        let mut keys = data.cp_config.iter().filter(|(_, config)| config.is_some());
        let index = usize::try_from(self.member.index).unwrap_or(usize::MAX);
        let key = keys.clone().nth(index).or_else(|| keys.next());
        let external = format!("ext-{}", info.id);
        let port = format!("port-{}", info.id);
        info.vnf_ext_cp_id = Some(external.clone());
        to.ext_cp_info.push(VnfExtCpInfo {
            id: external.clone(),
            cpd_id: self.cp.name.clone(),
            cp_config_id: key.map_or(&self.cp.name, |(key, _)| key).clone(),
            cp_protocol_info: info.cp_protocol_info.clone(),
            ext_link_port_id: Some(port.clone()),
            associated_vnfc_cp_id: Some(info.id.clone()),
            ..VnfExtCpInfo::default()
        });
        let mut recorded = to.ext_virtual_link_info.iter_mut();
        if let Some(recorded) = recorded.find(|one| one.id == link.id) {
            recorded.ext_link_ports.push(ExtLinkPortInfo {
                id: port,
                resource_handle: resource(self.vim, &self.member.host, HOST),
                cp_instance_id: Some(external),
            });
        }
    }
}

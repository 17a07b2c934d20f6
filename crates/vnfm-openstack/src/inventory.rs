//! A stack's resources in SOL003's terms.
//!
//! ```text
//! stack ─ resources (nested too) ─┬─ OS::Nova::Server ─ its ports ─ VNFC, its CPs ─ external CPs
//!                                 ├─ OS::Neutron::Net ─ internal virtual link; an externally managed one is not in the stack
//!                                 └─ OS::Cinder::Volume ─ virtual storage
//! ```
//! A server's VDU is the one in its metadata (`vnfm_vdu`, ours), else the first name among its ancestors that is a VDU, or a
//! VDU with an index.
//! A port's CP is the one whose name it carries, else the one on its network, else the next in order. Ids are the
//! cloud's, so a replaced server is another VNFC.

use crate::blueprint::{Blueprint, ExtCpBinding, is_external};
use crate::heat::{Resource, Stack, resources};
use crate::keystone_login::Cloud;
use crate::neutron::{Port, ports_of};
use crate::nova::{Server, server};
use crate::resolved::Resolved;
use crate::vnfc_names::vdu_named;
use futures::stream::{self, StreamExt, TryStreamExt};
use serde_json::json;
use std::collections::BTreeSet;
use vnfm_core::ports::{Inventory, PortError};
use vnfm_descriptor::{Cp, Flavour};
use vnfm_types::{
    CpProtocolInfo, ExtLinkPortInfo, ExtManagedVirtualLinkInfo, ExtVirtualLinkInfo,
    IpAddressesInfo, IpOverEthernetAddressInfo, KeyValuePairs, ResourceHandle,
    VirtualStorageResourceInfo, VnfExtCpInfo, VnfLinkPortInfo, VnfVirtualLinkResourceInfo,
    VnfcCpInfo, VnfcResourceInfo,
};

/// Concurrent requests to Nova and Neutron.
pub(crate) const MAX_CONCURRENT_REQUESTS: usize = 8;
pub(crate) const SERVER: &str = "OS::Nova::Server";
const NETWORK: &str = "OS::Neutron::Net";
pub(crate) const PORT: &str = "OS::Neutron::Port";
pub(crate) const VOLUME: &str = "OS::Cinder::Volume";

/// A stack's resources, servers and ports as the cloud shows them.
pub(crate) struct StackContents {
    pub(crate) resources: Vec<Resource>,
    /// Each server with its ports.
    pub(crate) servers: Vec<(Server, Vec<Port>)>,
}

/// What the resources are matched with.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub(crate) blueprint: &'a Blueprint<'a>,
    pub(crate) resolved: &'a Resolved,
    /// Key of the VIM in resource handles.
    pub(crate) vim: &'a str,
}

pub(crate) async fn read_stack(
    cloud: &Cloud<'_>,
    stack: &Stack,
) -> Result<StackContents, PortError> {
    let resources = resources(cloud, stack).await?;
    let ids = resources.iter().filter(|one| one.kind == SERVER);
    let ids: Vec<&str> = ids.map(Resource::id).filter(|id| !id.is_empty()).collect();
    let owned: Vec<String> = ids.iter().map(|id| (*id).to_owned()).collect();
    let servers = stream::iter(owned)
        .map(|id| async move { server(cloud, &id).await })
        .buffered(MAX_CONCURRENT_REQUESTS)
        .try_collect();
    let (servers, mut ports): (Vec<Option<Server>>, _) =
        futures::try_join!(servers, ports_of(cloud, &ids))?;
    let with_ports = servers.into_iter().flatten().map(|server| {
        let ports = ports.remove(&server.id).unwrap_or_default();
        (server, ports)
    });
    Ok(StackContents {
        servers: with_ports.collect(),
        resources,
    })
}

/// Maps the stack's resources to SOL003's types.
pub(crate) fn inventory(contents: &StackContents, context: Context<'_>) -> Inventory {
    let reader = Reader {
        contents,
        context,
        flavour: context.blueprint.flavour,
    };
    let mut found = Inventory {
        virtual_storage_resource_info: reader.volumes(),
        ..Inventory::default()
    };
    let mut vnfcs: Vec<(&Server, &[Port], VnfcResourceInfo)> = contents
        .servers
        .iter()
        .map(|(server, ports)| (server, ports.as_slice(), reader.vnfc(server)))
        .collect();
    vnfcs.sort_by_cached_key(|(server, _, vnfc)| {
        (
            vnfc.vdu_id.clone(),
            reader.order(&server.id),
            natural_order(&server.name),
        )
    });
    let mut links = reader.links();
    let mut ext_links = reader.ext_links();
    let mut managed = reader.managed();
    let mut ordinals: Vec<String> = Vec::new();
    for (server, ports, mut vnfc) in vnfcs {
        let index = index_of(server, &vnfc.vdu_id, &ordinals);
        ordinals.push(vnfc.vdu_id.clone());
        for (cpd, port) in reader.cps(&vnfc.vdu_id, ports) {
            let mut cp = VnfcCpInfo {
                id: port.id.clone(),
                cpd_id: cpd.clone(),
                cp_protocol_info: vec![protocol(port)],
                ..VnfcCpInfo::default()
            };
            if let Some(ext_cp_binding) = context.blueprint.ext_cp_binding(&cpd) {
                let external = Reader::external_cp(port, &cpd, ext_cp_binding, index);
                cp.vnf_ext_cp_id = Some(external.id.clone());
                reader.add_ext_link_port(&mut ext_links, ext_cp_binding, port, &external.id);
                found.ext_cp_info.push(external);
            } else if let Some(link_ports) = link_ports(&mut links, &mut managed, &port.network_id)
            {
                let plug = reader.link_port(port);
                cp.vnf_link_port_id = Some(plug.id.clone());
                link_ports.push(plug);
            }
            vnfc.vnfc_cp_info.push(cp);
        }
        found.vnfc_resource_info.push(vnfc);
    }
    found.ext_virtual_link_info = ext_links;
    found.ext_managed_virtual_link_info = managed;
    found.vnf_virtual_link_resource_info = links;
    found
}

/// The ports of the internal link, ours or externally managed, on `network`.
fn link_ports<'l>(
    ours: &'l mut [VnfVirtualLinkResourceInfo],
    managed: &'l mut [ExtManagedVirtualLinkInfo],
    network: &str,
) -> Option<&'l mut Vec<VnfLinkPortInfo>> {
    let ours = ours
        .iter_mut()
        .map(|link| (&link.network_resource, &mut link.vnf_link_ports));
    let managed = managed
        .iter_mut()
        .map(|link| (&link.network_resource, &mut link.vnf_link_ports));
    let mut all = ours.chain(managed);
    all.find(|(handle, _)| handle.resource_id == network)
        .map(|(_, ports)| ports)
}

/// A server's index within its VDU: from our metadata, else the number of servers before it.
fn index_of(server: &Server, vdu: &str, before: &[String]) -> u32 {
    let counted = before.iter().filter(|name| *name == vdu).count();
    let written = server.tag("vnfm_index").and_then(|text| text.parse().ok());
    written.unwrap_or_else(|| u32::try_from(counted).unwrap_or(u32::MAX))
}

/// A sort key: `worker-10` after `worker-9`.
fn natural_order(name: &str) -> (String, u64, String) {
    let digits = name.len() - name.trim_end_matches(|c: char| c.is_ascii_digit()).len();
    let (stem, number) = name.split_at(name.len() - digits);
    (
        stem.to_owned(),
        number.parse().unwrap_or(0),
        name.to_owned(),
    )
}

/// Matches a port to a CP.
type Rule<'a> = &'a dyn Fn(&Cp, &Port) -> bool;

struct Reader<'a> {
    contents: &'a StackContents,
    context: Context<'a>,
    flavour: &'a Flavour,
}

impl Reader<'_> {
    fn handle(&self, id: &str, kind: &str) -> ResourceHandle {
        ResourceHandle {
            vim_connection_id: Some(self.context.vim.to_owned()),
            resource_provider_id: None,
            resource_id: id.to_owned(),
            vim_level_resource_type: Some(kind.to_owned()),
        }
    }

    fn resource(&self, id: &str) -> Option<&Resource> {
        self.contents.resources.iter().find(|one| one.id() == id)
    }

    /// Resources of a kind that have an id: Heat has created them and not lost them.
    fn existing(&self, kind: &str) -> impl Iterator<Item = &Resource> {
        self.contents
            .resources
            .iter()
            .filter(move |one| one.kind == kind && !one.id().is_empty())
    }

    /// The resource's name and those of its parents, up to the top.
    fn ancestors(&self, id: &str) -> Vec<&str> {
        self.names_from(self.resource(id))
    }

    fn names_from<'r>(&'r self, resource: Option<&'r Resource>) -> Vec<&'r str> {
        let mut names = Vec::new();
        let mut at = resource;
        while let Some(resource) = at {
            names.push(resource.name.as_str());
            let above = resource.stack_id().and_then(|stack| self.resource(stack));
            // Without a link, the name of the resource above is still known.
            if above.is_none() {
                names.extend(resource.parent.as_deref());
            }
            at = above.filter(|_| names.len() < 32);
        }
        names
    }

    /// A sort key: the names from the top to the resource, so that the members of a group are in the order of their indices.
    fn order(&self, id: &str) -> Vec<(String, u64, String)> {
        let names = self.ancestors(id);
        names.into_iter().rev().map(natural_order).collect()
    }

    fn vdu_of(&self, server: &Server) -> String {
        if let Some(vdu) = server.tag("vnfm_vdu") {
            return vdu.to_owned();
        }
        let ancestors = self.ancestors(&server.id);
        let mut named = ancestors.iter();
        let known = named.find_map(|name| vdu_named(self.flavour, name));
        // A package without VDUs: the topmost name tells the servers of a group apart from others.
        known
            .or(ancestors.last().copied())
            .map_or_else(|| server.name.clone(), str::to_owned)
    }

    fn vnfc(&self, server: &Server) -> VnfcResourceInfo {
        let mut metadata = KeyValuePairs::new();
        metadata.insert("name".into(), json!(server.name));
        let resource = self.resource(&server.id);
        let members = [
            ("flavor", server.flavor()),
            ("image", server.image()),
            ("zone", server.zone.as_deref()),
            ("resourceName", resource.map(|one| one.name.as_str())),
            ("stackId", resource.and_then(Resource::stack_id)),
        ];
        for (name, value) in members {
            metadata.extend(value.map(|value| (name.to_owned(), json!(value))));
        }
        VnfcResourceInfo {
            id: server.id.clone(),
            vdu_id: self.vdu_of(server),
            compute_resource: self.handle(&server.id, SERVER),
            storage_resource_ids: server.volumes().map(str::to_owned).collect(),
            metadata,
            ..VnfcResourceInfo::default()
        }
    }

    /// The CP of each port of a server, in the order of the VDU's interfaces.
    fn cps<'p>(&self, vdu: &str, ports: &'p [Port]) -> Vec<(String, &'p Port)> {
        let mut free: Vec<&Cp> = self.flavour.cps_of(vdu);
        let order: Vec<&str> = free.iter().map(|cp| cp.name.as_str()).collect();
        let mut left: Vec<&Port> = ports.iter().collect();
        let mut found: Vec<(String, &Port)> = Vec::new();
        let rules: [Rule<'_>; 3] = [
            &|cp, port| self.is_named_after(port, cp),
            &|cp, port| self.is_on(port, cp),
            &|_, _| true,
        ];
        for rule in rules {
            left.retain(|port| {
                let Some(at) = free.iter().position(|cp| rule(cp, port)) else {
                    return true;
                };
                found.push((free.remove(at).name.clone(), port));
                false
            });
        }
        found.sort_by_key(|(name, _)| order.iter().position(|known| known == name));
        let others = left.into_iter().map(|port| (self.port_name(port), port));
        found.extend(others);
        found
    }

    fn is_named_after(&self, port: &Port, cp: &Cp) -> bool {
        let matches = |name: &str| {
            name.strip_suffix(&cp.name)
                .is_some_and(|rest| rest.is_empty() || rest.ends_with(['_', '-']))
        };
        self.resource(&port.id)
            .is_some_and(|one| matches(&one.name))
            || matches(&port.name)
    }

    fn is_on(&self, port: &Port, cp: &Cp) -> bool {
        if is_external(cp) {
            let network = self
                .context
                .resolved
                .network_of(self.context.blueprint, &cp.name);
            return network == Some(port.network_id.as_str());
        }
        let managed = &self.context.resolved.managed;
        if let Some(network) = cp.virtual_link.as_ref().and_then(|link| managed.get(link)) {
            return *network == port.network_id;
        }
        let network = self.resource(&port.network_id);
        network.is_some_and(|one| Some(&one.name) == cp.virtual_link.as_ref())
    }

    /// The name of a port that is not a CP of the VNFD.
    fn port_name(&self, port: &Port) -> String {
        let resource = self.resource(&port.id).map(|one| one.name.as_str());
        let name = resource.or(Some(port.name.as_str()).filter(|name| !name.is_empty()));
        name.unwrap_or(&port.id).to_owned()
    }

    fn external_cp(
        port: &Port,
        cpd: &str,
        ext_cp_binding: ExtCpBinding<'_>,
        index: u32,
    ) -> VnfExtCpInfo {
        VnfExtCpInfo {
            id: format!("ext-{}", port.id),
            cpd_id: cpd.to_owned(),
            cp_config_id: ext_cp_binding
                .config(index)
                .map_or(cpd, |(key, _)| key)
                .to_owned(),
            cp_protocol_info: vec![protocol(port)],
            ext_link_port_id: Some(port_id(port)),
            associated_vnfc_cp_id: Some(port.id.clone()),
            ..VnfExtCpInfo::default()
        }
    }

    fn link_port(&self, port: &Port) -> VnfLinkPortInfo {
        VnfLinkPortInfo {
            id: port_id(port),
            resource_handle: self.handle(&port.id, PORT),
            cp_instance_id: Some(port.id.clone()),
            cp_instance_type: Some("VNFC_CP".into()),
        }
    }

    /// Internal links: the networks of the stack.
    fn links(&self) -> Vec<VnfVirtualLinkResourceInfo> {
        let networks = self.existing(NETWORK);
        networks
            .map(|network| VnfVirtualLinkResourceInfo {
                id: network.id().to_owned(),
                vnf_virtual_link_desc_id: network.name.clone(),
                network_resource: self.handle(network.id(), NETWORK),
                ..VnfVirtualLinkResourceInfo::default()
            })
            .collect()
    }

    /// Externally managed internal links, with the ids from the request or the grant.
    fn managed(&self) -> Vec<ExtManagedVirtualLinkInfo> {
        let ids = &self.context.blueprint.deployment.placement.managed_link_ids;
        let links = self.context.resolved.managed.iter();
        links
            .map(|(link, network)| ExtManagedVirtualLinkInfo {
                id: ids.get(link).unwrap_or(link).clone(),
                vnf_virtual_link_desc_id: link.clone(),
                network_resource: self.handle(network, NETWORK),
                vnf_link_ports: Vec::new(),
            })
            .collect()
    }

    /// External links: the networks of the request.
    fn ext_links(&self) -> Vec<ExtVirtualLinkInfo> {
        let links = &self.context.blueprint.deployment.ext_virtual_links;
        links
            .iter()
            .map(|link| {
                let network = self.context.resolved.networks.get(&link.id);
                ExtVirtualLinkInfo {
                    id: link.id.clone(),
                    resource_handle: self.handle(network.unwrap_or(&link.resource_id), NETWORK),
                    ext_link_ports: Vec::new(),
                    current_vnf_ext_cp_data: link.ext_cps.clone(),
                }
            })
            .collect()
    }

    fn add_ext_link_port(
        &self,
        ext_links: &mut [ExtVirtualLinkInfo],
        ext_cp_binding: ExtCpBinding<'_>,
        port: &Port,
        external: &str,
    ) {
        if let Some(link) = ext_links
            .iter_mut()
            .find(|link| link.id == ext_cp_binding.link.id)
        {
            link.ext_link_ports.push(ExtLinkPortInfo {
                id: port_id(port),
                resource_handle: self.handle(&port.id, PORT),
                cp_instance_id: Some(external.to_owned()),
            });
        }
    }

    fn volumes(&self) -> Vec<VirtualStorageResourceInfo> {
        let names: BTreeSet<&str> = self.flavour.storages.keys().map(String::as_str).collect();
        let storage_of = |resource: &Resource| {
            // Not by its id: Heat gives that of the volume to its attachment, too.
            let ancestors = self.names_from(Some(resource));
            let known = names.iter().find(|name| {
                ancestors.iter().any(|one| {
                    one.strip_suffix(**name)
                        .is_some_and(|rest| rest.is_empty() || rest.ends_with(['_', '-']))
                })
            });
            known.map_or_else(|| resource.name.clone(), |name| (*name).to_owned())
        };
        let volumes = self.existing(VOLUME);
        volumes
            .map(|volume| VirtualStorageResourceInfo {
                id: volume.id().to_owned(),
                virtual_storage_desc_id: storage_of(volume),
                storage_resource: self.handle(volume.id(), VOLUME),
                ..VirtualStorageResourceInfo::default()
            })
            .collect()
    }
}

fn port_id(port: &Port) -> String {
    format!("port-{}", port.id)
}

fn protocol(port: &Port) -> CpProtocolInfo {
    let address = |ip_type: &str, is_wanted: &dyn Fn(&str) -> bool| {
        let all: Vec<_> = port
            .fixed_ips
            .iter()
            .filter(|ip| is_wanted(&ip.ip_address))
            .collect();
        all.first().map(|first| IpAddressesInfo {
            type_: ip_type.to_owned(),
            addresses: all.iter().map(|ip| ip.ip_address.clone()).collect(),
            is_dynamic: None,
            subnet_id: Some(first.subnet_id.clone()).filter(|id| !id.is_empty()),
        })
    };
    let four = address("IPV4", &|ip| !ip.contains(':'));
    let six = address("IPV6", &|ip| ip.contains(':'));
    CpProtocolInfo {
        layer_protocol: "IP_OVER_ETHERNET".into(),
        ip_over_ethernet: Some(IpOverEthernetAddressInfo {
            mac_address: Some(port.mac_address.clone()).filter(|mac| !mac.is_empty()),
            segmentation_id: None,
            ip_addresses: four.into_iter().chain(six).collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::neutron::FixedIp;
    use crate::testing::{cluster_request, new_allocation, sample};

    fn port(id: &str, network: &str, address: &str) -> Port {
        Port {
            id: id.into(),
            network_id: network.into(),
            mac_address: "fa:16:3e:00:00:01".into(),
            fixed_ips: vec![FixedIp {
                subnet_id: "subnet".into(),
                ip_address: address.into(),
            }],
            ..Port::default()
        }
    }

    /// One master at the top, two workers in nested stacks, as a Base HOT creates them.
    fn contents() -> StackContents {
        let mut resources = vec![
            Resource::for_test("internalVL", NETWORK, "net-in", None),
            Resource::for_test("masterNode", SERVER, "m", None),
            Resource::for_test("masterNodeExternalCP", PORT, "m-ext", None),
            Resource::for_test("workers", "OS::Heat::ResourceGroup", "nested-workers", None),
        ];
        let mut servers = vec![(
            Server::for_test("m", "masterNode"),
            vec![
                port("m-ext", "net-out", "10.77.0.5"),
                port("m-in", "net-in", "10.10.0.5"),
            ],
        )];
        for (member, id) in [("10", "w10"), ("9", "w9")] {
            resources.push(Resource::for_test(
                member,
                "worker.yaml",
                &format!("nested-{member}"),
                Some("workers"),
            ));
            resources.push(Resource::for_test("workerNode", SERVER, id, Some(member)));
            let ports = vec![
                port(&format!("{id}-a"), "net-out", "10.77.0.6"),
                port(&format!("{id}-b"), "net-in", "fd00::6"),
            ];
            servers.push((Server::for_test(id, &format!("vnf-worker-{member}")), ports));
        }
        StackContents { resources, servers }
    }

    fn inventory_of_contents() -> Inventory {
        let allocation = new_allocation(sample("vnf-a-k8s-cluster-base-hot"), cluster_request());
        let mut prepared = Resolved::default();
        prepared
            .networks
            .insert("external".into(), "net-out".into());
        let context = Context {
            blueprint: &Blueprint::read(&allocation, "i").unwrap(),
            resolved: &prepared,
            vim: "vim1",
        };
        inventory(&contents(), context)
    }

    #[test]
    fn servers_in_nested_stacks_become_vnfcs_of_their_vdus() {
        let found = inventory_of_contents();
        let vnfcs: Vec<(&str, &str)> = found
            .vnfc_resource_info
            .iter()
            .map(|vnfc| (vnfc.vdu_id.as_str(), vnfc.id.as_str()))
            .collect();
        assert_eq!(
            vnfcs,
            [
                ("masterNode", "m"),
                ("workerNode", "w9"),
                ("workerNode", "w10")
            ]
        );
        let master = &found.vnfc_resource_info[0];
        assert_eq!(master.metadata["name"], "masterNode");
        assert_eq!(
            master.compute_resource.vim_connection_id.as_deref(),
            Some("vim1")
        );
        let cps: Vec<&str> = master
            .vnfc_cp_info
            .iter()
            .map(|cp| cp.cpd_id.as_str())
            .collect();
        assert_eq!(cps, ["masterNodeInternalCP", "masterNodeExternalCP"]);
        let ethernet = master.vnfc_cp_info[1].cp_protocol_info[0]
            .ip_over_ethernet
            .as_ref()
            .unwrap();
        assert_eq!(ethernet.ip_addresses[0].addresses, ["10.77.0.5"]);
        let ipv6 = found.vnfc_resource_info[1].vnfc_cp_info[0].cp_protocol_info[0]
            .ip_over_ethernet
            .as_ref();
        assert_eq!(ipv6.unwrap().ip_addresses[0].type_, "IPV6");
    }

    #[test]
    fn a_resource_named_after_a_vdu_or_its_vnfc_tells_the_vdu() {
        let allocation = new_allocation(sample("vnf-a-k8s-cluster-base-hot"), cluster_request());
        let blueprint = Blueprint::read(&allocation, "i").unwrap();
        for (above, vdu) in [
            ("workerNode", "workerNode"),
            ("workerNode-1", "workerNode"),
            ("workerNode-x", "workerNode-x"),
            ("other-1", "other-1"),
        ] {
            let resources = vec![
                Resource::for_test(above, "worker.yaml", "nested", None),
                Resource::for_test("machine", SERVER, "s", Some(above)),
            ];
            let servers = vec![(Server::for_test("s", "vnf-s"), Vec::new())];
            let context = Context {
                blueprint: &blueprint,
                resolved: &Resolved::default(),
                vim: "vim1",
            };
            let found = inventory(&StackContents { resources, servers }, context);
            assert_eq!(found.vnfc_resource_info[0].vdu_id, vdu);
        }
    }

    #[test]
    fn external_and_internal_links_list_the_ports_of_nested_stacks() {
        let found = inventory_of_contents();
        let external: Vec<(&str, &str)> = found
            .ext_cp_info
            .iter()
            .map(|cp| (cp.cpd_id.as_str(), cp.cp_config_id.as_str()))
            .collect();
        assert_eq!(
            external,
            [
                ("masterNodeExternalCP", "master"),
                ("workerNodeExternalCP", "worker"),
                ("workerNodeExternalCP", "worker")
            ]
        );
        assert_eq!(
            found.ext_virtual_link_info[0].resource_handle.resource_id,
            "net-out"
        );
        assert_eq!(found.ext_virtual_link_info[0].ext_link_ports.len(), 3);
        assert_eq!(
            found.vnf_virtual_link_resource_info[0].vnf_virtual_link_desc_id,
            "internalVL"
        );
        assert_eq!(
            found.vnf_virtual_link_resource_info[0].vnf_link_ports.len(),
            3
        );
    }

    #[test]
    fn numbers_in_names_sort_as_numbers() {
        let mut names = ["w-10", "w-9", "w"];
        names.sort_by_cached_key(|name| natural_order(name));
        assert_eq!(names, ["w", "w-9", "w-10"]);
    }
}

//! The request, checked against the VNFD: the flavour, its servers, and the bindings of external CPs.
//!
//! No network calls here; [`check`] implements `validate_request`.

use crate::base_hot;
use crate::errors::{PACKAGE, REQUEST, UNEXPECTED};
use crate::heat::Blueprint;
use serde_json::Value;
use std::collections::BTreeMap;
use tokio::task::JoinError;
use vnfm_core::Deployment;
use vnfm_core::ports::{Allocation, PortError};
use vnfm_descriptor::{
    ConnectivityKind, Cp, CpKind, Flavour, Storage, StorageKind, SwImage, Vdu, VduKind,
};
use vnfm_types::{ExtVirtualLinkData, VnfExtCpConfig, VnfExtCpData};

/// This parameter adds a key pair to every server of a generated template.
pub(crate) const PUBLIC_KEY_PARAM: &str = "ssh_public_key";
const ACTION: &str = "read the request";
const PLANNING: &str = "plan the stack";

/// A planned server: one instance of a VDU.
#[derive(Debug, Clone)]
pub(crate) struct Unit<'a> {
    pub(crate) vdu: &'a Vdu,
    pub(crate) index: u32,
    /// Its name on the cloud: `masterNode`, or `workerNode-0` if there can be several.
    pub(crate) name: String,
}

/// The link that the request binds an external CP to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExtCpBinding<'a> {
    pub(crate) link: &'a ExtVirtualLinkData,
    data: &'a VnfExtCpData,
}

/// An address in the request.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RequestedAddress {
    pub(crate) address: Option<String>,
    pub(crate) subnet: Option<String>,
}

/// The flavour that the request names.
pub(crate) fn flavour(allocation: &Allocation) -> Result<&Flavour, PortError> {
    let wanted = &allocation.deployment.flavour_id;
    allocation.package.vnfd().flavour(wanted).ok_or_else(|| {
        let known: Vec<&str> = allocation
            .package
            .vnfd()
            .flavours
            .keys()
            .map(String::as_str)
            .collect();
        request(format!(
            "the VNFD has no flavour `{wanted}`, only {}",
            known.join(", ")
        ))
    })
}

/// Every server of the request, by VDU and index.
pub(crate) fn units(allocation: &Allocation) -> Result<Vec<Unit<'_>>, PortError> {
    let flavour = flavour(allocation)?;
    let counts = allocation
        .deployment
        .vdu_instances
        .values()
        .map(|count| u64::from(*count));
    allocation
        .budget
        .allows(PLANNING, counts.fold(0, u64::saturating_add), 0)?;
    let mut units = Vec::new();
    for vdu in flavour.vdus.values() {
        let count = allocation.deployment.instances_of(&vdu.name);
        let several = count > 1 || may_grow(flavour, vdu);
        for index in 0..count {
            let name = if several {
                format!("{}-{index}", vdu.name)
            } else {
                vdu.name.clone()
            };
            units.push(Unit { vdu, index, name });
        }
    }
    Ok(units)
}

/// Refuses a stack of more resources or bytes than the budget allows; counts the bytes without storing them.
pub(crate) fn within_budget(allocation: &Allocation, made: &Blueprint) -> Result<(), PortError> {
    let resources = made.template["resources"]
        .as_object()
        .map_or(0, serde_json::Map::len);
    let mut bytes = ByteCounter(0);
    let parts = (&made.template, &made.files, &made.parameters);
    let counted = serde_json::to_writer(&mut bytes, &parts);
    counted.map_err(|error| request(error.to_string()))?;
    allocation
        .budget
        .allows(PLANNING, resources as u64, bytes.0)
}

/// Counts the bytes written to it.
struct ByteCounter(u64);

impl std::io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The error if planning panicked or the process is shutting down.
pub(crate) fn planning_failed(error: &JoinError) -> PortError {
    PortError::new(&UNEXPECTED, PLANNING, error.to_string())
}

fn may_grow(flavour: &Flavour, vdu: &Vdu) -> bool {
    vdu.max_number_of_instances.is_some_and(|most| most > 1)
        || flavour
            .scaling_aspects
            .values()
            .any(|aspect| aspect.deltas.contains_key(&vdu.name))
}

pub(crate) fn vdu_storages<'a>(
    flavour: &'a Flavour,
    vdu: &'a Vdu,
) -> impl Iterator<Item = &'a Storage> {
    vdu.storages
        .iter()
        .filter_map(|name| flavour.storages.get(name))
}

/// The image that a server of the VDU boots: its own, or that of the first volume with one.
pub(crate) fn boot_image<'a>(flavour: &'a Flavour, vdu: &'a Vdu) -> Option<&'a SwImage> {
    vdu.image
        .as_ref()
        .or_else(|| vdu_storages(flavour, vdu).find_map(|one| one.image.as_ref()))
}

/// Whether only the request determines a CP's network.
pub(crate) fn is_external(cp: &Cp) -> bool {
    cp.kind == CpKind::VduCp && cp.virtual_link.is_none()
}

/// The link that the request binds a CP to.
pub(crate) fn ext_cp_binding<'a>(
    deployment: &'a Deployment,
    cpd: &str,
) -> Option<ExtCpBinding<'a>> {
    deployment.ext_virtual_links.iter().find_map(|link| {
        let data = link.ext_cps.iter().find(|data| data.cpd_id == cpd)?;
        Some(ExtCpBinding { link, data })
    })
}

impl<'a> ExtCpBinding<'a> {
    /// The key and the configuration of the CP's `index`-th instance.
    ///
    /// One configuration without fixed addresses or ports serves every instance.
    pub(crate) fn config(&self, index: u32) -> Option<(&'a str, &'a VnfExtCpConfig)> {
        let all: Vec<(&str, &VnfExtCpConfig)> = self
            .data
            .cp_config
            .iter()
            .filter_map(|(key, config)| Some((key.as_str(), config.as_ref()?)))
            .collect();
        let own = all.get(usize::try_from(index).ok()?).copied();
        own.or_else(|| {
            all.first()
                .copied()
                .filter(|(_, config)| is_shareable(config))
        })
    }

    /// The existing port of the CP's `index`-th instance.
    pub(crate) fn port(&self, index: u32) -> Option<&'a str> {
        let wanted = self.config(index)?.1.link_port_id.as_deref()?;
        let port = self
            .link
            .ext_link_ports
            .iter()
            .find(|port| port.id == wanted)?;
        Some(&port.resource_handle.resource_id)
    }
}

fn is_shareable(config: &VnfExtCpConfig) -> bool {
    config.link_port_id.is_none()
        && mac(config).is_none()
        && addresses(config)
            .iter()
            .all(|wanted| wanted.address.is_none())
}

/// The addresses in a configuration.
pub(crate) fn addresses(config: &VnfExtCpConfig) -> Vec<RequestedAddress> {
    let mut all = Vec::new();
    let over_ethernet = config
        .cp_protocol_data
        .iter()
        .filter_map(|one| one.ip_over_ethernet.as_ref());
    for wanted in over_ethernet.flat_map(|one| &one.ip_addresses) {
        let subnet = wanted.subnet_id.clone();
        for address in &wanted.fixed_addresses {
            all.push(RequestedAddress {
                address: Some(address.clone()),
                subnet: subnet.clone(),
            });
        }
        if wanted.fixed_addresses.is_empty() && subnet.is_some() {
            let count = wanted.num_dynamic_addresses.unwrap_or(1);
            all.extend((0..count).map(|_| RequestedAddress {
                address: None,
                subnet: subnet.clone(),
            }));
        }
    }
    all
}

/// The MAC address in a configuration.
pub(crate) fn mac(config: &VnfExtCpConfig) -> Option<&str> {
    config
        .cp_protocol_data
        .iter()
        .find_map(|one| one.ip_over_ethernet.as_ref()?.mac_address.as_deref())
}

/// Whether the package brings a template for the flavour.
pub(crate) fn has_base_hot(allocation: &Allocation) -> bool {
    allocation
        .package
        .base_hot(&allocation.deployment.flavour_id)
        .is_some()
}

/// Checks a request as far as package and request allow.
pub(crate) fn check(allocation: &Allocation) -> Result<(), PortError> {
    let flavour = flavour(allocation)?;
    check_links(allocation, flavour)?;
    check_public_key(&allocation.deployment)?;
    if has_base_hot(allocation) {
        return base_hot::check(allocation);
    }
    if flavour.vdus.is_empty() {
        let detail = format!(
            "flavour `{}` in `{}` has no VDU, and the package has no `BaseHOT/{}/`",
            flavour.id, flavour.file, flavour.id
        );
        return Err(package(detail));
    }
    for vdu in flavour.vdus.values() {
        check_vdu(flavour, vdu)?;
    }
    check_topology(allocation, flavour)
}

/// Checks that every CP that the request binds exists, is external, and is bound once.
fn check_links(allocation: &Allocation, flavour: &Flavour) -> Result<(), PortError> {
    let mut seen: BTreeMap<&str, &str> = BTreeMap::new();
    for link in &allocation.deployment.ext_virtual_links {
        if link.resource_id.is_empty() {
            return Err(request(format!(
                "`extVirtualLinks` `{}` has no `resourceId`",
                link.id
            )));
        }
        for data in &link.ext_cps {
            let known = flavour
                .external_cps
                .iter()
                .any(|cp| cp.cpd_id == data.cpd_id)
                || flavour.cps.contains_key(&data.cpd_id);
            if !known && !flavour.cps.is_empty() {
                let names: Vec<&str> = flavour
                    .external_cps
                    .iter()
                    .map(|cp| cp.cpd_id.as_str())
                    .collect();
                return Err(request(format!(
                    "`extVirtualLinks` `{}` binds `{}`, which is not an external CP of flavour `{}`; there are {}",
                    link.id,
                    data.cpd_id,
                    flavour.id,
                    names.join(", ")
                )));
            }
            if let Some(other) = seen.insert(&data.cpd_id, &link.id) {
                return Err(request(format!(
                    "CP `{}` is bound twice, to `{other}` and to `{}`",
                    data.cpd_id, link.id
                )));
            }
            for config in data.cp_config.values().flatten() {
                check_port(link, config)?;
            }
        }
    }
    Ok(())
}

fn check_port(link: &ExtVirtualLinkData, config: &VnfExtCpConfig) -> Result<(), PortError> {
    let Some(wanted) = &config.link_port_id else {
        return Ok(());
    };
    if link.ext_link_ports.iter().any(|port| &port.id == wanted) {
        return Ok(());
    }
    Err(request(format!(
        "`extVirtualLinks` `{}` has no port `{wanted}` in `extLinkPorts`",
        link.id
    )))
}

fn check_public_key(wanted: &Deployment) -> Result<(), PortError> {
    let Some(key) = wanted.additional_params.get(PUBLIC_KEY_PARAM) else {
        return Ok(());
    };
    let is_key = key.as_str().is_some_and(|key| {
        let key = key.trim();
        !key.contains('\n')
            && ["ssh-", "ecdsa-sha2-", "sk-"]
                .iter()
                .any(|kind| key.starts_with(kind))
    });
    if is_key {
        return Ok(());
    }
    Err(request(format!(
        "`additionalParams.{PUBLIC_KEY_PARAM}` is not a public key: expected one line that begins with `ssh-ed25519`, `ssh-rsa` or `ecdsa-sha2-`"
    )))
}

fn check_vdu(flavour: &Flavour, vdu: &Vdu) -> Result<(), PortError> {
    let problem = if vdu.kind == VduKind::OsContainer {
        "is a container; OpenStack makes servers. Instantiate it on a Kubernetes VIM".to_owned()
    } else if boot_image(flavour, vdu).is_none() {
        "names no image: add `sw_image_data`, with the name of an image that the cloud has or an artifact that brings it".to_owned()
    } else if let Some(other) =
        vdu_storages(flavour, vdu).find(|one| one.kind != StorageKind::Block)
    {
        format!(
            "wants storage `{}`, which is not a volume; add a Base HOT for it",
            other.name
        )
    } else if let Some(unsized_one) = vdu_storages(flavour, vdu).find(|one| one.size_gib.is_none())
    {
        format!(
            "wants storage `{}`, which says no `size_of_storage`",
            unsized_one.name
        )
    } else {
        return Ok(());
    };
    Err(package(format!(
        "VDU `{}` in `{}` {problem}",
        vdu.name, flavour.file
    )))
}

fn check_topology(allocation: &Allocation, flavour: &Flavour) -> Result<(), PortError> {
    for cp in flavour.cps.values() {
        if cp.kind == CpKind::VipCp || cp.trunk_mode {
            return Err(package(format!(
                "CP `{}` in `{}` is a VIP or a trunk, which cannot be generated from the VNFD; add a Base HOT for it",
                cp.name, flavour.file
            )));
        }
        if is_external(cp) && ext_cp_binding(&allocation.deployment, &cp.name).is_none() {
            return Err(request(format!(
                "external CP `{}` is connected to nothing; bind it: `extVirtualLinks: [{{\"id\": \"…\", \"resourceId\": \"<network>\", \"extCps\": [{{\"cpdId\": \"{}\"}}]}}]`",
                cp.name, cp.name
            )));
        }
    }
    let granted = &allocation.deployment.placement;
    let outside = flavour.virtual_links.values().find(|link| {
        let has_a_network =
            allocation.awaits_grant || granted.managed_links.contains_key(&link.name);
        link.externally_managed == ConnectivityKind::Required && !has_a_network
    });
    match outside {
        None => Ok(()),
        Some(link) => Err(request(format!(
            "virtual link `{}` in `{}` is managed from outside (`externally_managed: required`), and nothing names its network; name it: `extManagedVirtualLinks: [{{\"id\": \"…\", \"vnfVirtualLinkDescId\": \"{}\", \"resourceId\": \"<network>\"}}]`, or let the NFVO's grant do so",
            link.name, flavour.file, link.name
        ))),
    }
}

/// A value of `additionalParams` by its path.
pub(crate) fn additional<'a>(wanted: &'a Deployment, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let mut value = wanted.additional_params.get(first)?;
    for key in rest {
        value = match value {
            Value::Array(items) => items.get(key.parse::<usize>().ok()?)?,
            other => other.get(key)?,
        };
    }
    (!value.is_null()).then_some(value)
}

pub(crate) fn request(detail: String) -> PortError {
    PortError::new(&REQUEST, ACTION, detail)
}

pub(crate) fn package(detail: String) -> PortError {
    PortError::new(&PACKAGE, "read the package", detail)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{cluster_request, new_allocation, package, sample, vnfd, vnfd_with};
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn servers_are_named_so_that_they_can_grow() {
        let allocation = new_allocation(sample("vnf-a-k8s-cluster"), cluster_request());
        let names: Vec<String> = units(&allocation)
            .unwrap()
            .into_iter()
            .map(|unit| unit.name)
            .collect();
        assert_eq!(names, ["masterNode", "workerNode-0", "workerNode-1"]);
        let mut large = cluster_request();
        large["instantiationLevelId"] = json!("large");
        let allocation = new_allocation(sample("vnf-a-k8s-cluster"), large);
        assert_eq!(units(&allocation).unwrap().len(), 5);
    }

    #[test]
    fn the_samples_requests_are_accepted() {
        for name in ["vnf-a-k8s-cluster", "vnf-a-k8s-cluster-base-hot"] {
            check(&new_allocation(sample(name), cluster_request())).unwrap();
        }
    }

    #[test]
    fn what_the_request_gets_wrong_is_named() {
        let cps = "/extVirtualLinks/0/extCps";
        let private = json!({"ssh_public_key": "-----BEGIN OPENSSH PRIVATE KEY-----"});
        let table = [
            (
                "/flavourId".to_owned(),
                json!("tiny"),
                "no flavour `tiny`, only cluster_install",
            ),
            (
                "/extVirtualLinks".to_owned(),
                json!([]),
                "CP `masterNodeExternalCP` is connected to nothing",
            ),
            (
                format!("{cps}/0/cpdId"),
                json!("masterCP"),
                "`masterCP`, which is not an external CP",
            ),
            (
                format!("{cps}/1/cpdId"),
                json!("masterNodeExternalCP"),
                "bound twice",
            ),
            (
                "/extVirtualLinks/0/resourceId".to_owned(),
                json!(""),
                "has no `resourceId`",
            ),
            (
                format!("{cps}/0/cpConfig/master"),
                json!({"linkPortId": "p9"}),
                "no port `p9`",
            ),
            (
                "/additionalParams".to_owned(),
                private,
                "is not a public key",
            ),
        ];
        for (place, value, says) in table {
            let mut request = cluster_request();
            request["instantiationLevelId"] = json!("small");
            request["additionalParams"] = json!({});
            *request.pointer_mut(&place).unwrap() = value;
            let error = check(&new_allocation(sample("vnf-a-k8s-cluster"), request)).unwrap_err();
            assert!(error.to_string().contains(says), "{error}");
            assert_eq!(error.name(), "openstack.request-incomplete");
        }
    }

    #[test]
    fn a_link_that_others_have_to_manage_needs_a_network_from_them() {
        const LAN: &str = "    lan:
      type: tosca.nodes.nfv.VnfVirtualLink
      properties: {connectivity_type: {layer_protocols: [ipv4]}, externally_managed: required, vl_profile: {max_bitrate_requirements: {root: 1}, min_bitrate_requirements: {root: 1}}}
";
        let text = vnfd(1, "1 GiB", "1 GiB") + LAN;
        let mut allocation = new_allocation(package(&text), json!({"flavourId": "simple"}));
        let error = check(&allocation).unwrap_err();
        assert_eq!(error.name(), "openstack.request-incomplete", "{error}");
        for part in ["`lan` in `vnfd.yaml`", "extManagedVirtualLinks", "grant"] {
            assert!(error.to_string().contains(part), "{error}");
        }
        allocation.awaits_grant = true;
        check(&allocation).unwrap(); // the NFVO may bring it
        allocation.awaits_grant = false;
        Arc::make_mut(&mut allocation.deployment)
            .placement
            .managed_links
            .insert("lan".into(), "their-network".into());
        check(&allocation).unwrap();
    }

    #[test]
    fn what_cannot_be_made_on_openstack_is_refused_with_its_place() {
        let request = || json!({"flavourId": "simple"});
        check(&new_allocation(
            package(&vnfd(1, "1 GiB", "1 GiB")),
            request(),
        ))
        .unwrap();
        let without_image = vnfd_with(
            "    server:
      type: tosca.nodes.nfv.Vdu.Compute
      properties: {name: server, description: one, vdu_profile: {min_number_of_instances: 1, max_number_of_instances: 1}}
",
        );
        let error = check(&new_allocation(package(&without_image), request())).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("VDU `server` in `vnfd.yaml` names no image"),
            "{error}"
        );
        let container = sample("vnf-b-cnf");
        let flavour = container.vnfd().flavours.keys().next().unwrap().clone();
        let error = check(&new_allocation(container, json!({"flavourId": flavour}))).unwrap_err();
        assert_eq!(error.name(), "openstack.package");
    }

    #[test]
    fn one_configuration_serves_all_unless_it_fixes_an_address() {
        let mut request = cluster_request();
        request["extVirtualLinks"][0]["extCps"][0]["cpConfig"] = json!({
            "a": {"cpProtocolData": [{"layerProtocol": "IP_OVER_ETHERNET", "ipOverEthernet": {
                "macAddress": "fa:16:3e:00:00:01",
                "ipAddresses": [{"type": "IPV4", "fixedAddresses": ["10.0.0.5"], "subnetId": "s"}],
            }}]},
        });
        let deployment = Deployment::requested("p", serde_json::from_value(request).unwrap());
        let worker = ext_cp_binding(&deployment, "workerNodeExternalCP").unwrap();
        assert_eq!(worker.config(7).map(|(key, _)| key), Some("worker"));
        let master = ext_cp_binding(&deployment, "masterNodeExternalCP").unwrap();
        assert_eq!(master.config(0).map(|(key, _)| key), Some("a"));
        assert!(master.config(1).is_none());
        let config = master.config(0).unwrap().1;
        assert_eq!(mac(config), Some("fa:16:3e:00:00:01"));
        assert_eq!(
            addresses(config),
            [RequestedAddress {
                address: Some("10.0.0.5".into()),
                subnet: Some("s".into())
            }]
        );
    }
}

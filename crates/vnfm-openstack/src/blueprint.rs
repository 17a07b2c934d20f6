//! An instance as VNFD and deployment describe it: read once per call of the driver, before the cloud is called.
//!
//! ```text
//! Allocation ─ Blueprint::read ─┬─ flavour, Base HOT, deployment
//!                               ├─ servers ─ their VDU, name, ports, volumes, zone
//!                               └─ external CPs ─ link, configuration, addresses
//! ```

use crate::errors::{GRANT, PACKAGE, REQUEST};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use std::collections::BTreeSet;
use std::sync::Arc;
use vnfm_core::Deployment;
use vnfm_core::ports::{Allocation, Budget, PortError, compute_id};
use vnfm_descriptor::{BaseHot, Cp, CpKind, Flavour, Package, Storage, SwImage, Vdu};
use vnfm_types::{ExtVirtualLinkData, VnfExtCpConfig, VnfExtCpData};

/// This parameter adds a key pair to every server of a generated template.
pub(crate) const PUBLIC_KEY_PARAM: &str = "ssh_public_key";
const ACTION: &str = "read the request";
pub(crate) const PLANNING: &str = "plan the stack";

/// An instance as VNFD and deployment describe it.
#[derive(Clone, Copy)]
pub(crate) struct Blueprint<'a> {
    /// The instance's id, in the names of its resources.
    pub(crate) instance: &'a str,
    pub(crate) instance_name: Option<&'a str>,
    pub(crate) package: &'a Arc<Package>,
    pub(crate) deployment: &'a Deployment,
    pub(crate) flavour: &'a Flavour,
    /// The package's own template of the flavour.
    pub(crate) base_hot: Option<&'a BaseHot>,
    pub(crate) budget: Budget,
    pub(crate) awaits_grant: bool,
}

/// A planned server: one instance of a VDU.
#[derive(Debug, Clone)]
pub(crate) struct Server<'a> {
    pub(crate) vdu: &'a Vdu,
    pub(crate) index: u32,
    /// Its name on the cloud: `masterNode`, or `workerNode-0` if there can be several.
    pub(crate) name: String,
    /// Its ports, in the order of its interfaces.
    pub(crate) cps: Vec<&'a Cp>,
    pub(crate) volumes: Vec<&'a Storage>,
    /// The zone that the grant prescribes.
    pub(crate) zone: Option<&'a str>,
}

impl<'a> Blueprint<'a> {
    /// Reads the package and deployment of `allocation`.
    pub(crate) fn read(allocation: &'a Allocation, instance: &'a str) -> Result<Self, PortError> {
        let flavour_id = &allocation.deployment.flavour_id;
        let flavours = &allocation.package.vnfd().flavours;
        let flavour = allocation
            .package
            .vnfd()
            .flavour(flavour_id)
            .ok_or_else(|| {
                let known: Vec<&str> = flavours.keys().map(String::as_str).collect();
                request(format!(
                    "the VNFD has no flavour `{flavour_id}`, only {}",
                    known.join(", ")
                ))
            })?;
        Ok(Self {
            instance,
            instance_name: allocation.instance_name.as_deref(),
            package: &allocation.package,
            deployment: &allocation.deployment,
            flavour,
            base_hot: allocation.package.base_hot(flavour_id),
            budget: allocation.budget,
            awaits_grant: allocation.awaits_grant,
        })
    }

    /// The number of servers, without expanding them.
    pub(crate) fn server_count(&self) -> u64 {
        let counts = self.deployment.vdu_instances.values();
        counts
            .map(|count| u64::from(*count))
            .fold(0, u64::saturating_add)
    }

    /// Every server, by VDU and index.
    pub(crate) fn servers(&self) -> Result<Vec<Server<'a>>, PortError> {
        self.budget.allows(PLANNING, self.server_count(), 0)?;
        let vdus = self.flavour.vdus.values();
        Ok(vdus.flat_map(|vdu| self.servers_of(vdu)).collect())
    }

    fn servers_of(&self, vdu: &'a Vdu) -> impl Iterator<Item = Server<'a>> {
        let count = self.deployment.instances_of(&vdu.name);
        let several = count > 1 || self.flavour.may_grow(vdu);
        let (flavour, deployment) = (self.flavour, self.deployment);
        (0..count).map(move |index| Server {
            vdu,
            index,
            name: if several {
                format!("{}-{index}", vdu.name)
            } else {
                vdu.name.clone()
            },
            cps: flavour.cps_of(&vdu.name),
            volumes: vdu_storages(flavour, vdu).collect(),
            zone: zone_of_vnfc(deployment, &vdu.name, index),
        })
    }

    /// The link that the request binds a CP to.
    pub(crate) fn ext_cp_binding(&self, cpd: &str) -> Option<ExtCpBinding<'a>> {
        self.deployment.ext_virtual_links.iter().find_map(|link| {
            let data = link.ext_cps.iter().find(|data| data.cpd_id == cpd)?;
            Some(ExtCpBinding { link, data })
        })
    }

    /// The zone of a VNFC: the granted one, or the one that was chosen instead.
    pub(crate) fn zone_of_vnfc(&self, vdu: &str, index: u32) -> Option<&'a str> {
        zone_of_vnfc(self.deployment, vdu, index)
    }

    /// The zone of all VNFCs of a VDU; an error if they differ.
    pub(crate) fn zone_of(&self, vdu: &str) -> Result<Option<&'a str>, PortError> {
        let zones: BTreeSet<Option<&str>> = (0..self.deployment.instances_of(vdu))
            .map(|index| self.zone_of_vnfc(vdu, index))
            .collect();
        match zones.len() {
            0 | 1 => Ok(zones.into_iter().next().flatten()),
            _ => Err(unsupported(&format!(
                "several zones for VDU `{vdu}`, but the template accepts only one"
            ))),
        }
    }
}

fn zone_of_vnfc<'a>(deployment: &'a Deployment, vdu: &str, index: u32) -> Option<&'a str> {
    let granted = deployment.placement.zone_of(vdu, index)?;
    let chosen = &deployment.resolved["zones"][compute_id(vdu, index)];
    let is_current = chosen["granted"] == granted;
    let zone = chosen["zone"].as_str().filter(|_| is_current);
    zone.or(Some(granted))
}

/// Whether the package contains an image of any flavour: one that the instance had before may have uploaded it.
pub(crate) fn has_package_images(package: &Package) -> bool {
    let mut flavours = package.vnfd().flavours.values();
    flavours.any(|flavour| flavour.images().any(|(_, image)| image.artifact.is_some()))
}

/// The error for a grant that this cloud or template cannot follow.
pub(crate) fn unsupported(prescription: &str) -> PortError {
    PortError::new(
        &GRANT,
        "follow the grant",
        format!("it prescribes {prescription}"),
    )
}

/// Identifies what operations change of an instance: a stack with another fingerprint needs another template. It covers
/// zones chosen instead of granted ones, but neither what the cloud offers nor the instance's name, which change without an operation. Parameters may be secrets:
/// the operation that last changed them stands for their values.
pub(crate) fn fingerprint(deployment: &Deployment) -> String {
    let mut covered = vec![
        json!(deployment.vnf_pkg_id),
        json!(deployment.flavour_id),
        json!(deployment.vdu_instances),
        json!(deployment.ext_virtual_links),
        json!(deployment.ext_managed_virtual_links),
        json!(deployment.placement),
    ];
    // Stacks that released versions made have a fingerprint without it.
    if !deployment.params_changed_by.is_empty() {
        covered.push(json!(deployment.params_changed_by));
    }
    let zones = &deployment.resolved["zones"];
    if !zones.is_null() {
        covered.push(zones.clone());
    }
    if !deployment.reused_volumes.is_empty() {
        covered.push(json!(deployment.reused_volumes));
    }
    let digest = Sha256::digest(json!(covered).to_string());
    let hex = |text, byte: &u8| format!("{text}{byte:02x}");
    digest.iter().take(8).fold(String::new(), hex)
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
        let port_id = self.config(index)?.1.link_port_id.as_deref()?;
        let port = self
            .link
            .ext_link_ports
            .iter()
            .find(|port| port.id == port_id)?;
        Some(&port.resource_handle.resource_id)
    }
}

fn is_shareable(config: &VnfExtCpConfig) -> bool {
    config.link_port_id.is_none()
        && mac(config).is_none()
        && addresses(config)
            .iter()
            .all(|requested| requested.address.is_none())
}

/// The addresses in a configuration.
pub(crate) fn addresses(config: &VnfExtCpConfig) -> Vec<RequestedAddress> {
    let mut all = Vec::new();
    let over_ethernet = config
        .cp_protocol_data
        .iter()
        .filter_map(|one| one.ip_over_ethernet.as_ref());
    for requested in over_ethernet.flat_map(|one| &one.ip_addresses) {
        let subnet = requested.subnet_id.clone();
        for address in &requested.fixed_addresses {
            all.push(RequestedAddress {
                address: Some(address.clone()),
                subnet: subnet.clone(),
            });
        }
        if requested.fixed_addresses.is_empty() && subnet.is_some() {
            let count = requested.num_dynamic_addresses.unwrap_or(1);
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

/// A value of `additionalParams` by its path.
pub(crate) fn additional<'a>(deployment: &'a Deployment, path: &[String]) -> Option<&'a Value> {
    let (first, rest) = path.split_first()?;
    let mut value = deployment.additional_params.get(first)?;
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
    use crate::testing::{cluster_request, new_allocation, sample};

    #[test]
    fn servers_are_named_so_that_they_can_grow() {
        let allocation = new_allocation(sample("vnf-a-k8s-cluster"), cluster_request());
        let names: Vec<String> = Blueprint::read(&allocation, "i")
            .unwrap()
            .servers()
            .unwrap()
            .into_iter()
            .map(|unit| unit.name)
            .collect();
        assert_eq!(names, ["masterNode", "workerNode-0", "workerNode-1"]);
        let mut large = cluster_request();
        large["instantiationLevelId"] = json!("large");
        let allocation = new_allocation(sample("vnf-a-k8s-cluster"), large);
        assert_eq!(
            Blueprint::read(&allocation, "i")
                .unwrap()
                .servers()
                .unwrap()
                .len(),
            5
        );
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
        let allocation = new_allocation(sample("vnf-a-k8s-cluster"), request);
        let blueprint = Blueprint::read(&allocation, "i").unwrap();
        let worker = blueprint.ext_cp_binding("workerNodeExternalCP").unwrap();
        assert_eq!(worker.config(7).map(|(key, _)| key), Some("worker"));
        let master = blueprint.ext_cp_binding("masterNodeExternalCP").unwrap();
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

    #[test]
    fn a_fingerprint_changes_with_the_size_and_the_links_but_not_with_parameters() {
        let allocation = new_allocation(sample("vnf-a-k8s-cluster"), cluster_request());
        let first = fingerprint(&allocation.deployment);
        assert_eq!(first.len(), 16, "{first}");
        let changed = |change: &dyn Fn(&mut Deployment)| {
            let mut deployment = Deployment::clone(&allocation.deployment);
            change(&mut deployment);
            fingerprint(&deployment) != first
        };
        assert!(changed(&|it| *it
            .vdu_instances
            .get_mut("workerNode")
            .unwrap() += 1));
        assert!(changed(
            &|it| it.ext_virtual_links[0].resource_id = "other".into()
        ));
        assert!(changed(&|it| it.flavour_id = "other".into()));
        assert!(changed(&|it| it.params_changed_by = "op".into()));
        assert!(!changed(&|it| drop(
            it.additional_params.insert("pin".into(), 1.into())
        )));
        assert!(!changed(&|it| it.resolved = json!({"flavors": {}})));
    }
}

//! What a VDU needs of a host, and whether a host has it.
//!
//! | VNFD | host |
//! |---|---|
//! | `num_virtual_cpu`, `virtual_mem_size`, `virtual_local_storage` | at least as many CPUs, memory (5 % are the kernel's), root file system |
//! | `cpu_architecture` | the same |
//! | `requested_additional_capabilities`, by name | the label of that name; for `sr-iov`, an interface with virtual functions is enough |
//! | their `target_performance_parameters`, and `logical_node` | labels of these names and values |
//! | `vnic_type: direct` of a connection point | an interface with virtual functions |
//! | networks of the connection points | an address on them |
//! | granted zone | the same `zone` |
//!
//! Images are ignored: a host keeps its operating system.

use crate::errors::UNSUPPORTED;
use crate::facts::Facts;
use crate::host_inventory::InventoryHost;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::Deployment;
use vnfm_core::ports::{Allocation, PortError};
use vnfm_descriptor::{AffinityRule, Cp, CpKind, Flavour, Vdu, VduKind};

/// Label of a capability that facts tell.
const SRIOV: &str = "sr-iov";
/// The share of the memory, in percent, that a kernel leaves: firmware and the kernel itself take the rest.
const USABLE_MEMORY_PERCENT: u64 = 95;

/// What a VNFC needs of its host.
#[derive(Debug, Clone, Default)]
pub(crate) struct Requirements {
    cpus: u32,
    memory_mib: u64,
    disk_gib: u64,
    architecture: Option<String>,
    /// Labels with their value; `None`: any.
    labels: BTreeMap<String, Option<String>>,
    preferred: BTreeSet<String>,
    networks: BTreeSet<String>,
    zone: Option<String>,
}

/// The flavour of an allocation.
pub(crate) fn flavour(what: &Allocation) -> Result<&Flavour, PortError> {
    let id = &what.deployment.flavour_id;
    let known = what.package.vnfd().flavour(id);
    known.ok_or_else(|| unsupported(format!("the VNFD has no flavour `{id}`")))
}

pub(crate) fn unsupported(what: impl Into<String>) -> PortError {
    PortError::new(&UNSUPPORTED, "plan the hosts", what)
}

/// Refuses what bare hosts can never satisfy.
pub(crate) fn check(what: &Allocation) -> Result<(), PortError> {
    let (flavour, deployment) = (flavour(what)?, &*what.deployment);
    let vnfcs = deployment
        .vdu_instances
        .values()
        .map(|n| u64::from(*n))
        .sum();
    what.budget.allows("plan the hosts", vnfcs, 0)?;
    for vdu in flavour.vdus.values() {
        check_vdu(vdu)?;
    }
    for rule in &flavour.affinity_rules {
        check_rule(rule, flavour, deployment)?;
    }
    check_request(deployment)
}

fn check_vdu(vdu: &Vdu) -> Result<(), PortError> {
    let name = &vdu.name;
    if vdu.kind == VduKind::OsContainer {
        return Err(unsupported(format!("the VDU `{name}` is a set of containers")).on(name));
    }
    if let Some(storage) = vdu.storages.first() {
        let what = format!("the VDU `{name}` has the volume `{storage}`; a host has its own disks");
        return Err(unsupported(what).on(name));
    }
    if vdu
        .compute
        .as_ref()
        .is_some_and(|compute| !compute.huge_pages.is_empty())
    {
        return Err(unsupported(format!("the VDU `{name}` requests huge pages")).on(name));
    }
    Ok(())
}

/// Each VNFC has a host of its own, and all are at one place.
fn check_rule(
    rule: &AffinityRule,
    flavour: &Flavour,
    deployment: &Deployment,
) -> Result<(), PortError> {
    let targets = rule
        .targets
        .iter()
        .filter(|one| flavour.vdus.contains_key(*one));
    let vnfcs: u32 = targets.map(|vdu| deployment.instances_of(vdu)).sum();
    let why = match (rule.scope.as_str(), rule.anti) {
        ("zone", _) | ("nfvi_node", true) | ("nfvi_pop" | "zone_group", false) => return Ok(()),
        _ if vnfcs < 2 => return Ok(()),
        ("nfvi_node", false) => "each VNFC has a host of its own",
        ("nfvi_pop" | "zone_group", true) => "an inventory is one place",
        _ => "the scope is unknown",
    };
    let (name, scope) = (&rule.name, &rule.scope);
    let what = format!("the affinity rule `{name}` of scope `{scope}` cannot hold: {why}");
    Err(unsupported(what).on(name))
}

/// Refuses what an NFVO or a request prescribes and a host cannot change.
fn check_request(deployment: &Deployment) -> Result<(), PortError> {
    let granted = &deployment.placement;
    let prescribed = [
        ("the image", granted.images.iter().next()),
        ("the flavor", granted.flavours.iter().next()),
    ];
    for (what, found) in prescribed {
        if let Some((owner, id)) = found {
            let what =
                format!("the grant prescribes {what} `{id}` for `{owner}`; a host has its own");
            return Err(unsupported(what).on(owner));
        }
    }
    if let Some(group) = granted.resource_groups.first() {
        return Err(unsupported(format!(
            "the grant prescribes the resource group `{group}`"
        )));
    }
    for data in deployment
        .ext_virtual_links
        .iter()
        .flat_map(|link| &link.ext_cps)
    {
        let configs = data.cp_config.values().flatten();
        let fixes = configs.flat_map(|config| {
            let addresses = config.cp_protocol_data.iter();
            let addresses = addresses.filter_map(|one| one.ip_over_ethernet.as_ref());
            let fixed = addresses.flat_map(|one| one.ip_addresses.iter());
            let fixed = fixed.flat_map(|one| one.fixed_addresses.iter());
            fixed.chain(config.link_port_id.iter())
        });
        if let Some(first) = fixes.into_iter().next() {
            let cp = &data.cpd_id;
            let what =
                format!("the request fixes `{first}` for `{cp}`; a host keeps its addresses");
            return Err(unsupported(what).on(cp));
        }
    }
    Ok(())
}

/// The network that a connection point is on: the external link's, the granted one, or the name of the internal link.
pub(crate) fn network_of<'a>(cp: &'a Cp, deployment: &'a Deployment) -> Option<&'a str> {
    if let Some(link) = &cp.virtual_link {
        let granted = deployment.placement.managed_links.get(link);
        return Some(granted.unwrap_or(link));
    }
    let mut links = deployment.ext_virtual_links.iter();
    let link = links.find(|link| link.ext_cps.iter().any(|data| data.cpd_id == cp.name))?;
    Some(&link.resource_id)
}

/// Whether the request connects a connection point.
pub(crate) fn is_external(cp: &Cp) -> bool {
    cp.kind == CpKind::VduCp && cp.virtual_link.is_none()
}

impl Requirements {
    /// Those of a VDU's `index`-th VNFC.
    pub(crate) fn of_vnfc(flavour: &Flavour, deployment: &Deployment, vnfc: (&str, u32)) -> Self {
        let (name, index) = vnfc;
        let mut needs = Self {
            zone: deployment.placement.zone_of(name, index).map(str::to_owned),
            ..Self::default()
        };
        let cps = flavour.cps_of(name);
        for cp in &cps {
            needs
                .networks
                .extend(network_of(cp, deployment).map(str::to_owned));
            if cp
                .vnic_type
                .as_deref()
                .is_some_and(|kind| kind.starts_with("direct"))
            {
                needs.labels.insert(SRIOV.to_owned(), None);
            }
        }
        let Some(vdu) = flavour.vdus.get(name) else {
            return needs;
        };
        if let Some(compute) = &vdu.compute {
            needs.cpus = compute.num_virtual_cpu;
            needs.memory_mib = compute.virtual_mem_size_mib;
            needs.disk_gib = compute.virtual_local_storage_gib.iter().sum();
            needs.architecture.clone_from(&compute.cpu_architecture);
        }
        needs.require_labels(vdu);
        needs
    }

    fn require_labels(&mut self, vdu: &Vdu) {
        for capability in &vdu.requested_capabilities {
            if !capability.support_mandatory {
                self.preferred.insert(capability.name.clone());
                continue;
            }
            self.labels.entry(capability.name.clone()).or_default();
            let exact = capability.target_performance_parameters.iter();
            self.labels
                .extend(exact.map(|(name, value)| (name.clone(), Some(value.clone()))));
        }
        let exact = vdu.logical_node.values().flatten();
        self.labels
            .extend(exact.map(|(name, value)| (name.clone(), Some(value.clone()))));
    }

    /// Why a host cannot serve, as far as the inventory tells.
    pub(crate) fn lacks_by_inventory(&self, host: &InventoryHost) -> Option<String> {
        if let Some(zone) = &self.zone
            && host.entry.zone.as_ref() != Some(zone)
        {
            return Some(format!("it is not in zone `{zone}`"));
        }
        let missing = self
            .networks
            .iter()
            .find(|one| host.address_on(one).is_none());
        if let Some(network) = missing {
            return Some(format!("it has no address on network `{network}`"));
        }
        let labels = self.labels.iter().filter(|(name, _)| *name != SRIOV);
        for (name, value) in labels {
            let own = host.entry.labels.get(name);
            if own.is_none_or(|own| value.as_ref().is_some_and(|value| value != own)) {
                let value = value.as_deref().map(|value| format!("={value}"));
                return Some(format!(
                    "it has no label `{name}{}`",
                    value.unwrap_or_default()
                ));
            }
        }
        None
    }

    /// Why a host cannot serve; `None`: it can.
    pub(crate) fn lacks(&self, host: &InventoryHost, facts: &Facts) -> Option<String> {
        let usable = self
            .memory_mib
            .saturating_mul(1024 * USABLE_MEMORY_PERCENT / 100);
        if facts.cpus < self.cpus {
            return Some(format!("it has {} of {} CPUs", facts.cpus, self.cpus));
        }
        if facts.memory_kib < usable {
            let has = facts.memory_kib / 1024;
            return Some(format!("it has {has} of {} MiB memory", self.memory_mib));
        }
        if facts.disk_kib < self.disk_gib.saturating_mul(1 << 20) {
            let has = facts.disk_kib >> 20;
            return Some(format!(
                "its root file system has {has} of {} GiB",
                self.disk_gib
            ));
        }
        let other = self
            .architecture
            .as_ref()
            .filter(|one| **one != facts.architecture);
        if let Some(wanted) = other {
            return Some(format!("it is {} and not {wanted}", facts.architecture));
        }
        let is_labelled = host.entry.labels.contains_key(SRIOV);
        if self.labels.contains_key(SRIOV) && !is_labelled && !facts.has_sriov() {
            return Some("it has no interface with SR-IOV".to_owned());
        }
        self.lacks_by_inventory(host)
    }

    /// The order in which suitable hosts are tried: preferred labels first, then the smallest.
    pub(crate) fn rank(&self, host: &InventoryHost, facts: &Facts) -> (usize, u64, u32) {
        let has = |name: &&String| {
            host.entry.labels.contains_key(*name) || *name == SRIOV && facts.has_sriov()
        };
        let missing = self.preferred.len() - self.preferred.iter().filter(has).count();
        (missing, facts.memory_kib, facts.cpus)
    }
}

//! What an installation is refused for: the size of its control plane, and address ranges that overlap.
//!
//! `instantiate_start` checks what the request tells, before there is a server; `instantiate_end` also what only the servers'
//! addresses tell.

use crate::addon_check;
use crate::cidr::Cidr;
use crate::endpoint::Endpoint;
use crate::node::bad;
use crate::params::{Installation, InstantiateParams};
use crate::roles::is_control_plane;
use crate::software_check;
use vnfm_plugin_sdk::prelude::*;

/// The numbers of nodes that a control plane can have.
const SIZES: &[usize] = &[1, 3, 5];

/// Refuses an installation that is not possible, as far as it can be told without its servers.
///
/// # Errors
///
/// `bad-parameters`: those of [`check_size`], [`check_ranges`], and of its add-ons, the software of its nodes, its
/// `control_plane_endpoint` and its `external_etcd`.
pub(crate) async fn start(
    cx: &HookContext,
    request: &HookRequest<InstantiateParams>,
) -> Result<Effects, DriverError> {
    let installation = &request.additional_params.k8s_cluster_installation_param;
    let artifacts = cx.artifacts().await?;
    addon_check::planned(&installation.addons, &artifacts)?;
    software_check::check(installation)?;
    if let Some(etcd) = &installation.external_etcd {
        etcd.check()?;
    }
    software_check::check_files(&installation.node_software, &artifacts)?;
    let shared = installation.control_plane_endpoint.as_ref();
    let shared = shared.map(Endpoint::shared).transpose()?;
    // A host that is too old to send the numbers gets its error from `instantiate_end`.
    if let Some(instantiation) = &request.instantiation {
        let vdus = instantiation.vnfcs_to_create.iter();
        let masters = vdus.filter(|(vdu, _)| is_control_plane(installation, vdu));
        let size: u32 = masters.map(|(_, number)| number).sum();
        check_size(size as usize, shared.is_some())?;
    }
    let address = shared.map(|endpoint| ("control_plane_endpoint".to_owned(), endpoint.address));
    check_ranges(ranges_of(installation), address)?;
    Ok(Effects::none())
}

fn ranges_of(installation: &Installation) -> [(&'static str, &str); 2] {
    let master = &installation.master_node;
    [
        ("pod_cidr", &master.pod_cidr),
        ("cluster_cidr", &master.cluster_cidr),
    ]
}

/// Checks whether a control plane can have this many nodes.
///
/// # Errors
///
/// `bad-parameters` if the number is not 1, 3 or 5, or there is no address for several of them.
pub(crate) fn check_size(size: usize, has_shared_address: bool) -> Result<(), DriverError> {
    if !SIZES.contains(&size) {
        let why = match size {
            0 => "a cluster needs one",
            even if even.is_multiple_of(2) => {
                "an even number tolerates no more failures than one node fewer, because etcd needs more than half of its \
                 members"
            }
            _ => "each further member makes etcd slower",
        };
        return Err(bad(format!(
            "the control plane would have {size} nodes, but can have 1, 3 or 5: {why}"
        )));
    }
    if size > 1 && !has_shared_address {
        return Err(bad(format!(
            "{size} control-plane nodes need an address that is not one node's own: give `control_plane_endpoint`, from the \
             installation on"
        )));
    }
    Ok(())
}

/// Checks the ranges of pods and Services, which are parameters of `master_node`, against each other and the addresses of
/// `hosts`, by name.
///
/// # Errors
///
/// `bad-parameters` if one is malformed, or two of them share an address.
pub(crate) fn check_ranges(
    parameters: [(&str, &str); 2],
    hosts: impl IntoIterator<Item = (String, String)>,
) -> Result<(), DriverError> {
    let mut ranges = Vec::<(String, Cidr)>::new();
    for (name, text) in parameters {
        for range in text.split(',').map(str::trim) {
            let Some(cidr) = Cidr::parse(range) else {
                return Err(bad(format!(
                    "`master_node.{name}` has `{range}`, which is not an address range such as 10.244.0.0/16"
                )));
            };
            ranges.push((format!("`master_node.{name}` ({range})"), cidr));
        }
    }
    let hosts = hosts.into_iter().filter_map(|(name, address)| {
        let cidr = Cidr::host(&address)?;
        Some((format!("the address {address} of `{name}`"), cidr))
    });
    let hosts: Vec<_> = hosts.collect();
    for (index, (name, cidr)) in ranges.iter().enumerate() {
        let mut others = ranges[index + 1..].iter().chain(&hosts);
        if let Some((other, _)) = others.find(|(_, other)| cidr.overlaps(*other)) {
            return Err(bad(format!(
                "{name} overlaps {other}: packets for one would go to the other; use a range that the site does not have"
            )));
        }
    }
    Ok(())
}

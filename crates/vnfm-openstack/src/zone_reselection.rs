//! Other zones for servers that no host had room for, if the VIM's connection allows it (`extra.reselectZones`).
//!
//! ```text
//! stack failed ─ servers without a host ─ the next zone for each: one of the grant, else one of the cloud
//!     ▲                                             │ none is left: the failure stays
//!     └──────────────── update the stack ◄──────────┘
//! ```
//! Each server tries each zone once; servers that have a host stay where they are. The grant stays as it was: the zones chosen
//! instead are in [`Resolved`], which later templates are made of. They are read from the servers themselves, so that an
//! interrupted call loses none of them.
//!
//! Another flavour or package keeps these zones ([`with_zones_so_far`]): a server with another zone would be replaced.
//!
//! A zone that a template has only once for a whole VDU changes at instantiation, but not afterwards: that would replace servers
//! that run.

use crate::access::Access;
use crate::base_hot::is_per_vnfc;
use crate::blueprint::Blueprint;
use crate::errors::is_without_host;
use crate::heat::{self, Phase, Resource, Stack};
use crate::instance_template::template_on_thread;
use crate::inventory::SERVER;
use crate::keystone_login::Cloud;
use crate::nova;
use crate::resolved::{ChosenZone, Resolved, known};
use crate::update::{Updated, replace_in_stack};
use crate::vnfc_names::{vdu_named, vnfc_name};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use vnfm_core::ports::{
    Allocation, Convergence, Inventory, PortError, Recorded, VimCall, compute_id,
};

/// Levels of nested stacks above a server that are searched for the name of its VNFC.
const MAX_DEPTH: usize = 8;

/// Whether the connection allows it.
pub(crate) async fn is_allowed(cloud: &Cloud<'_>) -> Result<bool, PortError> {
    let login = cloud.vim.connection().await?;
    Ok(Access::try_from(&login.info)?.reselect_zones)
}

/// Updates the stack that `failed` to other zones, until it is complete or no zone is left; returns the stack, and puts the zones
/// into `resolved`.
///
/// # Errors
/// The last failure; `failed` itself if there is nothing to try.
pub(crate) async fn try_other_zones(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    change: &Convergence<'_>,
    resolved: &mut Resolved,
    mut failed: PortError,
) -> Result<Stack, PortError> {
    if !is_allowed(cloud).await? {
        return Err(failed);
    }
    let mut zones = Zones {
        known: known_zones(cloud, change).await?,
        tried: BTreeMap::new(),
    };
    loop {
        let name = heat::stack_name(&cx.ownership.instance_id);
        let found = heat::find(cloud, &name).await?;
        let ours = found.filter(|stack| stack.belongs_to(&cx.ownership.installation_id));
        let Some(stack) = ours.filter(|stack| stack.phase() == Phase::Failed) else {
            return Err(failed);
        };
        let resources = heat::resources(cloud, &stack).await?;
        let servers: Vec<&Resource> = resources.iter().filter(|one| lacks_host(one)).collect();
        let now = moved(change.target, resolved);
        let blueprint = Blueprint::read(&now, &cx.ownership.instance_id)?;
        let at = Position {
            blueprint: &blueprint,
            resources: &resources,
            has_own_zones: blueprint.base_hot.is_none() || resolved.per_vnfc,
        };
        let Some(vnfcs) = at.vnfcs(&servers, change.current.is_none()) else {
            return Err(failed);
        };
        let chosen = zones.next(&blueprint, &vnfcs);
        if chosen.is_empty() {
            return Err(failed);
        }
        for (resource, choice) in &chosen {
            let ChosenZone { granted, zone } = choice;
            let text = format!(
                "no host in its zone has room for `{resource}`: trying zone `{zone}` instead of the granted `{granted}`"
            );
            cx.watcher.log("warn", "openstack", &text);
        }
        resolved.zones.extend(chosen);
        let target = moved(change.target, resolved);
        let blueprint = Blueprint::read(&target, &cx.ownership.instance_id)?;
        let template = template_on_thread(&blueprint, &target, resolved).await?;
        let change = change.clone().with_target(&target);
        let ids = servers.iter().map(|one| one.id().to_owned()).collect();
        match Box::pin(replace_in_stack(cx, cloud, &change, Some(&template), ids)).await {
            Ok(Updated::Complete(stack)) => return Ok(*stack),
            Ok(_) => return Err(failed),
            Err(error) => failed = error,
        }
    }
}

/// Puts the zones of servers that are not in the granted ones into what is kept of a new instance.
pub(crate) fn note_zones(
    recorded: &mut Recorded,
    allocation: &Allocation,
    resolved: &mut Resolved,
) {
    resolved.zones = elsewhere(&recorded.inventory, allocation, &BTreeMap::new());
    recorded.resolved = json!(resolved);
}

/// The zones of servers that are not in the granted ones. VDUs in `renamed` have another name in the allocation.
fn elsewhere(
    inventory: &Inventory,
    allocation: &Allocation,
    renamed: &BTreeMap<String, String>,
) -> BTreeMap<String, ChosenZone> {
    let mut counts: BTreeMap<&str, u32> = BTreeMap::new();
    let mut zones = BTreeMap::new();
    for vnfc in &inventory.vnfc_resource_info {
        let vdu = renamed.get(&vnfc.vdu_id).unwrap_or(&vnfc.vdu_id);
        let index = counts.entry(vdu).or_default();
        let id = compute_id(vdu, *index);
        *index += 1;
        let granted = allocation.deployment.placement.zones.get(&id);
        let zone = vnfc.metadata.get("zone").and_then(|zone| zone.as_str());
        if let (Some(granted), Some(zone)) = (granted, zone)
            && granted != zone
        {
            let (granted, zone) = (granted.clone(), zone.to_owned());
            zones.insert(id, ChosenZone { granted, zone });
        }
    }
    zones
}

/// The target of a change with the zones that the instance's servers have instead of granted ones. A target of another
/// flavour or package does not name them; after a failed operation only the servers tell.
pub(crate) async fn with_zones_so_far(
    cloud: &Cloud<'_>,
    change: &Convergence<'_>,
) -> Result<Allocation, PortError> {
    let target = change.target;
    let current = change
        .current
        .filter(|_| target.deployment.resolved.is_null());
    let Some(current) = current else {
        return Ok(target.clone());
    };
    let mut known = known(change);
    if known == Resolved::default() && is_allowed(cloud).await? {
        known.zones = elsewhere(&current.inventory, target, &change.renamed_vdus());
    }
    let granted = &target.deployment.placement.zones;
    known
        .zones
        .retain(|id, chosen| granted.get(id) == Some(&chosen.granted));
    if known.zones.is_empty() {
        return Ok(target.clone());
    }
    known.per_vnfc = is_per_vnfc(&Blueprint::read(target, "instance")?)?;
    Ok(moved(target, &known))
}

/// The allocation with the zones that were chosen.
fn moved(allocation: &Allocation, resolved: &Resolved) -> Allocation {
    let mut moved = allocation.clone();
    Arc::make_mut(&mut moved.deployment).resolved = json!(resolved);
    moved
}

fn lacks_host(resource: &Resource) -> bool {
    let reason = resource.reason.as_deref().unwrap_or_default();
    resource.kind == SERVER && resource.status.ends_with("_FAILED") && is_without_host(reason)
}

/// The zones to try: those of the grant for servers, then the others of the cloud.
async fn known_zones(
    cloud: &Cloud<'_>,
    change: &Convergence<'_>,
) -> Result<Vec<String>, PortError> {
    let granted = change.target.deployment.placement.zones.iter();
    let granted: BTreeSet<&String> = granted
        .filter(|(resource, _)| resource.starts_with("compute/"))
        .map(|(_, zone)| zone)
        .collect();
    let mut known: Vec<String> = granted.into_iter().cloned().collect();
    for zone in nova::zones(cloud).await? {
        if !known.contains(&zone) {
            known.push(zone);
        }
    }
    Ok(known)
}

/// Which zones there are, and which a VNFC has tried.
struct Zones {
    known: Vec<String>,
    tried: BTreeMap<String, BTreeSet<String>>,
}

impl Zones {
    /// The next zone of each VNFC; empty if one of them has none left.
    fn next(
        &mut self,
        blueprint: &Blueprint<'_>,
        vnfcs: &BTreeSet<(String, u32)>,
    ) -> BTreeMap<String, ChosenZone> {
        let mut chosen = BTreeMap::new();
        for (vdu, index) in vnfcs {
            let id = compute_id(vdu, *index);
            let granted = blueprint.deployment.placement.zones.get(&id);
            let (Some(granted), Some(now)) = (granted, blueprint.zone_of_vnfc(vdu, *index)) else {
                return BTreeMap::new();
            };
            let tried = self.tried.entry(id.clone()).or_default();
            tried.insert(now.to_owned());
            let Some(zone) = self.known.iter().find(|zone| !tried.contains(*zone)) else {
                return BTreeMap::new();
            };
            let (granted, zone) = (granted.clone(), zone.clone());
            chosen.insert(id, ChosenZone { granted, zone });
        }
        chosen
    }
}

/// Where the servers of a stack are described.
struct Position<'a> {
    blueprint: &'a Blueprint<'a>,
    resources: &'a [Resource],
    /// Whether each VNFC has a zone of its own in the template.
    has_own_zones: bool,
}

impl Position<'_> {
    /// The VNFCs whose zone has to change for these servers; `None` if one is unknown, or if running servers would be replaced.
    fn vnfcs(&self, servers: &[&Resource], is_new: bool) -> Option<BTreeSet<(String, u32)>> {
        let mut vnfcs = BTreeSet::new();
        for server in servers {
            let (vdu, index) = self.vnfc(server)?;
            if !self.has_own_zones && !is_new {
                return None;
            }
            let count = self.blueprint.deployment.instances_of(vdu);
            let range = match index.filter(|_| self.has_own_zones) {
                Some(index) => index..index + 1,
                None => 0..count,
            };
            vnfcs.extend(range.map(|index| (vdu.to_owned(), index)));
        }
        Some(vnfcs)
    }

    /// The VDU that a server or a stack around it is named after, with the index in that name.
    fn vnfc<'s>(&'s self, server: &'s Resource) -> Option<(&'s str, Option<u32>)> {
        let mut at = server;
        for _ in 0..MAX_DEPTH {
            if let Some(vdu) = vdu_named(self.blueprint.flavour, &at.name) {
                let index = vnfc_name(&at.name).filter(|(stem, _)| *stem == vdu);
                return Some((vdu, index.map(|(_, index)| index)));
            }
            let stack = at.stack_id()?;
            at = self.resources.iter().find(|one| one.id() == stack)?;
        }
        None
    }
}

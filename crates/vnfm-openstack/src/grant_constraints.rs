//! What the NFVO's grant prescribes on the cloud: looked up before anything is created, refused by name if impossible.
//!
//! | prescribed | becomes |
//! |---|---|
//! | flavor of a VDU, image of a VDU or volume | that one, by id or name |
//! | zone of a VNFC or volume | `availability_zone`; in a Base HOT what is mapped from `vdu.<vdu>.zone` |
//! | externally managed internal link | ports on that network, and no network of ours |
//! | resource group | must be the project of the login |

use crate::errors::{GRANT, NO_FLAVOR, NO_IMAGE, NO_NETWORK};
use crate::glance;
use crate::neutron;
use crate::nova::{self, Flavor};
use crate::plan::{flavour, has_base_hot};
use crate::prepare::{FoundImage, Needs};
use crate::session::Cloud;
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Allocation, PortError};
use vnfm_descriptor::{HotExpression, Vdu};

/// Refuses prescriptions that this cloud or template cannot follow.
pub(crate) async fn check_supported(
    cloud: &Cloud<'_>,
    allocation: &Allocation,
    needs: &Needs,
) -> Result<(), PortError> {
    let granted = &allocation.deployment.placement;
    if granted.is_empty() {
        return Ok(());
    }
    if let Some(vdu) = granted
        .flavours
        .keys()
        .find(|vdu| !needs.flavors.contains(*vdu))
    {
        return Err(unsupported(&format!(
            "a flavor for VDU `{vdu}`, which the template chooses itself"
        )));
    }
    if let Some(owner) = granted
        .images
        .keys()
        .find(|owner| !needs.images.contains(*owner))
    {
        return Err(unsupported(&format!(
            "an image for `{owner}`, which the template chooses itself"
        )));
    }
    if let Some((of, zone)) = granted
        .zones
        .iter()
        .find(|(of, _)| !is_of_server_or_volume(of))
    {
        return Err(unsupported(&format!(
            "zone `{zone}` for `{of}`: networks and ports have none"
        )));
    }
    if has_base_hot(allocation) {
        check_template_takes(allocation)?;
    }
    let (session, _) = cloud.session().await?;
    if let Some(other) = granted
        .resource_groups
        .iter()
        .find(|group| **group != session.project)
    {
        let detail = format!(
            "resource group `{other}`; the login is one to `{}`",
            session.project
        );
        return Err(unsupported(&detail));
    }
    let wanted: BTreeSet<&String> = granted
        .zones
        .iter()
        .filter(|(of, _)| of.starts_with("compute/"))
        .map(|(_, z)| z)
        .collect();
    if wanted.is_empty() {
        return Ok(());
    }
    let zones = nova::zones(cloud).await?;
    match wanted.into_iter().find(|zone| !zones.contains(zone)) {
        Some(zone) => {
            let detail = format!("zone `{zone}`; the cloud has {}", zones.join(", "));
            Err(unsupported(&detail).on(zone))
        }
        None => Ok(()),
    }
}

fn is_of_server_or_volume(of: &str) -> bool {
    of.starts_with("compute/") || of.starts_with("storage/")
}

/// A template from the package can only follow what the mapping passes to it.
fn check_template_takes(allocation: &Allocation) -> Result<(), PortError> {
    if let Some(link) = allocation.deployment.placement.managed_links.keys().next() {
        return Err(unsupported(&format!(
            "a network for link `{link}`, which the template makes itself"
        )));
    }
    if let Some((of, zone)) = allocation
        .deployment
        .placement
        .zones
        .iter()
        .find(|(of, _)| of.starts_with("storage/"))
    {
        return Err(unsupported(&format!(
            "zone `{zone}` for `{of}`, which the template places itself"
        )));
    }
    let mapped = allocation
        .package
        .base_hot(&allocation.deployment.flavour_id)
        .map(|hot| &hot.parameters.0);
    for vdu in flavour(allocation)?.vdus.keys() {
        let Some(zone) = zone_of(allocation, vdu)? else {
            continue;
        };
        let takes = |from: &HotExpression| *from == HotExpression::VduZone(vdu.clone());
        if !mapped.is_some_and(|all| all.values().any(|binding| takes(&binding.from))) {
            return Err(unsupported(&format!("zone `{zone}` for VDU `{vdu}`")).hint(format!(
                "map a parameter of the template from `vdu.{vdu}.zone`, or let the NFVO grant without a zone"
            )));
        }
    }
    Ok(())
}

/// The zone of all VNFCs of a VDU; an error if they differ.
pub(crate) fn zone_of<'a>(
    allocation: &'a Allocation,
    vdu: &str,
) -> Result<Option<&'a str>, PortError> {
    let zones: BTreeSet<Option<&str>> = (0..allocation.deployment.instances_of(vdu))
        .map(|index| allocation.deployment.placement.zone_of(vdu, index))
        .collect();
    match zones.len() {
        0 | 1 => Ok(zones.into_iter().next().flatten()),
        _ => Err(unsupported(&format!(
            "several zones for VDU `{vdu}`, of which the template takes one"
        ))),
    }
}

/// The flavor that the grant names, by id or else by name.
pub(crate) fn flavor<'a>(
    offered: &'a [Flavor],
    vdu: &Vdu,
    wanted: &str,
) -> Result<&'a Flavor, PortError> {
    let found = offered.iter().find(|one| one.id == wanted);
    found
        .or_else(|| offered.iter().find(|one| one.name == wanted))
        .ok_or_else(|| {
            let action = format!("use the granted flavor for VDU `{}`", vdu.name);
            PortError::new(
                &NO_FLAVOR,
                action,
                format!("the cloud has no flavor `{wanted}`"),
            )
            .on(wanted)
        })
}

/// The image that the grant names, by id or else by name.
pub(crate) async fn image(
    cloud: &Cloud<'_>,
    owner: &str,
    wanted: &str,
) -> Result<FoundImage, PortError> {
    if let Some(image) = glance::by_id(cloud, wanted).await? {
        return Ok(FoundImage {
            name: image.name.unwrap_or_default(),
            id: Some(image.id),
        });
    }
    match glance::named(cloud, wanted).await?.as_slice() {
        [one] => Ok(FoundImage {
            name: wanted.to_owned(),
            id: Some(one.id.clone()),
        }),
        found => {
            let action = format!("use the granted image for `{owner}`");
            let detail = format!(
                "{} usable images have the id or name `{wanted}`",
                found.len()
            );
            Err(PortError::new(&NO_IMAGE, action, detail).on(wanted))
        }
    }
}

/// The networks of externally managed links, by link.
pub(crate) async fn managed(
    cloud: &Cloud<'_>,
    allocation: &Allocation,
) -> Result<BTreeMap<String, String>, PortError> {
    let mut found = BTreeMap::new();
    for (link, wanted) in &allocation.deployment.placement.managed_links {
        match neutron::networks(cloud, wanted).await?.as_slice() {
            [one] => drop(found.insert(link.clone(), one.id.clone())),
            all => {
                let action = format!("use the granted network for link `{link}`");
                let detail = format!("{} networks have the id or name `{wanted}`", all.len());
                return Err(PortError::new(&NO_NETWORK, action, detail).on(wanted));
            }
        }
    }
    Ok(found)
}

fn unsupported(prescription: &str) -> PortError {
    PortError::new(
        &GRANT,
        "do what the grant prescribes",
        format!("it prescribes {prescription}"),
    )
}

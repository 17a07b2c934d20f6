//! The NFVO's grant applied to the cloud: what it prescribes is looked up before anything is created; what the cloud
//! or the template cannot follow is refused by name. Of zones, the operator decides ([`zone_check`]).
//!
//! | prescribed | effect |
//! |---|---|
//! | flavor of a VDU, image of a VDU or volume | used, found by id or else by name |
//! | zone of a VNFC or volume | `availability_zone`; in a Base HOT, the parameter mapped from `vdu.<vdu>.zone`, or `locationConstraints` of the VDU or VNFC in `nfv` |
//! | externally managed internal link | ports on that network; no network is created, also where a Base HOT has one ([`managed_links`](crate::managed_links)) |
//! | resource group | must be the login's project |

use crate::blueprint::{Blueprint, unsupported};
use crate::errors::{NO_FLAVOR, NO_IMAGE, NO_NETWORK};
use crate::keystone_login::Cloud;
use crate::nova::{self, Flavor};
use crate::resolved::{FoundImage, Needs};
use crate::{glance, neutron, zone_check};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Granted, PortError};
use vnfm_descriptor::Vdu;

/// Refuses prescriptions that this cloud or template cannot follow.
pub(crate) async fn check_supported(
    cloud: &Cloud<'_>,
    blueprint: &Blueprint<'_>,
    needs: &Needs,
) -> Result<(), PortError> {
    let granted = &blueprint.deployment.placement;
    if granted.is_empty() {
        return Ok(());
    }
    check_names(granted, needs)?;
    zone_check::check(cloud, blueprint)?;
    check_resource_groups(cloud, granted).await?;
    check_zones(cloud, granted).await
}

/// Refuses flavors and images that the template does not take from us.
fn check_names(granted: &Granted, needs: &Needs) -> Result<(), PortError> {
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
    Ok(())
}

async fn check_resource_groups(cloud: &Cloud<'_>, granted: &Granted) -> Result<(), PortError> {
    let (session, _) = cloud.session().await?;
    match granted
        .resource_groups
        .iter()
        .find(|group| **group != session.project)
    {
        Some(other) => Err(unsupported(&format!(
            "resource group `{other}`, but the login's project is `{}`",
            session.project
        ))),
        None => Ok(()),
    }
}

async fn check_zones(cloud: &Cloud<'_>, granted: &Granted) -> Result<(), PortError> {
    let requested: BTreeSet<&String> = granted
        .zones
        .iter()
        .filter(|(resource, _)| resource.starts_with("compute/"))
        .map(|(_, zone)| zone)
        .collect();
    if requested.is_empty() {
        return Ok(());
    }
    let zones = nova::zones(cloud).await?;
    match requested.into_iter().find(|zone| !zones.contains(zone)) {
        Some(zone) => {
            let text = format!("zone `{zone}`; the cloud has {}", zones.join(", "));
            Err(unsupported(&text).on(zone))
        }
        None => Ok(()),
    }
}

/// The flavor that the grant names, by id or else by name.
pub(crate) fn flavor<'a>(
    offered: &'a [Flavor],
    vdu: &Vdu,
    requested: &str,
) -> Result<&'a Flavor, PortError> {
    let found = offered.iter().find(|flavor| flavor.id == requested);
    found
        .or_else(|| offered.iter().find(|flavor| flavor.name == requested))
        .ok_or_else(|| {
            let action = format!("use the granted flavor for VDU `{}`", vdu.name);
            PortError::new(
                &NO_FLAVOR,
                action,
                format!("the cloud has no flavor `{requested}`"),
            )
            .on(requested)
        })
}

/// The image that the grant names, by id or else by name.
pub(crate) async fn image(
    cloud: &Cloud<'_>,
    owner: &str,
    requested: &str,
) -> Result<FoundImage, PortError> {
    if let Some(image) = glance::by_id(cloud, requested).await? {
        return Ok(FoundImage {
            name: image.name.unwrap_or_default(),
            id: Some(image.id),
        });
    }
    match glance::named(cloud, requested).await?.as_slice() {
        [one] => Ok(FoundImage {
            name: requested.to_owned(),
            id: Some(one.id.clone()),
        }),
        found => {
            let action = format!("use the granted image for `{owner}`");
            let detail = format!(
                "{} usable images have the id or name `{requested}`",
                found.len()
            );
            Err(PortError::new(&NO_IMAGE, action, detail).on(requested))
        }
    }
}

/// The network ids of externally managed links, by link name.
pub(crate) async fn managed_networks(
    cloud: &Cloud<'_>,
    blueprint: &Blueprint<'_>,
) -> Result<BTreeMap<String, String>, PortError> {
    let mut found = BTreeMap::new();
    for (link, requested) in &blueprint.deployment.placement.managed_links {
        match neutron::networks(cloud, requested).await?.as_slice() {
            [one] => drop(found.insert(link.clone(), one.id.clone())),
            all => {
                let action = format!("use the granted network for link `{link}`");
                let detail = format!("{} networks have the id or name `{requested}`", all.len());
                return Err(PortError::new(&NO_NETWORK, action, detail).on(requested));
            }
        }
    }
    Ok(found)
}

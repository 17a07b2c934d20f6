//! The NFVO's grant applied to the cloud: what it prescribes is looked up before anything is created; what the cloud
//! or the template cannot follow is refused by name.
//!
//! | prescribed | effect |
//! |---|---|
//! | flavor of a VDU, image of a VDU or volume | used, found by id or else by name |
//! | zone of a VNFC or volume | `availability_zone`; in a Base HOT, the parameter mapped from `vdu.<vdu>.zone`, or `locationConstraints` of the VDU or VNFC in `nfv` |
//! | externally managed internal link | ports on that network; no network is created |
//! | resource group | must be the login's project |

use crate::base_hot::Templates;
use crate::blueprint::{Blueprint, unsupported};
use crate::errors::{NO_FLAVOR, NO_IMAGE, NO_NETWORK};
use crate::glance;
use crate::keystone_login::Cloud;
use crate::neutron;
use crate::nfv_layout::{LOCATION, VDU};
use crate::nova::{self, Flavor};
use crate::resolved::{FoundImage, Needs};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Granted, PortError};
use vnfm_descriptor::{BaseHot, HotExpression, Vdu};

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
    if let Some(hot) = blueprint.base_hot {
        check_template_accepts(blueprint, hot)?;
    }
    check_resource_groups(cloud, granted).await?;
    check_zones(cloud, granted).await
}

/// Refuses flavors and images that the template does not take from us, and zones of resources that have none.
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
    match granted
        .zones
        .iter()
        .find(|(resource, _)| !is_server_or_volume(resource))
    {
        Some((resource, zone)) => Err(unsupported(&format!(
            "zone `{zone}` for `{resource}`: networks and ports have none"
        ))),
        None => Ok(()),
    }
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

fn is_server_or_volume(resource: &str) -> bool {
    resource.starts_with("compute/") || resource.starts_with("storage/")
}

/// Refuses prescriptions that the package's mapping passes to no parameter of the template.
fn check_template_accepts(blueprint: &Blueprint<'_>, hot: &BaseHot) -> Result<(), PortError> {
    if let Some(link) = blueprint.deployment.placement.managed_links.keys().next() {
        return Err(unsupported(&format!(
            "a network for link `{link}`, which the template creates itself"
        )));
    }
    if let Some((resource, zone)) = blueprint
        .deployment
        .placement
        .zones
        .iter()
        .find(|(resource, _)| resource.starts_with("storage/"))
    {
        return Err(unsupported(&format!(
            "zone `{zone}` for `{resource}`, which the template places itself"
        )));
    }
    let templates = Templates::read(blueprint, hot)?;
    for vdu in blueprint.flavour.vdus.keys() {
        let is_mapped = |from: &HotExpression| *from == HotExpression::VduZone(vdu.clone());
        let mut mapped = hot.parameters.0.values();
        let is_mapped = mapped.any(|binding| is_mapped(&binding.from));
        let reads = |entry: &str| templates.read_member(hot, [VDU, entry, LOCATION]);
        if is_mapped || reads(vdu) {
            blueprint.zone_of(vdu)?;
            continue;
        }
        for index in 0..blueprint.deployment.instances_of(vdu) {
            let zone = blueprint.deployment.placement.zone_of(vdu, index);
            if let Some(zone) = zone.filter(|_| !reads(&format!("{vdu}-{index}"))) {
                return Err(unsupported(&format!("zone `{zone}` for VDU `{vdu}`")).hint(format!(
                    "map a parameter of the template from `vdu.{vdu}.zone`, let it read `[nfv, VDU, {vdu}, locationConstraints]`, or let the NFVO grant without a zone"
                )));
            }
        }
    }
    Ok(())
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

//! Granted zones that cannot be followed: the resource has no zone, or no parameter of the package's template accepts it.
//!
//! The operator decides what happens: the operation is refused, or the zone is logged and the template or the cloud
//! decides.

use crate::blueprint::{Blueprint, unsupported};
use crate::keystone_login::Cloud;
use crate::nfv_layout::{LOCATION, OLD_ZONE, VDU};
use crate::package_templates::Templates;
use crate::unplaced_zones::UnplacedZones;
use vnfm_core::ports::PortError;
use vnfm_descriptor::{BaseHot, HotExpression};

/// Refuses or logs the zones that cannot be followed.
pub(crate) fn check(cloud: &Cloud<'_>, blueprint: &Blueprint<'_>) -> Result<(), PortError> {
    for unplaced in unplaced(blueprint)? {
        if cloud.unplaced_zones == UnplacedZones::Refuse {
            return Err(unplaced);
        }
        let (text, hint) = (unplaced.to_string(), unplaced.next());
        tracing::warn!(instance = blueprint.instance, "{text}; {hint}");
        if let Some(watcher) = cloud.watcher {
            watcher.log("warn", "openstack", &format!("{text}; {hint}"));
        }
    }
    Ok(())
}

/// An error for each resource whose zone cannot be followed.
fn unplaced(blueprint: &Blueprint<'_>) -> Result<Vec<PortError>, PortError> {
    let zones = &blueprint.deployment.placement.zones;
    let mut unplaced = Vec::new();
    for (resource, zone) in zones {
        if !resource.starts_with("compute/") && !resource.starts_with("storage/") {
            let text = format!("zone `{zone}` for `{resource}`: networks and ports have none");
            unplaced.push(unsupported(&text).on(resource));
        } else if resource.starts_with("storage/") && blueprint.base_hot.is_some() {
            let text = format!("zone `{zone}` for `{resource}`, which the template places itself");
            unplaced.push(unsupported(&text).on(resource));
        }
    }
    if let Some(hot) = blueprint.base_hot {
        unplaced.extend(unplaced_vnfcs(blueprint, hot)?);
    }
    Ok(unplaced)
}

/// An error for each VDU whose zones no parameter accepts; several zones for one parameter are refused.
fn unplaced_vnfcs(blueprint: &Blueprint<'_>, hot: &BaseHot) -> Result<Vec<PortError>, PortError> {
    let templates = Templates::read(blueprint, hot)?;
    let mut unplaced = Vec::new();
    for vdu in blueprint.flavour.vdus.keys() {
        let reads = |entry: &str| templates.read_member(hot, [VDU, entry, LOCATION]);
        let reads_old = templates.read_member(hot, [OLD_ZONE.0, vdu, OLD_ZONE.1]);
        let of_vdu = HotExpression::VduZone(vdu.clone());
        let mut bindings = hot.parameters.0.values();
        if bindings.any(|binding| binding.from == of_vdu) || reads(vdu) || reads_old {
            blueprint.zone_of(vdu)?;
            continue;
        }
        let placement = &blueprint.deployment.placement;
        let mut indices = 0..blueprint.deployment.instances_of(vdu);
        let zone = indices.find_map(|index| {
            let zone = placement.zone_of(vdu, index)?;
            (!reads(&format!("{vdu}-{index}"))).then_some(zone)
        });
        unplaced.extend(zone.map(|zone| no_parameter(hot, vdu, zone)));
    }
    Ok(unplaced)
}

fn no_parameter(hot: &BaseHot, vdu: &str, zone: &str) -> PortError {
    let template = &hot.template;
    let text = format!("zone `{zone}` for VDU `{vdu}`, which no parameter of `{template}` accepts");
    unsupported(&text).on(vdu).hint(format!(
        "map a parameter of the template from `vdu.{vdu}.zone`, let it read `[nfv, VDU, {vdu}, {LOCATION}]`, let the NFVO grant without a zone, or set `grants.unplaced: warn` in the server's configuration"
    ))
}

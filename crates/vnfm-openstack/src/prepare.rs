//! Looks up what only the cloud knows, and changes nothing there.
//!
//! | what | by |
//! |---|---|
//! | flavor, image, zone, network that a grant prescribes | id, else name ([`grant_constraints`]) |
//! | flavor of a VDU | the name in the VNFD; else the smallest with enough vCPUs, memory and disk |
//! | image of a VDU or volume | its name, unless a package brought it; else the package's image, uploaded later |
//! | network of an external link | id, else name |
//! | quota | servers, vCPUs and memory, as far as Nova shows it |

use crate::blueprint::{Blueprint, boot_image, vdu_storages};
use crate::errors::{NO_FLAVOR, NO_IMAGE, NO_NETWORK, QUOTA};
use crate::keystone_login::Cloud;
use crate::nova::{Flavor, Limits};
use crate::resolved::{FoundImage, Needs, Resolved, known, recorded_instances};
use crate::{base_hot, glance, grant_constraints, neutron, nfv_layout, nova, retained_volumes};
use std::collections::BTreeMap;
use vnfm_core::ports::{Convergence, PortError};
use vnfm_descriptor::{Flavour, SwImage, Vdu};

/// Looks up what the target of `change` needs. Images and flavors that the instance has stay,
/// unless a grant prescribes others.
pub(crate) async fn prepare(
    cloud: &Cloud<'_>,
    blueprint: &Blueprint<'_>,
    change: &Convergence<'_>,
) -> Result<Resolved, PortError> {
    let (flavour, known) = (blueprint.flavour, known(change));
    let needs = needs(blueprint);
    grant_constraints::check_supported(cloud, blueprint, &needs).await?;
    let networks = networks(cloud, blueprint).await?;
    let managed = grant_constraints::managed_networks(cloud, blueprint).await?;
    let mut resolved = Resolved {
        networks,
        managed,
        per_vnfc: base_hot::is_per_vnfc(blueprint)?,
        zones: known.zones.clone(),
        ..Resolved::default()
    };
    ports(cloud, blueprint).await?;
    retained_volumes::check_reusable(cloud, change).await?;
    for (owner, image) in flavour
        .images()
        .filter(|(owner, _)| needs.images.contains(*owner))
    {
        let granted = blueprint.deployment.placement.images.get(owner);
        let found = match (granted, known.images.get(owner)) {
            (Some(granted), _) => grant_constraints::image(cloud, owner, granted).await?,
            (None, Some(known)) => known.clone(),
            (None, None) => found_image(cloud, owner, image).await?,
        };
        resolved.images.insert(owner.to_owned(), found);
    }
    if needs.flavors.is_empty() {
        return Ok(resolved);
    }
    let offered = nova::flavors(cloud).await?;
    let mut demand = ResourceDemand::default();
    for vdu in flavour
        .vdus
        .values()
        .filter(|vdu| needs.flavors.contains(&vdu.name))
    {
        let granted = blueprint.deployment.placement.flavours.get(&vdu.name);
        let known = known.flavors.get(&vdu.name);
        let chosen = match (granted, known) {
            (Some(granted), _) => grant_constraints::flavor(&offered, vdu, granted)?,
            (None, Some(known)) => current_flavor(&offered, vdu, known)?,
            (None, None) => choose(
                &offered,
                vdu,
                boot_image(flavour, vdu),
                boots_from_volume(flavour, vdu),
            )?,
        };
        let count = blueprint.deployment.instances_of(&vdu.name);
        let new = count.saturating_sub(recorded_instances(change, &vdu.name));
        demand.add(chosen, new);
        resolved
            .flavors
            .insert(vdu.name.clone(), chosen.name.clone());
    }
    demand.within(&nova::limits(cloud).await?)?;
    Ok(resolved)
}

fn needs(blueprint: &Blueprint<'_>) -> Needs {
    let flavour = blueprint.flavour;
    if let Some(hot) = blueprint.base_hot {
        return base_hot::needs(hot, flavour);
    }
    let storages = flavour
        .vdus
        .values()
        .flat_map(|vdu| vdu_storages(flavour, vdu));
    Needs {
        flavors: flavour.vdus.keys().cloned().collect(),
        images: flavour
            .vdus
            .keys()
            .cloned()
            .chain(storages.map(|one| one.name.clone()))
            .collect(),
    }
}

fn boots_from_volume(flavour: &Flavour, vdu: &Vdu) -> bool {
    vdu.image.is_none() && vdu_storages(flavour, vdu).any(|one| one.image.is_some())
}

async fn networks(
    cloud: &Cloud<'_>,
    blueprint: &Blueprint<'_>,
) -> Result<BTreeMap<String, String>, PortError> {
    let mut found = BTreeMap::new();
    for link in &blueprint.deployment.ext_virtual_links {
        let network_id = &link.resource_id;
        let all = neutron::networks(cloud, network_id).await?;
        let problem = match all.as_slice() {
            [one] => {
                found.insert(link.id.clone(), one.id.clone());
                continue;
            }
            [] => "the project sees no network of that id or name".to_owned(),
            several => {
                let ids: Vec<&str> = several.iter().map(|one| one.id.as_str()).collect();
                format!(
                    "several networks have that name, use an id: {}",
                    ids.join(", ")
                )
            }
        };
        let action = format!("find network `{network_id}` of external link `{}`", link.id);
        return Err(PortError::new(&NO_NETWORK, action, problem).on(network_id));
    }
    Ok(found)
}

/// What is known of an instance, with the ids of the request's networks that exist now.
pub(crate) async fn present(
    cloud: &Cloud<'_>,
    blueprint: &Blueprint<'_>,
    known: Resolved,
) -> Result<Resolved, PortError> {
    let mut resolved = known;
    for link in &blueprint.deployment.ext_virtual_links {
        if let [one] = neutron::networks(cloud, &link.resource_id)
            .await?
            .as_slice()
        {
            resolved.networks.insert(link.id.clone(), one.id.clone());
        }
    }
    Ok(resolved)
}

/// Checks that the ports in the request exist, except those in whose place `additionalParams.nfv` names others.
async fn ports(cloud: &Cloud<'_>, blueprint: &Blueprint<'_>) -> Result<(), PortError> {
    let replaced = nfv_layout::replaced_ports(blueprint);
    for port in blueprint
        .deployment
        .ext_virtual_links
        .iter()
        .flat_map(|link| &link.ext_link_ports)
        .filter(|port| !replaced.contains(port.resource_handle.resource_id.as_str()))
    {
        let id = &port.resource_handle.resource_id;
        if neutron::port(cloud, id).await?.is_none() {
            let action = format!("find port `{id}` of the request");
            let detail = "the project sees no port of that id";
            return Err(PortError::new(&NO_NETWORK, action, detail).on(id));
        }
    }
    Ok(())
}

async fn found_image(
    cloud: &Cloud<'_>,
    owner: &str,
    image: &SwImage,
) -> Result<FoundImage, PortError> {
    let name = image.name.clone();
    let mut all = glance::named(cloud, &name).await?;
    // An image from a package is deleted with its users; our own package's image is looked for at its upload.
    all.retain(|one| !one.is_from_package());
    let action = format!("find image `{name}` of `{owner}`");
    match all.as_slice() {
        [one] => Ok(FoundImage {
            name,
            id: Some(one.id.clone()),
        }),
        [] if image.artifact.is_some() => Ok(FoundImage { name, id: None }),
        [] => {
            let detail =
                "the cloud has no usable image of that name, and the package contains none";
            Err(PortError::new(&NO_IMAGE, action, detail).on(name))
        }
        several => {
            let ids: Vec<&str> = several.iter().map(|one| one.id.as_str()).collect();
            let detail = format!("several images have that name: {}", ids.join(", "));
            Err(PortError::new(&NO_IMAGE, action, detail)
                .on(name)
                .hint("rename all but one of them, or use another name in the descriptor"))
        }
    }
}

/// The flavor that the VDU names, or the smallest that is large enough.
pub(crate) fn choose<'a>(
    offered: &'a [Flavor],
    vdu: &Vdu,
    image: Option<&SwImage>,
    from_volume: bool,
) -> Result<&'a Flavor, PortError> {
    let action = format!("choose a flavor for VDU `{}`", vdu.name);
    let names = || {
        let mut names: Vec<&str> = offered.iter().map(|one| one.name.as_str()).collect();
        names.sort_unstable();
        names.join(", ")
    };
    if let Some(name) = &vdu.requested_flavor {
        return offered
            .iter()
            .find(|one| one.name == *name || one.id == *name)
            .ok_or_else(|| {
                let detail = format!("no flavor `{name}`; the cloud has {}", names());
                PortError::new(&NO_FLAVOR, action, detail).on(name)
            });
    }
    let minimum = MinimumFlavor::for_vdu(vdu, image, from_volume);
    let fitting = offered
        .iter()
        .filter(|one| !one.disabled && minimum.matches(one));
    let smallest = fitting.min_by_key(|one| {
        (
            one.vcpus,
            one.ram,
            one.disk + one.ephemeral,
            one.name.as_str(),
        )
    });
    smallest.ok_or_else(|| {
        let detail = format!(
            "none has {} vCPUs, {} MiB of memory, {} GiB of disk and {} GiB of ephemeral disk; the cloud has {}",
            minimum.vcpus,
            minimum.ram,
            minimum.disk,
            minimum.ephemeral,
            names()
        );
        PortError::new(&NO_FLAVOR, action, detail).on(&vdu.name)
    })
}

/// The flavor that the VDU's servers have: another one would change them all.
fn current_flavor<'a>(
    offered: &'a [Flavor],
    vdu: &Vdu,
    name: &str,
) -> Result<&'a Flavor, PortError> {
    let found = offered.iter().find(|one| one.name == name);
    found.ok_or_else(|| {
        let action = format!("use the flavor of VDU `{}`", vdu.name);
        let detail = format!("the cloud no longer has the flavor `{name}` of its servers");
        PortError::new(&NO_FLAVOR, action, detail).on(name)
    })
}

struct MinimumFlavor {
    vcpus: u64,
    ram: u64,
    disk: u64,
    ephemeral: u64,
}

impl MinimumFlavor {
    fn for_vdu(vdu: &Vdu, image: Option<&SwImage>, from_volume: bool) -> Self {
        let compute = vdu.compute.as_ref();
        let disks = compute.map(|compute| compute.virtual_local_storage_gib.as_slice());
        let (root, more) = disks.and_then(<[u64]>::split_first).unwrap_or((&0, &[]));
        let image_disk = image.and_then(|image| image.min_disk_gib).unwrap_or(0);
        let image_ram = image.and_then(|image| image.min_ram_mib).unwrap_or(0);
        Self {
            vcpus: compute.map_or(1, |compute| u64::from(compute.num_virtual_cpu)),
            ram: compute
                .map_or(0, |compute| compute.virtual_mem_size_mib)
                .max(image_ram),
            disk: if from_volume {
                *root
            } else {
                (*root).max(image_disk)
            },
            ephemeral: more.iter().sum(),
        }
    }

    fn matches(&self, flavor: &Flavor) -> bool {
        flavor.vcpus >= self.vcpus
            && flavor.ram >= self.ram
            && flavor.disk >= self.disk
            && flavor.ephemeral >= self.ephemeral
    }
}

/// The sum over all servers.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct ResourceDemand {
    instances: u64,
    cores: u64,
    ram: u64,
}

impl ResourceDemand {
    fn add(&mut self, flavor: &Flavor, count: u32) {
        let count = u64::from(count);
        self.instances += count;
        self.cores += flavor.vcpus * count;
        self.ram += flavor.ram * count;
    }

    /// `Refused` if the demand exceeds the rest of the project's limits.
    fn within(self, limits: &Limits) -> Result<(), PortError> {
        let rows = [
            (
                "instances",
                self.instances,
                limits.max_total_instances,
                limits.total_instances_used,
            ),
            (
                "cores",
                self.cores,
                limits.max_total_cores,
                limits.total_cores_used,
            ),
            (
                "MiB of RAM",
                self.ram,
                limits.max_total_ram,
                limits.total_ram_used,
            ),
        ];
        for (resource, needed, most, used) in rows {
            let (Some(most), Some(used)) = (most.filter(|most| *most >= 0), used) else {
                continue;
            };
            if i64::try_from(needed).unwrap_or(i64::MAX) > most - used {
                let detail = format!(
                    "Quota exceeded for {resource}: {needed} are needed, but {used} of {most} are used already"
                );
                return Err(PortError::new(&QUOTA, "plan the servers", detail).on(resource));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offered() -> Vec<Flavor> {
        let flavor = |name: &str, vcpus, ram, disk| Flavor {
            id: format!("id-{name}"),
            name: name.into(),
            vcpus,
            ram,
            disk,
            ..Flavor::default()
        };
        let mut all = vec![
            flavor("m1.large", 4, 8192, 80),
            flavor("m1.small", 1, 2048, 20),
            flavor("m1.tiny", 1, 512, 1),
            flavor("m1.nano", 1, 128, 1),
            flavor("m1.medium", 2, 4096, 40),
            flavor("off", 1, 600, 5),
        ];
        all[5].disabled = true;
        all
    }

    fn vdu(yaml: &str) -> Vdu {
        let package = crate::testing::package(yaml);
        package.vnfd().flavour("simple").unwrap().vdus["server"].clone()
    }

    #[test]
    fn the_smallest_sufficient_flavor_is_chosen() {
        let table = [
            ((1, "512 MiB", "1 GiB"), "m1.tiny"),
            ((1, "513 MiB", "1 GiB"), "m1.small"),
            ((2, "1 GiB", "1 GiB"), "m1.medium"),
            ((1, "128 MiB", "41 GiB"), "m1.large"),
        ];
        for ((vcpus, memory, disk), name) in table {
            let vdu = vdu(&crate::testing::vnfd(vcpus, memory, disk));
            assert_eq!(choose(&offered(), &vdu, None, false).unwrap().name, name);
        }
    }

    #[test]
    fn a_missing_flavor_is_refused_by_name() {
        let mut vdu = vdu(&crate::testing::vnfd(16, "1 GiB", "1 GiB"));
        let error = choose(&offered(), &vdu, None, false).unwrap_err();
        assert!(error.to_string().contains("16 vCPUs"), "{error}");
        vdu.requested_flavor = Some("m1.large".into());
        assert_eq!(
            choose(&offered(), &vdu, None, false).unwrap().name,
            "m1.large"
        );
        vdu.requested_flavor = Some("gpu.huge".into());
        let error = choose(&offered(), &vdu, None, false).unwrap_err();
        assert!(
            error
                .to_string()
                .contains("no flavor `gpu.huge`; the cloud has m1.large"),
            "{error}"
        );
        assert_eq!(error.name(), "openstack.no-flavor");
    }

    #[test]
    fn an_insufficient_quota_is_reported_before_anything_is_created() {
        let mut demand = ResourceDemand::default();
        demand.add(&offered()[2], 3);
        let limits = |most, used| Limits {
            max_total_instances: Some(most),
            total_instances_used: Some(used),
            ..Limits::default()
        };
        demand.within(&limits(10, 7)).unwrap();
        demand.within(&limits(-1, 700)).unwrap();
        demand.within(&Limits::default()).unwrap();
        let error = demand.within(&limits(8, 7)).unwrap_err();
        assert!(error.to_string().contains("7 of 8"), "{error}");
    }
}

//! The layout of Tacker's user data, for the template's parameter `nfv`.
//!
//! ```text
//! VDU: {<vdu>: {flavor, computeFlavourId, image, vcImageId, desired_capacity, locationConstraints}, <storage>: {image, vcImageId}}
//! CP:  {<cp>: {network, fixed_ips, port}}
//! vdu: {<vdu>: {zone}}                      of templates for Tacker's API version 1
//! ```
//! As in Tacker's `StandardUserData`, a template can read the entry of one VNFC: `<vdu>-<index>`, `<storage>-<index>`,
//! `<cp>-<index>`, with the VNFC's own zone and addresses, and an empty `name`, for which Heat makes one. `additionalParams.nfv` of the request is merged into all of it
//! (RFC 7396); what it gives for a VDU, storage or CP also applies to the entries of its VNFCs.

use crate::blueprint::{Blueprint, RequestedAddress, addresses};
use crate::package_templates::Templates;
use crate::resolved::Resolved;
use crate::vnfc_names::vnfc_name;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use vnfm_core::merge_patch;
use vnfm_core::ports::PortError;
use vnfm_descriptor::BaseHot;

/// The member with the zone of a VDU or VNFC.
pub(crate) const LOCATION: &str = "locationConstraints";
pub(crate) const VDU: &str = "VDU";
pub(crate) const CP: &str = "CP";
/// The path of a VDU's zone in templates for Tacker's API version 1: `[nfv, vdu, web, zone]`.
pub(crate) const OLD_ZONE: (&str, &str) = ("vdu", "zone");

/// The inputs of the parameters' values.
pub(crate) struct Sources<'a> {
    pub(crate) blueprint: &'a Blueprint<'a>,
    pub(crate) resolved: &'a Resolved,
    pub(crate) templates: &'a Templates,
}

/// The values in Tacker's layout.
pub(crate) fn values(from: &Sources<'_>, hot: &BaseHot) -> Result<Value, PortError> {
    let mut values = Map::from_iter([
        (VDU.to_owned(), Value::Object(vdus(from, hot)?)),
        (CP.to_owned(), Value::Object(cps(from))),
    ]);
    let zones = old_zones(from, hot)?;
    if !zones.is_empty() {
        values.insert(OLD_ZONE.0.to_owned(), Value::Object(zones));
    }
    let requested = from.blueprint.deployment.additional_params.get("nfv");
    let requested = requested.and_then(Value::as_object);
    for (section, name) in from.templates.entries(hot) {
        let Some(Value::Object(entries)) = values.get_mut(&section) else {
            continue;
        };
        let Some((stem, index)) = vnfc_name(&name).filter(|_| !entries.contains_key(&name)) else {
            continue;
        };
        let Some(mut entry) = entry_of_vnfc(from, &section, (stem, index)) else {
            continue;
        };
        let of_all = requested.and_then(|all| all.get(&section)?.get(stem)?.as_object());
        if of_all.is_some() {
            merge_patch(&mut entry, of_all);
        }
        entries.insert(name, Value::Object(entry));
    }
    if requested.is_some() {
        merge_patch(&mut values, requested);
    }
    Ok(Value::Object(values))
}

/// The entries of VDUs, and of storages with an image.
fn vdus(from: &Sources<'_>, hot: &BaseHot) -> Result<Map<String, Value>, PortError> {
    let blueprint = from.blueprint;
    let mut vdus = Map::new();
    for name in blueprint.flavour.vdus.keys() {
        let zone = match blueprint.zone_of(name) {
            // Nothing reads it: each VNFC has an entry of its own.
            Err(_) if !from.templates.read_member(hot, [VDU, name, LOCATION]) => None,
            zone => zone?,
        };
        let mut vdu = vdu(from, name, zone);
        let count = blueprint.deployment.instances_of(name);
        vdu.insert("desired_capacity".to_owned(), json!(count));
        vdus.insert(name.clone(), Value::Object(vdu));
    }
    let storages = blueprint.flavour.storages.values();
    for storage in storages.filter(|one| one.image.is_some()) {
        let entry = Value::Object(storage_entry(from, &storage.name));
        vdus.insert(storage.name.clone(), entry);
    }
    Ok(vdus)
}

/// The zones of VDUs whose templates read them as in Tacker's API version 1.
fn old_zones(from: &Sources<'_>, hot: &BaseHot) -> Result<Map<String, Value>, PortError> {
    let (section, member) = OLD_ZONE;
    let vdus = from.blueprint.flavour.vdus.keys();
    let read = vdus.filter(|vdu| from.templates.read_member(hot, [section, vdu, member]));
    read.map(|vdu| Ok((vdu.clone(), json!({member: from.blueprint.zone_of(vdu)?}))))
        .collect()
}

/// What a VDU and its VNFCs have. Heat places a server anywhere if its zone is null.
fn vdu(from: &Sources<'_>, name: &str, zone: Option<&str>) -> Map<String, Value> {
    let mut vdu = Map::from_iter([(LOCATION.to_owned(), json!(zone))]);
    let flavor = from.resolved.flavors.get(name).map(String::as_str);
    let image = from.resolved.image(name);
    for (member, value) in [
        ("flavor", flavor),
        ("computeFlavourId", flavor),
        ("image", image),
        ("vcImageId", image),
    ] {
        vdu.extend(value.map(|value| (member.to_owned(), json!(value))));
    }
    vdu
}

fn storage_entry(from: &Sources<'_>, storage: &str) -> Map<String, Value> {
    let image = json!(from.resolved.image(storage));
    Map::from_iter([
        ("image".to_owned(), image.clone()),
        ("vcImageId".to_owned(), image),
    ])
}

fn cps(from: &Sources<'_>) -> Map<String, Value> {
    let links = &from.blueprint.deployment.ext_virtual_links;
    let cpds = links.iter().flat_map(|link| &link.ext_cps);
    let entry = |cpd: &String| (cpd.clone(), Value::Object(cp(from, cpd, 0)));
    cpds.map(|data| entry(&data.cpd_id)).collect()
}

/// The network of a CP, and the addresses and existing port of its `index`-th instance.
fn cp(from: &Sources<'_>, cpd: &str, index: u32) -> Map<String, Value> {
    let network = from.resolved.network_of(from.blueprint, cpd);
    let mut cp = Map::from_iter([("network".to_owned(), json!(network))]);
    let fixed = fixed_ips(from.blueprint, cpd, index);
    if !fixed.is_empty() {
        cp.insert("fixed_ips".into(), Value::Array(fixed));
    }
    let binding = from.blueprint.ext_cp_binding(cpd);
    let port = binding.and_then(|binding| binding.port(index));
    cp.extend(port.map(|port| ("port".to_owned(), json!(port))));
    cp
}

/// The entry of a VNFC, or of its storage or CP; `None` if the instance has no such VNFC.
fn entry_of_vnfc(
    from: &Sources<'_>,
    section: &str,
    (stem, index): (&str, u32),
) -> Option<Map<String, Value>> {
    let (blueprint, flavour) = (from.blueprint, from.blueprint.flavour);
    let exists = |vdu: &str| index < blueprint.deployment.instances_of(vdu);
    if section == CP {
        let is_bound = blueprint.ext_cp_binding(stem).is_some();
        let vdu = flavour.cps.get(stem).and_then(|cp| cp.vdu.as_deref());
        return (is_bound && vdu.is_none_or(exists)).then(|| cp(from, stem, index));
    }
    if flavour.vdus.contains_key(stem) {
        let zone = blueprint.zone_of_vnfc(stem, index);
        let entry = exists(stem).then(|| vdu(from, stem, zone));
        return entry.map(|mut entry| {
            entry.insert("name".to_owned(), json!(""));
            entry
        });
    }
    let storage = flavour.storages.get(stem)?;
    storage.image.as_ref()?;
    let mut owners = flavour.vdus.values();
    let is_owned = owners.any(|vdu| vdu.storages.contains(&storage.name) && exists(&vdu.name));
    is_owned.then(|| storage_entry(from, stem))
}

/// The addresses that the request gives the `index`-th instance of a CP, as Neutron's `fixed_ips`.
pub(crate) fn fixed_ips(blueprint: &Blueprint<'_>, cpd: &str, index: u32) -> Vec<Value> {
    let binding = blueprint.ext_cp_binding(cpd);
    let config = binding.and_then(|binding| binding.config(index));
    let requested = config.map(|(_, config)| addresses(config));
    let requested = requested.unwrap_or_default().into_iter();
    requested.map(fixed_ip).collect()
}

/// The ports of a Base HOT's CPs in whose place `additionalParams.nfv` names others.
pub(crate) fn replaced_ports<'a>(blueprint: &Blueprint<'a>) -> BTreeSet<&'a str> {
    let requested = blueprint.deployment.additional_params.get("nfv");
    let requested = requested.filter(|_| blueprint.base_hot.is_some());
    let cps = requested.and_then(|nfv| nfv[CP].as_object());
    let named = cps.into_iter().flatten();
    let named = named.filter(|(_, entry)| entry["port"].is_string());
    named
        .filter_map(|(cpd, _)| blueprint.ext_cp_binding(cpd)?.port(0))
        .collect()
}

fn fixed_ip(requested: RequestedAddress) -> Value {
    let address = requested.address.map(|address| ("ip_address", address));
    let subnet = requested.subnet.map(|subnet| ("subnet", subnet));
    let members = address.into_iter().chain(subnet);
    members
        .map(|(name, value)| (name.to_owned(), Value::String(value)))
        .collect::<Map<_, _>>()
        .into()
}

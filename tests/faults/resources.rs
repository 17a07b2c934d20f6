//! Whether exactly the resources exist that records name: the inventory of the simulated world, compared with instances (I2, I5).

use anyhow::{Result, bail, ensure};
use serde_json::Value;
use std::collections::BTreeSet;
use vnfm_core::ports::InstanceRecord;
use vnfm_types::VnfOperationalState;

use crate::process::Process;
use crate::vnf::Vnf;

/// An instance whose resources must exist.
pub(crate) struct Expected<'a> {
    /// Which VNF the instance belongs to.
    pub(crate) vnf: Vnf,
    pub(crate) instance: &'a InstanceRecord,
    /// How exactly the resources must match.
    pub(crate) extent: Extent,
}

/// How exactly resources must match a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Exactly the resources that are recorded.
    Exact,
    /// The same number: its cluster was healed, and controllers have recreated the pods elsewhere.
    Moved,
    /// Any: an operation was failed half-way.
    Part,
}

/// I2 and I5: exactly these instances exist, each as its record says.
pub(crate) fn check_resources(
    found: &[Value],
    expected: &[Expected<'_>],
    process: &Process,
) -> Result<()> {
    let mut left: Vec<&Value> = found.iter().collect();
    for Expected {
        vnf,
        instance,
        extent,
    } in expected
    {
        let (own, others): (Vec<_>, Vec<_>) = match vnf {
            Vnf::A | Vnf::C | Vnf::D | Vnf::E => {
                left.into_iter().partition(|entry| is_of_servers(entry))
            }
            Vnf::B => left.into_iter().partition(|entry| is_of_b(entry, instance)),
            Vnf::F => left
                .into_iter()
                .partition(|entry| is_of_b(entry, instance) || is_image(entry)),
        };
        left = others;
        match vnf {
            _ if *extent == Extent::Part => {}
            Vnf::A | Vnf::C | Vnf::D | Vnf::E => {
                let clusters = usize::from(*vnf == Vnf::A);
                let engine = process.engine()?;
                let installation = engine.store().installation_id();
                check_servers(&own, instance, (installation, clusters))?;
            }
            Vnf::B => check_b(&own, instance, *extent)?,
            Vnf::F => {
                check_b(&own, instance, *extent)?;
                check_image(&own, instance)?;
            }
        }
    }
    ensure!(left.is_empty(), "I2: unknown resources {left:?}");
    Ok(())
}

pub(crate) fn field<'a>(entry: &'a Value, name: &str) -> &'a str {
    entry[name].as_str().unwrap_or_default()
}

/// Whether a resource belongs to VNF-A or VNF-C, of which one exists at a time: everything but the objects of VNF-B.
fn is_of_servers(entry: &Value) -> bool {
    let is_object = field(entry, "kind").starts_with("object:");
    let at_home = entry["detail"]["cluster"] == "standalone";
    !is_object || !at_home && !field(entry, "name").contains("vnf-")
}

fn is_of_b(entry: &Value, instance: &InstanceRecord) -> bool {
    field(entry, "kind").starts_with("object:")
        && field(entry, "name").contains(&format!("vnf-{}", instance.vnf.id))
}

fn is_image(entry: &Value) -> bool {
    field(entry, "kind") == "image-tag"
}

/// The image has the tag of its name, and one which says that the instance uses it.
fn check_image(found: &[&Value], instance: &InstanceRecord) -> Result<()> {
    let tags = found.iter().filter(|entry| is_image(entry));
    let tags: Vec<_> = tags.map(|entry| field(entry, "name")).collect();
    let used = format!(".{}.", instance.vnf.id);
    let is_used = |tag: &str| tag.contains(":vnfm.") && tag.contains(&used);
    let is_complete = matches!(tags[..], [name, tag] if name.ends_with(":1.0") && is_used(tag));
    ensure!(is_complete, "I5: the image has the tags {tags:?}");
    Ok(())
}

fn resources(instance: &InstanceRecord) -> BTreeSet<&str> {
    let info = instance.vnf.instantiated_vnf_info.as_ref();
    let vnfcs = info
        .map(|info| info.vnfc_resource_info.as_slice())
        .unwrap_or_default();
    vnfcs
        .iter()
        .map(|vnfc| vnfc.compute_resource.resource_id.as_str())
        .collect()
}

fn check_servers(
    found: &[&Value],
    instance: &InstanceRecord,
    (installation, clusters): (&str, usize),
) -> Result<()> {
    let of_kind = |kind: &str| -> Vec<&&Value> {
        found
            .iter()
            .filter(|entry| field(entry, "kind") == kind)
            .collect()
    };
    let [stack] = of_kind("stack")[..] else {
        bail!("I2: {} stacks", of_kind("stack").len())
    };
    ensure!(
        field(stack, "name").contains(&instance.vnf.id),
        "I5: the stack is {stack}"
    );
    let tags = stack["detail"]["tags"].to_string();
    ensure!(
        tags.contains(&format!("vnfm-{installation}")),
        "I2: the stack has tags {tags}"
    );
    ensure!(tags.contains("vnfm-op-"), "I2: the stack has tags {tags}");
    let status = stack["detail"]["status"].as_str().unwrap_or_default();
    ensure!(status.ends_with("_COMPLETE"), "I5: the stack is {status}");
    let servers: BTreeSet<_> = of_kind("server")
        .iter()
        .map(|entry| field(entry, "id"))
        .collect();
    let known = resources(instance);
    ensure!(
        servers == known,
        "I5: servers {servers:?} exist, {known:?} are recorded"
    );
    let volumes: BTreeSet<_> = of_kind("volume")
        .iter()
        .map(|entry| field(entry, "id"))
        .collect();
    let info = instance.vnf.instantiated_vnf_info.as_ref();
    let storages = info
        .into_iter()
        .flat_map(|info| &info.virtual_storage_resource_info);
    let known: BTreeSet<_> = storages
        .map(|one| one.storage_resource.resource_id.as_str())
        .collect();
    ensure!(
        volumes == known,
        "I5: volumes {volumes:?} exist, {known:?} are recorded"
    );
    ensure!(
        of_kind("cluster").len() == clusters,
        "I2: {} clusters on one VNF",
        of_kind("cluster").len()
    );
    Ok(())
}

fn check_b(found: &[&Value], instance: &InstanceRecord, extent: Extent) -> Result<()> {
    let pods = found
        .iter()
        .filter(|entry| field(entry, "kind") == "object:pods");
    let pods: BTreeSet<_> = pods
        .map(|entry| field(entry, "name").rsplit('/').next().unwrap_or_default())
        .collect();
    let known = resources(instance);
    let as_many = extent == Extent::Moved && pods.len() == known.len();
    ensure!(
        as_many || pods == known,
        "I5: pods {pods:?} exist, {known:?} are recorded"
    );
    let info = instance.vnf.instantiated_vnf_info.as_ref();
    let is_stopped = info.is_some_and(|info| info.vnf_state == VnfOperationalState::Stopped);
    ensure!(is_stopped || !known.is_empty(), "I5: no pod is recorded");
    Ok(())
}

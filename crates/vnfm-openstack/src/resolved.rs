//! What only the cloud knows of an instance: flavors, images and networks. Journaled as the result of `preview`, and kept
//! in the deployment: a later template names what the instance has.

use crate::blueprint::Blueprint;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::{Allocation, Convergence, compute_id};
use vnfm_descriptor::{Flavour, SwImage};

/// The findings. They are journaled, so they contain no secrets.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Resolved {
    /// Name of the flavor by VDU.
    pub(crate) flavors: BTreeMap<String, String>,
    /// Image by VDU or volume.
    pub(crate) images: BTreeMap<String, FoundImage>,
    /// Id of the network by `extVirtualLinks[].id`.
    pub(crate) networks: BTreeMap<String, String>,
    /// Id of the network by externally managed internal link.
    pub(crate) managed: BTreeMap<String, String>,
    /// Whether the package's top-level template has a resource for each VNFC.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) per_vnfc: bool,
    /// Zones that were chosen instead of granted ones, by resource.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) zones: BTreeMap<String, ChosenZone>,
}

/// A zone that a VNFC has instead of the granted one, in which no host had room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChosenZone {
    /// A grant of another zone makes the choice void.
    pub(crate) granted: String,
    pub(crate) zone: String,
}

/// An image that exists, or will be uploaded.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct FoundImage {
    pub(crate) name: String,
    /// Absent until it is uploaded.
    pub(crate) id: Option<String>,
}

/// What to look up: a Base HOT need not use every VDU.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    /// VDUs whose flavor is used.
    pub(crate) flavors: BTreeSet<String>,
    /// VDUs and volumes whose image is used.
    pub(crate) images: BTreeSet<String>,
}

/// What the instance's stack was made of; empty if it has none. Of another deployment that it comes from, what both
/// describe alike.
pub(crate) fn known(change: &Convergence<'_>) -> Resolved {
    if change.current.is_none() {
        return Resolved::default();
    }
    let read = |allocation: &Allocation| {
        let resolved = allocation.deployment.resolved.clone();
        serde_json::from_value::<Resolved>(resolved).ok()
    };
    if let Some(known) = read(change.target) {
        return known;
    }
    let known = change.other.and_then(|other| Some((other, read(other)?)));
    let Some((other, known)) = known else {
        return Resolved::default();
    };
    let (old, new) = (flavour(other), flavour(change.target));
    let mut known = known.common(old, new, change.changes_vnfd());
    let renamed = change.renamed_vdus();
    let zones = std::mem::take(&mut known.zones).into_iter();
    known.zones = zones
        .map(|(id, zone)| (in_renamed_vdu(&renamed, &id).unwrap_or(id), zone))
        .collect();
    known
}

/// The id of a VNFC whose VDU has another name now.
fn in_renamed_vdu(renamed: &BTreeMap<String, String>, id: &str) -> Option<String> {
    let (vdu, index) = id.strip_prefix("compute/")?.rsplit_once('/')?;
    Some(compute_id(renamed.get(vdu)?, index.parse().ok()?))
}

fn flavour(allocation: &Allocation) -> Option<&Flavour> {
    let vnfd = allocation.package.vnfd();
    vnfd.flavour(&allocation.deployment.flavour_id)
}

/// The number of VNFCs of a VDU before the change.
pub(crate) fn recorded_instances(change: &Convergence<'_>, vdu: &str) -> u32 {
    let current = change.current.into_iter();
    let vnfcs = current.flat_map(|recorded| &recorded.inventory.vnfc_resource_info);
    u32::try_from(vnfcs.filter(|vnfc| vnfc.vdu_id == vdu).count()).unwrap_or(u32::MAX)
}

impl Resolved {
    /// The flavors and images of what both flavours describe alike.
    fn common(mut self, old: Option<&Flavour>, new: Option<&Flavour>, other_package: bool) -> Self {
        let (Some(old), Some(new)) = (old, new) else {
            return Self::default();
        };
        let size = |flavour: &Flavour, vdu: &str| {
            let vdu = flavour.vdus.get(vdu)?;
            let image = vdu.image.clone();
            Some((vdu.compute.clone(), vdu.requested_flavor.clone(), image))
        };
        let image = |flavour: &Flavour, owner: &str| {
            let mut all = flavour.images();
            all.find(|(of, _)| *of == owner)
                .map(|(_, image)| image.clone())
        };
        self.flavors
            .retain(|vdu, _| size(old, vdu) == size(new, vdu));
        // The files of two packages are the same only if their checksums say so.
        let is_known = |image: &SwImage| {
            !other_package || image.artifact.is_none() || image.checksum.is_some()
        };
        self.images.retain(|owner, _| {
            let (old, new) = (image(old, owner), image(new, owner));
            old == new && new.as_ref().is_none_or(is_known)
        });
        self.managed = BTreeMap::new();
        self
    }

    /// The network of the link that a CP is bound to.
    pub(crate) fn network_of(&self, blueprint: &Blueprint<'_>, cpd: &str) -> Option<&str> {
        let binding = blueprint.ext_cp_binding(cpd)?;
        self.networks.get(&binding.link.id).map(String::as_str)
    }

    /// The value for an image in a template: its id, else its name.
    pub(crate) fn image(&self, owner: &str) -> Option<&str> {
        self.images
            .get(owner)
            .map(|image| image.id.as_deref().unwrap_or(&image.name))
    }
}

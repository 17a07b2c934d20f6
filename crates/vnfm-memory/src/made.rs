//! What the VIM in memory has of one instance, and how an operation changes that.

use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::Deployment;
use vnfm_core::ports::{Allocation, Code, Convergence, ErrorKind, PortError};
use vnfm_types::{
    ExtVirtualLinkData, ExtVirtualLinkInfo, ResourceHandle, VirtualStorageResourceInfo,
    VnfOperationalState,
};

pub(crate) const LACKS: Code = Code {
    name: "memory.lacks",
    kind: ErrorKind::Refused,
    means: "the VNFD has no such flavour or instantiation level",
    next: "use a flavour and a level that the VNFD has",
};

/// The VNFCs of one instance, by id and VDU, and those of them that do not run.
pub(crate) struct Made {
    pub(crate) installation_id: String,
    pub(crate) vnfcs: Vec<(String, String)>,
    pub(crate) stopped: BTreeSet<String>,
    pub(crate) links: Vec<ExtVirtualLinkInfo>,
    /// What each VNFC was made of, by its id.
    pub(crate) recipes: BTreeMap<String, String>,
    /// The text on the disk of each VNFC, by its id; absent: empty.
    pub(crate) disks: BTreeMap<String, String>,
    /// Each volume, and the storage of the VNFD that it is.
    pub(crate) volumes: Vec<(String, String)>,
    /// The storages of each VDU that has some.
    pub(crate) vdu_storages: BTreeMap<String, Vec<String>>,
}

/// A retained volume, by its id on the VIM.
#[derive(Clone)]
pub(crate) struct Retained {
    pub(crate) installation_id: String,
    /// Id of the retained volume in our API.
    pub(crate) volume: String,
}

/// The number of VNFCs of each VDU of the flavour.
pub(crate) fn size(what: &Allocation) -> Result<Vec<(&str, usize)>, PortError> {
    let lacks = |what: String| PortError::new(&LACKS, "plan the instance", what);
    let id = &what.deployment.flavour_id;
    let flavour = what.package.vnfd().flavours.get(id.as_str());
    let flavour = flavour.ok_or_else(|| lacks(format!("the VNFD has no flavour `{id}`")))?;
    let vdus = flavour.vdus.keys().map(String::as_str);
    let count = |vdu| usize::try_from(what.deployment.instances_of(vdu)).unwrap_or(usize::MAX);
    Ok(vdus.map(|vdu| (vdu, count(vdu))).collect())
}

/// The external links of a deployment.
pub(crate) fn links(deployment: &Deployment) -> Vec<ExtVirtualLinkInfo> {
    let link = |link: &ExtVirtualLinkData| ExtVirtualLinkInfo {
        id: link.id.clone(),
        resource_handle: ResourceHandle {
            resource_id: link.resource_id.clone(),
            ..ResourceHandle::default()
        },
        current_vnf_ext_cp_data: link.ext_cps.clone(),
        ..ExtVirtualLinkInfo::default()
    };
    deployment.ext_virtual_links.iter().map(link).collect()
}

/// What a VNFC of this VDU is made of.
pub(crate) fn recipe(what: &Allocation, vdu: &str) -> String {
    let flavour = what.package.vnfd().flavour(&what.deployment.flavour_id);
    let vdu = flavour.and_then(|flavour| flavour.vdus.get(vdu));
    vdu.map_or_else(String::new, |vdu| {
        format!("{:?} {:?} {:?}", vdu.image, vdu.compute, vdu.boot_data)
    })
}

fn vnfc(vdu: &str) -> (String, String) {
    (uuid::Uuid::new_v4().to_string(), vdu.to_owned())
}

impl Made {
    /// The volumes of each VNFC, in the order of the VNFCs: of each of its storages the one at its place in the VDU.
    pub(crate) fn volumes_by_vnfc(&self) -> Vec<Vec<String>> {
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut all = Vec::new();
        for (_, vdu) in &self.vnfcs {
            let next = places.entry(vdu).or_default();
            let place = *next;
            *next += 1;
            let storages = self.vdu_storages.get(vdu).into_iter().flatten();
            let volume = |storage: &String| {
                let mut its = self.volumes.iter().filter(|(_, of)| of == storage);
                its.nth(place).map(|(id, _)| id.clone())
            };
            all.push(storages.filter_map(volume).collect());
        }
        all
    }

    /// The positions of the VNFCs that another package describes differently or with another VDU, with their VDU there.
    pub(crate) fn outdated(&self, change: &Convergence<'_>) -> Vec<(usize, String)> {
        let renamed = change.renamed_vdus();
        let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
        let mut found = Vec::new();
        for (position, (id, vdu)) in self.vnfcs.iter().enumerate() {
            let new = renamed.get(vdu).unwrap_or(vdu);
            let index = seen.entry(new).or_default();
            *index += 1;
            let stays = *index <= change.target.deployment.instances_of(new);
            let same = self.recipes.get(id) == Some(&recipe(change.target, new));
            if stays && (new != vdu || !same) {
                found.push((position, new.clone()));
            }
        }
        found
    }

    /// Replaces the first VNFCs that are outdated; whether more of them are left.
    pub(crate) fn replace_batch(&mut self, change: &Convergence<'_>, size: usize) -> bool {
        let outdated = self.outdated(change);
        for (position, vdu) in outdated.iter().take(size) {
            self.vnfcs[*position] = vnfc(vdu);
        }
        self.note_recipes(change.target);
        outdated.len() > size
    }

    /// Notes what VNFCs are made of that are new.
    pub(crate) fn note_recipes(&mut self, target: &Allocation) {
        for (id, vdu) in &self.vnfcs {
            let made_of = self.recipes.entry(id.clone());
            made_of.or_insert_with(|| recipe(target, vdu));
        }
    }

    /// Keeps the first VNFCs of each VDU, and adds those that are missing.
    pub(crate) fn resize(&mut self, size: &[(&str, usize)]) {
        let mut kept = std::mem::take(&mut self.vnfcs);
        for (vdu, count) in size {
            let of_vdu = kept.extract_if(.., |(_, of)| of == vdu);
            let mut of_vdu: Vec<_> = of_vdu.take(*count).collect();
            of_vdu.resize_with(*count, || vnfc(vdu));
            self.vnfcs.append(&mut of_vdu);
        }
    }

    /// Stops what the deployment has stopped; `starts`: and starts the others.
    pub(crate) fn set_states(&mut self, wanted: &Deployment, starts: bool) {
        for (id, _) in &self.vnfcs {
            match wanted.state_of(id) {
                VnfOperationalState::Stopped => _ = self.stopped.insert(id.clone()),
                VnfOperationalState::Started if starts => _ = self.stopped.remove(id),
                VnfOperationalState::Started => {}
            }
        }
    }

    /// A VNFC without its old id was replaced by an earlier call.
    pub(crate) fn replace(&mut self, ids: &[String]) {
        for one in self.vnfcs.iter_mut().filter(|(id, _)| ids.contains(id)) {
            *one = vnfc(&one.1);
        }
    }
}

/// The storages of an instance with these volumes and their descriptors.
pub(crate) fn storages(
    vim: &str,
    volumes: Vec<(String, String)>,
) -> Vec<VirtualStorageResourceInfo> {
    let storage = |(id, desc): (String, String)| VirtualStorageResourceInfo {
        id: id.clone(),
        virtual_storage_desc_id: desc,
        storage_resource: ResourceHandle {
            vim_connection_id: Some(vim.to_owned()),
            resource_id: id,
            ..ResourceHandle::default()
        },
        ..VirtualStorageResourceInfo::default()
    };
    volumes.into_iter().map(storage).collect()
}

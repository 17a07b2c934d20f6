//! Volumes that outlive an instance: a termination retains some, an instantiation uses some instead of new ones.
//!
//! ```text
//! terminate    retain_volumes ── a record of each, used by the instance ── the VIM will not delete it ── release
//!                └─ the last transaction of the operation ends the use
//! instantiate  take_volumes ── the instance uses them, and no other instance ── allocate, with them in place of new ones
//! ```
//! The record is written before the VIM is called, and has the same id if the step is repeated. A volume has at most one user,
//! and is not deleted while it has one; the store decides who comes first.

use super::Op;
use super::operation::Requested;
use super::step::{Output, Step, silent};
use crate::deployment::{Deployment, ReusedVolume};
use crate::ports::Vim as _;
use crate::ports::{
    Allocation, Change, Code, ErrorKind, InfraDriver, Inventory, PortError, RETAIN_PARAM,
    REUSE_PARAM, StoreError, VolumeRecord, Volumes, names,
};
use crate::refusal::{self, Refusal, Why};
use crate::vims::{VimHandle, of_connections};
use std::collections::BTreeMap;
use uuid::Uuid;
use vnfm_descriptor::Flavour;
use vnfm_types::LcmOperationState::Processing;
use vnfm_types::{
    InstantiateVnfRequest, KeyValuePairs, RetainedVolume, VirtualStorageResourceInfo, VolumeState,
};

/// Lets the volumes of [`OpControl::retain`](crate::ports::OpControl) outlive the instance.
pub(super) const RETAIN: Step = Step::new("retain_volumes", Processing, |op| silent(retain(op)))
    .undone_by(|op| silent(unretain(op)))
    .only_if(|ends| ends.retains);

/// Makes the instance the user of the volumes that its deployment names.
pub(super) const TAKE: Step = Step::new("take_volumes", Processing, |op| silent(take(op)))
    .undone_by(|op| silent(give_back(op)))
    .only_if(|ends| !ends.target.reused_volumes.is_empty());

const NO_VOLUMES: Code = Code {
    name: "vim.no-retained-volumes",
    kind: ErrorKind::Refused,
    means: "the VIM cannot retain or create volumes of their own",
    next: "use a VIM on OpenStack or Kubernetes, or leave out `additionalParams.vnfm_retain_volumes` and `vnfm_reuse_volumes`",
};
/// All codes of this file, for `docs/errors.md`.
pub(super) const CODES: [&Code; 1] = [&NO_VOLUMES];

fn bad(what: String) -> Refusal {
    Refusal::new(Why::Unprocessable, &refusal::BAD_VOLUME, what)
}

/// The ids of the storages that a termination is asked to retain; refused unless the instance has them and its VIM can.
pub(super) async fn to_retain(
    requested: &Requested<'_>,
    params: &KeyValuePairs,
) -> Result<Vec<String>, Refusal> {
    let vnf = &requested.instance.vnf;
    let info = vnf.instantiated_vnf_info.as_ref();
    let storages = info.map_or(&[][..], |info| &info.virtual_storage_resource_info);
    let chosen: Vec<String> = if params.get(RETAIN_PARAM).is_some_and(|all| all == "all") {
        storages.iter().map(|one| one.id.clone()).collect()
    } else {
        let names = names(params, RETAIN_PARAM).map_err(bad)?;
        let has = |name: &String| {
            let mut all = storages.iter();
            all.any(|one| one.virtual_storage_desc_id == *name)
        };
        if let Some(unknown) = names.iter().find(|name| !has(name)) {
            return Err(bad(format!(
                "additionalParams.{RETAIN_PARAM}: the instance has no storage of `{unknown}`"
            )));
        }
        let chosen = storages.iter();
        let chosen = chosen.filter(|one| names.contains(&one.virtual_storage_desc_id));
        chosen.map(|one| one.id.clone()).collect()
    };
    if !chosen.is_empty() {
        check_scope(requested)?;
    }
    if let (false, Some(deployment)) = (chosen.is_empty(), &requested.instance.deployment) {
        let connections = &deployment.vim_connection_info;
        let (vim, driver) =
            of_connections(requested.context, requested.tenant(), connections).await?;
        volumes_on(&vim, &*driver)?;
    }
    Ok(chosen)
}

/// The retained volumes that an instantiation is asked to use; refused unless it names the `vim`, and they fit.
pub(super) async fn to_reuse(
    requested: &Requested<'_>,
    allocation: &Allocation,
    vim: Option<(&VimHandle, &dyn InfraDriver)>,
) -> Result<Vec<ReusedVolume>, Refusal> {
    let request: InstantiateVnfRequest = requested.request()?;
    let ids = names(&request.additional_params, REUSE_PARAM).map_err(bad)?;
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    let Some((vim, driver)) = vim else {
        return Err(bad(format!(
            "additionalParams.{REUSE_PARAM} requires `vimConnectionInfo`, which names the VIM of the volumes"
        )));
    };
    check_scope(requested)?;
    volumes_on(vim, driver)?;
    let deployment = &allocation.deployment;
    let flavour = allocation.package.vnfd().flavour(&deployment.flavour_id);
    let mut left = flavour
        .map(|flavour| places(deployment, flavour))
        .unwrap_or_default();
    let mut reused: Vec<ReusedVolume> = Vec::new();
    for id in ids {
        let path = format!("additionalParams.{REUSE_PARAM}: volume `{id}`");
        let volume = match requested
            .context
            .store()
            .volume(requested.tenant(), &id)
            .await
        {
            Err(StoreError::NotFound { .. }) => return Err(bad(format!("{path} does not exist"))),
            found => found?.volume,
        };
        let resource_id = usable(&path, &volume, vim)?;
        let desc = &volume.virtual_storage_desc_id;
        let place = left.get_mut(desc.as_str()).filter(|place| place.0 > 0);
        let is_named_twice = reused.iter().any(|one| one.id == id);
        let Some(place) = place.filter(|_| !is_named_twice) else {
            return Err(bad(format!(
                "{path}, of storage `{desc}`, is one more than the instance has places for"
            )));
        };
        if let (Some(wanted), Some(size)) = (place.1, volume.size_gib)
            && size < wanted
        {
            return Err(bad(format!(
                "{path} has {size} GiB, but storage `{desc}` is of {wanted} GiB"
            )));
        }
        place.0 -= 1;
        reused.push(ReusedVolume {
            id,
            resource_id,
            virtual_storage_desc_id: volume.virtual_storage_desc_id,
        });
    }
    Ok(reused)
}

/// Retained volumes are the tenant's, so a narrowed role neither makes nor uses some.
fn check_scope(requested: &Requested<'_>) -> Result<(), Refusal> {
    if requested.scope.is_unlimited() {
        return Ok(());
    }
    let what = "the role is narrowed, and retained volumes are for the whole tenant";
    Err(Refusal::new(Why::Forbidden, &refusal::BAD_VOLUME, what))
}

/// The id on the VIM of a volume; refused if it is elsewhere, used, or not available.
fn usable(path: &str, volume: &RetainedVolume, vim: &VimHandle) -> Result<String, Refusal> {
    if vim.registered_id() != Some(volume.vim_id.as_str()) {
        let its = &volume.vim_id;
        return Err(bad(format!("{path} is on another VIM: `{its}`")));
    }
    let conflict = |what: String| Refusal::new(Why::Conflict, &refusal::VOLUME_IN_USE, what);
    if let Some(user) = &volume.used_by {
        let what = format!("{path} is used by VNF instance `{user}`");
        return Err(conflict(what).blocked_by(vec![user.clone()]));
    }
    match (volume.state, &volume.resource_id) {
        (VolumeState::Available, Some(resource_id)) => Ok(resource_id.clone()),
        (VolumeState::Deleting, _) => Err(conflict(format!("{path} is being deleted"))),
        (VolumeState::Creating | VolumeState::Available, _) => {
            Err(conflict(format!("{path} is being created")))
        }
    }
}

/// How many volumes of each storage the instance has, and their least size. One whose volumes are those of several VDUs counts
/// as none: a scaling of one VDU would move the volumes of another.
fn places<'f>(
    deployment: &Deployment,
    flavour: &'f Flavour,
) -> BTreeMap<&'f str, (u32, Option<u64>)> {
    let mut places: BTreeMap<&str, (u32, Option<u64>)> = BTreeMap::new();
    for vdu in flavour.vdus.values() {
        for storage in vdu
            .storages
            .iter()
            .filter_map(|name| flavour.storages.get(name))
        {
            let count = deployment.instances_of(&vdu.name);
            let count = if storage.per_vnfc_instance { count } else { 1 };
            let is_first = !places.contains_key(storage.name.as_str());
            let count = if is_first || !storage.per_vnfc_instance {
                count
            } else {
                0
            };
            places.insert(&storage.name, (count, storage.size_gib));
        }
    }
    places
}

/// How the driver works on volumes of their own, which need a registered VIM of the tenant's own.
pub(crate) fn volumes_on<'d>(
    vim: &VimHandle,
    driver: &'d dyn InfraDriver,
) -> Result<&'d dyn Volumes, Refusal> {
    let volumes = volumes_of(driver).map_err(Refusal::unprocessable)?;
    let what = match vim.registered_id() {
        None => "it is not in the registry",
        Some(_) if !vim.policy().is_open() => "it has a policy, or is another tenant's",
        Some(_) => return Ok(volumes),
    };
    let name = vim.name();
    Err(bad(format!(
        "VIM `{name}` can have no retained volumes: {what}"
    )))
}

fn volumes_of(driver: &dyn InfraDriver) -> Output<&dyn Volumes> {
    driver.volumes().ok_or_else(|| {
        let what = format!("VIMs of the type `{}` cannot", driver.vim_types()[0]);
        PortError::new(&NO_VOLUMES, "retain volumes", what)
    })
}

/// The id of the volume of a resource: the same each time that the step runs.
fn id_of(instance: &str, resource: &str) -> String {
    let instance = Uuid::parse_str(instance).unwrap_or(Uuid::NAMESPACE_OID);
    let name = format!("retained volume {resource}");
    Uuid::new_v5(&instance, name.as_bytes()).to_string()
}

async fn retain(op: &Op) -> Output<()> {
    let (vim, driver) = op.vim().await?;
    let (volumes, call) = (volumes_of(&*driver)?, op.call(&vim));
    let storages: Vec<VirtualStorageResourceInfo> = chosen(op).collect();
    let found = volumes.find_volumes(&call, &storages).await?;
    let reused = &op.deployment()?.reused_volumes;
    let mut all = Vec::new();
    for (storage, found) in storages.into_iter().zip(found) {
        // A volume that was retained before stays so.
        if reused
            .iter()
            .any(|one| one.resource_id == found.resource_id)
        {
            continue;
        }
        all.push(RetainedVolume {
            id: id_of(&op.instance.vnf.id, &found.resource_id),
            state: VolumeState::Available,
            vim_id: vim.registered_id().unwrap_or_default().to_owned(),
            resource_id: Some(found.resource_id),
            size_gib: found.size_gib,
            volume_type: None,
            virtual_storage_desc_id: storage.virtual_storage_desc_id,
            vnfd_id: Some(op.instance.vnf.vnfd_id.clone()),
            vnf_instance_id: Some(op.instance.vnf.id.clone()),
            created_at: op.clock().now(),
            used_by: Some(op.instance.vnf.id.clone()),
        });
    }
    let add = |volume: &RetainedVolume| {
        Change::AddVolume(Box::new(VolumeRecord {
            tenant: op.tenant().to_owned(),
            volume: volume.clone(),
        }))
    };
    if all.is_empty() {
        return Ok(());
    }
    write(op, all.iter().map(add).collect()).await?;
    volumes.retain_volumes(&call, &all).await
}

/// The resources of the instance without the volumes that were retained before: these do not end with it or its VNFCs.
pub(super) fn own_resources(op: &Op) -> Inventory {
    let mut inventory = op.inventory();
    let Some(deployment) = op.instance.deployment.as_deref() else {
        return inventory;
    };
    let reused = |storage: &VirtualStorageResourceInfo| {
        let id = &storage.storage_resource.resource_id;
        let mut all = deployment.reused_volumes.iter();
        all.any(|one| one.resource_id == *id)
    };
    let storages = &mut inventory.virtual_storage_resource_info;
    if storages.iter().any(reused) {
        storages.retain(|one| !reused(one));
        return inventory;
    }
    // Where the resource is the claim of a volume, its place tells.
    let mut indices: BTreeMap<&str, u32> = BTreeMap::new();
    for vnfc in &inventory.vnfc_resource_info {
        let next = indices.entry(&vnfc.vdu_id).or_default();
        let index = *next;
        *next += 1;
        storages.retain(|one| {
            let desc = &one.virtual_storage_desc_id;
            let is_its = vnfc.storage_resource_ids.contains(&one.id);
            !is_its || deployment.reused_volume(desc, index).is_none()
        });
    }
    inventory
}

/// The storages to retain that the instance has.
fn chosen(op: &Op) -> impl Iterator<Item = VirtualStorageResourceInfo> {
    let all = op.inventory().virtual_storage_resource_info.into_iter();
    all.filter(|one| op.record.control.retain.contains(&one.id))
}

async fn unretain(op: &Op) -> Output<()> {
    let instance = &op.instance.vnf.id;
    let query = crate::query::Query::only("vnfInstanceId", instance);
    let records = op.context.store().volumes(op.tenant(), &query).await?;
    // A volume that this instance retained in an earlier life, and uses again, stays retained.
    let reused = &op.deployment()?.reused_volumes;
    let is_reused = |volume: &RetainedVolume| reused.iter().any(|one| one.id == volume.id);
    let volumes = records.into_iter().map(|record| record.volume);
    let all: Vec<_> = volumes.filter(|volume| !is_reused(volume)).collect();
    if all.is_empty() {
        return Ok(());
    }
    let (vim, driver) = op.vim().await?;
    let volumes = volumes_of(&*driver)?;
    volumes.unretain_volumes(&op.call(&vim), &all).await?;
    let remove = |volume: RetainedVolume| Change::RemoveVolume {
        tenant: op.tenant().to_owned(),
        id: volume.id,
        used_by: Some(instance.clone()),
    };
    write(op, all.into_iter().map(remove).collect()).await
}

async fn take(op: &Op) -> Output<()> {
    let reused = op.deployment()?.reused_volumes.iter();
    set_uses(op, reused.map(|one| one.id.clone()).collect()).await
}

async fn give_back(op: &Op) -> Output<()> {
    set_uses(op, Vec::new()).await
}

async fn set_uses(op: &Op, volumes: Vec<String>) -> Output<()> {
    let uses = Change::SetVolumeUses {
        tenant: op.tenant().to_owned(),
        instance_id: op.instance.vnf.id.clone(),
        volumes,
    };
    write(op, vec![uses]).await
}

async fn write(op: &Op, changes: Vec<Change>) -> Output<()> {
    Ok(op.context.store().write(Some(&op.fence), changes).await?)
}

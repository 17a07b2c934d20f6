//! Stores the state of servers and volumes; `restore` returns to it.
//!
//! ```text
//! create   each server ─ createImage (Nova) ─► image, active        each of its volumes ─ snapshot (Cinder), available
//! revert   the stack gets its size ─ volumes: detach, revert, attach ─ servers: rebuild from their image ─ states
//! delete   images and volume snapshots of the snapshot, until none is left
//! ```
//! Images and volume snapshots carry what they belong to as properties: installation, instance, snapshot, and VNFC or
//! volume. So an interrupted call finds them, and they are listed as ours without a stack.
//!
//! A rebuilt server keeps its id, ports and addresses, and Heat does not notice. A heal later boots the image of the
//! package again. Nova copies no disk of a server that boots from a volume, and Cinder reverts a volume only to its
//! latest snapshot: both are refused by name.

use crate::errors::{NOT_STORABLE, SNAPSHOT_GONE};
use crate::heat::{member, stack_name};
use crate::http_call::{Call, encoded};
use crate::keystone_login::{Cloud, Service};
use crate::nova::{self, Server};
use crate::retries::Waiter;
use crate::{cinder, glance};
use futures::TryFutureExt as _;
use serde_json::{Map, Value, json};
use vnfm_core::ports::{
    Allocation, Inventory, OwnedResource, Ownership, PlannedResource, PortError, ResourceAction,
    SnapshotSource, VimCall, Waited,
};
use vnfm_types::{ResourceHandle, StorageSnapshot, VnfcResourceInfo, VnfcSnapshotInfo};

/// Names of the properties of images and volume snapshots.
pub(crate) const INSTALLATION: &str = "vnfm_installation";
pub(crate) const INSTANCE: &str = "vnfm_instance";
pub(crate) const SNAPSHOT: &str = "vnfm_snapshot";
/// The VNFC of an image, or the volume of a volume snapshot.
pub(crate) const PART: &str = "vnfm_part";

const IMAGE: &str = "OS::Glance::Image";
const VOLUME_SNAPSHOT: &str = "OS::Cinder::Snapshot";

/// The properties of a part of a snapshot.
fn properties(ownership: &Ownership, snapshot: &str, part: &str) -> Map<String, Value> {
    let all = [
        (INSTALLATION, ownership.installation_id.as_str()),
        (INSTANCE, ownership.instance_id.as_str()),
        (SNAPSHOT, snapshot),
        (PART, part),
        ("vnfm_op", ownership.op_id.as_str()),
    ];
    let all = all.into_iter();
    all.map(|(name, value)| (name.to_owned(), json!(value)))
        .collect()
}

/// The name of a part of a snapshot, for people.
fn name_of(ownership: &Ownership, server: &str) -> String {
    format!("{}-{server}-snapshot", stack_name(&ownership.instance_id))
}

/// A VNFC to be stored: its server, and the volumes of the instance attached to it.
struct Part<'a> {
    vnfc: &'a VnfcResourceInfo,
    server: Server,
    volumes: Vec<&'a str>,
}

/// Everything that is to be stored; refused if one of it cannot be.
async fn parts<'a>(
    cloud: &Cloud<'_>,
    inventory: &'a Inventory,
) -> Result<Vec<Part<'a>>, PortError> {
    let mut parts = Vec::new();
    for vnfc in &inventory.vnfc_resource_info {
        let id = &vnfc.compute_resource.resource_id;
        let server = nova::server(cloud, id).await?;
        let Some(server) = server.filter(|server| !server.is_deleted()) else {
            return Err(not_storable(id, "it no longer exists; heal its VNFC first"));
        };
        check_storable(&server)?;
        let storages = inventory.virtual_storage_resource_info.iter();
        let own = storages.filter(|one| vnfc.storage_resource_ids.contains(&one.id));
        let volumes = own.map(|one| one.storage_resource.resource_id.as_str());
        parts.push(Part {
            vnfc,
            server,
            volumes: volumes.collect(),
        });
    }
    Ok(parts)
}

fn check_storable(server: &Server) -> Result<(), PortError> {
    let why = match (server.task.as_deref(), server.status.as_str()) {
        _ if server.boots_from_volume() => {
            "it boots from a volume, of which Nova makes no image".to_owned()
        }
        (_, "ACTIVE" | "SHUTOFF" | "PAUSED" | "SUSPENDED") => return Ok(()),
        (_, status) => format!("it is {status}"),
    };
    Err(not_storable(&server.name, &why))
}

pub(crate) fn not_storable(server: &str, why: &str) -> PortError {
    PortError::new(&NOT_STORABLE, format!("store server `{server}`"), why).on(server)
}

/// Checks that everything of the inventory can be stored.
pub(crate) async fn check(cloud: &Cloud<'_>, inventory: &Inventory) -> Result<(), PortError> {
    parts(cloud, inventory).await.map(drop)
}

/// What a creation would create.
pub(crate) async fn planned(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    inventory: &Inventory,
) -> Result<Vec<PlannedResource>, PortError> {
    let mut rows = Vec::new();
    for part in parts(cloud, inventory).await? {
        let name = name_of(cx.ownership, &part.server.name);
        rows.push(PlannedResource::new(IMAGE, &name, ResourceAction::Create));
        let volumes = part.volumes.iter();
        rows.extend(volumes.map(|volume| {
            let name = format!("{name}-{volume}");
            PlannedResource::new(VOLUME_SNAPSHOT, name, ResourceAction::Create)
        }));
    }
    Ok(rows)
}

/// Stores everything, and waits until it is complete.
pub(crate) async fn create(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    source: &SnapshotSource<'_>,
) -> Result<Vec<VnfcSnapshotInfo>, PortError> {
    let inventory = &source.current.inventory;
    let all = parts(cloud, inventory).await?;
    let mut waiter = Waiter::new(cx, "store the servers");
    loop {
        let attempt = create_missing(cx, cloud, (source.id, inventory), &all);
        match waiter.attempt(attempt).await? {
            Waited::Done(stored) => return Ok(stored),
            Waited::NotYet(reason) => waiter.pause(&reason).await?,
        }
    }
}

/// Requests what is missing; what is stored once all of it is complete.
async fn create_missing(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    (id, inventory): (&str, &Inventory),
    parts: &[Part<'_>],
) -> Result<Waited<Vec<VnfcSnapshotInfo>>, PortError> {
    let creation = Creation {
        cx,
        cloud,
        id,
        inventory,
        images: glance::of_snapshot(cloud, id).await?,
        volumes: cinder::of_snapshot(cloud, id).await?,
    };
    let (mut stored, mut waiting) = (Vec::new(), Vec::new());
    for part in parts {
        let mut info = VnfcSnapshotInfo {
            id: part.vnfc.id.clone(),
            vnfc_instance_id: part.vnfc.id.clone(),
            vnfc_resource_info_id: Some(part.vnfc.id.clone()),
            ..VnfcSnapshotInfo::default()
        };
        match creation.image(part).await? {
            Waited::Done(image) => info.compute_snapshot_resource = Some(image),
            Waited::NotYet(reason) => waiting.push(reason),
        }
        for volume in &part.volumes {
            match creation.volume(part, volume).await? {
                Waited::Done(storage) => info.storage_snapshot_resources.push(storage),
                Waited::NotYet(reason) => waiting.push(reason),
            }
        }
        stored.push(info);
    }
    Ok(match waiting.into_iter().next() {
        None => Waited::Done(stored),
        Some(reason) => Waited::NotYet(reason),
    })
}

/// A snapshot that is being created, and what exists of it.
struct Creation<'a> {
    cx: &'a VimCall<'a>,
    cloud: &'a Cloud<'a>,
    id: &'a str,
    inventory: &'a Inventory,
    images: Vec<glance::StoredImage>,
    volumes: Vec<cinder::VolumeSnapshot>,
}

impl Creation<'_> {
    /// The complete image of a server; requests it if it is missing or broken.
    async fn image(&self, part: &Part<'_>) -> Result<Waited<ResourceHandle>, PortError> {
        let (vnfc, server) = (&part.vnfc.id, &part.server);
        let name = name_of(self.cx.ownership, &server.name);
        let mut images = self.images.iter();
        let found = images.find(|image| image.part.as_ref() == Some(vnfc));
        let reason = match found.map(|image| (image.id.as_str(), image.status.as_str())) {
            Some((image, "active")) => return Ok(Waited::Done(handle(self.cx, image, IMAGE))),
            Some((_, status @ ("saving" | "importing"))) => format!("image `{name}` is {status}"),
            Some((image, "queued")) if !self.is_abandoned(server, image).await? => {
                format!("image `{name}` is queued")
            }
            Some((image, status)) => {
                glance::delete(self.cloud, image).await?;
                format!("image `{name}`, which was {status}, to be created again")
            }
            None => {
                let properties = properties(self.cx.ownership, self.id, vnfc);
                nova::create_image(self.cloud, &server.id, (&name, properties)).await?;
                format!("image `{name}` to be created")
            }
        };
        Ok(Waited::NotYet(reason))
    }

    /// Whether nobody fills a queued image: Nova does nothing with its server, and it is queued after that, too.
    async fn is_abandoned(&self, server: &Server, image: &str) -> Result<bool, PortError> {
        let now = nova::server(self.cloud, &server.id).await?;
        if now.is_some_and(|server| server.task.is_some()) {
            return Ok(false);
        }
        let images = glance::of_snapshot(self.cloud, self.id).await?;
        let mut images = images.iter();
        Ok(images.any(|one| one.id == image && one.status == "queued"))
    }

    /// The complete snapshot of a volume; requests it if it is missing or broken.
    async fn volume(
        &self,
        part: &Part<'_>,
        volume: &str,
    ) -> Result<Waited<StorageSnapshot>, PortError> {
        let found = self.volumes.iter().find(|one| one.volume_id == volume);
        let reason = match found.map(|one| (one, one.status.as_str())) {
            Some((snapshot, "available")) => {
                return Ok(Waited::Done(StorageSnapshot {
                    storage_resource_id: storage_id(self.inventory, volume),
                    storage_snapshot_resource: Some(handle(self.cx, &snapshot.id, VOLUME_SNAPSHOT)),
                }));
            }
            Some((snapshot, status @ ("error" | "error_deleting"))) => {
                cinder::delete(self.cloud, snapshot).await?;
                format!(
                    "the snapshot of volume `{volume}`, which was in {status}, to be created again"
                )
            }
            Some((_, status)) => format!("the snapshot of volume `{volume}` is {status}"),
            None => {
                let name = name_of(self.cx.ownership, &part.server.name);
                let properties = properties(self.cx.ownership, self.id, volume);
                let name = format!("{name}-{volume}");
                cinder::create(self.cloud, volume, (&name, properties)).await?;
                format!("the snapshot of volume `{volume}` to be created")
            }
        };
        Ok(Waited::NotYet(reason))
    }
}

fn handle(cx: &VimCall<'_>, id: &str, kind: &str) -> ResourceHandle {
    ResourceHandle {
        vim_connection_id: Some(cx.vim.connection_id().to_owned()),
        resource_id: id.to_owned(),
        vim_level_resource_type: Some(kind.to_owned()),
        ..ResourceHandle::default()
    }
}

fn storage_id(inventory: &Inventory, volume: &str) -> String {
    let storages = inventory.virtual_storage_resource_info.iter();
    let mut own = storages.filter(|one| one.storage_resource.resource_id == volume);
    own.next()
        .map_or_else(|| volume.to_owned(), |one| one.id.clone())
}

/// Deletes everything of a snapshot, and waits until it is deleted.
pub(crate) async fn delete(cx: &VimCall<'_>, cloud: &Cloud<'_>, id: &str) -> Result<(), PortError> {
    let mut waiter = Waiter::new(cx, "delete what the snapshot has stored");
    loop {
        match waiter.attempt(delete_found(cx, cloud, id)).await? {
            Waited::Done(()) => return Ok(()),
            Waited::NotYet(reason) => waiter.pause(&reason).await?,
        }
    }
}

async fn delete_found(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    id: &str,
) -> Result<Waited<()>, PortError> {
    let ours = |installation: Option<&String>| installation == Some(&cx.ownership.installation_id);
    let mut left = Vec::new();
    for image in glance::of_snapshot(cloud, id).await? {
        if ours(image.installation.as_ref()) {
            glance::delete(cloud, &image.id).await?;
            left.push(format!("image `{}` to be deleted", image.id));
        }
    }
    for snapshot in cinder::of_snapshot(cloud, id).await? {
        if ours(snapshot.metadata.get(INSTALLATION)) {
            cinder::delete(cloud, &snapshot).await?;
            left.push(format!("volume snapshot `{}` to be deleted", snapshot.id));
        }
    }
    Ok(match left.into_iter().next() {
        None => Waited::Done(()),
        Some(reason) => Waited::NotYet(reason),
    })
}

/// Refuses to release an instance of which Cinder would not delete the volumes, before anything else is deleted.
pub(crate) async fn check_releasable(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    what: &Allocation,
) -> Result<(), PortError> {
    let flavour_id = &*what.deployment.flavour_id;
    let flavour = what.package.vnfd().flavours.get(flavour_id);
    let has_storages = flavour.is_none_or(|flavour| !flavour.storages.is_empty());
    if !has_storages && what.package.base_hot(flavour_id).is_none() {
        return Ok(());
    }
    let mut waiter = Waiter::new(cx, "look for snapshots of the volumes");
    loop {
        let check = cinder::check_deletable(cloud, &cx.ownership.instance_id);
        match waiter.attempt(check.map_ok(Waited::Done)).await? {
            Waited::Done(()) => return Ok(()),
            Waited::NotYet(reason) => waiter.pause(&reason).await?,
        }
    }
}

/// Every part of every snapshot of this installation.
pub(crate) async fn owned(
    cloud: &Cloud<'_>,
    installation: &str,
) -> Result<Vec<OwnedResource>, PortError> {
    let images = glance::stored(cloud, (INSTALLATION, installation)).await?;
    let images = images.into_iter().map(|image| OwnedResource {
        kind: IMAGE.into(),
        id: image.id,
        name: image.name.unwrap_or_default(),
        instance_id: image.instance,
        snapshot_id: image.snapshot,
        link_id: None,
        volume_id: None,
    });
    let volumes = cinder::snapshots(cloud).await?.into_iter();
    let volumes = volumes
        .filter(|one| one.metadata.get(INSTALLATION).map(String::as_str) == Some(installation));
    let volumes = volumes.map(|one| OwnedResource {
        kind: VOLUME_SNAPSHOT.into(),
        instance_id: one.metadata.get(INSTANCE).cloned(),
        snapshot_id: one.metadata.get(SNAPSHOT).cloned(),
        link_id: None,
        volume_id: None,
        id: one.id,
        name: one.name.unwrap_or_default(),
    });
    Ok(images.chain(volumes).collect())
}

/// Something of a snapshot that the cloud no longer has.
pub(crate) fn lost_part(what: &str) -> PortError {
    PortError::new(
        &SNAPSHOT_GONE,
        "find what the snapshot has stored",
        format!("{what} no longer exists"),
    )
}

/// The one member of a reply.
pub(crate) async fn one<T: serde::de::DeserializeOwned>(
    cloud: &Cloud<'_>,
    service: Service,
    (path, name): (String, &str),
    action: &str,
) -> Result<Option<T>, PortError> {
    let call = Call::get(path, action).accepting(&[404]);
    let reply = cloud.send(service, &call).await?;
    if reply.status == 404 {
        return Ok(None);
    }
    member(reply, name, action).map(Some)
}

/// A path below a collection.
pub(crate) fn path(collection: &str, id: &str) -> String {
    format!("/{collection}/{}", encoded(id))
}

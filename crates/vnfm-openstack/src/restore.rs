//! The return to a stored state: volumes to their snapshots, servers to their images.
//!
//! ```text
//! check_stored ─ the cloud still has everything
//! restored ───── which server gets which image, and which volume returns to which snapshot
//! restore ────── volumes: detach, revert, attach ─ servers: rebuild
//! ```

use crate::inventory::{SERVER, VOLUME};
use crate::keystone_login::Cloud;
use crate::retries::Waiter;
use crate::snapshots::{lost_part, not_storable};
use crate::{cinder, glance, nova};
use vnfm_core::ports::{
    Inventory, PlannedResource, PortError, ResourceAction, Reversion, VimCall, Waited, counterparts,
};
use vnfm_types::{VnfcResourceInfo, VnfcSnapshotInfo};

/// A server to be rebuilt, and the volumes of it to be reverted.
#[derive(Debug)]
pub(crate) struct Restored {
    server: String,
    image: String,
    /// Ids of each volume and of its Cinder snapshot.
    volumes: Vec<(String, String)>,
}

/// Each VNFC with what was stored of its counterpart.
pub(crate) fn restored(reversion: &Reversion<'_>, now: &Inventory) -> Vec<Restored> {
    let then = &reversion.then.vnfc_resource_info;
    let mut all = Vec::new();
    for (vnfc, one) in counterparts(then, &now.vnfc_resource_info) {
        let mut stored = reversion.stored.vnfcs.iter();
        let Some(stored) = stored.find(|stored| stored.vnfc_instance_id == one.id) else {
            continue;
        };
        let Some(image) = &stored.compute_snapshot_resource else {
            continue;
        };
        all.push(Restored {
            server: vnfc.compute_resource.resource_id.clone(),
            image: image.resource_id.clone(),
            volumes: volumes(reversion, (stored, vnfc), now),
        });
    }
    all
}

/// The volumes of a VNFC with the snapshots of those that were in their place, by the descriptor of the storage.
fn volumes(
    reversion: &Reversion<'_>,
    (stored, vnfc): (&VnfcSnapshotInfo, &VnfcResourceInfo),
    now: &Inventory,
) -> Vec<(String, String)> {
    let then = &reversion.then.virtual_storage_resource_info;
    let own = now.virtual_storage_resource_info.iter();
    let own = own.filter(|one| vnfc.storage_resource_ids.contains(&one.id));
    let pair = |one: &vnfm_types::VirtualStorageResourceInfo| {
        let snapshot = stored.storage_snapshot_resources.iter().find(|snapshot| {
            let mut then = then.iter();
            let then = then.find(|then| then.id == snapshot.storage_resource_id);
            then.is_some_and(|then| then.virtual_storage_desc_id == one.virtual_storage_desc_id)
        })?;
        let resource = snapshot.storage_snapshot_resource.as_ref()?;
        let volume = one.storage_resource.resource_id.clone();
        Some((volume, resource.resource_id.clone()))
    };
    own.filter_map(pair).collect()
}

/// Refuses a snapshot of which the cloud has lost something, or to which Cinder cannot return.
pub(crate) async fn check_stored(
    cloud: &Cloud<'_>,
    reversion: &Reversion<'_>,
) -> Result<(), PortError> {
    let images = glance::of_snapshot(cloud, reversion.id).await?;
    for stored in &reversion.stored.vnfcs {
        let Some(image) = &stored.compute_snapshot_resource else {
            continue;
        };
        let id = &image.resource_id;
        let is_there = |one: &glance::StoredImage| one.id == *id && one.status == "active";
        if !images.iter().any(is_there) {
            return Err(lost_part(&format!("image `{id}` of VNFC `{}`", stored.id)));
        }
    }
    for stored in &reversion.stored.vnfcs {
        for storage in &stored.storage_snapshot_resources {
            let Some(snapshot) = &storage.storage_snapshot_resource else {
                continue;
            };
            cinder::check_latest(cloud, &snapshot.resource_id).await?;
        }
    }
    Ok(())
}

/// Returns volumes to their snapshot, then servers to their image; both are as long as the servers work again.
pub(crate) async fn restore(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    all: &[Restored],
) -> Result<(), PortError> {
    for restored in all {
        for (volume, snapshot) in &restored.volumes {
            cinder::revert(cx, cloud, &restored.server, (volume, snapshot)).await?;
        }
    }
    let mut waiter = Waiter::new(cx, "rebuild the servers");
    let mut requested = vec![false; all.len()];
    loop {
        match waiter.attempt(rebuild(cloud, all, &mut requested)).await? {
            Waited::Done(()) => return Ok(()),
            Waited::NotYet(reason) => waiter.pause(&reason).await?,
        }
    }
}

/// Requests each rebuild once; done when all servers have their image and work.
async fn rebuild(
    cloud: &Cloud<'_>,
    all: &[Restored],
    requested: &mut [bool],
) -> Result<Waited<()>, PortError> {
    let mut waiting = Vec::new();
    for (restored, requested) in all.iter().zip(requested) {
        let id = &restored.server;
        let server = nova::server(cloud, id).await?;
        let Some(server) = server.filter(|server| !server.is_deleted()) else {
            return Err(not_storable(id, "it no longer exists; heal its VNFC first"));
        };
        let is_idle = server.task.is_none();
        let works = is_idle && matches!(server.status.as_str(), "ACTIVE" | "SHUTOFF");
        let has_image = server.image() == Some(&restored.image);
        if *requested && has_image && works {
            continue;
        }
        if *requested && server.status == "ERROR" {
            return Err(not_storable(
                &server.name,
                "its rebuild failed: it is in ERROR",
            ));
        }
        let may_begin = is_idle && matches!(server.status.as_str(), "ACTIVE" | "SHUTOFF" | "ERROR");
        if !*requested && may_begin {
            *requested = nova::rebuild(cloud, id, &restored.image).await?;
        }
        waiting.push(format!(
            "server `{}` to be rebuilt, it is {}",
            server.name, server.status
        ));
    }
    Ok(match waiting.into_iter().next() {
        None => Waited::Done(()),
        Some(reason) => Waited::NotYet(reason),
    })
}

/// Marks the servers and volumes that stay and are overwritten.
pub(crate) fn mark_restored(rows: &mut [PlannedResource]) {
    let kinds = [SERVER, VOLUME];
    let stays = |row: &&mut PlannedResource| {
        row.action == ResourceAction::Keep && kinds.contains(&row.kind.as_str())
    };
    for row in rows.iter_mut().filter(stays) {
        row.action = ResourceAction::Update;
        row.because.push("vnfSnapshotInfoId".to_owned());
    }
}

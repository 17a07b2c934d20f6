//! Cinder: volumes, snapshots of them, and the return to one. A cloud without Cinder has no volumes, and so no snapshots.

use crate::errors::{HAS_SNAPSHOTS, NOT_LATEST, SNAPSHOT_STUCK, VOLUME_LOST, message};
use crate::heat::member;
use crate::http_call::{Call, encoded};
use crate::keystone_login::{Cloud, Service};
use crate::retries::Waiter;
use crate::snapshots::{INSTANCE, SNAPSHOT, lost_part, one, path};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use vnfm_core::ports::{PortError, VimCall, Waited};

/// From this version on, a volume can return to its latest snapshot.
const REVERTS: &str = "volume 3.40";

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct VolumeSnapshot {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
    pub(crate) status: String,
    pub(crate) volume_id: String,
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, String>,
    #[serde(default)]
    created_at: String,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Volume {
    pub(crate) id: String,
    #[serde(default)]
    pub(crate) name: Option<String>,
    pub(crate) status: String,
    /// In GiB.
    #[serde(default)]
    pub(crate) size: Option<u64>,
    #[serde(default)]
    pub(crate) metadata: BTreeMap<String, String>,
    #[serde(default)]
    attachments: Vec<Value>,
}

/// All volume snapshots of the project; none if the cloud has no Cinder.
pub(crate) async fn snapshots(cloud: &Cloud<'_>) -> Result<Vec<VolumeSnapshot>, PortError> {
    all(cloud, ("snapshots", ""), "list volume snapshots").await
}

/// All volumes of the project; none if the cloud has no Cinder.
pub(crate) async fn volumes(cloud: &Cloud<'_>) -> Result<Vec<Volume>, PortError> {
    all(cloud, ("volumes", ""), "list volumes").await
}

/// The volumes of the project with this name; none if the cloud has no Cinder.
pub(crate) async fn named(cloud: &Cloud<'_>, name: &str) -> Result<Vec<Volume>, PortError> {
    let filter = format!("?name={}", encoded(name));
    let action = format!("look for volume `{name}`");
    all(cloud, ("volumes", &filter), &action).await
}

async fn all<T: DeserializeOwned>(
    cloud: &Cloud<'_>,
    (collection, filter): (&str, &str),
    action: &str,
) -> Result<Vec<T>, PortError> {
    let (session, _) = cloud.session().await?;
    if !Service::Volume.is_among(&session.services()) {
        return Ok(Vec::new());
    }
    let call = Call::get(format!("/{collection}/detail{filter}"), action);
    member(
        cloud.send(Service::Volume, &call).await?,
        collection,
        action,
    )
}

/// A volume; `None` if it does not exist.
pub(crate) async fn volume(cloud: &Cloud<'_>, id: &str) -> Result<Option<Volume>, PortError> {
    let action = format!("look at volume `{id}`");
    let at = (path("volumes", id), "volume");
    one(cloud, Service::Volume, at, &action).await
}

/// The volume snapshots of a VNF snapshot.
pub(crate) async fn of_snapshot(
    cloud: &Cloud<'_>,
    id: &str,
) -> Result<Vec<VolumeSnapshot>, PortError> {
    let mut all = snapshots(cloud).await?;
    all.retain(|one| one.metadata.get(SNAPSHOT).map(String::as_str) == Some(id));
    Ok(all)
}

/// Requests a snapshot of a volume, also of one in use.
pub(crate) async fn create(
    cloud: &Cloud<'_>,
    volume: &str,
    (name, metadata): (&str, Map<String, Value>),
) -> Result<(), PortError> {
    let body = json!({"snapshot": {"volume_id": volume, "name": name, "force": true, "metadata": metadata}});
    let call = Call::post("/snapshots", body, format!("store volume `{volume}`"));
    cloud.send(Service::Volume, &call).await.map(drop)
}

/// Requests the deletion of a volume snapshot where its state allows it; an error if Cinder has failed to delete it.
pub(crate) async fn delete(cloud: &Cloud<'_>, snapshot: &VolumeSnapshot) -> Result<(), PortError> {
    let id = &snapshot.id;
    let action = format!("delete volume snapshot `{id}`");
    match snapshot.status.as_str() {
        "available" | "error" => {
            let call = Call::delete(path("snapshots", id), action).accepting(&[404]);
            cloud.send(Service::Volume, &call).await.map(drop)
        }
        "error_deleting" => {
            let what = "it is in `error_deleting`";
            Err(PortError::new(&SNAPSHOT_STUCK, action, what).on(id))
        }
        _ => Ok(()),
    }
}

/// Refuses to delete the volumes of an instance of which a VNF snapshot is stored in Cinder.
pub(crate) async fn check_deletable(cloud: &Cloud<'_>, instance: &str) -> Result<(), PortError> {
    let all = snapshots(cloud).await?;
    let is_of =
        |one: &&VolumeSnapshot| one.metadata.get(INSTANCE).map(String::as_str) == Some(instance);
    let Some(found) = all.iter().find(is_of) else {
        return Ok(());
    };
    let what = format!(
        "volume `{}` has a snapshot, of VNF snapshot `{}`",
        found.volume_id,
        found.metadata.get(SNAPSHOT).map_or("?", String::as_str)
    );
    let action = "delete the volumes of the instance";
    Err(PortError::new(&HAS_SNAPSHOTS, action, what).on(&found.volume_id))
}

/// Refuses a volume snapshot that does not exist, or that is not the latest of its volume.
pub(crate) async fn check_latest(cloud: &Cloud<'_>, id: &str) -> Result<(), PortError> {
    let all = snapshots(cloud).await?;
    let Some(own) = all.iter().find(|one| one.id == id) else {
        return Err(lost_part(&format!("volume snapshot `{id}`")));
    };
    let is_later =
        |one: &&VolumeSnapshot| one.volume_id == own.volume_id && one.created_at > own.created_at;
    let Some(later) = all.iter().find(is_later) else {
        return Ok(());
    };
    let what = format!(
        "volume `{}` has a later snapshot, `{}` ({})",
        own.volume_id,
        later.name.as_deref().unwrap_or_default(),
        later.id
    );
    Err(PortError::new(&NOT_LATEST, "return to the snapshot", what).on(&own.volume_id))
}

/// Detaches a volume from its server, returns it to its snapshot, and attaches it again.
pub(crate) async fn revert(
    cx: &VimCall<'_>,
    cloud: &Cloud<'_>,
    server: &str,
    (volume, snapshot): (&str, &str),
) -> Result<(), PortError> {
    let action = format!("return volume `{volume}` to its snapshot");
    let mut waiter = Waiter::new(cx, &action);
    let mut is_reverted = false;
    loop {
        let step = step(cloud, server, (volume, snapshot), &mut is_reverted);
        match waiter.attempt(step).await? {
            Waited::Done(()) => return Ok(()),
            Waited::NotYet(reason) => waiter.pause(&reason).await?,
        }
    }
}

/// Brings the volume a step further.
async fn step(
    cloud: &Cloud<'_>,
    server: &str,
    (id, snapshot): (&str, &str),
    is_reverted: &mut bool,
) -> Result<Waited<()>, PortError> {
    let action = format!("look at volume `{id}`");
    let Some(volume) = volume(cloud, id).await? else {
        let what = "it no longer exists";
        return Err(PortError::new(&VOLUME_LOST, action, what).on(id));
    };
    let attachments = format!("/servers/{server}/os-volume_attachments");
    match (volume.status.as_str(), *is_reverted) {
        ("in-use", true) => return Ok(Waited::Done(())),
        ("in-use", false) => {
            let detach = format!("detach volume `{id}`");
            let call = Call::delete(format!("{attachments}/{id}"), detach).accepting(&[404, 409]);
            let reply = cloud.send(Service::Compute, &call).await?;
            if reply.status == 409 {
                return Ok(Waited::NotYet(format!(
                    "Nova does not detach volume `{id}`: {}",
                    message(&reply)
                )));
            }
        }
        ("available", false) => {
            let body = json!({"revert": {"snapshot_id": snapshot}});
            let path = format!("{}/action", path("volumes", id));
            let call = Call::post(path, body, format!("return volume `{id}` to its snapshot"));
            cloud.send(Service::Volume, &call.version(REVERTS)).await?;
            *is_reverted = true;
        }
        ("available", true) => {
            let body = json!({"volumeAttachment": {"volumeId": id}});
            let call = Call::post(attachments, body, format!("attach volume `{id}`"));
            cloud.send(Service::Compute, &call).await?;
        }
        (status, _) if status.starts_with("error") => {
            let what = format!("it is in `{status}`");
            return Err(PortError::new(&VOLUME_LOST, action, what).on(id));
        }
        _ => {}
    }
    let attached = volume.attachments.len();
    let status = &volume.status;
    Ok(Waited::NotYet(format!(
        "volume `{id}` is {status}, with {attached} attachments"
    )))
}

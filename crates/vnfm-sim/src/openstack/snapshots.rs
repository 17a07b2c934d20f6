//! Images of servers (Nova), and snapshots of volumes (Cinder). What is on a disk is a text that tests read and write.

use serde_json::{Value, json};

use super::state::{State, new_id, text};
use crate::time::now;

/// The member of an image, volume or volume snapshot with what is on the disk; never shown by the API.
pub(crate) const DISK: &str = "x-disk";

/// An image of a server's root disk, with its metadata as properties; its id.
pub(crate) fn create_image(state: &mut State, server: &str, body: &Value) -> Option<String> {
    let server = state.servers.get(server)?.clone();
    let id = state.add_image(text(body, "name"), "active", "private", &server.project);
    let mut members = json!({"image_type": "snapshot", "instance_uuid": server.id});
    for (name, value) in body["metadata"].as_object().into_iter().flatten() {
        members[name] = value.clone();
    }
    members[DISK] = json!(server.disk);
    state.change("image", &id, &members);
    Some(id)
}

/// Gives a server the root disk of an image; false if there is no such image.
pub(crate) fn rebuild(state: &mut State, server: &str, image: &str) -> bool {
    let Some(disk) = state
        .object("image", image)
        .map(|image| text(image, DISK).to_owned())
    else {
        return false;
    };
    if let Some(server) = state.servers.get_mut(server) {
        server.image = Some(image.to_owned());
        server.disk = disk;
        server.updated = now();
    }
    true
}

/// A snapshot of a volume; `None` if there is no such volume.
pub(crate) fn create_volume_snapshot(state: &mut State, body: &Value) -> Option<Value> {
    let volume = state.object("volume", text(body, "volume_id"))?.clone();
    state.ticks += 1;
    let snapshot = json!({"id": new_id(), "name": text(body, "name"), "status": "available",
        "volume_id": volume["id"], "size": volume["size"], "metadata": body["metadata"],
        "created_at": format!("2026-01-01T00:00:00.{:09}", state.ticks), DISK: text(&volume, DISK)});
    state.put("snapshot", snapshot.clone());
    Some(snapshot)
}

/// All volume snapshots. One that is being deleted is listed once more.
pub(crate) fn list_volume_snapshots(state: &mut State) -> Vec<Value> {
    let all: Vec<Value> = state.all("snapshot").cloned().collect();
    for deleting in all.iter().filter(|one| text(one, "status") == "deleting") {
        state.take("snapshot", text(deleting, "id"));
    }
    all.iter().map(shown).collect()
}

/// Begins to delete a volume snapshot; status and text of the refusal.
pub(crate) fn delete_volume_snapshot(state: &mut State, id: &str) -> Result<(), (u16, String)> {
    let status = state
        .object("snapshot", id)
        .map(|one| text(one, "status").to_owned());
    match status.as_deref() {
        None => Err((404, format!("Snapshot {id} could not be found."))),
        Some("available" | "error") => {
            state.change("snapshot", id, &json!({"status": "deleting"}));
            Ok(())
        }
        Some(_) => {
            let why = "Invalid snapshot: Snapshot status must be available or error and must not be part of a group.";
            Err((400, why.to_owned()))
        }
    }
}

/// Why a volume cannot return to a snapshot; `None`: it has.
pub(crate) fn revert_volume(state: &mut State, volume: &str, snapshot: &str) -> Option<String> {
    let own = |one: &&Value| text(one, "volume_id") == volume;
    let created_at = |one: &&Value| text(one, "created_at").to_owned();
    let latest = state
        .all("snapshot")
        .filter(own)
        .max_by_key(created_at)
        .cloned();
    let Some(latest) = latest.filter(|latest| text(latest, "id") == snapshot) else {
        return Some("Invalid snapshot: Snapshot is not the latest one of the volume.".to_owned());
    };
    let status = state
        .object("volume", volume)
        .map(|one| text(one, "status").to_owned());
    if status.as_deref() != Some("available") {
        return Some(format!(
            "Invalid volume: Volume status must be available, it is {status:?}."
        ));
    }
    state.change("volume", volume, &json!({DISK: latest[DISK]}));
    None
}

/// A body as the API shows it.
pub(crate) fn shown(body: &Value) -> Value {
    let mut body = body.clone();
    if let Some(members) = body.as_object_mut() {
        members.remove(DISK);
    }
    body
}

//! Cinder: volumes and their snapshots.
//!
//! A volume that a request creates is `creating` when it is looked at for the first time. Then it is `available`; one of the type
//! `full`, for which no backend has room, is in `error`.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::Cloud;
use super::resources::delete_volume;
use super::snapshots::{
    create_volume_snapshot, delete_volume_snapshot, list_volume_snapshots, revert_volume, shown,
};
use super::state::{State, new_id, text};
use crate::http::{Reply, Request, Route, Service};

type Answer = Result<Reply, Reply>;

const DEFAULT_TYPE: &str = "__DEFAULT__";
/// The type whose volumes end in error.
const FULL: &str = "full";
/// The quota of the project, in GiB.
const MAX_GIB: u64 = 10_000;

pub(crate) struct Cinder(pub(crate) Arc<Cloud>);

impl Service for Cinder {
    fn name(&self) -> &'static str {
        "cinder"
    }

    fn failure(&self, status: u16) -> Reply {
        volume_error(status, "The service is temporarily unable to answer.")
    }

    fn route<'a>(&'a self, request: &'a Request) -> Option<Route<'a>> {
        let path = request.segments();
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        Some(match (&request.method, segments.as_slice()) {
            (&Method::GET, ["v3", _, "volumes"] | ["v3", _, "volumes", "detail"]) => {
                Route::new("cinder.volume_list", "", || {
                    self.0.authenticate(request)?;
                    let volumes = list(&mut self.0.state(), request.param("name"));
                    Ok(Reply::json(200, &json!({ "volumes": volumes })))
                })
            }
            (&Method::GET, ["v3", _, "messages"]) => Route::new("cinder.message_list", "", || {
                self.0.authenticate(request)?;
                let id = request.param("resource_uuid").unwrap_or_default();
                let messages = messages_about(&self.0.state(), id);
                Ok(Reply::json(200, &json!({ "messages": messages })))
            }),
            (&Method::GET, ["v3", _, "volumes", id]) => {
                let id = (*id).to_owned();
                Route::new("cinder.volume_show", id.clone(), move || {
                    self.0.authenticate(request)?;
                    let state = self.0.state();
                    let found = state.object("volume", &id).ok_or_else(|| {
                        volume_error(404, &format!("Volume {id} could not be found."))
                    })?;
                    Ok(Reply::json(200, &json!({ "volume": shown(found) })))
                })
            }
            _ => return self.change_routes(request, &segments),
        })
    }
}

impl Cinder {
    /// The routes that change volumes.
    fn change_routes<'a>(&'a self, request: &'a Request, segments: &[&str]) -> Option<Route<'a>> {
        Some(match (&request.method, segments) {
            (&Method::POST, ["v3", _, "volumes"]) => Route::new("cinder.volume_create", "", || {
                self.0.authenticate(request)?;
                let created = create(&mut self.0.state(), &request.json()["volume"])?;
                Ok(Reply::json(202, &json!({ "volume": created })))
            }),
            (&Method::POST, ["v3", _, "volumes", id, "metadata"]) => {
                let id = (*id).to_owned();
                Route::new("cinder.metadata_set", id.clone(), move || {
                    self.metadata(request, &id, |all| {
                        let body = request.json();
                        all.extend(body["metadata"].as_object().cloned().unwrap_or_default());
                    })
                })
            }
            (&Method::DELETE, ["v3", _, "volumes", id, "metadata", key]) => {
                let (id, key) = ((*id).to_owned(), (*key).to_owned());
                Route::new("cinder.metadata_delete", id.clone(), move || {
                    self.metadata(request, &id, |all| drop(all.remove(&key)))
                })
            }
            (&Method::DELETE, ["v3", _, "volumes", id]) => {
                let id = (*id).to_owned();
                Route::new("cinder.volume_delete", id.clone(), move || {
                    self.0.authenticate(request)?;
                    let mut state = self.0.state();
                    let found = state.object("volume", &id);
                    let found = found.ok_or_else(|| {
                        volume_error(404, &format!("Volume {id} could not be found."))
                    })?;
                    if text(found, "status") == "in-use" {
                        let what = "Invalid volume: Volume status must be available or error, and must not be attached.";
                        return Err(volume_error(400, what));
                    }
                    delete_volume(&mut state, &id).map_err(|(_, why)| volume_error(400, &why))?;
                    Ok(Reply::empty(202))
                })
            }
            _ => return self.snapshot_routes(request, segments),
        })
    }

    /// Changes the metadata of a volume.
    fn metadata(
        &self,
        request: &Request,
        id: &str,
        change: impl FnOnce(&mut serde_json::Map<String, Value>),
    ) -> Answer {
        self.0.authenticate(request)?;
        let mut state = self.0.state();
        let missing = || volume_error(404, &format!("Volume {id} could not be found."));
        let found = state.object("volume", id).ok_or_else(missing)?;
        let mut all = found["metadata"].as_object().cloned().unwrap_or_default();
        change(&mut all);
        state.change("volume", id, &json!({ "metadata": all }));
        Ok(Reply::json(200, &json!({ "metadata": all })))
    }

    /// The routes of snapshots of volumes.
    fn snapshot_routes<'a>(&'a self, request: &'a Request, segments: &[&str]) -> Option<Route<'a>> {
        Some(match (&request.method, segments) {
            (&Method::POST, ["v3", _, "volumes", id, "action"]) => {
                let id = (*id).to_owned();
                Route::new("cinder.volume_revert", id.clone(), move || {
                    self.0.authenticate(request)?;
                    let body = request.json();
                    let snapshot = text(&body["revert"], "snapshot_id");
                    match revert_volume(&mut self.0.state(), &id, snapshot) {
                        None => Ok(Reply::empty(202)),
                        Some(why) => Err(volume_error(400, &why)),
                    }
                })
            }
            (&Method::GET, ["v3", _, "snapshots"] | ["v3", _, "snapshots", "detail"]) => {
                Route::new("cinder.snapshot_list", "", || {
                    self.0.authenticate(request)?;
                    let snapshots = list_volume_snapshots(&mut self.0.state());
                    Ok(Reply::json(200, &json!({ "snapshots": snapshots })))
                })
            }
            (&Method::POST, ["v3", _, "snapshots"]) => {
                Route::new("cinder.snapshot_create", "", || {
                    self.0.authenticate(request)?;
                    let body = request.json();
                    let created = create_volume_snapshot(&mut self.0.state(), &body["snapshot"]);
                    let created =
                        created.ok_or_else(|| volume_error(404, "Volume could not be found."))?;
                    Ok(Reply::json(202, &json!({ "snapshot": shown(&created) })))
                })
            }
            (&Method::DELETE, ["v3", _, "snapshots", id]) => {
                let id = (*id).to_owned();
                Route::new("cinder.snapshot_delete", id.clone(), move || {
                    self.0.authenticate(request)?;
                    delete_volume_snapshot(&mut self.0.state(), &id)
                        .map(|()| Reply::empty(202))
                        .map_err(|(status, why)| volume_error(status, &why))
                })
            }
            _ => return None,
        })
    }
}

/// The volumes, or those of a name. One that is being created is listed so once.
fn list(state: &mut State, name: Option<&str>) -> Vec<Value> {
    let is_wanted = |body: &&Value| name.is_none_or(|name| text(body, "name") == name);
    let listed: Vec<Value> = state.all("volume").filter(is_wanted).cloned().collect();
    for volume in &listed {
        if text(volume, "status") == "creating" {
            let is_full = text(volume, "volume_type") == FULL;
            let status = if is_full { "error" } else { "available" };
            state.change("volume", text(volume, "id"), &json!({ "status": status }));
        }
    }
    listed.iter().map(shown).collect()
}

/// Begins to create a volume, or the refusal.
fn create(state: &mut State, wanted: &Value) -> Result<Value, Reply> {
    let size = wanted["size"].as_u64().unwrap_or_default();
    let kind = wanted["volume_type"].as_str().unwrap_or(DEFAULT_TYPE);
    if size == 0 {
        let what =
            "Invalid input for field/attribute size. Value: 0. 0 is less than the minimum of 1";
        return Err(volume_error(400, what));
    }
    if ![DEFAULT_TYPE, FULL].contains(&kind) {
        let what = format!("Volume type with name {kind} could not be found.");
        return Err(volume_error(404, &what));
    }
    if size > MAX_GIB {
        let what = format!(
            "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested {size}G, \
             quota is {MAX_GIB}G and 0G has been consumed."
        );
        return Err(volume_error(413, &what));
    }
    let volume = json!({ "id": new_id(), "name": wanted["name"], "status": "creating", "size": size, "volume_type": kind,
        "metadata": wanted["metadata"], "attachments": [] });
    state.put("volume", volume.clone());
    Ok(volume)
}

/// What Cinder tells users about a volume in error.
fn messages_about(state: &State, id: &str) -> Vec<Value> {
    let volume = state.object("volume", id);
    let failed = volume.filter(|volume| text(volume, "status") == "error");
    let message = |volume: &Value| {
        let why = "schedule allocate volume:Could not find any available weighted backend.";
        json!({ "resource_uuid": volume["id"], "resource_type": "VOLUME", "user_message": why })
    };
    failed.map(message).into_iter().collect()
}

fn volume_error(status: u16, message: &str) -> Reply {
    let kind = if status == 404 {
        "itemNotFound"
    } else {
        "computeFault"
    };
    Reply::json(
        status,
        &json!({ kind: { "code": status, "message": message } }),
    )
    .with_remark(message)
}

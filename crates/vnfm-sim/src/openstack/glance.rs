//! Glance (find and upload images) and, because it is as short, Cinder (volumes and their snapshots).

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::Cloud;
use super::resources::delete_volume;
use super::snapshots::{
    create_volume_snapshot, delete_volume_snapshot, list_volume_snapshots, revert_volume, shown,
};
use super::state::text;
use crate::http::{Reply, Request, Route, Service};

pub(crate) struct Glance(pub(crate) Arc<Cloud>);

type Answer = Result<Reply, Reply>;

impl Service for Glance {
    fn name(&self) -> &'static str {
        "glance"
    }

    fn failure(&self, status: u16) -> Reply {
        error(status, "The service is temporarily unable to answer.")
    }

    fn route<'a>(&'a self, request: &'a Request) -> Option<Route<'a>> {
        let path = request.segments();
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        let id = segments.get(2).map(|s| (*s).to_owned()).unwrap_or_default();
        Some(match (&request.method, segments.as_slice()) {
            (&Method::GET, []) => Route::new("glance.versions", "", || {
                Ok(Reply::json(
                    300,
                    &json!({ "versions": [{ "id": "v2.15", "status": "CURRENT", "links": [] }] }),
                ))
            }),
            (&Method::GET, ["v2", "images"]) => Route::new(
                "glance.image_list",
                request.param("name").unwrap_or_default(),
                || self.list(request),
            ),
            (&Method::POST, ["v2", "images"]) => {
                Route::new("glance.image_create", text(&request.json(), "name"), || {
                    self.create(request)
                })
            }
            (&Method::GET, ["v2", "images", _]) => {
                Route::new("glance.image_show", id.clone(), move || {
                    self.0.authenticate(request)?;
                    let state = self.0.state();
                    state
                        .object("image", &id)
                        .map(|image| Reply::json(200, &shown(image)))
                        .ok_or_else(|| no_image(&id))
                })
            }
            (&Method::PUT, ["v2", "images", _, "file"]) => {
                Route::new("glance.image_upload", id.clone(), move || {
                    self.upload(request, &id)
                })
            }
            (&Method::PUT, ["v2", "images", _, "tags", tag]) => {
                let tag = (*tag).to_owned();
                Route::new("glance.tag_put", id.clone(), move || {
                    self.tag(request, &id, (&tag, true))
                })
            }
            (&Method::DELETE, ["v2", "images", _, "tags", tag]) => {
                let tag = (*tag).to_owned();
                Route::new("glance.tag_delete", id.clone(), move || {
                    self.tag(request, &id, (&tag, false))
                })
            }
            (&Method::DELETE, ["v2", "images", _]) => {
                Route::new("glance.image_delete", id.clone(), move || {
                    self.0.authenticate(request)?;
                    self.0
                        .state()
                        .take("image", &id)
                        .map(|_| Reply::empty(204))
                        .ok_or_else(|| no_image(&id))
                })
            }
            _ => return None,
        })
    }
}

impl Glance {
    fn list(&self, request: &Request) -> Answer {
        self.0.authenticate(request)?;
        let state = self.0.state();
        let fits = |image: &&Value| {
            FILTERS.iter().all(|key| {
                request
                    .param(key)
                    .is_none_or(|wanted| text(image, key) == wanted)
            }) && request
                .param("tag")
                .is_none_or(|wanted| tags(image).any(|tag| tag == wanted))
        };
        let images: Vec<Value> = state.all("image").filter(fits).map(shown).collect();
        Ok(Reply::json(
            200,
            &json!({ "images": images, "first": "/v2/images", "schema": "/v2/schemas/images" }),
        ))
    }

    fn create(&self, request: &Request) -> Answer {
        let who = self.0.authenticate(request)?;
        let body = request.json();
        let mut state = self.0.state();
        let user =
            state.users.get(&who.user).cloned().ok_or_else(|| {
                error(401, "This server could not verify that you are authorized.")
            })?;
        let visibility = body
            .get("visibility")
            .and_then(Value::as_str)
            .unwrap_or("shared");
        if visibility == "public" && !user.admin {
            return Err(error(
                403,
                "You are not authorized to complete publicize_image action.",
            ));
        }
        let id = state.add_image(text(&body, "name"), "queued", visibility, &user.project);
        state.change("image", &id, &body);
        let image = state.object("image", &id).cloned().unwrap_or_default();
        Ok(Reply::json(201, &image).with_header(
            "location",
            format!("{}/v2/images/{id}", self.0.address("image")),
        ))
    }

    /// Adds a tag to an image (`on`) or removes it.
    fn tag(&self, request: &Request, id: &str, (tag, on): (&str, bool)) -> Answer {
        self.0.authenticate(request)?;
        let mut state = self.0.state();
        let image = state.object("image", id).ok_or_else(|| no_image(id))?;
        let mut all: Vec<&str> = tags(image).filter(|known| *known != tag).collect();
        if !on && all.len() == tags(image).count() {
            return Err(error(404, &format!("Tag could not be found: {tag}")));
        }
        all.extend(on.then_some(tag));
        if all.len() > MAX_TAGS {
            let text = "The limit has been exceeded on the number of allowed image tags.";
            return Err(error(413, text));
        }
        let changed = json!({ "tags": all });
        state.change("image", id, &changed);
        Ok(Reply::empty(204))
    }

    fn upload(&self, request: &Request, id: &str) -> Answer {
        self.0.authenticate(request)?;
        let mut state = self.0.state();
        let status = state
            .object("image", id)
            .map(|image| text(image, "status").to_owned())
            .ok_or_else(|| no_image(id))?;
        if status != "queued" {
            return Err(error(
                409,
                &format!("Image status transition from {status} to saving is not allowed"),
            ));
        }
        state.change(
            "image",
            id,
            &json!({ "status": "active", "size": request.body.len() }),
        );
        Ok(Reply::empty(204))
    }
}

/// Members by which images are listed; Glance takes any property.
const FILTERS: [&str; 7] = [
    "name",
    "status",
    "visibility",
    "owner",
    "id",
    "vnfm_installation",
    "vnfm_snapshot",
];

/// Maximum number of tags per image: the default of `image_tag_quota`.
const MAX_TAGS: usize = 128;

fn tags(image: &Value) -> impl Iterator<Item = &str> {
    image["tags"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
}

fn no_image(id: &str) -> Reply {
    error(404, &format!("No image found with ID {id}"))
}

/// An error as Glance sends it: an HTML page.
fn error(status: u16, message: &str) -> Reply {
    let title = http::StatusCode::from_u16(status)
        .ok()
        .and_then(|s| s.canonical_reason())
        .unwrap_or("Error");
    let mut reply = Reply::empty(status)
        .with_header("content-type", "text/html; charset=UTF-8")
        .with_remark(message);
    reply.body = format!("<html>\n <head>\n  <title>{status} {title}</title>\n </head>\n <body>\n  <h1>{status} {title}</h1>\n  {message}<br /><br />\n\n\n </body>\n</html>").into();
    reply
}

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
                    let state = self.0.state();
                    let volumes: Vec<Value> = state.all("volume").map(shown).collect();
                    Ok(Reply::json(200, &json!({ "volumes": volumes })))
                })
            }
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

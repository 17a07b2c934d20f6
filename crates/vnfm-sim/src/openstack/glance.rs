//! Glance: find and upload images.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::Cloud;
use super::snapshots::shown;
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

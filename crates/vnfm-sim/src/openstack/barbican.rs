//! Barbican, as far as a client that stores keys needs it: secrets by name, visible only in their own project.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::Cloud;
use super::state::{new_id, text};
use crate::http::{Reply, Request, Route, Service};

pub(crate) struct Barbican(pub(crate) Arc<Cloud>);

type Answer<T = Reply> = Result<T, Reply>;

impl Service for Barbican {
    fn name(&self) -> &'static str {
        "barbican"
    }

    fn failure(&self, status: u16) -> Reply {
        error(status, "The service is temporarily unable to answer.")
    }

    fn route<'a>(&'a self, request: &'a Request) -> Option<Route<'a>> {
        let path = request.segments();
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        let id = segments.get(2).map(|s| (*s).to_owned()).unwrap_or_default();
        Some(match (&request.method, segments.as_slice()) {
            (&Method::POST, ["v1", "secrets"]) => Route::new(
                "barbican.secret_create",
                text(&request.json(), "name"),
                || self.create(request),
            ),
            (&Method::GET, ["v1", "secrets"]) => Route::new(
                "barbican.secret_list",
                request.param("name").unwrap_or_default(),
                || self.list(request),
            ),
            (&Method::GET, ["v1", "secrets", _, "payload"]) => {
                Route::new("barbican.secret_payload", id.clone(), move || {
                    self.payload(request, &id)
                })
            }
            (&Method::DELETE, ["v1", "secrets", _]) => {
                Route::new("barbican.secret_delete", id.clone(), move || {
                    self.visible_secret(request, &id)?;
                    self.0.state().take("secret", &id);
                    Ok(Reply::empty(204))
                })
            }
            _ => return None,
        })
    }
}

impl Barbican {
    fn create(&self, request: &Request) -> Answer {
        let project = self.project(request)?;
        let body = request.json();
        if text(&body, "payload").is_empty() || text(&body, "payload_content_type") != "text/plain"
        {
            return Err(error(
                400,
                "If 'payload' is supplied, 'payload_content_type' must be supplied also.",
            ));
        }
        let id = new_id();
        let body = json!({ "id": id, "name": text(&body, "name"), "payload": body["payload"], "project": project });
        self.0.state().put("secret", body);
        Ok(Reply::json(
            201,
            &json!({ "secret_ref": self.reference(&id) }),
        ))
    }

    fn list(&self, request: &Request) -> Answer {
        let project = self.project(request)?;
        let number = |name: &str, default| {
            request
                .param(name)
                .and_then(|given| given.parse().ok())
                .unwrap_or(default)
        };
        let state = self.0.state();
        let fits = |secret: &&Value| {
            text(secret, "project") == project
                && request
                    .param("name")
                    .is_none_or(|name| text(secret, "name") == name)
        };
        let all: Vec<&Value> = state.all("secret").filter(fits).collect();
        let summary = |secret: &&Value| {
            json!({ "secret_ref": self.reference(text(secret, "id")), "name": secret["name"], "status": "ACTIVE",
                "secret_type": "passphrase", "content_types": { "default": "text/plain" } })
        };
        let page = all
            .iter()
            .skip(number("offset", 0))
            .take(number("limit", 10).min(100));
        let page: Vec<Value> = page.map(summary).collect();
        Ok(Reply::json(
            200,
            &json!({ "secrets": page, "total": all.len() }),
        ))
    }

    fn payload(&self, request: &Request, id: &str) -> Answer {
        let secret = self.visible_secret(request, id)?;
        if request.header("accept") != "text/plain" {
            return Err(error(
                406,
                "Secret payload retrieval issue seen - not acceptable.",
            ));
        }
        let mut reply = Reply::empty(200).with_header("content-type", "text/plain; charset=utf-8");
        reply.body = text(&secret, "payload").to_owned().into();
        Ok(reply)
    }

    /// A secret of the caller's project.
    fn visible_secret(&self, request: &Request, id: &str) -> Answer<Value> {
        let project = self.project(request)?;
        let state = self.0.state();
        let found = state
            .object("secret", id)
            .filter(|secret| text(secret, "project") == project);
        found
            .cloned()
            .ok_or_else(|| error(404, "Secret not found."))
    }

    fn project(&self, request: &Request) -> Answer<String> {
        let who = self.0.authenticate(request)?;
        let state = self.0.state();
        let user = state.users.get(&who.user).map(|user| user.project.clone());
        user.ok_or_else(|| error(403, "Secret retrieval attempt not allowed."))
    }

    /// A secret's URL with Barbican's configured host, which need not be the one of the request.
    fn reference(&self, id: &str) -> String {
        format!("{}/v1/secrets/{id}", self.0.address("key-manager"))
    }
}

fn error(status: u16, description: &str) -> Reply {
    let title = http::StatusCode::from_u16(status)
        .ok()
        .and_then(|s| s.canonical_reason());
    let body =
        json!({ "code": status, "title": title.unwrap_or("Error"), "description": description });
    Reply::json(status, &body).with_remark(description)
}

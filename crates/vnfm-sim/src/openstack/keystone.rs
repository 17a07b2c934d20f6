//! Keystone: tokens by password or application credential, the catalog, and administration.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};
use uuid::Uuid;

use super::Cloud;
use super::keystone_tokens::{catalog, roles, show_token};
use super::state::{Credential, State, Token, User, text};
use crate::http::{Reply, Request, Route, Service};

pub(crate) struct Keystone(pub(crate) Arc<Cloud>);

type Answer = Result<Reply, Reply>;

impl Service for Keystone {
    fn name(&self) -> &'static str {
        "keystone"
    }

    fn failure(&self, status: u16) -> Reply {
        error(status, "The service is temporarily unable to answer.")
    }

    fn route<'a>(&'a self, request: &'a Request) -> Option<Route<'a>> {
        let path = request.segments();
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        Some(match (&request.method, segments.as_slice()) {
            (&Method::GET, []) => Route::new("keystone.versions", "", || Ok(self.versions(300))),
            (&Method::GET, ["v3"]) => Route::new("keystone.version", "", || Ok(self.versions(200))),
            (&Method::POST, ["v3", "auth", "tokens"]) => {
                Route::new("keystone.token_create", login_name(&request.json()), || {
                    self.login(request)
                })
            }
            (&Method::GET | &Method::HEAD, ["v3", "auth", "tokens"]) => {
                Route::new("keystone.token_show", "", || self.token(request))
            }
            (&Method::DELETE, ["v3", "auth", "tokens"]) => {
                Route::new("keystone.token_revoke", "", || {
                    self.0.authenticate(request)?;
                    self.0
                        .state()
                        .tokens
                        .remove(request.header("x-subject-token"));
                    Ok(Reply::empty(204))
                })
            }
            (&Method::GET, ["v3", "auth", "catalog"]) => Route::new("keystone.catalog", "", || {
                let who = self.0.authenticate(request)?;
                let state = self.0.state();
                Ok(Reply::json(
                    200,
                    &json!({ "catalog": catalog(&state, &state.users[&who.user]) }),
                ))
            }),
            _ => return self.administration(request, &segments),
        })
    }
}

impl Keystone {
    /// The routes of application credentials, users, services and endpoints.
    fn administration<'a>(&'a self, request: &'a Request, segments: &[&str]) -> Option<Route<'a>> {
        let id = segments.get(2).map(|s| (*s).to_owned()).unwrap_or_default();
        Some(match (&request.method, segments) {
            (&Method::POST, ["v3", "users", _, "application_credentials"]) => {
                Route::new("keystone.credential_create", id.clone(), move || {
                    self.create_credential(request, &id)
                })
            }
            (&Method::GET, ["v3", "users", _, "application_credentials"]) => {
                Route::new("keystone.credential_list", id.clone(), move || {
                    self.0.authenticate(request)?;
                    let state = self.0.state();
                    let own = state.credentials.iter().filter(|(_, c)| c.user == id);
                    let listed: Vec<Value> = own.map(|(_, c)| c.shown.clone()).collect();
                    Ok(Reply::json(
                        200,
                        &json!({ "application_credentials": listed }),
                    ))
                })
            }
            (&Method::DELETE, ["v3", "users", _, "application_credentials", key]) => {
                let key = (*key).to_owned();
                Route::new("keystone.credential_delete", key.clone(), move || {
                    self.0.authenticate(request)?;
                    let removed = self.0.state().credentials.remove(&key);
                    removed.map(|_| Reply::empty(204)).ok_or_else(|| {
                        error(
                            404,
                            &format!("Could not find Application Credential: {key}."),
                        )
                    })
                })
            }
            (&Method::DELETE, ["v3", "users", _, "access_rules", _]) => {
                Route::new("keystone.access_rule_delete", id.clone(), move || {
                    self.0.authenticate(request)?;
                    Ok(Reply::empty(204))
                })
            }
            (&Method::PATCH, ["v3", "users", _]) => {
                Route::new("keystone.user_update", id.clone(), move || {
                    self.change_user(request, &id)
                })
            }
            (&Method::GET, ["v3", "services"]) => {
                Route::new("keystone.service_list", "", || self.services(request))
            }
            (&Method::GET, ["v3", "endpoints"]) => {
                Route::new("keystone.endpoint_list", "", || self.endpoints(request))
            }
            (&Method::PATCH, ["v3", "endpoints", _]) => {
                Route::new("keystone.endpoint_update", id.clone(), move || {
                    self.move_endpoint(request, &id)
                })
            }
            _ => return None,
        })
    }

    fn versions(&self, status: u16) -> Reply {
        let href = format!("{}/v3/", self.0.address("identity"));
        let version = json!({ "id": "v3.14", "status": "stable", "updated": "2020-04-07T00:00:00Z",
            "links": [{ "rel": "self", "href": href }], "media-types": [{ "base": "application/json", "type": "application/vnd.openstack.identity-v3+json" }] });
        let body = if status == 300 {
            json!({ "versions": { "values": [version] } })
        } else {
            json!({ "version": version })
        };
        Reply::json(status, &body).with_header("location", href)
    }

    fn login(&self, request: &Request) -> Answer {
        let body = request.json();
        let identity = &body["auth"]["identity"];
        let mut state = self.0.state();
        let scope = &body["auth"]["scope"];
        let (user, by_credential) = self.identify(&state, identity, scope)?;
        let scope = &scope["project"];
        let scoped = by_credential || !scope.is_null();
        if !by_credential && scoped && !has_scope(&state, &user, scope) {
            return Err(self.unauthorized());
        }
        let (key, token) = self.issue_token(&mut state, &user, scoped, by_credential);
        Ok(Reply::json(201, &token).with_header("x-subject-token", key))
    }

    /// Authenticates a login; returns the user, and whether it used an application credential.
    fn identify(
        &self,
        state: &State,
        identity: &Value,
        scope: &Value,
    ) -> Result<(User, bool), Reply> {
        let methods: Vec<&str> = identity["methods"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let (user, by_credential) = match methods.as_slice() {
            ["password"] => (by_password(state, &identity["password"]["user"]), false),
            ["application_credential"] => {
                if !scope.is_null() {
                    return Err(error(
                        401,
                        "Application credentials cannot request a scope.",
                    ));
                }
                let credential = &identity["application_credential"];
                let id = text(credential, "id");
                if !id.is_empty() && !state.credentials.contains_key(id) {
                    let message = format!("Could not find Application Credential: {id}.");
                    return Err(error(404, &message));
                }
                (by_credential(state, credential), true)
            }
            ["token"] => (
                state
                    .tokens
                    .get(text(&identity["token"], "id"))
                    .map(|t| t.user.clone()),
                false,
            ),
            [] => {
                return Err(error(
                    400,
                    "Expecting to find methods in identity. The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.",
                ));
            }
            _ => return Err(error(401, UNAUTHORIZED)),
        };
        let user = user
            .and_then(|id| state.users.get(&id).cloned())
            .ok_or_else(|| self.unauthorized())?;
        Ok((user, by_credential))
    }

    /// Creates a token; returns its id and its body.
    fn issue_token(
        &self,
        state: &mut State,
        user: &User,
        scoped: bool,
        by_credential: bool,
    ) -> (String, Value) {
        let issued = jiff::Timestamp::now();
        let life = jiff::SignedDuration::try_from(self.0.options.token_life)
            .unwrap_or(jiff::SignedDuration::from_hours(1));
        let token = Token {
            user: user.id.clone(),
            scoped,
            by_credential,
            issued,
            expires: issued.saturating_add(life).unwrap_or(issued),
        };
        let key = format!(
            "gAAAAA{}{}",
            Uuid::new_v4().simple(),
            Uuid::new_v4().simple()
        );
        let token_body = show_token(state, user, &token);
        state.tokens.insert(key.clone(), token);
        (key, token_body)
    }

    fn token(&self, request: &Request) -> Answer {
        self.0.authenticate(request)?;
        let state = self.0.state();
        let key = request.header("x-subject-token");
        let token = state
            .tokens
            .get(key)
            .filter(|t| t.expires > jiff::Timestamp::now());
        let token = token.ok_or_else(|| error(404, "Failed to validate token"))?;
        Ok(
            Reply::json(200, &show_token(&state, &state.users[&token.user], token))
                .with_header("x-subject-token", key),
        )
    }

    fn create_credential(&self, request: &Request, user: &str) -> Answer {
        let who = self.0.authenticate(request)?;
        if who.user != user {
            return Err(error(
                403,
                "You are not authorized to perform the requested action: identity:create_application_credential.",
            ));
        }
        let body = &request.json()["application_credential"];
        let secret = body
            .get("secret")
            .and_then(Value::as_str)
            .map_or_else(|| Uuid::new_v4().simple().to_string(), str::to_owned);
        let (id, name) = (
            Uuid::new_v4().simple().to_string(),
            text(body, "name").to_owned(),
        );
        if self
            .0
            .state()
            .credentials
            .values()
            .any(|c| c.user == user && c.name == name)
        {
            let message = format!(
                "Conflict occurred attempting to store application_credential - Duplicate entry found with name {name}."
            );
            return Err(error(409, &message));
        }
        let own = roles(false);
        let wanted = body["roles"].as_array().cloned();
        let has = |role: &Value| {
            own.as_array()
                .is_some_and(|all| all.iter().any(|one| one["name"] == role["name"]))
        };
        if let Some(role) = wanted.iter().flatten().find(|role| !has(role)) {
            let message = format!("Role {} is not defined", text(role, "name"));
            return Err(error(404, &message));
        }
        let mut rules = body["access_rules"].clone();
        for rule in rules.as_array_mut().into_iter().flatten() {
            rule["id"] = json!(Uuid::new_v4().simple().to_string());
        }
        let shown = json!({ "id": id, "name": name, "description": body["description"], "unrestricted": body["unrestricted"] == true,
            "expires_at": body["expires_at"], "roles": wanted.map_or(own, Value::from), "access_rules": rules });
        let mut created = json!({ "application_credential": shown });
        created["application_credential"]["secret"] = json!(secret);
        self.0.state().credentials.insert(
            id,
            Credential {
                name,
                secret,
                user: user.to_owned(),
                shown,
            },
        );
        Ok(Reply::json(201, &created))
    }

    fn change_user(&self, request: &Request, id: &str) -> Answer {
        let who = self.0.authenticate(request)?;
        if !self.0.state().users.get(&who.user).is_some_and(|u| u.admin) {
            return Err(error(
                403,
                "You are not authorized to perform the requested action: identity:update_user.",
            ));
        }
        let name = self
            .0
            .state()
            .users
            .get(id)
            .map(|u| u.name.clone())
            .ok_or_else(|| error(404, &format!("Could not find user: {id}.")))?;
        if let Some(password) = request.json()["user"]["password"].as_str() {
            self.0.set_password(&name, password);
        }
        Ok(Reply::json(
            200,
            &json!({ "user": { "id": id, "name": name, "enabled": true, "domain_id": "default" } }),
        ))
    }

    fn services(&self, request: &Request) -> Answer {
        self.administrator(request)?;
        let state = self.0.state();
        let wanted = request.param("type");
        let mut listed: Vec<Value> = Vec::new();
        for endpoint in &state.endpoints {
            let service = json!({ "id": endpoint.service, "type": endpoint.service, "name": endpoint.name, "enabled": true });
            if wanted.is_none_or(|w| w == endpoint.service) && !listed.contains(&service) {
                listed.push(service);
            }
        }
        Ok(Reply::json(200, &json!({ "services": listed })))
    }

    fn endpoints(&self, request: &Request) -> Answer {
        self.administrator(request)?;
        let state = self.0.state();
        let fits =
            |name: &str, value: &str| request.param(name).is_none_or(|wanted| wanted == value);
        let listed: Vec<Value> = (state.endpoints.iter())
            .filter(|e| fits("service_id", e.service) && fits("interface", e.interface))
            .map(|e| json!({ "id": e.id, "service_id": e.service, "interface": e.interface, "region": "RegionOne", "region_id": "RegionOne", "url": e.url, "enabled": true }))
            .collect();
        Ok(Reply::json(200, &json!({ "endpoints": listed })))
    }

    fn move_endpoint(&self, request: &Request, id: &str) -> Answer {
        self.administrator(request)?;
        let url = request.json()["endpoint"]["url"]
            .as_str()
            .map(str::to_owned);
        let mut state = self.0.state();
        let endpoint = state
            .endpoints
            .iter_mut()
            .find(|e| e.id == id)
            .ok_or_else(|| error(404, &format!("Could not find endpoint: {id}.")))?;
        if let Some(url) = url {
            endpoint.url = url;
        }
        Ok(Reply::json(
            200,
            &json!({ "endpoint": { "id": id, "url": endpoint.url, "interface": endpoint.interface, "service_id": endpoint.service } }),
        ))
    }

    fn administrator(&self, request: &Request) -> Result<(), Reply> {
        let who = self.0.authenticate(request)?;
        match self.0.state().users.get(&who.user) {
            Some(user) if user.admin => Ok(()),
            _ => Err(error(
                403,
                "You are not authorized to perform the requested action.",
            )),
        }
    }

    fn unauthorized(&self) -> Reply {
        unauthorized(&self.0.address("identity"))
    }
}

const UNAUTHORIZED: &str = "The request you have made requires authentication.";

fn login_name(body: &Value) -> String {
    let identity = &body["auth"]["identity"];
    let user = &identity["password"]["user"];
    let credential = &identity["application_credential"];
    [
        text(user, "name"),
        text(user, "id"),
        text(credential, "id"),
        text(credential, "name"),
    ]
    .into_iter()
    .find(|n| !n.is_empty())
    .unwrap_or_default()
    .to_owned()
}

fn by_password(state: &State, credentials: &Value) -> Option<String> {
    let domain = &credentials["domain"];
    let default = domain.is_null()
        || text(domain, "id") == "default"
        || text(domain, "name").eq_ignore_ascii_case("default");
    let user = state.users.get(text(credentials, "id")).or_else(|| {
        state
            .user_named(text(credentials, "name"))
            .filter(|_| default)
    })?;
    (user.password == text(credentials, "password")).then(|| user.id.clone())
}

fn by_credential(state: &State, credentials: &Value) -> Option<String> {
    let named = |c: &&Credential| {
        c.name == text(credentials, "name")
            && state.users.get(&c.user).is_some_and(|u| {
                u.name == text(&credentials["user"], "name")
                    || u.id == text(&credentials["user"], "id")
            })
    };
    let credential = state
        .credentials
        .get(text(credentials, "id"))
        .or_else(|| state.credentials.values().find(named))?;
    (credential.secret == text(credentials, "secret")).then(|| credential.user.clone())
}

fn has_scope(state: &State, user: &User, scope: &Value) -> bool {
    let project = state
        .projects
        .iter()
        .find(|(_, id)| **id == user.project)
        .map(|(name, _)| name.as_str());
    text(scope, "id") == user.project || Some(text(scope, "name")) == project
}

/// A 401 as Keystone and its middleware send it.
pub(crate) fn unauthorized(keystone: &str) -> Reply {
    error(401, UNAUTHORIZED).with_header(
        "www-authenticate",
        format!("Keystone uri=\"{keystone}/v3\""),
    )
}

fn error(status: u16, message: &str) -> Reply {
    let title = match status {
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        409 => "Conflict",
        503 => "Service Unavailable",
        _ => "Internal Server Error",
    };
    Reply::json(
        status,
        &json!({ "error": { "code": status, "title": title, "message": message } }),
    )
    .with_remark(message)
}

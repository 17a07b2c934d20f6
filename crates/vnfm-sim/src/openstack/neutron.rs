//! Neutron: every collection, filtered by any member; tags; networks with subnets, and floating IPs, created and deleted;
//! quotas.

use std::sync::Arc;

use http::Method;
use serde_json::{Map, Value, json};

use super::Cloud;
use super::new_resource::{NewResource, Refusal};
use super::resources::{self, within_quota};
use super::state::{State, Token};
use crate::http::{Reply, Request, Route, Service};

pub(crate) struct Neutron(pub(crate) Arc<Cloud>);

const COLLECTIONS: [(&str, &str); 6] = [
    ("networks", "network"),
    ("subnets", "subnet"),
    ("ports", "port"),
    ("security-groups", "security_group"),
    ("routers", "router"),
    ("floatingips", "floatingip"),
];

impl Service for Neutron {
    fn name(&self) -> &'static str {
        "neutron"
    }

    fn failure(&self, status: u16) -> Reply {
        error(
            status,
            "ServiceUnavailable",
            "The service is temporarily unable to answer.",
        )
    }

    fn route<'a>(&'a self, request: &'a Request) -> Option<Route<'a>> {
        let path = request.segments();
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        Some(match (&request.method, segments.as_slice()) {
            (&Method::GET, []) => Route::new("neutron.versions", "", || {
                Ok(Reply::json(
                    200,
                    &json!({ "versions": [{ "id": "v2.0", "status": "CURRENT", "links": [] }] }),
                ))
            }),
            (&Method::GET, ["v2.0", collection]) => {
                let kind = kind_of(collection)?;
                Route::new(format!("neutron.{kind}_list"), "", move || {
                    self.list(request, kind)
                })
            }
            (&Method::GET, ["v2.0", collection, id]) => {
                let (kind, id) = (kind_of(collection)?, (*id).to_owned());
                Route::new(format!("neutron.{kind}_show"), id.clone(), move || {
                    self.show(request, kind, &id)
                })
            }
            _ => return self.change_routes(request, &segments),
        })
    }
}

impl Neutron {
    /// The routes that change something.
    fn change_routes<'a>(&'a self, request: &'a Request, segments: &[&str]) -> Option<Route<'a>> {
        Some(match (&request.method, segments) {
            (&Method::POST, ["v2.0", "networks"]) => {
                Route::new("neutron.network_create", "", || {
                    self.create_network(request)
                })
            }
            (&Method::POST, ["v2.0", "subnets"]) => {
                Route::new("neutron.subnet_create", "", || self.create_subnet(request))
            }
            (&Method::POST, ["v2.0", "floatingips"]) => {
                Route::new("neutron.floatingip_create", "", || {
                    self.create_floating_ip(request)
                })
            }
            (&Method::PUT, ["v2.0", collection, id, "tags"]) => {
                let (kind, id) = (kind_of(collection)?, (*id).to_owned());
                Route::new(format!("neutron.{kind}_tags"), id.clone(), move || {
                    self.tag(request, kind, &id)
                })
            }
            (&Method::DELETE, ["v2.0", "floatingips", id]) => {
                let id = (*id).to_owned();
                Route::new("neutron.floatingip_delete", id.clone(), move || {
                    self.0.authenticate(request)?;
                    let deleted = self.0.state().take("floatingip", &id);
                    deleted.ok_or_else(|| not_found("floatingip", &id))?;
                    Ok(Reply::empty(204))
                })
            }
            (&Method::DELETE, ["v2.0", "networks", id]) => {
                let id = (*id).to_owned();
                Route::new("neutron.network_delete", id.clone(), move || {
                    self.delete_network(request, &id)
                })
            }
            (&Method::PUT, ["v2.0", "quotas", project]) => {
                Route::new("neutron.quota_update", *project, || self.set_quota(request))
            }
            _ => return None,
        })
    }

    fn show(&self, request: &Request, kind: &str, id: &str) -> Result<Reply, Reply> {
        self.0.authenticate(request)?;
        let state = self.0.state();
        let found = state.object(kind, id).ok_or_else(|| not_found(kind, id))?;
        Ok(Reply::json(200, &json!({ kind: found })))
    }

    fn set_quota(&self, request: &Request) -> Result<Reply, Reply> {
        self.0.authenticate(request)?;
        let body = request.json();
        for (name, value) in body["quota"].as_object().into_iter().flatten() {
            self.0.set_quota(name, value.as_i64().unwrap_or(-1));
        }
        Ok(Reply::json(200, &body))
    }

    fn create_network(&self, request: &Request) -> Result<Reply, Reply> {
        let who = self.0.authenticate(request)?;
        let body = request.json();
        let wanted = body["network"].as_object().cloned().unwrap_or_default();
        let mut state = self.0.state();
        let project = project_of(&state, &who);
        let failed = |refusal: Refusal| error(409, "OverQuota", &refusal.1);
        within_quota(&state, "network").map_err(failed)?;
        let name = wanted
            .get("name")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let id = state.add_network(name, &project, &wanted);
        let description = wanted.get("description").cloned().unwrap_or(json!(""));
        state.change("network", &id, &json!({ "description": description }));
        Ok(Reply::json(
            201,
            &json!({ "network": state.object("network", &id) }),
        ))
    }

    fn create_subnet(&self, request: &Request) -> Result<Reply, Reply> {
        let who = self.0.authenticate(request)?;
        let body = request.json();
        let wanted = &body["subnet"];
        let mut state = self.0.state();
        let project = project_of(&state, &who);
        let network = wanted["network_id"].as_str().unwrap_or_default();
        if state.object("network", network).is_none() {
            return Err(not_found("network", network));
        }
        let cidr = wanted["cidr"].as_str().unwrap_or_default();
        let is_same = |one: &Value| one["network_id"] == network && one["cidr"] == cidr;
        if state.all("subnet").any(is_same) {
            let message = format!(
                "Invalid input for operation: Requested subnet with cidr: {cidr} for network: {network} overlaps with \
                 another subnet."
            );
            return Err(error(400, "InvalidInput", &message));
        }
        let id = state.add_subnet(wanted, &project);
        Ok(Reply::json(
            201,
            &json!({ "subnet": state.object("subnet", &id) }),
        ))
    }

    fn create_floating_ip(&self, request: &Request) -> Result<Reply, Reply> {
        let who = self.0.authenticate(request)?;
        let body = request.json();
        let wanted = &body["floatingip"];
        let mut state = self.0.state();
        let order = NewResource {
            kind: "OS::Neutron::FloatingIP",
            name: String::new(),
            project: &project_of(&state, &who),
            user: &who.user,
        };
        let mut properties = Map::new();
        for (property, member) in [
            ("floating_network", "floating_network_id"),
            ("port_id", "port_id"),
        ] {
            properties.insert(property.to_owned(), wanted[member].clone());
        }
        let created = resources::create(&mut state, &order, &properties);
        let id = created.map_err(|refusal| error(409, &refusal.0, &refusal.1))?;
        let description = wanted["description"].as_str().unwrap_or_default();
        let more = json!({ "description": description, "tags": [] });
        state.change("floatingip", &id, &more);
        Ok(Reply::json(
            201,
            &json!({ "floatingip": state.object("floatingip", &id) }),
        ))
    }

    fn tag(&self, request: &Request, kind: &str, id: &str) -> Result<Reply, Reply> {
        self.0.authenticate(request)?;
        let tags = request.json()["tags"].clone();
        let mut state = self.0.state();
        if state.object(kind, id).is_none() {
            return Err(not_found(kind, id));
        }
        state.change(kind, id, &json!({ "tags": tags }));
        Ok(Reply::json(200, &json!({ "tags": tags })))
    }

    fn delete_network(&self, request: &Request, id: &str) -> Result<Reply, Reply> {
        self.0.authenticate(request)?;
        let mut state = self.0.state();
        if state.object("network", id).is_none() {
            return Err(not_found("network", id));
        }
        let deleted = resources::delete(&mut state, "OS::Neutron::Net", id);
        deleted.map_err(|refusal| error(409, "NetworkInUse", &refusal.1))?;
        Ok(Reply::empty(204))
    }

    fn list(&self, request: &Request, kind: &str) -> Result<Reply, Reply> {
        self.0.authenticate(request)?;
        let state = self.0.state();
        let plural = if kind == "floatingip" {
            "floatingips".to_owned()
        } else {
            format!("{kind}s")
        };
        let found: Vec<&Value> = state
            .all(kind)
            .filter(|body| fits(body, &request.query))
            .collect();
        Ok(Reply::json(200, &json!({ plural: found })))
    }
}

/// The kind of resources in a collection.
fn kind_of(collection: &str) -> Option<&'static str> {
    let found = COLLECTIONS.iter().find(|(plural, _)| *plural == collection);
    found.map(|(_, kind)| *kind)
}

pub(super) fn project_of(state: &State, who: &Token) -> String {
    let user = state.users.get(&who.user);
    user.map(|user| user.project.clone()).unwrap_or_default()
}

/// Whether a body passes all filters; a repeated filter matches any of its values.
fn fits(body: &Value, query: &[(String, String)]) -> bool {
    let about_the_answer = [
        "fields",
        "limit",
        "marker",
        "sort_key",
        "sort_dir",
        "page_reverse",
    ];
    let as_text = |value: &Value| {
        value
            .as_str()
            .map_or_else(|| value.to_string(), str::to_owned)
    };
    let same = |name: &str, wanted: &str| match name {
        "tags" => wanted.split(',').all(|tag| {
            let mut tags = body[name].as_array().into_iter().flatten();
            tags.any(|one| one == tag)
        }),
        "fixed_ips" => wanted.split_once('=').is_some_and(|(key, value)| {
            body[name]
                .as_array()
                .into_iter()
                .flatten()
                .any(|ip| ip[key] == value)
        }),
        _ => body
            .get(name)
            .is_some_and(|value| as_text(value).eq_ignore_ascii_case(wanted)),
    };
    query
        .iter()
        .filter(|(name, _)| !about_the_answer.contains(&name.as_str()))
        .all(|(name, _)| {
            query
                .iter()
                .filter(|(other, _)| other == name)
                .any(|(_, wanted)| same(name, wanted))
        })
}

fn not_found(kind: &str, id: &str) -> Reply {
    let (kind, title) = match kind {
        "network" => ("NetworkNotFound", "Network"),
        "subnet" => ("SubnetNotFound", "Subnet"),
        "port" => ("PortNotFound", "Port"),
        "security_group" => ("SecurityGroupNotFound", "Security group"),
        "router" => ("RouterNotFound", "Router"),
        _ => ("FloatingIPNotFound", "Floating IP"),
    };
    error(404, kind, &format!("{title} {id} could not be found."))
}

fn error(status: u16, kind: &str, message: &str) -> Reply {
    Reply::json(
        status,
        &json!({ "NeutronError": { "type": kind, "message": message, "detail": "" } }),
    )
    .with_remark(message)
}

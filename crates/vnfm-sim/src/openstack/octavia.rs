//! Octavia's API without a data plane: load balancers with their listeners and pools.
//!
//! A load balancer that a request changes is `PENDING_*` when it is looked at for the first time, then `ACTIVE`. Until then
//! further changes of it, its listeners and its pools are refused.

use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::Cloud;
use super::neutron::project_of;
use super::state::{State, Token, new_id, text};
use crate::http::{Reply, Request, Route, Service};

pub(crate) struct Octavia(pub(crate) Arc<Cloud>);

type Answer<T = Reply> = Result<T, Reply>;

const BALANCER: &str = "loadbalancer";
const COLLECTIONS: [(&str, &str); 3] = [
    ("loadbalancers", BALANCER),
    ("listeners", "listener"),
    ("pools", "pool"),
];

impl Service for Octavia {
    fn name(&self) -> &'static str {
        "octavia"
    }

    fn failure(&self, status: u16) -> Reply {
        error(status, "The service is temporarily unable to answer.")
    }

    fn route<'a>(&'a self, request: &'a Request) -> Option<Route<'a>> {
        let path = request.segments();
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        let (collection, id) = match segments.as_slice() {
            ["v2.0", "lbaas", collection] => (*collection, None),
            ["v2.0", "lbaas", collection, id] => (*collection, Some((*id).to_owned())),
            _ => return None,
        };
        let (_, kind) = *COLLECTIONS
            .iter()
            .find(|(plural, _)| *plural == collection)?;
        let call = |verb: &str| format!("octavia.{kind}_{verb}");
        Some(match (&request.method, id) {
            (&Method::GET, None) => Route::new(call("list"), "", move || self.list(request, kind)),
            (&Method::POST, None) => {
                Route::new(call("create"), "", move || self.create(request, kind))
            }
            (&Method::GET, Some(id)) => Route::new(call("show"), id.clone(), move || {
                self.show(request, kind, &id)
            }),
            (&Method::DELETE, Some(id)) => Route::new(call("delete"), id.clone(), move || {
                self.delete(request, kind, &id)
            }),
            (&Method::PUT, Some(id)) if kind == BALANCER => {
                Route::new(call("update"), id.clone(), move || {
                    self.update(request, &id)
                })
            }
            _ => return None,
        })
    }
}

impl Octavia {
    fn list(&self, request: &Request, kind: &'static str) -> Answer {
        self.0.authenticate(request)?;
        let mut state = self.0.state();
        let found: Vec<Value> = state.all(kind).cloned().collect();
        for one in &found {
            settle(&mut state, text(one, "id"));
        }
        let plural = format!("{kind}s");
        Ok(Reply::json(200, &json!({ plural: found })))
    }

    fn show(&self, request: &Request, kind: &'static str, id: &str) -> Answer {
        self.0.authenticate(request)?;
        let mut state = self.0.state();
        let found = state.object(kind, id).cloned();
        let found = found.ok_or_else(|| not_found(kind, id))?;
        settle(&mut state, id);
        Ok(Reply::json(200, &json!({ kind: found })))
    }

    fn create(&self, request: &Request, kind: &'static str) -> Answer {
        let who = self.0.authenticate(request)?;
        let body = request.json();
        let mut state = self.0.state();
        let id = if kind == BALANCER {
            create_balancer(&mut state, &who, &body[kind])?
        } else {
            create_part(&mut state, kind, &body[kind])?
        };
        Ok(Reply::json(201, &json!({ kind: state.object(kind, &id) })))
    }

    /// Sets name or tags of a load balancer.
    fn update(&self, request: &Request, id: &str) -> Answer {
        self.0.authenticate(request)?;
        let mut state = self.0.state();
        begin(&mut state, id, "PENDING_UPDATE")?;
        state.change(BALANCER, id, &request.json()[BALANCER]);
        Ok(Reply::json(
            200,
            &json!({ BALANCER: state.object(BALANCER, id) }),
        ))
    }

    fn delete(&self, request: &Request, kind: &'static str, id: &str) -> Answer {
        self.0.authenticate(request)?;
        let mut state = self.0.state();
        if kind == BALANCER {
            delete_balancer(&mut state, id, request.param("cascade") == Some("true"))?;
        } else {
            delete_part(&mut state, kind, id)?;
        }
        Ok(Reply::empty(204))
    }
}

/// Ends the change of a load balancer, if this is one.
fn settle(state: &mut State, id: &str) {
    let status = json!({ "provisioning_status": "ACTIVE", "operating_status": "ONLINE" });
    state.change(BALANCER, id, &status);
}

/// Begins to change a load balancer; 409 while an earlier change has not ended.
fn begin(state: &mut State, id: &str, status: &str) -> Answer<()> {
    let found = state
        .object(BALANCER, id)
        .ok_or_else(|| not_found(BALANCER, id))?;
    if text(found, "provisioning_status") != "ACTIVE" {
        let message = format!("Load Balancer {id} is immutable and cannot be updated.");
        return Err(error(409, &message));
    }
    state.change(BALANCER, id, &json!({ "provisioning_status": status }));
    Ok(())
}

fn create_balancer(state: &mut State, who: &Token, wanted: &Value) -> Answer<String> {
    let subnet = text(wanted, "vip_subnet_id").to_owned();
    let network = state
        .object("subnet", &subnet)
        .map(|one| text(one, "network_id").to_owned())
        .ok_or_else(|| error(400, &format!("Subnet {subnet} not found.")))?;
    let (id, project) = (new_id(), project_of(state, who));
    let port =
        json!({ "name": format!("octavia-lb-{id}"), "fixed_ips": [{ "subnet_id": subnet }] });
    let port = state
        .add_port(&network, &port, &project)
        .map_err(|why| error(409, &why))?;
    let owner = json!({ "device_owner": "Octavia", "device_id": format!("lb-{id}") });
    state.change("port", &port, &owner);
    let address = state
        .object("port", &port)
        .map(|one| one["fixed_ips"][0]["ip_address"].clone());
    let tags = wanted.get("tags").cloned().unwrap_or_else(|| json!([]));
    Ok(state.put(
        BALANCER,
        json!({ "id": id, "name": text(wanted, "name"), "description": text(wanted, "description"), "tags": tags,
            "vip_address": address, "vip_port_id": port, "vip_subnet_id": subnet, "provider": wanted["provider"],
            "provisioning_status": "PENDING_CREATE", "operating_status": "OFFLINE", "project_id": project }),
    ))
}

/// Creates a listener, or a pool of a listener or load balancer.
fn create_part(state: &mut State, kind: &'static str, wanted: &Value) -> Answer<String> {
    let listener = text(wanted, "listener_id").to_owned();
    let balancer = state
        .object("listener", &listener)
        .map_or(text(wanted, "loadbalancer_id"), balancer_of)
        .to_owned();
    begin(state, &balancer, "PENDING_UPDATE")?;
    let listeners = if listener.is_empty() {
        json!([])
    } else {
        json!([{ "id": listener }])
    };
    let tags = wanted.get("tags").cloned().unwrap_or_else(|| json!([]));
    let mut body = json!({ "id": new_id(), "name": text(wanted, "name"), "description": text(wanted, "description"),
        "tags": tags, "protocol": wanted["protocol"], "loadbalancers": [{ "id": balancer }],
        "provisioning_status": "ACTIVE" });
    if kind == "pool" {
        body["listeners"] = listeners;
    } else {
        body["protocol_port"] = wanted["protocol_port"].clone();
    }
    Ok(state.put(kind, body))
}

/// Id of the load balancer of a listener or pool.
fn balancer_of(part: &Value) -> &str {
    text(&part["loadbalancers"][0], "id")
}

fn delete_part(state: &mut State, kind: &str, id: &str) -> Answer<()> {
    let found = state.object(kind, id).ok_or_else(|| not_found(kind, id))?;
    let balancer = balancer_of(found).to_owned();
    begin(state, &balancer, "PENDING_UPDATE")?;
    state.take(kind, id);
    let of_it = state
        .all("pool")
        .filter(|pool| pool["listeners"][0]["id"] == id);
    let of_it: Vec<String> = of_it.map(|pool| text(pool, "id").to_owned()).collect();
    for pool in of_it {
        state.change("pool", &pool, &json!({ "listeners": [] }));
    }
    Ok(())
}

/// Deletes a load balancer with the port of its address; a floating IP of the port stays, without it.
fn delete_balancer(state: &mut State, id: &str, cascade: bool) -> Answer<()> {
    let mut parts = Vec::new();
    for kind in ["listener", "pool"] {
        let of_it = state.all(kind).filter(|part| balancer_of(part) == id);
        parts.extend(of_it.map(|part| (kind, text(part, "id").to_owned())));
    }
    if !parts.is_empty() && !cascade {
        let message = format!("Cannot delete Load Balancer {id} - it has children");
        return Err(error(400, &message));
    }
    begin(state, id, "PENDING_DELETE")?;
    for (kind, part) in parts {
        state.take(kind, &part);
    }
    let Some(balancer) = state.take(BALANCER, id) else {
        return Ok(());
    };
    let port = text(&balancer, "vip_port_id");
    state.take("port", port);
    let of_port = state
        .all("floatingip")
        .filter(|one| text(one, "port_id") == port);
    let of_port: Vec<String> = of_port.map(|one| text(one, "id").to_owned()).collect();
    for address in of_port {
        let detached = json!({ "port_id": null, "fixed_ip_address": null });
        state.change("floatingip", &address, &detached);
    }
    Ok(())
}

fn not_found(kind: &str, id: &str) -> Reply {
    let title = match kind {
        BALANCER => "Load Balancer",
        "listener" => "Listener",
        _ => "Pool",
    };
    error(404, &format!("{title} {id} not found."))
}

fn error(status: u16, message: &str) -> Reply {
    let body = json!({ "faultcode": "Client", "faultstring": message, "debuginfo": null });
    Reply::json(status, &body).with_remark(message)
}

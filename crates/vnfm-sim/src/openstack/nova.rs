//! Nova, as far as drivers and checkers need it: servers, consoles, flavors, key pairs, quotas.
//!
//! Only Heat creates servers. The console log comes from the host and includes its SSH host keys.

use std::sync::Arc;

use http::Method;
use serde_json::{Map, Value, json};

use super::Cloud;
use super::new_resource::attach;
use super::nova_replies::{error, no_instance, versions};
use super::servers;
use super::snapshots;
use super::state::{Server, State, new_id, text};
use crate::http::{Reply, Request, Route, Service};

pub(crate) struct Nova(pub(crate) Arc<Cloud>);

type Answer = Result<Reply, Reply>;

/// Availability zones; the first is the default.
const ZONES: [&str; 2] = ["nova", "edge"];

/// The requested zone of a server, or the default.
pub(crate) fn zone(properties: &Map<String, Value>) -> Result<String, String> {
    let zone = properties
        .get("availability_zone")
        .and_then(Value::as_str)
        .unwrap_or(ZONES[0]);
    if ZONES.contains(&zone) {
        return Ok(zone.to_owned());
    }
    let id = new_id();
    Err(format!(
        "The requested availability zone is not available (HTTP 400) (Request-ID: req-{id})"
    ))
}

impl Service for Nova {
    fn name(&self) -> &'static str {
        "nova"
    }

    fn failure(&self, status: u16) -> Reply {
        error(status, "The service is temporarily unable to answer.")
    }

    fn route<'a>(&'a self, request: &'a Request) -> Option<Route<'a>> {
        let path = request.segments();
        let segments: Vec<&str> = path.iter().map(String::as_str).collect();
        if segments.is_empty() || segments == ["v2.1"] {
            return Some(Route::new("nova.versions", "", || Ok(versions())));
        }
        let ["v2.1", rest @ ..] = segments.as_slice() else {
            return None;
        };
        let id = rest.get(1).map(|s| (*s).to_owned()).unwrap_or_default();
        Some(match (&request.method, rest) {
            (&Method::GET, ["servers"]) => {
                Route::new("nova.server_list", "", || self.list(request, false))
            }
            (&Method::GET, ["servers", "detail"]) => {
                Route::new("nova.server_list", "detail", || self.list(request, true))
            }
            (&Method::GET, ["servers", _]) => {
                Route::new("nova.server_show", id.clone(), move || {
                    self.show(request, &id)
                })
            }
            (&Method::DELETE, ["servers", _]) => {
                Route::new("nova.server_delete", id.clone(), move || {
                    self.delete(request, &id)
                })
            }
            (&Method::POST, ["servers", _, "action"]) => {
                let body = request.json();
                let action = body
                    .as_object()
                    .and_then(|map| map.keys().next().cloned())
                    .unwrap_or_default();
                let (_, call) = servers::ACTIONS.iter().find(|(name, _)| *name == action)?;
                Route::new(*call, id.clone(), move || self.act(request, &id, &action))
            }
            (&Method::GET, ["servers", _, "os-volume_attachments"]) => {
                Route::new("nova.volume_attachments", id.clone(), move || {
                    self.attachments(request, &id)
                })
            }
            (&Method::POST, ["servers", _, "os-volume_attachments"]) => {
                let volume = text(&request.json()["volumeAttachment"], "volumeId").to_owned();
                Route::new("nova.volume_attach", id.clone(), move || {
                    self.attachment(request, (&id, &volume), true)
                })
            }
            (&Method::DELETE, ["servers", _, "os-volume_attachments", volume]) => {
                let volume = (*volume).to_owned();
                Route::new("nova.volume_detach", id.clone(), move || {
                    self.attachment(request, (&id, &volume), false)
                })
            }
            (&Method::POST, ["servers", _, "os-interface"]) => {
                let attach = move |id: &str| self.attach_port(request, id);
                Route::new("nova.interface_attach", id.clone(), move || attach(&id))
            }
            _ => return self.other_routes(request, rest),
        })
    }
}

impl Nova {
    /// The routes of everything except servers.
    fn other_routes<'a>(&'a self, request: &'a Request, rest: &[&str]) -> Option<Route<'a>> {
        let id = rest.get(1).map(|s| (*s).to_owned()).unwrap_or_default();
        Some(match (&request.method, rest) {
            (&Method::GET, ["flavors"] | ["flavors", "detail"]) => {
                Route::new("nova.flavor_list", "", || {
                    self.list_objects(request, "flavor", "flavors")
                })
            }
            (&Method::GET, ["flavors", _]) => {
                Route::new("nova.flavor_show", id.clone(), move || {
                    self.show_object(request, "flavor", &id)
                })
            }
            (&Method::GET, ["os-keypairs"]) => {
                Route::new("nova.keypair_list", "", || self.key_pairs(request))
            }
            (&Method::GET, ["os-keypairs", _]) => {
                Route::new("nova.keypair_show", id.clone(), move || {
                    self.show_object(request, "keypair", &id)
                })
            }
            (&Method::GET, ["os-server-groups"]) => {
                Route::new("nova.server_group_list", "", || {
                    self.list_objects(request, "server_group", "server_groups")
                })
            }
            (&Method::GET, ["limits"]) => Route::new("nova.limits", "", || self.limits(request)),
            (&Method::GET, ["os-availability-zone"]) => Route::new("nova.zones", "", || {
                self.0.authenticate(request)?;
                let zone = |name: &&str| json!({ "zoneName": name, "zoneState": { "available": true }, "hosts": null });
                let zones: Vec<_> = ZONES.iter().map(zone).collect();
                Ok(Reply::json(200, &json!({ "availabilityZoneInfo": zones })))
            }),
            (&Method::GET, ["os-quota-sets", _]) => {
                Route::new("nova.quota_show", id.clone(), move || {
                    self.quota(request, &id)
                })
            }
            (&Method::PUT, ["os-quota-sets", _]) => {
                Route::new("nova.quota_update", id.clone(), move || {
                    self.set_quota(request, &id)
                })
            }
            _ => return None,
        })
    }

    fn list(&self, request: &Request, detail: bool) -> Answer {
        let who = self.0.authenticate(request)?;
        let state = self.0.state();
        let admin = state.users.get(&who.user).is_some_and(|u| u.admin);
        let project = state
            .users
            .get(&who.user)
            .map(|u| u.project.clone())
            .unwrap_or_default();
        let everywhere = admin
            && request
                .param("all_tenants")
                .is_some_and(|v| v != "0" && !v.eq_ignore_ascii_case("false"));
        let fits = |server: &&Server| {
            let param = |name: &str| request.param(name);
            (everywhere || server.project == project)
                && param("name").is_none_or(|name| {
                    server
                        .name
                        .contains(name.trim_start_matches('^').trim_end_matches('$'))
                })
                && param("status").is_none_or(|status| server.status.eq_ignore_ascii_case(status))
        };
        let embed = embeds_flavor(request);
        let servers: Vec<Value> = (state.servers.values().filter(fits))
            .map(|server| {
                if detail {
                    show(&state, server, embed)
                } else {
                    json!({ "id": server.id, "name": server.name, "links": [] })
                }
            })
            .collect();
        Ok(Reply::json(200, &json!({ "servers": servers })))
    }

    fn show(&self, request: &Request, id: &str) -> Answer {
        self.0.authenticate(request)?;
        let state = self.0.state();
        let server = state.servers.get(id).ok_or_else(|| no_instance(id))?;
        Ok(Reply::json(
            200,
            &json!({ "server": show(&state, server, embeds_flavor(request)) }),
        ))
    }

    fn delete(&self, request: &Request, id: &str) -> Answer {
        self.0.authenticate(request)?;
        if !self.0.delete_server(id) {
            return Err(no_instance(id));
        }
        Ok(Reply::empty(204))
    }

    fn act(&self, request: &Request, id: &str, action: &str) -> Answer {
        let who = self.0.authenticate(request)?;
        let body = request.json();
        let admin = self.0.state().users.get(&who.user).is_some_and(|u| u.admin);
        if !self.0.state().servers.contains_key(id) {
            return Err(no_instance(id));
        }
        match action {
            "os-getConsoleOutput" => {
                let log = self.0.hosts.console_log(id);
                let lines: Vec<&str> = log.lines().collect();
                let length = body[action]["length"]
                    .as_u64()
                    .and_then(|n| usize::try_from(n).ok())
                    .unwrap_or(lines.len());
                let output = lines[lines.len().saturating_sub(length)..].join("\n");
                Ok(Reply::json(200, &json!({ "output": output })))
            }
            "os-resetState" if !admin => Err(error(
                403,
                "Policy doesn't allow os_compute_api:os-admin-actions:reset_state to be performed.",
            )),
            "os-resetState" => {
                let status = if text(&body[action], "state") == "error" {
                    "ERROR"
                } else {
                    "ACTIVE"
                };
                if let Some(server) = self.0.state().servers.get_mut(id) {
                    status.clone_into(&mut server.status);
                }
                Ok(Reply::empty(202))
            }
            "createImage" => self.create_image(id, &body[action]),
            "rebuild" => self.rebuild(id, text(&body[action], "imageRef")),
            "os-start" => self.start(id),
            _ => self.stop(id),
        }
    }

    fn create_image(&self, id: &str, body: &Value) -> Answer {
        let created = snapshots::create_image(&mut self.0.state(), id, body);
        let image = created.ok_or_else(|| no_instance(id))?;
        let location = format!("{}/v2/images/{image}", self.0.address("image"));
        Ok(Reply::empty(202).with_header("location", location))
    }

    fn rebuild(&self, id: &str, image: &str) -> Answer {
        let mut state = self.0.state();
        let server = state.servers.get(id).ok_or_else(|| no_instance(id))?;
        if !["ACTIVE", "SHUTOFF", "ERROR"].contains(&server.status.as_str()) {
            let status = vm_state(&server.status);
            let message =
                format!("Cannot 'rebuild' instance {id} while it is in vm_state {status}");
            return Err(error(409, &message));
        }
        if !snapshots::rebuild(&mut state, id, image) {
            return Err(error(
                400,
                &format!("Cannot find image {image} for rebuild"),
            ));
        }
        let server = state.servers.get(id).ok_or_else(|| no_instance(id))?;
        Ok(Reply::json(
            202,
            &json!({ "server": show(&state, server, false) }),
        ))
    }

    /// Attaches a volume to a server, or detaches it.
    fn attachments(&self, request: &Request, id: &str) -> Answer {
        self.0.authenticate(request)?;
        let state = self.0.state();
        let server = state.servers.get(id).ok_or_else(|| no_instance(id))?;
        let one = |volume: &String| json!({ "id": volume, "volumeId": volume, "serverId": id });
        let all: Vec<Value> = server.volumes.iter().map(one).collect();
        Ok(Reply::json(200, &json!({ "volumeAttachments": all })))
    }

    fn attachment(&self, request: &Request, (id, volume): (&str, &str), on: bool) -> Answer {
        self.0.authenticate(request)?;
        let mut state = self.0.state();
        let status = state
            .object("volume", volume)
            .map(|one| text(one, "status").to_owned());
        let expected = if on { "available" } else { "in-use" };
        match status.as_deref() {
            None => return Err(error(404, &format!("Volume {volume} could not be found."))),
            Some(status) if status != expected => {
                return Err(error(
                    400,
                    &format!("Invalid volume: its status is {status}"),
                ));
            }
            Some(_) => {}
        }
        if on {
            attach(&mut state, id, volume).map_err(|_| no_instance(id))?;
            let body = json!({ "volumeAttachment": { "id": volume, "volumeId": volume, "serverId": id, "device": "/dev/vdb" } });
            return Ok(Reply::json(200, &body));
        }
        let server = state.servers.get_mut(id).ok_or_else(|| no_instance(id))?;
        server.volumes.retain(|one| one != volume);
        state.change(
            "volume",
            volume,
            &json!({ "status": "available", "attachments": [] }),
        );
        Ok(Reply::empty(202))
    }

    fn attach_port(&self, request: &Request, id: &str) -> Answer {
        self.0.authenticate(request)?;
        let port = text(&request.json()["interfaceAttachment"], "port_id").to_owned();
        let attached = servers::attach_port(&mut self.0.state(), id, &port);
        attached.map_err(|(status, why)| error(status, &why))?;
        let body = json!({ "interfaceAttachment": { "port_id": port } });
        Ok(Reply::json(200, &body))
    }

    fn start(&self, id: &str) -> Answer {
        self.change_status(id, ("start", "SHUTOFF", "ACTIVE"))?;
        self.0.power_on(id);
        Ok(Reply::empty(202))
    }

    fn stop(&self, id: &str) -> Answer {
        self.change_status(id, ("stop", "ACTIVE", "SHUTOFF"))?;
        self.0.power_off(id);
        Ok(Reply::empty(202))
    }

    /// Sets the status that an action leads to; refused in any other than the one it begins in.
    fn change_status(&self, id: &str, (action, from, to): (&str, &str, &str)) -> Result<(), Reply> {
        let mut state = self.0.state();
        let server = state.servers.get_mut(id).ok_or_else(|| no_instance(id))?;
        if server.status != from {
            let message = format!(
                "Cannot '{action}' instance {id} while it is in vm_state {}",
                vm_state(&server.status)
            );
            return Err(error(409, &message));
        }
        to.clone_into(&mut server.status);
        server.updated = crate::time::now();
        Ok(())
    }

    fn list_objects(&self, request: &Request, kind: &str, plural: &str) -> Answer {
        self.0.authenticate(request)?;
        let state = self.0.state();
        let all: Vec<&Value> = state.all(kind).collect();
        Ok(Reply::json(200, &json!({ plural: all })))
    }

    fn show_object(&self, request: &Request, kind: &str, id: &str) -> Answer {
        self.0.authenticate(request)?;
        let state = self.0.state();
        let found = state
            .object(kind, id)
            .ok_or_else(|| error(404, &format!("{kind} {id} could not be found.")))?;
        Ok(Reply::json(200, &json!({ kind: found })))
    }

    fn key_pairs(&self, request: &Request) -> Answer {
        self.0.authenticate(request)?;
        let state = self.0.state();
        let all: Vec<Value> = state
            .all("keypair")
            .map(|k| json!({ "keypair": k }))
            .collect();
        Ok(Reply::json(200, &json!({ "keypairs": all })))
    }

    fn limits(&self, request: &Request) -> Answer {
        self.0.authenticate(request)?;
        let state = self.0.state();
        let quota = |name: &str| state.quotas.get(name).copied().unwrap_or(-1);
        let absolute = json!({ "maxTotalInstances": quota("instances"), "maxTotalCores": quota("cores"), "maxTotalRAMSize": -1,
            "totalInstancesUsed": state.servers.len(), "totalCoresUsed": 0, "totalRAMUsed": 0 });
        Ok(Reply::json(
            200,
            &json!({ "limits": { "rate": [], "absolute": absolute } }),
        ))
    }

    fn quota(&self, request: &Request, project: &str) -> Answer {
        self.0.authenticate(request)?;
        let mut set = json!(self.0.state().quotas);
        set["id"] = json!(project);
        Ok(Reply::json(200, &json!({ "quota_set": set })))
    }

    fn set_quota(&self, request: &Request, project: &str) -> Answer {
        let who = self.0.authenticate(request)?;
        if !self.0.state().users.get(&who.user).is_some_and(|u| u.admin) {
            return Err(error(
                403,
                "Policy doesn't allow os_compute_api:os-quota-sets:update to be performed.",
            ));
        }
        for (name, value) in request.json()["quota_set"]
            .as_object()
            .into_iter()
            .flatten()
        {
            if let Some(value) = value.as_i64() {
                self.0.set_quota(name, value);
            }
        }
        self.quota(request, project)
    }
}

/// A server in the API's format; `embed`: with its flavor embedded, as since microversion 2.47.
pub(crate) fn show(state: &State, server: &Server, embed: bool) -> Value {
    let flavor = state.object("flavor", &server.flavor);
    let flavor = match flavor {
        Some(f) if embed => {
            json!({ "original_name": f["name"], "ram": f["ram"], "vcpus": f["vcpus"], "disk": f["disk"], "ephemeral": 0, "swap": 0, "extra_specs": {} })
        }
        _ => json!({ "id": server.flavor, "links": [] }),
    };
    let volumes: Vec<Value> = server
        .volumes
        .iter()
        .map(|id| json!({ "id": id }))
        .collect();
    let image = server
        .image
        .as_ref()
        .map_or(json!(""), |id| json!({ "id": id, "links": [] }));
    let active = server.status == "ACTIVE";
    let mut body = json!({ "id": server.id, "name": server.name, "status": server.status, "tenant_id": server.project, "user_id": server.user,
        "metadata": server.metadata, "hostId": "5d0c", "image": image, "flavor": flavor, "created": server.created, "updated": server.updated,
        "addresses": state.addresses(server), "accessIPv4": "", "accessIPv6": "", "key_name": server.key_name, "config_drive": "",
        "OS-EXT-AZ:availability_zone": server.zone, "OS-EXT-STS:task_state": null, "OS-EXT-STS:vm_state": vm_state(&server.status),
        "OS-EXT-STS:power_state": if active { 1 } else { 4 }, "os-extended-volumes:volumes_attached": volumes,
        "security_groups": [{ "name": "default" }], "links": [] });
    if active {
        body["progress"] = json!(0);
    }
    if let Some(fault) = &server.fault {
        body["fault"] = json!({ "code": 500, "message": fault, "created": server.updated });
    }
    body
}

fn vm_state(status: &str) -> &'static str {
    match status {
        "ACTIVE" | "REBUILD" => "active",
        "BUILD" => "building",
        "SHUTOFF" => "stopped",
        _ => "error",
    }
}

fn embeds_flavor(request: &Request) -> bool {
    let version = request.header("x-openstack-nova-api-version").to_owned();
    let version = if version.is_empty() {
        request
            .header("openstack-api-version")
            .replace("compute ", "")
    } else {
        version
    };
    version
        .strip_prefix("2.")
        .and_then(|minor| minor.parse::<u32>().ok())
        .is_some_and(|minor| minor >= 47)
}

//! Creates and deletes servers with their ports and volumes.

use serde_json::{Map, Value, json};

use super::new_resource::{NewResource, Properties, Refusal, attach, network_of, refusal};
use super::nova::zone;
use super::state::{Server, State, new_id, text};
use crate::time::now;

/// The actions of a server, and the names of their calls.
pub(super) const ACTIONS: &[(&str, &str)] = &[
    ("os-getConsoleOutput", "nova.console_output"),
    ("os-resetState", "nova.reset_state"),
    ("os-stop", "nova.server_stop"),
    ("os-start", "nova.server_start"),
    ("createImage", "nova.create_image"),
    ("rebuild", "nova.server_rebuild"),
];

pub(super) fn create_server(
    state: &mut State,
    order: &NewResource<'_>,
    name: &str,
    properties: &Properties,
) -> Result<String, Refusal> {
    let (used, quota) = (
        state.servers.len(),
        state.quotas.get("instances").copied().unwrap_or(i64::MAX),
    );
    if i64::try_from(used).unwrap_or(i64::MAX) >= quota {
        let message = format!(
            "Quota exceeded for instances: Requested 1, but already used {used} of {quota} instances (HTTP 403) (Request-ID: req-{})",
            new_id()
        );
        return Err(refusal("Forbidden", message));
    }
    let zone = zone(properties).map_err(|why| refusal("BadRequest", why))?;
    let volumes = boot_volumes(state, properties)?;
    let (ports, own_ports) = server_ports(state, order, properties)?;
    let id = new_id();
    for port in &ports {
        state.change("port", port, &json!({ "device_id": id, "device_owner": "compute:nova", "status": "ACTIVE", "binding:host_id": "compute-1" }));
    }
    let named = |property: &str, kind: &str| {
        let name = properties.get(property).and_then(Value::as_str)?;
        Some(
            state
                .find(kind, name)
                .map_or_else(|| name.to_owned(), |body| text(body, "id").to_owned()),
        )
    };
    let server = Server {
        id: id.clone(),
        name: name.to_owned(),
        status: "BUILD".into(),
        flavor: named("flavor", "flavor").unwrap_or_default(),
        image: named("image", "image"),
        key_name: properties
            .get("key_name")
            .and_then(Value::as_str)
            .map(str::to_owned),
        project: order.project.to_owned(),
        user: order.user.to_owned(),
        metadata: properties
            .get("metadata")
            .filter(|m| !m.is_null())
            .cloned()
            .unwrap_or_else(|| json!({})),
        zone,
        ports,
        own_ports,
        volumes: Vec::new(),
        created: now(),
        updated: now(),
        fault: None,
        disk: String::new(),
        host: None,
    };
    state.servers.insert(id.clone(), server);
    for volume in volumes {
        attach(state, &id, &volume)?;
    }
    Ok(id)
}

/// The volumes that a server boots with; an error, as from Nova, if one is attached already.
fn boot_volumes(state: &State, properties: &Properties) -> Result<Vec<String>, Refusal> {
    let devices = properties
        .get("block_device_mapping_v2")
        .and_then(Value::as_array);
    let mut volumes = Vec::new();
    for id in devices
        .into_iter()
        .flatten()
        .filter_map(|one| one["volume_id"].as_str())
    {
        let volume = state.object("volume", id);
        let status = volume.map(|volume| text(volume, "status").to_owned());
        let why = match status.as_deref() {
            Some("available") => {
                volumes.push(id.to_owned());
                continue;
            }
            Some(other) => format!(
                "Invalid volume: volume '{id}' status must be 'available'. Currently in '{other}' (HTTP 400)"
            ),
            None => {
                format!("Block Device Mapping is Invalid: failed to get volume {id}. (HTTP 400)")
            }
        };
        return Err(refusal(
            "BadRequest",
            format!("{why} (Request-ID: req-{})", new_id()),
        ));
    }
    Ok(volumes)
}

/// Takes a server down for a rebuild if its image changes, and returns its name.
pub(crate) fn begin_rebuild(
    state: &mut State,
    id: &str,
    properties: &Properties,
) -> Option<String> {
    let name = properties.get("image").and_then(Value::as_str)?;
    let image = state.find("image", name);
    let image = image.map_or_else(|| name.to_owned(), |body| text(body, "id").to_owned());
    let server = state.servers.get_mut(id)?;
    if server.image.as_ref() == Some(&image) {
        return None;
    }
    server.image = Some(image);
    server.status = "REBUILD".into();
    server.host = None;
    server.updated = now();
    Some(server.name.clone())
}

/// Detaches a server's ports before Heat creates its replacement, except from a server in ERROR.
pub(crate) fn prepare_for_replace(state: &mut State, kind: &str, id: &str) {
    let Some(server) = state.servers.get(id).filter(|_| kind == "OS::Nova::Server") else {
        return;
    };
    if server.status != "ERROR" {
        detach_ports(state, id);
    }
}

/// Detaches a server's ports, as Nova does if no host has room for it.
pub(crate) fn detach_ports(state: &mut State, id: &str) {
    let server = state.servers.get(id);
    for port in server
        .map(|server| server.ports.clone())
        .unwrap_or_default()
    {
        state.change(
            "port",
            &port,
            &json!({ "device_id": "", "device_owner": "", "status": "DOWN" }),
        );
    }
}

/// Attaches a free port to a server; else HTTP status and message.
pub(crate) fn attach_port(state: &mut State, id: &str, port: &str) -> Result<(), (u16, String)> {
    let found = state.object("port", port);
    let device = found.map(|found| text(found, "device_id").to_owned());
    let server = state.servers.get_mut(id);
    let (Some(device), Some(server)) = (device, server) else {
        return Err((
            404,
            format!("Instance {id} or port {port} could not be found."),
        ));
    };
    if !device.is_empty() {
        return Err((409, format!("Port {port} is still in use.")));
    }
    if !server.ports.iter().any(|one| one == port) {
        server.ports.push(port.to_owned());
    }
    let attached = json!({ "device_id": id, "device_owner": "compute:nova", "status": "ACTIVE", "binding:host_id": "compute-1" });
    state.change("port", port, &attached);
    Ok(())
}

/// The ports of a new server, and those of them that Nova creates.
fn server_ports(
    state: &mut State,
    order: &NewResource<'_>,
    properties: &Properties,
) -> Result<(Vec<String>, Vec<String>), Refusal> {
    let (mut ports, mut own_ports) = (Vec::new(), Vec::new());
    for network in properties
        .get("networks")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
    {
        if let Some(port) = network.get("port").and_then(Value::as_str) {
            let found = state.find("port", port);
            let found = found.ok_or_else(|| refusal("NotFound", "Port could not be found."))?;
            let (id, device) = (text(found, "id").to_owned(), text(found, "device_id"));
            if !device.is_empty() {
                let request = new_id();
                let why =
                    format!("Port {id} is still in use. (HTTP 409) (Request-ID: req-{request})");
                return Err(refusal("Conflict", why));
            }
            ports.push(id);
            continue;
        }
        let target = network
            .get("network")
            .or_else(|| network.get("uuid"))
            .cloned()
            .unwrap_or_default();
        let target = network_of(state, &Map::from_iter([("network".to_owned(), target)]))?;
        let fixed = network.get("fixed_ip").and_then(Value::as_str);
        let wanted = fixed.map_or(
            json!({}),
            |ip| json!({ "fixed_ips": [{ "ip_address": ip }] }),
        );
        let port = state
            .add_port(&target, &wanted, order.project)
            .map_err(|why| refusal("Conflict", why))?;
        own_ports.push(port.clone());
        ports.push(port);
    }
    Ok((ports, own_ports))
}

/// Attaches a server to the ports in its properties, and detaches it from others; a port that it has stays.
pub(crate) fn reconnect(state: &mut State, id: &str, properties: &Properties) {
    let Some(networks) = properties.get("networks").and_then(Value::as_array) else {
        return;
    };
    let named = networks
        .iter()
        .map(|one| one.get("port").and_then(Value::as_str));
    // Ports that Nova makes stay as they are.
    let Some(wanted) = named.collect::<Option<Vec<&str>>>() else {
        return;
    };
    let wanted = wanted
        .into_iter()
        .filter_map(|port| state.find("port", port));
    let wanted: Vec<String> = wanted.map(|port| text(port, "id").to_owned()).collect();
    let Some(server) = state.servers.get_mut(id) else {
        return;
    };
    let before = std::mem::replace(&mut server.ports, wanted.clone());
    for port in before.iter().filter(|port| !wanted.contains(port)) {
        let detached = json!({ "device_id": "", "device_owner": "", "status": "DOWN" });
        state.change("port", port, &detached);
    }
    for port in wanted.iter().filter(|port| !before.contains(port)) {
        let attached = json!({ "device_id": id, "device_owner": "compute:nova", "status": "ACTIVE", "binding:host_id": "compute-1" });
        state.change("port", port, &attached);
    }
}

/// Removes a server and the ports that Nova created for it; detaches its other ports and its volumes.
pub(crate) fn delete_server(state: &mut State, id: &str) {
    let Some(server) = state.servers.remove(id) else {
        return;
    };
    for port in &server.ports {
        if server.own_ports.contains(port) {
            state.take("port", port);
        } else if state
            .object("port", port)
            .is_some_and(|body| text(body, "device_id") == id)
        {
            state.change(
                "port",
                port,
                &json!({ "device_id": "", "device_owner": "", "status": "DOWN" }),
            );
        }
    }
    for volume in &server.volumes {
        let holder = state
            .object("volume", volume)
            .map(|body| body["attachments"][0]["server_id"].clone());
        if holder != Some(json!(id)) {
            continue;
        }
        state.change(
            "volume",
            volume,
            &json!({ "status": "available", "attachments": [] }),
        );
    }
}

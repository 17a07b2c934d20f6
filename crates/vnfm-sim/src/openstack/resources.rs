//! Creates, updates and deletes the resources of stacks, and reads their attributes.

use serde_json::{Map, Value, json};

use super::new_resource::{NewResource, Properties, Refusal, attach, network_of, refusal, text_of};
use super::servers::{create_server, delete_server, reconnect};
use super::state::{State, new_id, text};
use super::template::EXTERNAL_ID;
use super::trunks;
use crate::time::now;

/// Creates a resource; returns its physical id.
pub(crate) fn create(
    state: &mut State,
    order: &NewResource<'_>,
    properties: &Properties,
) -> Result<String, Refusal> {
    let given = |name: &str| properties.get(name).filter(|value| !value.is_null());
    let name = given("name")
        .and_then(Value::as_str)
        .filter(|name| !name.is_empty())
        .map_or_else(|| order.name.clone(), str::to_owned);
    let list = |name: &str| given(name).cloned().unwrap_or_else(|| json!([]));
    let owner = json!(order.project);
    match order.kind {
        "OS::Nova::Server" => create_server(state, order, &name, properties),
        "OS::Neutron::Net" => {
            within_quota(state, "network")?;
            Ok(state.add_network(&name, order.project, properties))
        }
        "OS::Neutron::Subnet" => {
            let mut wanted = Value::Object(properties.clone());
            wanted["name"] = json!(name);
            wanted["network_id"] = json!(network_of(state, properties)?);
            Ok(state.add_subnet(&wanted, order.project))
        }
        "OS::Neutron::Port" => {
            within_quota(state, "port")?;
            let mut wanted = Value::Object(properties.clone());
            wanted["name"] = json!(name);
            let network = network_of(state, properties)?;
            state.add_port(&network, &wanted, order.project).map_err(|why| refusal("Conflict", why))
        }
        "OS::Neutron::Trunk" => trunks::create(state, order, &name, properties),
        "OS::Neutron::SecurityGroup" => Ok(state.put("security_group", json!({ "id": new_id(), "name": name,
            "description": given("description").cloned().unwrap_or_default(), "security_group_rules": list("rules"),
            "project_id": owner, "tenant_id": owner }))),
        "OS::Neutron::Router" => Ok(state.put("router", json!({ "id": new_id(), "name": name, "status": "ACTIVE", "admin_state_up": true,
            "external_gateway_info": given("external_gateway_info").cloned().unwrap_or_default(), "project_id": owner, "tenant_id": owner }))),
        "OS::Neutron::FloatingIP" => create_floating_ip(state, order, properties),
        "OS::Neutron::FloatingIPAssociation" => {
            let id = text_of(properties, "floatingip_id");
            associate(state, &id, &text_of(properties, "port_id"))?;
            Ok(id)
        }
        "OS::Cinder::Volume" if properties.contains_key(EXTERNAL_ID) => {
            let id = text_of(properties, EXTERNAL_ID);
            let missing = || refusal("NotFound", format!("Volume {id} could not be found. (HTTP 404)"));
            state.object("volume", &id).ok_or_else(missing)?;
            Ok(id)
        }
        "OS::Cinder::Volume" => Ok(state.put("volume", json!({ "id": new_id(), "name": name, "status": "available",
            "size": given("size").cloned().unwrap_or(json!(1)), "volume_type": given("volume_type").cloned().unwrap_or(json!("__DEFAULT__")),
            "metadata": given("metadata").cloned().unwrap_or(json!({})), "attachments": [], "bootable": "false", "created_at": now() }))),
        "OS::Cinder::VolumeAttachment" => attach(state, &text_of(properties, "instance_uuid"), &text_of(properties, "volume_id")),
        "OS::Nova::KeyPair" => create_key_pair(state, order, &name, properties),
        "OS::Nova::ServerGroup" => Ok(state.put("server_group", json!({ "id": new_id(), "name": name, "policies": list("policies"),
            "members": [], "project_id": owner, "user_id": order.user }))),
        _ => Ok(new_id()),
    }
}

/// Refuses what the quota of the project does not allow.
pub(crate) fn within_quota(state: &State, kind: &str) -> Result<(), Refusal> {
    let used = state
        .all(kind)
        .filter(|body| !state.is_seeded(text(body, "id")))
        .count();
    match state.quotas.get(kind) {
        Some(quota) if i64::try_from(used).unwrap_or(i64::MAX) >= *quota => Err(refusal(
            "OverQuotaClient",
            format!(
                "Quota exceeded for resources: ['{kind}'].\nNeutron server returns request_ids: ['req-{}']",
                new_id()
            ),
        )),
        _ => Ok(()),
    }
}

fn create_floating_ip(
    state: &mut State,
    order: &NewResource<'_>,
    properties: &Properties,
) -> Result<String, Refusal> {
    let named = Map::from_iter([(
        "network".to_owned(),
        properties
            .get("floating_network")
            .cloned()
            .unwrap_or_default(),
    )]);
    let network = network_of(state, &named)?;
    let subnet = state
        .object("network", &network)
        .and_then(|n| n["subnets"][0].as_str())
        .unwrap_or_default()
        .to_owned();
    let wanted = properties
        .get("floating_ip_address")
        .and_then(Value::as_str);
    let address = state
        .free_address(&subnet, wanted)
        .map_err(|why| refusal("Conflict", why))?;
    let id = state.put("floatingip", json!({ "id": new_id(), "name": order.name, "floating_ip_address": address, "floating_network_id": network,
        "port_id": null, "fixed_ip_address": null, "status": "DOWN", "project_id": order.project, "tenant_id": order.project }));
    if let Some(port) = properties.get("port_id").and_then(Value::as_str) {
        associate(state, &id, port)?;
    }
    Ok(id)
}

fn associate(state: &mut State, floating: &str, port: &str) -> Result<(), Refusal> {
    let fixed = state
        .object("port", port)
        .map(|p| p["fixed_ips"][0]["ip_address"].clone());
    let fixed =
        fixed.ok_or_else(|| refusal("NotFound", format!("Port {port} could not be found.")))?;
    state.change(
        "floatingip",
        floating,
        &json!({ "port_id": port, "fixed_ip_address": fixed }),
    );
    Ok(())
}

fn create_key_pair(
    state: &mut State,
    order: &NewResource<'_>,
    name: &str,
    properties: &Properties,
) -> Result<String, Refusal> {
    if state.find("keypair", name).is_some() {
        return Err(refusal(
            "Conflict",
            format!(
                "Key pair '{name}' already exists. (HTTP 409) (Request-ID: req-{})",
                new_id()
            ),
        ));
    }
    let Some(public) = properties.get("public_key").and_then(Value::as_str) else {
        return Err(refusal(
            "NotImplemented",
            "a key pair without a public key is not modelled by the simulated Nova",
        ));
    };
    Ok(state.put("keypair", json!({ "id": name, "name": name, "public_key": public, "type": "ssh", "fingerprint": "", "user_id": order.user })))
}

/// Updates a resource in place.
pub(crate) fn update_in_place(state: &mut State, kind: &str, id: &str, properties: &Properties) {
    let member = |name: &str| properties.get(name).filter(|value| !value.is_null());
    if kind == "OS::Neutron::Port" {
        state.readdress(id, properties);
    }
    if kind == "OS::Nova::Server" {
        reconnect(state, id, properties);
        let flavor = member("flavor")
            .and_then(Value::as_str)
            .and_then(|f| state.find("flavor", f))
            .map(|f| text(f, "id").to_owned());
        if let Some(server) = state.servers.get_mut(id) {
            server.metadata = member("metadata").cloned().unwrap_or_else(|| json!({}));
            server.updated = now();
            if let Some(flavor) = flavor {
                server.flavor = flavor;
            }
            if let Some(name) = member("name").and_then(Value::as_str) {
                name.clone_into(&mut server.name);
            }
        }
        return;
    }
    let updatable = [
        "name",
        "description",
        "metadata",
        "size",
        "security_groups",
        "allowed_address_pairs",
        "dns_nameservers",
        "enable_dhcp",
    ];
    let members: Map<String, Value> = updatable
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), member(name)?.clone())))
        .collect();
    if let Some(table) = table_of(kind) {
        state.change(table, id, &Value::Object(members));
    }
}

fn table_of(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "OS::Neutron::Net" => "network",
        "OS::Neutron::Subnet" => "subnet",
        "OS::Neutron::Port" => "port",
        "OS::Neutron::Trunk" => "trunk",
        "OS::Neutron::SecurityGroup" => "security_group",
        "OS::Neutron::Router" => "router",
        "OS::Neutron::FloatingIP" => "floatingip",
        "OS::Cinder::Volume" => "volume",
        "OS::Nova::KeyPair" => "keypair",
        "OS::Nova::ServerGroup" => "server_group",
        _ => return None,
    })
}

/// Deletes a resource; succeeds if it does not exist.
pub(crate) fn delete(state: &mut State, kind: &str, id: &str) -> Result<(), Refusal> {
    match kind {
        "OS::Nova::Server" => delete_server(state, id),
        "OS::Neutron::Net" => return delete_network(state, id),
        "OS::Neutron::Subnet" => {
            if let Some(subnet) = state.take("subnet", id) {
                let network = text(&subnet, "network_id").to_owned();
                let left: Value = state
                    .all("subnet")
                    .filter(|s| text(s, "network_id") == network)
                    .map(|s| s["id"].clone())
                    .collect();
                state.change("network", &network, &json!({ "subnets": left }));
            }
        }
        "OS::Neutron::Port" => return trunks::delete_port(state, id),
        "OS::Cinder::Volume" => return delete_volume(state, id),
        "OS::Neutron::FloatingIPAssociation" => {
            state.change(
                "floatingip",
                id,
                &json!({ "port_id": null, "fixed_ip_address": null }),
            );
        }
        "OS::Cinder::VolumeAttachment" => {
            let volume = state
                .all("volume")
                .find(|v| v["attachments"][0]["attachment_id"] == id)
                .map(|v| text(v, "id").to_owned());
            if let Some(volume) = volume {
                state.change(
                    "volume",
                    &volume,
                    &json!({ "status": "available", "attachments": [] }),
                );
                state
                    .servers
                    .values_mut()
                    .for_each(|server| server.volumes.retain(|v| *v != volume));
            }
        }
        other => {
            if let Some(table) = table_of(other) {
                state.take(table, id);
            }
        }
    }
    Ok(())
}

pub(super) fn delete_volume(state: &mut State, id: &str) -> Result<(), Refusal> {
    if state
        .all("snapshot")
        .any(|one| text(one, "volume_id") == id)
    {
        let message = "Invalid volume: Volume status must be available or error or error_restoring or error_extending or \
             error_managing and must not be migrating, attached, belong to a group, have snapshots, awaiting a transfer, or be \
             disassociated from snapshots after volume transfer. (HTTP 400)";
        return Err(refusal("BadRequest", message));
    }
    state.take("volume", id);
    Ok(())
}

fn delete_network(state: &mut State, id: &str) -> Result<(), Refusal> {
    let in_use = state
        .all("port")
        .find(|port| text(port, "network_id") == id)
        .map(|port| text(port, "id").to_owned());
    if let Some(port) = in_use {
        let message = format!(
            "Unable to complete operation on network {id}. There are one or more ports still in use on the network, id for these ports is: {port}."
        );
        return Err(refusal("Conflict", message));
    }
    let subnets: Vec<String> = state
        .all("subnet")
        .filter(|s| text(s, "network_id") == id)
        .map(|s| text(s, "id").to_owned())
        .collect();
    for subnet in subnets {
        state.take("subnet", &subnet);
    }
    state.take("network", id);
    Ok(())
}

/// The attributes of a resource that is not a nested stack.
pub(crate) fn attributes(state: &State, kind: &str, id: &str, properties: &Properties) -> Value {
    if kind == "OS::Heat::Value" {
        return json!({ "value": properties.get("value") });
    }
    if kind == "OS::Nova::Server" {
        let Some(server) = state.servers.get(id) else {
            return Value::Null;
        };
        let addresses = state.addresses(server);
        let mut networks = Map::new();
        for (name, list) in addresses.as_object().into_iter().flatten() {
            networks.insert(
                name.clone(),
                list.as_array()
                    .into_iter()
                    .flatten()
                    .map(|a| a["addr"].clone())
                    .collect(),
            );
        }
        let first = networks
            .values()
            .next()
            .map(|list| list[0].clone())
            .unwrap_or_default();
        let server_body = super::nova::show(state, server, false);
        return json!({ "addresses": addresses, "networks": networks, "first_address": first, "name": server.name,
            "instance_name": "instance-00000001", "accessIPv4": "", "accessIPv6": "", "show": server_body });
    }
    let Some(body) = table_of(kind).and_then(|table| state.object(table, id)) else {
        return json!({});
    };
    let mut all = body.clone();
    all["show"] = body.clone();
    all
}

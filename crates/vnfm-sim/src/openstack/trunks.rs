//! Neutron's trunks: one server port carries several networks by VLAN tag.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::new_resource::{NewResource, Refusal, refusal, text_of};
use super::state::{State, new_id, text};

/// Creates a trunk; returns its id.
pub(super) fn create(
    state: &mut State,
    order: &NewResource<'_>,
    name: &str,
    properties: &Map<String, Value>,
) -> Result<String, Refusal> {
    let parent = text_of(properties, "port");
    let sub_ports = properties
        .get("sub_ports")
        .cloned()
        .unwrap_or_else(|| json!([]));
    are_free(state, &parent, &sub_ports)?;
    let tag = |one: &Value| format!("{} {}", one["segmentation_type"], one["segmentation_id"]);
    let mut tags = BTreeSet::new();
    if let Some(twice) = members(&sub_ports)
        .map(tag)
        .find(|tag| !tags.insert(tag.clone()))
    {
        let why = format!("Duplicate segmentation {twice} among the sub-ports of the trunk.");
        return Err(refusal("Conflict", why));
    }
    Ok(state.put("trunk", json!({ "id": new_id(), "name": name, "port_id": parent, "sub_ports": sub_ports,
        "status": "ACTIVE", "admin_state_up": true, "project_id": order.project, "tenant_id": order.project })))
}

/// Checks that the ports exist and are in no other trunk, and that the parent has no server, which would not notice the change.
fn are_free(state: &State, parent: &str, sub_ports: &Value) -> Result<(), Refusal> {
    for port in std::iter::once(parent).chain(members(sub_ports).map(|one| text(one, "port"))) {
        if state.object("port", port).is_none() {
            return Err(refusal(
                "NotFound",
                format!("Port {port} could not be found."),
            ));
        }
        if let Some(trunk) = trunk_of_port(state, port) {
            let why = format!("Port {port} is in use by another trunk: {trunk}.");
            return Err(refusal("Conflict", why));
        }
    }
    let bound = state
        .object("port", parent)
        .filter(|port| !text(port, "device_id").is_empty());
    bound.map_or(Ok(()), |_| {
        let why = format!(
            "Port {parent} is currently in use and is not eligible for use as a parent port."
        );
        Err(refusal("Conflict", why))
    })
}

/// Deletes a port that is in no trunk.
pub(super) fn delete_port(state: &mut State, id: &str) -> Result<(), Refusal> {
    if let Some(trunk) = trunk_of_port(state, id) {
        return Err(refusal(
            "Conflict",
            format!("Port {id} is in use by trunk {trunk}."),
        ));
    }
    state.take("port", id);
    Ok(())
}

/// The id of the trunk that contains a port.
fn trunk_of_port(state: &State, port: &str) -> Option<String> {
    let has = |trunk: &&Value| {
        trunk["port_id"] == port || members(&trunk["sub_ports"]).any(|one| one["port"] == port)
    };
    state
        .all("trunk")
        .find(has)
        .map(|trunk| text(trunk, "id").to_owned())
}

fn members(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

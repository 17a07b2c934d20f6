//! What is known of a resource before it is created, and why its creation is refused.

use serde_json::{Map, Value, json};

use super::state::{State, new_id, text};

pub(super) type Properties = Map<String, Value>;

/// Type, default name and owner of a resource to create.
pub(crate) struct NewResource<'a> {
    pub(crate) kind: &'a str,
    pub(crate) name: String,
    pub(crate) project: &'a str,
    pub(crate) user: &'a str,
}

/// Heat's error type and text.
pub(crate) type Refusal = (String, String);

pub(super) fn refusal(kind: &str, message: impl Into<String>) -> Refusal {
    (kind.to_owned(), message.into())
}

pub(super) fn text_of(properties: &Properties, name: &str) -> String {
    properties
        .get(name)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

pub(super) fn network_of(state: &State, properties: &Properties) -> Result<String, Refusal> {
    let named = ["network", "network_id"]
        .iter()
        .find_map(|p| properties.get(*p))
        .and_then(Value::as_str)
        .unwrap_or_default();
    state
        .find("network", named)
        .map(|network| text(network, "id").to_owned())
        .ok_or_else(|| {
            refusal(
                "NotFound",
                format!("Unable to find network with name or id '{named}'"),
            )
        })
}

pub(super) fn attach(state: &mut State, server: &str, volume: &str) -> Result<String, Refusal> {
    let found = state
        .servers
        .get_mut(server)
        .ok_or_else(|| refusal("NotFound", format!("Instance {server} could not be found.")))?;
    found.volumes.push(volume.to_owned());
    let id = new_id();
    let attachment = json!([{ "id": volume, "attachment_id": id, "server_id": server, "volume_id": volume, "device": "/dev/vdb" }]);
    state.change(
        "volume",
        volume,
        &json!({ "status": "in-use", "attachments": attachment }),
    );
    Ok(id)
}

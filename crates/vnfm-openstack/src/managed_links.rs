//! Externally managed internal links in a Base HOT: the network that request or grant name takes the place of the
//! template's own, as with Tacker's user data.
//!
//! ```text
//! inside:        {type: OS::Neutron::Net}                          removed
//! inside_subnet: {type: OS::Neutron::Subnet, network: inside}      removed
//! {get_resource: inside}                                           the network's id
//! ```
//! A template without such a network, or one in which something else needs what is removed, is refused by name.

use crate::blueprint::package;
use crate::vnfc_resources::refers;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use vnfm_core::ports::PortError;

const NET: &str = "OS::Neutron::Net";
const SUBNET: &str = "OS::Neutron::Subnet";

/// Puts each network of `managed` (ids by link) in the place of the resource that has the link's name.
///
/// # Errors
///
/// `Refused`, with the link, if the template has no network of that name, or needs it for more than its id.
pub(crate) fn apply(
    top: &mut Value,
    managed: &BTreeMap<String, String>,
    file: &str,
) -> Result<(), PortError> {
    for (link, network) in managed {
        let removed = removed_with(top, link).ok_or_else(|| without_network(link, file))?;
        let Some(resources) = top["resources"].as_object_mut() else {
            continue;
        };
        resources.retain(|name, _| !removed.contains(name));
        for definition in resources.values_mut() {
            forget(definition, &removed);
        }
        for section in ["resources", "outputs"] {
            if let Some(part) = top.get_mut(section) {
                replace(part, link, network);
            }
        }
        if let Some((user, used)) = first_use(top, &removed) {
            return Err(still_used(link, file, (&user, used)));
        }
    }
    Ok(())
}

/// The network of that name and its subnets; `None` if there is no such network.
fn removed_with(top: &Value, link: &str) -> Option<BTreeSet<String>> {
    let resources = top["resources"].as_object()?;
    let own = resources.get(link)?;
    if own["type"] != NET {
        return None;
    }
    let on_link = |definition: &Value| {
        let properties = &definition["properties"];
        let names = ["network", "network_id"];
        definition["type"] == SUBNET
            && names
                .iter()
                .any(|name| is_reference(&properties[name], link))
    };
    let subnets = resources.iter().filter(|(_, one)| on_link(one));
    let names = subnets.map(|(name, _)| name.clone());
    Some(names.chain([link.to_owned()]).collect())
}

/// Whether it is `{get_resource: name}`.
fn is_reference(value: &Value, name: &str) -> bool {
    value.as_object().is_some_and(|members| {
        members.len() == 1 && members.get("get_resource").is_some_and(|one| one == name)
    })
}

/// Drops dependencies on removed resources.
fn forget(definition: &mut Value, removed: &BTreeSet<String>) {
    let is_removed = |name: &Value| name.as_str().is_some_and(|name| removed.contains(name));
    let Some(members) = definition.as_object_mut() else {
        return;
    };
    match members.get_mut("depends_on") {
        Some(Value::Array(names)) => names.retain(|name| !is_removed(name)),
        Some(name) if is_removed(name) => drop(members.remove("depends_on")),
        _ => {}
    }
}

fn replace(value: &mut Value, link: &str, network: &str) {
    if is_reference(value, link) {
        *value = network.into();
        return;
    }
    match value {
        Value::Object(members) => members
            .values_mut()
            .for_each(|member| replace(member, link, network)),
        Value::Array(items) => items
            .iter_mut()
            .for_each(|item| replace(item, link, network)),
        _ => {}
    }
}

/// A resource or output that refers to a removed resource, and that one's name.
fn first_use<'a>(top: &Value, removed: &'a BTreeSet<String>) -> Option<(String, &'a str)> {
    let empty = Map::new();
    let section = |name: &str| top[name].as_object().unwrap_or(&empty);
    let mut all = section("resources").iter().chain(section("outputs"));
    all.find_map(|(user, definition)| {
        let used = removed.iter().find(|name| refers(definition, name))?;
        Some((user.clone(), used.as_str()))
    })
}

fn without_network(link: &str, file: &str) -> PortError {
    let detail = format!(
        "`{file}` has no network (`{NET}`) named `{link}`, which the externally managed one would replace"
    );
    package(detail).on(link).hint(format!(
        "name the network in the template as the VNFD names the link, or do without `{link}` in `extManagedVirtualLinks`"
    ))
}

fn still_used(link: &str, file: &str, (user, used): (&str, &str)) -> PortError {
    let detail = format!(
        "`{user}` in `{file}` refers to `{used}`, which an externally managed network for link `{link}` replaces"
    );
    package(detail).on(link).hint(format!(
        "refer to the network by `{{get_resource: {link}}}` only, or do without `{link}` in `extManagedVirtualLinks`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn top() -> Value {
        json!({"resources": {
            "inside": {"type": NET},
            "inside_subnet": {"type": SUBNET, "properties": {"network": {"get_resource": "inside"}, "cidr": "10.0.0.0/24"}},
            "other": {"type": NET},
            "port": {"type": "OS::Neutron::Port", "depends_on": ["inside_subnet", "other"],
                "properties": {"network": {"get_resource": "inside"}}},
            "farm": {"type": "OS::Heat::ResourceGroup", "depends_on": "inside_subnet",
                "properties": {"resource_def": {"type": "web.yaml", "properties": {"nets": [{"get_resource": "inside"}]}}}},
        }, "outputs": {"network": {"value": {"get_resource": "inside"}}}})
    }

    fn managed() -> BTreeMap<String, String> {
        [("inside".to_owned(), "network-id".to_owned())].into()
    }

    #[test]
    fn the_managed_network_takes_the_place_of_the_templates_own() {
        let mut template = top();
        apply(&mut template, &managed(), "top.yaml").unwrap();
        assert_eq!(
            template,
            json!({"resources": {
                "other": {"type": NET},
                "port": {"type": "OS::Neutron::Port", "depends_on": ["other"], "properties": {"network": "network-id"}},
                "farm": {"type": "OS::Heat::ResourceGroup",
                    "properties": {"resource_def": {"type": "web.yaml", "properties": {"nets": ["network-id"]}}}},
            }, "outputs": {"network": {"value": "network-id"}}})
        );
    }

    #[test]
    fn what_cannot_be_replaced_is_refused_with_the_link() {
        let mut renamed = top();
        renamed["resources"]["inside"]["type"] = "OS::Heat::Value".into();
        let mut routed = top();
        routed["resources"]["router"] = json!({"type": "OS::Neutron::RouterInterface",
            "properties": {"router": "r", "subnet": {"get_resource": "inside_subnet"}}});
        let mut shown = top();
        shown["outputs"]["mtu"] = json!({"value": {"get_attr": ["inside", "mtu"]}});
        for (mut template, reason) in [
            (
                renamed,
                "has no network (`OS::Neutron::Net`) named `inside`",
            ),
            (routed, "`router` in `top.yaml` refers to `inside_subnet`"),
            (shown, "`mtu` in `top.yaml` refers to `inside`"),
        ] {
            let error = apply(&mut template, &managed(), "top.yaml").unwrap_err();
            assert_eq!(error.resource(), Some("inside"));
            assert!(error.to_string().contains(reason), "{error}");
        }
    }
}

//! What Heat knows before it changes anything: the resources of a template, the template of a stack, and which properties
//! of a resource change in place. Values are not read beyond names: they may be secret.

use crate::heat::{Stack, StackTemplate, member, stack_name};
use crate::http_call::{Call, encoded};
use crate::inventory::SERVER;
use crate::keystone_login::{Cloud, Service};
use crate::vnfc_names::vdu_named;
use serde_json::{Value, json};
use vnfm_core::ports::{Ownership, PortError};
use vnfm_descriptor::Flavour;

/// A resource of a template.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PreviewedResource {
    pub(crate) name: String,
    pub(crate) kind: String,
    /// Of a server, its VDU.
    pub(crate) vdu: Option<String>,
    /// Of a server, its zone; `None`: any, or a parameter decides.
    pub(crate) zone: Option<String>,
}

/// The zone in the properties of a server.
pub(crate) fn zone_in(properties: &Value) -> Option<String> {
    let zone = properties["availability_zone"].as_str();
    zone.filter(|zone| !zone.is_empty()).map(str::to_owned)
}

impl PreviewedResource {
    /// A resource as a template defines it; its VDU is the one in its metadata.
    pub(crate) fn defined(name: &str, definition: &Value) -> Self {
        let properties = &definition["properties"];
        let vdu = properties["metadata"]["vnfm_vdu"].as_str();
        let kind = definition["type"].as_str().unwrap_or_default();
        Self {
            name: name.to_owned(),
            kind: kind.to_owned(),
            vdu: vdu.map(str::to_owned),
            zone: zone_in(properties).filter(|_| kind == SERVER),
        }
    }
}

/// The resources that Heat would create from a template, nested ones too. Heat validates it as for a creation.
pub(crate) async fn previewed(
    cloud: &Cloud<'_>,
    ownership: &Ownership,
    template: &StackTemplate,
    flavour: &Flavour,
) -> Result<Vec<PreviewedResource>, PortError> {
    let name = stack_name(&ownership.instance_id);
    let mut body = template.body(cloud, ownership);
    body["stack_name"] = json!(name);
    let action = format!("preview stack `{name}`");
    let call = Call::post("/stacks/preview", body, action.as_str());
    let reply = cloud.send(Service::Orchestration, &call).await?;
    let stack: Value = member(reply, "stack", &action)?;
    let mut found = Vec::new();
    collect(&stack["resources"], &[], flavour, &mut found);
    Ok(found)
}

/// A nested stack or group is a list in place of a resource.
fn collect(
    resources: &Value,
    above: &[&str],
    flavour: &Flavour,
    found: &mut Vec<PreviewedResource>,
) {
    for one in resources.as_array().into_iter().flatten() {
        if let Some(first) = one.get(0) {
            let parent = first["parent_resource"].as_str().or_else(|| {
                let first = first.get(0)?;
                first["parent_resource"].as_str()
            });
            let above: Vec<&str> = parent.into_iter().chain(above.iter().copied()).collect();
            collect(one, &above, flavour, found);
            continue;
        }
        let Some(name) = one["resource_name"].as_str() else {
            continue;
        };
        let kind = one["resource_type"].as_str().unwrap_or_default();
        let tagged = one["properties"]["metadata"]["vnfm_vdu"].as_str();
        let mut names = std::iter::once(name).chain(above.iter().copied());
        let named = names.find_map(|name| vdu_named(flavour, name));
        let vdu = tagged.or(named).filter(|_| kind == SERVER);
        let path = match above.first() {
            Some(parent) => format!("{parent}/{name}"),
            None => name.to_owned(),
        };
        found.push(PreviewedResource {
            name: path,
            kind: kind.to_owned(),
            vdu: vdu.map(str::to_owned),
            zone: zone_in(&one["properties"]).filter(|_| kind == SERVER),
        });
    }
}

/// The template that a stack was last made of.
pub(crate) async fn template_of(cloud: &Cloud<'_>, stack: &Stack) -> Result<Value, PortError> {
    let action = format!("read the template of stack `{}`", stack.name);
    let call = Call::get(format!("{}/template", stack.path()), action);
    Ok(cloud.send(Service::Orchestration, &call).await?.body)
}

/// The properties of a resource type by name; `update_allowed` says whether one changes in place.
pub(crate) async fn update_schema(cloud: &Cloud<'_>, kind: &str) -> Result<Value, PortError> {
    let action = format!("read the resource type `{kind}`");
    let call = Call::get(
        format!("/resource_types/{}", encoded(kind)),
        action.as_str(),
    );
    let reply = cloud.send(Service::Orchestration, &call).await?;
    member(reply, "properties", &action)
}

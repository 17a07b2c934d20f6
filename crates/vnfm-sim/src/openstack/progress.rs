//! Records what becomes of stacks and resources: their status, Heat's events, and the format of failures.

use serde_json::json;
use uuid::Uuid;

use super::records::Resource;
use super::scope::DesiredResource;
use super::state::{State, new_id};
use crate::time::now;

/// Why a resource failed, as its stack reports it.
#[derive(Debug, Clone)]
pub(super) struct Failure {
    pub(super) kind: String,
    pub(super) path: String,
    pub(super) message: String,
}

impl Failure {
    pub(super) fn new(name: &str, (kind, message): (String, String)) -> Self {
        Self {
            kind,
            path: name.to_owned(),
            message,
        }
    }

    pub(super) fn within(self, name: &str) -> Self {
        Self {
            path: format!("{name}.resources.{}", self.path),
            ..self
        }
    }

    pub(super) fn reason(&self) -> String {
        format!("{}: resources.{}: {}", self.kind, self.path, self.message)
    }
}

pub(super) fn set_stack(state: &mut State, id: &str, verb: &str, phase: &str, reason: &str) {
    let Some(stack) = state.stacks.get_mut(id) else {
        return;
    };
    stack.status = format!("{verb}_{phase}");
    reason.clone_into(&mut stack.reason);
    let (name, status) = (stack.name.clone(), stack.status.clone());
    event(state, id, (&name, id), &status, reason);
}

pub(super) fn set_resource(
    state: &mut State,
    (id, name): (&str, &str),
    status: &str,
    reason: &str,
) {
    let Some(resource) = state
        .stacks
        .get_mut(id)
        .and_then(|s| s.resources.get_mut(name))
    else {
        return;
    };
    status.clone_into(&mut resource.status);
    reason.clone_into(&mut resource.reason);
    resource.updated = now();
    let physical = resource.physical.clone();
    event(state, id, (name, &physical), status, reason);
}

fn event(state: &mut State, id: &str, (name, physical): (&str, &str), status: &str, reason: &str) {
    state.ticks += 1;
    let n = state.ticks;
    if let Some(stack) = state.stacks.get_mut(id) {
        stack.events.push(json!({ "n": n, "id": new_id(), "event_time": now(), "resource_name": name, "logical_resource_id": name,
            "physical_resource_id": physical, "resource_status": status, "resource_status_reason": reason, "links": [] }));
    }
}

/// Records a resource before and after it is created.
pub(super) fn record_resource(
    state: &mut State,
    (id, name): (&str, &str),
    wanted: &DesiredResource,
    physical: &str,
    status: &str,
) {
    let Some(stack) = state.stacks.get_mut(id) else {
        return;
    };
    let resource = stack
        .resources
        .entry(name.to_owned())
        .or_insert_with(|| Resource {
            created: now(),
            ..Resource::default()
        });
    resource.kind.clone_from(&wanted.kind);
    resource.properties.clone_from(&wanted.properties);
    resource.requires.clone_from(&wanted.requires);
    resource.nested = wanted.nested.is_some();
    physical.clone_into(&mut resource.physical);
    set_resource(state, (id, name), status, "state changed");
}

/// Heat's error for a server that no hypervisor can run.
pub(super) fn no_valid_host() -> (String, String) {
    let message = "Went to status ERROR due to \"Message: No valid host was found. There are not enough hosts available., Code: 500\"";
    ("ResourceInError".into(), message.into())
}

/// A generated name for a resource without one.
pub(super) fn generated_name(stack: &str, resource: &str) -> String {
    let random = Uuid::new_v4().simple().to_string();
    format!("{stack}-{resource}-{}", &random[..12])
}

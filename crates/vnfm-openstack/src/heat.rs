//! Heat, as far as we need it: find, create, read, update and delete stacks; list and mark resources.
//!
//! Two pitfalls: Heat responds with 500 to a list by both `name` and `tags`, and with a redirect to a
//! lookup by name alone. So we find a stack by listing its name, and its owner by reading its tags.

use crate::errors::UNEXPECTED;
use crate::http_call::{Call, encoded};
use crate::keystone_login::{Cloud, Service};
use crate::response::Reply;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use vnfm_core::ports::{Ownership, PortError};
use vnfm_types::KeyValuePairs;

/// A stack still in creation this long after its time limit is abandoned.
const GRACE: SignedDuration = SignedDuration::from_secs(15);
/// How many levels of nested stacks are listed.
const DEPTH: u8 = 5;

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Stack {
    pub(crate) id: String,
    #[serde(rename = "stack_name")]
    pub(crate) name: String,
    #[serde(rename = "stack_status")]
    pub(crate) status: String,
    #[serde(rename = "stack_status_reason", default)]
    reason: Option<String>,
    #[serde(default)]
    tags: Option<Value>,
    #[serde(rename = "creation_time", default)]
    created: Option<Timestamp>,
    #[serde(rename = "updated_time", default)]
    pub(crate) updated: Option<Timestamp>,
    /// In minutes; only in the response for a single stack.
    #[serde(rename = "timeout_mins", default)]
    minutes: Option<i64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The last action on the stack succeeded.
    Complete,
    /// Heat is working on it.
    InProgress,
    /// Heat gave up on it, or rolled it back.
    Failed,
    Deleting,
    /// Heat gave up deleting it.
    DeleteFailed,
    /// Heat still lists it after its deletion.
    Deleted,
}

impl Stack {
    pub(crate) fn phase(&self) -> Phase {
        match self.status.as_str() {
            "DELETE_COMPLETE" => Phase::Deleted,
            "DELETE_FAILED" => Phase::DeleteFailed,
            "DELETE_IN_PROGRESS" => Phase::Deleting,
            "ROLLBACK_COMPLETE" => Phase::Failed,
            status if status.ends_with("_COMPLETE") => Phase::Complete,
            status if status.ends_with("_FAILED") => Phase::Failed,
            _ => Phase::InProgress,
        }
    }

    /// Heat's reason for the status.
    pub(crate) fn reason(&self) -> &str {
        self.reason.as_deref().unwrap_or("Heat gives no reason")
    }

    fn tags(&self) -> Vec<&str> {
        match &self.tags {
            Some(Value::Array(tags)) => tags.iter().filter_map(Value::as_str).collect(),
            Some(Value::String(tags)) => tags.split(',').map(str::trim).collect(),
            _ => Vec::new(),
        }
    }

    /// Whether it has the installation's tag.
    pub(crate) fn belongs_to(&self, installation: &str) -> bool {
        self.tags()
            .contains(&installation_tag(installation).as_str())
    }

    /// The fingerprint of the deployment that it was last sent; `None` if an older version sent it.
    pub(crate) fn deployment(&self) -> Option<&str> {
        let mut tags = self.tags().into_iter();
        tags.find_map(|tag| tag.strip_prefix(DEPLOYMENT_TAG))
    }

    /// Whether its creation continues past the time limit at which Heat gives up.
    pub(crate) fn is_overdue(&self, now: Timestamp) -> bool {
        let (Some(created), Some(minutes)) = (self.created, self.minutes) else {
            return false;
        };
        let limit = SignedDuration::from_mins(minutes).saturating_add(GRACE);
        self.status == "CREATE_IN_PROGRESS" && now.duration_since(created) > limit
    }

    /// The stack as Heat begins with it.
    fn requested(id: String, name: String) -> Self {
        Self {
            id,
            name,
            status: "CREATE_IN_PROGRESS".into(),
            reason: None,
            tags: None,
            created: None,
            updated: None,
            minutes: None,
        }
    }

    pub(crate) fn path(&self) -> String {
        format!("/stacks/{}/{}", encoded(&self.name), encoded(&self.id))
    }
}

/// Heat's response to a creation.
#[derive(Deserialize)]
struct Created {
    id: String,
}

/// A resource of a stack or of one nested in it.
#[derive(Debug, Clone, Default, Deserialize)]
pub(crate) struct Resource {
    #[serde(rename = "resource_name")]
    pub(crate) name: String,
    #[serde(rename = "resource_type")]
    pub(crate) kind: String,
    #[serde(rename = "physical_resource_id", default)]
    id: Option<String>,
    #[serde(rename = "resource_status", default)]
    pub(crate) status: String,
    #[serde(rename = "resource_status_reason", default)]
    pub(crate) reason: Option<String>,
    /// Its name in the parent stack, if its own stack is nested.
    #[serde(rename = "parent_resource", default)]
    pub(crate) parent: Option<String>,
    #[serde(default)]
    links: Vec<Link>,
}

#[derive(Debug, Clone, Default, Deserialize)]
struct Link {
    #[serde(default)]
    rel: String,
    #[serde(default)]
    href: String,
}

impl Resource {
    /// Its id on the cloud; empty while it has none.
    pub(crate) fn id(&self) -> &str {
        self.id.as_deref().unwrap_or_default()
    }

    /// The id of the stack that contains it.
    pub(crate) fn stack_id(&self) -> Option<&str> {
        self.stack_link()?.rsplit('/').next()
    }

    fn stack_link(&self) -> Option<&str> {
        let link = self.links.iter().find(|link| link.rel == "stack")?;
        Some(link.href.split('?').next()?.trim_end_matches('/'))
    }

    /// Its path below the service's URL, through the stack that contains it, which may be nested.
    fn path(&self) -> Option<String> {
        let (_, stack) = self.stack_link()?.rsplit_once("/stacks/")?;
        Some(format!("/stacks/{stack}/resources/{}", encoded(&self.name)))
    }

    /// Whether Heat has finished with it.
    pub(crate) fn is_complete(&self) -> bool {
        self.status.ends_with("_COMPLETE") && self.status != "INIT_COMPLETE"
    }

    #[cfg(test)]
    pub(crate) fn for_test(name: &str, kind: &str, id: &str, parent: Option<&str>) -> Self {
        let stack = parent.map_or("top".to_owned(), |parent| format!("nested-{parent}"));
        Self {
            name: name.into(),
            kind: kind.into(),
            id: Some(id.into()),
            status: "CREATE_COMPLETE".into(),
            reason: None,
            parent: parent.map(str::to_owned),
            links: vec![Link {
                rel: "stack".into(),
                href: format!("http://h/v1/p/stacks/s/{stack}"),
            }],
        }
    }
}

pub(crate) fn stack_name(instance: &str) -> String {
    format!("vnf-{instance}")
}

/// The tag that marks a stack or image as this installation's.
pub(crate) fn installation_tag(installation: &str) -> String {
    format!("vnfm-{installation}")
}

/// The tags of a stack; each update must repeat them, or Heat drops them.
fn tags(ownership: &Ownership, fingerprint: Option<&str>) -> String {
    let mut tags = format!(
        "{},vnfm-op-{}",
        installation_tag(&ownership.installation_id),
        ownership.op_id
    );
    if let Some(fingerprint) = fingerprint {
        tags = format!("{tags},{DEPLOYMENT_TAG}{fingerprint}");
    }
    tags
}

/// Begins the tag with the fingerprint of the deployment that a stack was last sent.
const DEPLOYMENT_TAG: &str = "vnfm-deployment-";

/// What a stack is created or updated from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct StackTemplate {
    pub(crate) template: Value,
    pub(crate) files: serde_json::Map<String, Value>,
    /// The package's environment.
    pub(crate) environment: Option<Value>,
    /// Values of the template's parameters; may contain secrets.
    pub(crate) parameters: serde_json::Map<String, Value>,
    /// Of the deployment that it was made of.
    pub(crate) fingerprint: String,
}

/// The stack of that name in the project, unless it is deleted.
pub(crate) async fn find(cloud: &Cloud<'_>, name: &str) -> Result<Option<Stack>, PortError> {
    let action = format!("look for stack `{name}`");
    let call = Call::get(format!("/stacks?name={}", encoded(name)), action.as_str());
    let reply = cloud.send(Service::Orchestration, &call).await?;
    let listed: Vec<Stack> = member(reply, "stacks", &action)?;
    for stack in listed
        .iter()
        .filter(|stack| stack.name == name && stack.phase() != Phase::Deleted)
    {
        if let Some(stack) = show(cloud, stack).await? {
            return Ok(Some(stack));
        }
    }
    Ok(None)
}

#[derive(Deserialize)]
struct WithOutputs {
    #[serde(default)]
    outputs: Vec<StackOutput>,
}

#[derive(Deserialize)]
struct StackOutput {
    output_key: String,
    #[serde(default)]
    output_value: Value,
}

/// The outputs of a stack, by name; those that Heat cannot resolve are null.
pub(crate) async fn outputs(cloud: &Cloud<'_>, stack: &Stack) -> Result<KeyValuePairs, PortError> {
    let action = format!("read the outputs of stack `{}`", stack.name);
    let call = Call::get(stack.path(), action.as_str());
    let reply = cloud.send(Service::Orchestration, &call).await?;
    let shown: WithOutputs = member(reply, "stack", &action)?;
    let outputs = shown.outputs.into_iter();
    Ok(outputs
        .map(|output| (output.output_key, output.output_value))
        .collect())
}

/// The current state of a stack; `None` once it is deleted. Does not request outputs: it needs none, and Heat
/// would ask Nova and Neutron for each.
pub(crate) async fn show(cloud: &Cloud<'_>, stack: &Stack) -> Result<Option<Stack>, PortError> {
    let action = format!("look at stack `{}`", stack.name);
    let path = format!("{}?resolve_outputs=False", stack.path());
    let call = Call::get(path, action.as_str()).accepting(&[404]);
    let reply = cloud.send(Service::Orchestration, &call).await?;
    if reply.status == 404 {
        return Ok(None);
    }
    let stack: Stack = member(reply, "stack", &action)?;
    Ok((stack.phase() != Phase::Deleted).then_some(stack))
}

/// Requests the creation of a stack and returns it with its id; `None` if a stack of that name exists.
pub(crate) async fn create(
    cloud: &Cloud<'_>,
    ownership: &Ownership,
    template: &StackTemplate,
) -> Result<Option<Stack>, PortError> {
    let name = stack_name(&ownership.instance_id);
    let mut body = template.body(cloud, ownership);
    body["stack_name"] = json!(name);
    let action = format!("create stack `{name}`");
    let call = Call::post("/stacks", body, action.as_str()).accepting(&[409]);
    let reply = cloud.send(Service::Orchestration, &call).await?;
    if reply.status == 409 {
        return Ok(None);
    }
    let Created { id } = member(reply, "stack", &action)?;
    Ok(Some(Stack::requested(id, name)))
}

impl StackTemplate {
    /// The members of a request that creates or updates a stack.
    pub(crate) fn body(&self, cloud: &Cloud<'_>, ownership: &Ownership) -> Value {
        let mut body = json!({
            "template": self.template,
            "files": self.files,
            "parameters": self.parameters,
            "disable_rollback": true,
            "timeout_mins": minutes_left(cloud),
            "tags": tags(ownership, Some(&self.fingerprint)),
        });
        if let Some(environment) = &self.environment {
            body["environment"] = environment.clone();
        }
        body
    }
}

/// The time limit for Heat, from the deadline.
fn minutes_left(cloud: &Cloud<'_>) -> i64 {
    cloud
        .deadline
        .duration_since(cloud.clock.now())
        .as_mins()
        .clamp(1, 1440)
}

/// Marks a resource for replacement at the next update; false while Heat is working on it.
pub(crate) async fn mark_unhealthy(
    cloud: &Cloud<'_>,
    resource: &Resource,
    reason: &str,
) -> Result<bool, PortError> {
    let action = format!(
        "mark resource `{}` ({}) as unhealthy",
        resource.name,
        resource.id()
    );
    let path = resource.path().ok_or_else(|| {
        PortError::new(
            &UNEXPECTED,
            action.as_str(),
            "Heat gives it no link to its stack",
        )
    })?;
    let body = json!({"mark_unhealthy": true, "resource_status_reason": reason});
    let call = Call::patch(path, body, action).accepting(&[409]);
    Ok(cloud.send(Service::Orchestration, &call).await?.status != 409)
}

/// Updates the stack to another template: Heat adds, changes and deletes what differs.
pub(crate) async fn update(
    cloud: &Cloud<'_>,
    ownership: &Ownership,
    stack: &Stack,
    template: &StackTemplate,
) -> Result<(), PortError> {
    let body = template.body(cloud, ownership);
    let call = Call::put_json(stack.path(), body, format!("update stack `{}`", stack.name));
    cloud.send(Service::Orchestration, &call).await.map(drop)
}

/// Updates the stack with its present template, files and parameters: Heat replaces what is marked or missing and
/// leaves everything else alone. `fingerprint` is of the deployment that the present template was made of.
pub(crate) async fn update_existing(
    cloud: &Cloud<'_>,
    ownership: &Ownership,
    stack: &Stack,
    fingerprint: Option<&str>,
) -> Result<(), PortError> {
    let body = json!({
        "disable_rollback": true,
        "timeout_mins": minutes_left(cloud),
        "tags": tags(ownership, fingerprint),
    });
    let call = Call::patch(stack.path(), body, format!("update stack `{}`", stack.name));
    cloud.send(Service::Orchestration, &call).await.map(drop)
}

/// Updates the stack to a template that differs from its present one in policies alone.
pub(crate) async fn update_template(
    cloud: &Cloud<'_>,
    ownership: &Ownership,
    stack: &Stack,
    template: &Value,
) -> Result<(), PortError> {
    let body = json!({
        "template": template,
        "disable_rollback": true,
        "timeout_mins": minutes_left(cloud),
        "tags": tags(ownership, stack.deployment()),
    });
    let call = Call::patch(stack.path(), body, format!("update stack `{}`", stack.name));
    cloud.send(Service::Orchestration, &call).await.map(drop)
}

/// Requests a stack's deletion; succeeds if it does not exist.
pub(crate) async fn delete(cloud: &Cloud<'_>, stack: &Stack) -> Result<(), PortError> {
    let call = Call::delete(stack.path(), format!("delete stack `{}`", stack.name));
    cloud
        .send(Service::Orchestration, &call.accepting(&[404]))
        .await
        .map(drop)
}

/// Every resource of a stack, including those of nested stacks.
pub(crate) async fn resources(
    cloud: &Cloud<'_>,
    stack: &Stack,
) -> Result<Vec<Resource>, PortError> {
    let action = format!("list the resources of stack `{}`", stack.name);
    let path = format!("{}/resources?nested_depth={DEPTH}", stack.path());
    let reply = cloud
        .send(Service::Orchestration, &Call::get(path, action.as_str()))
        .await?;
    member(reply, "resources", &action)
}

/// Every stack with the installation's tag.
pub(crate) async fn owned(cloud: &Cloud<'_>, installation: &str) -> Result<Vec<Stack>, PortError> {
    let action = "list the stacks of this installation";
    let path = format!("/stacks?tags={}", encoded(&installation_tag(installation)));
    let reply = cloud
        .send(Service::Orchestration, &Call::get(path, action))
        .await?;
    let listed: Vec<Stack> = member(reply, "stacks", action)?;
    let mut found = Vec::new();
    for stack in listed
        .into_iter()
        .filter(|stack| stack.phase() != Phase::Deleted)
    {
        // A list need not show tags: what it does not show is looked up.
        let stack = if stack.tags.is_some() {
            Some(stack)
        } else {
            show(cloud, &stack).await?
        };
        found.extend(stack.filter(|stack| stack.belongs_to(installation)));
    }
    Ok(found)
}

/// Checks that Heat responds, and that the login works there.
pub(crate) async fn ping(cloud: &Cloud<'_>) -> Result<(), PortError> {
    let call = Call::get(
        "/stacks?limit=1",
        format!("list stacks of VIM `{}`", cloud.vim.name()),
    );
    cloud.send(Service::Orchestration, &call).await.map(drop)
}

/// Deserializes one member of a response.
pub(crate) fn member<T: DeserializeOwned>(
    reply: Reply,
    name: &str,
    action: &str,
) -> Result<T, PortError> {
    let Reply {
        mut body,
        request_id,
        ..
    } = reply;
    let value = body.get_mut(name).map(Value::take).unwrap_or_default();
    serde_json::from_value(value).map_err(|error| {
        let detail = format!("`{name}` in the response does not match the API: {error}");
        PortError::new(&UNEXPECTED, action, detail).request(request_id)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack(status: &str, tags: &Value) -> Stack {
        serde_json::from_value(
            json!({"id": "i", "stack_name": "vnf-1", "stack_status": status, "tags": tags}),
        )
        .unwrap()
    }

    #[test]
    fn statuses_become_phases() {
        let table = [
            ("CREATE_IN_PROGRESS", Phase::InProgress),
            ("CREATE_COMPLETE", Phase::Complete),
            ("UPDATE_COMPLETE", Phase::Complete),
            ("CREATE_FAILED", Phase::Failed),
            ("CHECK_FAILED", Phase::Failed),
            ("ROLLBACK_COMPLETE", Phase::Failed),
            ("ROLLBACK_IN_PROGRESS", Phase::InProgress),
            ("DELETE_IN_PROGRESS", Phase::Deleting),
            ("DELETE_FAILED", Phase::DeleteFailed),
            ("DELETE_COMPLETE", Phase::Deleted),
        ];
        for (status, phase) in table {
            assert_eq!(stack(status, &Value::Null).phase(), phase, "{status}");
        }
    }

    #[test]
    fn a_stack_is_ours_only_if_the_complete_tag_matches() {
        assert!(stack("X", &json!(["vnfm-a", "vnfm-op-b"])).belongs_to("a"));
        assert!(stack("X", &json!("vnfm-op-b, vnfm-a")).belongs_to("a"));
        assert!(!stack("X", &json!(["vnfm-ab"])).belongs_to("a"));
        assert!(!stack("X", &Value::Null).belongs_to("a"));
    }

    #[test]
    fn a_stack_tells_the_deployment_that_it_was_made_of() {
        let tags = json!(["vnfm-a", "vnfm-op-b", "vnfm-deployment-c0ffee"]);
        assert_eq!(stack("X", &tags).deployment(), Some("c0ffee"));
        let text = json!("vnfm-a, vnfm-deployment-c0ffee");
        assert_eq!(stack("X", &text).deployment(), Some("c0ffee"));
        assert_eq!(stack("X", &json!(["vnfm-a"])).deployment(), None);
    }

    #[test]
    fn the_owning_stack_is_read_from_the_link() {
        let resource: Resource = serde_json::from_value(json!({
            "resource_name": "server", "resource_type": "OS::Nova::Server", "physical_resource_id": "s1",
            "resource_status": "CREATE_COMPLETE", "parent_resource": "0",
            "links": [
                {"rel": "self", "href": "http://h/v1/p/stacks/n/sid/resources/server"},
                {"rel": "stack", "href": "http://h/v1/p/stacks/vnf-1-workers-0/sid"},
            ],
        }))
        .unwrap();
        assert_eq!(resource.stack_id(), Some("sid"));
        assert!(resource.is_complete());
    }
}

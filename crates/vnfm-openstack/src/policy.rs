//! Checks a template against the policy of the VIM.
//!
//! | rule | refuses |
//! |---|---|
//! | `resourceTypes` | resources of other types, also in nested templates, groups and the environment |
//! | `remoteFiles: false` | types and `get_file` by URL, which the cloud itself would fetch from its own network |
//! | `limits.objects`, `limits.servers` | more resources, more servers |
//!
//! A template generated from the VNFD can only exceed the limits: it has servers, ports, networks,
//! volumes and a key pair.

use crate::blueprint::Blueprint;
use crate::errors::POLICY;
use crate::heat::StackTemplate;

use serde_json::Value;
use vnfm_core::ports::PortError;
use vnfm_types::VimPolicy;

const SERVER: &str = "OS::Nova::Server";

/// Checks what `template` would create.
///
/// # Errors
///
/// `Refused`, naming resource and rule.
pub(crate) fn permit(
    blueprint: &Blueprint<'_>,
    template: &StackTemplate,
    policy: &VimPolicy,
) -> Result<(), PortError> {
    if policy.is_open() {
        return Ok(());
    }
    let mut scanned = TemplateScan::default();
    scanned.scan(&template.template, "the template");
    for (name, text) in &template.files {
        // A file that is not YAML is a script or a key.
        let nested = text
            .as_str()
            .and_then(|text| serde_yaml::from_str::<Value>(text).ok());
        if let Some(nested) = nested.filter(Value::is_object) {
            scanned.scan(&nested, name);
        }
    }
    scanned.registry(template.environment.as_ref());
    permit_types(&scanned, policy)?;
    let limits = policy.limits.clone().unwrap_or_default();
    let servers = scanned.servers().max(blueprint.server_count());
    let objects = scanned.resources;
    for (name, limit, count) in [
        ("objects", limits.objects, objects),
        ("servers", limits.servers, servers),
    ] {
        if let Some(limit) = limit.filter(|limit| count > *limit) {
            let detail =
                format!("it has {count} {name}, and the rule `limits.{name}` allows {limit}");
            return Err(
                PortError::new(&POLICY, "create the VNF", detail).on(format!("limits.{name}"))
            );
        }
    }
    Ok(())
}

fn permit_types(scanned: &TemplateScan, policy: &VimPolicy) -> Result<(), PortError> {
    for (kind, location) in &scanned.types {
        let Some(kind) = kind else {
            if policy.resource_types.is_some() {
                let detail = "its type is computed by a function, so the rule `resourceTypes` cannot check it";
                return Err(refused(location, detail));
            }
            continue;
        };
        if let Some(types) = &policy.resource_types {
            types
                .check(|entry| matches(entry, kind))
                .map_err(|denied| match denied {
                    Some(entry) => refused(
                        location,
                        &format!("the rule `resourceTypes` denies `{entry}`: `{kind}`"),
                    ),
                    None => refused(
                        location,
                        &format!("the rule `resourceTypes` does not allow `{kind}`"),
                    ),
                })?;
        }
        if policy.remote_files == Some(false) && is_remote(kind) {
            return Err(refused(
                location,
                &format!("the rule `remoteFiles: false` does not allow `{kind}`"),
            ));
        }
    }
    if let Some((name, location)) = scanned
        .remote
        .first()
        .filter(|_| policy.remote_files == Some(false))
    {
        let detail = format!("the rule `remoteFiles: false` does not allow `get_file: {name}`");
        return Err(refused(location, &detail));
    }
    Ok(())
}

fn matches(entry: &str, kind: &str) -> bool {
    entry
        .strip_suffix('*')
        .map_or(entry == kind, |beginning| kind.starts_with(beginning))
}

fn is_remote(name: &str) -> bool {
    name.contains("://")
}

/// The resources and remote files in templates, each with its location.
#[derive(Default)]
struct TemplateScan {
    /// Types of resources; `None` for one that a function computes.
    types: Vec<(Option<String>, String)>,
    /// Files that the template names by URL.
    remote: Vec<(String, String)>,
    resources: u64,
}

impl TemplateScan {
    /// Records the types that types of an environment stand for.
    fn registry(&mut self, environment: Option<&Value>) {
        let registry = environment.and_then(|all| all["resource_registry"].as_object());
        for (name, target) in registry.into_iter().flatten() {
            let target = target.as_str().map(str::to_owned);
            self.types
                .push((target, format!("type `{name}` of the environment")));
        }
    }

    fn scan(&mut self, template: &Value, location: &str) {
        for section in ["resources", "Resources"] {
            for (name, resource) in template
                .get(section)
                .and_then(Value::as_object)
                .into_iter()
                .flatten()
            {
                self.resources += 1;
                self.resource(resource, &format!("resource `{name}` of {location}"));
            }
        }
        self.files(template, location);
    }

    /// Records a resource and those that it describes, as a group or chain does.
    fn resource(&mut self, resource: &Value, location: &str) {
        let kind = resource.get("type").or_else(|| resource.get("Type"));
        match kind {
            Some(Value::String(kind)) => self.types.push((Some(kind.clone()), location.to_owned())),
            _ => self.types.push((None, location.to_owned())),
        }
        let properties = resource
            .get("properties")
            .or_else(|| resource.get("Properties"));
        for inner in ["resource_def", "resource"] {
            let described = properties.and_then(|all| all.get(inner));
            if let Some(described) = described.filter(|one| one.is_object()) {
                self.resource(described, location);
            }
        }
        let chain = properties
            .and_then(|all| all.get("resources"))
            .and_then(Value::as_array);
        for kind in chain.into_iter().flatten() {
            self.types
                .push((kind.as_str().map(str::to_owned), location.to_owned()));
        }
    }

    fn files(&mut self, value: &Value, location: &str) {
        match value {
            Value::Object(members) => {
                let file = members.get("get_file").and_then(Value::as_str);
                if let Some(file) = file.filter(|file| is_remote(file)) {
                    self.remote.push((file.to_owned(), location.to_owned()));
                }
                members
                    .values()
                    .for_each(|member| self.files(member, location));
            }
            Value::Array(items) => items.iter().for_each(|item| self.files(item, location)),
            _ => {}
        }
    }

    fn servers(&self) -> u64 {
        self.types
            .iter()
            .filter(|(kind, _)| kind.as_deref() == Some(SERVER))
            .count() as u64
    }
}

fn refused(location: &str, detail: &str) -> PortError {
    PortError::new(&POLICY, format!("create {location}"), detail).on(location)
}

#[cfg(test)]
mod tests {
    use super::permit;
    use crate::blueprint::Blueprint;
    use crate::heat::StackTemplate;
    use crate::testing::{cluster_request, new_allocation, sample};
    use serde_json::{Map, Value, json};
    use vnfm_types::{InstanceLimits, VimPolicy};

    fn refusal(template: Value, files: Value, policy: &VimPolicy) -> Option<String> {
        let Value::Object(files) = files else {
            panic!("no object")
        };
        let allocation = new_allocation(sample("vnf-a-k8s-cluster"), cluster_request());
        let template = StackTemplate {
            template,
            files,
            environment: None,
            parameters: Map::new(),
            fingerprint: String::new(),
        };
        let blueprint = Blueprint::read(&allocation, "i").unwrap();
        permit(&blueprint, &template, policy).err().map(|error| {
            assert_eq!(error.name(), "openstack.policy");
            error.to_string()
        })
    }

    fn one(kind: &Value) -> Value {
        json!({"resources": {"it": {"type": kind}}})
    }

    #[test]
    fn a_borrower_may_not_create_resources_that_affect_others() {
        let borrower = VimPolicy::for_borrowers();
        let nested = |kind: &str| format!("resources:\n  inner: {{type: '{kind}'}}\n");
        let group = |kind: Value| {
            json!({"resources": {"it": {"type": "OS::Heat::ResourceGroup",
            "properties": {"resource_def": {"type": kind}}}}})
        };
        for (template, files, expected) in [
            (
                one(&json!("OS::Keystone::User")),
                json!({}),
                "`OS::Keystone::*`",
            ),
            (
                one(&json!("OS::Nova::Flavor")),
                json!({}),
                "`OS::Nova::Flavor`",
            ),
            (
                group(json!("OS::Mistral::Workflow")),
                json!({}),
                "`OS::Mistral::*`",
            ),
            (
                group(json!({"get_param": "x"})),
                json!({}),
                "computed by a function",
            ),
            (
                group(json!({"type": "x"})),
                json!({}),
                "computed by a function",
            ),
            (
                json!({"resources": {"it": {"type": "OS::Heat::ResourceChain", "properties": {"resources": ["OS::Keystone::Role"]}}}}),
                json!({}),
                "`OS::Keystone::*`",
            ),
            (
                one(&json!("http://169.254.169.254/x.yaml")),
                json!({}),
                "remoteFiles",
            ),
            (
                json!({"resources": {"it": {"type": "OS::Nova::Server", "properties": {"user_data": {"get_file": "http://inner/x"}}}}}),
                json!({}),
                "`get_file: http://inner/x`",
            ),
            (
                one(&json!("inner.yaml")),
                json!({"inner.yaml": nested("OS::Keystone::Project")}),
                "inner.yaml",
            ),
        ] {
            let error = refusal(template.clone(), files, &borrower).unwrap_or_default();
            assert!(error.contains(expected), "{template}: {error:?}");
        }
    }

    #[test]
    fn a_borrower_may_create_servers_in_nested_templates() {
        let borrower = VimPolicy::for_borrowers();
        let nested = |kind: &str| format!("resources:\n  inner: {{type: '{kind}'}}\n");
        let template = json!({"resources": {"it": {"type": "OS::Heat::AutoScalingGroup",
            "properties": {"resource": {"type": "inner.yaml"}}}}});
        let files = json!({"inner.yaml": nested("OS::Nova::Server"), "run.sh": "#!/bin/sh\necho OS::Keystone::User\n"});
        assert_eq!(refusal(template, files, &borrower), None);
        let keystone = one(&json!("OS::Keystone::User"));
        assert_eq!(refusal(keystone, json!({}), &VimPolicy::OPEN), None);
    }

    #[test]
    fn a_stack_may_not_exceed_the_limits_of_its_policy() {
        let two = json!({"resources": {"a": {"type": "OS::Nova::Server"}, "b": {"type": "OS::Nova::Port"}}});
        let with = |limits| VimPolicy {
            limits: Some(limits),
            ..VimPolicy::OPEN
        };
        let objects = with(InstanceLimits {
            objects: Some(1),
            ..InstanceLimits::default()
        });
        let error = refusal(two.clone(), json!({}), &objects).unwrap();
        assert!(error.contains("`limits.objects`"), "{error}");
        // Servers of a group count as in the VNFD.
        let servers = with(InstanceLimits {
            servers: Some(1),
            ..InstanceLimits::default()
        });
        let error = refusal(two.clone(), json!({}), &servers).unwrap();
        assert!(error.contains("`limits.servers`"), "{error}");
        let enough = with(InstanceLimits {
            objects: Some(2),
            servers: Some(9),
            pods: None,
        });
        assert_eq!(refusal(two, json!({}), &enough), None);
    }
}

//! Evaluates a stack's template: the desired resources, outputs, parameters and attributes.
//!
//! The engine calls [`plan`] and [`desired`] before it creates anything; the API calls [`outputs`],
//! [`visible_parameters`] and [`attributes`] for each response.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::functions::{Scope, evaluate, walk};
use super::records::{Resource, Stack};
use super::resources;
use super::state::{State, text};
use super::template::{Definition, Template, TemplateError, document};
use super::types;

/// The desired state of a resource.
pub(super) struct DesiredResource {
    pub(super) kind: String,
    pub(super) properties: Map<String, Value>,
    pub(super) requires: BTreeSet<String>,
    pub(super) nested: Option<(Value, Map<String, Value>)>,
}

pub(super) fn plan(state: &State, id: &str) -> Result<Vec<Vec<String>>, (String, String)> {
    let wrong = |why: TemplateError| (why.kind.to_owned(), why.message);
    let Some(stack) = state.stacks.get(id) else {
        return Ok(Vec::new());
    };
    let template = Template::parse(&stack.template).map_err(wrong)?;
    let scope = ExistingScope::new(state, stack, &template);
    let mut levels = template.levels().map_err(wrong)?;
    for level in &mut levels {
        level.retain(|name| scope.holds(&template.resources[name]));
    }
    Ok(levels)
}

pub(super) fn desired(
    state: &State,
    id: &str,
    name: &str,
) -> Result<DesiredResource, (String, String)> {
    let wrong = |why: String| ("StackValidationFailed".to_owned(), why);
    let stack = state
        .stacks
        .get(id)
        .ok_or_else(|| wrong("the stack is gone".into()))?;
    let template = Template::parse(&stack.template).map_err(|why| wrong(why.message))?;
    let definition = template
        .resources
        .get(name)
        .cloned()
        .ok_or_else(|| wrong(format!("no resource {name}")))?;
    let scope = ExistingScope::new(state, stack, &template);
    let mut properties = Map::new();
    for (property, value) in &definition.properties {
        let value = evaluate(value, &scope).map_err(|why| wrong(format!("{property}: {why}")))?;
        properties.insert(property.clone(), value);
    }
    let Definition { kind, requires, .. } = definition;
    let nested = match stack.environment.template_of(&kind) {
        Some((_, text)) => Some((document(&text).map_err(wrong)?, properties.clone())),
        None if types::known(&kind).is_some_and(types::ResourceType::is_group) => {
            Some((group(state, stack, name, &properties), Map::new()))
        }
        None => None,
    };
    Ok(DesiredResource {
        kind,
        properties,
        requires,
        nested,
    })
}

/// The nested template of a group.
fn group(state: &State, stack: &Stack, name: &str, properties: &Map<String, Value>) -> Value {
    let mut members = Map::new();
    if let Some(definition) = properties.get("resource_def") {
        let count = number(properties.get("count")).unwrap_or(1);
        let index = properties
            .get("index_var")
            .and_then(Value::as_str)
            .unwrap_or("%index%");
        for n in 0..count {
            let text = definition.to_string().replace(index, &n.to_string());
            let member = serde_json::from_str(&text)
                .unwrap_or_else(|error| Value::String(format!("`{index}` breaks it: {error}")));
            members.insert(n.to_string(), member);
        }
    } else {
        let desired = number(properties.get("desired_capacity"))
            .or_else(|| number(properties.get("min_size")))
            .unwrap_or(0);
        let child = stack
            .resources
            .get(name)
            .and_then(|r| state.stacks.get(&r.physical));
        // As Heat: failed members go first, then the oldest ones.
        let mut all: Vec<_> = child
            .map(|c| c.resources.iter().collect())
            .unwrap_or_default();
        all.sort_by_key(|(name, one)| (!one.status.ends_with("_FAILED"), &one.created, *name));
        let surplus = all
            .len()
            .saturating_sub(usize::try_from(desired).unwrap_or_default());
        let mut names: Vec<String> = all
            .split_off(surplus)
            .into_iter()
            .map(|(name, _)| name.clone())
            .collect();
        while u64::try_from(names.len()).unwrap_or(u64::MAX) < desired {
            names.push(Uuid::new_v4().simple().to_string()[..12].to_owned());
        }
        let definition = properties.get("resource").cloned().unwrap_or_default();
        members.extend(names.into_iter().map(|name| (name, definition.clone())));
    }
    json!({ "heat_template_version": "2018-08-31", "resources": members })
}

pub(super) fn number(value: Option<&Value>) -> Option<u64> {
    let value = value?;
    value.as_u64().or_else(|| value.as_str()?.parse().ok())
}

/// A stack's outputs in the API's format.
pub(crate) fn outputs(state: &State, stack: &Stack) -> Vec<Value> {
    let Ok(template) = Template::parse(&stack.template) else {
        return Vec::new();
    };
    let scope = ExistingScope::new(state, stack, &template);
    let show = |(name, output): (&String, &Value)| {
        let description = output
            .get("description")
            .cloned()
            .unwrap_or(json!("No description given"));
        match evaluate(&output["value"], &scope) {
            Ok(value) => {
                json!({ "output_key": name, "description": description, "output_value": value })
            }
            Err(why) => {
                json!({ "output_key": name, "description": description, "output_value": null, "output_error": why })
            }
        }
    };
    template.outputs.iter().map(show).collect()
}

/// A stack's parameters in the API's format: as text, hidden ones as asterisks.
pub(crate) fn visible_parameters(stack: &Stack) -> Map<String, Value> {
    let Ok(template) = Template::parse(&stack.template) else {
        return Map::new();
    };
    let filled = template.fill(&stack.parameters).unwrap_or_default();
    let show = |(name, value): (String, Value)| {
        let hidden = template
            .parameters
            .get(&name)
            .is_some_and(|schema| schema["hidden"] == true);
        let text = match value {
            _ if hidden => "******".to_owned(),
            Value::String(text) => text,
            other => other.to_string(),
        };
        (name, Value::from(text))
    };
    filled.into_iter().map(show).collect()
}

/// A resource's attributes in the API's format.
pub(crate) fn attributes(state: &State, resource: &Resource) -> Value {
    if resource.nested {
        return json!({});
    }
    resources::attributes(
        state,
        &resource.kind,
        &resource.physical,
        &resource.properties,
    )
}

/// Resolves functions against an existing stack.
struct ExistingScope<'a> {
    state: &'a State,
    stack: &'a Stack,
    conditions: Map<String, Value>,
    parameters: Map<String, Value>,
}

impl<'a> ExistingScope<'a> {
    fn new(state: &'a State, stack: &'a Stack, template: &Template) -> Self {
        let parameters = template.fill(&stack.parameters).unwrap_or_default();
        Self {
            state,
            stack,
            conditions: template.conditions.clone(),
            parameters,
        }
    }

    fn holds(&self, definition: &Definition) -> bool {
        let Some(condition) = &definition.condition else {
            return true;
        };
        evaluate(&json!({ "if": [condition, true, false] }), self).is_ok_and(|held| held == true)
    }
}

impl Scope for ExistingScope<'_> {
    fn parameter(&self, name: &str) -> Option<Value> {
        match name {
            "OS::stack_name" => Some(json!(self.stack.name)),
            "OS::stack_id" => Some(json!(self.stack.id)),
            "OS::project_id" => Some(json!(self.stack.project)),
            _ => self.parameters.get(name).cloned(),
        }
    }

    fn reference(&self, name: &str) -> Result<Value, String> {
        Ok(self
            .stack
            .resources
            .get(name)
            .map_or(Value::Null, |resource| json!(resource.physical)))
    }

    fn attribute(&self, resource: &str, path: &[Value]) -> Result<Value, String> {
        let Some(found) = self.stack.resources.get(resource) else {
            return Ok(Value::Null);
        };
        attribute(self.state, found, path).ok_or_else(|| {
            let name = path
                .first()
                .map_or(String::new(), |p| p.as_str().unwrap_or_default().to_owned());
            format!("The Referenced Attribute ({resource} {name}) is incorrect.")
        })
    }

    fn file(&self, name: &str) -> Option<String> {
        self.stack
            .environment
            .files
            .get(name)
            .and_then(Value::as_str)
            .map(str::to_owned)
    }

    fn condition(&self, name: &str) -> Option<Value> {
        self.conditions.get(name).cloned()
    }
}

fn attribute(state: &State, resource: &Resource, path: &[Value]) -> Option<Value> {
    if !resource.nested {
        let all = attributes(state, resource);
        if let Some(name) = path.first().and_then(Value::as_str)
            && !all.is_null()
            && all.get(name).is_none()
        {
            return None;
        }
        return Some(walk(&all, path));
    }
    let child = state.stacks.get(&resource.physical)?;
    let (first, rest) = path.split_first()?;
    let first = first.as_str().unwrap_or_default();
    if let Some(member) = first.strip_prefix("resource.") {
        let member = child.resources.get(member)?;
        return if rest.is_empty() {
            Some(json!(member.physical))
        } else {
            attribute(state, member, rest)
        };
    }
    if !types::known(&resource.kind).is_some_and(types::ResourceType::is_group) {
        let (key, rest) = if first == "outputs" {
            (rest.first()?.as_str()?, rest.get(1..)?)
        } else {
            (first, rest)
        };
        let output = outputs(state, child)
            .into_iter()
            .find(|o| text(o, "output_key") == key)?;
        return Some(walk(&output["output_value"], rest));
    }
    let members = || child.resources.iter();
    let of_each = |path: &[Value]| {
        members()
            .map(|(name, m)| (name.clone(), attribute(state, m, path).unwrap_or_default()))
            .collect::<Vec<_>>()
    };
    Some(match first {
        "refs" => walk(&members().map(|(_, m)| json!(m.physical)).collect(), rest),
        "refs_map" => walk(
            &Value::Object(
                members()
                    .map(|(n, m)| (n.clone(), json!(m.physical)))
                    .collect(),
            ),
            rest,
        ),
        "current_size" => json!(child.resources.len()),
        "outputs" | "attributes" => Value::Object(of_each(rest).into_iter().collect()),
        "outputs_list" => of_each(rest).into_iter().map(|(_, value)| value).collect(),
        _ => of_each(path).into_iter().map(|(_, value)| value).collect(),
    })
}

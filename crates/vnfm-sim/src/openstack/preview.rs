//! Finds the errors that Heat reports synchronously, before anything is created: an unknown type, a missing parameter,
//! a missing flavor.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::functions::{NOT_YET_CREATED, Scope, evaluate};
use super::scope::number;
use super::state::State;
use super::template::{Definition, Environment, Template, TemplateError, invalid};
use super::types;

/// Finds the errors that Heat reports before it creates anything.
pub(crate) fn check(
    state: &State,
    source: &Value,
    given: &Map<String, Value>,
    around: &Environment,
) -> Result<(), TemplateError> {
    let template = Template::parse(source)?;
    let parameters = template.fill(given)?;
    template.levels()?;
    let scope = PreviewScope {
        template: &template,
        parameters: &parameters,
        around,
    };
    for (name, definition) in &template.resources {
        check_resource(state, &scope, name, definition)?;
    }
    for (name, output) in &template.outputs {
        if output.get("value").is_none() {
            return Err(invalid(format!(
                "Each output must contain a \"value\" key: outputs.{name}"
            )));
        }
    }
    Ok(())
}

fn check_resource(
    state: &State,
    scope: &PreviewScope<'_>,
    name: &str,
    definition: &Definition,
) -> Result<(), TemplateError> {
    if let Some(missing) = definition
        .requires
        .iter()
        .find(|target| !scope.template.resources.contains_key(*target))
    {
        let message = format!("The specified reference \"{missing}\" (in {name}) is incorrect.");
        return Err(TemplateError {
            kind: "InvalidTemplateReference",
            message,
        });
    }
    let mut properties = Map::new();
    for (property, value) in &definition.properties {
        let value = evaluate(value, scope)
            .map_err(|why| invalid(format!("resources.{name}.properties.{property}: {why}")))?;
        properties.insert(property.clone(), value);
    }
    if let Some((_, nested)) = scope.around.template_of(&definition.kind) {
        return check_nested(state, &nested, &properties, scope.around)
            .map_err(|wrong| within(name, &wrong));
    }
    let Some(known) = types::known(&definition.kind) else {
        return Err(invalid(format!(
            "The Resource Type ({}) could not be found.",
            definition.kind
        )));
    };
    known.check(name, &properties)?;
    types::check_references(state, name, &definition.kind, &properties)?;
    let member = ["resource_def", "resource"]
        .iter()
        .find_map(|key| properties.get(*key))
        .filter(|_| known.is_group());
    match member {
        None => Ok(()),
        Some(member) => {
            let inner = Definition::parse("0", member).map_err(|wrong| within(name, &wrong))?;
            let alone = Definition {
                requires: BTreeSet::new(),
                ..inner
            };
            check_resource(state, scope, "0", &alone).map_err(|wrong| within(name, &wrong))
        }
    }
}

/// The resources that a template which [`check`] accepts would create. A group or nested stack is a list in place of a
/// resource.
pub(crate) fn resources(
    source: &Value,
    given: &Map<String, Value>,
    (around, parent): (&Environment, Option<&str>),
) -> Result<Vec<Value>, TemplateError> {
    let template = Template::parse(source)?;
    let parameters = template.fill(given)?;
    let scope = PreviewScope {
        template: &template,
        parameters: &parameters,
        around,
    };
    let all = template.resources.iter();
    all.map(|(name, definition)| previewed(&scope, (name, parent), definition))
        .collect()
}

fn previewed(
    scope: &PreviewScope<'_>,
    (name, parent): (&str, Option<&str>),
    definition: &Definition,
) -> Result<Value, TemplateError> {
    let properties = Value::Object(definition.properties.clone());
    let properties = evaluate(&properties, scope).map_err(invalid)?;
    if let Some((_, nested)) = scope.around.template_of(&definition.kind) {
        let given = with_stand_ins(&Template::parse(&nested)?, properties.as_object());
        return resources(&nested, &given, (scope.around, Some(name))).map(Value::Array);
    }
    let mut members = ["resource_def", "resource"].iter();
    let member = members.find_map(|key| definition.properties.get(*key));
    let is_group = types::known(&definition.kind).is_some_and(types::ResourceType::is_group);
    if let Some(member) = member.filter(|_| is_group) {
        let mut counts = ["count", "desired_capacity", "min_size"].iter();
        let count = counts.find_map(|key| number(properties.get(*key)));
        let inner = Definition::parse("0", member)?;
        let members = 0..count.unwrap_or(1);
        return members
            .map(|n| previewed(scope, (&n.to_string(), Some(name)), &inner))
            .collect();
    }
    Ok(json!({
        "resource_name": name,
        "resource_type": definition.kind,
        "physical_resource_id": "",
        "resource_action": "INIT",
        "resource_status": "COMPLETE",
        "parent_resource": parent,
        "properties": properties,
    }))
}

fn check_nested(
    state: &State,
    source: &Value,
    given: &Map<String, Value>,
    around: &Environment,
) -> Result<(), TemplateError> {
    let template = Template::parse(source)?;
    check(
        state,
        source,
        &with_stand_ins(&template, Some(given)),
        around,
    )
}

/// The properties of a nested stack as its parameters.
fn with_stand_ins(template: &Template, given: Option<&Map<String, Value>>) -> Map<String, Value> {
    let given = given.cloned().unwrap_or_default();
    let mut filled = given.clone();
    // A property that refers to resources that do not exist yet is set, but has no value to check.
    for (name, value) in &given {
        if value == NOT_YET_CREATED {
            let kind = template
                .parameters
                .get(name)
                .map_or("", |schema| schema["type"].as_str().unwrap_or(""));
            let stand_in = match kind {
                "number" => Value::from(0),
                "json" => Value::Object(Map::new()),
                "comma_delimited_list" => Value::Array(Vec::new()),
                "boolean" => Value::Bool(false),
                _ => Value::from(NOT_YET_CREATED),
            };
            filled.insert(name.clone(), stand_in);
        }
    }
    filled
}

/// An error of a member, as its group or nested stack reports it.
fn within(name: &str, wrong: &TemplateError) -> TemplateError {
    let message = match wrong.message.split_once("resources.") {
        Some((before, path)) => format!("{before}resources.{name}<nested_stack>.resources.{path}"),
        None => format!("resources.{name}: {}", wrong.message),
    };
    TemplateError {
        kind: wrong.kind,
        message,
    }
}

/// Resolves functions before any resource exists.
struct PreviewScope<'a> {
    template: &'a Template,
    parameters: &'a Map<String, Value>,
    around: &'a Environment,
}

impl Scope for PreviewScope<'_> {
    fn parameter(&self, name: &str) -> Option<Value> {
        match name {
            "OS::stack_name" | "OS::stack_id" | "OS::project_id" => {
                Some(Value::from(NOT_YET_CREATED))
            }
            _ => self.parameters.get(name).cloned(),
        }
    }

    fn reference(&self, name: &str) -> Result<Value, String> {
        let known = self.template.resources.contains_key(name);
        known
            .then(|| Value::from(NOT_YET_CREATED))
            .ok_or_else(|| format!("The specified reference \"{name}\" is incorrect."))
    }

    fn attribute(&self, resource: &str, _path: &[Value]) -> Result<Value, String> {
        self.reference(resource)
    }

    fn file(&self, name: &str) -> Option<String> {
        self.around
            .files
            .get(name)
            .and_then(Value::as_str)
            .map(str::to_owned)
    }

    fn condition(&self, name: &str) -> Option<Value> {
        self.template.conditions.get(name).cloned()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn wrong(source: &Value, given: &Value) -> (&'static str, String) {
        let state = State::seeded([9, 9]);
        let around = Environment::default();
        let wrong = check(&state, source, given.as_object().unwrap(), &around).unwrap_err();
        (wrong.kind, wrong.message)
    }

    fn server(flavor: &str, image: &str) -> Value {
        json!({ "heat_template_version": "2018-08-31", "resources": { "s": { "type": "OS::Nova::Server",
            "properties": { "flavor": flavor, "image": image, "networks": [{ "network": "provider" }] } } } })
    }

    #[test]
    fn errors_have_heats_messages() {
        let (kind, message) = wrong(&server("no-such", "nfv-image"), &json!({}));
        assert_eq!(kind, "StackValidationFailed");
        assert_eq!(
            message,
            "Property error: : resources.s.properties.flavor: : Error validating value 'no-such': No Flavor matching {'name': 'no-such'}. (HTTP 404)"
        );
        assert!(
            wrong(&server("m1.nano", "none"), &json!({}))
                .1
                .contains("No images matching")
        );
        let unknown = json!({ "heat_template_version": "2018-08-31", "resources": { "x": { "type": "OS::No::Such" } } });
        assert_eq!(
            wrong(&unknown, &json!({})).1,
            "The Resource Type (OS::No::Such) could not be found."
        );
        let needs = json!({ "heat_template_version": "2018-08-31", "parameters": { "zz": { "type": "string" } } });
        assert_eq!(
            wrong(&needs, &json!({})),
            (
                "UserParameterMissing",
                "The Parameter (zz) was not provided.".into()
            )
        );
    }

    #[test]
    fn a_cycle_is_an_error_and_references_order_the_resources() {
        let circle = json!({ "heat_template_version": "2018-08-31", "resources": {
            "a": { "type": "OS::Neutron::Net", "depends_on": "b" }, "b": { "type": "OS::Neutron::Net", "depends_on": ["a"] } } });
        assert_eq!(wrong(&circle, &json!({})).0, "CircularDependencyException");
        let line = "heat_template_version: 2018-08-31\nresources:\n  s: {type: OS::Nova::Server, properties: {networks: [{port: {get_resource: p}}]}}\n  p: {type: OS::Neutron::Port, properties: {network: {get_resource: n}}}\n  n: {type: OS::Neutron::Net}\n";
        let levels = Template::parse(&json!(line)).unwrap().levels().unwrap();
        assert_eq!(levels, [["n"], ["p"], ["s"]]);
    }
}

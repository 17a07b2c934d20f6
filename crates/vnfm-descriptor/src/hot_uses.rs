//! Where the templates of a Base HOT use their parameters, through nested templates and groups.

use crate::archive::ReadError;
use crate::hot::BaseHot;
use crate::limits::Limits;
use crate::package::Package;
use crate::sink::Sink;
use crate::yaml::parse;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// How deep nested templates are followed.
const MAX_DEPTH: usize = 8;
/// The most templates that the search for one parameter enters.
const MAX_VISITS: u32 = 1000;

/// A property that a parameter fills.
#[derive(Debug, Default)]
pub(crate) struct Use {
    /// Type of the resource with the property.
    pub(crate) kind: String,
    /// Name of the resource, and of those that contain it.
    pub(crate) resources: Vec<String>,
    /// Names of the resources that a group contains.
    pub(crate) members: Vec<String>,
    /// Path of the property.
    pub(crate) keys: Vec<String>,
    /// The resource that the property `network` of the same resource refers to.
    pub(crate) network: Option<String>,
}

/// The templates of a Base HOT.
pub(crate) struct TemplateUses {
    top: Value,
    /// Nested templates by the names that resource types may have.
    nested: BTreeMap<String, Value>,
}

impl TemplateUses {
    /// Reads all templates; what is not YAML is left out.
    pub(crate) fn read(package: &Package, hot: &BaseHot) -> Result<Self, ReadError> {
        let template = |path: &str| -> Result<Value, ReadError> {
            let text = String::from_utf8_lossy(&package.read(path)?).into_owned();
            let mut ignored = Sink::default();
            let node = parse(&text, path, &Limits::default(), &mut ignored);
            Ok(node.map_or(Value::Null, |node| node.to_json()))
        };
        let nested = hot.files.iter();
        let nested = nested.map(|(name, path)| Ok((name.clone(), template(path)?)));
        let mut nested: BTreeMap<String, Value> = nested.collect::<Result<_, ReadError>>()?;
        let environment = hot.environment.as_ref();
        let registry = environment.and_then(|all| all.content["resource_registry"].as_object());
        for (name, target) in registry.into_iter().flatten() {
            let target = target.as_str().and_then(|target| nested.get(target));
            if let Some(target) = target.cloned() {
                nested.insert(name.clone(), target);
            }
        }
        let top = template(&hot.template)?;
        Ok(Self { top, nested })
    }

    /// The uses of a parameter of the top-level template.
    pub(crate) fn uses_of(&self, parameter: &str) -> Vec<Use> {
        let mut search = Search {
            templates: self,
            found: Vec::new(),
            visits: 0,
        };
        search.template(&self.top, parameter, &[]);
        search.found
    }
}

struct Search<'t> {
    templates: &'t TemplateUses,
    found: Vec<Use>,
    visits: u32,
}

impl Search<'_> {
    fn template(&mut self, template: &Value, parameter: &str, above: &[String]) {
        self.visits += 1;
        if above.len() > MAX_DEPTH || self.visits > MAX_VISITS {
            return;
        }
        for (name, definition) in template["resources"].as_object().into_iter().flatten() {
            let mut resources = vec![name.clone()];
            resources.extend_from_slice(above);
            self.resource(definition, parameter, &resources);
        }
    }

    fn resource(&mut self, definition: &Value, parameter: &str, resources: &[String]) {
        let around = Use {
            kind: definition["type"].as_str().unwrap_or_default().to_owned(),
            resources: resources.to_vec(),
            members: self.members(&definition["properties"]),
            keys: Vec::new(),
            network: definition["properties"]["network"]["get_resource"]
                .as_str()
                .map(str::to_owned),
        };
        self.value(
            &definition["properties"],
            parameter,
            &around,
            &mut Vec::new(),
        );
    }

    /// Looks for the parameter in a property.
    fn value(&mut self, value: &Value, parameter: &str, around: &Use, keys: &mut Vec<String>) {
        match value {
            Value::Object(members) if is_use(members, parameter) => self.add(around, keys),
            Value::Object(members) if is_resource(members) => {
                self.resource(value, parameter, &around.resources);
            }
            Value::Object(members) => {
                for (key, member) in members {
                    keys.push(key.clone());
                    self.value(member, parameter, around, keys);
                    keys.pop();
                }
            }
            Value::Array(items) => {
                for item in items {
                    self.value(item, parameter, around, keys);
                }
            }
            _ => {}
        }
    }

    /// Records a use, or follows it into a nested template.
    fn add(&mut self, around: &Use, keys: &[String]) {
        let templates = self.templates;
        if let (Some(nested), [parameter]) = (templates.nested.get(&around.kind), keys) {
            self.template(nested, parameter, &around.resources);
            return;
        }
        self.found.push(Use {
            kind: around.kind.clone(),
            resources: around.resources.clone(),
            members: around.members.clone(),
            keys: keys.to_vec(),
            network: around.network.clone(),
        });
    }

    /// Names of the resources in the nested template that a group makes its members of.
    fn members(&self, properties: &Value) -> Vec<String> {
        let definition = [&properties["resource_def"], &properties["resource"]];
        let kinds = definition.iter().filter_map(|one| one["type"].as_str());
        let nested = kinds.filter_map(|kind| self.templates.nested.get(kind));
        let resources = nested.filter_map(|nested| nested["resources"].as_object());
        resources.flat_map(Map::keys).cloned().collect()
    }
}

fn is_use(members: &Map<String, Value>, parameter: &str) -> bool {
    let name = members.get("get_param");
    let first = name.map(|name| name.get(0).unwrap_or(name));
    first.and_then(Value::as_str) == Some(parameter)
}

/// Whether a value defines a resource, as in a group.
fn is_resource(members: &Map<String, Value>) -> bool {
    members.get("type").is_some_and(Value::is_string) && members.contains_key("properties")
}

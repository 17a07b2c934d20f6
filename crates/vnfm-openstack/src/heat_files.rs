//! Heat's `files`: what templates and environment of the package name.
//!
//! ```text
//! top-level template ─┬─ type: web.yaml ─ nested template ─┬─ type: disk.yaml ─ …
//! environment ────────┘                                    └─ get_file: boot.sh
//! ```
//! A name is relative to the file that contains it, or the bare name of a template in a subfolder. Heat knows one file for
//! each name: a package with two files for a name is refused.

use crate::blueprint::{Blueprint, PLANNING, package};
use crate::hot_text::text;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use vnfm_core::ports::PortError;
use vnfm_descriptor::{BaseHot, normalise};

/// The files, by the names that the templates use.
pub(crate) fn files(
    blueprint: &Blueprint<'_>,
    hot: &BaseHot,
    top: &Value,
) -> Result<Map<String, Value>, PortError> {
    let mut search = Search {
        blueprint,
        hot,
        names: BTreeMap::new(),
        open: Vec::new(),
    };
    search.template(top, &hot.template)?;
    if let Some(environment) = &hot.environment {
        let registry = environment.content["resource_registry"].as_object();
        for target in registry.into_iter().flat_map(Map::values) {
            search.kind(target, &environment.path)?;
        }
    }
    while let Some(path) = search.open.pop() {
        let nested = text(blueprint, &path)?;
        let nested = serde_yaml::from_str::<Value>(&nested)
            .map_err(|error| package(format!("`{path}` is not YAML: {error}")))?;
        search.template(&nested, &path)?;
    }
    // What no template names is sent, too: a name may be computed by a function.
    let mut all = hot.files.clone();
    all.extend(search.names);
    let (mut files, mut bytes) = (Map::new(), 0_u64);
    for (name, path) in all {
        let content = text(blueprint, &path)?;
        // One file may have any number of names.
        bytes = bytes.saturating_add(content.len() as u64);
        blueprint.budget.allows(PLANNING, 0, bytes)?;
        files.insert(name, Value::String(content));
    }
    Ok(files)
}

struct Search<'a> {
    blueprint: &'a Blueprint<'a>,
    hot: &'a BaseHot,
    /// Path in the package by name.
    names: BTreeMap<String, String>,
    /// Nested templates that are still to be read.
    open: Vec<String>,
}

impl Search<'_> {
    fn template(&mut self, value: &Value, file: &str) -> Result<(), PortError> {
        match value {
            Value::Object(members) => {
                if let Some(name) = members.get("get_file").and_then(Value::as_str)
                    && !is_remote(name)
                {
                    self.add(name, &relative(name, file), file)?;
                }
                if let Some(kind) = members.get("type") {
                    self.kind(kind, file)?;
                }
                let mut members = members.values();
                members.try_for_each(|member| self.template(member, file))
            }
            Value::Array(items) => items.iter().try_for_each(|item| self.template(item, file)),
            _ => Ok(()),
        }
    }

    /// The type of a resource: if it is a file, a nested template.
    fn kind(&mut self, kind: &Value, file: &str) -> Result<(), PortError> {
        let Some(name) = kind.as_str().filter(|name| is_template(name)) else {
            return Ok(());
        };
        let mapped = self.hot.environment.as_ref();
        if mapped.is_some_and(|all| all.content["resource_registry"].get(name).is_some()) {
            return Ok(());
        }
        let own = relative(name, file);
        let path = if self.blueprint.package.has(&own) {
            own
        } else {
            self.by_name(name, file)?
        };
        if self.add(name, &path, file)? {
            self.open.push(path);
        }
        Ok(())
    }

    /// The only template with a bare name.
    fn by_name(&self, name: &str, file: &str) -> Result<String, PortError> {
        let ends = format!("/{name}");
        let mut paths: Vec<&String> = self.hot.files.values().collect();
        paths.retain(|path| path.ends_with(&ends));
        paths.sort_unstable();
        paths.dedup();
        match paths.as_slice() {
            [path] => Ok((*path).clone()),
            [] => {
                Err(package(format!("`{file}` names `{name}`, which the package lacks")).on(name))
            }
            [first, second, ..] => Err(ambiguous(name, first, second)),
        }
    }

    /// Notes a file; true if it is new.
    fn add(&mut self, name: &str, path: &str, file: &str) -> Result<bool, PortError> {
        if !self.blueprint.package.has(path) {
            let detail = format!("`{file}` names `{name}`, but the package lacks `{path}`");
            return Err(package(detail).on(name));
        }
        match self.names.insert(name.to_owned(), path.to_owned()) {
            Some(other) if other != path => Err(ambiguous(name, &other, path)),
            known => Ok(known.is_none()),
        }
    }
}

fn ambiguous(name: &str, first: &str, second: &str) -> PortError {
    let detail = format!("templates name `{name}`, which is `{first}` and `{second}`");
    package(detail)
        .on(name)
        .hint("Heat knows one file for each name: rename one of them")
}

/// The path of a name in a file, relative to that file.
fn relative(name: &str, file: &str) -> String {
    let folder = file.rsplit_once('/').map_or("", |(folder, _)| folder);
    normalise(&format!("{folder}/{name}")).unwrap_or_else(|_| name.to_owned())
}

fn is_template(name: &str) -> bool {
    let ends = [".yaml", ".yml", ".template"];
    !is_remote(name) && ends.iter().any(|end| name.ends_with(end))
}

fn is_remote(name: &str) -> bool {
    name.contains("://")
}

#[cfg(test)]
mod tests {
    use crate::base_hot::expected;
    use crate::blueprint::Blueprint;
    use crate::heat::StackTemplate;
    use crate::testing::{new_allocation, package_of, vnfd};
    use serde_json::{Value, json};
    use vnfm_core::ports::{Allocation, PortError};

    /// The allocation of a package with these files in `BaseHOT/simple/`.
    fn allocation(files: &[(&str, &str)]) -> Allocation {
        let vnfd = vnfd(1, "512 MiB", "1 GiB");
        let paths = files
            .iter()
            .map(|(name, text)| (format!("BaseHOT/simple/{name}"), *text));
        let paths: Vec<(String, &str)> = paths.collect();
        let mut all = vec![("vnfd.yaml", vnfd.as_str())];
        all.extend(paths.iter().map(|(path, text)| (path.as_str(), *text)));
        new_allocation(package_of(&all), json!({"flavourId": "simple"}))
    }

    fn stack(files: &[(&str, &str)]) -> Result<StackTemplate, PortError> {
        expected(&Blueprint::read(&allocation(files), "i").unwrap())
    }

    fn of_type(kind: &str) -> String {
        format!("heat_template_version: 2018-08-31\nresources: {{r: {{type: {kind}}}}}\n")
    }

    fn with_file(name: &str) -> String {
        let value = format!("{{get_file: {name}}}");
        of_type(&format!("OS::Heat::Value, properties: {{value: {value}}}"))
    }

    #[test]
    fn files_of_nested_templates_in_nested_templates_are_sent() {
        let (top, middle) = (of_type("node.yaml"), of_type("parts/disk.yaml"));
        let inner = with_file("../boot.sh");
        let files = [
            ("top.yaml", top.as_str()),
            ("nested/node.yaml", middle.as_str()),
            ("nested/parts/disk.yaml", inner.as_str()),
            ("nested/boot.sh", "#!/bin/sh\n"),
        ];
        let sent = stack(&files).unwrap().files;
        assert_eq!(sent["node.yaml"], middle.as_str());
        assert_eq!(sent["parts/disk.yaml"], inner.as_str());
        assert_eq!(sent["../boot.sh"], "#!/bin/sh\n");
        let error = stack(&files[..3]).err().unwrap();
        assert_eq!(error.resource(), Some("../boot.sh"));
        assert!(
            error.to_string().contains("BaseHOT/simple/nested/boot.sh"),
            "{error}"
        );
        let error = stack(&files[..1]).err().unwrap();
        assert_eq!(error.resource(), Some("node.yaml"));
    }

    #[test]
    fn one_name_for_two_files_is_refused() {
        let (top, other) = (of_type("a.yaml"), of_type("OS::Heat::None"));
        let (a, b) = (with_file("boot.sh"), with_file("boot.sh"));
        let files = [
            ("top.yaml", top.as_str()),
            ("one/a.yaml", a.as_str()),
            ("one/boot.sh", "one"),
            ("two/b.yaml", b.as_str()),
            ("two/boot.sh", "two"),
        ];
        let sent = stack(&files).unwrap().files;
        assert_eq!(sent["boot.sh"], "one", "no template names two/b.yaml");
        let both = top.replace("resources: {", "resources: {s: {type: b.yaml}, ");
        let mut conflicting = files;
        conflicting[0].1 = &both;
        let error = stack(&conflicting).err().unwrap();
        assert_eq!(error.resource(), Some("boot.sh"));
        assert!(error.next().contains("rename one of them"), "{error}");
        let twice = [files[0], files[1], files[2], ("two/a.yaml", other.as_str())];
        let error = stack(&twice).err().unwrap();
        assert_eq!(error.resource(), Some("a.yaml"));
    }

    #[test]
    fn types_of_the_environment_are_files_of_the_package() {
        let (top, node) = (of_type("Farm::Node"), of_type("disk.yaml"));
        let disk = of_type("OS::Cinder::Volume");
        let environment = "resource_registry: {'Farm::Node': nested/node.yaml}\n";
        let files = [
            ("top.yaml", top.as_str()),
            ("nested/node.yaml", node.as_str()),
            ("nested/disk.yaml", disk.as_str()),
            ("farm.env", environment),
        ];
        let stack = stack(&files).unwrap();
        assert_eq!(
            stack.environment,
            Some(json!({"resource_registry": {"Farm::Node": "nested/node.yaml"}}))
        );
        assert_eq!(stack.files["nested/node.yaml"], node.as_str());
        assert_eq!(stack.files["disk.yaml"], Value::from(disk));
    }

    #[test]
    fn a_file_of_many_names_counts_once_for_each() {
        let named = |names: &[&str]| {
            let read = names.iter().map(|name| format!("{{get_file: {name}}}"));
            let read = read.collect::<Vec<_>>().join(", ");
            let top = of_type(&format!("OS::Heat::Value, properties: {{value: [{read}]}}"));
            let large = "x".repeat(4000);
            let mut allocation = allocation(&[("top.yaml", &top), ("large", &large)]);
            allocation.budget.bytes = 10_000;
            expected(&Blueprint::read(&allocation, "i").unwrap()).map(drop)
        };
        named(&["large", "./large"]).unwrap();
        let error = named(&["large", "./large", "././large"]).unwrap_err();
        assert!(error.detail().contains("`limits.plan_bytes`"), "{error}");
    }

    #[test]
    fn templates_that_nest_each_other_end() {
        let (top, a, b) = (of_type("a.yaml"), of_type("b.yaml"), of_type("a.yaml"));
        let files = [
            ("top.yaml", top.as_str()),
            ("nested/a.yaml", a.as_str()),
            ("nested/b.yaml", b.as_str()),
        ];
        assert_eq!(stack(&files).unwrap().files.len(), 4, "by two names each");
    }
}

//! Heat templates: keys, files, references, and the parameters of nested templates.
//!
//! `hot.rs` reports parameters of the top template that nothing fills; this module checks the
//! content of all templates, including nested ones.

use crate::explain::codes;
use crate::scalars::traps;
use crate::source::Source;
use std::collections::BTreeSet;
use vnfm_descriptor::raw::{Node, Parts, Sink, folder, has_extension, resolve};
use vnfm_descriptor::{Finding, Span};

const KEYS: &[&str] = &[
    "heat_template_version",
    "description",
    "parameter_groups",
    "parameters",
    "resources",
    "outputs",
    "conditions",
];
const PARAMETER: &[&str] = &[
    "type",
    "label",
    "description",
    "default",
    "hidden",
    "constraints",
    "immutable",
    "tags",
];
const RESOURCE: &[&str] = &[
    "type",
    "properties",
    "metadata",
    "depends_on",
    "update_policy",
    "deletion_policy",
    "external_id",
    "condition",
];
/// Parameters that Heat provides in every template.
const PSEUDO: &[&str] = &["OS::stack_id", "OS::stack_name", "OS::project_id"];

/// Checks every Heat template below `BaseHOT/`, and finds those elsewhere.
pub(crate) fn check(source: &Source<'_>, read: &Parts, sink: &mut Sink) {
    misplaced(source, read, sink);
    for path in source
        .yaml_paths()
        .filter(|path| path.starts_with("BaseHOT/"))
    {
        let Some([node]) = source.yaml(path).and_then(single) else {
            continue;
        };
        if node.get("heat_template_version").is_some() {
            template(source, path, &node, sink);
        }
        let flavour = path.split('/').nth(1).unwrap_or_default();
        if let Some(vnfd) = read
            .vnfd
            .as_ref()
            .filter(|_| path.matches('/').count() == 2)
            && !vnfd.flavours.contains_key(flavour)
        {
            let message = format!("no deployment flavour is called `{flavour}`");
            let finding = Finding::new(codes::HOT_FLAVOUR, Span::file(path), message);
            sink.add(finding.did_you_mean(flavour, vnfd.flavours.keys().map(String::as_str)));
        }
    }
}

/// Finds Heat templates that no flavour uses because of where they are.
fn misplaced(source: &Source<'_>, read: &Parts, sink: &mut Sink) {
    let in_place = |path: &str| path.starts_with("BaseHOT/") && path.matches('/').count() >= 2;
    for path in source.yaml_paths().filter(|path| !in_place(path)) {
        let is_template = |text: String| {
            text.lines()
                .any(|line| line.starts_with("heat_template_version"))
        };
        if source.text(path).is_some_and(is_template) && !read.templates().any(|used| used == path)
        {
            let message = "no flavour uses this Heat template";
            let finding = Finding::new(codes::HOT_PLACE, Span::file(path), message);
            sink.add(finding.hint(
                "move it to `BaseHOT/FLAVOUR/`, or name it as `template` in `Files/openstack/parameters.yaml`",
            ));
        }
    }
}

fn single(nodes: Vec<Node>) -> Option<[Node; 1]> {
    nodes.try_into().ok()
}

pub(crate) fn template(source: &Source<'_>, path: &str, node: &Node, sink: &mut Sink) {
    traps(node, &["heat_template_version"], sink);
    unknown(node, KEYS, "a Heat template", sink);
    for (name, parameter) in node.get("parameters").into_iter().flat_map(Node::named) {
        unknown(parameter, PARAMETER, &format!("parameter `{name}`"), sink);
    }
    let mut used = BTreeSet::new();
    for part in ["resources", "outputs", "conditions"] {
        node.get(part)
            .into_iter()
            .for_each(|part| references(node, part, &mut used, sink));
    }
    for (key, _) in node
        .get("parameters")
        .map(Node::entries)
        .unwrap_or_default()
    {
        let name = key.as_str().unwrap_or("~");
        if !used.contains(name) {
            let message = format!("parameter `{name}` is declared but not used");
            sink.add(Finding::new(codes::HOT_UNUSED, key.span.clone(), message).about(name));
        }
    }
    for (key, resource) in node.get("resources").map(Node::entries).unwrap_or_default() {
        let name = key.as_str().unwrap_or("~");
        unknown(resource, RESOURCE, &format!("resource `{name}`"), sink);
        for dependency in dependencies(resource) {
            exists(node, dependency, "resources", sink);
        }
        nested(source, path, resource, sink);
    }
}

fn unknown(node: &Node, known: &[&str], what: &str, sink: &mut Sink) {
    for (key, _) in node.entries() {
        let name = key.as_str().unwrap_or("~");
        if !known.contains(&name) {
            let message = format!("{what} has no key `{name}`");
            let finding = Finding::new(codes::HOT_KEY, key.span.clone(), message);
            sink.add(finding.did_you_mean(name, known.iter().copied()));
        }
    }
}

fn dependencies(resource: &Node) -> Vec<&Node> {
    match resource.get("depends_on") {
        Some(one) if one.as_str().is_some() => vec![one],
        Some(several) => several.items().iter().collect(),
        None => Vec::new(),
    }
}

/// Follows `get_resource`, `get_attr` and `get_param`.
fn references(root: &Node, node: &Node, used: &mut BTreeSet<String>, sink: &mut Sink) {
    for (key, value) in node.entries() {
        let first = value.items().first().unwrap_or(value);
        match key.as_str() {
            Some("get_resource" | "get_attr") => exists(root, first, "resources", sink),
            Some("get_param") => {
                if let Some(name) = first.as_str().filter(|name| !PSEUDO.contains(name)) {
                    used.insert(name.to_owned());
                    exists(root, first, "parameters", sink);
                }
            }
            _ => {}
        }
        references(root, value, used, sink);
    }
    node.items()
        .iter()
        .for_each(|item| references(root, item, used, sink));
}

fn exists(root: &Node, named: &Node, section: &str, sink: &mut Sink) {
    let Some(name) = named.as_str() else { return };
    let known: Vec<&str> = root
        .get(section)
        .into_iter()
        .flat_map(Node::named)
        .map(|(name, _)| name)
        .collect();
    if !known.contains(&name) {
        let what = section.trim_end_matches('s');
        let message = format!("the template has no {what} `{name}`");
        let finding = Finding::new(codes::HOT_REFERENCE, named.span.clone(), message);
        sink.add(finding.did_you_mean(name, known));
    }
}

/// If a resource's type is a file, the file exists and receives the parameters that it needs.
fn nested(source: &Source<'_>, path: &str, resource: &Node, sink: &mut Sink) {
    group(source, path, resource, sink);
    let Some(kind) = resource.get("type") else {
        return;
    };
    let name = kind.as_str().unwrap_or_default();
    if !has_extension(name, &["yaml", "yml"]) || name.contains("://") {
        return;
    }
    let Some(found) = find(source, path, name) else {
        let message = format!("there is no file `{name}` at this path, relative to the template");
        let finding = Finding::new(codes::HOT_FILE, kind.span.clone(), message);
        let below = source
            .paths
            .iter()
            .filter_map(|other| other.strip_prefix(folder(path)));
        sink.add(finding.did_you_mean(name, below.map(|other| other.trim_start_matches('/'))));
        return;
    };
    let Some([inner]) = source.yaml(&found).and_then(single) else {
        return;
    };
    let given = resource.get("properties");
    let declared: Vec<(&str, &Node)> = inner
        .get("parameters")
        .into_iter()
        .flat_map(Node::named)
        .collect();
    for (key, _) in given.map(Node::entries).unwrap_or_default() {
        let name = key.as_str().unwrap_or("~");
        if !declared.iter().any(|(known, _)| *known == name) {
            let message = format!("`{found}` has no parameter `{name}`");
            let finding = Finding::new(codes::HOT_NESTED, key.span.clone(), message);
            sink.add(finding.did_you_mean(name, declared.iter().map(|(known, _)| *known)));
        }
    }
    for (name, parameter) in declared {
        let has_default = parameter.named().any(|(key, _)| key == "default");
        if !has_default && given.and_then(|given| given.get(name)).is_none() {
            let message =
                format!("`{found}` needs the parameter `{name}`, which has no value here");
            sink.add(Finding::new(codes::HOT_NESTED, kind.span.clone(), message));
        }
    }
}

/// The resource that a resource group or autoscaling group repeats.
fn group(source: &Source<'_>, path: &str, resource: &Node, sink: &mut Sink) {
    for path_to_resource in [
        &["properties", "resource_def"][..],
        &["properties", "resource"],
    ] {
        if let Some(inner) = resource
            .at(path_to_resource)
            .filter(|inner| inner.get("type").is_some())
        {
            nested(source, path, inner, sink);
        }
    }
}

/// The file of a nested template: relative to the template, or anywhere below its flavour's folder by its
/// name alone, as the driver passes files to Heat.
fn find(source: &Source<'_>, path: &str, name: &str) -> Option<String> {
    let root: Vec<&str> = path.split('/').take(2).collect();
    let root = root.join("/");
    let below = || {
        let ends = format!("/{name}");
        let found = source
            .paths
            .iter()
            .find(|path| path.starts_with(&root) && path.ends_with(&ends));
        found.map(|found| (*found).to_owned())
    };
    resolve(folder(path), name)
        .ok()
        .filter(|path| source.archive.has(path))
        .or_else(below)
}

//! The Heat environment of a Base HOT: `BaseHOT/<flavour>/NAME.env`.
//!
//! | key | effect |
//! |---|---|
//! | `parameters`, `parameter_defaults` | values of parameters that nothing else fills |
//! | `resource_registry` | a resource type stands for a file of the package, or for another type |
//!
//! Everything else is refused: URLs, which the cloud would fetch from its own network, and what would make Heat wait for
//! or notify others (`hooks`, `event_sinks`).

use crate::codes;
use crate::finding::{Finding, Span};
use crate::path::{base, folder, has_extension, resolve};
use crate::shape;
use crate::sink::Sink;
use crate::yaml::Node;
use serde::Serialize;
use serde_json::Value;

const KEYS: &[&str] = &["parameters", "parameter_defaults", "resource_registry"];

/// The environment that a package brings for a template.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HotEnvironment {
    /// Path of the file in the package.
    pub path: String,
    /// Heat's `environment`: `parameters`, `parameter_defaults` and `resource_registry`.
    pub content: Value,
}

impl HotEnvironment {
    /// Whether it has a value for a parameter.
    pub fn gives(&self, parameter: &str) -> bool {
        let mut sections = ["parameters", "parameter_defaults"].into_iter();
        sections.any(|section| self.content[section].get(parameter).is_some())
    }
}

/// The only environment in a flavour's folder.
pub(crate) fn path<'p>(root: &str, paths: &'p [String], sink: &mut Sink) -> Option<&'p str> {
    let paths = paths.iter().map(String::as_str);
    let found = paths.filter(|path| folder(path) == root && has_extension(path, &["env"]));
    let found: Vec<&str> = found.collect();
    if found.len() > 1 {
        let message = format!("several environments in this folder: {}", found.join(", "));
        let finding = Finding::new(codes::HOT, Span::file(root), message);
        sink.add(finding.hint("merge them into one"));
    }
    found.first().copied()
}

/// Reads an environment; `paths` are all files of the package.
pub(crate) fn read(
    node: &Node,
    (root, path): (&str, &str),
    paths: &[String],
    sink: &mut Sink,
) -> HotEnvironment {
    shape::keys(node, KEYS, "an environment", sink);
    for section in ["parameters", "parameter_defaults"] {
        if let Some(values) = node.get(section) {
            shape::mapping(values, section, sink);
        }
    }
    if let Some(registry) = node.get("resource_registry") {
        for (key, target) in shape::mapping(registry, "`resource_registry`", sink) {
            let name = key.as_str().unwrap_or("~");
            if let Some(refusal) = refusal(name, target, (root, path), paths) {
                let at = target.span.clone();
                sink.add(Finding::new(codes::HOT, at, refusal).about(name));
            }
        }
    }
    HotEnvironment {
        path: path.to_owned(),
        content: node.to_json(),
    }
}

/// Why an entry of the registry is not accepted.
fn refusal(
    name: &str,
    target: &Node,
    (root, path): (&str, &str),
    paths: &[String],
) -> Option<String> {
    let Some(text) = target.as_str() else {
        let kind = target.kind();
        return Some(format!(
            "`{name}` of `resource_registry` is {kind}, not a file or a type"
        ));
    };
    if text.contains("://") || name == "base_url" {
        return Some(format!(
            "`{name}` of `resource_registry` is a URL; put the file into the package"
        ));
    }
    if !has_extension(text, &["yaml", "yml", "template"]) {
        return None;
    }
    let relative = resolve(folder(path), text);
    let is_relative = relative.is_ok_and(|relative| paths.contains(&relative));
    let below = format!("{root}/");
    let is_base = |path: &String| path.starts_with(&below) && base(path) == text;
    let exists = is_relative || paths.iter().any(is_base);
    (!exists)
        .then(|| format!("`{name}` of `resource_registry` is `{text}`, which the package lacks"))
}

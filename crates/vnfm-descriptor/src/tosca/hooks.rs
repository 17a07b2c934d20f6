//! Reads the operations that `Vnflcm` implements, with their artifacts and inputs.
//!
//! `implementation` is an artifact's name, a file's path, or `{primary, timeout, …}`; an operation that is
//! null or `[]` is not implemented. A name that is neither an artifact nor a file is retained, since the
//! server's configuration may map it to a plugin.

use super::builder::Builder;
use super::kind::Kind;
use super::topology::{Template, Topology};
use super::types::operations_in;
use super::units;
use crate::codes;
use crate::finding::Finding;
use crate::model::{Artifact, Hook};
use crate::yaml::Node;
use serde_json::{Map, Value};
use std::collections::BTreeMap;
use std::time::Duration;

const VNFLCM: &str = "tosca.interfaces.nfv.Vnflcm";
const SHARED_LIBRARY: &str = "tosca.artifacts.Implementation.SharedLibrary";
const PYTHON: &str = "tosca.artifacts.Implementation.Python";

impl<'a> Builder<'a, '_> {
    /// The hooks of a VNF's node template, then those that its type implements.
    pub(super) fn hooks(&mut self, topology: &Topology<'_>, vnf: &Template) -> Vec<Hook> {
        let mut artifacts: BTreeMap<String, Option<Artifact>> = BTreeMap::new();
        let mut hooks: Vec<Hook> = Vec::new();
        let mut declared: BTreeMap<&str, Vec<&Node>> = BTreeMap::new();
        let names = self.vnflcm_interfaces(vnf);
        for name in &names {
            declared.extend(self.types.operations(&vnf.kind, name).unwrap_or_default());
        }
        let own = names
            .iter()
            .filter_map(|name| vnf.node.at(&["interfaces", name]))
            .flat_map(operations_in)
            .collect::<Vec<_>>();
        let inherited = declared.iter().filter_map(|(name, nodes)| {
            Some((
                *name,
                nodes
                    .iter()
                    .copied()
                    .find(|node| node.get("implementation").is_some())?,
            ))
        });
        for (operation, node) in own.into_iter().chain(inherited) {
            if hooks.iter().any(|hook| hook.operation == operation)
                || !declared.contains_key(operation)
            {
                continue;
            }
            let Some(implementation) = implementation(node) else {
                continue;
            };
            if !artifacts.contains_key(&implementation.name) {
                let found = self.artifact(topology, vnf, &implementation);
                artifacts.insert(implementation.name.clone(), found);
            }
            let artifact = artifacts.get(&implementation.name).cloned().flatten();
            let inputs = node
                .get("inputs")
                .map_or_else(|| Value::Object(Map::new()), Node::to_json);
            let hook = Hook {
                operation: operation.to_owned(),
                implementation: implementation.name,
                artifact,
                inputs,
                timeout: implementation.timeout,
            };
            hooks.push(hook);
        }
        hooks
    }

    /// The names of the interfaces whose type is a `Vnflcm`.
    fn vnflcm_interfaces(&self, vnf: &Template) -> Vec<&'a str> {
        let interfaces = self.types.section(Kind::Node, &vnf.kind, "interfaces");
        let is = |nodes: &[&Node]| {
            nodes
                .iter()
                .find_map(|node| node.get("type"))
                .and_then(Node::as_str)
                .is_some_and(|kind| self.types.is_a(Kind::Interface, kind, VNFLCM))
        };
        interfaces
            .into_iter()
            .filter(|(_, nodes)| is(nodes))
            .map(|(name, _)| name)
            .collect()
    }

    fn artifact(
        &mut self,
        topology: &Topology<'_>,
        vnf: &Template,
        implementation: &Implementation<'_>,
    ) -> Option<Artifact> {
        let name = implementation.name.as_str();
        let mut inherited = self.types.section(Kind::Node, &vnf.kind, "artifacts");
        let declared = vnf.node.at(&["artifacts", name]).or_else(|| {
            inherited
                .remove(name)
                .and_then(|nodes| nodes.first().copied())
        });
        if let Some(node) = declared.or(implementation.inline) {
            return Some(self.declared_artifact(topology, name, node));
        }
        if let Some(file) = self.file(topology, implementation.node) {
            let kind = match file.rsplit_once('.').map(|(_, extension)| extension) {
                Some("sh") => "tosca.artifacts.Implementation.Bash",
                Some("py") => PYTHON,
                Some("yml" | "yaml") => "tosca.artifacts.Implementation.Ansible",
                Some("so") => SHARED_LIBRARY,
                _ => "tosca.artifacts.Implementation",
            };
            return Some(Artifact {
                name: name.to_owned(),
                kind: kind.to_owned(),
                file: Some(file),
                properties: BTreeMap::new(),
                description: None,
            });
        }
        let known: Vec<&str> = vnf
            .node
            .get("artifacts")
            .into_iter()
            .flat_map(Node::named)
            .map(|(name, _)| name)
            .collect();
        let message = format!(
            "implementation `{name}` is neither an artifact of `{}` nor a file in the package",
            vnf.name
        );
        let finding = Finding::new(
            codes::IMPLEMENTATION_UNKNOWN,
            implementation.node.span.clone(),
            message,
        )
        .did_you_mean(name, known);
        let finding = if finding.hint.is_none() {
            finding.hint("map the name to an installed plugin in the server's configuration")
        } else {
            finding
        };
        self.sink.add(finding);
        None
    }

    fn declared_artifact(&mut self, topology: &Topology<'_>, name: &str, node: &Node) -> Artifact {
        let kind = node
            .get("type")
            .and_then(Node::as_str)
            .unwrap_or("tosca.artifacts.Implementation")
            .to_owned();
        let properties: BTreeMap<String, Value> = node
            .get("properties")
            .into_iter()
            .flat_map(Node::named)
            .map(|(key, value)| (key.to_owned(), value.to_json()))
            .collect();
        let stated = node.get("file").or_else(|| node.as_str().map(|_| node));
        let stated = stated.filter(|file| file.as_str() != Some("-") || kind != SHARED_LIBRARY);
        let file = stated.and_then(|file| self.file(topology, file));
        if let (Some(stated), None) = (stated, &file) {
            self.missing_file(name, &kind, stated);
        } else if file.is_none() && !properties.contains_key("plugin") {
            self.no_file(name, &kind, node);
        }
        let description = node
            .get("description")
            .and_then(Node::as_str)
            .map(str::to_owned);
        Artifact {
            name: name.to_owned(),
            kind,
            file,
            properties,
            description,
        }
    }

    /// Reports a file that is not in the package; a Python driver may be served by a plugin.
    fn missing_file(&mut self, artifact: &str, kind: &str, file: &Node) {
        let path = file.as_str().unwrap_or("~");
        let message = format!("`{path}` of artifact `{artifact}` is not in the package");
        let finding = if kind == PYTHON {
            let hint = format!("an installed plugin must provide the implementation `{artifact}`");
            Finding::new(codes::ARTIFACT_ABSENT, file.span.clone(), message).hint(hint)
        } else {
            Finding::new(codes::ARTIFACT_MISSING, file.span.clone(), message)
                .did_you_mean(path, self.archive.paths())
        };
        self.sink.add(finding);
    }

    /// Reports an artifact that names neither a file nor a plugin.
    fn no_file(&mut self, artifact: &str, kind: &str, node: &Node) {
        let hint = if kind == SHARED_LIBRARY {
            "set the property `plugin` to an installed plugin, or set `file`"
        } else {
            "set its `file`"
        };
        let message = format!("artifact `{artifact}` has no file");
        self.sink
            .add(Finding::new(codes::ARTIFACT_MISSING, node.span.clone(), message).hint(hint));
    }
}

/// The `implementation` of an operation, by name or in place.
struct Implementation<'n> {
    name: String,
    node: &'n Node,
    /// The artifact, if it is declared in place.
    inline: Option<&'n Node>,
    timeout: Option<Duration>,
}

fn implementation(operation: &Node) -> Option<Implementation<'_>> {
    let node = if operation.is_mapping() {
        operation.get("implementation")?
    } else {
        operation
    };
    if let Some(name) = node.as_str() {
        return Some(Implementation {
            name: name.to_owned(),
            node,
            inline: None,
            timeout: None,
        });
    }
    let timeout = node
        .get("timeout")
        .and_then(Node::as_str)
        .and_then(|text| units::seconds(text).or_else(|| crate::yaml::float(text)));
    let timeout = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let primary = node.get("primary")?;
    if let Some(name) = primary.as_str() {
        return Some(Implementation {
            name: name.to_owned(),
            node: primary,
            inline: None,
            timeout,
        });
    }
    let name = primary.get("file").and_then(Node::as_str)?.to_owned();
    Some(Implementation {
        name,
        node: primary,
        inline: Some(primary),
        timeout,
    })
}

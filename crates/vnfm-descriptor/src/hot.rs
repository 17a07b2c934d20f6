//! Base HOTs: a package's Heat templates, and the mapping that fills their parameters.
//!
//! `BaseHOT/<flavour>/` contains one top-level template, nested ones in subfolders, and an environment if it needs one.
//! `Files/openstack/parameters.yaml` states the source of each parameter's value:
//!
//! ```yaml
//! parameters:
//!   master_flavor: vdu.masterNode.flavor          # the grant's flavor, else the smallest that fits
//!   master_image: vdu.masterNode.image            # the grant's image, else by name
//!   workers: vdu.workerNode.count                 # instances at the requested level
//!   zone: {from: vdu.workerNode.zone, default: nova} # the grant's zone
//!   network: extCp.masterNodeExternalCP.network   # extVirtualLinks[].resourceId of that cpdId
//!   subnet: extCp.masterNodeExternalCP.subnet     # its fixed address's subnetId
//!   address: extCp.masterNodeExternalCP.address   # its fixed address
//!   range: virtualLink.internalVL.cidr            # from the VNFD
//!   size: storage.data.size                       # GiB
//!   key_name: {from: additionalParams.key_name, default: ""}
//!   name: instance.name                           # also instance.id, instance.flavour
//!   nfv: nfv                                      # Tacker's {VDU: {…}, CP: {…}}
//!   count: 3                                      # numbers, booleans, lists, mappings: literally
//!   domain: {value: example.org}                  # a literal text
//! flavours:                                       # optional: flavours with their own mapping
//!   small: {template: BaseHOT/small/top.yaml, parameters: {…}}
//! ```
//! Without the file, only the parameter `nfv` is filled. Here the expressions are parsed and checked
//! against the VNFD and the template; the OpenStack driver evaluates them.

use crate::codes;
use crate::finding::{Finding, Span};
use crate::hot_environment::{self, HotEnvironment};
use crate::limits::Limits;
use crate::model::{Flavour, Vnfd};
use crate::path::{base, folder, has_extension};
use crate::sink::Sink;
use crate::yaml::{Node, parse};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Path of the parameter mapping in a package.
pub const PARAMETERS_FILE: &str = "Files/openstack/parameters.yaml";

/// The Heat template of a flavour, and the values of its parameters.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BaseHot {
    /// Path of the top-level template in the package.
    pub template: String,
    /// Heat's `files`: each name that a template may use (the path relative to the template, and
    /// the bare file name) with the path in the package.
    pub files: BTreeMap<String, String>,
    /// The package's environment for it.
    pub environment: Option<HotEnvironment>,
    /// The parameters that the template declares.
    pub declared: Vec<HotParameter>,
    /// The sources of their values.
    pub parameters: HotParameters,
}

/// A parameter that a template declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HotParameter {
    /// Key of the parameter in `parameters`.
    pub name: String,
    /// `string`, `number`, `json`, `comma_delimited_list`, `boolean`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it has a default, or a value in the environment.
    pub has_default: bool,
    /// Whether Heat hides its value.
    pub hidden: bool,
}

/// The parameter mapping: the source of each parameter's value.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HotParameters(pub BTreeMap<String, HotBinding>);

/// The source of one parameter's value.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotBinding {
    /// The expression that gives the value.
    pub from: HotExpression,
    /// Used if the expression has no value.
    pub default: Option<Value>,
}

/// The source of a value. The names in it exist in the flavour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum HotExpression {
    /// `vdu.<name>.flavor`: the VIM's flavor for a VDU.
    VduFlavor(String),
    /// `vdu.<name>.image`: the VIM's image for a VDU.
    VduImage(String),
    /// `vdu.<name>.count`: the number of instances of a VDU.
    VduCount(String),
    /// `vdu.<name>.zone`: the availability zone of a VDU.
    VduZone(String),
    /// `extCp.<cpdId>.network`: the network of an external connection point.
    ExtCpNetwork(String),
    /// `extCp.<cpdId>.subnet`: the subnet of an external connection point.
    ExtCpSubnet(String),
    /// `extCp.<cpdId>.address`: the address of an external connection point.
    ExtCpAddress(String),
    /// `virtualLink.<name>.cidr`: the address range of an internal virtual link.
    VirtualLinkCidr(String),
    /// `storage.<name>.size`: the size of a volume in GiB.
    StorageSize(String),
    /// `additionalParams.<key>.<key>…`: a member of the request's parameters.
    AdditionalParam(Vec<String>),
    /// `instance.id`: the UUID of the VNF instance.
    InstanceId,
    /// `instance.name`: the display name of the VNF instance.
    InstanceName,
    /// `instance.flavour`: the deployment flavour of the instance.
    FlavourId,
    /// `nfv`: Tacker's layout, `{VDU: {<vdu>: {flavor, image}}, CP: {<cp>: {network}}}`.
    Nfv,
    /// A literal value that is passed unchanged.
    Literal(Value),
}

impl HotExpression {
    /// Parses an expression; an error consists of a message and a hint.
    fn parse(text: &str, flavour: &Flavour) -> Result<Self, (String, String)> {
        let words: Vec<&str> = text.split('.').collect();
        let owned = |name: &&str| (*name).to_owned();
        let vdu = |name: &str| known(flavour, "VDU", name, flavour.vdus.keys());
        let link = |name: &str| known(flavour, "virtual link", name, flavour.virtual_links.keys());
        let storage = |name: &str| known(flavour, "storage", name, flavour.storages.keys());
        let cp = |name: &str| {
            let cpd_ids = flavour.external_cps.iter().map(|cp| &cp.cpd_id);
            known(flavour, "external CP", name, cpd_ids)
        };
        match words.as_slice() {
            ["vdu", name, "flavor"] => vdu(name).map(Self::VduFlavor),
            ["vdu", name, "image"] => vdu(name).map(Self::VduImage),
            ["vdu", name, "count"] => vdu(name).map(Self::VduCount),
            ["vdu", name, "zone"] => vdu(name).map(Self::VduZone),
            ["extCp", name, "network"] => cp(name).map(Self::ExtCpNetwork),
            ["extCp", name, "subnet"] => cp(name).map(Self::ExtCpSubnet),
            ["extCp", name, "address"] => cp(name).map(Self::ExtCpAddress),
            ["virtualLink", name, "cidr"] => link(name).map(Self::VirtualLinkCidr),
            ["storage", name, "size"] => storage(name).map(Self::StorageSize),
            ["additionalParams", keys @ ..] if !keys.is_empty() => {
                Ok(Self::AdditionalParam(keys.iter().map(owned).collect()))
            }
            ["instance", "id"] => Ok(Self::InstanceId),
            ["instance", "name"] => Ok(Self::InstanceName),
            ["instance", "flavour"] => Ok(Self::FlavourId),
            ["nfv"] => Ok(Self::Nfv),
            _ => Err((
                format!("`{text}` is not a known expression"),
                format!("for literal text, write `{{value: {text}}}`"),
            )),
        }
    }
}

/// `name`, if it is among `names`, else a message and a hint.
fn known<'a>(
    flavour: &Flavour,
    kind: &str,
    name: &str,
    names: impl Iterator<Item = &'a String>,
) -> Result<String, (String, String)> {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.contains(&name) {
        return Ok(name.to_owned());
    }
    let near = crate::suggest::nearest(name, names.iter().copied())
        .map(|near| format!("did you mean `{near}`?"));
    Err((
        format!("flavour `{}` has no {kind} `{name}`", flavour.id),
        near.unwrap_or_else(|| format!("known: {}", names.join(", "))),
    ))
}

/// Access to the files of a package whose Base HOTs are read.
pub(crate) struct HotSource<'a> {
    /// Reads a file as text; failures become findings.
    pub(crate) text: &'a dyn Fn(&str, &mut Sink) -> Option<String>,
    /// The paths of all files.
    pub(crate) paths: &'a [String],
    pub(crate) limits: &'a Limits,
}

impl HotSource<'_> {
    /// The Base HOT of each flavour that has one.
    pub(crate) fn read(&self, vnfd: &Vnfd, sink: &mut Sink) -> BTreeMap<String, BaseHot> {
        let mapping = self
            .paths
            .iter()
            .any(|path| path == PARAMETERS_FILE)
            .then(|| self.node(PARAMETERS_FILE, sink))
            .flatten();
        if let Some(node) = &mapping {
            crate::shape::keys(
                node,
                &["template", "parameters", "flavours", "description"],
                "the parameter mapping",
                sink,
            );
        }
        let mut hots = BTreeMap::new();
        for flavour in vnfd.flavours.values() {
            let own = mapping
                .as_ref()
                .and_then(|node| node.at(&["flavours", &flavour.id]))
                .or(mapping.as_ref());
            if let Some(hot) = self.flavour(flavour, own, sink) {
                hots.insert(flavour.id.clone(), hot);
            }
        }
        hots
    }

    fn node(&self, path: &str, sink: &mut Sink) -> Option<Node> {
        parse(&(self.text)(path, sink)?, path, self.limits, sink)
    }

    fn flavour(
        &self,
        flavour: &Flavour,
        mapping: Option<&Node>,
        sink: &mut Sink,
    ) -> Option<BaseHot> {
        let root = format!("BaseHOT/{}", flavour.id);
        let yaml = |path: &&String| has_extension(path, &["yaml", "yml"]);
        let below: Vec<&String> = self
            .paths
            .iter()
            .filter(yaml)
            .filter(|path| path.starts_with(&format!("{root}/")))
            .collect();
        let template = match mapping.and_then(|node| node.get("template")) {
            Some(named) => self.named_template(named, sink)?,
            None if below.is_empty() => return None,
            None => top_level_template(&root, &below, sink)?,
        };
        let node = self.node(&template, sink)?;
        let environment = self.environment(&root, sink);
        let mut declared = declared(&node, &template, sink);
        if let Some(environment) = &environment {
            for parameter in &mut declared {
                parameter.has_default |= environment.gives(&parameter.name);
            }
        }
        let files = nested_files(&template, &below);
        let parameters = match mapping {
            Some(mapping) => bindings(mapping.get("parameters"), flavour, &declared, sink),
            None => nfv_only(&declared),
        };
        let is_mapped = |name: &str| {
            mapping
                .and_then(|node| node.at(&["parameters", name]))
                .is_some()
        };
        let is_filled = |name: &str| is_mapped(name) || parameters.0.contains_key(name);
        for parameter in declared
            .iter()
            .filter(|p| !p.has_default && !is_filled(&p.name))
        {
            let message = format!(
                "nothing fills parameter `{}` of `{template}`",
                parameter.name
            );
            let finding = Finding::new(codes::HOT_UNMAPPED, Span::file(&template), message);
            let finding = finding.about(&parameter.name);
            sink.add(finding.hint(format!(
                "add it to `parameters` in `{PARAMETERS_FILE}`; `vnfmctl package mapping` writes a first version"
            )));
        }
        Some(BaseHot {
            template,
            files,
            environment,
            declared,
            parameters,
        })
    }

    fn environment(&self, root: &str, sink: &mut Sink) -> Option<HotEnvironment> {
        let path = hot_environment::path(root, self.paths, sink)?;
        let node = self.node(path, sink)?;
        Some(hot_environment::read(&node, (root, path), self.paths, sink))
    }

    fn named_template(&self, named: &Node, sink: &mut Sink) -> Option<String> {
        let text = crate::shape::text(named, "`template`", sink)?;
        let found = crate::path::normalise(&text)
            .ok()
            .filter(|path| self.paths.contains(path));
        if found.is_none() {
            let finding = Finding::new(
                codes::HOT,
                named.span.clone(),
                format!("no file `{text}` in the package"),
            );
            sink.add(finding.did_you_mean(&text, self.paths.iter().map(String::as_str)));
        }
        found
    }
}

/// Heat's `files` for the nested templates: relative path and bare name to the path in the package.
fn nested_files(template: &str, below: &[&String]) -> BTreeMap<String, String> {
    let prefix = format!("{}/", folder(template));
    let mut files = BTreeMap::new();
    for path in below.iter().filter(|path| path.as_str() != template) {
        files
            .entry(base(path).to_owned())
            .or_insert_with(|| (*path).clone());
        if let Some(relative) = path.strip_prefix(&prefix) {
            files.insert(relative.to_owned(), (*path).clone());
        }
    }
    files
}

/// Without a mapping, only a parameter `nfv` is filled.
fn nfv_only(declared: &[HotParameter]) -> HotParameters {
    let nfv = HotBinding {
        from: HotExpression::Nfv,
        default: None,
    };
    let declared = declared.iter().filter(|parameter| parameter.name == "nfv");
    HotParameters(
        declared
            .map(|parameter| (parameter.name.clone(), nfv.clone()))
            .collect(),
    )
}

/// The only template directly in the flavour's folder.
fn top_level_template(root: &str, below: &[&String], sink: &mut Sink) -> Option<String> {
    let tops: Vec<&str> = below
        .iter()
        .map(|path| path.as_str())
        .filter(|path| folder(path) == root)
        .collect();
    if let [only] = tops.as_slice() {
        return Some((*only).to_owned());
    }
    let message = if tops.is_empty() {
        "no template directly in this folder".to_owned()
    } else {
        format!("several templates in this folder: {}", tops.join(", "))
    };
    let hint = format!(
        "keep one here and move nested ones to subfolders, or name it as `template` in `{PARAMETERS_FILE}`"
    );
    sink.add(Finding::new(codes::HOT, Span::file(root), message).hint(hint));
    None
}

fn declared(node: &Node, template: &str, sink: &mut Sink) -> Vec<HotParameter> {
    if node.get("heat_template_version").is_none() || node.get("resources").is_none() {
        let message = format!("`{template}` is not a Heat template");
        sink.add(
            Finding::new(codes::HOT, node.span.clone(), message)
                .hint("it needs `heat_template_version` and `resources`"),
        );
    }
    let parameter = |(name, node): (&str, &Node)| HotParameter {
        name: name.to_owned(),
        kind: node
            .get("type")
            .and_then(Node::as_str)
            .unwrap_or("string")
            .to_owned(),
        has_default: node.named().any(|(key, _)| key == "default"),
        hidden: node.get("hidden").and_then(Node::as_bool).unwrap_or(false),
    };
    node.get("parameters")
        .map(|parameters| parameters.named().map(parameter).collect())
        .unwrap_or_default()
}

fn bindings(
    node: Option<&Node>,
    flavour: &Flavour,
    declared: &[HotParameter],
    sink: &mut Sink,
) -> HotParameters {
    let mut bindings = BTreeMap::new();
    let Some(node) = node else {
        return HotParameters::default();
    };
    for (key, value) in crate::shape::mapping(node, "`parameters`", sink) {
        let name = key.as_str().unwrap_or("~");
        if !declared.iter().any(|parameter| parameter.name == name) {
            let finding = Finding::new(
                codes::HOT_PARAMETER,
                key.span.clone(),
                format!("the Base HOT declares no parameter `{name}`"),
            );
            sink.add(finding.did_you_mean(
                name,
                declared.iter().map(|parameter| parameter.name.as_str()),
            ));
        }
        if let Some(binding) = binding(value, flavour, sink) {
            bindings.insert(name.to_owned(), binding);
        }
    }
    HotParameters(bindings)
}

fn binding(node: &Node, flavour: &Flavour, sink: &mut Sink) -> Option<HotBinding> {
    if let Some(value) = node.get("value") {
        crate::shape::keys(node, &["value"], "a literal", sink);
        return Some(HotBinding {
            from: HotExpression::Literal(value.to_json()),
            default: None,
        });
    }
    let default = node
        .named()
        .find(|(key, _)| *key == "default")
        .map(|(_, value)| value.to_json());
    let expression = match node.get("from") {
        Some(from) => {
            crate::shape::keys(node, &["from", "default"], "a binding", sink);
            from
        }
        None if node.to_json().is_string() => node,
        None => {
            return Some(HotBinding {
                from: HotExpression::Literal(node.to_json()),
                default: None,
            });
        }
    };
    match HotExpression::parse(expression.as_str().unwrap_or_default(), flavour) {
        Ok(from) => Some(HotBinding { from, default }),
        Err((message, hint)) => {
            sink.add(
                Finding::new(codes::HOT_PARAMETER, expression.span.clone(), message).hint(hint),
            );
            None
        }
    }
}

//! Base HOT: Heat templates that a package brings, and the mapping that fills their parameters.
//!
//! `BaseHOT/<flavour>/` holds one template directly in it and nested ones anywhere below.
//! `Files/openstack/parameters.yaml` says where each parameter's value comes from:
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
//!   range: virtualLink.internalVL.cidr            # of the VNFD
//!   size: storage.data.size                       # GiB
//!   key_name: {from: additionalParams.key_name, default: ""}
//!   name: instance.name                           # also instance.id, instance.flavour
//!   nfv: nfv                                      # Tacker's {VDU: {…}, CP: {…}}
//!   count: 3                                      # numbers, booleans, lists, mappings: as they are
//!   domain: {value: example.org}                  # a literal text
//! flavours:                                       # optional: a flavour with a mapping of its own
//!   small: {template: BaseHOT/small/top.yaml, parameters: {…}}
//! ```
//! Without the file, only a parameter `nfv` is filled. The OpenStack driver evaluates the
//! expressions; here they are read and checked against the VNFD and the template.

use crate::finding::{Finding, Sink, Span, codes};
use crate::limits::Limits;
use crate::model::{Flavour, Vnfd};
use crate::path::{base, folder, has_extension};
use crate::yaml::{Node, parse};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// Where the mapping lies in a package.
pub const PARAMETERS_FILE: &str = "Files/openstack/parameters.yaml";

/// The Base HOT of a flavour.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct BaseHot {
    /// The template, a path in the package.
    pub template: String,
    /// Heat's `files`: names as a template may use them (path below the template's folder, and
    /// the bare name) to paths in the package.
    pub files: BTreeMap<String, String>,
    /// What the template declares.
    pub declared: Vec<HotParameter>,
    /// Where the values come from.
    pub parameters: HotParameters,
}

/// A parameter that a template declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HotParameter {
    /// Its name.
    pub name: String,
    /// `string`, `number`, `json`, `comma_delimited_list`, `boolean`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether it has a default.
    pub has_default: bool,
    /// Whether Heat hides its value.
    pub hidden: bool,
}

/// The mapping: each parameter with where its value comes from.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct HotParameters(pub BTreeMap<String, HotBinding>);

/// Where one parameter's value comes from.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HotBinding {
    /// Where from.
    pub from: HotExpression,
    /// The value where the expression has none.
    pub default: Option<Value>,
}

/// Where a value comes from; checked: the names exist in the flavour.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub enum HotExpression {
    /// `vdu.<name>.flavor`.
    VduFlavor(String),
    /// `vdu.<name>.image`.
    VduImage(String),
    /// `vdu.<name>.count`.
    VduCount(String),
    /// `vdu.<name>.zone`.
    VduZone(String),
    /// `extCp.<cpdId>.network`.
    ExtCpNetwork(String),
    /// `extCp.<cpdId>.subnet`.
    ExtCpSubnet(String),
    /// `extCp.<cpdId>.address`.
    ExtCpAddress(String),
    /// `virtualLink.<name>.cidr`.
    VirtualLinkCidr(String),
    /// `storage.<name>.size`, GiB.
    StorageSize(String),
    /// `additionalParams.<key>.<key>…`.
    AdditionalParam(Vec<String>),
    /// `instance.id`.
    InstanceId,
    /// `instance.name`.
    InstanceName,
    /// `instance.flavour`.
    FlavourId,
    /// `nfv`: Tacker's layout, `{VDU: {<vdu>: {flavor, image}}, CP: {<cp>: {network}}}`.
    Nfv,
    /// A value as it is.
    Literal(Value),
}

impl HotExpression {
    /// Reads an expression; the error says what is wrong and what could be meant.
    fn read(text: &str, flavour: &Flavour) -> Result<Self, (String, String)> {
        let words: Vec<&str> = text.split('.').collect();
        let owned = |name: &&str| (*name).to_owned();
        let known = |kind: &str, name: &str, names: Vec<&str>| {
            if names.contains(&name) {
                return Ok(name.to_owned());
            }
            let near = crate::suggest::nearest(name, names.iter().copied())
                .map(|near| format!("did you mean `{near}`?"));
            Err((
                format!("flavour `{}` has no {kind} `{name}`", flavour.id),
                near.unwrap_or_else(|| format!("known: {}", names.join(", "))),
            ))
        };
        let vdu = |name: &str| {
            known(
                "VDU",
                name,
                flavour.vdus.keys().map(String::as_str).collect(),
            )
        };
        let cp = |name: &str| {
            known(
                "external CP",
                name,
                flavour
                    .external_cps
                    .iter()
                    .map(|cp| cp.cpd_id.as_str())
                    .collect(),
            )
        };
        match words.as_slice() {
            ["vdu", name, "flavor"] => vdu(name).map(Self::VduFlavor),
            ["vdu", name, "image"] => vdu(name).map(Self::VduImage),
            ["vdu", name, "count"] => vdu(name).map(Self::VduCount),
            ["vdu", name, "zone"] => vdu(name).map(Self::VduZone),
            ["extCp", name, "network"] => cp(name).map(Self::ExtCpNetwork),
            ["extCp", name, "subnet"] => cp(name).map(Self::ExtCpSubnet),
            ["extCp", name, "address"] => cp(name).map(Self::ExtCpAddress),
            ["virtualLink", name, "cidr"] => known(
                "virtual link",
                name,
                flavour.virtual_links.keys().map(String::as_str).collect(),
            )
            .map(Self::VirtualLinkCidr),
            ["storage", name, "size"] => known(
                "storage",
                name,
                flavour.storages.keys().map(String::as_str).collect(),
            )
            .map(Self::StorageSize),
            ["additionalParams", keys @ ..] if !keys.is_empty() => {
                Ok(Self::AdditionalParam(keys.iter().map(owned).collect()))
            }
            ["instance", "id"] => Ok(Self::InstanceId),
            ["instance", "name"] => Ok(Self::InstanceName),
            ["instance", "flavour"] => Ok(Self::FlavourId),
            ["nfv"] => Ok(Self::Nfv),
            _ => Err((
                format!("`{text}` is no expression"),
                format!("a literal text is written `{{value: {text}}}`"),
            )),
        }
    }
}

/// What is needed to read the Base HOTs of a package.
pub(crate) struct HotSource<'a> {
    /// Reads a file as text, with a finding if that fails.
    pub(crate) text: &'a dyn Fn(&str, &mut Sink) -> Option<String>,
    /// Every file of the package.
    pub(crate) paths: &'a [String],
    /// The limits.
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
            None => only_top(&root, &below, sink)?,
        };
        let node = self.node(&template, sink)?;
        let declared = declared(&node, &template, sink);
        let here = folder(&template);
        let mut files = BTreeMap::new();
        for path in below.into_iter().filter(|path| **path != template) {
            files
                .entry(base(path).to_owned())
                .or_insert_with(|| path.clone());
            if let Some(relative) = path.strip_prefix(&format!("{here}/")) {
                files.insert(relative.to_owned(), path.clone());
            }
        }
        let parameters = match mapping {
            Some(mapping) => bindings(mapping.get("parameters"), flavour, &declared, sink),
            None => HotParameters(
                declared
                    .iter()
                    .filter(|p| p.name == "nfv")
                    .map(|p| {
                        (
                            p.name.clone(),
                            HotBinding {
                                from: HotExpression::Nfv,
                                default: None,
                            },
                        )
                    })
                    .collect(),
            ),
        };
        let named = |name: &str| {
            mapping
                .and_then(|node| node.at(&["parameters", name]))
                .is_some()
        };
        let filled = |name: &str| named(name) || parameters.0.contains_key(name);
        for parameter in declared
            .iter()
            .filter(|p| !p.has_default && !filled(&p.name))
        {
            let message = format!(
                "nothing fills parameter `{}` of `{template}`",
                parameter.name
            );
            let finding = Finding::new(codes::HOT_UNMAPPED, Span::file(&template), message);
            sink.add(finding.hint(format!("add it to `parameters` in `{PARAMETERS_FILE}`")));
        }
        Some(BaseHot {
            template,
            files,
            declared,
            parameters,
        })
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

/// The template that lies directly in the flavour's folder.
fn only_top(root: &str, below: &[&String], sink: &mut Sink) -> Option<String> {
    let tops: Vec<&str> = below
        .iter()
        .map(|path| path.as_str())
        .filter(|path| folder(path) == root)
        .collect();
    if let [only] = tops.as_slice() {
        return Some((*only).to_owned());
    }
    let message = if tops.is_empty() {
        "no template lies directly in it".to_owned()
    } else {
        format!("several templates lie in it: {}", tops.join(", "))
    };
    let hint = format!(
        "put one there and nested ones below, or name it: `template` in `{PARAMETERS_FILE}`"
    );
    sink.add(Finding::new(codes::HOT, Span::file(root), message).hint(hint));
    None
}

fn declared(node: &Node, template: &str, sink: &mut Sink) -> Vec<HotParameter> {
    if node.get("heat_template_version").is_none() || node.get("resources").is_none() {
        let message = format!("`{template}` is no Heat template");
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
    match HotExpression::read(expression.as_str().unwrap_or_default(), flavour) {
        Ok(from) => Some(HotBinding { from, default }),
        Err((message, hint)) => {
            sink.add(
                Finding::new(codes::HOT_PARAMETER, expression.span.clone(), message).hint(hint),
            );
            None
        }
    }
}

//! Reads ASDs: three dialects, one model.
//!
//! | | identifier | items | capabilities |
//! |---|---|---|---|
//! | draft | `asdId`, `asdSchemaVersion` | `deploymentItems` | `requiredCRDs`, `secondaryInterfacePlugin` |
//! | field | `descriptor_id` | artifacts, `item_id` or `itemId` | `required_custom_resources`, `required_plugin` |
//! | O-RAN | `asdId`, `asdInvariantId` | artifacts, `deploymentItemId` | `requiredCustomResource`, `requiredPlugin` |
//!
//! Names are compared without case and `_`, so a package may mix dialects. The types of an ASD are built
//! in and not read from the package.

mod cluster;
mod fields;

use super::documents::Document;
use crate::archive::Archive;
use crate::codes;
use crate::finding::{Finding, Span};
use crate::limits::Limits;
use crate::model::{Asd, AsdDialect, AsdExtCpd, DeploymentItem, Flavour, Vnfd};
use crate::oci;
use crate::path::{folder, resolve};
use crate::sink::Sink;
use crate::variables::is_name;
use crate::yaml::Node;
use fields::{camel, entries, field, same, text};
use std::collections::{BTreeMap, BTreeSet};

/// The identifier of the single flavour of every ASD.
const FLAVOUR: &str = "default";

const TYPES: &[&str] = &["tosca.nodes.asd", "tosca.nodes.asd.Asd"];
/// `kubernetes_manifest`, a YAML file of Kubernetes objects, is our own addition.
const ARTIFACT_TYPES: &[&str] = &[
    "helm_chart",
    "helmfile",
    "crd",
    "terraform",
    "kubernetes_manifest",
];

const PROPERTIES: &[&str] = &[
    "asdId",
    "descriptor_id",
    "asdInvariantId",
    "descriptor_invariant_id",
    "asdVersion",
    "descriptor_version",
    "asdSchemaVersion",
    "schema_version",
    "asdProvider",
    "provider",
    "asdApplicationName",
    "application_name",
    "asdApplicationVersion",
    "asdApplicationSwVersion",
    "application_version",
    "asdApplicationInfoName",
    "asdInfoDescription",
    "function_description",
    "asdExtCpd",
    "ext_cpds",
    "enhancedClusterCapabilities",
    "deploymentItems",
];

/// The node template of the ASD, if the file has one.
pub(super) fn template(document: &Document) -> Option<&Node> {
    let templates = document.root.at(&["topology_template", "node_templates"])?;
    let is_asd = |node: &Node| {
        node.get("type")
            .and_then(Node::as_str)
            .is_some_and(|kind| TYPES.contains(&kind))
    };
    templates
        .named()
        .map(|(_, node)| node)
        .find(|node| is_asd(node))
}

/// Reads an ASD, and derives a VNFD from it.
pub(super) fn load(
    document: &Document,
    template: &Node,
    archive: &Archive,
    limits: &Limits,
    sink: &mut Sink,
) -> Option<(Vnfd, Asd)> {
    let mut reader = Reader {
        path: &document.path,
        archive,
        limits,
        sink,
    };
    let asd = reader.asd(template)?;
    let flavour = Flavour {
        id: FLAVOUR.to_owned(),
        file: document.path.clone(),
        ..Flavour::default()
    };
    let vnfd = Vnfd {
        sol001_version: None,
        descriptor_id: asd.asd_id.clone(),
        descriptor_version: asd
            .asd_version
            .clone()
            .unwrap_or_else(|| asd.asd_application_version.clone()),
        provider: asd.asd_provider.clone(),
        product_name: asd.asd_application_name.clone(),
        software_version: asd.asd_application_version.clone(),
        product_info_name: asd.asd_application_info_name.clone(),
        product_info_description: asd.asd_info_description.clone(),
        vnfm_info: Vec::new(),
        node_type: template
            .get("type")
            .and_then(Node::as_str)
            .unwrap_or_default()
            .to_owned(),
        flavours: BTreeMap::from([(flavour.id.clone(), flavour)]),
    };
    Some((vnfd, asd))
}

struct Reader<'a, 's> {
    path: &'a str,
    archive: &'a Archive,
    limits: &'a Limits,
    sink: &'s mut Sink,
}

impl Reader<'_, '_> {
    fn asd(&mut self, template: &Node) -> Option<Asd> {
        let Some(properties) = template.get("properties") else {
            self.error(&template.span, "the ASD has no properties");
            return None;
        };
        self.unknown(properties, PROPERTIES, "the ASD");
        let mut required = |names: &[&str]| {
            let found = text(properties, names);
            if found.is_none() {
                let message = format!("the ASD has no `{}`", names.join("` or `"));
                self.error(&properties.span, &message);
            }
            found
        };
        let asd_id = required(&["asdId", "descriptor_id"]);
        let asd_provider = required(&["asdProvider", "provider"]);
        let asd_application_name = required(&["asdApplicationName", "application_name"]);
        let asd_application_version = required(&[
            "asdApplicationSwVersion",
            "asdApplicationVersion",
            "application_version",
        ]);
        let ext_cpds = field(properties, &["asdExtCpd", "ext_cpds"]).map(entries);
        let deployment_items = self.items(template, properties);
        Some(Asd {
            dialect: dialect(template, properties),
            asd_id: asd_id?,
            asd_invariant_id: text(properties, &["asdInvariantId", "descriptor_invariant_id"]),
            asd_version: text(properties, &["asdVersion", "descriptor_version"]),
            asd_schema_version: text(properties, &["asdSchemaVersion", "schema_version"]),
            asd_provider: asd_provider?,
            asd_application_name: asd_application_name?,
            asd_application_version: asd_application_version?,
            asd_application_info_name: text(properties, &["asdApplicationInfoName"]),
            asd_info_description: text(properties, &["asdInfoDescription", "function_description"]),
            asd_ext_cpd: ext_cpds
                .unwrap_or_default()
                .into_iter()
                .map(ext_cpd)
                .collect(),
            enhanced_cluster_capabilities: field(properties, &["enhancedClusterCapabilities"])
                .map(|node| self.capabilities(node)),
            deployment_items,
            images: oci::images(self.archive, self.limits, self.sink),
        })
    }

    /// Deployment items are artifacts of the node template, or entries of its properties that refer to an artifact.
    fn items(&mut self, template: &Node, properties: &Node) -> Vec<DeploymentItem> {
        let artifacts: Vec<(&str, &Node)> = template
            .get("artifacts")
            .into_iter()
            .flat_map(Node::named)
            .collect();
        let listed = field(properties, &["deploymentItems"])
            .map(entries)
            .unwrap_or_default();
        let mut items = Vec::new();
        for node in &listed {
            let name = text(node, &["artifactId"]).unwrap_or_default();
            let artifact = artifacts.iter().find(|(own, _)| *own == name);
            let file = artifact.map_or(Some(name.as_str()), |(_, node)| file_of(node));
            items.extend(self.item(&name, node, file));
        }
        for (name, node) in &artifacts {
            let kind = node.get("type").and_then(Node::as_str).unwrap_or_default();
            let is_item = base_name(kind).eq_ignore_ascii_case("deploymentItem");
            if !is_item
                || items
                    .iter()
                    .any(|item: &DeploymentItem| item.artifact == *name)
            {
                continue;
            }
            let properties = node.get("properties").unwrap_or(node);
            items.extend(self.item(name, properties, file_of(node)));
        }
        if items.is_empty() && !self.sink.failed() {
            self.error(&template.span, "the ASD has no deployment item");
        }
        let mut seen = BTreeSet::new();
        for item in &items {
            if !seen.insert(item.deployment_item_id.as_str()) {
                let message = format!(
                    "two deployment items have the identifier `{}`",
                    item.deployment_item_id
                );
                self.error(&template.span, &message);
            }
        }
        items
    }

    fn item(&mut self, name: &str, node: &Node, file: Option<&str>) -> Option<DeploymentItem> {
        const KNOWN: &[&str] = &[
            "deploymentItemId",
            "item_id",
            "artifactType",
            "artifactId",
            "deploymentOrder",
            "lifecycleParameters",
            "deploymentParameter",
            "target_server",
            "target_server_uri",
        ];
        self.unknown(node, KNOWN, &format!("deployment item `{name}`"));
        let id = text(node, &["deploymentItemId", "item_id"]);
        let kind = text(node, &["artifactType"]).unwrap_or_default();
        let artifact_type = kind.to_ascii_lowercase().replace([' ', '-'], "_");
        if !ARTIFACT_TYPES.contains(&artifact_type.as_str()) {
            let message =
                format!("deployment item `{name}` has the unknown artifact type `{kind}`");
            let finding = Finding::new(codes::ASD, node.span.clone(), message);
            self.sink
                .add(finding.hint(format!("known types: {}", ARTIFACT_TYPES.join(", "))));
        }
        let order = field(node, &["deploymentOrder"]);
        if let Some(order) = order.filter(|order| order.as_u32().is_none()) {
            let message =
                format!("the order of deployment item `{name}` is not a non-negative integer");
            self.error(&order.span.clone(), &message);
        }
        let found = file.and_then(|file| self.find(file));
        if found.is_none() {
            let stated = file.unwrap_or("~");
            let message =
                format!("the file `{stated}` of deployment item `{name}` is not in the package");
            let finding = Finding::new(codes::ARTIFACT_MISSING, node.span.clone(), message);
            self.sink
                .add(finding.did_you_mean(stated, self.archive.paths()));
        }
        if id.is_none() {
            self.error(
                &node.span.clone(),
                &format!("deployment item `{name}` has no `deploymentItemId`"),
            );
        }
        let item = DeploymentItem {
            deployment_item_id: id?,
            artifact: name.to_owned(),
            artifact_type,
            file: found?,
            deployment_order: order.and_then(Node::as_u32).unwrap_or(0),
            lifecycle_parameters: field(node, &["lifecycleParameters", "deploymentParameter"])
                .map(Node::texts)
                .unwrap_or_default(),
        };
        self.check_parameters(&item, node);
        Some(item)
    }

    /// The lifecycle parameters of a manifest are valid names of variables.
    fn check_parameters(&mut self, item: &DeploymentItem, node: &Node) {
        let all = item
            .lifecycle_parameters
            .iter()
            .filter(|_| item.is_manifest());
        for name in all.filter(|name| !is_name(name)) {
            let message = format!(
                "deployment item `{}` is a manifest, but `{name}` is not a valid variable name",
                item.artifact
            );
            let finding = Finding::new(codes::ASD, node.span.clone(), message);
            self.sink
                .add(finding.hint("use letters, digits and `_`, and do not start with a digit"));
        }
    }

    /// A file in the package, relative to the ASD or to the root.
    fn find(&self, file: &str) -> Option<String> {
        let candidates = [resolve(folder(self.path), file), resolve("", file)];
        candidates
            .into_iter()
            .flatten()
            .find(|path| self.archive.has(path))
    }

    fn error(&mut self, at: &Span, message: &str) {
        self.sink.add(Finding::new(codes::ASD, at.clone(), message));
    }

    fn unknown(&mut self, node: &Node, known: &[&str], owner: &str) {
        for (key, _) in node.entries() {
            let name = key.as_str().unwrap_or("~");
            if !known.iter().any(|known| same(known, name)) {
                let message =
                    format!("{owner} has the attribute `{name}`, which no ASD dialect defines");
                let finding = Finding::new(codes::ASD_UNKNOWN, key.span.clone(), message);
                self.sink
                    .add(finding.did_you_mean(name, known.iter().copied()));
            }
        }
    }
}

/// Determines the dialect by the node's type, else by properties that only one dialect has.
fn dialect(template: &Node, properties: &Node) -> AsdDialect {
    let has = |name: &str| properties.named().any(|(key, _)| key == name);
    let kind = template
        .get("type")
        .and_then(Node::as_str)
        .unwrap_or_default();
    if kind == "tosca.nodes.asd.Asd" || has("asdInvariantId") || has("asdApplicationSwVersion") {
        AsdDialect::ORan
    } else if has("descriptor_id") {
        AsdDialect::Field
    } else {
        AsdDialect::Draft
    }
}

fn ext_cpd(node: &Node) -> AsdExtCpd {
    let table = |names: &[&str]| {
        let all = field(node, names).into_iter().flat_map(Node::named);
        all.map(|(key, value)| (camel(key), value.texts()))
            .collect()
    };
    AsdExtCpd {
        id: text(node, &["id"]),
        description: text(node, &["description"]),
        virtual_link_requirement: field(node, &["virtualLinkRequirement"])
            .map(Node::texts)
            .unwrap_or_default(),
        interface_order: field(node, &["interfaceOrder"]).and_then(Node::as_u32),
        network_interface_requirements: table(&[
            "networkInterfaceRealizationRequirements",
            "networkInterfaceRequirements",
        ]),
        input_param_mappings: table(&["inputParamMappings"]),
        resource_mapping: text(node, &["resourceMapping"]),
    }
}

fn file_of(node: &Node) -> Option<&str> {
    node.get("file").unwrap_or(node).as_str()
}

/// The last part of a type's name.
fn base_name(kind: &str) -> &str {
    kind.rsplit_once('.').map_or(kind, |(_, name)| name)
}

//! Recognises descriptors of something other than a VNF: network services, physical network functions, models of ONAP SDC.

use super::documents::Document;
use crate::finding::{Finding, Span};
use crate::package_kind::found;
use crate::tosca_meta::Manifest;
use crate::yaml::Node;

const NSD: &str = "an NSD (network service descriptor)";
const SDC: &str = "a model of ONAP SDC (service or resource)";
const PNFD: &str = "a PNFD (physical network function descriptor)";

/// `metadata.type` of SDC's models.
const SDC_TYPES: &[&str] = &["Service", "VF", "VFC", "PNF", "CR"];

/// Beginnings of metadata in manifests.
const METADATA: &[(&str, &str)] = &[("nsd_", NSD), ("pnfd_", PNFD)];

/// Node types that occur in no VNFD.
const TYPES: &[(&str, &str)] = &[
    ("tosca.nodes.nfv.NS", NSD),
    ("tosca.nodes.nfv.NsVirtualLink", NSD),
    ("tosca.nodes.nfv.Sap", NSD),
    ("tosca.nodes.nfv.PNF", PNFD),
    ("tosca.nodes.nfv.PnfExtCp", PNFD),
];

/// The finding for a descriptor that describes no VNF, by the manifest's metadata or the types of its node templates.
pub(super) fn find(documents: &[Document], manifest: Option<&Manifest>) -> Option<Finding> {
    let entry = documents.first()?;
    let keys = manifest
        .into_iter()
        .flat_map(|manifest| manifest.metadata.keys());
    let stated = keys
        .filter_map(|key| METADATA.iter().find(|(prefix, _)| key.starts_with(prefix)))
        .map(|(_, what)| (*what, Span::file(&entry.path)))
        .next();
    let (what, span) = stated
        .or_else(|| of_templates(documents))
        .or_else(|| of_sdc(entry))?;
    let hint = match what {
        NSD => "give it to the NFVO; onboard the packages of its VNFs here",
        SDC => "use the package that was onboarded to SDC",
        _ => "a VNFM does not manage physical network functions",
    };
    Some(found(Some(span), what, hint))
}

/// SDC identifies its models in the metadata of their entry file.
fn of_sdc(entry: &Document) -> Option<(&'static str, Span)> {
    let metadata = entry.root.get("metadata")?;
    let kind = metadata.get("type").and_then(Node::as_str)?;
    let has_ids = ["invariantUUID", "UUID"].map(|name| metadata.get(name).is_some());
    let is_model = SDC_TYPES.contains(&kind) && has_ids == [true; 2];
    is_model.then(|| (SDC, metadata.span.clone()))
}

/// The kind that the node templates of the entry file show.
fn of_templates(documents: &[Document]) -> Option<(&'static str, Span)> {
    let root = &documents.first()?.root;
    let templates = root.at(&["topology_template", "node_templates"])?;
    let mut kinds = templates
        .named()
        .filter_map(|(_, template)| template.get("type"));
    kinds.find_map(|kind| {
        let ancestor = ancestors(kind.as_str()?, documents);
        let known = |name: &&str| TYPES.iter().find(|(known, _)| known == name);
        let (_, what) = ancestor.iter().find_map(known)?;
        Some((*what, kind.span.clone()))
    })
}

/// A node type's name and those of its parents, as far as the package's own files declare them.
fn ancestors<'a>(name: &'a str, documents: &'a [Document]) -> Vec<&'a str> {
    let mut all = vec![name];
    while let Some(parent) = all.last().and_then(|name| parent(name, documents))
        && !all.contains(&parent)
    {
        all.push(parent);
    }
    all
}

fn parent<'a>(name: &str, documents: &'a [Document]) -> Option<&'a str> {
    let mut types = documents
        .iter()
        .filter_map(|document| document.root.get("node_types"));
    let declared = types.find_map(|types| types.get(name))?;
    declared.get("derived_from").and_then(Node::as_str)
}

//! Builds the VNFD: its identity, and a flavour for each topology that substitutes the VNF.
//!
//! A property of the identity is taken from the first of these that has it: the flavour's VNF template,
//! the entry file's, the default in the VNF's type, the only valid value there.

use super::builder::Builder;
use super::functions::called;
use super::kind::Kind;
use super::template::VNF;
use super::topology::{Template, Topology};
use super::types::{Property, Types};
use crate::archive::Archive;
use crate::codes;
use crate::finding::Finding;
use crate::limits::Limits;
use crate::model::{Flavour, Vnfd};
use crate::sink::Sink;
use crate::yaml::Node;
use std::collections::BTreeMap;

/// The templates and declarations that are searched for a property of the VNF.
struct Identity<'t, 'a> {
    templates: Vec<&'t Template<'t>>,
    declared: Vec<BTreeMap<&'a str, Property<'a>>>,
}

impl Identity<'_, '_> {
    fn find(&self, name: &str) -> Option<&Node> {
        let assigned = self
            .templates
            .iter()
            .filter_map(|template| template.property(name))
            .find(|node| called(node).is_none());
        assigned.or_else(|| {
            self.declared
                .iter()
                .find_map(|declared| fixed(declared.get(name)?))
        })
    }

    fn text(&self, name: &str) -> Option<String> {
        self.find(name).and_then(Node::as_str).map(str::to_owned)
    }
}

/// A property's default, or its only valid value.
fn fixed<'a>(property: &Property<'a>) -> Option<&'a Node> {
    let only = || {
        let values = property
            .schema
            .constraints
            .iter()
            .find_map(|constraint| constraint.get("valid_values"))?;
        if let [only] = values.items() {
            Some(only)
        } else {
            None
        }
    };
    property
        .default
        .filter(|node| !node.is_null())
        .or_else(only)
}

/// Builds the VNFD; `None` if there is no VNF or no flavour, which is reported.
pub(super) fn build<'a>(
    topologies: &[Topology<'_>],
    types: &'a Types<'a>,
    (archive, limits): (&'a Archive, &'a Limits),
    sink: &mut Sink,
) -> Option<Vnfd> {
    let is_vnf = |template: &&Template| types.is_a(Kind::Node, &template.kind, VNF);
    let top = topologies
        .first()
        .and_then(|topology| topology.templates.iter().find(is_vnf));
    let mut chosen: Vec<&Topology<'_>> = topologies
        .iter()
        .filter(|topology| topology.substitution.is_some())
        .collect();
    if chosen.is_empty() {
        chosen = topologies
            .iter()
            .filter(|topology| topology.templates.iter().any(|template| is_vnf(&template)))
            .take(1)
            .collect();
    }
    if chosen.is_empty() {
        let span = topologies.first().map(|topology| topology.span.clone());
        let finding = Finding::new(codes::VNF_MISSING, span, "no node template is a VNF");
        sink.add(finding.hint("add a node template whose type derives from `tosca.nodes.nfv.VNF`"));
        return None;
    }
    let mut vnfd: Option<Vnfd> = None;
    let mut flavours = BTreeMap::new();
    for topology in chosen {
        let own = topology.templates.iter().find(is_vnf);
        let identity = identity(topology, own, top, types, sink);
        let mut builder = Builder {
            types,
            archive,
            limits,
            sink,
        };
        if let Some(flavour) = builder.flavour(topology, own, &identity) {
            check_unique(&flavours, &flavour, topology, builder.sink);
            flavours.insert(flavour.id.clone(), flavour);
        }
        let found = builder.identify(topology, &identity);
        match &vnfd {
            Some(first) if first.descriptor_id != found.descriptor_id => {
                let message = format!(
                    "this flavour belongs to `{}`, others to `{}`",
                    found.descriptor_id, first.descriptor_id
                );
                sink.add(
                    Finding::new(codes::VNF_PROPERTY, topology.span.clone(), message)
                        .hint("all flavours of a package have the same `descriptor_id`"),
                );
            }
            Some(_) => {}
            None => vnfd = Some(found),
        }
    }
    vnfd.map(|vnfd| Vnfd { flavours, ..vnfd })
}

fn check_unique(
    flavours: &BTreeMap<String, Flavour>,
    flavour: &Flavour,
    topology: &Topology<'_>,
    sink: &mut Sink,
) {
    if let Some(other) = flavours.get(&flavour.id) {
        let message = format!(
            "flavour `{}` is already described by `{}`",
            flavour.id, other.file
        );
        sink.add(Finding::new(codes::FLAVOUR, topology.span.clone(), message));
    }
}

fn identity<'t, 'a>(
    topology: &'t Topology<'_>,
    own: Option<&'t Template<'t>>,
    top: Option<&'t Template<'t>>,
    types: &'a Types<'a>,
    sink: &mut Sink,
) -> Identity<'t, 'a> {
    let templates: Vec<&Template> = own.into_iter().chain(top).collect();
    let mut kinds: Vec<&str> = templates
        .iter()
        .map(|template| template.kind.as_str())
        .collect();
    let substituted = topology
        .substitution
        .as_ref()
        .and_then(|substitution| substitution.get("node_type"));
    if let Some(node_type) =
        substituted.filter(|node_type| types.known(Kind::Node, node_type, sink))
    {
        let name = node_type.as_str().unwrap_or_default();
        if let Some(template) = own.filter(|own| {
            !types.is_a(Kind::Node, name, &own.kind) && !types.is_a(Kind::Node, &own.kind, name)
        }) {
            let message = format!(
                "`{name}` is substituted, but the VNF is a `{}`",
                template.kind
            );
            sink.add(
                Finding::new(codes::SUBSTITUTION, node_type.span.clone(), message)
                    .hint("derive one of the types from the other"),
            );
        }
        kinds.push(name);
    }
    kinds.dedup();
    Identity {
        templates,
        declared: kinds
            .into_iter()
            .map(|kind| types.properties(Kind::Node, kind))
            .collect(),
    }
}

impl Builder<'_, '_> {
    fn identify(&mut self, topology: &Topology<'_>, identity: &Identity<'_, '_>) -> Vnfd {
        let mut required = |name: &str| {
            let found = identity.text(name);
            if found.is_none() {
                let span = identity
                    .templates
                    .first()
                    .map_or_else(|| topology.span.clone(), |template| template.span.clone());
                let finding = Finding::new(
                    codes::VNF_PROPERTY,
                    span,
                    format!("the VNF's `{name}` is missing"),
                );
                self.sink.add(
                    finding
                        .hint("set it in the VNF's node template, or as the default in its type"),
                );
            }
            found.unwrap_or_default()
        };
        let vnfm_info = identity.find("vnfm_info");
        Vnfd {
            sol001_version: None,
            descriptor_id: required("descriptor_id"),
            descriptor_version: required("descriptor_version"),
            provider: required("provider"),
            product_name: required("product_name"),
            software_version: required("software_version"),
            product_info_name: identity.text("product_info_name"),
            product_info_description: identity.text("product_info_description"),
            vnfm_info: vnfm_info.map(Node::texts).unwrap_or_default(),
            node_type: identity
                .templates
                .first()
                .map(|template| template.kind.clone())
                .unwrap_or_default(),
            flavours: BTreeMap::new(),
        }
    }

    fn flavour(
        &mut self,
        topology: &Topology<'_>,
        own: Option<&Template>,
        identity: &Identity<'_, '_>,
    ) -> Option<Flavour> {
        let id = self.flavour_id(topology, identity)?;
        let resources = self.resources(topology);
        let mut flavour = Flavour {
            id,
            description: identity.text("flavour_description").unwrap_or_default(),
            file: topology.path.to_owned(),
            vdus: resources.vdus,
            external_cps: resources.external_cps,
            cps: resources.cps,
            virtual_links: resources.virtual_links,
            storages: resources.storages,
            scaling_aspects: BTreeMap::new(),
            instantiation_levels: BTreeMap::new(),
            default_level: None,
            initial_deltas: BTreeMap::new(),
            affinity_rules: Vec::new(),
            hooks: own.map(|own| self.hooks(topology, own)).unwrap_or_default(),
            additional_params: own
                .map(|own| self.additional_params(own))
                .unwrap_or_default(),
            modifiable_attributes: identity.find("modifiable_attributes").map(Node::to_json),
            modifiable_types: own
                .map(|own| self.modifiable_types(&own.kind))
                .unwrap_or_default(),
            lcm_operations_configuration: identity
                .find("lcm_operations_configuration")
                .map(Node::to_json),
            lcm: super::lifecycle::configuration(identity.find("lcm_operations_configuration")),
            monitoring_parameters: Vec::new(),
            indicators: Vec::new(),
            security_group_rules: Vec::new(),
            supported_interfaces: Vec::new(),
            package_changes: Vec::new(),
            containers: resources.containers,
            mciops: resources.mciops,
            workloads: None,
        };
        flavour.modifiable_attributes = flavour
            .modifiable_attributes
            .or_else(|| own.and_then(|own| self.modifiable_defaults(&own.kind)));
        self.helm_mappings(topology, &mut flavour);
        self.policies(topology, &mut flavour);
        self.workloads(topology, &mut flavour);
        self.lifecycle(
            topology,
            identity.find("monitoring_parameters"),
            &mut flavour,
        );
        self.check_mapped_requirements(topology, own);
        Some(flavour)
    }

    /// The flavour's identifier, from the substitution or the VNF; its absence is reported.
    fn flavour_id(
        &mut self,
        topology: &Topology<'_>,
        identity: &Identity<'_, '_>,
    ) -> Option<String> {
        let stated = topology
            .substitution
            .as_ref()
            .and_then(|substitution| substitution.at(&["properties", "flavour_id"]))
            .map(|node| node.items().first().unwrap_or(node))
            .and_then(Node::as_str)
            .map(str::to_owned);
        let id = stated.or_else(|| identity.text("flavour_id"));
        if id.is_none() {
            let finding = Finding::new(
                codes::FLAVOUR,
                topology.span.clone(),
                "the deployment flavour has no identifier",
            );
            self.sink.add(
                finding.hint("set it with `substitution_mappings: {properties: {flavour_id: …}}`"),
            );
        }
        id
    }

    /// The VNF's type declares the mapped requirements. Only a warning, since Tacker's samples map others.
    fn check_mapped_requirements(&mut self, topology: &Topology<'_>, own: Option<&Template>) {
        let Some(substitution) = &topology.substitution else {
            return;
        };
        let node_type = substitution
            .get("node_type")
            .and_then(Node::as_str)
            .or(own.map(|own| own.kind.as_str()))
            .unwrap_or_default();
        let declared = self.types.requirements(node_type);
        if declared.is_empty() {
            return;
        }
        for (key, _) in super::topology::listed(substitution.get("requirements")) {
            let name = key.as_str().unwrap_or("~");
            if !declared.contains_key(name) {
                let message = format!("`{node_type}` does not declare a requirement `{name}`");
                let finding =
                    Finding::new(codes::REQUIREMENT_UNDECLARED, key.span.clone(), message);
                self.sink
                    .add(finding.did_you_mean(name, declared.keys().copied()));
            }
        }
    }
}

//! Doubts about a descriptor that can be read: nothing here refuses a package.
//!
//! | file | asks |
//! |---|---|
//! | `names` | are all keys known, do defaults fit, is everything that is named there, and used |
//! | `wiring` | requirements' occurrences, connection points, links, storages, containers |
//! | `addresses` | subnets, gateways, ranges |
//! | `scaling` | aspects, deltas, levels, initial deltas |
//! | `placement` | affinity, targets of policies, security groups |
//! | `images` | images, checksums, what a virtual machine needs |
//! | `charts` | Mciops, their charts, the deployable units that those bring |
//! | `hooks` | artifacts and their runners, time limits, what SOL001 wants of a VNF |

mod addresses;
mod charts;
mod hooks;
mod images;
mod names;
mod placement;
mod scaling;
mod wiring;

use super::topology::{Policy, Template, Topology};
use super::types::{Kind, Types};
use super::{documents, topology};
use crate::archive::Archive;
use crate::finding::{Finding, Sink};
use crate::limits::Limits;
use crate::yaml::Node;

/// Asks everything that there is to ask; what the reading of the descriptor says is not said again.
pub(crate) fn rules(
    archive: &Archive,
    entry: &str,
    compatible: Option<&str>,
    limits: &Limits,
    sink: &mut Sink,
) {
    let mut quiet = Sink::default();
    let Some(documents::Loaded { documents, said }) =
        documents::load(archive, entry, limits, &mut quiet)
    else {
        return;
    };
    if documents.first().and_then(super::asd::template).is_some() {
        return;
    }
    let version = super::version::choose(&said, compatible, &mut quiet);
    let types = Types::collect(&documents, version, &mut quiet);
    for document in documents.iter().filter(|document| !document.copy) {
        crate::lint::traps(&document.root, &["tosca_definitions_version"], sink);
        names::check(document, &types, sink);
    }
    let topologies: Vec<Topology<'_>> = documents
        .iter()
        .filter_map(|document| topology::Topology::read(document, &types, &mut quiet))
        .collect();
    for topology in &topologies {
        let mut rules = Rules { topology, types: &types, archive, limits, sink };
        rules.wiring();
        rules.addresses();
        rules.scaling();
        rules.placement();
        rules.images();
        rules.charts();
        rules.hooks();
    }
    hooks::required(&topologies, &types, sink);
}

/// The rules of one topology.
struct Rules<'a, 's> {
    topology: &'a Topology<'a>,
    types: &'a Types<'a>,
    archive: &'a Archive,
    limits: &'a Limits,
    sink: &'s mut Sink,
}

impl<'a> Rules<'a, '_> {
    /// The node templates of a type, by the part of its name behind `tosca.nodes.nfv.`.
    fn of(&self, kind: &str) -> Vec<&'a Template<'a>> {
        let kind = format!("tosca.nodes.nfv.{kind}");
        let is = |template: &&Template| self.types.is_a(Kind::Node, &template.kind, &kind);
        self.topology.templates.iter().filter(is).collect()
    }

    /// Virtual machines and deployable units.
    fn vdus(&self) -> Vec<&'a Template<'a>> {
        let mut vdus = self.of("Vdu.Compute");
        vdus.extend(self.of("Vdu.OsContainerDeployableUnit"));
        vdus
    }

    /// The policies of a type, by the part of its name behind `tosca.policies.nfv.`.
    fn policies(&self, kind: &str) -> Vec<&'a Policy<'a>> {
        let kind = format!("tosca.policies.nfv.{kind}");
        let is = |policy: &&Policy| self.types.is_a(Kind::Policy, &policy.kind, &kind);
        self.topology.policies.iter().filter(is).collect()
    }

    /// Whether the package brings Heat templates, which say more than the descriptor.
    fn has_base_hot(&self) -> bool {
        self.archive.paths().any(|path| path.starts_with("BaseHOT/"))
    }

    fn say(&mut self, code: &'static str, at: &Node, message: String) {
        self.sink.add(Finding::new(code, at.span.clone(), message));
    }

    /// The node templates that the VNF's requirements are mapped to, with the requirement there.
    fn mapped(&self) -> Vec<(&'a str, &'a str)> {
        let requirements =
            self.topology.substitution.as_ref().and_then(|mappings| mappings.get("requirements"));
        let pair = |target: &'a Node| match target.items() {
            [node, requirement, ..] => Some((node.as_str()?, requirement.as_str()?)),
            _ => target.as_str().map(|node| (node, "")),
        };
        topology::listed(requirements).into_iter().filter_map(|(_, target)| pair(target)).collect()
    }
}

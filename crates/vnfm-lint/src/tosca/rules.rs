//! What the rules of one topology share.

use std::collections::BTreeMap;
use vnfm_descriptor::raw::{Archive, Kind, Node, Policy, Sink, Template, Topology, Types, listed};
use vnfm_descriptor::{Finding, Limits};

/// The rules of one topology.
pub(super) struct Rules<'a, 's> {
    pub(super) topology: &'a Topology<'a>,
    pub(super) types: &'a Types<'a>,
    pub(super) archive: &'a Archive,
    pub(super) limits: &'a Limits,
    pub(super) files: &'s mut FileCache,
    pub(super) sink: &'s mut Sink,
}

/// Results for files of the package. Thousands of templates may name the same file, and reading a large
/// one takes seconds, so each is read once.
#[derive(Default)]
pub(super) struct FileCache {
    /// Hashes, by path and the algorithm's name; `None` if the file cannot be read.
    pub(super) hashes: BTreeMap<(String, &'static str), Option<String>>,
    /// By path, why the file is not a chart; `None` if it is one.
    pub(super) charts: BTreeMap<String, Option<String>>,
    /// By path, the first line of a script with a Windows line ending; `None` if there is none.
    pub(super) scripts: BTreeMap<String, Option<usize>>,
}

impl<'a> Rules<'a, '_> {
    /// The node templates of a type, given without its prefix `tosca.nodes.nfv.`.
    pub(super) fn templates_of(&self, kind: &str) -> Vec<&'a Template<'a>> {
        let kind = format!("tosca.nodes.nfv.{kind}");
        let is = |template: &&Template| self.types.is_a(Kind::Node, &template.kind, &kind);
        self.topology.templates.iter().filter(is).collect()
    }

    /// Virtual machines and deployable units.
    pub(super) fn vdus(&self) -> Vec<&'a Template<'a>> {
        let mut vdus = self.templates_of("Vdu.Compute");
        vdus.extend(self.templates_of("Vdu.OsContainerDeployableUnit"));
        vdus
    }

    /// The policies of a type, given without its prefix `tosca.policies.nfv.`.
    pub(super) fn policies(&self, kind: &str) -> Vec<&'a Policy<'a>> {
        let kind = format!("tosca.policies.nfv.{kind}");
        let is = |policy: &&Policy| self.types.is_a(Kind::Policy, &policy.kind, &kind);
        self.topology.policies.iter().filter(is).collect()
    }

    /// Whether the package has Heat templates, which may give what the descriptor lacks.
    pub(super) fn has_base_hot(&self) -> bool {
        self.archive
            .paths()
            .any(|path| path.starts_with("BaseHOT/"))
    }

    pub(super) fn report(&mut self, code: &'static str, at: &Node, message: String) {
        self.sink.add(Finding::new(code, at.span.clone(), message));
    }

    /// The node templates to which the VNF's requirements are mapped, each with its own requirement.
    pub(super) fn mapped(&self) -> Vec<(&'a str, &'a str)> {
        let requirements = self
            .topology
            .substitution
            .as_ref()
            .and_then(|mappings| mappings.get("requirements"));
        let pair = |target: &'a Node| match target.items() {
            [node, requirement, ..] => Some((node.as_str()?, requirement.as_str()?)),
            _ => target.as_str().map(|node| (node, "")),
        };
        listed(requirements)
            .into_iter()
            .filter_map(|(_, target)| pair(target))
            .collect()
    }
}

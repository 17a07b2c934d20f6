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
use std::collections::BTreeMap;

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
    let mut looked = Looked::default();
    for topology in &topologies {
        let looked = &mut looked;
        let mut rules = Rules {
            topology,
            types: &types,
            archive,
            limits,
            looked,
            sink,
        };
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
    looked: &'s mut Looked,
    sink: &'s mut Sink,
}

/// What is known of files of the package. Thousands of templates may name one file, and reading a large one takes
/// seconds: it is read for the first of them only.
#[derive(Default)]
struct Looked {
    /// Hashes, by path and the algorithm's name; `None` where the file cannot be read.
    hashes: BTreeMap<(String, &'static str), Option<String>>,
    /// By path, why the file is no chart; `None` where it is one.
    charts: BTreeMap<String, Option<String>>,
    /// By path, the first line of a script that ends as on Windows; `None` where no line does.
    scripts: BTreeMap<String, Option<usize>>,
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
        self.archive
            .paths()
            .any(|path| path.starts_with("BaseHOT/"))
    }

    fn say(&mut self, code: &'static str, at: &Node, message: String) {
        self.sink.add(Finding::new(code, at.span.clone(), message));
    }

    /// The node templates that the VNF's requirements are mapped to, with the requirement there.
    fn mapped(&self) -> Vec<(&'a str, &'a str)> {
        let requirements = self
            .topology
            .substitution
            .as_ref()
            .and_then(|mappings| mappings.get("requirements"));
        let pair = |target: &'a Node| match target.items() {
            [node, requirement, ..] => Some((node.as_str()?, requirement.as_str()?)),
            _ => target.as_str().map(|node| (node, "")),
        };
        topology::listed(requirements)
            .into_iter()
            .filter_map(|(_, target)| pair(target))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::archive::Algorithm;
    use crate::finding::codes;
    use std::io::{Cursor, Write as _};
    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    fn archive(files: &[(&str, &str)]) -> Archive {
        let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
        for (name, text) in files {
            zip.start_file(*name, SimpleFileOptions::default()).unwrap();
            zip.write_all(text.as_bytes()).unwrap();
        }
        let zipped = zip.finish().unwrap().into_inner();
        Archive::bytes(zipped.into(), &Limits::default(), &mut Sink::default()).unwrap()
    }

    /// The other archive lacks the files: who reads one again gives another answer.
    #[test]
    fn a_file_is_read_for_the_first_that_names_it() {
        let limits = Limits::default();
        let first = archive(&[
            ("web.tgz", "text"),
            ("web.img", "test"),
            ("a.sh", "a\nb\r\n"),
        ]);
        let other = archive(&[("else", "")]);
        let mut looked = Looked::default();
        let why = looked
            .no_chart(&first, &limits, "web.tgz")
            .map(str::to_owned);
        assert!(why.is_some());
        assert_eq!(looked.no_chart(&other, &limits, "web.tgz"), why.as_deref());
        for (algorithm, digits) in [(Algorithm::Sha256, 64), (Algorithm::Sha512, 128)] {
            let hash = looked.hash(&first, "web.img", algorithm).map(str::to_owned);
            assert_eq!(hash.as_ref().map(String::len), Some(digits));
            assert_eq!(looked.hash(&other, "web.img", algorithm), hash.as_deref());
        }
        assert_eq!(looked.windows_line(&first, &limits, "a.sh"), Some(2));
        assert_eq!(looked.windows_line(&other, &limits, "a.sh"), Some(2));
    }

    /// A descriptor with two Mciops of one chart, which is none.
    const TWICE: &str = "tosca_definitions_version: tosca_simple_yaml_1_3
imports: [etsi_nfv_sol001_vnfd_types.yaml]
topology_template:
  node_templates:
    one:
      type: tosca.nodes.nfv.Mciop
      artifacts: {chart: {type: tosca.artifacts.nfv.HelmChart, file: web.tgz}}
    two:
      type: tosca.nodes.nfv.Mciop
      artifacts: {chart: {type: tosca.artifacts.nfv.HelmChart, file: web.tgz}}
";

    #[test]
    fn every_template_is_told_of_a_file_that_is_read_once() {
        let archive = archive(&[("vnfd.yaml", TWICE), ("web.tgz", "text")]);
        let mut sink = Sink::default();
        rules(&archive, "vnfd.yaml", None, &Limits::default(), &mut sink);
        let found = sink.all();
        let told = found
            .iter()
            .filter(|finding| finding.code == codes::CHART_FILE)
            .count();
        assert_eq!(told, 2, "{found:?}");
    }
}

//! Warnings about a descriptor that can be read: nothing here refuses a package.
//!
//! | file | checks |
//! |---|---|
//! | `names` | unknown keys, constraints, unused inputs, references |
//! | `wiring` | occurrences of requirements, connection points, links, storages, containers |
//! | `addresses` | subnets, gateways, ranges |
//! | `scaling` | aspects, deltas, levels, initial deltas |
//! | `placement` | affinity, targets of policies, security groups |
//! | `images` | images, checksums, CPUs and memory of virtual machines |
//! | `charts` | Mciops, their charts and deployable units |
//! | `hooks` | artifacts and their runners, timeouts, mandatory properties of the VNF |

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

/// Applies all rules. Findings of reading the descriptor are not reported again.
pub(crate) fn rules(
    archive: &Archive,
    entry: &str,
    compatible: Option<&str>,
    limits: &Limits,
    sink: &mut Sink,
) {
    let mut quiet = Sink::default();
    let Some(documents::Loaded {
        documents,
        versions,
    }) = documents::load(archive, entry, limits, &mut quiet)
    else {
        return;
    };
    if documents.first().and_then(super::asd::template).is_some() {
        return;
    }
    let version = super::version::choose(&versions, compatible, &mut quiet);
    let types = Types::collect(&documents, version, &mut quiet);
    for document in documents.iter().filter(|document| !document.copy) {
        crate::lint::traps(&document.root, &["tosca_definitions_version"], sink);
        names::check(document, &types, sink);
    }
    let topologies: Vec<Topology<'_>> = documents
        .iter()
        .filter_map(|document| topology::Topology::read(document, &types, &mut quiet))
        .collect();
    let mut files = FileCache::default();
    for topology in &topologies {
        let mut rules = Rules {
            topology,
            types: &types,
            archive,
            limits,
            files: &mut files,
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
    files: &'s mut FileCache,
    sink: &'s mut Sink,
}

/// Results for files of the package. Thousands of templates may name the same file, and reading a large
/// one takes seconds, so each is read once.
#[derive(Default)]
struct FileCache {
    /// Hashes, by path and the algorithm's name; `None` if the file cannot be read.
    hashes: BTreeMap<(String, &'static str), Option<String>>,
    /// By path, why the file is not a chart; `None` if it is one.
    charts: BTreeMap<String, Option<String>>,
    /// By path, the first line of a script with a Windows line ending; `None` if there is none.
    scripts: BTreeMap<String, Option<usize>>,
}

impl<'a> Rules<'a, '_> {
    /// The node templates of a type, given without its prefix `tosca.nodes.nfv.`.
    fn templates_of(&self, kind: &str) -> Vec<&'a Template<'a>> {
        let kind = format!("tosca.nodes.nfv.{kind}");
        let is = |template: &&Template| self.types.is_a(Kind::Node, &template.kind, &kind);
        self.topology.templates.iter().filter(is).collect()
    }

    /// Virtual machines and deployable units.
    fn vdus(&self) -> Vec<&'a Template<'a>> {
        let mut vdus = self.templates_of("Vdu.Compute");
        vdus.extend(self.templates_of("Vdu.OsContainerDeployableUnit"));
        vdus
    }

    /// The policies of a type, given without its prefix `tosca.policies.nfv.`.
    fn policies(&self, kind: &str) -> Vec<&'a Policy<'a>> {
        let kind = format!("tosca.policies.nfv.{kind}");
        let is = |policy: &&Policy| self.types.is_a(Kind::Policy, &policy.kind, &kind);
        self.topology.policies.iter().filter(is).collect()
    }

    /// Whether the package has Heat templates, which may give what the descriptor lacks.
    fn has_base_hot(&self) -> bool {
        self.archive
            .paths()
            .any(|path| path.starts_with("BaseHOT/"))
    }

    fn report(&mut self, code: &'static str, at: &Node, message: String) {
        self.sink.add(Finding::new(code, at.span.clone(), message));
    }

    /// The node templates to which the VNF's requirements are mapped, each with its own requirement.
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

    /// The other archive lacks the files, so reading a second time would give another result.
    #[test]
    fn each_file_is_read_once() {
        let limits = Limits::default();
        let first = archive(&[
            ("web.tgz", "text"),
            ("web.img", "test"),
            ("a.sh", "a\nb\r\n"),
        ]);
        let other = archive(&[("else", "")]);
        let mut files = FileCache::default();
        let reason = files
            .chart_error(&first, &limits, "web.tgz")
            .map(str::to_owned);
        assert!(reason.is_some());
        assert_eq!(
            files.chart_error(&other, &limits, "web.tgz"),
            reason.as_deref()
        );
        for (algorithm, digits) in [(Algorithm::Sha256, 64), (Algorithm::Sha512, 128)] {
            let hash = files.hash(&first, "web.img", algorithm).map(str::to_owned);
            assert_eq!(hash.as_ref().map(String::len), Some(digits));
            assert_eq!(files.hash(&other, "web.img", algorithm), hash.as_deref());
        }
        assert_eq!(files.windows_line(&first, &limits, "a.sh"), Some(2));
        assert_eq!(files.windows_line(&other, &limits, "a.sh"), Some(2));
    }

    /// A descriptor with two Mciops that name the same file, which is not a chart.
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
    fn every_template_that_names_a_bad_file_gets_a_finding() {
        let archive = archive(&[("vnfd.yaml", TWICE), ("web.tgz", "text")]);
        let mut sink = Sink::default();
        rules(&archive, "vnfd.yaml", None, &Limits::default(), &mut sink);
        let found = sink.all();
        let reported = found
            .iter()
            .filter(|finding| finding.code == codes::CHART_FILE)
            .count();
        assert_eq!(reported, 2, "{found:?}");
    }
}

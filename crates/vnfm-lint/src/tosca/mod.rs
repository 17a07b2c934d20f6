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
mod rules;
mod scaling;
mod wiring;

use crate::scalars::traps;
use rules::{FileCache, Rules};
use vnfm_descriptor::Limits;
use vnfm_descriptor::raw::{Archive, Meta, Origin, Sink, Sources};

/// Applies all rules. Findings of reading the descriptor are not reported again.
pub(crate) fn check(archive: &Archive, meta: &Meta, limits: &Limits, sink: &mut Sink) {
    let mut quiet = Sink::default();
    let sources = Sources::load(archive, meta, limits, &mut quiet);
    let Some(sources) = sources.filter(|sources| !sources.is_asd()) else {
        return;
    };
    let types = sources.types(&mut quiet);
    for document in sources
        .documents()
        .iter()
        .filter(|document| document.origin == Origin::Package)
    {
        traps(&document.root, &["tosca_definitions_version"], sink);
        names::check(document, &types, sink);
    }
    let topologies = sources.topologies(&types, &mut quiet);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::explain::codes;
    use std::io::{Cursor, Write as _};
    use vnfm_descriptor::raw::{Algorithm, examine};
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
            .map(ToOwned::to_owned);
        assert!(reason.is_some());
        assert_eq!(
            files.chart_error(&other, &limits, "web.tgz"),
            reason.as_deref()
        );
        for (algorithm, digits) in [(Algorithm::Sha256, 64), (Algorithm::Sha512, 128)] {
            let hash = files
                .hash(&first, "web.img", algorithm)
                .map(ToOwned::to_owned);
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
        let limits = Limits::default();
        let meta = examine(&archive, &limits, &mut Sink::default())
            .meta
            .unwrap();
        check(&archive, &meta, &limits, &mut sink);
        let found = sink.all();
        let reported = found
            .iter()
            .filter(|finding| finding.code == codes::CHART_FILE)
            .count();
        assert_eq!(reported, 2, "{found:?}");
    }
}

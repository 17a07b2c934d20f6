//! Mciops: the charts that they name, and the deployable units that those bring (SOL001 from V4.2.1 on).

use super::super::topology::Template;
use super::super::types::Kind;
use super::{Looked, Rules};
use crate::archive::Archive;
use crate::finding::{Finding, codes};
use crate::limits::Limits;
use crate::order::ORDER_FILE;
use crate::path::has_extension;
use crate::yaml::Node;

const HELM_CHART: &str = "tosca.artifacts.nfv.HelmChart";

impl<'a> Rules<'a, '_> {
    pub(super) fn charts(&mut self) {
        let mciops = self.of("Mciop");
        for mciop in mciops.iter().copied() {
            let files = self.chart_files(mciop);
            if files.is_empty() {
                let message = format!("Mciop `{}` names no chart", mciop.name);
                let finding = Finding::new(codes::MCIOP, mciop.span.clone(), message);
                self.sink
                    .add(finding.hint(format!("an artifact of type `{HELM_CHART}` names it")));
            }
            for file in files {
                self.chart_file(file);
            }
        }
        self.brought(&mciops);
    }

    /// The files of a Mciop that are charts by their type or name.
    fn chart_files(&self, mciop: &'a Template<'a>) -> Vec<&'a Node> {
        let artifacts = mciop
            .node
            .get("artifacts")
            .into_iter()
            .flat_map(Node::named);
        let file = |node: &'a Node| node.get("file").or_else(|| node.as_str().map(|_| node));
        let chart = |node: &'a Node| {
            let kind = node.get("type").and_then(Node::as_str).unwrap_or_default();
            let file = file(node)?;
            let packed = has_extension(file.as_str()?, &["tgz"]);
            (packed || self.types.is_a(Kind::Artifact, kind, HELM_CHART)).then_some(file)
        };
        artifacts.filter_map(|(_, node)| chart(node)).collect()
    }

    /// A chart of the package can be read; one that lies in a registry is nothing to look at here.
    fn chart_file(&mut self, file: &'a Node) {
        let text = file.as_str().unwrap_or_default();
        if text.contains("://") {
            return;
        }
        let Some(path) = self.path_of(file) else {
            let message = format!("the chart `{text}` is not in the package");
            let finding = Finding::new(codes::CHART_FILE, file.span.clone(), message);
            return self
                .sink
                .add(finding.did_you_mean(text, self.archive.paths()));
        };
        if let Some(why) = self.looked.no_chart(self.archive, self.limits, &path) {
            let message = format!("`{text}` is no Helm chart: {why}");
            let finding = Finding::new(codes::CHART_FILE, file.span.clone(), message);
            self.sink.add(finding.hint("`helm package` makes one"));
        }
    }

    /// Where there are Mciops, each deployable unit is brought by one of them, or by the manifests.
    fn brought(&mut self, mciops: &[&'a Template<'a>]) {
        if mciops.is_empty() {
            return;
        }
        for vdu in self.of("Vdu.OsContainerDeployableUnit") {
            let brings = |mciop: &&&Template<'_>| {
                let mut units = mciop.targets("associatedVdu").filter_map(Node::as_str);
                units.any(|unit| unit == vdu.name)
            };
            let by: Vec<&str> = mciops
                .iter()
                .filter(brings)
                .map(|mciop| mciop.name.as_str())
                .collect();
            let (message, hint) = match by[..] {
                [_] => continue,
                [] if self.archive.has(ORDER_FILE) => continue,
                [] => (
                    format!("no Mciop brings VDU `{}`", vdu.name),
                    format!(
                        "write `- associatedVdu: {}` below its `requirements`",
                        vdu.name
                    ),
                ),
                _ => (
                    format!(
                        "VDU `{}` is brought by Mciops `{}`",
                        vdu.name,
                        by.join("` and `")
                    ),
                    "one chart makes a workload".to_owned(),
                ),
            };
            let finding = Finding::new(codes::MCIOP, vdu.span.clone(), message);
            self.sink.add(finding.hint(hint));
        }
    }
}

impl Looked {
    /// Why a file is no chart; `None` where it is one.
    pub(super) fn no_chart(
        &mut self,
        archive: &Archive,
        limits: &Limits,
        path: &str,
    ) -> Option<&str> {
        let look = || {
            let bytes = archive
                .read(path, limits.file_bytes)
                .map_err(|error| error.to_string());
            bytes
                .and_then(|bytes| crate::chart::read(&bytes, limits))
                .err()
        };
        self.charts
            .entry(path.to_owned())
            .or_insert_with(look)
            .as_deref()
    }
}

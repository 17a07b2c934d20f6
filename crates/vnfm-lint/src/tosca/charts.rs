//! Mciops, their charts, and the deployable units that the charts deploy (SOL001 from V4.2.1).

use super::rules::{FileCache, Rules};
use crate::explain::codes;
use vnfm_descriptor::raw::{Archive, Kind, Node, Template, has_extension};
use vnfm_descriptor::{Chart, Finding, Limits, ORDER_FILE};

const HELM_CHART: &str = "tosca.artifacts.nfv.HelmChart";

impl<'a> Rules<'a, '_> {
    pub(super) fn charts(&mut self) {
        let mciops = self.templates_of("Mciop");
        for mciop in mciops.iter().copied() {
            let files = self.chart_files(mciop);
            if files.is_empty() {
                let message = format!("Mciop `{}` names no chart", mciop.name);
                let finding = Finding::new(codes::MCIOP, mciop.span.clone(), message);
                self.sink
                    .add(finding.hint(format!("add an artifact of type `{HELM_CHART}`")));
            }
            for file in files {
                self.chart_file(file);
            }
        }
        self.deployed_units(&mciops);
    }

    /// The files of a Mciop that are charts by type or extension.
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

    /// Checks a chart in the package; a chart in a registry is not checked.
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
        if let Some(reason) = self.files.chart_error(self.archive, self.limits, &path) {
            let message = format!("`{text}` is not a Helm chart: {reason}");
            let finding = Finding::new(codes::CHART_FILE, file.span.clone(), message);
            self.sink.add(finding.hint("create it with `helm package`"));
        }
    }

    /// If there are Mciops, each deployable unit belongs to exactly one, or the manifests deploy it.
    fn deployed_units(&mut self, mciops: &[&'a Template<'a>]) {
        if mciops.is_empty() {
            return;
        }
        for vdu in self.templates_of("Vdu.OsContainerDeployableUnit") {
            let deploys = |mciop: &&&Template<'_>| {
                let mut units = mciop.targets("associatedVdu").filter_map(Node::as_str);
                units.any(|unit| unit == vdu.name)
            };
            let by: Vec<&str> = mciops
                .iter()
                .filter(deploys)
                .map(|mciop| mciop.name.as_str())
                .collect();
            let (message, hint) = match by[..] {
                [_] => continue,
                [] if self.archive.has(ORDER_FILE) => continue,
                [] => (
                    format!("no Mciop deploys VDU `{}`", vdu.name),
                    format!(
                        "add `- associatedVdu: {}` to the `requirements` of a Mciop",
                        vdu.name
                    ),
                ),
                _ => (
                    format!(
                        "VDU `{}` is deployed by several Mciops: `{}`",
                        vdu.name,
                        by.join("`, `")
                    ),
                    "let one chart deploy it".to_owned(),
                ),
            };
            let finding = Finding::new(codes::MCIOP, vdu.span.clone(), message);
            self.sink.add(finding.hint(hint));
        }
    }
}

impl FileCache {
    /// Why a file is not a chart; `None` if it is one.
    pub(super) fn chart_error(
        &mut self,
        archive: &Archive,
        limits: &Limits,
        path: &str,
    ) -> Option<&str> {
        let read = || {
            let bytes = archive
                .read(path, limits.file_bytes)
                .map_err(|error| error.to_string());
            bytes
                .and_then(|bytes| Chart::read(&bytes, limits).map_err(|error| error.to_string()))
                .err()
        };
        self.charts
            .entry(path.to_owned())
            .or_insert_with(read)
            .as_deref()
    }
}

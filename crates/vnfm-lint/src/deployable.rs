//! Finds flavours that no driver can deploy, before an instantiation does.

use crate::explain::codes;
use crate::source::Source;
use vnfm_descriptor::raw::{Parts, Sink, base, has_extension};
use vnfm_descriptor::{Finding, Flavour, Span, VduKind};

/// Checks that each flavour has something to deploy: servers, a Base HOT, manifests or charts.
pub(crate) fn check(source: &Source<'_>, read: &Parts, sink: &mut Sink) {
    let Some(vnfd) = read.vnfd.as_ref().filter(|_| read.asd.is_none()) else {
        return;
    };
    if read.order.is_some() {
        return;
    }
    let mut flavours = vnfd.flavours.values();
    let empty: Vec<&Flavour> = flavours
        .by_ref()
        .filter(|flavour| !has_own(flavour) && !read.has_base_hot(&flavour.id))
        .collect();
    if empty.is_empty() || has_workloads(source) {
        return;
    }
    for flavour in empty {
        let message = format!("no driver can deploy flavour `{}`", flavour.id);
        let finding = Finding::new(codes::DEPLOY_NONE, Span::file(&flavour.file), message);
        sink.add(finding.hint(
            "add servers (`Vdu.Compute`), a Base HOT, an order file with manifests, or Mciops with charts",
        ));
    }
}

/// Whether the descriptor itself says what to deploy.
fn has_own(flavour: &Flavour) -> bool {
    let mut vdus = flavour.vdus.values();
    vdus.any(|vdu| vdu.kind == VduKind::Compute)
        || flavour.mciops.values().any(|mciop| !mciop.files.is_empty())
}

/// Whether the package has charts or manifests, which a request may name.
fn has_workloads(source: &Source<'_>) -> bool {
    let is_chart = |path: &&str| has_extension(path, &["tgz"]) || base(path) == "Chart.yaml";
    let is_manifest = |path| {
        let text = source.text(path).unwrap_or_default();
        text.lines().any(|line| line.starts_with("apiVersion:"))
    };
    source.paths.iter().any(is_chart) || source.yaml_paths().any(is_manifest)
}
